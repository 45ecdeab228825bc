# SPDX-License-Identifier: Apache-2.0
"""Find the runs and sweeps that a command line names: directories, names, steps of labs, and archives of bundles."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from mprun.cli.prose import spell_path
from mprun.errors import MprunError, RunError, SpecError
from mprun.machine import invoking_user
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen
from mprun.storage import look_up, sweep_directory
from mprun.storage.run_directory import LATEST, RunDirectory, list_runs
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory
from mprun.storage.table import readable

if TYPE_CHECKING:
    from mprun.storage.index.listed import DirectoryKind

FoundT = TypeVar("FoundT", bound=ResultDirectory)

# The parts of a run's name that are not for people.
_TIME_AND_DIGEST = re.compile(r"^\d{8}-\d{6}-|-[0-9a-f]{8}(-sweep)?$")


class Operand(Frozen):
    """A run or a sweep that a command line names.

    - name: its directory, or the file of a bundle, for people.
    - title: the name of a lab's step or of a bundle, which distinguishes it from others; empty for other names.
    """

    source: ResultDirectory
    name: str
    title: str = ""


def find_either(parent: Path, name: str) -> ResultDirectory:
    """Return a sweep or a run by any of its names, or the newest run of a lab's step. Raises SpecError."""
    return _find(parent, name, look_up.find_either)[0]


def find_run(parent: Path, name: str) -> RunDirectory:
    """Return a run by any of its names, or the newest run of a lab's step. Raises SpecError."""
    return _find(parent, name, look_up.find_run)[0]


def find_exact_run(parent: Path, name: str) -> RunDirectory:
    """Return a run of the virtual engine by any of its names. Raises SpecError, also for a run of another engine."""
    run = find_run(parent, name)
    engine = run.environment().engine
    if engine != "virtual":
        raise SpecError(f"{run.name}: a run of the {engine} engine does not repeat exactly")
    return run


@contextlib.contextmanager
def open_operands(parent: Path, names: Sequence[str]) -> Iterator[list[Operand]]:
    """Find runs and sweeps. Archives of bundles are unpacked until the end of the block. Raises MprunError."""
    operands = []
    with contextlib.ExitStack() as opened:
        for name in names:
            if Path(name).is_file():
                from mprun.bundles.reproduction import open_bundle

                folder = opened.enter_context(scratch("mprun-bundle-"))
                title = _TIME_AND_DIGEST.sub("", Path(name).name.partition(".")[0])
                operands.append(Operand(open_bundle(Path(name), folder).source, name, title))
            else:
                source, title = _find(parent, name, look_up.find_either)
                operands.append(Operand(source, str(source.path), title))
        yield operands


def _find(parent: Path, name: str, look: Callable[[Path, str], FoundT]) -> tuple[FoundT | RunDirectory, str]:
    """Return what a name stands for, and the name of a lab's step if it stands for the run of one."""
    try:
        return _tell(parent, name, look(parent, name)), ""
    except SpecError:
        # the folder of a cell also has `=`, but as a part of a path
        if "=" in name and "/" not in name:
            return _find_with(parent, name), ""
        # few operands are steps, and reading labs is expensive
        from mprun.labs.grade import find_near_step, find_step_run

        if found := find_step_run(parent, name):
            if found.newer is not None:
                newer = f"{spell_path(found.newer.path)}, which is newer, has changed files or other parameters"
                click.echo(f"note: {name} is {spell_path(found.run.path)}, with the lab's own files; {newer}", err=True)
            return found.run, found.step
        # `find` names the newest run if this link is missing
        if name != LATEST and _has_label(parent, name):
            raise SpecError(f"no run '{name}', but a run with this label: write 'label={name}'") from None
        if advice := advise(parent, name):
            raise SpecError(advice) from None
        if step_name := find_near_step(name):
            raise SpecError(f"no run '{name}' here or in {parent}: did you mean the step '{step_name}'?") from None
        raise


def advise(parent: Path, name: str) -> str:
    """Return the message about a name that means no run, such as the name of a metric; empty if none is known."""
    from mprun.cli.mistake import advise_operand

    context = click.get_current_context(silent=True)
    if context is None or Path(name).is_dir():
        return ""
    metrics: Collection[str] = ()
    with contextlib.suppress(MprunError, IndexError):
        metrics = list_runs(parent)[-1].summary().metrics
    advice = advise_operand(name, context.command, metrics)
    return advice and f"no run '{name}' here or in {parent}: {advice}"


def _has_label(parent: Path, name: str) -> bool:
    with contextlib.suppress(SpecError):
        _find_newest(parent, f"label={name}", "run")
        return True
    return False


def _find_with(parent: Path, text: str) -> RunDirectory:
    """Return the newest run with values, such as `cc=cubic,rate=20mbit`; else a sweep's run. Raises SpecError."""
    try:
        return _find_newest(parent, text, "run")
    except SpecError:
        with contextlib.suppress(SpecError):
            run = _find_newest(parent, text, "run of sweep")
            by = f"`mprun compare SWEEP --by {text.partition('=')[0]}` compares all its runs"
            click.echo(f"note: {text} is {spell_path(run.path)}, one run of a sweep; {by}", err=True)
            return run
        raise


def _find_newest(parent: Path, text: str, kind: DirectoryKind) -> RunDirectory:
    """Return the newest run of a kind with values. Raises SpecError."""
    from mprun.storage.index.database import FolderIndex
    from mprun.storage.index.listed import scan
    from mprun.storage.index.selection import ListRequest, select

    request = ListRequest(text.split(","))
    try:
        found = scan(parent, kind != "run")
        listing, _ = FolderIndex(parent, found, (kind,)).ask(lambda index: select(index, request))
    except SpecError as error:
        raise SpecError(str(error).removeprefix("--where ")) from None
    if not listing.rows:
        notes = "; ".join(note.removeprefix("--where ") for note in listing.notes)
        raise SpecError(notes or f"no run in {parent} has {text}")
    return RunDirectory(parent / listing.rows[-1].entry.name)


def _tell(parent: Path, name: str, found: FoundT) -> FoundT:
    """Return what `latest` means, and print a note if a run and a sweep could be meant."""
    if name == LATEST and all((parent / link).exists() for link in (LATEST, sweep_directory.LATEST)):
        click.echo(f"note: latest is {spell_path(found.path)}", err=True)
    return found


def need_run(found: ResultDirectory, option: str) -> RunDirectory:
    """Return a run. Raise SpecError for a sweep, which an option of `mprun show` cannot show."""
    if not isinstance(found, RunDirectory):
        other = f", or write `mprun export {found.path} --markdown --metric NAME`" if option == "--all" else ""
        raise SpecError(f"{found.path} is a sweep, and '{option}' shows a run: name one of its runs{other}")
    return found


def restore_tables(run: RunDirectory, is_needed: bool = False) -> None:
    """Make missing tables of a run again. is_needed: raise RunError, and do not warn, if their sources were removed."""
    if not run.has_tables:
        from mprun.runs import runner

        try:
            with readable(run.path):
                runner.restore_tables(run)
        except (OSError, RunError) as error:
            if is_needed and isinstance(error, RunError):
                raise
            click.echo(f"the tables of the run are missing and cannot be made again: {error}", err=True)
        else:
            invoking_user.give(run.path / "tables")


def tell_incomplete(sweep: SweepDirectory) -> None:
    """Print a warning if a sweep is incomplete: its figures are no final result."""
    from mprun.sweeps.sweep_summary import find_missing

    missing = find_missing(sweep.record, sweep.runs())
    if missing is not None:
        click.echo(f"warning: {sweep.tell_incomplete(sweep.name, missing)}", err=True)
