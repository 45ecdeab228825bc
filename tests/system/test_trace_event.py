# SPDX-License-Identifier: Apache-2.0
"""Trace events of the experiment kernel: tables with simulated times, in a run that stays the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.captures.pcapng import frames
from tests.scenes import ONE_PATH, copy_kernel
from tests.system.conftest import Result, call, environment

BULK = """\
version: 1
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]
capture: [{host: client}, {host: server}]
"""
PROBE = "tracepoints: ['tcp:tcp_probe', 'mptcp:*']\nplots: [{table: trace-tcp-tcp_probe, column: snd_cwnd}]\n"
# Kinds of events that fill the kernel's buffer in one second.
MANY = "tracepoints: ['skb:*', 'net:*', 'sched:*', 'timer:*', 'irq:*', 'qdisc:*', 'mptcp:*', 'tcp:*', 'kmem:*']\n"


def run(mprun: Callable[..., Result], folder: Path, more: str, topology: str = ONE_PATH) -> Result:
    folder.mkdir(exist_ok=True)
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(BULK + more)
    files = ("-t", folder / "topo", "-x", folder / "xp", "-o", folder / "runs")
    return mprun(*files, "--engine", "virtual", "--json")


def packets(mprun: Callable[..., Result], result: Result) -> polars.DataFrame:
    """Return the table of the packets of all captures."""
    assert mprun("packets", result.run).status == 0
    return polars.read_parquet(result.run / "tables" / "packets.parquet")


def test_events_have_the_times_of_the_packets(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, PROBE)
    assert result.status == 0, result.err
    arrived = packets(mprun, result)
    probes = polars.read_parquet(result.run / "tables" / "trace-tcp-tcp_probe.parquet")
    assert set(probes["host"]) == {"client", "server"}
    assert probes.height > 1000
    assert set(probes["time_ns"]) <= set(arrived["time_ns"])
    # the congestion window that the kernel's own report of the socket has
    sampled = polars.read_parquet(result.run / "tables" / "sockets.parquet").filter(polars.col("host") == "client")
    windows = probes.filter(polars.col("host") == "client")["snd_cwnd"].to_list()
    assert max(windows) >= max(sampled["snd_cwnd_packets"].to_list())


def test_events_change_nothing_of_a_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    with_events = run(mprun, tmp_path / "with", PROBE)
    without = run(mprun, tmp_path / "without", "")
    seen = packets(mprun, with_events)
    assert seen.height > 1000
    assert seen.equals(packets(mprun, without))
    for host in ("client", "server"):
        one, other = ((made.run / "pcap" / f"{host}.pcap").read_bytes() for made in (with_events, without))
        assert list(frames(one)) == list(frames(other))
    assert with_events.summary["metrics"] == without.summary["metrics"]


def test_samples_change_nothing_of_a_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Hundreds of samples fall between the packets, and none of them takes time."""
    sampled = run(mprun, tmp_path / "with", "sample: {sockets: 3ms, queues: 7ms, interfaces: 11ms}\n")
    without = run(mprun, tmp_path / "without", "")
    assert len(sampled.rows("sockets")) > 10 * len(without.rows("sockets"))
    for host in ("client", "server"):
        one, other = ((made.run / "pcap" / f"{host}.pcap").read_bytes() for made in (sampled, without))
        assert len(one) > 100_000
        assert list(frames(one)) == list(frames(other))


def test_another_user_gets_the_same_bytes(tmp_path: Path) -> None:
    """Neither another home nor a longer environment moves the objects of the kernel, whose addresses a record has."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(BULK + PROBE)
    made = []
    for name in ("a", "another-user-with-a-long-name" * 3):
        home = tmp_path / name
        (home / "tmp").mkdir(parents=True)
        copy_kernel(home / "cache")
        env = environment(HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), TMPDIR=str(home / "tmp"), LONG=name * 70)
        files = ("-t", "topo", "-x", "xp", "-o", home / "runs", "--engine", "virtual", "--json")
        result = call(*files, cwd=tmp_path, env=env)
        assert result.status == 0, result.err
        made.append(result.run)
    one, other = (polars.read_parquet(run / "tables" / "trace-tcp-tcp_probe.parquet") for run in made)
    assert one.height > 1000
    assert other.height == one.height
    assert [name for name in one.columns if not one[name].equals(other[name])] == []
    for name in ("record.gz", "agent.json", "tables/kernel_log.parquet"):
        assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes(), name


def test_a_run_with_events_repeats_byte_for_byte(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, PROBE)
    verified = mprun("verify", result.run)
    assert verified.status == 0, verified.out + verified.err


def test_events_are_shown_exported_and_drawn(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, PROBE)
    shown = json.loads(mprun("show", result.run, "--trace", "tcp:*", "--json").out)["events"]
    kinds: dict[str, Any] = {
        one["event"]: one for one in json.loads(mprun("show", result.run, "--trace", "--json").out)["kinds"]
    }
    assert kinds["tcp:tcp_probe"]["count"] == len(shown)
    assert kinds["mptcp:mptcp_subflow_get_send"]["count"] > 0
    times = [one["time_ns"] for one in shown]
    assert times == sorted(times)
    text = mprun("show", result.run, "--trace", "tcp:*").out.splitlines()
    assert len(text) == len(shown)
    assert text[0].startswith(f"{times[0] / 1e9:13.9f}  {shown[0]['host']}  tcp:tcp_probe  saddr=")
    assert "did you mean" in mprun("show", result.run, "--trace", "tcp:tcp_prob").err
    assert mprun("export", result.run, "--csv", "--sqlite", "--to", tmp_path / "out").status == 0
    with (tmp_path / "out" / "trace-tcp-tcp_probe.csv").open() as file:
        assert len(file.readlines()) == len(shown) + 1
    assert (tmp_path / "out" / "tables.sqlite").exists()
    assert mprun("report", result.run).status == 0
    assert (result.run / "figures" / "trace-tcp-tcp_probe-snd_cwnd.csv").exists()


def test_an_unknown_event_is_refused_before_a_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "tracepoints: ['tcp:tcp_prob']\n")
    assert result.status == 2
    assert "tracepoints[0]: kernel 'default' has no event 'tcp:tcp_prob': did you mean tcp:tcp_probe" in result.err
    assert not (tmp_path / "runs").exists()
    assert "did you mean mptcp:*" in run(mprun, tmp_path, "tracepoints: ['mtcp:*']\n").err


def test_overwritten_events_are_a_warning(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, MANY, ONE_PATH.replace("20mbit", "300mbit"))
    assert result.status == 0, result.err
    (warning,) = (one for one in result.summary["warnings"] if "trace events" in one)
    assert "trace events were overwritten, because the kernel keeps the last 32 MiB" in warning
    assert int(warning.split()[0]) > 0


@pytest.mark.alone
def test_the_real_engine_refuses_events(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(BULK + PROBE)
    refused = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert refused.status == 3
    assert "'tracepoints' records the events of an experiment kernel" in " ".join(refused.err.split())


def test_a_run_without_events_says_how_to_record_them(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "")
    refused = mprun("show", result.run, "--trace")
    assert refused.status == 2
    assert "write 'tracepoints: [tcp:tcp_probe]'" in " ".join(refused.err.split())
