# SPDX-License-Identifier: Apache-2.0
"""Captures of hosts, routers and single interfaces contain the packets that passed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from tests.scenes import RATES_ONLY
from tests.system.conftest import LAB, Result, call

EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, duration: 4s}
capture:
  - {host: client, snaplen: 100}
  - {host: client, link: path1, snaplen: 100}
  - {node: router, snaplen: 100}
  - {node: router, link: path0, snaplen: 100, size: 300kb}
  - {host: server, snaplen: 100, size: 3mb, keep: last}
"""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("captures")
    (folder / "xp.yaml").write_text(EXPERIMENT)
    result = call("-t", LAB / "topo", "-x", "xp", "--engine", "virtual", "--json", "-o", folder, cwd=folder)
    assert result.status == 0, result.out + result.err
    return result


def told(result: Result, name: str) -> dict[str, Any]:
    value: dict[str, Any] = result.summary["captures"][name]
    return value


def packets_by_interface(run: Path, name: str) -> dict[str, int]:
    argv = ["tshark", "-n", "-r", str(run / "pcap" / f"{name}.pcap"), "-T", "fields", "-e", "frame.interface_name"]
    names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return {name: names.count(name) for name in set(names)}


def last_counts(run: Path, interface: str) -> dict[str, int]:
    """Return the last counters of an interface, counted since time zero."""
    table = polars.read_parquet(run / "tables" / "interfaces.parquet").filter(interface=interface)
    return table.row(-1, named=True)


def test_each_was_live_before_the_first_packet_and_lost_none(captures: Result) -> None:
    for name in ("client", "client-path1", "router", "router-path0", "server"):
        record = told(captures, name)
        # probes begin a second before time zero, and the first packet on a path is from a probe
        assert record["ready_s"] < -1 < record["first_s"]
        assert record["lost"] == 0


def test_packets_know_their_interface_and_agree_with_its_counters(captures: Result) -> None:
    client, router = (packets_by_interface(captures.run, name) for name in ("client", "router"))
    assert set(client) == {"client-eth0", "client-eth1"}
    assert set(router) == {"router-eth0", "router-eth1", "router-eth2"}
    assert sum(client.values()) == told(captures, "client")["packets"]
    for name, count in {**client, **router}.items():
        counted = last_counts(captures.run, name)
        # the pings before time zero, three requests and answers on each path, are only in the capture
        pings = 12 if name == "router-eth2" else 6
        assert count == counted["rx_packets"] + counted["tx_packets"] + pings
    # the router sent to one side all packets that it received on the other
    assert router["router-eth0"] + router["router-eth1"] == router["router-eth2"]
    assert packets_by_interface(captures.run, "client-path1") == {"client-eth1": client["client-eth1"]}


def test_sizes_hold_and_the_first_or_last_packets_are_kept(captures: Result) -> None:
    first, last = told(captures, "router-path0"), told(captures, "server")
    # up to a quarter of the size stays free, because pcapng needs more room for short packets
    assert 300 * 1024 * 3 / 4 <= (captures.run / "pcap" / "router-path0.pcap").stat().st_size <= 300 * 1024
    assert 1_000_000 <= (captures.run / "pcap" / "server.pcap").stat().st_size <= 3 << 20
    assert first["packets"] < first["passed"]
    assert last["packets"] < last["passed"]
    assert first["first_s"] < 0 < last["first_s"]
    reached = [text for text in captures.summary["warnings"] if "reached its size" in text]
    assert [text.split(":")[0] for text in reached] == ["capture of router-path0", "capture of server"]
    assert sorted(path.name for path in (captures.run / "pcap").iterdir()) == [
        f"{name}.pcap" for name in ("client-path1", "client", "router-path0", "router", "server")
    ]
    argv = ["tshark", "-n", "-r", str(captures.run / "pcap" / "server.pcap"), "-T", "fields", "-e", "frame.time_epoch"]
    times = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert times == sorted(times)
    assert len(times) == last["packets"]


def test_a_file_says_what_it_is_and_nothing_of_the_machine(captures: Result) -> None:
    data = (captures.run / "pcap" / "client.pcap").read_bytes()[:1000]
    digest = json.loads((captures.run / "plan.json").read_text())["digest"]
    assert f"mprun, run of digest {digest}, seed 1; node client; time zero is 1700000004.".encode() in data
    assert b"path1: 20 Mbit/s, delay 20 ms, queue 80 packets" in data
    assert os.uname().nodename.encode() not in data
    assert b"Linux" not in data


@pytest.mark.usefixtures("leaves_nothing")
def test_captures_repeat(captures: Result, mprun: Callable[..., Result]) -> None:
    assert mprun("verify", captures.run).status == 0


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.alone
def test_rings_and_sizes_in_the_real_engine(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("duration: 4s", "duration: 2s"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    assert told(result, "router-path0")["packets"] < told(result, "router-path0")["passed"]
    assert packets_by_interface(result.run, "server") == {"server-eth0": told(result, "server")["packets"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.usefixtures("leaves_nothing")
def test_captures_end_before_the_disk_is_full(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    """The disk has 66 MB, and the last 64 are reserved for the rest of the run.

    Packets at 40 Mbit/s fill 2 MB in 0.4 s.
    """
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.split("capture:")[0] + "capture: [{host: client}]\n")
    (tmp_path / "small").mkdir()
    shell = 'mount -t tmpfs -o size=66m none small && "$@"; status=$?; cp -r small/latest/ kept; exit $status'
    prefix = ["unshare", "--mount", "sh", "-c", shell, "sh"]
    result = mprun("-t", LAB / "topo", "-x", "xp", "--engine", "virtual", "-o", "small", prefix=prefix)
    assert result.status == 1
    assert "failure: capture of client: ended at " in result.out
    assert "when the disk was nearly full; the run continued" in " ".join(result.out.split())
    summary = json.loads((tmp_path / "kept" / "summary.json").read_text())
    assert summary["complete"]
    # the transfer itself is as fast as with a complete capture
    assert summary["metrics"]["bulk.goodput"]["value"] > 30e6
    assert sum(packets_by_interface(tmp_path / "kept", "client").values()) == summary["captures"]["client"]["packets"]
