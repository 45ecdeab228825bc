# SPDX-License-Identifier: Apache-2.0
"""The kind of machine that mprun runs on: Linux, WSL, GitHub Codespaces, a container, or another system.

An experiment needs Linux. For each other kind, messages name another remedy. `docs/machines.md` has a section for each
kind.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun.errors import MachineError

TRACE_REMEDY = "allow ptrace(2): docker run --cap-add SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=1"
_TRACE_IN_CODESPACES = (
    'allow ptrace(2): add "runArgs": ["--cap-add=SYS_PTRACE"] to .devcontainer/devcontainer.json, and rebuild the '
    "container"
)
_MACHINE_OF_MAC = "use the virtual machine, a container or GitHub Codespaces: docs/machines.md, macOS"
_MACHINE_OF_ARM = (
    "use lima.yaml or GitHub Codespaces for the virtual engine, or the virtual machine for the real engine: "
    "docs/machines.md, macOS"
)
# Files that Docker and Podman put into their containers.
_MARKS_OF_CONTAINERS = (".dockerenv", "run/.containerenv")


@dataclass(frozen=True)
class Surroundings:
    """A kind of machine.

    - name: the kind, with the section of docs/machines.md about it.
    - problem: the reason why no experiment runs here; empty if experiments run.
    - remedy: what to use instead; empty without a problem.
    - trace_remedy: what to do if ptrace(2) is refused.
    """

    name: str
    obstacle: str = ""
    remedy: str = ""
    trace_remedy: str = TRACE_REMEDY


def identify(
    root: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
    system: str = "",
    machine: str = "",
) -> Surroundings:
    """Return the kind of this machine. The arguments are for tests.

    - root: the root of the file system.
    - environment: the environment variables. Default: the variables of this process.
    - system, machine: as platform.system() and platform.machine() return them. Default: the values of this machine.
    """
    environment = os.environ if environment is None else environment
    system = system or platform.system()
    machine = machine or platform.machine()
    if system == "Darwin":
        remedy = _MACHINE_OF_MAC if machine == "x86_64" else _MACHINE_OF_ARM
        return Surroundings(f"macOS, {machine}", "experiments need Linux, and this is macOS", remedy)
    if system != "Linux":
        remedy = "use a virtual machine, a container or GitHub Codespaces: docs/machines.md"
        return Surroundings(f"{system}, {machine}", f"experiments need Linux, and this is {system}", remedy)
    if environment.get("CODESPACES") == "true":
        return Surroundings(
            f"GitHub Codespaces, {machine}: docs/machines.md, GitHub Codespaces", trace_remedy=_TRACE_IN_CODESPACES
        )
    release = _read(root / "proc/sys/kernel/osrelease")
    # WSL 1 translates system calls for the kernel of Windows. Its release is as 4.4.0-19041-Microsoft.
    if "-Microsoft" in release:
        return Surroundings(
            f"WSL 1, {machine}",
            "experiments need Linux, and WSL 1 has no Linux kernel",
            "in PowerShell: wsl --set-version DISTRIBUTION 2; docs/machines.md, Windows",
        )
    if "microsoft" in release:
        return Surroundings(f"WSL 2, {machine}: docs/machines.md, Windows")
    if any((root / mark).exists() for mark in _MARKS_OF_CONTAINERS):
        return Surroundings(f"container, {machine}: docs/machines.md, A container")
    return Surroundings(f"Linux, {machine}")


def refuse_other_systems(here: Surroundings) -> None:
    """Raise MachineError with a remedy if no experiment runs on this kind of machine."""
    if here.obstacle:
        raise MachineError(f"{here.obstacle}: {here.remedy}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
