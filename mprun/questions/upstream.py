# SPDX-License-Identifier: Apache-2.0
"""Write a finding as a folder that a person can send to the maintainers of a kernel or a program.

The sections of its text are those that the kernel's MPTCP project asks for in a report of a bug.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from mprun.captures.pcapng import cut
from mprun.metrics.kernel_messages import TABLE
from mprun.metrics.readings import SummaryMetrics
from mprun.model.frozen import Frozen
from mprun.model.run_summary import Summary
from mprun.model.units import format_measured
from mprun.questions.divergence import DifferentPacket, find_packet, tell_packet
from mprun.questions.minimise import write_files
from mprun.questions.search import read_case
from mprun.reports.metrics import choose_main
from mprun.runs.provenance import list_makers
from mprun.safety.folder import Folder
from mprun.safety.text import plain
from mprun.storage.damage import reading
from mprun.storage.run_directory import RunDirectory

REPORT, COUNTERS, KERNEL_LOG = "report.txt", "nstat.txt", "kernel-log.txt"
# The files of the control run are in a folder of this name, or have this word before their name.
CONTROL = "control"
# The packets of a capture that are kept before and after the first one that differs.
AROUND = 20
# The commands and sysctls that a report shows, by their beginning.
_SETTINGS = ("ip mptcp ", "sysctl -w net.mptcp.", "sysctl -w net.ipv4.tcp_", "sysctl -w net.core.")
_WIDTH = 100
MOST_ARCHIVE_BYTES = 512 << 20
_CHECKS = (
    "No similar issue has been reported: https://github.com/multipath-tcp/mptcp_net-next/issues",
    "https://www.mptcp.dev does not cover this case.",
    "The kernel is up to date, and the latest stable one does the same.",
)


class ControlledRun(Frozen):
    """A run that shows an effect, and a run that does not; None without such a run."""

    run: RunDirectory
    control: RunDirectory | None

    @property
    def runs(self) -> tuple[RunDirectory, ...]:
        return (self.run,) if self.control is None else (self.run, self.control)

    @property
    def has_equal_inputs(self) -> bool:
        """Return whether both runs have the same files, so that their kernels or programs differ."""
        return self.control is not None and self.control.digest == self.run.digest


def write_upstream(shown: ControlledRun, folder: Folder, attached: Mapping[str, bytes]) -> Iterator[str]:
    """Write the report and its files, and yield their names. attached: the user's files. Raises MprunError."""
    written: dict[str, str] = {}
    run, control = shown.run, shown.control
    packet = None if control is None else find_packet(run, control)
    if control is not None and not shown.has_equal_inputs:
        _write_inputs(control, folder.make(CONTROL), f"{CONTROL}/", written)
    text = _write_inputs(run, folder, "", written)
    if packet is not None and control is not None:
        for prefix, source in (("", run), (f"{CONTROL}-", control)):
            written[f"{prefix}{packet.capture}"] = f"{AROUND} packets before and after number {packet.number}"
            folder.write_bytes(f"{prefix}{packet.capture}", _cut_capture(source, packet))
    folder.write_text(COUNTERS, "\n".join(_tell_counters(shown)) + "\n")
    written[COUNTERS] = "nstat of all hosts, before and after the traffic"
    log = [plain(f"{one['time_ns'] / 1e9:12.6f}  {one['level'] or '':7}  {one['text']}") for one in run.rows(TABLE)]
    if log:
        folder.write_text(KERNEL_LOG, "\n".join(log) + "\n")
        written[KERNEL_LOG] = "the log of the kernel, with times from the start of the traffic"
    for name, content in attached.items():
        folder.write_bytes(name, content)
        written[name] = "added by hand"
    folder.write_text(REPORT, "\n".join(_tell(shown, text, packet, written)) + "\n")
    yield from (REPORT, *written)


def _write_inputs(run: RunDirectory, folder: Folder, before: str, written: dict[str, str]) -> str:
    """Write the files of a run to a folder, and note them with `before` before their names.

    Return the description of the experiment, of which the file has only the first line.
    """
    tree = read_case(run)
    text = str(tree["experiment"].get("description", run.title))
    if "description" in tree["experiment"]:
        tree["experiment"]["description"] = text.partition("\n")[0]
    for path, what in zip(write_files(tree, folder.path), ("network", "traffic"), strict=True):
        written[f"{before}{path.name}"] = f"the {what}, for mprun"
    for name in run.folder.find("inputs/files/*"):
        archive = name.removeprefix("inputs/")
        folder.make("files")
        folder.write_bytes(archive, run.folder.read_bytes(name, MOST_ARCHIVE_BYTES))
        written[f"{before}{archive}"] = "files of the programs of the traffic"
    return text


def _tell(shown: ControlledRun, text: str, packet: DifferentPacket | None, files: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the report. text: the subject, and in further lines why the effect is a fault."""
    run, control = shown.run, shown.control
    subject, _, reason = text.strip().partition("\n")
    yield f"Subject: {plain(subject)}"
    yield from ("", "Reported-by:", "Signed-off-by:", "", "Pre-requisites", "--------------")
    yield from (f"[ ] {text}" for text in _CHECKS)
    yield from ("", "System info", "-----------")
    yield from _tell_makers(run, "")
    if control is not None and shown.has_equal_inputs:
        yield from _tell_makers(control, f"{CONTROL}: ")
    yield from _tell_settings(run)
    yield from ("", "What did you do?", "----------------")
    yield "The kernel runs as User-Mode Linux in simulated time, so this command gives the same packets each time:"
    yield from ("", "  mprun -t topo -x xp")
    if control is not None and not shown.has_equal_inputs:
        yield from (
            "",
            "The control, which does not show the effect:",
            "",
            f"  mprun -t {CONTROL}/topo -x {CONTROL}/xp",
        )
    elif control is not None:
        yield from ("", "The control, which does not show the effect, is the same command on the other kernel.")
    yield from ("", "What happened?", "--------------")
    summary, *_ = summaries = [one.summary() for one in shown.runs]
    metrics = {name: metric for one in reversed(summaries) for name, metric in one.metrics.items()}
    for text in (*summary.errors, *summary.failures, *summary.warnings):
        yield _wrap(text)
    yield from _tell_metrics(summaries, metrics)
    yield from ("", "What did you expect to have?", "----------------------------")
    yield from _tell_expectations(summary, metrics)
    if control is not None:
        yield "The values of the control."
    for paragraph in reason.split("\n\n") if reason.strip() else ():
        yield from ("", _wrap(paragraph, hanging=""))
    yield from ("", "Additional context", "------------------")
    if packet is not None:
        yield "The first difference between the run (-) and the control (+):"
        yield from (_wrap(line, "  ") for line in tell_packet(packet))
        yield ""
    yield from (f"{name}: {what}" for name, what in files.items())


def _tell_makers(run: RunDirectory, before: str) -> Iterator[str]:
    for name, version in list_makers(run.environment()).items():
        yield _wrap(f"{before}{name}: {version.splitlines()[0] if version else 'unknown'}")


def _tell_settings(run: RunDirectory) -> Iterator[str]:
    plan = run.plan()
    for node in (one.name for one in plan.intent.nodes if one.kind == "host"):
        commands = [" ".join(one.argv) for one in plan.build if one.node == node]
        yield from ("", f"{plain(node)}:", *(f"  {plain(one)}" for one in commands if one.startswith(_SETTINGS)))


def _tell_metrics(summaries: Sequence[Summary], metrics: SummaryMetrics) -> Iterator[str]:
    """Yield a line for each metric of a first look: its name, its value, and that of the control."""
    names = choose_main(list(metrics), {one.metric for one in summaries[0].expectations})
    rows = [("", "run", CONTROL)[: 1 + len(summaries)]]
    for name in names:
        values = (one.metrics.get(name) for one in summaries)
        rows.append((plain(name), *("none" if one is None else format_measured(*one) for one in values)))
    yield from _align(rows)


def _tell_expectations(summary: Summary, known: SummaryMetrics) -> Iterator[str]:
    for one in summary.expectations:
        unit = known[one.metric].unit if one.metric in known else "1"
        bounds = {"at least": one.minimum, "at most": one.maximum, "equal to": one.equals}
        told = (f"{word} {format_measured(bound, unit)}" for word, bound in bounds.items() if bound is not None)
        yield f"{plain(one.metric)} is {' and '.join(told)}."


def _tell_counters(shown: ControlledRun) -> Iterator[str]:
    """Yield the counters that grew in one of the runs."""
    counters = [_read_counters(run) for run in shown.runs]
    rows = [("counter", "host", "before", "after", f"{CONTROL}: before", "after")[: 2 + 2 * len(counters)]]
    for key in sorted({key for one in counters for key in one}):
        sides = [one.get(key, (0, 0)) for one in counters]
        if any(before != after for before, after in sides):
            rows.append((*map(plain, key), *(str(value) for side in sides for value in side)))
    yield from _align(rows)


def _read_counters(run: RunDirectory) -> dict[tuple[str, str], tuple[int, int]]:
    return {(row["name"], row["host"]): (row.get("before") or 0, row.get("after") or 0) for row in run.rows("counters")}


def _cut_capture(run: RunDirectory, packet: DifferentPacket) -> bytes:
    file = f"pcap/{packet.capture}"
    with reading(run.path / file):
        return cut(run.pieces(file), packet.number - AROUND, packet.number + AROUND)


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _wrap(text: str, indent: str = "", hanging: str = "  ") -> str:
    """Return a text in lines that a mail can have. hanging: the indent of lines after the first one."""
    whole = plain(text)
    begin = indent + whole[: len(whole) - len(whole.lstrip())]
    return textwrap.fill(whole.strip(), _WIDTH, initial_indent=begin, subsequent_indent=f"{begin}{hanging}")
