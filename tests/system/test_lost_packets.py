# SPDX-License-Identifier: Apache-2.0
"""Faults of single packets: `faults` of an experiment, and `mprun faults`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.captures.pcapng import frames
from tests.scenes import TWO_PATHS
from tests.system.conftest import Result, call

# With the loss of a packet of the join, the connection has one subflow.
EXPERIMENT = """\
version: 1
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic: [{name: get, tool: http, from: client, to: server, protocol: mptcp, sizes: [300kb]}]
probe: {pings: 0}
capture: [{host: client, snaplen: 128}, {node: router, snaplen: 128}, {host: server, snaplen: 128}]
expect: [{metric: get.subflows, equals: 2}]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topo.yaml").write_text(TWO_PATHS)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    return tmp_path


def run(files: Path, faults: str = "") -> tuple[Path, dict[str, Any]]:
    (files / "lossy.yaml").write_text(EXPERIMENT + (f"faults: {faults}\n" if faults else ""))
    done = call("-t", "topo", "-x", "lossy", "--json", cwd=files)
    summary = json.loads(done.out)
    return files / summary["directory"], summary


def packets(run: Path, capture: str) -> list[bytes]:
    return [data for _, data in frames((run / "pcap" / f"{capture}.pcap").read_bytes())]


def test_only_the_named_packet_is_lost(files: Path) -> None:
    """The second packet over path0 is the end of the handshake. The router sees it and the server does not."""
    whole, _ = run(files)
    lossy, summary = run(files, "[{node: router, link: path0, packet: 2}]")
    assert summary["warnings"] == []
    before, after = packets(whole, "router"), packets(lossy, "router")
    first = next(n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    # SYN in and out, SYN/ACK in and out, ACK in; it does not go out
    assert first == 5
    assert packets(whole, "server")[2] not in packets(lossy, "server")
    agent = json.loads((lossy / "agent.json").read_text())
    assert agent["faults"] == {"router": {"router-eth0": 1}}


def test_faults_of_no_packet_change_no_byte(files: Path) -> None:
    plain, _ = run(files)
    # the first one comes after the end, and so the hooks count packets
    faults = "{node: router, link: path0, packet: 99999}, {node: client, link: path1, packet: 0}"
    counted, _ = run(files, f"[{faults}]")
    assert (plain / "record.gz").read_bytes() == (counted / "record.gz").read_bytes()
    for capture in ("client", "router", "server"):
        assert packets(plain, capture) == packets(counted, capture)


def syns(run: Path, capture: str) -> list[dict[str, Any]]:
    """Return the client's SYNs of the first subflow in a capture."""
    assert call("packets", run, cwd=run).status == 0
    rows = polars.read_parquet(run / "tables" / "packets.parquet").to_dicts()
    mine = [row for row in rows if row["capture"] == capture and row["flags"] == "SYN" and row["direction"] == "in"]
    return [row for row in mine if row["source_port"] == mine[0]["source_port"]]


def test_a_delayed_packet_arrives_later(files: Path) -> None:
    """The SYN reaches the server 50 ms later, and the rest of the run follows from it."""
    whole, _ = run(files)
    late, summary = run(files, "[{node: router, link: path0, packet: 1, action: delay, by: 50ms}]")
    assert summary["warnings"] == []
    assert syns(whole, "router") == syns(late, "router")
    (before,), (after,) = syns(whole, "server"), syns(late, "server")
    # clocks have a resolution of 256 ns
    assert after["time_ns"] - before["time_ns"] == pytest.approx(50_000_000, abs=512)


def test_a_duplicate_arrives_again(files: Path) -> None:
    twice, summary = run(files, "[{node: router, link: path0, packet: 1, action: duplicate, by: 3ms}]")
    assert summary["warnings"] == []
    assert len(syns(twice, "router")) == 1
    first, second = syns(twice, "server")
    assert second["time_ns"] - first["time_ns"] == pytest.approx(3_000_000, abs=512)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_an_option_is_removed_with_a_correct_checksum(files: Path, family: str) -> None:
    """Without MP_CAPABLE in the SYN, the connection is TCP. With a wrong checksum, a second SYN would follow."""
    (files / "topo.yaml").write_text(TWO_PATHS + f"addressing: {family}\n")
    plain, summary = run(files, "[{node: router, link: path0, packet: 1, action: strip}]")
    assert summary["status"] == "failed"
    (sent,), (arrived,) = syns(plain, "router"), syns(plain, "server")
    assert sent["options"] == "MP_CAPABLE"
    assert not arrived["options"]


def test_a_packet_that_never_arrives_is_a_warning(files: Path) -> None:
    _, summary = run(files, "[{node: router, link: path1, packet: 1}, {node: router, link: path1, packet: 90000}]")
    (text,) = summary["warnings"]
    told = "faults: 1 of 2 faults at 'router' from link 'path1': packet 90000 never arrived; only ([0-9]+) packets"
    found = re.match(told, text)
    assert found
    assert 1 <= int(found[1]) < 90000


@pytest.mark.alone
def test_single_packets_are_lost_in_simulated_time_only(files: Path) -> None:
    (files / "lossy.yaml").write_text(EXPERIMENT + "faults: [{node: router, link: path0, packet: 2}]\n")
    done = call("-t", "topo", "-x", "lossy", "--engine", "real", cwd=files)
    assert done.status == 3
    assert done.err.strip().endswith("in which packets have the same numbers in each run: use --engine virtual")


def study(files: Path, *more: str) -> Result:
    return call("faults", "-t", "topo", "-x", "xp", "--budget", "12", *more, cwd=files)


def test_the_packets_of_the_join_are_found(files: Path) -> None:
    done = study(files, "--json")
    assert done.status == 1, done.err
    report = json.loads(done.out)
    assert len(report["packets"]) == 12
    bad = {one["kind"]: one for one in report["packets"] if one["status"] != "passed"}
    assert {"MP_JOIN SYN", "MP_JOIN SYN,ACK"} <= bad.keys() <= {"MP_JOIN SYN", "MP_JOIN SYN,ACK", "MP_JOIN ACK"}
    assert any("1 of 2 subflows" in cause for cause in bad["MP_JOIN SYN"]["causes"])
    assert bad["MP_JOIN SYN"]["path"] == "path1"
    # the loss of the SYN costs its time-out of a second
    ended = {one["kind"]: one["completed_ns"] for one in report["packets"]}
    assert 1e9 < ended["MP_CAPABLE SYN"] - report["without"]["completed_ns"] < 1.1e9
    sweep = files / report["directory"]
    rows = polars.read_parquet(sweep / "tables" / "faults.parquet").to_dicts()
    assert [row["status"] for row in rows] == [one["status"] for one in report["packets"]]
    assert (sweep / "faults.svg").read_text().startswith("<?xml")
    # captures of runs that did not pass are kept
    kept = {path.parts[-4] for path in sweep.glob("runs/*/1/pcap/router.pcap")}
    assert kept == {one["run"].split("/")[1] for one in bad.values()}
    again = call("verify", "--keep", sweep / bad["MP_JOIN SYN"]["run"], cwd=files)
    assert again.status == 0, again.out
    assert "1 of 2 subflows" in call("show", "latest", cwd=files).out
    # a run that passed has lost its captures, which is no difference
    passed = next(one for one in report["packets"] if one["status"] == "passed")
    same = call("verify", "--keep", sweep / passed["run"], cwd=files)
    assert same.status == 0, same.out
    assert same.out.rstrip().endswith("byte by byte; captures that it does not keep were not compared")


def test_a_study_repeats_and_says_what_to_do(files: Path) -> None:
    first, second = study(files), study(files)
    assert first.status == second.status == 1
    tables = sorted(files.glob("runs/2*-sweep/tables/faults.parquet"))
    assert len(tables) == 2
    assert polars.read_parquet(tables[0]).equals(polars.read_parquet(tables[1]))
    said = first.out.splitlines()
    assert said[0].startswith("12 packets, each lost once: ")
    assert said[1].startswith("without faults: passed, end of the last flow ")
    assert any(line.startswith("  again: mprun verify --keep runs/") for line in said)
    assert first.out.split("\n", 1)[1].replace(str(tables[0].parts[-3]), "") == second.out.split("\n", 1)[1].replace(
        str(tables[1].parts[-3]), ""
    )


def test_equal_kernels_are_separated_by_no_packet(files: Path) -> None:
    """The control is the same kernel under its digest, so both have the same outcomes."""
    digest = json.loads(call("kernel", "info", "--json", cwd=files).out)["digest"]
    done = study(files, "--budget", "4", "--control", digest, "--json")
    assert done.status == 0, done.out + done.err
    report = json.loads(done.out)
    assert len(report["packets"]) == 4
    assert report["groups"] == []
    for one in (report["without"], *report["packets"]):
        assert one["control"]["run"] != one["run"]
        assert (one["control"]["completed_ns"], one["control"]["status"]) == (one["completed_ns"], one["status"])
    rows = polars.read_parquet(files / report["directory"] / "tables" / "faults.parquet")
    assert rows["control_status"].to_list() == rows["status"].to_list()
    assert len(list((files / report["directory"]).glob("runs/*/1"))) == 10


def test_the_kernel_itself_is_no_control(files: Path) -> None:
    """The cells of both kernels had one folder, and the study ended in a traceback."""
    done = study(files, "--control", "default")
    refused = "--control: default is the kernel of the other runs too: name another, or give --kernel\n"
    assert (done.status, done.err) == (2, refused)
    assert not (files / "runs").exists()


def test_packets_can_be_listed_before_they_are_lost(files: Path) -> None:
    done = call("faults", "-t", "topo", "-x", "xp", "--first", "3", "--dry-run", "--json", cwd=files)
    assert done.status == 0, done.err
    assert [one["kind"] for one in json.loads(done.out)] == ["MP_CAPABLE SYN", "MP_CAPABLE SYN,ACK", "MP_CAPABLE ACK"]
    assert not list(files.glob("runs/*-sweep"))
