# SPDX-License-Identifier: Apache-2.0
"""Runs: one is started (`runner`), fills its directory (`run_directory`), is repeated, and is listed (`index`)."""
