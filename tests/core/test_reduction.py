# SPDX-License-Identifier: Apache-2.0
"""`mprun minimise` without runs: delta debugging, the simplification of numbers, and the failure that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mprun.errors import SpecError
from mprun.inputs.loading import load, read_plain
from mprun.inputs.rendering import spell_file
from mprun.model.run_summary import ExpectationVerdict, MetricValue, Summary
from mprun.questions.minimise import RunFailure, find_failure, shows
from mprun.questions.reduction import ValueTree, cut, ddmin, reduce, round_off
from tests.summaries import PASSED


@pytest.mark.parametrize("needed", [set(), {3}, {0, 63}, {5, 6, 7}, {1, 20, 40, 60}])
def test_ddmin_leaves_exactly_what_is_needed(needed: set[int]) -> None:
    tests = 0

    def fails(items: Sequence[int]) -> bool:
        nonlocal tests
        tests += 1
        return needed <= set(items)

    assert set(ddmin(range(64), fails)) == needed
    # far fewer than the 2^64 parts
    assert tests < 300


def test_ddmin_keeps_the_order_and_one_of_two_alternatives() -> None:
    assert ddmin("abcdef", lambda items: "b" in items or "e" in items) in (["b"], ["e"])
    assert ddmin("abcdef", lambda items: {"f", "a"} <= set(items)) == ["a", "f"]


FILES: ValueTree = {
    "topology": {
        "version": 1,
        "nodes": {"a": {"kind": "host"}, "b": {"kind": "host"}, "c": {"kind": "host"}, "r": {"kind": "router"}},
        "links": [
            {"name": "p", "between": ["a", "r"], "rate": "18.3mbit", "delay": "23ms"},
            {"name": "q", "between": ["r", "b"], "loss": "1%"},
            {"name": "s", "between": ["r", "c"]},
        ],
        "events": [{"at": "2s", "link": "s", "state": "down"}],
    },
    "experiment": {
        "version": 1,
        "hosts": {"c": {"sysctl": {"net.ipv4.tcp_sack": 0}}, "a": {"sysctl": {"net.ipv4.tcp_ecn": 1}}},
        "traffic": [
            {"name": "up", "tool": "iperf3", "from": "a", "to": "b", "duration": "10s", "port": 5201},
            {"name": "down", "tool": "iperf3", "from": "c", "to": "a"},
        ],
        "expect": [{"metric": "up.goodput", "min": "17.3mbit"}, {"metric": "down.goodput", "min": "1mbit"}],
    },
}


def has_cause(tree: ValueTree) -> bool:
    """Stand in for a run: the files are whole, and the loss and the expectation exist."""
    nodes = tree["topology"].get("nodes", {})
    links = tree["topology"].get("links", [])
    ends = [end for link in links for end in link.get("between", ["?"])]
    flows = tree["experiment"].get("traffic", [])
    metrics = [one["metric"] for one in tree["experiment"].get("expect", [])]
    named = {link.get("name") for link in links}
    return (
        all(node.get("kind") for node in nodes.values())
        and all(end in nodes for end in ends)
        and all(len(link.get("between", [])) == 2 for link in links)
        and all(event["link"] in named for event in tree["topology"].get("events", []))
        and all(
            {"name", "tool", "from", "to"} <= flow.keys() and {flow["from"], flow["to"]} <= set(nodes) for flow in flows
        )
        and all(any(metric.startswith(flow["name"] + ".") for flow in flows) for metric in metrics)
        and all(host in nodes for host in tree["experiment"].get("hosts", {}))
        and any(link.get("loss") for link in links)
        and "up.goodput" in metrics
        and ends.count("r") >= 2
    )


def test_files_are_reduced_to_the_cause() -> None:
    assert has_cause(FILES)
    assert reduce(FILES, has_cause) == {
        "topology": {
            "version": 1,
            "nodes": {"a": {"kind": "host"}, "b": {"kind": "host"}, "r": {"kind": "router"}},
            "links": [{"between": ["a", "r"]}, {"between": ["r", "b"], "loss": "1%"}],
        },
        "experiment": {
            "version": 1,
            "traffic": [{"name": "up", "tool": "iperf3", "from": "a", "to": "b"}],
            # the bound is part of the statement
            "expect": [{"metric": "up.goodput", "min": "17.3mbit"}],
        },
    }


def test_numbers_that_matter_are_rounded_and_times_are_cut() -> None:
    def fails(tree: ValueTree) -> bool:
        path = (tree["topology"].get("links") or [{}])[0]
        flow: dict[str, str] = next(
            (one for one in tree["experiment"].get("traffic", []) if one.get("name") == "up"), {}
        )
        lasts_s = float(flow.get("duration", "0s")[:-1])
        return (
            path.get("delay", "0ms") >= "2"
            and path.get("rate") in ("18.3mbit", "18mbit")
            and lasts_s >= 0.7
            and has_cause(tree)
        )

    found = reduce(FILES, fails)
    assert found["topology"]["links"][0] == {"between": ["a", "r"], "rate": "18mbit", "delay": "20ms"}
    assert found["experiment"]["traffic"][0]["duration"] == "1s"


def test_simpler_numbers() -> None:
    assert list(cut("10s")) == ["0.5s", "1s", "2s", "5s"]
    assert list(cut("soon")) == list(cut(10)) == []
    assert list(round_off("203ms")) == ["200ms"]
    assert list(round_off("18.37mbit")) == ["20mbit", "18mbit"]
    assert list(round_off(1234)) == [1000, 1200]
    assert list(round_off("0s")) == list(round_off(True)) == list(round_off("5ms")) == list(round_off("a b")) == []


def summary(value: float | None, held: bool = False, minimum: float | None = 10.0, **more: Any) -> Summary:
    metrics = {} if value is None else {"m": MetricValue(value / 1000, "s")}
    told = (ExpectationVerdict("m", minimum, None, None, value, held),)
    return PASSED._replace(metrics=metrics, expectations=told, **more)


def test_the_failure_is_the_first_statement_with_a_value() -> None:
    assert find_failure(summary(4.0)) == RunFailure("m is 4.000 ms", "m", (10.0, None, None), 6.0)
    assert find_failure(summary(None, failures=("1 of 2 subflows",))).message == "# of # subflows"
    with pytest.raises(SpecError, match="this run did not fail: name a run that did"):
        find_failure(summary(12.0, held=True))


@pytest.mark.parametrize(
    ("found", "same"),
    [
        (summary(4.0), True),
        (summary(7.0), True),
        # another reason: hardly below the bound, or far below
        (summary(7.1), False),
        (summary(-3.0), False),
        (summary(12.0, held=True), False),
        (summary(None), False),
        # another statement
        (summary(4.0, minimum=11.0), False),
        (summary(4.0, errors=("the kernel died",)), False),
    ],
)
def test_the_same_statement_must_fail_by_about_as_much(found: Summary, same: bool) -> None:
    assert shows(find_failure(summary(4.0)), found) is same


def test_a_message_is_the_same_whatever_its_numbers() -> None:
    failure = find_failure(summary(None, failures=("bulk: 1 of 2 subflows after 3.5 s",)))
    assert shows(
        failure,
        summary(
            None,
            failures=(
                "other",
                "bulk: 1 of 4 subflows after 1 s",
            ),
        ),
    )
    assert not shows(failure, summary(None, failures=("bulk: no subflows",)))


def test_files_are_written_as_people_write_them_and_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nparams: {rate: 5mbit}\ntopology: multi-path\npaths: [{rate: '{{ rate }}', delay: 5ms}]\n"
        "x-mine: 1\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{name: up, tool: iperf3, from: client, to: server, duration: 1s}]\n"
        "hosts: {client: {sysctl: {net.ipv4.tcp_sack: 1}}, '*er': {}}\nplots: [{series: rate, names: {'a: b': c}}]\n"
        "capture: []\nmatrix: {rate: [6mbit, 7mbit]}\n"
    )
    plain = read_plain(tmp_path / "topo", tmp_path / "xp", {"rate": "6mbit"})
    assert spell_file(plain["topology"]) == "version: 1\ntopology: multi-path\npaths:\n  - {rate: 6mbit, delay: 5ms}\n"
    assert spell_file(plain["experiment"]) == (
        "version: 1\ntraffic:\n  - {name: up, tool: iperf3, from: client, to: server, duration: 1s}\n"
        'hosts:\n  client: {sysctl: {net.ipv4.tcp_sack: 1}}\n  "*er": {}\n'
        'plots:\n  - {series: rate, names: {"a: b": c}}\ncapture: []\n'
    )
    before = load(tmp_path / "topo", tmp_path / "xp", {"rate": "6mbit"}).spec
    (tmp_path / "topo.yaml").write_text(spell_file(plain["topology"]))
    (tmp_path / "xp.yaml").write_text(spell_file(plain["experiment"]))
    assert load(tmp_path / "topo", tmp_path / "xp").spec == before
