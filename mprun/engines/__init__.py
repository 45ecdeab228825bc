# SPDX-License-Identifier: Apache-2.0
"""The engines: the places where a plan runs.

- `registry`: the table of engines, and the protocol that each engine follows.
- `virtual`: a private Linux kernel in simulated time; `guest` boots it.
- `real`: the kernel of this machine, in real time.
- `agent_process`: starting, watching and ending the agent, for both engines.
- `capability`: what this machine offers to a plan.
"""
