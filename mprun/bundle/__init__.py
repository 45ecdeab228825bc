# SPDX-License-Identifier: Apache-2.0
"""One file of a run or a sweep for others, and running again what such a file holds.

directory --pack--> archive (a zip that is an RO-Crate) --unpack--> part of a directory --reproduce--> verdict
"""
