# SPDX-License-Identifier: Apache-2.0
"""Many runs of one pair of files: what is run (`study`), where it is kept (`directory`), by whom (`local`,
`cluster`), and what comes of it (`conduct`)."""
