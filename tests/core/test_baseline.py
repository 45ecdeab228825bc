# SPDX-License-Identifier: Apache-2.0
"""The text of a baseline, its comparison, and what is told apart from a change. Runs are in the system tests."""

from __future__ import annotations

from typing import Any

import pytest

from mprun.errors import SpecError
from mprun.model.run_files import Build, RunEnvironment
from mprun.model.run_summary import ExpectationVerdict, MetricValue, Summary
from mprun.questions.baseline import choose_metrics, compare, explain, parse, spell, tell, to_markdown, write_baseline
from tests.summaries import PASSED

WANTED = (ExpectationVerdict(name, 1.0, None, None, None, False) for name in ("bulk.goodput", "bulk.missing"))
SUMMARY = PASSED._replace(
    seed=3,
    expectations=tuple(WANTED),
    metrics={
        "bulk.goodput": MetricValue(36921000.25, "bit/s"),
        "bulk.subflows": MetricValue(2, "1"),
        "path0.rtt": MetricValue(0.04, "s"),
    },
)
BUILD = Build("6.12.1", "0123456789abcdef")
ENVIRONMENT = RunEnvironment("virtual", BUILD, {"iperf3": "3.12"}, (), "3.11.2", mprun="aaaa")
METRICS = ["path0.rtt", "bulk.goodput"]


def lines(summary: Summary = SUMMARY, **environment: Any) -> dict[str, str]:
    made = ENVIRONMENT._replace(**environment)
    return write_baseline("topo", "xp", {"rate": "5mbit"}, "d" * 64, summary, made, METRICS)


def with_goodput(value: float) -> Summary:
    return SUMMARY._replace(metrics={**SUMMARY.metrics, "bulk.goodput": MetricValue(value, "bit/s")})


def test_the_text_is_sorted_and_reads_back() -> None:
    text = spell(lines())
    assert text == (
        "# Values of a run. `mprun baseline check` compares them, `mprun baseline write` writes them again.\n"
        "engine = virtual\n"
        "experiment = xp\n"
        "kernel = 6.12.1 0123456789ab\n"
        "mprun = aaaa\n"
        "parameter rate = 5mbit\n"
        "plan = dddddddddddddddd\n"
        "program Python = 3.11.2\n"
        "program iperf3 = 3.12\n"
        "seed = 3\n"
        "status = passed\n"
        "topology = topo\n"
        "value bulk.goodput = 36921000.25 bit/s\n"
        "value path0.rtt = 0.04 s\n"
    )
    assert parse(text, "one.baseline") == lines()


def test_chosen_values() -> None:
    assert choose_metrics(SUMMARY, ["path0.rtt"], []) == ["bulk.goodput", "path0.rtt"]
    assert choose_metrics(SUMMARY, ["path0.rtt"], ["bulk.subflows"]) == ["bulk.subflows"]
    assert choose_metrics(SUMMARY._replace(expectations=()), [], []) == ["bulk.goodput", "bulk.subflows", "path0.rtt"]
    with pytest.raises(SpecError, match=r"no metric 'bulk.rate'; it has: bulk.goodput, bulk.subflows, path0.rtt"):
        write_baseline("topo", "xp", {}, "d", SUMMARY, ENVIRONMENT, ["bulk.rate"])


def test_the_smallest_change_of_a_value_is_a_difference() -> None:
    assert compare(lines(), lines()) == []
    (one,) = compare(lines(), lines(with_goodput(36921000.26)))
    assert (one.kind, explain([one])) == ("value", [])
    assert list(tell([one])) == [("bulk.goodput", "36921000.25 bit/s", "36921000.26 bit/s", "+0.000%")]
    (larger,) = compare(lines(), lines(with_goodput(36921000.25 * 1.001)))
    assert next(iter(tell([larger])))[1:] == ("36.92 Mbit/s", "36.96 Mbit/s", "+0.100%")
    (status,) = compare(lines(), lines(SUMMARY._replace(status="failed")))
    assert list(tell([status])) == [("status", "passed", "failed", "")]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"kernel": Build("6.12.2", "fedcba9876543210")}, ["other kernel"]),
        ({"mprun": "bbbb"}, ["other mprun"]),
        ({"versions": {"iperf3": "3.16"}}, ["other version of iperf3"]),
        ({"python": "3.13.1"}, ["other Python"]),
        ({"versions": {}, "mprun": "bbbb"}, ["other mprun", "other version of iperf3"]),
    ],
)
def test_what_made_a_run_is_told_apart_from_a_change(changed: dict[str, Any], told: list[str]) -> None:
    found = compare(lines(), lines(**changed))
    assert explain(found) == told
    assert not [one for one in found if one.kind == "value"]


def test_other_files_are_told_apart_too() -> None:
    assert explain(compare(lines(), {**lines(), "plan": "e" * 16})) == ["other files"]


def test_a_value_that_is_gone_is_a_difference() -> None:
    now = {name: value for name, value in lines().items() if name != "value path0.rtt"}
    assert list(tell(compare(lines(), now))) == [("path0.rtt", "40.000 ms", "-", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topology = a\ntopology = b\n", "a.baseline:2: 'topology' is there twice: write the baseline again"),
        ("topology\n", "a.baseline:1: 'topology' is no line as in 'value bulk.goodput = 36921000.0 bit/s'"),
        ("topology = a\n", "a.baseline: has no line 'experiment': write the baseline again"),
    ],
)
def test_a_damaged_baseline_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(text, "a.baseline")
    assert str(error.value).startswith(message)


def test_the_table_of_a_page() -> None:
    found = compare(lines(), lines(with_goodput(36921000.25 * 0.999), mprun="bbbb"))
    assert to_markdown({"a|b": found, "same": []}) == (
        "| baseline | value | base | now | change |\n| --- | --- | --- | --- | --- |\n"
        "| a\\|b | mprun | aaaa | bbbb |  |\n"
        "| a\\|b | bulk.goodput | 36.92 Mbit/s | 36.88 Mbit/s | -0.100% |\n"
        "| same | no difference | | | |\n"
    )
