# SPDX-License-Identifier: Apache-2.0
"""Events that overlap: the examples of docs/links.md, and drawn sets of events against the definition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from mprun.compile import allocate, resolve
from mprun.compile.change import plan_changes
from mprun.errors import SpecError
from mprun.inputs.loading import load
from mprun.inputs.writer import write_topology
from mprun.model.capabilities import REFERENCE
from mprun.model.spec import AddressChange, Chance, Direction, LinkChange, Spec

MBIT, MS = 1_000_000, 1_000_000
HEAD = (
    "version: 1\nnodes: {a: {kind: host}, r: {kind: router}, b: {kind: host}}\nlinks:\n"
    "  - {name: near, between: [a, r], rate: 1mbit, delay: 20ms}\n"
    "  - {name: far, between: [r, b], rate: 1mbit, delay: 20ms}\nevents:\n"
)


def _load(folder: Path, *events: str) -> Spec:
    (folder / "topo.yaml").write_text(HEAD + "".join(f"  - {{{event}}}\n" for event in events))
    return load(folder / "topo.yaml", None).spec


def _rates(spec: Spec, link: str = "near") -> list[tuple[int, float]]:
    """Return the time in ms and the rate forward in Mbit/s of each change of a link."""
    return [
        (one.at_ns // MS, (one.forward.rate_bit_per_s or 0) / MBIT)
        for one in spec.topology.changes
        if isinstance(one, LinkChange) and one.link == link
    ]


RATE = "link: near, set: {rate: %gmbit}"


@pytest.mark.parametrize(
    ("events", "rates"),
    [
        # two temporary changes: the one that began later, then the other one, then the value before
        (["at: 500ms, for: 1s, " + RATE % 2, "at: 1s, for: 1s, " + RATE % 3], [(500, 2), (1000, 3), (2000, 1)]),
        (
            ["at: 500ms, for: 2s, " + RATE % 2, "at: 1s, for: 1s, " + RATE % 3],
            [(500, 2), (1000, 3), (2000, 2), (2500, 1)],
        ),
        # the order of the file decides between two changes that begin at once
        (["at: 1s, for: 1s, " + RATE % 3, "at: 1s, for: 2s, " + RATE % 2], [(1000, 2), (3000, 1)]),
        (["at: 1s, for: 2s, " + RATE % 2, "at: 1s, for: 1s, " + RATE % 3], [(1000, 3), (2000, 2), (3000, 1)]),
        (["at: 1s, " + RATE % 2, "at: 1s, " + RATE % 3], [(1000, 3)]),
        # a temporary change that ends as another one begins leaves no gap
        (["at: 1s, for: 1s, " + RATE % 2, "at: 2s, for: 1s, " + RATE % 3], [(1000, 2), (2000, 3), (3000, 1)]),
        # a permanent change below a temporary one takes effect at its end
        (["at: 1s, for: 1s, " + RATE % 2, "at: 1500ms, " + RATE % 3], [(1000, 2), (2000, 3)]),
        (
            ["at: 500ms, for: 1s, " + RATE % 2, "at: 1s, for: 1s, " + RATE % 3, "at: 1200ms, " + RATE % 4],
            [(500, 2), (1000, 3), (2000, 4)],
        ),
        # a later change ends a ramp, and a ramp begins from the value that holds below temporary changes
        (
            ["at: 1s, over: 400ms, " + RATE % 5, "at: 1250ms, " + RATE % 9],
            [(1100, 2), (1200, 3), (1250, 9)],
        ),
        (
            ["at: 500ms, for: 600ms, " + RATE % 7, "at: 1s, over: 400ms, " + RATE % 5],
            [(500, 7), (1100, 2), (1200, 3), (1300, 4), (1400, 5)],
        ),
        (
            ["at: 1s, over: 400ms, " + RATE % 5, "at: 1200ms, over: 200ms, " + RATE % 1],
            [(1100, 2), (1200, 3), (1300, 2), (1400, 1)],
        ),
        # so does a later change of one direction, in this direction
        (
            ["at: 1s, over: 300ms, " + RATE % 4, "at: 1200ms, link: near, set: {rate: {reverse: 9mbit}}"],
            [(1100, 2), (1200, 3), (1300, 4)],
        ),
    ],
)
def test_what_is_on_top_holds(tmp_path: Path, events: list[str], rates: list[tuple[int, float]]) -> None:
    assert _rates(_load(tmp_path, *events)) == rates


def test_a_later_change_ends_a_trace_and_a_temporary_one_covers_it(tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("2mbit\n3mbit\n4mbit\n5mbit\n")
    played = "at: 1s, link: near, trace: rates.txt, format: rates, interval: 100ms"
    plain = [(1000, 2), (1100, 3), (1200, 4), (1300, 5)]
    assert _rates(_load(tmp_path, played)) == plain
    assert _rates(_load(tmp_path, played, "at: 1150ms, " + RATE % 9)) == [*plain[:2], (1150, 9)]
    covered = _rates(_load(tmp_path, played, "at: 1150ms, for: 100ms, " + RATE % 9))
    assert covered == [*plain[:2], (1150, 9), (1250, 4), (1300, 5)]
    # rows of a schedule are changes of their own
    (tmp_path / "rows.csv").write_text("at,rate,delay\n0s,2mbit,\n200ms,3mbit,30ms\n")
    rows = _rates(_load(tmp_path, "at: 1s, link: near, schedule: rows.csv", "at: 1100ms, " + RATE % 9))
    assert rows == [(1000, 2), (1100, 9), (1200, 3)]
    # a trace of several properties takes each over with the first value of this property
    (tmp_path / "trace.csv").write_text("at,rate,delay\n0s,2mbit,\n200ms,3mbit,30ms\n400ms,,\n")
    spec = _load(
        tmp_path, "at: 1s, link: near, trace: trace.csv, format: schedule", "at: 1100ms, link: near, set: {delay: 9ms}"
    )
    delays = [one.forward.delay_ns // MS for one in spec.topology.changes if isinstance(one, LinkChange)]
    assert delays == [20, 9, 30]


def test_a_link_that_is_down_comes_up_when_the_last_reason_ends(tmp_path: Path) -> None:
    changes = _load(
        tmp_path,
        "at: 1s, for: 2s, link: near, state: down",
        "at: 1500ms, for: 500ms, link: near, state: down",
        "at: 4s, for: 2s, link: near, state: down",
        "at: 5s, link: near, state: down",
        "at: 1s, for: 2s, host: a, address: near, state: removed",
        "at: 1500ms, for: 500ms, host: a, address: near, state: removed",
    ).topology.changes
    states = [(one.at_ns // MS, one.is_up) for one in changes if isinstance(one, LinkChange)]
    assert states == [(1000, False), (1500, False), (3000, True), (4000, False)]
    addresses = [(one.at_ns // MS, one.is_there) for one in changes if isinstance(one, AddressChange)]
    # the kernel would refuse to remove the address a second time
    assert addresses == [(1000, False), (3000, True)]


def test_a_uniform_jitter_cannot_come_back(tmp_path: Path) -> None:
    """A change of netem without a table of a distribution keeps the table that it has."""
    normal = "link: near, set: {jitter: {amount: 1ms, distribution: normal}}"
    with pytest.raises(SpecError, match="would be uniform again, and netem keeps the distribution 'normal'"):
        _load(tmp_path, "at: 1s, link: near, set: {jitter: 1ms}", f"at: 2s, for: 1s, {normal}")
    _load(tmp_path, f"at: 2s, for: 1s, {normal}")


@dataclass(frozen=True)
class Drawn:
    """A drawn event. times: of the steps after `at`, in ms. values: of the steps; None: of a ramp, to `values[0]`."""

    number: int
    link: str
    name: str
    sides: tuple[int, ...]
    at: int
    lasts: int | None
    steps: tuple[tuple[int, float], ...]
    ramp: tuple[int, int, float] | None
    text: str


def _draw(draw: Random, number: int, folder: Path) -> Drawn:
    link, name = draw.choice(("near", "far")), draw.choice(("rate", "delay", "loss", "is_up"))
    # coarse times, so that events begin and end at once
    at, side = draw.randrange(0, 20) * 50, draw.choice(("forward", "reverse", "both"))
    kind = "set" if name == "is_up" else draw.choice(("set", "set", "for", "for", "ramp", "trace"))
    value = draw.randrange(1, 50)
    sides = {"forward": (0,), "reverse": (1,), "both": (0, 1)}[side]
    lasts, ramp, more = None, None, ""
    steps: tuple[tuple[int, float], ...] = ((0, float(value)),)
    if name == "is_up":
        steps = ((0, float(value % 2)),)
        lasts = draw.choice((None, 100, 250))
        more = f", state: {'up' if value % 2 else 'down'}" + (f", for: {lasts}ms" if lasts else "")
        return Drawn(number, link, name, (0,), at, lasts, steps, None, f"at: {at}ms, link: {link}{more}")
    unit = {"rate": "mbit", "delay": "ms", "loss": "%"}[name]
    if kind == "for":
        lasts = draw.randrange(1, 12) * 50
        more = f", for: {lasts}ms"
    elif kind == "ramp":
        ramp = (50, draw.randrange(1, 10) * 50, float(value))
        more = f", over: {ramp[1]}ms, step: 50ms"
    elif kind == "trace":
        steps = tuple((n * 100, float(draw.randrange(1, 50))) for n in range(draw.randrange(1, 6)))
        rows = "".join(f"{offset}ms,{amount:g}{unit}\n" for offset, amount in steps)
        (folder / f"{number}.csv").write_text(f"at,{name}\n{rows}{len(steps) * 100}ms,\n")
        text = f"at: {at}ms, link: {link}, trace: {number}.csv, format: schedule, direction: {side}"
        return Drawn(number, link, name, sides, at, None, steps, None, text)
    given = f"{value}{unit}" if side == "both" else f"{{{side}: {value}{unit}}}"
    return Drawn(
        number, link, name, sides, at, lasts, steps, ramp, f"at: {at}ms, link: {link}, set: {{{name}: {given}}}{more}"
    )


def _holding(events: list[Drawn], at: int, before: float) -> float:
    """Return the value that the definition gives to a property at a time. events: those of the property."""
    running = [one for one in events if one.lasts is not None and one.at <= at < one.at + one.lasts]
    if running:
        return max(running, key=lambda one: (one.at, one.number)).steps[0][1]
    begun = [one for one in events if one.lasts is None and one.at <= at]
    if not begun:
        return before
    latest = max(begun, key=lambda one: (one.at, one.number))
    if latest.ramp is None:
        return [value for offset, value in latest.steps if latest.at + offset <= at][-1]
    step, over, target = latest.ramp
    earlier = [one for one in events if one.lasts is None and (one.at, one.number) < (latest.at, latest.number)]
    first = _holding(earlier, latest.at, before)
    return first + (target - first) * min(1, (at - latest.at) // step / (over / step))


def _states(spec: Spec, link: str, at: int) -> LinkChange:
    """Return the state of a link at a time in ms: that of its last change until then."""
    given = next(one for one in spec.topology.links if one.name == link)
    state = LinkChange(0, link, given.forward, given.reverse)
    for change in spec.topology.changes:
        if isinstance(change, LinkChange) and change.link == link and change.at_ns <= at * MS:
            state = change
    return state


def _value(state: LinkChange, name: str, side: int) -> float:
    way: Direction = (state.forward, state.reverse)[side]
    if name == "is_up":
        return float(state.is_up)
    if name == "loss":
        assert way.loss is None or isinstance(way.loss, Chance)
        return way.loss.probability * 100 if way.loss else 0.0
    return (way.rate_bit_per_s or 0) / MBIT if name == "rate" else way.delay_ns / MS


BEFORE = {"rate": 1.0, "delay": 20.0, "loss": 0.0, "is_up": 1.0}


@pytest.mark.parametrize("seed", range(300))
def test_drawn_events_have_the_values_of_the_definition(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    events = [_draw(draw, number, tmp_path) for number in range(draw.randrange(1, 14))]
    spec = _load(tmp_path, *(one.text for one in events))
    moments = [(one.at_ns, one.link) for one in spec.topology.changes]
    assert moments == sorted(moments, key=lambda one: one[0])
    assert len(set(moments)) == len(moments), "a link changes twice at once"
    for change in spec.topology.changes:
        assert not isinstance(change, LinkChange) or not (change.forward.rate_bit_per_s or 0) % 8
    for link in ("near", "far"):
        for name, before in BEFORE.items():
            for side in (0, 1):
                own = [
                    one
                    for one in events
                    if (one.link, one.name) == (link, name) and (side in one.sides or name == "is_up")
                ]
                for at in range(0, 2000, 50):
                    wanted = _holding(own, at, before)
                    got = _value(_states(spec, link, at), name, side)
                    # a rate is a multiple of 8 bit/s, and a delay of 1 ns
                    assert got == pytest.approx(wanted, abs=5e-6), (link, name, side, at, [one.text for one in own])


@pytest.mark.parametrize("seed", range(40))
def test_the_resolved_topology_has_the_same_changes(tmp_path: Path, seed: int) -> None:
    """The file that a run writes gives the same steps, and its changes no longer overlap."""
    draw = Random(seed)
    events = [_draw(draw, number, tmp_path) for number in range(8)]
    spec = _load(tmp_path, *(one.text for one in events), "at: 300ms, for: 5s, host: a, address: near, state: removed")
    network = allocate(spec)
    resolved = resolve(spec, network)
    (tmp_path / "resolved.yaml").write_text(write_topology(resolved.topology))
    again = load(tmp_path / "resolved.yaml", None).spec
    assert again.topology.changes == resolved.topology.changes
    plans = [list(plan_changes(one, allocate(one), REFERENCE)) for one in (spec, again)]
    assert plans[0] == plans[1]


def test_a_resolved_topology_may_have_changes_after_the_end(tmp_path: Path) -> None:
    """Temporary changes, repetitions and traces may last longer than the traffic, and a report reads them again."""
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: iperf3, from: a, to: b, duration: 2s}]\n")
    _load(
        tmp_path,
        "at: 1s, for: 5s, link: near, state: down",
        "at: 1s, every: 500ms, for: 100ms, until: 9s, link: far, set: {loss: 100%}",
        "at: 1s, link: near, trace: lte-drive, until: 9s",
    )
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    resolved = resolve(spec, allocate(spec))
    (tmp_path / "resolved.yaml").write_text(write_topology(resolved.topology))
    again = load(tmp_path / "resolved.yaml", tmp_path / "xp.yaml")
    assert again.spec.topology.changes == resolved.topology.changes
    assert again.spec.topology.changes[-1].at_ns > 8000 * MS
    assert again.warnings == ()
    (tmp_path / "resolved.yaml").write_text(write_topology(resolved.topology, ""))
    with pytest.raises(SpecError, match="is not before the end of the experiment, 2s"):
        load(tmp_path / "resolved.yaml", tmp_path / "xp.yaml")
