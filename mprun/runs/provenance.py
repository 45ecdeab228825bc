# SPDX-License-Identifier: Apache-2.0
"""The provenance of a run: the engine, the kernel and the programs that made it, from its `environment.json`."""

from __future__ import annotations

from mprun.engines.registry import ENGINES
from mprun.kernel.store import DEFAULT_NAME, list_kernels
from mprun.model.engine_name import DEFAULT_ENGINE, EngineName
from mprun.model.run_files import RunEnvironment


def list_programs(environment: RunEnvironment) -> dict[str, str]:
    """Return the programs that made a run, with their versions. The kernel is not among them."""
    return {"mprun": environment.code, "Python": environment.python, **environment.versions}


def list_makers(environment: RunEnvironment) -> dict[str, str]:
    """Return the engine, the kernel and the programs that made a run."""
    told = {"engine": environment.engine, "kernel": environment.kernel.label}
    return {**told, **list_programs(environment)}


def find_kernel(environment: RunEnvironment, engine: EngineName = DEFAULT_ENGINE) -> str:
    """Return the name of the kernel on this machine that a run used; `default` if it is not here.

    engine: that of a repetition. For an engine that boots no kernel, the name is `default`.
    """
    if ENGINES[engine].IS_ON_MACHINE_KERNEL:
        return DEFAULT_NAME
    names = [kernel.name for kernel in list_kernels() if kernel.digest == environment.kernel.digest]
    return names[0] if names and DEFAULT_NAME not in names else DEFAULT_NAME
