# SPDX-License-Identifier: Apache-2.0
"""The agent carries out a plan inside an engine.

System calls and imports are expensive inside the experiment kernel. The agent therefore reads the plan as JSON and
imports little: the standard library, Mininet, and its own modules.
"""
