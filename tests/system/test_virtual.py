# SPDX-License-Identifier: Apache-2.0
"""Lab 01 in the virtual engine: its figures, and their repetition byte by byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.engines.guest import Guest, booted
from mprun.kernel.store import find_kernel
from mprun.machine.scratch import scratch
from tests.scenes import AS_NOBODY, NOBODY, copy_kernel, give_to_nobody
from tests.system.conftest import LAB, Result, call, digests_of, environment

pytestmark = pytest.mark.fresh

# The goodput of 20 Mbit/s on the wire: 1448 bytes of payload in a frame of 1514.
TCP_CEILING = 20e6 * 1448 / 1514


@pytest.fixture(scope="module")
def mptcp(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("mptcp")
    result = call("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--json", "-o", folder, cwd=folder)
    assert result.status == 0, result.out + result.err
    return result


@pytest.mark.usefixtures("leaves_nothing")
def test_tcp_gets_one_path(mprun: Callable[..., Result]) -> None:
    result = mprun("-t", LAB / "topo", "-x", LAB / "xp_tcp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert 18.8e6 <= result.metric("bulk.goodput") <= TCP_CEILING
    assert "bulk.subflows" not in result.summary["metrics"]


def test_mptcp_gets_both_paths(mptcp: Result) -> None:
    assert mptcp.summary["status"] == "passed"
    assert 36.0e6 <= mptcp.metric("bulk.goodput") <= 2 * TCP_CEILING
    assert mptcp.metric("bulk.subflows") == 2
    assert mptcp.metric("bulk.share.path0") == pytest.approx(0.5, abs=0.03)
    for path in ("path0", "path1"):
        assert mptcp.metric(f"{path}.rtt") == pytest.approx(0.04 + 2 * 98 * 8 / 20e6, abs=2e-6)


def test_share_agrees_with_the_capture(mptcp: Result) -> None:
    """Two independent measurements agree: tcp_info, and the bytes that tshark counts."""
    fields = ["-T", "fields", "-e", "ip.src", "-e", "tcp.len", "-Y", "tcp.len > 0 && ip.dst == 10.1.0.1"]
    argv = ["tshark", "-r", str(mptcp.run / "pcap" / "server.pcap"), *fields]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\n")
    carried: dict[str, int] = {}
    for line in filter(None, lines):
        source, length = line.split("\t")
        carried[source] = carried.get(source, 0) + int(length)
    share = carried["10.0.0.1"] / sum(carried.values())
    assert share == pytest.approx(mptcp.metric("bulk.share.path0"), abs=0.01)


def test_captures_are_read_as_mptcp(mptcp: Result) -> None:
    for host in ("client", "server"):
        argv = ["tshark", "-r", str(mptcp.run / "pcap" / f"{host}.pcap"), "-Y", "tcp.options.mptcp.subtype == 1"]
        joins = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        # SYN, SYN+ACK and ACK of a join for each of iperf3's two connections, control and data
        assert len(joins) == 6


def test_repeats_while_the_other_core_is_busy(mptcp: Result, mprun: Callable[..., Result]) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        again = mprun("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--json")
    finally:
        busy.kill()
        busy.wait()
    assert digests_of(again.run) == digests_of(mptcp.run)


def test_two_runs_at_once_give_the_bytes_of_one(mptcp: Result, tmp_path: Path) -> None:
    """The second run belongs to a user with another home directory."""
    results: list[Result] = []
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")

    def run(name: str, home: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        lab = ("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--json", "-o", folder)
        results.append(call(*lab, cwd=folder, env=environment(HOME=home, XDG_CACHE_HOME=cache)))

    threads = [threading.Thread(target=run, args=pair) for pair in (("one", str(Path.home())), ("two", "/var/tmp"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for result in results:
        assert result.summary["warnings"] == mptcp.summary["warnings"]
        assert digests_of(result.run) == digests_of(mptcp.run)


def test_verify_says_identical_and_shows_the_first_difference(mptcp: Result, mprun: Callable[..., Result]) -> None:
    same = mprun("verify", mptcp.run)
    assert same.status == 0, same.err
    assert same.out.startswith("identical: ")
    changed = shutil.copytree(mptcp.run, mptcp.run.parent / "changed")
    pcap = changed / "pcap" / "client.pcap"
    data = bytearray(pcap.read_bytes())
    data[1000] ^= 1
    pcap.write_bytes(data)
    other = mprun("verify", changed)
    assert other.status == 1
    assert other.out.startswith("different: pcap/client.pcap differs from byte 1000 on")


def test_another_seed_gives_other_bytes(mptcp: Result, mprun: Callable[..., Result]) -> None:
    other = mprun("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--seed", 2, "--json")
    assert other.status == 0, other.err
    ours, theirs = digests_of(mptcp.run), digests_of(other.run)
    assert ours["client.pcap"] != theirs["client.pcap"]


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give rights up")
def test_under_sudo_the_kernel_is_the_users(mptcp: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mprun drops root's rights before it executes the kernel, which the user's other programs could have replaced."""
    with scratch("mprun-test-") as folder:
        copy_kernel(folder / "cache")
        give_to_nobody(folder)
        user = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY), "XDG_CACHE_HOME": str(folder / "cache")}
        for name, value in user.items():
            monkeypatch.setenv(name, value)
        # a loop, because simulated time would end a program that sleeps
        guest = Guest(argv=["/bin/sh", "-c", "while :; do :; done"], cwd="/")
        with (tmp_path / "console").open("wb") as console, booted(find_kernel(), guest, console) as process:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        assert status["Uid"].split() == status["Gid"].split() == [str(NOBODY)] * 4
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        env = environment(**user)
        lab = ("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--json")
        result = call(*lab, cwd=folder, env=env)
        assert result.status == 0, result.out + result.err
        assert digests_of(folder / result.run) == digests_of(mptcp.run)
        assert (folder / result.run / "agent.json").stat().st_uid == NOBODY
        (folder / "of_root").mkdir(mode=0o700)
        (folder / "of_root" / "runs").mkdir()
        refused = call(*lab, "-o", folder / "of_root" / "runs", cwd=folder, env=env)
        assert refused.status == 3
        assert "under sudo the experiment kernel runs as the user who called sudo" in refused.err


@pytest.mark.usefixtures("leaves_nothing")
def test_unprivileged_user_gets_the_same_bytes(mptcp: Result) -> None:
    if os.geteuid() != 0:
        pytest.skip("this whole test run is unprivileged already")
    folder = Path(tempfile.mkdtemp(prefix="mprun-test-"))
    try:
        copy_kernel(folder / "cache")
        give_to_nobody(folder)
        reachable = subprocess.run(
            [*AS_NOBODY, sys.executable, "-c", "import mprun.cli"], env=environment(), check=False
        )
        if reachable.returncode:
            pytest.skip("an unprivileged user cannot read this checkout, so cannot run it")
        env = environment(XDG_CACHE_HOME=str(folder / "cache"), HOME="/nonexistent")
        lab = ("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--engine", "virtual", "--json")
        result = call(*lab, cwd=folder, prefix=AS_NOBODY, env=env)
        assert result.status == 0, result.out + result.err
        assert digests_of(folder / result.run) == digests_of(mptcp.run)
    finally:
        shutil.rmtree(folder)
