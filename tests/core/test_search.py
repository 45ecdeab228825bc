# SPDX-License-Identifier: Apache-2.0
"""`mprun search`: axes, margins of statements, proposals, and what counts as a violation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.inputs.keys.search import read_axis
from mprun.inputs.loading import Loaded, load_search
from mprun.model.problem import InputError
from mprun.model.search_space import Choice, Floors, NumberAxis, Search
from mprun.questions.proposal import Boundary, Point, Stage, explore
from mprun.questions.search import SearchedPoint, SearchResult, find_below_floor, find_violation, spell_edges
from mprun.statements.evaluation import evaluate
from mprun.statements.expression import Reference, UnknownName, Value, parse
from mprun.storage.sweep_directory import Kept
from mprun.sweeps.study import Cell, make_cells

TOPOLOGY = """\
version: 1
nodes: {client: {kind: host}, router: {kind: router}, server: {kind: host}}
links:
  - {name: path0, between: [client, router], rate: 10mbit, delay: 10ms, queue: 50packets}
  - {name: path1, between: [client, router], rate: 10mbit, delay: 10ms, queue: 50packets}
  - {name: server0, between: [router, server]}
"""
EXPERIMENT = """\
version: 1
params: {protocol: mptcp, limit: 6291456}
hosts: {client: {sysctl: {net.ipv4.tcp_wmem: "4096 16384 {{ limit }}"}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: "{{ protocol }}", duration: 5s}]
search:
  vary: {path1.rate: 1mbit..20mbit}
  violate: bulk.goodput >= tcp.bulk.goodput
  control: {tcp: {protocol: tcp}}
"""


@pytest.mark.parametrize(
    ("value", "share", "expected"),
    [
        ("1mbit..100mbit", 0.5, "10mbit"),
        ("1mbit..9mbit", 0.5, "5mbit"),
        ("1mbit..100mbit", 0.0, "1mbit"),
        ("1mbit..100mbit", 1.0, "100mbit"),
        ("0%..5%", 0.5, "2.5%"),
        ("1..9", 0.49, 5),
        ("5packets..100packets", 0.6, "30packets"),
        ("0.5..0.9", 0.5, 0.7),
        ("1ms..300ms", 0.5, "17.3ms"),
        ("20ms..1s", 1.0, "1000ms"),
        ("500kbit..1mbit", 1.0, "1000kbit"),
        (["cubic", "bbr", "reno"], 0.34, "bbr"),
        (["cubic", "bbr", "reno"], 1.0, "reno"),
    ],
)
def test_a_share_of_an_axis_is_a_value(value: object, share: float, expected: object) -> None:
    assert read_axis("x", value).value_at(share) == expected


@pytest.mark.parametrize("value", ["1mbit", "1mbit..2ms", "5..1", "5..5", "a..b", ["cubic"], [["a"], "b"], 3, None])
def test_what_is_no_axis_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must|has ends"):
        read_axis("x", value)


@pytest.mark.parametrize(
    ("statement", "margin"),
    [
        ("a >= b", -0.5),
        ("b >= a", 0.5),
        ("a < b", 0.5),
        ("a <= a", 0.0),
        ("a < a", -1e-12),
        ("a == b", -0.5),
        ("a != b", 0.5),
        ("a >= b and b >= a", -0.5),
        ("a >= b or b >= a", 0.5),
        ("not a >= b", 0.5),
        ("not a == a", -1e-12),
        ("not a <= a", -1e-12),
        ("1mbit <= a <= b", 0.0),
        ("a >= 0.25 * b", 0.5),
    ],
)
def test_the_margin_says_by_how_much_a_statement_holds(statement: str, margin: float) -> None:
    amounts = {"a": 1e6, "b": 2e6}

    def resolve(reference: Reference) -> Value:
        if reference.name not in amounts:
            raise UnknownName(reference.name)
        return Value((amounts[reference.name],), "rate")

    assert evaluate(parse(statement), resolve).margin == pytest.approx(margin, abs=1e-15)


def planted(count: int, low: float) -> tuple[list[Boundary], list[Point]]:
    """Search for a corner in which each of `count` axes is above `low`."""
    asked: list[Point] = []

    def test(stage: Stage, points: Sequence[Point]) -> list[float]:
        asked.extend(points)
        return [low - min(point) for point in points]

    return explore([span()] * count, 128, 1, test), asked


def span() -> NumberAxis:
    found = read_axis("rate", "1mbit..100mbit")
    assert isinstance(found, NumberAxis)
    return found


def test_a_search_finds_a_corner_and_its_boundary() -> None:
    edges, asked = planted(2, 0.8)
    assert len(asked) <= 128
    lower = [edge for edge in edges if not edge.is_upper]
    assert len(lower) == 2
    for edge in lower:
        assert edge.holds is not None
        assert edge.holds <= 0.8 <= edge.violated
        assert edge.violated - edge.holds < 1 / 16
    assert all(edge.holds is None for edge in edges if edge.is_upper)


def test_a_search_repeats_itself() -> None:
    assert planted(3, 0.9) == planted(3, 0.9)


def test_a_search_without_a_violation_has_no_boundary() -> None:
    edges, asked = planted(2, 2.0)
    assert edges == []
    assert len(asked) > 100


@pytest.mark.parametrize("budget", [1, 2, 4, 6, 7, 12, 15, 20])
def test_a_search_without_a_violation_uses_its_budget(budget: int) -> None:
    asked: list[Point] = []

    def test(stage: Stage, points: Sequence[Point]) -> list[float]:
        asked.extend(points)
        return [1.0] * len(points)

    assert explore([span(), span()], budget, 1, test) == []
    assert len(asked) == budget


@pytest.mark.parametrize("budget", [8, 16, 32, 64])
def test_boundaries_are_those_of_the_worst_point(budget: int) -> None:
    """An end of an axis may be worse than all points before. What is said of an axis was tested with its values."""
    asked: dict[Point, float] = {}

    def test(stage: Stage, points: Sequence[Point]) -> list[float]:
        asked.update({(x, y): x + y / 4 - 0.7 for x, y in points})
        return [asked[point] for point in points]

    edges = explore([span(), span()], budget, 1, test)
    worst = min(asked, key=lambda point: asked[point])
    assert edges or budget < 16
    for edge in edges:
        for share in (edge.violated, edge.violated if edge.holds is None else edge.holds):
            assert (*worst[: edge.axis], share, *worst[edge.axis + 1 :]) in asked


def test_what_is_said_of_an_axis() -> None:
    """Numbers between the points are not claimed, and an axis without boundaries is named."""
    worst = SearchedPoint("sample", {"a": "10mbit", "b": "10mbit", "c": "10mbit", "cc": "cubic"}, "violated", -0.5)
    a, b, c = (replace(span(), name=name) for name in "abc")
    axes = (a, b, c, Choice("cc", ("cubic", "bbr")))
    whole = [Boundary(0, is_upper, None, float(is_upper)) for is_upper in (False, True)]
    edges = (*whole, Boundary(1, False, 0.0, 0.5), Boundary(1, True, None, 1.0))
    told = [text for _, _, text in spell_edges(Search(axes, "", {}, Floors()), SearchResult((worst,), edges))]
    assert told == [
        "violated at both ends, 1mbit and 100mbit",
        "violated from 10mbit to 100mbit, not at 1mbit",
        "not searched with this budget",
        "",
    ]


def test_a_point_that_does_not_count_is_not_said_to_hold() -> None:
    """Beyond a boundary, the control may fail too, or a floor may forbid the point."""
    a, b = (replace(span(), name=name) for name in "ab")
    worst = SearchedPoint("sample", {"a": "10mbit", "b": "10mbit"}, "violated", -0.5)
    fails = SearchedPoint("boundary", {"a": "1mbit", "b": "10mbit"}, "control", 1.0, reason="control tcp: it fails")
    low = SearchedPoint("boundary", {"a": "10mbit", "b": "1mbit"}, "floor", 0.0, reason="the queue holds 5 packets")
    good = SearchedPoint("boundary", {"a": "10mbit", "b": "100mbit"}, "holds", 0.1)
    one = (Boundary(0, False, 0.0, 0.5), Boundary(0, True, None, 1.0))
    other = (Boundary(1, False, 0.0, 0.5), Boundary(1, True, 1.0, 0.5))
    found = SearchResult((worst, fails, low, good), (*one, *other))
    assert [text for _, _, text in spell_edges(Search((a, b), "", {}, Floors()), found)] == [
        "violated from 10mbit to 100mbit; 1mbit does not count: control tcp: it fails",
        "violated from 10mbit to 10mbit, not at 100mbit; 1mbit does not count: the queue holds 5 packets",
    ]


def test_choices_have_no_boundary() -> None:
    axes = (span(), Choice("cc", ("cubic", "bbr")))
    edges = explore(axes, 64, 1, lambda stage, points: [0.5 - x if cc < 0.5 else 1.0 for x, cc in points])
    assert {edge.axis for edge in edges} == {0}
    assert any(edge.holds is not None and edge.holds <= 0.5 <= edge.violated for edge in edges)


def test_points_do_not_depend_on_values_outside_of_the_axes() -> None:
    seen: list[float] = []

    def test(stage: Stage, points: Sequence[Point]) -> list[float]:
        seen.extend(share for point in points for share in point)
        return [math.cos(7 * x) * y for x, y in points]

    explore((span(), span()), 64, 3, test)
    assert all(0 <= share <= 1 for share in seen)


def files(folder: Path, experiment: str = EXPERIMENT) -> tuple[Path, Path]:
    (folder / "topo.yaml").write_text(TOPOLOGY)
    (folder / "xp.yaml").write_text(experiment)
    return folder / "topo.yaml", folder / "xp.yaml"


def test_the_values_of_a_point_are_those_of_its_files(tmp_path: Path) -> None:
    _, load_at = load_search(*files(tmp_path))
    loaded = load_at({"path1.rate": "3mbit", "protocol": "tcp"})
    assert loaded.spec.topology.links[1].forward.rate_bit_per_s == 3_000_000
    assert loaded.spec.experiment.traffic[0].protocol == "tcp"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("path1.rate: 1mbit..20mbit", "path1.rat: 1mbit..20mbit", "a link has no 'rat'"),
        ("path1.rate: 1mbit..20mbit", "cc: [cubic, reno]", "no parameter 'cc'"),
        ("path1.rate: 1mbit..20mbit", "kernel: [a, b]", "a search does not vary the kernel"),
        ("{protocol: tcp}}", "{protocl: tcp}}", "no parameter 'protocl'"),
        ("path1.rate: 1mbit..20mbit", "path2.rate: 1mbit..20mbit", "no link 'path2'"),
        ("search:", "x-search:", "is missing"),
        ("tcp.bulk.goodput", "tcp.path0.rtt", "a rate cannot be compared with a time"),
        ("tcp.bulk.goodput", "udp.bulk.goodput", "no control 'udp'; controls: tcp"),
    ],
)
def test_faults_of_a_search_name_their_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_search(*files(tmp_path, EXPERIMENT.replace(old, new)))


def test_a_point_keeps_the_value_of_a_fixed_axis(tmp_path: Path) -> None:
    """The value that -p gives to an axis of the matrix was left out at every point."""
    text = EXPERIMENT.replace('{ limit }}"}', '{ limit }}", net.ipv4.tcp_congestion_control: "{{ cc }}"}')
    text = text.replace("params: {", "params: {cc: cubic, ")
    text += "matrix: {cc: [cubic, reno], path0.rate: [1mbit, 2mbit]}\n"
    _, load_at = load_search(*files(tmp_path, text), {"cc": "reno", "path0.rate": "2mbit"})
    loaded = load_at({"path1.rate": "3mbit"})
    assert [link.forward.rate_bit_per_s for link in loaded.spec.topology.links] == [2_000_000, 3_000_000, None]
    assert ("net.ipv4.tcp_congestion_control", "reno") in loaded.spec.experiment.hosts["client"].sysctl


def test_a_control_runs_on_the_kernel_that_it_names(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("{protocol: tcp}}", "{kernel: earlier}}")
    loaded, load_at = load_search(*files(tmp_path, text))
    assert loaded.spec.experiment.search is not None
    made: list[Cell] = []

    def run(cases: Sequence[Loaded]) -> Sequence[Kept]:
        made.extend(make_cells(cases, "virtual", "mine"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_violation(loaded.spec.experiment.search, 4, 1, load_at, run)
    assert [cell.kernel for cell in made] == ["mine", "earlier"] * (len(made) // 2)


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ({}, None),
        ({"path1.queue": "5packets"}, "the queue of path1 holds 5 packets"),
        ({"limit": 4096}, "net.ipv4.tcp_wmem of client is 4096 bytes"),
    ],
)
def test_conditions_below_a_floor_are_named(tmp_path: Path, point: dict[str, str | int], told: str | None) -> None:
    loaded, load_at = load_search(*files(tmp_path))
    assert loaded.spec.experiment.search is not None
    assert find_below_floor(load_at({**point}).spec, loaded.spec.experiment.search.floors) == told
