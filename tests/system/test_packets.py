# SPDX-License-Identifier: Apache-2.0
"""Results of `mprun packets` on captures, compared with the counts of programs and of the kernel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.captures.dissection import dissect
from mprun.labs.steps import measured_by
from mprun.machine.packaged import PROFILE
from mprun.metrics.claim_check import find_value
from mprun.statements.expression import UnknownName, parse_value
from mprun.storage.run_directory import RunDirectory
from tests.hostile import copy_run
from tests.system.conftest import COMMAND, LAB, ROOT, Result, call, environment, wait_until
from tests.system.test_captures import last_counts
from tests.system.test_misfortune import needs_root, replacing

# Path 0 loses everything from 3 s on. Path 1 is its backup.
FAILING = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms, queue: 80packets}
  - {rate: 20mbit, delay: 20ms, queue: 80packets, backup: true}
events:
  - {at: 3s, link: path0, set: {loss: 100%}}
"""
EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, AMOUNT}
capture:
  - {host: client, snaplen: 100}
  - {host: server, snaplen: 100}
  - {node: router, snaplen: 100}
"""
# Bytes before a packet in a capture of all interfaces, and on the wire.
COOKED_BYTES, ETHERNET_BYTES = 20, 14


def run_and_read(folder: Path, topology: object, experiment: str) -> tuple[Result, dict[str, Any]]:
    """Return a run and the output of `mprun packets` for the run."""
    (folder / "xp.yaml").write_text(experiment)
    run = call("-t", topology, "-x", "xp", "--engine", "virtual", "--json", "-o", folder, cwd=folder)
    assert run.status == 0, run.out + run.err
    read = call("packets", run.run, "--json", cwd=folder)
    assert read.status == 0, read.out + read.err
    return run, json.loads(read.out)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, dict[str, Any]]:
    """Run an experiment over two paths, both in use."""
    return run_and_read(tmp_path_factory.mktemp("both"), LAB / "topo", EXPERIMENT.replace("AMOUNT", "size: 10mb"))


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, dict[str, Any]]:
    """Run an experiment over a path that fails, and its backup."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "failing.yaml").write_text(FAILING)
    return run_and_read(folder, "failing", EXPERIMENT.replace("AMOUNT", "duration: 6s"))


def data_connection(read: dict[str, Any], capture: str) -> dict[str, Any]:
    """Return the connection with most data. iperf3's other connection is for control."""
    mine = [one for one in read["connections"] if one["capture"] == capture]
    found: dict[str, Any] = max(mine, key=lambda one: one["forward_bytes"])
    return found


def packets(run: Result) -> polars.LazyFrame:
    return polars.scan_parquet(run.run / "tables" / "packets.parquet")


def test_iperf3_and_interfaces_and_captures_agree(both: tuple[Result, dict[str, Any]]) -> None:
    run, read = both
    received = data_connection(read, "server")["forward_bytes"]
    # iperf3 opens the data connection with a cookie of 37 bytes, which it does not count. After the last write its
    # server stops reading, whatever is in flight.
    report = json.loads((run.run / "logs" / "bulk.out").read_text())["end"]
    assert 37 + run.metric("bulk.bytes") <= received <= 37 + report["sum_sent"]["bytes"]
    # the rest is at most the content of the send buffer, 4 MB (tcp_wmem)
    assert received - run.metric("bulk.bytes") <= 4 << 20
    # the same bytes in the captures of both ends, and only two subflows
    assert data_connection(read, "router")["forward_bytes"] == received
    assert data_connection(read, "client")["forward_bytes"] >= received
    for host, name in (("server", "server-eth0"), ("client", "client-eth0"), ("client", "client-eth1")):
        counted = last_counts(run.run, name)
        for direction, which in (("in", "rx"), ("out", "tx")):
            mine = packets(run).filter(
                polars.col("capture") == host,
                polars.col("interface") == name,
                polars.col("direction") == direction,
                polars.col("time_ns") >= 0,
            )
            sizes = mine.select(polars.col("length_bytes") - COOKED_BYTES + ETHERNET_BYTES).collect()
            assert len(sizes) == counted[f"{which}_packets"]
            assert int(sizes.sum().item()) == counted[f"{which}_bytes"]


def test_acknowledgements_are_of_what_the_other_end_sent(both: tuple[Result, dict[str, Any]]) -> None:
    run, read = both
    data = data_connection(read, "server")
    mine = packets(run).filter(polars.col("capture") == "server", polars.col("connection") == data["connection"])
    acked = dict(mine.group_by("way").agg(polars.col("data_acked_bytes").max()).collect().iter_rows())
    # the receiver may stop before it has read all
    assert run.metric("bulk.bytes") <= acked["reverse"] <= data["forward_bytes"]
    assert 0 <= acked["forward"] <= data["reverse_bytes"]


def test_subflows_and_retransmissions_are_the_kernels(both: tuple[Result, dict[str, Any]]) -> None:
    run, read = both
    connection = data_connection(read, "client")
    assert (connection["protocol"], connection["subflows"], connection["fallback"]) == ("mptcp", 2, None)
    mine = [
        one for one in read["subflows"] if (one["capture"], one["connection"]) == ("client", connection["connection"])
    ]
    assert [(one["kind"], one["path"], one["backup"]) for one in mine] == [
        ("initial", "path0", None),
        ("additional", "path1", False),
    ]
    total = sum(one["forward_new_bytes"] for one in mine)
    for one in mine:
        # for a flow without a duration, the last counts of the kernel are up to half a second old
        assert one["forward_retransmissions"] == run.metric(f"bulk.resent.{one['path']}")
        assert one["forward_new_bytes"] / total == pytest.approx(run.metric(f"bulk.share.{one['path']}"), abs=0.01)
    # three packets of each join, of iperf3's two connections
    joins = packets(run).filter(polars.col("capture") == "client", polars.col("options") == "MP_JOIN").collect()
    assert len(joins) == 6
    agent = json.loads((run.run / "agent.json").read_text())
    assert agent["counters"]["client"]["MPTcpExtMPJoinSynAckRx"] == 2
    # the kernel names a connection of the server by the token that joins contain
    events = polars.read_parquet(run.run / "tables" / "events.parquet")
    created = events.filter(polars.col("host") == "server", polars.col("event") == "created")
    assert connection["token"] in set(created["token"])


def test_times_are_those_of_the_run(both: tuple[Result, dict[str, Any]]) -> None:
    """A SYN of 78 bytes reaches the server 20 ms after it leaves the client, plus its time on a link of 20 Mbit/s."""
    run, _ = both
    syn = packets(run).filter(polars.col("options") == "MP_CAPABLE", polars.col("flags") == "SYN").collect()
    at = {capture: table["time_ns"].min() for (capture,), table in syn.group_by("capture")}
    assert 0 <= at["client"] < 10_000_000  # type: ignore[operator]
    assert at["server"] - at["client"] == pytest.approx(20_000_000 + 78 * 8 * 50, abs=2_000)  # type: ignore[operator]


def test_what_is_reinjected_arrives_as_duplicate_data(failing: tuple[Result, dict[str, Any]]) -> None:
    run, read = failing
    connection = data_connection(read, "server")
    agent = json.loads((run.run / "agent.json").read_text())
    # the kernel counts data that comes again over another subflow; the first subflow lost none of these packets
    assert connection["forward_reinjections"] == agent["counters"]["server"]["MPTcpExtDuplicateData"] > 0
    sent = data_connection(read, "client")["forward_reinjections"]
    lost = sent - connection["forward_reinjections"]
    assert lost > 0
    mine = [
        one for one in read["subflows"] if (one["capture"], one["connection"]) == ("client", connection["connection"])
    ]
    assert [(one["path"], one["backup"]) for one in mine] == [("path0", None), ("path1", True)]
    # all reinjections use the backup
    assert [one["forward_reinjections"] for one in mine] == [0, sent]


def test_wireshark_with_our_profile_sees_the_same(failing: tuple[Result, dict[str, Any]], tmp_path: Path) -> None:
    """Wireshark's own analysis of MPTCP uses nothing of mprun but the settings."""
    run, _ = failing
    programs = tmp_path / "bin"
    programs.mkdir()
    # a stand-in for Wireshark records its arguments
    said = tmp_path / "called"
    (programs / "wireshark").write_text(f'#!/bin/sh\necho "$@" > {said}.new\nmv {said}.new {said}\n')
    (programs / "wireshark").chmod(0o755)
    changes = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    argv = [*COMMAND, "wireshark", str(run.run), "--profile"]
    subprocess.run(argv, env=environment(PATH=f"{programs}:{os.environ['PATH']}", **changes), check=True)
    wait_until(said.exists)
    assert "-C mptcp" in said.read_text()
    variables = {**os.environ, **changes}

    def count(condition: str) -> int:
        argv = ["tshark", "-C", "mptcp", "-r", str(run.run / "pcap" / "client.pcap"), "-Y", condition]
        argv += ["-T", "fields", "-e", "frame.number"]
        done = subprocess.run(argv, capture_output=True, text=True, env=variables, check=True)
        return len(done.stdout.splitlines())

    sent = packets(run).filter(polars.col("capture") == "client", polars.col("direction") == "out").collect()
    reinjected = sent.filter(repeat="reinjection").select("connection", "data_offset_bytes").unique()
    # Wireshark also counts retransmissions of data that the other subflow had
    again = sent.drop_nulls("repeat").join(reinjected, on=reinjected.columns, how="semi")
    assert count("mptcp.reinjection_of && ip.dst == 10.1.0.1") == len(again) > 0
    colours = (PROFILE / "colorfilters").read_text()
    conditions = [line.split("@")[2] for line in colours.splitlines() if line.startswith("@")]
    buttons = (PROFILE / "dfilter_buttons").read_text()
    conditions += [line.split('","')[2] for line in buttons.splitlines() if line.startswith('"')]
    shown = (ROOT / "docs" / "measurements.md").read_text().split("| to see |")[1].split("\n\n")[0]
    for line in shown.splitlines()[2:]:
        conditions += re.findall("`(.*?)`", line.split(" | ")[-1].replace("\\|", "|"))
    assert len(conditions) > 30
    # a filter that Wireshark does not understand is an error
    count(" || ".join(f"({condition})" for condition in conditions))


LOSSY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms, queue: 40packets, loss: 2%}
  - {rate: 10mbit, delay: 30ms, queue: 40packets, loss: 2%}
"""


# Time zero of a run in simulated time, as captures have it.
ZERO_S = 1_700_000_004


@pytest.mark.parametrize("protocol", ["tcp", "mptcp"])
def test_the_filter_of_the_page_finds_all_that_a_sender_sent_again(protocol: str, tmp_path: Path) -> None:
    """The filter finds as many packets of each socket as the kernel counts (tcpi_total_retrans). Offloads are off."""
    (tmp_path / "topo.yaml").write_text(LOSSY)
    (tmp_path / "xp.yaml").write_text(
        EXPERIMENT.replace("protocol: mptcp", f"protocol: {protocol}").replace("AMOUNT", "duration: 10s")
    )
    run = call("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "-o", tmp_path, cwd=tmp_path)
    assert run.status == 0, run.out + run.err
    line = next(
        one
        for one in (ROOT / "docs" / "measurements.md").read_text().splitlines()
        if "retransmissions of a host, in its own" in one
    )
    (shown,) = re.findall("`(.*?)`", line.split(" | ")[-1].replace("\\|", "|"))
    ends = ["local", "local_port", "remote", "remote_port"]
    # until the flow is told to end: a connection that is aborted then (MP_FASTCLOSE) loses its counts
    sockets = polars.read_parquet(run.run / "tables" / "sockets.parquet").sort("time_ns")
    sockets = sockets.filter(polars.col("time_ns") < 10.001e9)
    shown += f" && frame.time_epoch < {ZERO_S + 10}"
    for host in ("client", "server"):
        last = sockets.filter(host=host).group_by(ends).last()
        counted = {row[:4]: row[4] for row in last.select(*ends, "retransmits_packets").rows() if row[4]}
        found = Counter(sent_again(run.run / "pcap" / f"{host}.pcap", shown))
        assert found == counted
        if host == "client":
            # some packets of each kind, or else the parts of the filter are not tested
            assert len(found) >= (2 if protocol == "mptcp" else 1)
            partly = sent_again(run.run / "pcap" / "client.pcap", "sll.pkttype == 4 && tcp.analysis.retransmission")
            assert 0 < len(partly) < found.total()


def sent_again(capture: Path, condition: str) -> list[tuple[str, int, str, int]]:
    """Return addresses and ports of each packet that matches a display filter."""
    argv = ["tshark", "-n", "-r", str(capture), "-Y", condition, "-T", "fields"]
    for field in ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport"):
        argv += ["-e", field]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [(a, int(p), b, int(q)) for a, p, b, q in map(str.split, lines)]


def test_the_longest_gap_is_the_hand_over(failing: tuple[Result, dict[str, Any]]) -> None:
    """Nothing arrives between the last data of path 0 and the first data on the backup.

    When path 0 fails, it still delivers the content of its queue and its delay. Then the sender's retransmission timer
    expires, at least 200 ms later, and the backup takes 20 ms.
    """
    run, read = failing
    connection = data_connection(read, "server")
    assert 3.0 <= connection["forward_gap_began_ns"] / 1e9 <= 3.1
    assert connection["forward_gap_ns"] / 1e9 >= 0.2
    # the kernel reported the received data every 10 ms, before and after the gap
    assert run.metric("bulk.handover.gap") == pytest.approx(connection["forward_gap_ns"] / 1e9, abs=0.02)


def test_a_backup_is_the_later_the_more_losses_are_allowed(
    failing: tuple[Result, dict[str, Any]], tmp_path: Path
) -> None:
    """Each time-out lasts 200 ms at least. With 0 allowed losses, a path never counts as lost."""
    (tmp_path / "failing.yaml").write_text(FAILING)
    times = {4: failing[0].metric("bulk.handover.time")}
    for allowed, least_s in ((1, 0.2), (12, 12 * 0.2)):
        settings = f"client: {{mptcp: {{path_manager: fullmesh}}, sysctl: {{net.mptcp.stale_loss_cnt: {allowed}}}}}"
        text = EXPERIMENT.split("capture:")[0].replace("client: {mptcp: {path_manager: fullmesh}}", settings)
        (tmp_path / "xp.yaml").write_text(text.replace("AMOUNT", "duration: 10s"))
        run = call("-t", "failing", "-x", "xp", "--engine", "virtual", "--json", cwd=tmp_path)
        assert run.status == 0, run.out + run.err
        times[allowed] = run.metric("bulk.handover.time")
        assert times[allowed] >= least_s
    assert times[1] < times[4] < times[12]
    (warning,) = (text for text in run.summary["warnings"] if text.startswith("bulk: after path0 had failed"))
    assert "net.mptcp.stale_loss_cnt=12" in warning
    assert "backup path1 gets only what timers send again" in warning


def test_tables_are_no_part_of_what_repeats(both: tuple[Result, dict[str, Any]], tmp_path: Path) -> None:
    run, _ = both
    assert call("verify", run.run, cwd=tmp_path).status == 0
    exported = call("export", run.run, "--csv", "--to", tmp_path / "csv", cwd=tmp_path)
    assert exported.status == 0
    assert {"packets.csv", "connections.csv", "subflows.csv"} <= {path.name for path in (tmp_path / "csv").iterdir()}


@needs_root
def test_a_second_call_takes_the_tables_of_the_first(both: tuple[Result, dict[str, Any]], tmp_path: Path) -> None:
    """The second call runs no tshark and says the same. A changed or renamed capture or a lost table is read again."""
    run, read = both
    broken = replacing(shutil.which("tshark") or "", "exit 4\n", tmp_path)
    copied = shutil.copytree(run.run, tmp_path / "copied")
    first = call("packets", copied, "--json", cwd=tmp_path)
    again = call("packets", copied, "--json", cwd=tmp_path)
    assert json.loads(again.out) == json.loads(first.out)
    assert {**json.loads(again.out), "directory": read["directory"]} == read
    tables = {path: path.stat().st_mtime_ns for path in (copied / "tables").iterdir()}
    assert call("packets", copied, cwd=tmp_path).status == 0
    assert {path: path.stat().st_mtime_ns for path in (copied / "tables").iterdir()} == tables
    (copied / "tables/subflows.parquet").unlink()
    assert "what it had read was kept" in call("packets", copied, cwd=tmp_path, prefix=broken).out
    assert call("packets", copied, "--delay", "client", "server", cwd=tmp_path).status == 0
    assert call("packets", copied, "--json", cwd=tmp_path).out == first.out
    client = copied / "pcap/client.pcap"
    client.rename(client.with_stem("phone"))
    assert "what it had read was kept" in call("packets", copied, cwd=tmp_path, prefix=broken).out
    client.with_stem("phone").rename(client)
    os.utime(client)
    assert "what it had read was kept" in call("packets", copied, cwd=tmp_path, prefix=broken).out


def test_a_cut_capture_is_read_up_to_the_cut(both: tuple[Result, dict[str, Any]], tmp_path: Path) -> None:
    run, _ = both
    cut = shutil.copytree(run.run, tmp_path / "cut")
    for name in ("server", "router"):
        (cut / "pcap" / f"{name}.pcap").unlink()
    capture = cut / "pcap" / "client.pcap"
    os.truncate(capture, capture.stat().st_size // 2)
    result = call("packets", cut, cwd=tmp_path)
    assert result.status == 0, result.err
    assert "client: ends in the midst of a packet; what came before it was read" in result.out
    whole = run.summary["captures"]["client"]["packets"]
    assert len(polars.read_parquet(cut / "tables" / "packets.parquet")) == pytest.approx(whole / 2, rel=0.05)
    capture.write_bytes(b"no capture")
    assert "client: is no capture" in call("packets", cut, cwd=tmp_path).out
    capture.unlink()
    nothing = call("packets", cut, cwd=tmp_path)
    assert nothing.status == 1
    assert "no captures: its captures were removed: `mprun verify --keep" in nothing.err


@pytest.mark.parametrize("share", [None, 0, 0.4], ids=["missing", "empty", "cut"])
def test_what_a_damaged_capture_lacks_is_unknown_and_not_lost(
    both: tuple[Result, dict[str, Any]], share: float | None, tmp_path: Path
) -> None:
    run, _ = both
    copied = shutil.copytree(run.run, tmp_path / "copied", ignore=lambda *_: ["tables"])
    capture = copied / "pcap/client.pcap"
    if share is None:
        capture.unlink()
    else:
        os.truncate(capture, int(capture.stat().st_size * share))
    read = json.loads(call("packets", copied, "--json", cwd=tmp_path).out)
    back = [one for one in read["one_way_delays"] if one["to"] == "client"]
    assert [one["lost"] for one in back] == [0, 0]
    assert sum(one["unknown"] for one in back) > 0
    whole = run.summary["captures"]["client"]["packets"]
    (said,) = [text for text in read["warnings"] if f"of the {whole} packets that the run captured were read" in text]
    assert said.startswith("client: ")


def test_the_progress_of_a_capture_begins_before_its_first_portion(
    both: tuple[Result, dict[str, Any]], tmp_path: Path
) -> None:
    """The name of a capture came with its first 50000 packets, so that a log had no estimate of the rest."""
    run, _ = both
    copied = shutil.copytree(run.run, tmp_path / "copied", ignore=lambda *_: ["tables"])
    told: list[tuple[str, float]] = []
    dissect(RunDirectory(copied), lambda text, done, _: told.append((text, done)))
    assert told[0] == ("reading client", 0.0)
    assert [text for text, _ in told].count("reading server") >= 2


@needs_root
@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        ("", 3, "reading captures needs tshark: apt-get install tshark"),
        ("echo 'it broke' >&2; exit 4\n", 0, "tshark: it broke; what it had read was kept"),
    ],
)
def test_tshark_that_is_missing_or_fails(
    both: tuple[Result, dict[str, Any]], tmp_path: Path, script: str, status: int, said: str
) -> None:
    run, _ = both
    copied = shutil.copytree(run.run, tmp_path / "copied", ignore=lambda *_: ["tables"])
    result = call("packets", copied, cwd=tmp_path, prefix=replacing(shutil.which("tshark") or "", script, tmp_path))
    assert result.status == status
    assert said in result.out + result.err


REQUESTS = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: asks, tool: reqres, from: client, to: server, protocol: mptcp,
     requests: 20, request: 3000bytes, response: 20kb}
capture: [{host: server, snaplen: 120}, {node: router, link: server0, snaplen: 100}]
"""


def test_requests_over_ipv6_are_counted_to_the_byte(tmp_path: Path) -> None:
    """100 bytes do not hold all options over IPv6.

    One warning comes before the run, another names the unknown values.
    """
    topology = (LAB / "topo.yaml").read_text().replace("topology: multi-path", "topology: multi-path\naddressing: ipv6")
    (tmp_path / "topo.yaml").write_text(topology)
    run, read = run_and_read(tmp_path, "topo", REQUESTS)
    whole = data_connection(read, "server")
    assert (whole["forward_bytes"], whole["reverse_bytes"]) == (20 * 3000, 20 * 20480)
    assert (whole["protocol"], whole["subflows"], whole["source"][:3]) == ("mptcp", 2, "fd0")
    (warning,) = (one for one in run.summary["warnings"] if "cuts the options of TCP over IPv6 off" in one)
    assert "capture[1].snaplen" in warning
    (warning,) = read["warnings"]
    assert "router-server0: of " in warning
    assert "the options of TCP are not all in the capture" in warning
    cut = [one for one in read["connections"] if one["capture"] == "router-server0"]
    assert [(one["protocol"], one["subflows"], one["fallback"]) for one in cut] == [("mptcp", 1, None)] * 2


# Path 1 loses, duplicates and reorders packets. Path 0 only loses those that its queue has no room for.
UNEVEN = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 10ms, queue: 80packets}
  - {rate: 20mbit, delay: 30ms, queue: 80packets, loss: 2%, duplicate: 2%, jitter: 5ms}
MIDDLEBOX
"""
# 1472 bytes of payload make a frame of 1514 bytes, which is the only one on its way.
PROBES = """\
version: 1
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic:
  - {name: lone, tool: udp, from: client, to: server, rate: 1mbit, duration: 2s, length: 1472bytes}
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 3s, duration: 2s}
capture:
  - {host: client, snaplen: 100}
  - {host: server, snaplen: 100}
"""


@pytest.fixture(scope="module", params=["", "middleboxes: {router: {nat: {inside: [path0, path1]}}}"], ids=["", "nat"])
def probed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, dict[str, Any]]:
    """Run probes without a queue and a bulk transfer over both paths, also through a NAT."""
    folder = tmp_path_factory.mktemp("probed")
    (folder / "uneven.yaml").write_text(UNEVEN.replace("MIDDLEBOX", request.param))
    return run_and_read(folder, "uneven", PROBES)


def test_a_frame_takes_the_delay_of_its_link_and_its_time_on_the_link(probed: tuple[Result, dict[str, Any]]) -> None:
    run, _ = probed
    lone = [row for row in run.rows("one_way_delays") if row["flow"] == "lone" and row["from"] == "client"]
    sizes = {row["length_bytes"] - COOKED_BYTES + ETHERNET_BYTES for row in lone if row["protocol"] == "udp"}
    assert sizes == {1514}
    assert {(row["state"], row["path"]) for row in lone} == {("received", "path0")}
    # 1514 bytes at 20 Mbit/s take 605.6 us; the clock of the kernel that makes a virtual run counts 512 ns
    assert [row["delay_ns"] for row in lone] == pytest.approx([10_000_000 + 1514 * 400] * len(lone), abs=1024)


def test_each_packet_of_one_capture_is_found_in_the_other(probed: tuple[Result, dict[str, Any]]) -> None:
    run, read = probed
    table = polars.read_parquet(run.run / "tables" / "one_way_delays.parquet")
    for sender, receiver in (("client", "server"), ("server", "client")):
        mine = table.filter(polars.col("from") == sender)
        states = Counter(mine["state"])
        sent, arrived = (
            packets(run).filter(capture=capture, direction=direction).drop_nulls("identity").collect().height
            for capture, direction in ((sender, "out"), (receiver, "in"))
        )
        # those whose states are unknown were under way at the end, or are equal to another packet
        assert states["unknown"] <= 0.01 * sent
        assert states["received"] + states["lost"] + states["unknown"] == sent
        assert 0 <= arrived - states["received"] - states["duplicate"] <= states["unknown"]
        lossy = mine.filter(polars.col("path") == "path1", polars.col("state") != "unknown")
        share = {state: lossy.filter(state=state).height / lossy.height for state in ("lost", "duplicate")}
        assert share == pytest.approx({"lost": 0.02, "duplicate": 0.02}, abs=0.015)
        assert mine.filter(path="path0", state="duplicate").height == 0
    delays = {(row["from"], row["path"]): row for row in read["one_way_delays"]}
    assert set(delays) == {(host, path) for host in ("client", "server") for path in ("path0", "path1")}
    # path 1 delays by 25 to 35 ms, path 0 by 10 ms; acknowledgements wait in no queue
    assert 25e6 <= delays["server", "path1"]["min_delay_ns"] < delays["server", "path1"]["max_delay_ns"] < 37e6
    assert delays["server", "path0"]["median_delay_ns"] == pytest.approx(10_030_000, abs=20_000)


def test_the_delays_of_a_run_are_drawn(probed: tuple[Result, dict[str, Any]]) -> None:
    run, _ = probed
    assert call("report", run.run, cwd=run.run.parent).status == 0
    rows = (run.run / "figures" / "one-way-delay-time.csv").read_text().splitlines()
    assert rows[0] == "panel,series,time_s,delay_s"
    delays = polars.read_parquet(run.run / "tables" / "one_way_delays.parquet")
    # the pings of idle paths, before time zero, are not drawn
    first = delays.filter(polars.col("sent_ns") >= 0).row(0, named=True)
    assert first["sent_ns"] < 1e6
    assert delays["sent_ns"][0] < 0
    assert all(float(row.rsplit(",", 2)[1]) >= 0 for row in rows[1:])
    assert f"client → server,path0,{first['sent_ns'] / 1e9!r},{first['delay_ns'] / 1e9!r}" in rows
    assert 'id="one-way-delay-time"' in (run.run / "report.html").read_text()


def test_delays_between_named_captures(probed: tuple[Result, dict[str, Any]]) -> None:
    run, _ = probed
    again = call("packets", run.run, "--delay", "client.pcap", "server", "--json", cwd=run.run.parent)
    assert {(row["from"], row["to"]) for row in json.loads(again.out)["one_way_delays"]} == {("client", "server")}
    bad = call("packets", run.run, "--delay", "client", "router", cwd=run.run.parent)
    assert (bad.status, "no capture 'router'" in bad.out + bad.err) == (2, True)
    # the fixture's table
    assert call("packets", run.run, cwd=run.run.parent).status == 0


def test_flows_without_a_connection_are_named(tmp_path: Path) -> None:
    flow = "{name: it, tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}"
    text = f"version: 1\ntraffic:\n  - {flow}\ncapture: [{{host: client}}]\n"
    run, _ = run_and_read(tmp_path, LAB / "topo", text)
    shown = call("packets", run.run, cwd=tmp_path)
    assert "client: no connection of TCP, MPTCP or SCTP; the run has flows over UDP" in shown.out


def test_flows_beside_connections_are_named(tmp_path: Path) -> None:
    flow = "{tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}"
    other = "{tool: http, from: client, to: server, sizes: [10kb]}"
    text = f"version: 1\ntraffic:\n  - {flow}\n  - {other}\ncapture: [{{host: client}}]\n"
    run, _ = run_and_read(tmp_path, LAB / "topo", text)
    shown = call("packets", run.run, cwd=tmp_path)
    assert "client: 1 connection\n" in shown.out
    assert "  not listed: flows over UDP, which are in the table packets\n" in shown.out


def test_subflows_of_one_path_differ_in_their_ports(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("AMOUNT", "size: 1mb").replace("fullmesh", "ndiffports", 1)
    run, _ = run_and_read(tmp_path, LAB / "topo", text)
    lines = call("packets", run.run, cwd=tmp_path).out.splitlines()
    (first, second) = [line.split()[:3] for line in lines if line.startswith("       path0")][:2]
    assert first[:2] == second[:2] == ["path0,", "port"]
    assert first[2] != second[2]


def test_a_statement_about_packets_makes_their_tables(tmp_path: Path) -> None:
    (reference,) = parse_value("xp.subflows[capture=client, kind=initial].established_ns").references()
    run = RunDirectory(copy_run(tmp_path))
    assert run.find_table("subflows") is None
    # the handshake of the first connection takes the round trip of its path
    assert find_value(reference, {"xp": measured_by(run)}).amounts[0] == pytest.approx(0.04, abs=0.0001)
    without = RunDirectory(copy_run(tmp_path, "without"))
    shutil.rmtree(without.path / "pcap")
    with pytest.raises(UnknownName, match="the run has no table 'subflows'"):
        find_value(reference, {"xp": measured_by(without)})
