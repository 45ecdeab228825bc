# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and the functions that evaluate them."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mprun.cli.completion import complete_files, complete_kernels, complete_parameters
from mprun.errors import SpecError
from mprun.machine import invoking_user
from mprun.model.engine_name import ENGINE_CHOICES
from mprun.safety.text import printable

if TYPE_CHECKING:
    from mprun.reports.test_results import CheckedExpectation
    from mprun.runs.run_directory import RunDirectory
    from mprun.sweeps.sweep_directory import SweepDirectory
    from mprun.sweeps.worker import Keep

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

DEFAULT_PARENT = Path("runs")
# Longer lines of prose are hard to read.
_MOST_WIDTH = 100
_BEFORE_UNIT = re.compile(r"(\d) (?=(?:%|[kMGT]?(?:bit/s|B)|[mun]?s)(?![\w/]))")


def topology(command: CommandT) -> CommandT:
    return click.option(
        "-t",
        "--topology",
        required=True,
        metavar="FILE",
        shell_complete=complete_files,
        help="Read the topology from FILE, FILE.yaml or FILE.yml.",
    )(command)


def experiment(command: CommandT) -> CommandT:
    return click.option(
        "-x",
        "--experiment",
        required=True,
        metavar="FILE",
        shell_complete=complete_files,
        help="Read the experiment from FILE, FILE.yaml or FILE.yml.",
    )(command)


def parameters(command: CommandT) -> CommandT:
    return click.option(
        "-p",
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=complete_parameters,
        help="Override a parameter of the files. Can be repeated.",
    )(command)


def seed(command: CommandT) -> CommandT:
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        metavar="N",
        help="Set the seed of all randomness. Default: the seed in the file.",
    )(command)


def strict(command: CommandT) -> CommandT:
    return click.option("--strict", is_flag=True, help="Treat warnings as errors.")(command)


def engine(command: CommandT) -> CommandT:
    return click.option(
        "--engine",
        type=click.Choice(ENGINE_CHOICES),
        default="auto",
        show_default=True,
        help="Choose where to run. `virtual`: simulated time, without root, repeatable. `real`: this machine's kernel. "
        "`auto`: the engine in your configuration file, or virtual if it names none.",
    )(command)


_kernel_option = partial(click.option, "--kernel", metavar="NAME", shell_complete=complete_kernels)
kernel = _kernel_option(default="default", show_default=True, help="Boot this experiment kernel.")
kernels = click.option(
    "--kernel",
    "kernels",
    metavar="NAME",
    multiple=True,
    default=("default",),
    show_default=True,
    shell_complete=complete_kernels,
    help="Boot this experiment kernel. Repeat the option to compare kernels.",
)
kernel_of_original = _kernel_option(
    help="Boot this experiment kernel. Default: the kernel of the original, if it is built."
)
kernel_of_lab = _kernel_option(help="Boot this experiment kernel. Default: the kernel that the lab names, or default.")


class ResultFolder(click.Path):
    """A directory for results, which may not exist yet. It is checked before anything takes time."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        whole = path.absolute()
        if not str(whole).isprintable():
            self.fail(f"'{printable(str(whole))}' has characters that cannot be shown: name another", param, ctx)
        there = next(folder for folder in (whole, *whole.parents) if os.path.lexists(folder))
        if not os.path.isdir(there):
            self.fail(f"'{there}' is no directory: name another", param, ctx)
        return path


def note_unconfined() -> None:
    """Print a note if this machine cannot keep programs of a run from the user's files."""
    from mprun.runs.place import tell_unconfined

    if note := tell_unconfined():
        click.echo(f"note: {note}", err=True)


def parent(command: CommandT) -> CommandT:
    return click.option(
        "-o",
        "--output",
        "parent",
        type=ResultFolder(),
        default=DEFAULT_PARENT,
        show_default=True,
        help="Read and write run directories in this directory.",
    )(command)


def consent(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --allow-exec and the options that some machines need with it. The command gets them as `consent`."""

    @functools.wraps(command)
    def with_consent(*args: Any, allow_exec: bool, unconfined: bool, as_root: bool, **rest: Any) -> Any:
        from mprun.model.permission import Consent

        return command(*args, consent=Consent(allow_exec, unconfined, as_root), **rest)

    for names, what in (
        (
            ("--allow-exec-as-root", "as_root"),
            "With --allow-exec, also run a file's commands as root in the real engine.",
        ),
        (
            ("--unconfined",),
            "With --allow-exec, also run a file's commands on a machine without Landlock. "
            "The commands can then read your files.",
        ),
        (
            ("--allow-exec",),
            "Run the commands in a file (tool: exec), and a topology that is a Python program.",
        ),
    ):
        with_consent = click.option(*names, is_flag=True, help=what)(with_consent)
    return with_consent


cluster = click.option("--cluster", "address", metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
runs_at_once = click.option(
    "-j", "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Run N runs at once. Default: one for each CPU."
)


def keep(default: Keep) -> Callable[[CommandT], CommandT]:
    """Add --keep: which runs of a sweep keep their captures."""
    return click.option(
        "--keep",
        type=click.Choice(["pcaps", "none", "failed"]),
        default=default,
        show_default=True,
        help="Keep the captures of all runs, of no run, or of the runs that did not pass.",
    )


def allow_python(command: CommandT) -> CommandT:
    """Add --allow-exec to a command that builds a topology and runs no experiment."""
    return click.option("--allow-exec", is_flag=True, help="Run a topology that is a Python program.")(command)


def allow_outside(command: CommandT) -> CommandT:
    return click.option(
        "--allow-outside",
        is_flag=True,
        help="Allow files to name files outside their own folder (include, extends, schedule, trace, size.file).",
    )(command)


class NewFile(click.Path):
    """A file to be written. Its directory is checked before anything takes time."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"no directory '{path.parent}': make it first", param, ctx)
        return path


def refuse_existing(folder: Path) -> None:
    """Raise SpecError if a folder already has the files of a case, topo.yaml or xp.yaml."""
    for path in (folder / "topo.yaml", folder / "xp.yaml"):
        if path.exists():
            raise SpecError(f"{path} exists: remove it, or name another directory with --to")


def verdicts(command: CommandT) -> CommandT:
    """Add --junit and --tap."""
    for name, what in (("tap", "TAP"), ("junit", "JUnit XML")):
        command = click.option(
            f"--{name}",
            type=NewFile(),
            metavar="FILE",
            help=f"Write the verdict on each expectation to FILE as {what}.",
        )(command)
    return command


def terminal_width() -> int:
    """Return the columns of the terminal, or 100 without a terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def spell_path(path: Path) -> str:
    """Return a path as short as a person would type it: relative if it is below the current folder."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def wrap(text: str, first: str, rest: str | None = None) -> str:
    """Return text in lines of the terminal's width. first: before the first line; rest: before the others."""
    import textwrap

    width = min(terminal_width(), _MOST_WIDTH)
    rest = first if rest is None else rest
    # a value stays on the line of its unit, and names of files and options are not broken at their hyphens
    joined = _BEFORE_UNIT.sub("\\1\u00a0", printable(text))
    filled = textwrap.fill(joined, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return filled.replace("\u00a0", " ")


def write_verdicts(title: str, checks: Iterable[CheckedExpectation], junit: Path | None, tap: Path | None) -> None:
    """Write the files of --junit and --tap."""
    if junit is None and tap is None:
        return
    from mprun.reports.test_results import to_junit, to_tap

    found = list(checks)
    if junit is not None:
        junit.write_text(to_junit(title, found), encoding="utf-8")
    if tap is not None:
        tap.write_text(to_tap(found), encoding="utf-8")


def parse_parameters(params: tuple[str, ...]) -> dict[str, str]:
    """Return `-p a=1 -p b=2` as a dict. Raise SpecError for a text that is not NAME=VALUE."""
    found = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SpecError(f"-p {text}: write -p NAME=VALUE")
        found[name] = value
    return found


def _read_confidence(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    return None if value is None else int(value.removesuffix("%")) / 100


confidence = click.option(
    "--ci",
    "confidence",
    type=click.Choice(["95%", "99%"]),
    callback=_read_confidence,
    help="Set the confidence level of a sweep's intervals.  [default: 95%]",
)


def refuse_confidence(given: float | None) -> None:
    """Raise UsageError if a confidence level is given: a single run has no intervals."""
    if given is not None:
        raise click.UsageError("--ci is for sweeps: a single run has no intervals")


def launch(page: Path) -> None:
    """Open a page in a browser. If there is none, say where the page is."""
    if click.launch(str(page.absolute())):
        click.echo(f"no browser was found here: open {page.resolve().as_uri()}", err=True)


def need_run(found: RunDirectory | SweepDirectory, option: str) -> RunDirectory:
    """Return a run. Raise SpecError for a sweep, which an option of `mprun show` cannot show."""
    from mprun.runs.run_directory import RunDirectory

    if not isinstance(found, RunDirectory):
        raise SpecError(f"{found.path} is a sweep, and '{option}' shows a run: name one of its runs")
    return found


def restore_tables(run: RunDirectory) -> None:
    """Make the tables of a run again if they are missing."""
    if not run.has_tables:
        from mprun.runs import runner
        from mprun.runs.run_directory import readable

        try:
            with readable(run.path):
                runner.restore_tables(run)
        except OSError as error:
            click.echo(f"the tables of the run are missing and cannot be made again: {error}", err=True)
        else:
            invoking_user.give(run.path / "tables")


def tell_incomplete(sweep: SweepDirectory) -> None:
    """Print a warning if a sweep is incomplete: its figures are no final result."""
    from mprun.sweeps.sweep_summary import find_missing

    missing = find_missing(sweep.record, sweep.runs())
    if missing is not None:
        click.echo(f"warning: {sweep.tell_incomplete(sweep.name, missing)}", err=True)
