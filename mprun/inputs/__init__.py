# SPDX-License-Identifier: Apache-2.0
"""The input stage: two files become one Spec. It begins in `mprun.inputs.loading`."""
