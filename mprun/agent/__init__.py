# SPDX-License-Identifier: Apache-2.0
"""The agent: obeys a plan inside an engine.

Inside the experiment kernel every system call and every import is dear, so the agent reads the
plan as JSON and imports little: the standard library, Mininet, and its own modules.
"""
