# SPDX-License-Identifier: Apache-2.0
"""Links behave as written, and change when they should, measured in the virtual engine."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mprun.compile import allocate
from mprun.compile.packet_trains import compile_calibration
from mprun.engines import virtual
from mprun.inputs.keys.profile import PROFILES
from mprun.inputs.loading import load
from mprun.kernel.store import find_kernel
from mprun.metrics.calibration import judge
from mprun.model.capabilities import REFERENCE
from mprun.storage.run_directory import RunDirectory
from tests.scenes import RATES_ONLY
from tests.system.conftest import LAB, ROOT, Result, digests_of, measures_real_time

HEAD = "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks:\n"
# Every property and every profile is measured against its value. The losses of satellites are left out: a loss of one
# in a thousand takes 400,000 frames to measure, and the loss of ethernet is of the same kind.
EVERYTHING = (
    HEAD
    + """\
  - {name: slow, between: [a, b], rate: 100kbit, delay: 1s}
  - {name: fast, between: [a, b], rate: 1gbit, rtt: 80ms}
  - {name: short, between: [a, b], rate: 1gbit, queue: 1packets}
  - {name: bytes, between: [a, b], rate: 10mbit, queue: 40kb}
  - {name: time, between: [a, b], rate: 10mbit, queue: 30ms}
  - {name: jumbo, between: [a, b], rate: 100mbit, delay: 5ms, mtu: 9000}
  - name: bursts
    between: [a, b]
    delay: 1ms
    loss: {forward: {random: 5%, correlation: 25%}, reverse: {gemodel: {p: 5%, r: 40%}}}
  - name: state
    between: [a, b]
    loss: {forward: {state: {p13: 2%, p31: 40%, p32: 10%, p23: 30%, p14: 1%}}, reverse: 2%}
  - {name: uniform, between: [a, b], rate: 50mbit, delay: 30ms, jitter: {amount: 4ms, correlation: 40%}}
  - name: normal
    between: [a, b]
    delay: 30ms
    jitter: {forward: {amount: 3ms, distribution: normal, correlation: 80%}, reverse: 2ms}
  - name: pareto
    between: [a, b]
    delay: 30ms
    jitter: {forward: {amount: 3ms, distribution: pareto}, reverse: {amount: 3ms, distribution: paretonormal}}
  - {name: red, between: [a, b], rate: 10mbit, rtt: 40ms, queue: {discipline: red, ecn: true}}
  - {name: codel, between: [a, b], rate: 10mbit, queue: {limit: 100packets, discipline: codel}}
  - {name: fq_codel, between: [a, b], rate: 10mbit, queue: {limit: 50ms, discipline: fq_codel}}
  - {name: pie, between: [a, b], rate: 10mbit, queue: {limit: 100packets, discipline: pie}}
  - {name: cake, between: [a, b], rate: 10mbit, queue: {limit: 100kb, discipline: cake}}
  - {name: ethernet, between: [a, b], profile: ethernet}
  - {name: wifi, between: [a, b], profile: wifi-802.11g}
  - {name: hspa, between: [a, b], profile: 3g-hspa+}
  - {name: lte, between: [a, b], profile: 4g-lte}
  - {name: leo, between: [a, b], profile: satellite-leo, loss: 0%}
  - {name: geo, between: [a, b], profile: satellite-geo, loss: 0%}
  - {name: reorder, between: [a, b], rate: 10mbit, delay: 5ms, reorder: 20%}
"""
)
PING = (
    "version: 1\nprobe: {{pings: 0}}\n"
    "traffic: [{{name: echo, tool: ping, from: a, to: b, duration: {seconds}s, interval: {interval}}}]\n"
)


def steps(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]


def write(folder: Path, links: str, events: str, experiment: str) -> None:
    (folder / "topo.yaml").write_text(HEAD + links + ("events:\n" + events if events else ""))
    (folder / "xp.yaml").write_text(experiment)


@pytest.mark.usefixtures("leaves_nothing")
def test_every_property_is_as_asked(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(EVERYTHING)
    result = mprun("calibrate", "-t", "topo", "--engine", "virtual", "--json")
    wrong = [row for row in json.loads(result.out)["rows"] if not row["held"]]
    assert wrong == []
    assert result.status == 0
    measured = {(row["link"], row["quantity"]) for row in json.loads(result.out)["rows"]}
    assert {("ethernet", "loss"), ("uniform", "jitter"), ("bytes", "queue"), ("lte", "rate")} <= measured


@pytest.mark.parametrize(
    ("rate", "delay_ms", "length"), [(300_000, 50, 1158), (20_000_000, 20, 100), (1_000_000_000, 0, 1472)]
)
def test_a_frame_takes_its_length_on_an_idle_link(
    mprun: Callable[..., Result], tmp_path: Path, rate: int, delay_ms: int, length: int
) -> None:
    """A frame has 14 bytes of Ethernet, 20 of IP and 8 of UDP.

    One packet each second finds the link idle. Timers step by 256 ns.
    """
    write(
        tmp_path,
        f"  - {{name: l, between: [a, b], rate: {rate}bit, delay: {delay_ms}ms, queue: 20packets}}\n",
        "",
        "version: 1\nprobe: {pings: 0}\ntraffic: [{tool: udp, from: a, to: b, duration: 5s, "
        f"rate: {length * 8}bit, length: {length}bytes}}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.err
    expected = delay_ms / 1e3 + (length + 42) * 8 / rate
    for which in ("min", "max"):
        assert result.metric(f"udp.delay.{which}") == pytest.approx(expected, abs=4e-6)


def test_a_queue_holds_what_was_asked_beside_the_frame_that_is_sent(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """30 frames come at once: 1 is in transmission, 20 wait, and the last of them leaves after 21 transmissions."""
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 1mbit, delay: 10ms, queue: 20packets}\n",
        "",
        "version: 1\nprobe: {pings: 0}\ntraffic: [{tool: udp, from: a, to: b, duration: 1ms, rate: 240mbit, "
        "length: 1000bytes}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.metric("udp.packets") == 30
    assert result.metric("udp.loss") == pytest.approx(9 / 30)
    assert result.metric("udp.delay.max") == pytest.approx(0.01 + 21 * 1042 * 8 / 1e6, abs=0.001)


def test_every_profile_is_measured() -> None:
    assert all(re.search(f"profile: {re.escape(name)}[,}}]", EVERYTHING) for name in PROFILES)


def test_calibration_leaves_the_result_alone(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text((LAB / "xp_tcp.yaml").read_text() + "calibrate: true\n")
    alone = mprun("-t", LAB / "topo", "-x", LAB / "xp_tcp", "--engine", "virtual", "--json")
    beside = mprun("-t", LAB / "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert beside.status == 0
    assert json.loads((beside.run / "calibration.json").read_text())["passed"]
    assert digests_of(alone.run) == digests_of(beside.run)


def test_a_link_that_is_not_as_asked_fails_its_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Each frame is sent twice, and one of the two waits for the other at the rate."""
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 10mbit, delay: 5ms, duplicate: 100%}\n",
        "",
        PING.format(seconds=1, interval="100ms") + "calibrate: true\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 1
    assert result.summary["status"] == "failed"
    said = r"calibration of l forward: delay: asked 5 ms, got 5\.02\d* \(4\.99 to 5\.01 is allowed\)"
    assert any(re.fullmatch(said, failure) for failure in result.summary["failures"])


def test_calibration_finds_each_link_that_is_built_otherwise(tmp_path: Path) -> None:
    """Each link has an error slightly above its tolerance, in one direction. All other values are correct."""
    asked = (
        "  - {name: rate, between: [a, b], rate: 10mbit, queue: 100packets}\n"
        "  - {name: delay, between: [a, b], delay: 20ms}\n"
        "  - {name: loss, between: [a, b], loss: 2%}\n"
        "  - {name: queue, between: [a, b], rate: 10mbit, queue: 50packets}\n"
        "  - {name: jitter, between: [a, b], delay: 20ms, jitter: 2ms}\n"
    )
    built = asked
    for value, other in (
        ("rate: 10mbit, queue: 100", "rate: {forward: 10150kbit, reverse: 10mbit}, queue: 100"),
        ("delay: 20ms}", "delay: {forward: 20020us, reverse: 20ms}}"),
        # 2 % of 5000 frames appear as 1.2 to 2.8 % in 9999 of 10000 tries
        ("loss: 2%", "loss: {forward: 4%, reverse: 2%}"),
        ("queue: 50packets", "queue: {forward: 52packets, reverse: 50packets}"),
        ("jitter: 2ms", "jitter: {forward: 2300us, reverse: 2ms}"),
    ):
        assert value in built
        built = built.replace(value, other)
    networks, plans = [], []
    for links in (asked, built):
        write(tmp_path, links, "", "")
        spec = load(tmp_path / "topo.yaml", None).spec
        networks.append(allocate(spec))
        plans.append(compile_calibration(spec, networks[-1], REFERENCE))
    plan = replace(plans[0], build=plans[1].build)
    run = RunDirectory.create(tmp_path / "runs", "calibration", plan.digest)
    run.folder.write_text("plan.json", plan.to_text())
    virtual.run_plan(plan, run, find_kernel(), lambda *_: None)
    found = judge(networks[0], plan.trains, run.agent_report().trains, is_simulated=True)
    wrong = [(row.link, row.direction, row.quantity) for row in found.rows if not row.held]
    assert wrong == [(name, "forward", name) for name in ("rate", "delay", "loss", "queue", "jitter")]
    assert not found.passed


@pytest.mark.usefixtures("leaves_nothing")
@measures_real_time
@pytest.mark.alone
def test_real_engine_calibrates(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    result = mprun("calibrate", "-t", "topo", "--engine", "real", "--json")
    rows = json.loads(result.out)["rows"]
    rates = [row for row in rows if row["quantity"] == "rate"]
    assert len(rates) == 4
    assert all(row["got"] == pytest.approx(20e6, rel=0.03) for row in rates)


def test_overlapping_changes_and_odd_rates_are_set_and_read_back(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The read-back of every change holds, from the least rate with the largest frames to the steps of a ramp."""
    (tmp_path / "cell").write_text("10\n40\n120\n")
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 10mbit, delay: 20ms}\n"
        "  - {name: least, between: [a, b], rate: 100bit, delay: 20ms, mtu: 65535}\n"
        "  - {name: traced, between: [a, b], rate: 1mbit, mtu: 9000}\n",
        "  - {at: 500ms, for: 1s, link: l, set: {rate: 20mbit}}\n"
        "  - {at: 1s, for: 1s, link: l, set: {rate: 30mbit}}\n"
        "  - {at: 1200ms, over: 1500ms, step: 500ms, link: l, set: {rate: 4777kbit}}\n"
        "  - {at: 1s, link: least, set: {rate: 99999999999bit}}\n"
        "  - {at: 2s, link: least, set: {rate: 8bit}}\n"
        "  - {at: 1s, link: traced, trace: cell, interval: 30ms}\n",
        PING.format(seconds=4, interval="50ms"),
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    changes = [step for step in steps(result.run) if step["step"] == "change" and step["name"] == "l"]
    rates = [(step["asked_ns"] // 10**6, step["values"]["forward"]["rate_bit_per_s"]) for step in changes]
    assert rates == [(500, 20_000_000), (1000, 30_000_000), (2000, 8_259_000), (2200, 6_518_000), (2700, 4_777_000)]


def test_a_gap_of_a_trace_carries_nothing(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Packets wait in the queue: none arrives in a gap of 10 s, and each arrives after it."""
    (tmp_path / "cell").write_text("".join(f"{ms}\n" for ms in [*range(1, 1001), 11_000, *range(11_001, 13_001)]))
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 12mbit, delay: 5ms, queue: 1000packets}\n",
        "  - {at: 0s, link: l, trace: cell, direction: forward}\n",
        PING.format(seconds=12, interval="100ms"),
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    answers = re.findall(r"icmp_seq=(\d+) .*time=([\d.]+) ms", (result.run / "logs/echo.out").read_text())
    arrivals_s = [(int(number) - 1) * 0.1 + float(took_ms) / 1000 for number, took_ms in answers]
    assert len(arrivals_s) == 120
    assert [at_s for at_s in arrivals_s if 1.02 < at_s < 10.9] == []


def test_no_packet_makes_a_change_late(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Elsewhere poll(2) may wake a task later by a thousandth of its time-out, at the time of a packet meanwhile."""
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 8mbit, delay: 5ms}\n",
        "  - {at: 2s, every: 1s, until: 6s, link: l, set: {rate: 4mbit}}\n"
        "  - {at: 2250ms, every: 1s, until: 6s, link: l, set: {rate: 8mbit}}\n",
        "version: 1\nprobe: {pings: 0}\n"
        "traffic: [{tool: udp, from: a, to: b, rate: 7001kbit, length: 700bytes, duration: 8s}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    late = [step["actual_ns"] - step["asked_ns"] for step in steps(result.run) if step["step"] == "change"]
    assert len(late) == 8
    # the first change opens what it needs
    assert late[0] < 20_000
    assert max(late[1:]) <= 512


def test_ten_changes_a_second_for_a_minute_do_not_drift(mprun: Callable[..., Result], tmp_path: Path) -> None:
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 10mbit, delay: 20ms}\n",
        "  - {at: 100ms, every: 200ms, until: 60s, link: l, set: {delay: 10ms, rate: 5mbit}}\n"
        "  - {at: 200ms, every: 200ms, until: 60s, link: l, set: {delay: 20ms, rate: 10mbit}}\n",
        PING.format(seconds=60, interval="50ms"),
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    changes = [step for step in steps(result.run) if step["step"] == "change"]
    assert len(changes) == 599
    late = [step["actual_ns"] - step["asked_ns"] for step in changes]
    assert min(late) >= 0
    assert max(late) < 100_000
    # no packet in flight was lost, and each delay is the delay of one of the two states
    assert result.metric("echo.loss") == 0
    times = [
        float(line.split("time=")[1].split()[0])
        for line in (result.run / "logs" / "echo.out").read_text().splitlines()
        if "time=" in line
    ]
    # Request and answer of 98 bytes are sent at 5 Mbit/s. If two requests meet where the delay falls, they leave one
    # after the other in each direction.
    sent_ms = 98 * 8 / 5e3
    assert min(times) == pytest.approx(20 + 2 * sent_ms, abs=0.01)
    assert 40 <= max(times) <= 40 + 4 * sent_ms


def test_loss_and_state_come_and_go(mprun: Callable[..., Result], tmp_path: Path) -> None:
    write(
        tmp_path,
        "  - {name: l, between: [a, b], delay: 5ms}\n",
        "  - {at: 1s, link: l, set: {loss: 100%}}\n  - {at: 2s, link: l, set: {loss: 0%}}\n"
        "  - {at: 3s, link: l, state: down}\n  - {at: 4s, link: l, state: up}\n"
        "  - {at: 5s, host: a, address: l, state: removed}\n  - {at: 6s, host: a, address: l, state: added}\n",
        PING.format(seconds=8, interval="50ms") + "capture: [{host: a}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    zero = next(step["actual_ns"] for step in steps(result.run) if step["step"] == "change") / 1e9 - 1
    assert zero == pytest.approx(0, abs=1e-4)
    sent, answered = echoes(result.run / "pcap" / "a.pcap")
    first = min(sent.values())
    for number, moment in sent.items():
        since = moment - first
        silent = any(low <= since < low + 1 for low in (1, 3, 5))
        if all(abs(since - edge) > 0.02 for edge in range(1, 7)):
            assert (number in answered) is not silent, (number, since)
    assert len(answered) > 60


def echoes(pcap: Path) -> tuple[dict[int, float], dict[int, float]]:
    """Return the times of requests and of answers, by sequence number."""
    argv = ["tshark", "-r", str(pcap), "-T", "fields", "-e", "frame.time_epoch", "-e", "icmp.seq", "-e", "icmp.type"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines if line.split("\t")[2] in ("0", "8")]
    sent, answered = ({int(number): float(moment) for moment, number, of in rows if of == kind} for kind in "80")
    return sent, answered


def test_ramps_and_schedules_set_the_delay(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "delays.csv").write_text("at,delay\n3s,30ms\n4s,20ms\n")
    write(
        tmp_path,
        "  - {name: l, between: [a, b], delay: 10ms}\n",
        "  - {at: 1s, over: 1s, step: 250ms, link: l, set: {delay: 50ms}}\n  - {link: l, schedule: delays.csv}\n",
        PING.format(seconds=5, interval="50ms") + "capture: [{host: a}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    sent, answered = echoes(result.run / "pcap" / "a.pcap")
    first = min(sent.values())
    told = {row["sequence"]: row["start_ns"] / 1e9 for row in result.rows("pings")}
    assert all(told[n] - told[1] == pytest.approx(sent[n] - sent[1], abs=2e-4) for n in told)
    states = [(0, 10), (1.25, 20), (1.5, 30), (1.75, 40), (2, 50), (3, 30), (4, 20), (5, 0)]
    for (begin_s, delay_ms), (end_s, _) in pairwise(states):
        trip_s = 2 * delay_ms / 1e3
        # requests that are sent and answered while nothing changes
        steady = [n for n, moment in sent.items() if begin_s < moment - first < end_s - trip_s - 1e-3]
        assert len(steady) >= 2
        assert [answered[n] - sent[n] for n in steady] == pytest.approx([trip_s] * len(steady), abs=10e-6)


# One opportunity every 2 ms in the first second, every ms in the second; FRAME_BITS gives the equal rates.
OFFERED = [*range(2, 1001, 2), *range(1001, 2001)]
FRAME_BITS = 1514 * 8


@pytest.mark.parametrize(
    ("lines", "form"),
    [(map(str, OFFERED), ""), ([f"{500 * FRAME_BITS}bit", f"{1000 * FRAME_BITS}bit"], "format: rates, interval: 1s, ")],
)
def test_trace_carries_what_it_offers(
    mprun: Callable[..., Result], tmp_path: Path, lines: Iterable[str], form: str
) -> None:
    """The trace offers 9.08 Mbit/s on average."""
    (tmp_path / "cell.trace").write_text("\n".join(lines) + "\n")
    write(
        tmp_path,
        "  - {name: l, between: [a, b], rate: 5mbit, delay: 10ms, queue: 100packets}\n",
        f"  - {{link: l, trace: cell.trace, {form}until: 20s}}\n",
        "version: 1\ntraffic: [{name: bulk, tool: iperf3, from: a, to: b, duration: 20s}]\n",
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    ceiling = 1.5 * FRAME_BITS * 500 * 1448 / 1514
    assert 0.93 * ceiling <= result.metric("bulk.goodput") <= 1.005 * ceiling
    assert (result.run / "inputs" / "cell.trace").exists()


def test_changed_links_repeat_byte_for_byte(mprun: Callable[..., Result]) -> None:
    case = ROOT / "tests" / "golden" / "plans" / "events"
    runs = [mprun("-t", case / "topo", "-x", case / "xp", "--engine", "virtual", "--json") for _ in range(2)]
    assert digests_of(runs[0].run) == digests_of(runs[1].run)


# 150 wires in a row, and 72 hosts at routers with 9 links to each of two others.
WIDE = {
    "line": ("topology: line\nrouters: 150\nrate: 100mbit\n", "from: client, to: server"),
    "tree": (
        "topology: two-level-tree\nports: 36\ncore: 2\nedge: 4\nparallel: 9\nhosts_per_edge: 18\necmp: true\n"
        "access: {rate: 10mbit}\ntrunk: {rate: 10mbit}\n",
        "from: h0..h17, to: h54..h71, pairs: in-order",
    ),
}


@pytest.mark.parametrize("engine", ["virtual", "real"])
@pytest.mark.parametrize("name", WIDE)
def test_first_packet_passes_many_wires(mprun: Callable[..., Result], tmp_path: Path, name: str, engine: str) -> None:
    """The kernel activates a few hundred new links a second. An earlier packet is lost without a trace."""
    topology, ends = WIDE[name]
    (tmp_path / "topo.yaml").write_text(f"version: 1\n{topology}")
    flow = f"{{name: echo, tool: ping, {ends}, interval: 200ms, count: 2}}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\nprobe: {{pings: 0}}\ntraffic: [{flow}]\n")
    result = mprun("-t", "topo", "-x", "xp", "--engine", engine, "--json")
    assert result.status == 0, result.out + result.err
    metrics = result.summary["metrics"]
    losses = [metric["value"] for key, metric in metrics.items() if key.endswith(".loss")]
    assert len(losses) == (18 if name == "tree" else 1)
    assert set(losses) == {0}


LOADED = """\
version: 1
probe: {{pings: 0}}
hosts:
  a: &ecn {{sysctl: {{net.ipv4.tcp_ecn: {ecn}}}}}
  b: *ecn
traffic:
  - {{name: load, tool: iperf3, from: a, to: b, duration: 12s}}
  - {{name: echo, tool: ping, from: a, to: b, start: 4s, duration: 6s, interval: 100ms}}
"""


@pytest.mark.parametrize(
    ("queue", "least_s", "most_s"),
    [
        # 200 frames of 1514 bytes take 242 ms at 10 Mbit/s; cubic keeps a drop-tail queue full
        ("200packets", 0.15, 0.3),
        ("{limit: 300kb, discipline: red}", 0.045, 0.2),
        ("{limit: 200packets, discipline: codel}", 0.04, 0.09),
        ("{limit: 200packets, discipline: pie}", 0.04, 0.1),
        # the pings have a queue of their own
        ("{limit: 200packets, discipline: fq_codel}", 0.04, 0.05),
        ("{limit: 450kb, discipline: cake}", 0.04, 0.05),
    ],
)
def test_discipline_holds_the_delay_down(
    mprun: Callable[..., Result], tmp_path: Path, queue: str, least_s: float, most_s: float
) -> None:
    """The pings run during a bulk transfer over 10 Mbit/s and 40 ms."""
    links = f"  - {{name: l, between: [a, b], rate: 10mbit, rtt: 40ms, queue: {queue}}}\n"
    write(tmp_path, links, "", LOADED.format(ecn=0))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert least_s <= result.metric("echo.rtt") <= most_s
    assert result.metric("load.goodput") >= 0.85 * 10e6 * 1448 / 1514


@pytest.mark.parametrize("discipline", ["codel", "fq_codel"])
def test_a_threshold_marks_before_the_discipline_does(
    mprun: Callable[..., Result], tmp_path: Path, discipline: str
) -> None:
    """A target of 100 ms alone lets the queue grow. A threshold of 10 ms keeps it short, without any loss."""
    found = []
    for more in ("", ", ce_threshold: 10ms"):
        queue = f"{{limit: 200packets, discipline: {discipline}, target: 100ms, ecn: true{more}}}"
        links = f"  - {{name: l, between: [a, b], rate: 10mbit, rtt: 40ms, queue: {queue}}}\n"
        write(tmp_path, links, "", LOADED.format(ecn=1))
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        assert result.status == 0, result.out + result.err
        longest_us = max(row["rtt_us"] for row in result.rows("sockets") if row["rtt_us"] is not None)
        found.append((longest_us, result.metric("load.retransmits")))
        assert result.metric("load.goodput") > 7e6
    assert found[1][0] < 0.5 * found[0][0]
    assert found[1][1] == 0


def test_a_discipline_that_the_kernel_lacks_is_refused_by_name(mprun: Callable[..., Result], tmp_path: Path) -> None:
    links = "  - {name: l, between: [a, b], rate: 10mbit, rtt: 40ms, queue: {discipline: dualpi2}}\n"
    write(tmp_path, links, "", LOADED.format(ecn=1))
    for words, status in ((("run",), 3), (("validate",), 2)):
        result = mprun(*words, "-t", "topo", "-x", "xp", "--engine", "virtual")
        assert result.status == status
        assert "has no queue discipline 'dualpi2', which Linux has from 6.17 on: `mprun kernel build" in result.err


@pytest.mark.parametrize("discipline", ["codel", "red", "pie"])
def test_marks_take_the_place_of_losses(mprun: Callable[..., Result], tmp_path: Path, discipline: str) -> None:
    limit = "300kb" if discipline == "red" else "200packets"
    retransmits = []
    for ecn in (False, True):
        queue = f"{{limit: {limit}, discipline: {discipline}, ecn: {str(ecn).lower()}}}"
        links = f"  - {{name: l, between: [a, b], rate: 10mbit, rtt: 40ms, queue: {queue}}}\n"
        write(tmp_path, links, "", LOADED.format(ecn=1))
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        retransmits.append(result.metric("load.retransmits"))
    assert retransmits[0] > 5 * (1 + retransmits[1])
