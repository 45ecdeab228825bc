# SPDX-License-Identifier: Apache-2.0
"""`mprun coverage`: the lines of the kernel that a run executed, and those that another run did not execute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_runs
from mprun.cli.output import emit, show_table
from mprun.errors import SpecError
from mprun.safety.text import printable

if TYPE_CHECKING:
    from mprun.storage.run_directory import RunDirectory

# A line of the kernel: file, line, function, and how often it was executed.
CoverageLine = Mapping[str, Any]


@click.command("coverage")
@click.argument("first", metavar="[A]", default="latest", shell_complete=complete_runs)
@click.argument("second", metavar="[B]", required=False, shell_complete=complete_runs)
@options.text(
    "--file pattern",
    "PATTERN",
    "Show only these files, such as 'net/mptcp/*'. '*' also shows the headers.",
    default="net/*",
)
@click.option("--missed", is_flag=True, help="List the lines that run A did not execute.")
@click.option("--text", "with_text", is_flag=True, help="Print the text of each listed line.")
@options.parent
@click.option("--json", "as_json", is_flag=True, help="Print the lines as JSON.")
def command(
    first: str, second: str | None, pattern: str, missed: bool, with_text: bool, parent: Path, as_json: bool
) -> None:
    """Show how many lines of each file of the kernel run A executed, or list what A executed and run B did not.

    The runs need a kernel that counts lines: `mprun kernel build --source TREE --name lines --profile coverage`. It
    counts from its boot, in net/core, net/ipv4, net/ipv6, net/mptcp, net/sched and net/sctp.
    """
    from mprun.cli.operand import find_run

    if second is not None and missed:
        raise click.UsageError("give either run B or --missed")
    if with_text and second is None and not missed:
        raise click.UsageError("--text needs a list of lines: give run B, or --missed")
    run = find_run(parent, first)
    lines = [line for line in _read(run) if fnmatchcase(line["file"], pattern)]
    if not lines:
        raise SpecError(f"the kernel counts no file '{pattern}': --file '*' shows all files")
    if second is not None:
        chosen = _subtract(lines, run, find_run(parent, second))
        title = f"lines executed by {first} and not by {second}"
    else:
        chosen = [line for line in lines if not (missed and line["executed"])]
        title = f"of {len(lines):,} lines not executed"
    if as_json:
        emit({"directory": str(run.path), "lines": chosen})
    elif second is None and not missed:
        _show_files(lines)
    else:
        click.echo(f"{len(chosen):,} {title}")
        _show_lines(chosen, _read_text(run) if with_text else None)


def _read(run: RunDirectory) -> list[CoverageLine]:
    """Return the counted lines of a run's kernel, by file and line. Raises SpecError if there are none."""
    from mprun.kernel.line_coverage import TABLE

    table = run.find_table(TABLE)
    if table is None:
        raise SpecError(
            f"{run.path} has no counts of lines: run it with a kernel that counts them "
            "(mprun kernel build --source TREE --name lines --profile coverage)"
        )
    # a stranger may have chosen the names
    return [
        {**row, "file": printable(row["file"]), "function": printable(row["function"])}
        for row in table.collect().to_dicts()
    ]


def _subtract(lines: Iterable[CoverageLine], run: RunDirectory, other: RunDirectory) -> list[CoverageLine]:
    """Return the executed lines that the other run did not execute. Raises SpecError if the kernels differ."""
    one, two = (each.environment().kernel.digest for each in (run, other))
    if one != two:
        raise SpecError(f"{run.name} and {other.name} had different kernels: repeat one with the kernel of the other")
    executed = {(line["file"], line["line"]) for line in _read(other) if line["executed"]}
    return [line for line in lines if line["executed"] and (line["file"], line["line"]) not in executed]


def _read_text(run: RunDirectory) -> Mapping[str, Sequence[str]]:
    """Return the lines of the files of a run's kernel, by file. Raises SpecError if the kernel is not here any more."""
    from mprun.kernel.line_coverage import read_text
    from mprun.kernel.store import find_by_digest

    kernel = find_by_digest(run.environment().kernel.digest)
    if kernel is None:
        raise SpecError(f"the kernel of {run.name} is not in this user's store, so the text of its lines is not known")
    return read_text(kernel)


def _show_files(lines: Iterable[CoverageLine]) -> None:
    rows = [("file", "lines", "executed", "share")]
    for file, own in groupby(lines, lambda line: line["file"]):
        counts = [line["executed"] for line in own]
        executed = sum(map(bool, counts))
        rows.append((file, f"{len(counts):,}", f"{executed:,}", f"{executed / len(counts):.1%}"))
    show_table(rows, 1)


def _show_lines(lines: Iterable[CoverageLine], text: Mapping[str, Sequence[str]] | None) -> None:
    for file, of_file in groupby(lines, lambda line: line["file"]):
        click.echo(f"\n{file}")
        for function, of_function in groupby(of_file, lambda line: line["function"]):
            numbers = [line["line"] for line in of_function]
            if text is None:
                click.echo(prose.wrap(f"{function or '-'}: {', '.join(_join(numbers))}", "  "))
                continue
            click.echo(f"  {function or '-'}")
            own = text.get(file, ())
            for number in numbers:
                line = printable(own[number - 1]) if number <= len(own) else ""
                click.echo(f"    {number:6}  {line}".rstrip().expandtabs(8))


def _join(numbers: Sequence[int]) -> Iterator[str]:
    """Yield ranges of successive numbers, such as `12-15`."""
    for _, part in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        own = [number for _, number in part]
        yield str(own[0]) if len(own) == 1 else f"{own[0]}-{own[-1]}"
