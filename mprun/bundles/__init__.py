# SPDX-License-Identifier: Apache-2.0
"""Bundles: a single file of a run or a sweep, for other people, and the repetition of its runs.

directory --pack--> archive (a zip that is an RO-Crate) --unpack--> part of a directory --reproduce--> verdict
"""
