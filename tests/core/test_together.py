# SPDX-License-Identifier: Apache-2.0
"""Several flows together: their goodput never exceeds the capacity of the network, whenever they start and end.

The test makes the output of iperf3 and of the kernel for a network whose running flows share its rate.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.metrics.evidence import Evidence
from mprun.metrics.flow_group import find_fairness, find_rate, sum_up
from mprun.metrics.observation import NAMES, Observation
from mprun.metrics.summary import Measured, measure
from mprun.model.agent_report import AgentReport, Ended
from mprun.workloads.tool import Portion, Result
from tests import intents

OUTPUTS = Path(__file__).parents[1] / "outputs"
CAPACITY = 30e6
SECOND_NS = 1_000_000_000
MS_NS = 1_000_000
Changes = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Course:
    """A flow in an ideal network: its start, the begin and duration of its test, and its rates.

    - start_s: the start of its program, s
    - begin_s, duration_s: the begin and the duration of the test, s
    - rates: the rate from each moment on, bit/s
    """

    start_s: float
    begin_s: float
    duration_s: int
    rates: Changes = ()

    @property
    def end_s(self) -> float:
        return self.begin_s + self.duration_s

    def bytes_until(self, at_s: float) -> float:
        moments = [*self.rates, (self.end_s, 0.0)]
        return sum(rate * max(0.0, min(at_s, end) - begin) / 8 for (begin, rate), (end, _) in pairwise(moments))


def share(courses: Sequence[Course], weights: Mapping[int, float]) -> list[Course]:
    """Return the same flows in a network that is always full: running flows share its capacity by their weights."""
    moments = sorted({at for one in courses for at in (one.begin_s, one.end_s)})
    shared = []
    for number, one in enumerate(courses):
        rates = []
        for begin_s in moments:
            if one.begin_s <= begin_s < one.end_s:
                running = [weights[n] for n, o in enumerate(courses) if o.begin_s <= begin_s < o.end_s]
                rates.append((begin_s, CAPACITY * weights[number] / sum(running)))
        shared.append(Course(one.start_s, one.begin_s, one.duration_s, rates))
    return shared


def draw(generator: random.Random) -> list[Course]:
    """Return two to six flows of 1 to 8 s that start within 10 s.

    Their tests begin up to 3 s later, because a path of 700 ms needs about four round trips for the start. Moments are
    whole milliseconds, like the kernel's ages of socket data.
    """
    courses = []
    for _ in range(generator.randint(2, 6)):
        start_s = generator.randrange(10_000) / 1000
        courses.append(Course(start_s, start_s + generator.randrange(3_000) / 1000, generator.randint(1, 8)))
    return share(courses, {n: generator.uniform(0.05, 1) for n in range(len(courses))})


def report(course: Course, port: int, data_port: int) -> str:
    """Return a report of iperf3 for the course, with intervals of one second from the begin of the test."""
    whole = json.loads((OUTPUTS / "iperf3-3.12-mptcp.json").read_text())
    intervals = []
    for second in range(course.duration_s):
        begin_s = course.begin_s + second
        size = course.bytes_until(begin_s + 1) - course.bytes_until(begin_s)
        (stream,) = whole["server_output_json"]["intervals"][second]["streams"]
        counted = {"start": second, "end": second + 1, "bytes": size, "bits_per_second": size * 8}
        intervals.append({"streams": [stream | counted], "sum": stream | counted})
    whole["server_output_json"]["intervals"] = intervals
    whole["start"]["connecting_to"]["port"] = port
    whole["start"]["connected"][0]["local_port"] = data_port
    whole["end"]["sum_received"]["bytes"] = course.bytes_until(course.end_s)
    return json.dumps(whole)


def sample(found: Observation, course: Course, port: int, data_port: int) -> None:
    """Add the server's sockets at each half second of the test.

    On the control connection the server has sent nothing since the test began.
    """
    at_ms = round(course.begin_s * 1000)
    for moment_ms in range(at_ms - at_ms % 500 + 500, round(course.end_s * 1000), 500):
        known: dict[str, int] = {"bytes_sent": 4, "bytes_retransmitted": 0, "bytes_received": 187}
        known |= {"last_sent_ms": moment_ms - at_ms, "last_received_ms": moment_ms - at_ms + 40}
        ends = ("10.1.0.1", port, "10.0.0.1", data_port + 1)
        found.sockets.add((moment_ms * MS_NS, "server", *ends, *(known.get(name) for name in NAMES)))
        data = {**known, "bytes_sent": 0, "bytes_received": round(course.bytes_until(moment_ms / 1000)) + 37}
        ends = ("10.1.0.1", port, "10.0.0.1", data_port)
        found.sockets.add((moment_ms * MS_NS, "server", *ends, *(data.get(name) for name in NAMES)))


def summarize(courses: Sequence[Course], tmp_path: Path, more: str = "") -> Measured:
    """Return the metrics of these flows."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 30mbit, delay: 20ms}]\n")
    lines = [
        f"  - {{name: f{n}, tool: iperf3, from: client, to: server, start: {one.start_s:g}s, "
        f"duration: {one.duration_s}s{more}}}\n"
        for n, one in enumerate(courses)
    ]
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{''.join(lines)}")
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    intent = compile_plan(spec, allocate(spec)).intent
    observation = Observation()
    processes, logs = {}, {}
    for flow, course in zip(intent.traffic, courses, strict=True):
        (port,) = flow.endpoints.all_ports
        data_port = 40_000 + 2 * port
        sample(observation, course, port, data_port)
        logs[flow.name] = report(course, port, data_port)
        span = (round(course.start_s * SECOND_NS), round((course.end_s + 0.2) * SECOND_NS))
        processes[flow.name] = Ended(0, False, "flow", (flow.name,), *span)
    agent = AgentReport(None, True, processes, zero_ns=0)
    return measure(
        Evidence(intent, agent, observation, lambda name, stream: logs.get(name, "") if stream == "out" else "")
    )


def value(measured: Measured, name: str) -> float | None:
    metric = measured.summary.metrics.get(name)
    return None if metric is None else metric.value


def overlap(courses: Sequence[Course]) -> bool:
    ordered = sorted(courses, key=lambda one: one.begin_s)
    ends = [max(one.end_s for one in ordered[:n]) for n in range(1, len(ordered))]
    return any(after.begin_s < end for after, end in zip(ordered[1:], ends, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_the_total_is_what_a_full_network_carries(seed: int, tmp_path: Path) -> None:
    """While any flow runs the network is full. So the total is the capacity, whenever flows start and end.

    A sum of the flows' means exceeds the capacity for most of these seeds.
    """
    courses = draw(random.Random(seed))
    measured = summarize(courses, tmp_path)
    assert not measured.summary.errors
    total = value(measured, "total.goodput")
    if not overlap(courses):
        assert total is None
        return
    # bytes are added as binary fractions, and moments are whole nanoseconds
    assert total == pytest.approx(CAPACITY, rel=1e-6)
    fairness = value(measured, "total.fairness")
    assert fairness is not None
    assert 1 / len(courses) <= fairness <= 1


def test_the_draws_have_what_a_sum_gets_wrong() -> None:
    """The property above could not fail if all flows always ran together, or never did."""
    excesses, kinds = [], set()
    for seed in range(40):
        courses = draw(random.Random(seed))
        kinds.add(overlap(courses))
        means = [one.bytes_until(one.end_s) * 8 / one.duration_s for one in courses]
        excesses.append(sum(means) / CAPACITY)
    assert kinds == {True, False}
    assert sum(excess > 1.2 for excess in excesses) > 20


def test_the_example_of_two_flows_of_five_seconds(tmp_path: Path) -> None:
    """The flows run from 0 to 5 s and from 3 to 8 s over 30 Mbit/s: each is alone for 3 s, and both share 2 s.

    The sum of their means is 2 x (3 x 30 + 2 x 15) / 5 = 48 Mbit/s.
    """
    courses = share([Course(0, 0, 5), Course(3, 3, 5)], {0: 1, 1: 1})
    measured = summarize(courses, tmp_path)
    assert value(measured, "f0.goodput") == value(measured, "f1.goodput") == pytest.approx(24e6)
    assert value(measured, "total.goodput") == pytest.approx(30e6)
    # they share fairly while both run
    assert value(measured, "total.fairness") == pytest.approx(1)


def test_a_group_together(tmp_path: Path) -> None:
    courses = share([Course(0, 0.1, 5), Course(3, 3.1, 5), Course(6, 6.1, 4)], {0: 1, 1: 1, 2: 1})
    measured = summarize(courses, tmp_path, more=", group: all")
    assert value(measured, "all.goodput") == value(measured, "total.goodput") == pytest.approx(30e6)
    assert value(measured, "all.fairness") == pytest.approx(1)
    assert value(measured, "all.bytes") == pytest.approx(9.9 * 30e6 / 8 + 0.1 * 30e6 / 8)


def test_flows_in_turn_have_nothing_together(tmp_path: Path) -> None:
    measured = summarize(share([Course(0, 0, 5), Course(5, 5, 5)], {0: 1, 1: 1}), tmp_path, more=", group: all")
    assert value(measured, "f1.goodput") == pytest.approx(30e6)
    for owner in ("total", "all"):
        assert value(measured, f"{owner}.goodput") is None
        assert value(measured, f"{owner}.fairness") is None
    assert value(measured, "all.bytes") == pytest.approx(10 * 30e6 / 8)


def test_flows_that_were_to_meet_and_did_not(tmp_path: Path) -> None:
    """The second flow should start before the first ends, but its control connection takes 3 s."""
    measured = summarize(share([Course(0, 0, 5), Course(4, 7, 5)], {0: 1, 1: 1}), tmp_path)
    assert value(measured, "total.goodput") is None


def test_the_background_is_left_out(tmp_path: Path) -> None:
    courses = share([Course(0, 0, 5), Course(0, 0, 5)], {0: 1, 1: 1})
    assert value(summarize(courses, tmp_path, more=", background: true"), "total.goodput") is None


def test_one_flow_is_no_total_and_a_group_of_one_is_itself(tmp_path: Path) -> None:
    measured = summarize(share([Course(0, 0, 5)], {0: 1}), tmp_path, more=", group: all")
    assert value(measured, "total.goodput") is None
    assert value(measured, "all.goodput") == value(measured, "f0.goodput") == pytest.approx(30e6)
    assert value(measured, "all.fairness") == 1


def test_rows_of_goodput_count_from_time_zero(tmp_path: Path) -> None:
    measured = summarize(share([Course(0, 0.2, 2), Course(1, 1.7, 1)], {0: 1, 1: 1}), tmp_path)
    table: Any = measured.tables["goodput"]
    assert table["flow"] == ["f0", "f0", "f1"]
    assert table["start_s"] == pytest.approx([0.2, 1.2, 1.7])
    assert table["end_s"] == pytest.approx([1.2, 2.2, 2.7])
    assert table["goodput_bit_per_s"] == pytest.approx([30e6, 22.5e6, 22.5e6])


# portions alone


def portion(begin_s: float, end_s: float, rate: float) -> Portion:
    return Portion(round(begin_s * SECOND_NS), round(end_s * SECOND_NS), rate * (end_s - begin_s) / 8)


def test_a_goodput_of_a_users_program_is_not_in_the_total() -> None:
    """Such a metric has no payload with times, and may count anything."""
    both = [intents.flow(name=name) for name in ("own", "bulk")]
    results = {
        "own": Result({"goodput": 1.0}),
        "bulk": Result({"goodput": 8e9}, portions={"goodput": [Portion(0, 1, 1)]}),
    }
    assert not sum_up(both, results).metrics


def test_flows_of_the_same_time_have_the_sum() -> None:
    flows = [[portion(0, 10, 10e6)], [portion(0, 10, 30e6)]]
    assert find_rate(flows) == pytest.approx(40e6)
    # Jain's index: 40 ** 2 / (2 * (10 ** 2 + 30 ** 2))
    assert find_fairness(flows) == pytest.approx(0.8)


def test_time_without_any_flow_does_not_count() -> None:
    flows = [[portion(0, 10, 10e6), portion(50, 60, 10e6)], [portion(0, 10, 10e6)]]
    assert find_rate(flows) == pytest.approx(15e6)


def test_fairness_is_of_the_times_with_the_same_flows() -> None:
    """The first flow runs alone until 10 s, has all of 30 Mbit/s until 20 s, and then half until 40 s.

    The second flow starts at 10 s and sends nothing until 20 s.
    """
    one = [portion(0, 20, 30e6), portion(20, 40, 15e6)]
    other = [portion(10, 20, 0), portion(20, 40, 15e6)]
    # from 10 to 40 s one flow gets 10 x 30 + 20 x 15 = 600 Mbit, the other 300: 900 ** 2 / (2 x (600 ** 2 + 300 ** 2))
    assert find_fairness([one, other]) == pytest.approx(0.9)
    # a third flow comes at 20 s and gets nothing: 300 ** 2 / (2 x 300 ** 2) until then, and 600 ** 2 / (3 x 2 x 300 **
    # 2)
    third = [portion(20, 40, 0)]
    assert find_fairness([one, other, third]) == pytest.approx((10 / 2 + 20 * 2 / 3) / 30)


def test_three_flows_that_never_ran_all_at_one_time() -> None:
    chain = [[portion(0, 10, 15e6)], [portion(5, 15, 15e6)], [portion(10, 20, 15e6)]]
    assert find_rate(chain) == pytest.approx(3 * 10 * 15e6 / 20)
    assert find_fairness(chain) == pytest.approx(1)


def test_nothing_at_all() -> None:
    assert find_rate([]) is None
    assert find_fairness([]) is None
    silent = [[portion(0, 10, 0)], [portion(0, 10, 0)]]
    assert find_rate(silent) == 0
    assert find_fairness(silent) is None


def test_streams_of_one_flow_are_one_flow() -> None:
    """Two connections of one flow overlap. This is no overlap of two flows."""
    assert find_rate([[portion(0, 10, 10e6), portion(0, 10, 10e6)], [portion(10, 20, 10e6)]]) is None
    assert find_rate([[portion(0, 10, 10e6), portion(0, 10, 10e6)], [portion(5, 15, 10e6)]]) == pytest.approx(20e6)
