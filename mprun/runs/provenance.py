# SPDX-License-Identifier: Apache-2.0
"""The engine, the kernel and the programs that made a run, from its `environment.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mprun.host.version import code_of
from mprun.kernel.store import DEFAULT_NAME, list_kernels


def name_build(kernel: Mapping[str, str]) -> str:
    """Return version and digest of a kernel. Kernels of one name or version may be different builds or source trees."""
    return f"{kernel['version']} {kernel.get('digest', '')[:12]}".strip()


def list_programs(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the programs that made a run, with their versions. The kernel is not among them."""
    return {"mprun": code_of(environment), "Python": environment["python"], **environment["versions"]}


def list_makers(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine, the kernel and the programs that made a run."""
    told = {"engine": environment["engine"], "kernel": name_build(environment["kernel"])}
    return {**told, **list_programs(environment)}


def find_kernel(environment: Mapping[str, Any]) -> str:
    """Return the name of the kernel on this machine that a run used; `default` if it is not here."""
    digest = environment["kernel"].get("digest")
    names = [kernel.name for kernel in list_kernels() if kernel.digest == digest]
    return names[0] if names and DEFAULT_NAME not in names else DEFAULT_NAME
