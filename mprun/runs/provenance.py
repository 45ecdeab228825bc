# SPDX-License-Identifier: Apache-2.0
"""The provenance of a run: the engine, the kernel and the programs that made it, from its `environment.json`."""

from __future__ import annotations

from mprun.model.run_files import RunEnvironment


def list_programs(environment: RunEnvironment) -> dict[str, str]:
    """Return the programs that made a run, with their versions. The kernel is not among them."""
    return {"mprun": environment.code, "Python": environment.python, **environment.versions}


def list_makers(environment: RunEnvironment) -> dict[str, str]:
    """Return the engine, the kernel and the programs that made a run."""
    told = {"engine": environment.engine, "kernel": environment.kernel.label}
    return {**told, **list_programs(environment)}
