# SPDX-License-Identifier: Apache-2.0
"""`mprun why`: find the time from which the failure of a run was inevitable."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_runs
from mprun.cli.operand import find_exact_run
from mprun.cli.output import emit, show_table
from mprun.errors import SpecError
from mprun.machine.scratch import scratch
from mprun.safety.text import plain
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.storage.table import read_table

if TYPE_CHECKING:
    from mprun.questions.why import Explained

DEFAULT_RUNS = 20
DEFAULT_STEPS = 6
# The number of packets that are listed.
MOST_PACKETS = 8


@click.command("why")
@click.argument("name", metavar="RUN", default="latest", shell_complete=complete_runs)
@options.fail_if(
    help="Find why this is true: 'bulk.goodput < 20mbit'. Default: the run's first unmet expectation, failure or error."
)
@options.number("--runs count", 2, 10_000, "Make N runs for each time.", DEFAULT_RUNS)
@options.number("--steps", 0, 40, "Halve the interval with the largest rise N times.", DEFAULT_STEPS)
@options.runs("kernel.original parent consent jobs keep.none")
@click.option("--json", "as_json", is_flag=True, help="Print the shares over time as JSON.")
def command(name: str, fail_if: str | None, count: int, steps: int, runs: options.RunOptions, as_json: bool) -> None:
    """Find the time from which the failure of a run was inevitable.

    The run is repeated with other random numbers from a time on. Before the cause of the failure, some of these runs do
    not fail. After the cause, all of them fail. The runs are a sweep, whose table `why` has a row for each time.
    """
    from mprun.cli.sweep_work import growing_sweep
    from mprun.inputs.loading import load
    from mprun.questions.bisect import read_true_statement
    from mprun.questions.faulted_run import find_end
    from mprun.questions.minimise import find_failure, read_files, write_files
    from mprun.questions.why import WhyQuestion, explain
    from mprun.runs.place import choose_place, find_kernel
    from mprun.sweeps.execution import slots_for
    from mprun.sweeps.local import LocalExecutor

    run = find_exact_run(runs.parent, name)
    end_ns = find_end(run.agent_report())
    if end_ns is None:
        raise SpecError(f"{run.name} did not come to its end, so there is no time to look for: mprun show {run.name}")
    summary = run.summary()
    statement = read_true_statement(fail_if, run, summary)
    failure = None if statement is not None else find_failure(summary)
    text = plain(fail_if if failure is None else failure.text)
    if not as_json:
        click.echo(f"failure: {text}", err=True)
    on = runs.kernel or find_kernel(run.environment())
    choose_place("virtual", on)
    began = time.monotonic()
    with scratch("mprun-why-") as work:
        files = write_files(read_files(run, work), work)
        loaded = load(*files, seed=run.plan().seed)
        texts = {path.name: path.read_text() for path in files}
        question = WhyQuestion(failure, statement)
        with (
            closing(LocalExecutor(slots_for({"virtual"}, runs.jobs))) as executor,
            growing_sweep(f"why {text}", texts, on, runs, executor, f"why-{run.title}") as growing,
        ):
            explained = explain(loaded, question, end_ns, count, steps, growing.run, summary.metrics)
            sweep = growing.directory
            assert sweep is not None
            _write(explained, sweep, text, end_ns)
    if as_json:
        _emit(explained, sweep, text)
    else:
        _show(explained, run, sweep, end_ns, time.monotonic() - began)


def _write(explained: Explained, sweep: SweepDirectory, failure: str, end_ns: int) -> None:
    from mprun.questions.question_figures import draw_why
    from mprun.questions.why import TABLE, tabulate
    from mprun.reports.chart import write_svg

    sweep.write_tables({TABLE: tabulate(explained)})
    write_svg(sweep.folder, draw_why(failure, explained, end_ns))


def _show(explained: Explained, run: RunDirectory, sweep: SweepDirectory, end_ns: int, took_s: float) -> None:
    runs = sum(one.count for one in explained.moments)
    click.echo(f"{runs} runs, {took_s:.0f} s")
    if not explained.is_drawn:
        click.echo("other random numbers change no metric of this run: its files alone decide")
        return
    rows = [(f"{one.at_ns / 1e9:.3f} s", f"{one.failed} of {one.count}") for one in explained.moments]
    show_table([("other random numbers from", "failed"), *rows], 1)
    before, after = explained.before, explained.after
    if before is None or after is None:
        text = f"each of these {runs} runs failed: no time was found before which other random numbers prevent it"
        click.echo(prose.wrap(f"{text}; more runs (--runs) show rarer ones", "", "  "))
    else:
        span = f"{before.at_ns / 1e9:.3f} s and {after.at_ns / 1e9:.3f} s"
        shares = f"{before.share:.0%} of the runs fail, and after, {after.share:.0%}"
        # at the end of the run, nothing is left to draw
        is_certain = after.at_ns == end_ns or before.interval[1] < after.interval[0]
        text = (
            f"{'' if is_certain else 'perhaps '}inevitable between {span}: with other random numbers before, {shares}"
        )
        if not is_certain:
            low, high = (f"{one.interval[0]:.0%} to {one.interval[1]:.0%}" for one in (before, after))
            text += (
                f"; {before.count} runs are too few to tell, as the 95 % intervals overlap ({low}, {high}): add --runs"
            )
        click.echo(prose.wrap(text, "", "  "))
        _show_packets(run, before.at_ns, after.at_ns)
    click.echo(f"table and figure: {prose.spell_path(sweep.path)}/tables/why.parquet, why.svg")


def _show_packets(run: RunDirectory, from_ns: int, to_ns: int) -> None:
    """List the packets of the run in the interval."""
    from mprun.captures.dissection import dissect
    from mprun.questions.packet_choice import find_headings, list_seen

    if not run.captures():
        click.echo("the run has no captures, so no packets are listed: write 'capture' in the experiment")
        return
    dissect(run, lambda *_: None)
    rows = read_table(run.folder, "tables/packets.parquet").collect().iter_rows(named=True)
    packets = [one for one in list_seen(rows, find_headings(run.plan().intent)) if from_ns <= one.at_ns < to_ns]
    click.echo(f"{len(packets)} packets of {run.name} in this time{':' if packets else ''}")
    for one in packets[:MOST_PACKETS]:
        click.echo(f"  {one.at_ns / 1e9:.6f} s  {one.where}  {one.kind}")
    if len(packets) > MOST_PACKETS:
        click.echo(f"  and {len(packets) - MOST_PACKETS} more: mprun packets {run.name}")


def _emit(explained: Explained, sweep: SweepDirectory, failure: str) -> None:
    before, after = explained.before, explained.after
    moments = [
        {"from_ns": one.at_ns, "runs": one.count, "failed": one.failed, "interval": list(one.interval)}
        for one in explained.moments
    ]
    inevitable = {"inevitable_after_ns": before and before.at_ns, "inevitable_by_ns": after and after.at_ns}
    told = {"directory": str(sweep.path), "failure": failure, "is_drawn": explained.is_drawn}
    emit({**told, **inevitable, "moments": moments})
