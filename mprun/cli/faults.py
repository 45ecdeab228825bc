# SPDX-License-Identifier: Apache-2.0
"""`mprun faults`: give each packet of a run a fault once, and show which faults matter."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, prose
from mprun.cli.output import emit, show_table
from mprun.cli.progress import Bar, say_time
from mprun.errors import SpecError, refusing
from mprun.model import units
from mprun.model.spec import MPTCP_OPTION, FaultAction
from mprun.model.units import format_measured
from mprun.questions.faulted_run import FaultedRun, Group, by_kind, find_outliers, find_separating, group
from mprun.questions.packet_choice import Fault, Packet, pair, sample
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.questions.faults import Base, Faulted
    from mprun.storage.sweep_directory import SweepDirectory

DEFAULT_FIRST = 200
DEFAULT_BY = "50ms"
_DONE = {"drop": "lost", "delay": "delayed", "duplicate": "duplicated", "strip": "without its options"}
# The packets of a group that are listed.
MOST_LISTED = 3


@click.command("faults")
@options.files("topology experiment params seed outside")
@options.runs("kernel parent consent cluster jobs keep.failed")
@options.number(
    "--first", 1, 100_000, f"Use only the first N packets. Default: {DEFAULT_FIRST}; with --budget all packets."
)
@options.number("--budget", 1, 100_000, "Use at most N packets: a sample of each direction, path and kind.")
@options.choice(
    "--action", _DONE, "Lose the packet, delay it, duplicate it, or replace its MPTCP options by NOPs.", "drop"
)
@options.text("--by", "TIME", f"Delay by TIME, or let the duplicate arrive after TIME. Default: {DEFAULT_BY}.")
@click.option(
    "--pairs", is_flag=True, help="Give the fault to two packets at a time, of those that open connections and paths."
)
@options.metric(
    help="Measure this metric. Default: the end of the last flow, or the first goodput if all flows last a fixed time.",
)
@options.control(
    help="Make all runs on this kernel too, and show the packets whose faults separate the two kernels.",
)
@click.option("--dry-run", is_flag=True, help="List the packets and estimate time and disk. Run nothing more.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome of each packet as JSON.")
def command(
    files: options.FileOptions,
    runs: options.RunOptions,
    first: int | None,
    budget: int | None,
    action: FaultAction,
    by: str | None,
    pairs: bool,
    metric: str | None,
    control: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run once for each packet, with a fault of only this packet. Show which faults make a run fail or stand out.

    The expectations of the experiment decide what fails. The runs are a sweep, whose table `faults` has a row for each
    packet. The same command resumes a study that was interrupted.

    With --control, the exit status is 1 if a packet separates the two kernels.
    """
    from mprun.cli.sweep_work import held, run_cells, start_executor
    from mprun.inputs.experiment import refuse_unknown_metrics
    from mprun.questions import faults
    from mprun.runs import runner
    from mprun.runs.place import choose_control, choose_place_of
    from mprun.sweeps import execution

    if by is not None and action not in ("delay", "duplicate"):
        raise click.UsageError(f"--by is for 'delay' and 'duplicate', not for '{action}'")
    with refusing("--by", units.QuantityError):
        by_ns = units.TIME.parse(by or DEFAULT_BY) if action in ("delay", "duplicate") else 0
    fault = Fault(action, by_ns, MPTCP_OPTION if action == "strip" else 0)
    loaded = files.load(runs.consent)
    refuse_unknown_metrics([metric] if metric else [], [loaded.spec.experiment])
    place = choose_place_of(loaded.values, "virtual", runs.kernel)
    if control is not None:
        choose_control(control, place.kernel_name)
    prose.note_unconfined()
    began = time.monotonic()
    with Bar() as bar:
        base = faults.run_base(loaded, place, runs.parent, runs.consent, bar.show)
    measured = faults.choose_metric(loaded, base.summary, metric)
    packets = base.packets[: first or (len(base.packets) if budget else DEFAULT_FIRST)]
    if action == "strip":
        packets = tuple(one for one in packets if one.options)
    candidates = pair(packets) if pairs else list(packets)
    if not candidates:
        raise SpecError(_explain_none(base.packets, packets, action))
    chosen = sample(candidates, budget) if budget and budget < len(candidates) else candidates
    if not as_json:
        slots = execution.slots_for({place.name}, runs.jobs)
        click.echo(_say_estimate(base, chosen, 1 if control is None else 2, slots, runs.keep), err=True)
    if dry_run:
        _list_packets(chosen, as_json)
        return
    made = faults.make_cells(loaded, chosen, fault, place, control or "")
    placed = execution.place_cells(made, "virtual", runs.consent)
    with closing(start_executor(placed, runs)) as executor:
        inputs = runner.read_inputs(loaded.sources)
        sweep, _ = execution.find_or_create(runs.parent, placed, inputs, False)
        with held(sweep):
            run_cells(sweep, placed.cells, runs, executor)
            studied = faults.read_faulted(sweep, chosen, measured)
            unit = faults.unit_of(base.summary, measured)
            outliers = _conclude(sweep, studied, fault, measured, unit, as_json, time.monotonic() - began)
    is_good = all(one.status == "passed" for one in studied[0].outcomes) if control is None else not outliers
    sys.exit(0 if is_good else 1)


def _explain_none(every: Sequence[Packet], chosen: Sequence[Packet], action: str) -> str:
    """Return why no packet of a run can have a fault. chosen: the packets that --first and the action leave."""
    if not every:
        return (
            "no packet of this run can have a fault: those of pings (ICMP) do not count, so add a flow of another tool"
        )
    if chosen:
        return "--pairs needs two packets: write a larger --first"
    if any(one.options for one in every):
        return f"none of the first packets has an option of MPTCP for '{action}': write a larger --first"
    return f"no packet of this run has an option of MPTCP for '{action}': write 'protocol: mptcp' for a flow"


def _say_estimate(base: Base, chosen: Sequence[Packet], kernels: int, slots: int, keep: str) -> str:
    captures = sum(base.run.folder.size(path) for path in base.run.captures().values())
    runs = kernels * (len(chosen) + 1)
    size = base.run_bytes * runs + sum(base.run.folder.size(name) for name in base.shared_files)
    more = "; a run that does not pass" if keep == "failed" else "; a run" if keep == "pcaps" else ""
    more = f"{more} keeps captures of {format_measured(captures, 'byte')} too" if more else ""
    return (
        f"{len(chosen)} of {len(base.packets)} packets, {slots} runs at a time: about "
        f"{say_time(base.wall_s * runs / slots)} and {format_measured(size, 'byte')}{more}"
    )


def _list_packets(chosen: Sequence[Packet], as_json: bool) -> None:
    if as_json:
        emit([one.facts for one in chosen])
        return

    rows = [("packet", "way", "path", "kind", "time")]
    rows += [(one.label, one.way, one.path, one.kind, f"{one.at_ns / 1e9:.6f} s") for one in chosen]
    show_table(rows, 4)


def _conclude(
    sweep: SweepDirectory,
    kernels: Sequence[Faulted],
    fault: Fault,
    metric: str | None,
    unit: str,
    as_json: bool,
    took_s: float,
) -> list[FaultedRun]:
    """Write the table and the figure, and print the summary. Return what stands out, or separates two kernels."""
    from mprun.questions import faults
    from mprun.questions.question_figures import draw_faults
    from mprun.reports.chart import write_svg

    quantity = metric or "end of the last flow"
    without, faulted = kernels[0].without, kernels[0].outcomes
    control = kernels[1] if len(kernels) > 1 else None
    controls = {} if control is None else {one.packet.name: one for one in control.outcomes}
    if control is not None:
        outliers = find_separating(faulted, control.outcomes, without)
        groups = group(outliers, lambda one: controls[one.packet.name])
    else:
        outliers = find_outliers(faulted, without)
        groups = group(outliers, lambda _: without)
    others = () if control is None else control.outcomes
    sweep.write_tables({faults.TABLE: faults.tabulate(faulted, outliers, metric, others)})
    chart = draw_faults(_DONE[fault.action], quantity, unit, faulted, without.value)
    if chart is not None:
        write_svg(sweep.folder, chart)
    if as_json:
        found = [{"cause": one.cause, "packets": [each.packet.label for each in one.outcomes]} for one in groups]
        rows = [
            {**one.packet.facts, **_outcome(one, metric), **_control(controls.get(one.packet.name), metric)}
            for one in faulted
        ]
        base = _outcome(without, metric)
        base |= _control(None if control is None else control.without, metric)
        emit({"directory": str(sweep.path), "unit": unit, "without": base, "packets": rows, "groups": found})
        return outliers
    passed = sum(one.status == "passed" for one in faulted)
    ended = f"{passed} runs passed, {len(faulted) - passed} did not"
    what = "pairs of packets" if any(one.packet.also for one in faulted) else "packets"
    click.echo(f"{len(faulted)} {what}, each {_DONE[fault.action]} once: {ended}, {took_s:.0f} s")
    click.echo(f"without faults: {without.status}, {quantity} {_say(without.value, unit)}")
    if control is not None:
        passed = sum(one.status == "passed" for one in control.outcomes)
        click.echo(
            f"on the control kernel: {passed} passed; without faults: {control.without.status}, {quantity} "
            f"{_say(control.without.value, unit)}"
        )
        click.echo(f"{len(outliers)} of {len(faulted)} {what} separate the two kernels")
    _show_kinds(faulted, unit)
    _show_groups(sweep, groups, controls, unit)
    click.echo(f"table and figure: {prose.spell_path(sweep.path)}/tables/faults.parquet, faults.svg")
    return outliers


def _show_kinds(faulted: Sequence[FaultedRun], unit: str) -> None:
    rows = [["kind of packet", "packets", "not passed", "least", "median", "most"]]
    for row in by_kind(faulted):
        values = (_say(one, unit) for one in (row.least, row.median, row.most))
        rows.append([row.kind, str(row.packets), str(row.failed), *values])
    click.echo()
    show_table(rows, 1)


def _show_groups(sweep: SweepDirectory, groups: Sequence[Group], controls: Mapping[str, FaultedRun], unit: str) -> None:
    for one in groups:
        click.echo()
        number = len(one.outcomes)
        click.echo(prose.wrap(f"{number} packet{'s' * (number > 1)}: {plain(one.cause)}", "", "  "))
        for each in one.outcomes[:MOST_LISTED]:
            packet = each.packet
            said = f"{packet.label}: {packet.kind}, {packet.path} {packet.way}, at {packet.at_ns / 1e9:.3f} s"
            control = controls.get(packet.name)
            against = "" if control is None else f", control {_say(control.value, unit)}"
            click.echo(f"  {said}: {_say(each.value, unit)}{against}")
        if number > MOST_LISTED:
            click.echo(f"  and {', '.join(each.packet.label for each in one.outcomes[MOST_LISTED:])}")
        name = one.outcomes[0].packet.name
        click.echo(f"  again: mprun verify --keep {prose.spell_path(sweep.path)}/{one.outcomes[0].run}")
        if name in controls:
            click.echo(f"  control: mprun verify --keep {prose.spell_path(sweep.path)}/{controls[name].run}")
    if groups:
        click.echo()


def _say(value: float | None, unit: str) -> str:
    return "-" if value is None else format_measured(value, unit)


def _outcome(one: FaultedRun, metric: str | None) -> dict[str, Any]:
    value = {} if metric is None else {metric: one.value}
    return {"status": one.status, "completed_ns": one.completed_ns, **value, "causes": list(one.causes), "run": one.run}


def _control(one: FaultedRun | None, metric: str | None) -> dict[str, Any]:
    return {} if one is None else {"control": _outcome(one, metric)}
