# SPDX-License-Identifier: Apache-2.0
"""The agent: the program that carries out a plan inside an engine. `main` decides the order of its steps.

System calls and imports are expensive inside the experiment kernel. The agent therefore reads the plan as JSON and
imports little: the standard library, Mininet, and its own modules.
"""
