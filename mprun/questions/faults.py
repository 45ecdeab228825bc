# SPDX-License-Identifier: Apache-2.0
"""Give every packet of a run a fault once: a run without faults, and a sweep with a run for each packet.

All runs have the same captures, so they are equal until the packet arrives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from mprun.captures.dissection import dissect
from mprun.compile import allocate, compile_plan
from mprun.engines.agent_process import RunProgress
from mprun.errors import RunError, SpecError
from mprun.inputs.loading import Loaded
from mprun.inputs.matrix_cells import CellValues
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.run_summary import Summary
from mprun.model.spec import PacketFault
from mprun.model.units import NS_PER_S
from mprun.questions.faulted_run import FaultedRun, find_end, read_causes
from mprun.questions.packet_choice import Fault, Packet, find_headings, list_packets, watch
from mprun.runs import runner
from mprun.runs.place import Place
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.storage.table import read_table
from mprun.sweeps import study
from mprun.sweeps.study import Cell, as_case

AXIS = "fault"
# The name of the cell without faults.
NONE = "none"
TABLE = "faults"


class Base(Frozen):
    """The run without faults.

    - packets: all packets of its flows, in order of time.
    - wall_s: its real time.
    """

    run: RunDirectory
    summary: Summary
    packets: tuple[Packet, ...]
    wall_s: float

    @property
    def run_bytes(self) -> int:
        """The size of the run without its captures, which is that of each other run."""
        # what only this run has, and what a sweep has once
        left_out = {*self.run.captures().values(), *self.shared_files}
        left_out |= {f"tables/{name}.parquet" for name in ("packets", "connections", "subflows")}
        return sum(self.run.folder.size(name) for name in self.run.folder.find("**/*") if name not in left_out)

    @property
    def shared_files(self) -> list[str]:
        """The user's files in the run, of which a sweep has one copy."""
        return self.run.folder.find("inputs/files/*")


def watched(loaded: Loaded, packet: str, faults: Sequence[PacketFault] = (), values: CellValues = ()) -> Loaded:
    """Return what a run of the study reads. packet: its name. Raises SpecError if no packet can be counted."""
    network = allocate(loaded.spec)
    headings = find_headings(compile_plan(loaded.spec, network).intent)
    if not headings:
        raise SpecError(f"{loaded.spec.experiment.name}: no flow between hosts, so no packet can have a fault")
    experiment = watch(loaded.spec.experiment, (one.arrival for one in headings.values()))
    faults = (*experiment.faults, *faults)
    return as_case(loaded, ((AXIS, packet), *values), captures=experiment.captures, faults=faults)


def run_base(loaded: Loaded, place: Place, parent: Path, consent: Consent, progress: RunProgress) -> Base:
    """Run without faults, and list the packets. Raises SpecError, MachineError or RunError."""
    if not place.engine.IS_SIMULATED:
        raise SpecError(
            "faults needs simulated time, in which runs are equal until a packet has a fault: leave out --engine"
        )
    request = runner.make_request(watched(loaded, NONE), place, consent)
    began = time.monotonic()
    run, summary = runner.run_request(request, parent, progress)
    wall_s = time.monotonic() - began
    if summary.status == "error":
        raise RunError(f"the run without faults ended with an error: {summary.errors[0]} (see {run.path})")
    dissect(run, progress)
    table = read_table(run.folder, "tables/packets.parquet").collect()
    packets = list_packets(table.iter_rows(named=True), find_headings(run.plan().intent))
    return Base(run, summary, tuple(packets), wall_s)


def make_cells(
    loaded: Loaded, packets: Sequence[Packet], fault: Fault, place: Place, control: str = ""
) -> tuple[Cell, ...]:
    """Return a cell without faults, and a cell for each packet; then the same cells on the control kernel, if any."""

    def watch_all(values: CellValues) -> Iterator[Loaded]:
        yield watched(loaded, NONE, values=values)
        for packet in packets:
            yield watched(loaded, packet.name, fault.of(packet), values)

    if not control:
        return study.make_cells(watch_all(()), place.name, place.kernel_name)
    both = chain.from_iterable(watch_all((("kernel", name),)) for name in (place.kernel_name, control))
    return study.make_cells(both, place.name, place.kernel_name)


class Faulted(Frozen):
    """The outcomes of a study on one kernel: without faults, and of each packet in order."""

    without: FaultedRun
    outcomes: tuple[FaultedRun, ...]


def read_faulted(sweep: SweepDirectory, packets: Sequence[Packet], metric: str | None) -> tuple[Faulted, ...]:
    """Return the outcomes on the kernel, then on a control kernel. metric: None for the end of the last flow."""
    found: dict[int, FaultedRun] = {}
    each = len(packets) + 1
    for kept in sweep.runs():
        # the first cell of each kernel is without faults
        packet = packets[max(0, kept.cell % each - 1)]
        end_ns = find_end(kept.run.agent_report()) if kept.run.has("agent.json") else None
        value = None if end_ns is None else end_ns / NS_PER_S
        if metric is not None:
            value = kept.summary.value(metric)
        causes = read_causes(kept.summary)
        found[kept.cell] = FaultedRun(packet, kept.summary.status, end_ns, value, causes, kept.directory)
    count = len(sweep.record.cells)
    if missing := count - len(found):
        raise RunError(f"{sweep.path}: {missing} of {count} runs are missing: run the same command again")
    ordered = [found[number] for number in range(count)]
    return tuple(Faulted(ordered[n], tuple(ordered[n + 1 : n + each])) for n in range(0, count, each))


def choose_metric(loaded: Loaded, summary: Summary, asked: str | None) -> str | None:
    """Return the metric to measure; None for the end of the last flow.

    By default, it is the first goodput if every flow lasts a fixed time, since such flows always end at the same time.
    Raises SpecError for a metric that the run does not have.
    """
    metrics = summary.metrics
    if asked is not None:
        if asked not in metrics:
            raise SpecError(f"the run without faults has no metric '{asked}'; it has: {', '.join(sorted(metrics)[:8])}")
        return asked
    if all(flow.duration_ns is not None for flow in loaded.spec.experiment.traffic):
        return next((name for name in metrics if name.endswith(".goodput")), None)
    return None


def unit_of(summary: Summary, metric: str | None) -> str:
    return "s" if metric is None else summary.metrics[metric].unit


def tabulate(
    faulted: Sequence[FaultedRun],
    outliers: Sequence[FaultedRun],
    metric: str | None,
    controls: Sequence[FaultedRun] = (),
) -> dict[str, list[Any]]:
    """Return the columns of the table of faults, a row for each packet. controls: the outcomes on the control kernel.

    `stands_out` is true for outliers. With a control, these are the packets that separate the kernels.
    """
    rows = []
    for one, control in zip_longest(faulted, controls):
        also = one.packet.also.number if one.packet.also else None
        row = {"packet": one.packet.number, "second": also, **one.packet.facts}
        row |= {"payload_bytes": one.packet.payload_bytes, "status": one.status, "completed_ns": one.completed_ns}
        row |= {} if metric is None else {metric: one.value}
        row |= {} if control is None else {"control_status": control.status, "control_value": control.value}
        rows.append(row | {"stands_out": one in outliers, "causes": "; ".join(one.causes), "run": one.run})
    return {name: [row[name] for row in rows] for name in rows[0]}
