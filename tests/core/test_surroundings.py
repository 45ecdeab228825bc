# SPDX-License-Identifier: Apache-2.0
"""The kinds of machines that mprun recognises, and the remedy that each gets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mprun.errors import MachineError
from mprun.machine.machine_kind import TRACE_REMEDY, Surroundings, identify, refuse_other_systems
from tests.pages import ROOT

OSRELEASE = "proc/sys/kernel/osrelease"
WSL_1 = {OSRELEASE: "4.4.0-19041-Microsoft\n"}
WSL_2 = {OSRELEASE: "5.15.153.1-microsoft-standard-WSL2\n"}
DEBIAN = {OSRELEASE: "6.12.117-amd64\n"}
CODESPACES = {"CODESPACES": "true"}
# Replace the system's name, and remove what Python has on Linux only (the pages of its modules name the systems).
ELSEWHERE = """
import os, platform, resource, select, signal, socket, sys
platform.system = lambda: {system!r}
platform.machine = lambda: {machine!r}
for module, names in (
    (os, "O_PATH O_TMPFILE setns unshare memfd_create pidfd_open eventfd sched_getaffinity getrandom splice"),
    (signal, "SIGRTMIN SIGRTMAX SIGPOLL SIGSTKFLT SIGPWR"),
    (socket, "AF_NETLINK AF_PACKET AF_VSOCK IPPROTO_SCTP IPPROTO_MPTCP SO_BINDTODEVICE SO_MARK TCP_CONGESTION"),
    (select, "epoll"),
    (resource, "prlimit RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_NICE"),
):
    for name in names.split():
        vars(module).pop(name, None)
from mprun.cli import main
main()
"""


def here(
    tmp_path: Path, files: Mapping[str, str], environment: Mapping[str, str], system: str, machine: str = "x86_64"
) -> Surroundings:
    """Return the kind of a machine with these files."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return identify(tmp_path, environment, system, machine)


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        (DEBIAN, {}, "Linux, x86_64"),
        ({}, {}, "Linux, x86_64"),
        (WSL_2, {}, "WSL 2, x86_64: docs/machines.md, Windows"),
        # Docker Desktop's containers run on the kernel of WSL 2
        (WSL_2 | {".dockerenv": ""}, {}, "WSL 2, x86_64: docs/machines.md, Windows"),
        (DEBIAN | {".dockerenv": ""}, {}, "container, x86_64: docs/machines.md, A container"),
        (DEBIAN | {"run/.containerenv": ""}, {}, "container, x86_64: docs/machines.md, A container"),
        (DEBIAN | {".dockerenv": ""}, CODESPACES, "GitHub Codespaces, x86_64: docs/machines.md, GitHub Codespaces"),
        (DEBIAN, {"CODESPACES": "false"}, "Linux, x86_64"),
    ],
)
def test_a_machine_with_a_kernel_of_linux_is_recognised(
    files: Mapping[str, str], environment: Mapping[str, str], kind: str, tmp_path: Path
) -> None:
    found = here(tmp_path, files, environment, "Linux")
    assert (found.name, found.obstacle) == (kind, "")
    refuse_other_systems(found)


@pytest.mark.parametrize(
    ("files", "system", "machine", "told"),
    [
        (WSL_1, "Linux", "x86_64", r"WSL 1 has no Linux kernel: in PowerShell: wsl --set-version"),
        ({}, "Darwin", "x86_64", r"this is macOS: use the virtual machine, a container or GitHub Codespaces"),
        ({}, "Darwin", "arm64", r"use lima\.yaml or GitHub Codespaces for the virtual engine, or the virtual machine"),
        ({}, "FreeBSD", "amd64", r"this is FreeBSD: use a virtual machine, a container or GitHub Codespaces"),
    ],
)
def test_another_system_is_refused_with_a_remedy(
    files: Mapping[str, str], system: str, machine: str, told: str, tmp_path: Path
) -> None:
    found = here(tmp_path, files, {}, system, machine)
    with pytest.raises(MachineError, match=told) as refused:
        refuse_other_systems(found)
    assert refused.value.exit_code == 3


def test_the_remedy_for_ptrace_is_that_of_the_machine(tmp_path: Path) -> None:
    assert ".devcontainer/devcontainer.json" in here(tmp_path, DEBIAN, CODESPACES, "Linux").trace_remedy
    assert here(tmp_path, DEBIAN, {}, "Linux").trace_remedy == TRACE_REMEDY


def test_every_section_that_a_machine_names_exists() -> None:
    source = (ROOT / "mprun" / "machine" / "machine_kind.py").read_text()
    named = set(re.findall(r"docs/machines\.md, (\w[\w ]*\w)", source))
    headings = {line[3:] for line in (ROOT / "docs" / "machines.md").read_text().splitlines() if line[:3] == "## "}
    assert len(named) >= 4
    assert named - headings == set()


def call_elsewhere(system: str, machine: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Call mprun on another system, as far as Python can imitate one."""
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE.format(system=system, machine=machine), *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cwd / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_on_macos_the_engine_is_refused_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}]\n")
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    for words in ((), ("--engine", "virtual"), ("--engine", "real")):
        done = call_elsewhere("Darwin", "x86_64", "-t", "topo", "-x", "xp", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == (
            "experiments need Linux, and this is macOS: use the virtual machine, a container or GitHub Codespaces: "
            "docs/machines.md, macOS\n"
        )
    assert not (tmp_path / "runs").exists()


def test_on_macos_the_doctor_has_one_remedy(tmp_path: Path) -> None:
    done = call_elsewhere("Darwin", "arm64", "doctor", "--json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    (check,) = json.loads(done.stdout)
    assert (check["name"], check["ok"]) == ("machine", False)
    assert "GitHub Codespaces" in check["mend"]
    # what needs no engine works
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}]\n")
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    checked = call_elsewhere("Darwin", "arm64", "validate", "-t", "topo", "-x", "xp", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
