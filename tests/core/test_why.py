# SPDX-License-Identifier: Apache-2.0
"""`mprun why`: the interval of a share, and the time at which it rises."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mprun.cli.why import _show
from mprun.errors import SpecError
from mprun.inputs.loading import Loaded, load
from mprun.model.run_summary import ExpectationVerdict, MetricValue
from mprun.questions.minimise import RunFailure, has_failed
from mprun.questions.why import Explained, ReseedMoment, WhyQuestion, explain, find_rise, tabulate
from tests.core.test_mistakes import call
from tests.summaries import PASSED

RUN = Path(__file__).parents[1] / "outputs" / "run"


def moment(at_ns: int, failed: int, count: int = 20) -> ReseedMoment:
    return ReseedMoment(at_ns, failed, count)


def test_the_interval_of_a_share_is_wilsons() -> None:
    # the values of Wilson's formula for 0 and 10 of 20
    assert moment(0, 0).interval == pytest.approx((0.0, 0.161), abs=1e-3)
    assert moment(0, 10).interval == pytest.approx((0.299, 0.701), abs=1e-3)
    low, high = moment(0, 20).interval
    assert (low, high) == pytest.approx((0.839, 1.0), abs=1e-3)


@pytest.mark.parametrize(
    ("failed", "rise"),
    [
        ((4, 5, 3, 20), (200, 300)),
        ((4, 5, 3, 4), (300, 400)),
        ((20, 20, 20, 20), None),
        ((0, 20, 20, 20), (0, 100)),
        # the first one of equal rises
        ((0, 10, 20, 20), (0, 100)),
    ],
)
def test_the_largest_rise_is_where_the_failure_was_decided(
    failed: tuple[int, ...], rise: tuple[int, int] | None
) -> None:
    moments = [moment(100 * n, count) for n, count in enumerate(failed)]
    assert find_rise(moments, 400) == rise


def test_the_table_has_a_row_for_each_time() -> None:
    columns = tabulate(Explained((moment(0, 5), moment(7, 20)), None, None, True))
    assert columns["from_ns"] == [0, 7]
    assert columns["share"] == [0.25, 1.0]
    assert {len(values) for values in columns.values()} == {2}


def test_a_failure_is_the_same_expectation_by_however_much() -> None:
    failure = RunFailure("", "bulk.goodput", (5.0, None, None), 1.0)
    verdict = ExpectationVerdict("bulk.goodput", minimum=5.0, maximum=None, equals=None, value=1.0, held=False)
    summary = PASSED._replace(expectations=(verdict,))
    assert has_failed(failure, summary)
    assert not has_failed(failure, summary._replace(expectations=(verdict._replace(held=True),)))
    assert not has_failed(failure, summary._replace(expectations=(verdict._replace(metric="b"),)))
    assert not has_failed(failure, summary._replace(errors=("the kernel died",)))
    message = RunFailure("", message="# of # files")
    assert has_failed(message, PASSED._replace(failures=("3 of 4 files",)))


def test_runs_that_all_failed_prove_no_more_than_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    sweep: Any = SimpleNamespace(path=Path("runs/s"))
    _show(Explained(tuple(moment(at_ns, 3, 3) for at_ns in (0, 1, 2, 3)), None, None, True), sweep, sweep, 4, 0.0)
    assert "each of these 12 runs failed: no time was found" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "is_certain"), [(3, False), (30, True)])
def test_few_runs_do_not_tell_when_a_failure_was_inevitable(
    count: int, is_certain: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 3 runs, 1 and 3 failures may have the same probability: the intervals are 6 to 79 % and 44 to 100 %."""
    before, after = moment(1, count // 3, count), moment(2, count, count)
    run: Any = SimpleNamespace(path=Path("runs/s"), captures=dict)
    _show(Explained((before, after), before, after, True), run, run, 4, 0.0)
    said = " ".join(capsys.readouterr().out.split())
    assert ("perhaps inevitable between" in said) is not is_certain
    overlap = "3 runs are too few to tell, as the 95 % intervals overlap (6% to 79%, 44% to 100%): add --runs"
    assert (overlap in said) is not is_certain


@pytest.mark.parametrize("command", ["why", "minimise"])
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("asks.delay.max < 1ms", "'asks.delay.max < 1ms' is not true in run: asks.delay.max = 43.728 ms: write"),
        (
            "asks.delay.max < 1",
            "at '1' (character 18): a time cannot be compared with a number: give",
        ),
        ("asks.delay.maxx < 1ms", "the run measured no 'asks.delay.maxx': did you mean 'asks.delay.max'?"),
    ],
)
def test_a_statement_that_the_run_itself_does_not_show_is_refused_before_any_run(
    command: str, statement: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metric of the run is 43.728128 ms."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RUN, tmp_path / "run")
    status, text = call([command, "./run", "--fail-if", statement])
    assert status == 2
    assert text.startswith("--fail-if: ")
    assert message in text
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("fails_again", [True, False])
def test_a_run_that_does_not_fail_again_has_no_time_at_which_its_failure_was_decided(
    fails_again: bool, tmp_path: Path
) -> None:
    """On another kernel, where no run failed, the failure was called inevitable at the end of the run."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 1mbit}]\n")
    loaded = load(tmp_path / "topo", None)
    failed = PASSED._replace(failures=("3 of 4 files",))
    seeds: list[object] = []

    def run_cases(cases: Sequence[Loaded]) -> Sequence[Any]:
        seeds.extend(dict(one.values)["seed"] for one in cases)
        summaries = [failed if seed == 0 and fails_again else PASSED for seed in seeds]
        return [SimpleNamespace(cell=n, summary=summary) for n, summary in enumerate(summaries)]

    question = WhyQuestion(RunFailure("", message="# of # files"), None)
    if not fails_again:
        with pytest.raises(SpecError, match="the run does not have this failure again"):
            explain(loaded, question, 8_000_000_000, 2, 0, run_cases, {"a.b": MetricValue(1, "s")})
        return
    found = explain(loaded, question, 8_000_000_000, 2, 0, run_cases, {"a.b": MetricValue(1, "s")})
    assert found.before is not None
    assert found.after is not None
    assert (found.before.at_ns, found.before.share) == (6_000_000_000, 0)
    assert (found.after.at_ns, found.after.share, found.after.count) == (8_000_000_000, 1, 2)
