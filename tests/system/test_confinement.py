# SPDX-License-Identifier: Apache-2.0
"""Programs of a stranger's experiment, run with --allow-exec in the virtual engine, get nothing of the host's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mprun.engines import landlock
from mprun.kernel.store import find_kernel
from tests.hostile import guest
from tests.system.conftest import Result


@pytest.fixture
def secret() -> Iterator[Path]:
    """A folder of the host that no rule names, with a file that only its owner may read."""
    folder = Path("/var/tmp") / f"mprun-test-{os.getpid()}"
    folder.mkdir()
    (folder / "secret").write_text("the secret")
    (folder / "secret").chmod(0o600)
    yield folder
    (folder / "secret").unlink()
    folder.rmdir()


def run(mprun: Callable[..., Result], folder: Path, script: str) -> Result:
    guest.write_files(folder, script)
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")


def test_no_attempt_gets_anything_of_the_host(mprun: Callable[..., Result], tmp_path: Path) -> None:
    with guest.host_to_attack(find_kernel().directory) as host:
        before = host.victim.stat()
        result = run(mprun, tmp_path, guest.script_of(host))
        assert result.status == 0, result.err
        found = guest.read((result.run / "logs" / "it.out").read_text(), host)
        after = host.victim.stat()
    assert {name: one.harm for name, one in found.items() if one.harm} == {}
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


def test_one_lock_holds_without_the_other(mprun: Callable[..., Result], tmp_path: Path, secret: Path) -> None:
    """Landlock alone keeps the guest from a folder of the host: nothing inside hides /var/tmp."""
    if not landlock.abi():
        pytest.skip("this machine's kernel has no Landlock")
    result = run(mprun, tmp_path, f"cat {secret}/secret; ls {secret}; cat /etc/os-release >/dev/null && echo readable")
    assert (result.run / "logs" / "it.out").read_text() == "readable\n"


def in_child(program: str) -> str:
    done = subprocess.run(["python3", "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return done.stdout + done.stderr


def test_landlock_lets_through_what_its_rules_name(tmp_path: Path) -> None:
    if not landlock.abi():
        pytest.skip("this machine's kernel has no Landlock")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (tmp_path / "other").write_text("other")
    program = f"""
from pathlib import Path
from mprun.engines import landlock
folder = Path({str(tmp_path)!r})
with landlock.ruleset({{folder / "mine": landlock.OWN, folder / "missing": landlock.OWN}}) as rules:
    landlock.restrict(rules)
print((folder / "mine" / "file").read_text())
(folder / "mine" / "new").write_text("")
for path in ("other", "mine/../other"):
    try:
        print((folder / path).read_text())
    except PermissionError:
        print("refused")
"""
    assert in_child(program) == "mine\nrefused\nrefused\n"


def test_the_filter_refuses_mounts_and_sockets_of_networks() -> None:
    program = """
import ctypes, os, socket
from mprun.engines import landlock, seccomp
landlock.restrict(None)
seccomp.restrict(seccomp.program())
libc = ctypes.CDLL(None, use_errno=True)
for name, number in seccomp.REFUSED.items():
    if libc.syscall(number, -1, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
        print(name, "passes", ctypes.get_errno())
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, "passes")
    except OSError as error:
        assert error.errno == 97, error
socket.socket(socket.AF_UNIX).close()
socket.socketpair()[0].close()
print("done")
"""
    assert in_child(program) == "done\n"
