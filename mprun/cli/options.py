# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and the functions that evaluate them.

Options that travel together are one value: `files` gives a command `FileOptions`, `runs` gives it `RunOptions`, and
`verdicts` gives it `VerdictOptions`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import prose
from mprun.cli.completion import complete_files, complete_kernels, complete_metrics, complete_parameters
from mprun.cli.progress import passing
from mprun.errors import SpecError
from mprun.model.engine_name import ENGINE_CHOICES, EngineChoice
from mprun.model.frozen import Frozen
from mprun.model.permission import NO_COMMANDS, Consent, Permissions
from mprun.safety.text import printable

if TYPE_CHECKING:
    from mprun.inputs.loading import Loaded
    from mprun.reports.test_results import CheckedExpectation
    from mprun.sweeps.worker import Keep

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

DEFAULT_PARENT = Path("runs")


class ResultFolder(click.Path):
    """A directory for results, which may not exist yet. It is checked before anything takes time."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("it is empty: name a directory", param, ctx)
        if os.path.isfile(value):
            raise SpecError(f"'{value}' is a file, and runs need a directory: rename it, or name another with -o")
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        whole = path.absolute()
        if not str(whole).isprintable():
            self.fail(f"'{printable(str(whole))}' has characters that cannot be shown: name another", param, ctx)
        there = next(folder for folder in (whole, *whole.parents) if os.path.lexists(folder))
        if not os.path.isdir(there):
            self.fail(f"'{there}' is no directory: name another", param, ctx)
        if path.suffix in _OF_FILES and there != whole:
            from mprun.cli.mistake import name_target

            target = name_target(ctx.command, str(path)) if ctx else ""
            remedy = f"write '{target}'" if target else "leave it out"
            self.fail(f"'{path}' would be the folder of the runs, not a file: {remedy}", param, ctx)
        if there not in (whole, whole.parent):
            self.fail(f"no directory '{path.parent}': make it first", param, ctx)
        return path


# The ends of names of files that commands write.
_OF_FILES = (".csv", ".html", ".md", ".pdf", ".qlog", ".sqlite", ".tex", ".txt", ".yaml", ".yml", ".zip")


class Target(click.Path):
    """A file or a folder to be written. Its place is checked before anything takes time.

    begins: the first bytes of what is written. A file that begins otherwise is refused. Empty: any file is taken.
    is_new: a file that exists is refused: its content can be lost. Drawings and pages are made again, and replaced.
    has_folder: the folder of the file must exist. takes_dash: `-` is standard output.
    suffixes: of the files that the command writes, for advice; the first is the usual one. Empty: any.
    """

    def __init__(
        self,
        *begins: bytes,
        is_file: bool = True,
        is_folder: bool = False,
        is_new: bool = False,
        has_folder: bool = False,
        takes_dash: bool = False,
        suffixes: Sequence[str] = (),
    ) -> None:
        super().__init__(file_okay=is_file, dir_okay=is_folder or not is_file, allow_dash=takes_dash, path_type=Path)
        self._begins = begins
        self._is_new = is_new
        self._has_folder = has_folder
        self._suffixes = suffixes

    def suggest(self, name: str) -> str:
        """Return a name, with the suffix that the command needs, or without one for a folder."""
        stem, suffix = os.path.splitext(name)
        if self.file_okay and (not self._suffixes or suffix.lower() in self._suffixes):
            return name
        return "".join((stem.removesuffix(".tar"), *self._suffixes[:1]))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.is_file() and (path.suffix in (".yaml", ".yml") or not self._is_of_kind(path)):
            self.fail(f"'{path}' exists, and is no file of the kind to be written: name another file", param, ctx)
        if path.is_file() and self._is_new:
            self.fail(f"'{path}' exists: remove it, or name a new file", param, ctx)
        if not self.file_okay and path.suffix in _OF_FILES and not path.exists():
            self.fail(f"'{path}' would be a folder: write the name of one, as in '{path.with_suffix('')}'", param, ctx)
        if (self.allow_dash and path == Path("-")) or (self.file_okay and path.exists()):
            return path
        if self._has_folder and not path.parent.is_dir():
            self.fail(f"no directory '{path.parent}': make it first", param, ctx)
        folder = next(one for one in (path, *path.parents) if one.exists())
        try:
            with tempfile.TemporaryFile(dir=folder):
                return path
        except OSError as error:
            reason = "is a file" if not folder.is_dir() else (error.strerror or str(error)).lower()
            self.fail(f"'{folder}' takes no new files ({reason}): name another place", param, ctx)

    def _is_of_kind(self, path: Path) -> bool:
        with path.open("rb") as file:
            head = file.read(max(map(len, self._begins), default=0))
        return not head or head.startswith(self._begins)


class WholeNumber(click.IntRange):
    """A whole number."""

    name = "whole number"


def _take_one(otherwise: Any, _context: click.Context, option: click.Parameter, given: Sequence[Any]) -> Any:
    """Return the one value of an option, or `otherwise` without one. Raises UsageError for two values.

    Click would take the last value, as it does for the other options, so that a script can override them.
    """
    if len(given) > 1:
        raise click.UsageError(f"{option.opts[0]} is given {len(given)} times ({', '.join(map(str, given))}): keep one")
    return given[0] if given else otherwise


def text(names: str, metavar: str, what: str, **settings: Any) -> Decorator:
    """Return a decorator that adds an option with a text. names: of click, in one text. what: the help text.

    settings: other settings of click's option. A default that is not empty is shown.
    """
    shown = bool(settings.get("default"))
    return click.option(*names.split(), metavar=metavar, help=what, show_default=shown, **settings)


def choice(names: str, allowed: Iterable[str], what: str, default: str | None = None) -> Decorator:
    """Return a decorator that adds an option with one of several words. names, what: as of `text`."""
    return click.option(*names.split(), type=click.Choice(list(allowed)), help=what, default=default, show_default=True)


def number(
    names: str, least: int, most: int | None, what: str, default: int | None = None, **settings: Any
) -> Decorator:
    """Return a decorator that adds an option with a whole number. names, what: as of `text`."""
    settings |= {"help": what, "default": default, "show_default": True}
    return click.option(*names.split(), type=WholeNumber(least, most), metavar="N", **settings)


_file_option = partial(
    click.option, metavar="FILE", shell_complete=complete_files, multiple=True, callback=partial(_take_one, "")
)
_topology = partial(_file_option, "-t", "--topology", help="Read the topology from FILE, FILE.yaml or FILE.yml.")
_experiment = partial(_file_option, "-x", "--experiment", help="Read the experiment from FILE, FILE.yaml or FILE.yml.")
_engine_option = partial(choice, "--engine", ENGINE_CHOICES, default="auto")
kernel = partial(click.option, "--kernel", metavar="NAME", shell_complete=complete_kernels)
parent = text(
    "-o --output parent",
    "DIRECTORY",
    "Read and write run directories in this directory.",
    type=ResultFolder(),
    default=DEFAULT_PARENT,
)


_verdict = partial(click.option, metavar="FILE")
_keep = partial(
    choice,
    "--keep",
    ("pcaps", "none", "failed"),
    "Keep the captures of all runs, of no run, or of the runs that did not pass.",
)

# The options of a group. A name that ends in a point and a word is another form of the option before the point.
_FILES: Mapping[str, Decorator] = {
    "topology": _topology(required=True),
    "topology.optional": _topology(),
    "experiment": _experiment(required=True),
    "experiment.optional": _experiment(),
    "params": text(
        "-p --param params",
        "NAME=VALUE",
        "Override a parameter of the files. Can be repeated.",
        multiple=True,
        shell_complete=complete_parameters,
    ),
    "seed": number(
        "--seed",
        0,
        2**63 - 1,
        "Set the seed of all randomness. Default: the seed in the file.",
        multiple=True,
        callback=partial(_take_one, None),
    ),
    "strict": click.option("--strict", is_flag=True, help="Treat warnings as errors."),
    # of a command that builds a topology and runs no experiment
    "python": click.option("--allow-exec", "python", is_flag=True, help="Run a topology that is a Python program."),
    "outside": click.option(
        "--allow-outside",
        "outside",
        is_flag=True,
        help="Allow files to name files outside their own folder (include, extends, schedule, trace, size.file).",
    ),
}
_RUNS: Mapping[str, Decorator] = {
    "engine": _engine_option(
        what="Choose where to run. `virtual`: simulated time, without root, repeatable. `real`: this machine's kernel. "
        "`auto`: the engine in your configuration file, or virtual if it names none.",
    ),
    "engine.original": _engine_option(
        what="Choose where to run. `virtual`: simulated time. `real`: this machine's kernel. `auto`: the engine of the "
        "original, if it is virtual or your configuration file names it.",
    ),
    "kernel": kernel(default="default", show_default=True, help="Boot this experiment kernel."),
    "kernel.original": kernel(
        default="", help="Boot this experiment kernel. Default: the kernel of the original, if it is built."
    ),
    "kernel.lab": kernel(
        default="", help="Boot this experiment kernel. Default: the kernel that the lab names, or default."
    ),
    "parent": parent,
    "allow_exec": click.option(
        "--allow-exec",
        is_flag=True,
        help="Run the commands in a file (tool: exec), and a topology that is a Python program.",
    ),
    "unconfined": click.option(
        "--unconfined",
        is_flag=True,
        help="With --allow-exec, also run a file's commands on a machine without Landlock. The commands can then read "
        "your files.",
    ),
    "as_root": click.option(
        "--allow-exec-as-root",
        "as_root",
        is_flag=True,
        help="With --allow-exec, also run a file's commands as root in the real engine.",
    ),
    "cluster": click.option("--cluster", metavar="ADDRESS", help="Run on the workers of this Dask scheduler."),
    "jobs": number("-j --jobs", 1, 1024, "Run N runs at once. Default: one for each CPU."),
    "keep.pcaps": _keep(default="pcaps"),
    "keep.none": _keep(default="none"),
    "keep.failed": _keep(default="failed"),
}
_VERDICTS: Mapping[str, Decorator] = {
    "junit": _verdict(
        "--junit",
        type=Target(b"<", has_folder=True),
        help="Write the verdict on each expectation to FILE as JUnit XML.",
    ),
    "tap": _verdict(
        "--tap", type=Target(b"TAP", has_folder=True), help="Write the verdict on each expectation to FILE as TAP."
    ),
}


class FileOptions(Frozen):
    """The files of a command, and how they are read. A command without an option has its default.

    - topology, experiment: names of files; empty if none was given.
    - params: texts such as `NAME=VALUE`.
    - seed: None for the seed in the file.
    - python: run a topology that is a Python program.
    - outside: the files may name files outside their own folder.
    """

    topology: str = ""
    experiment: str = ""
    params: tuple[str, ...] = ()
    seed: int | None = None
    strict: bool = False
    python: bool = False
    outside: bool = False

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters by name. Raises SpecError for a text that is not NAME=VALUE."""
        found: dict[str, str] = {}
        for text in self.params:
            name, _, value = (part.strip() for part in text.partition("="))
            if not name or not value:
                other, colon, said = name.partition(":")
                meant = f"{other}={said.strip()}" if colon and said.strip() else f"{name or 'NAME'}=VALUE"
                raise SpecError(f"-p {text}: write -p {meant}")
            if name in found:
                several = f"for a run with each, write 'matrix: {{{name}: [{found[name]}, {value}]}}' in the experiment"
                raise SpecError(f"-p {name} is given twice: keep one; {several}")
            found[name] = value
        return found

    def permissions(self, consent: Consent = NO_COMMANDS) -> Permissions:
        """Return the rights of the files. consent: of a command that runs an experiment."""
        return Permissions(self.python or consent.commands, self.outside)

    def load(self, consent: Consent = NO_COMMANDS) -> Loaded:
        """Read and check the files, and print their warnings. Raises InputError, or SpecError for a parameter."""
        with self._reading(), self._advising(consent):
            from mprun.inputs.loading import load

            loaded = load(*self._asked(consent))
        prose.warn(loaded.warnings)
        return loaded

    def load_cells(self, consent: Consent = NO_COMMANDS) -> tuple[Loaded, ...]:
        """Read and check the files for each cell of the matrix. Raises InputError, or SpecError for a parameter."""
        with self._reading(), self._advising(consent):
            from mprun.inputs.loading import load_cells

            return load_cells(*self._asked(consent))

    def _asked(self, consent: Consent) -> tuple[str, str | None, Mapping[str, str], int | None, bool, Permissions]:
        files = (self.topology, self.experiment or None)
        return *files, self.parameters, self.seed, self.strict, self.permissions(consent)

    @contextlib.contextmanager
    def _advising(self, consent: Consent) -> Iterator[None]:
        """Advise a matrix in place of the problems of the block if -p has several values, and each alone is allowed."""
        try:
            yield
        except SpecError:
            for name, text in self.parameters.items():
                found = self._load_each(name, text.split(","), consent)
                # an axis has its own message
                if found and name not in dict(found[0].values):
                    values = f"{name}: [{text.replace(',', ', ')}]"
                    written = f"add '{values}' to 'matrix'" if found[0].values else f"write 'matrix: {{{values}}}'"
                    several = f"{written} in the experiment, for `mprun sweep`"
                    raise SpecError(f"-p {name}={text} is one value: for a run with each, {several}") from None
            raise

    def _load_each(self, name: str, texts: Sequence[str], consent: Consent) -> list[Loaded]:
        """Return the files with each text as the value of a parameter. Empty for one text, and for a wrong one."""
        from mprun.inputs.loading import load_cells

        if len(texts) < 2 or not all(texts):
            return []
        others = [one for one in self.params if not one.startswith(f"{name}=")]
        with contextlib.suppress(SpecError):
            each = [replace(self, params=(*others, f"{name}={text}")) for text in texts]
            return [loaded for one in each for loaded in load_cells(*one._asked(consent))]
        return []

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        # a topology in Python may write to the terminal
        if self.topology.endswith(".py"):
            return contextlib.nullcontext()
        # commands import the rest afterwards, so that this line is there at once
        return passing(f"reading {' and '.join(filter(None, (self.topology, self.experiment)))}")


class RunOptions(Frozen):
    """The way in which a command makes runs. A command without an option has its default.

    - kernel: an experiment kernel; empty for the kernel of the original or of the lab.
    - parent: the folder of runs.
    - allow_exec, unconfined, as_root: the consent to run the commands in files.
    - cluster: the address of a Dask scheduler; None for this machine.
    - jobs: the number of runs at once; None for one for each CPU.
    - keep: the runs that keep their captures.
    """

    engine: EngineChoice = "auto"
    kernel: str = ""
    parent: Path = DEFAULT_PARENT
    allow_exec: bool = False
    unconfined: bool = False
    as_root: bool = False
    cluster: str | None = None
    jobs: int | None = None
    keep: Keep = "pcaps"

    @property
    def consent(self) -> Consent:
        return Consent(self.allow_exec, self.unconfined, self.as_root)


class VerdictOptions(Frozen):
    """The files for the verdict on each expectation, as JUnit XML and as TAP. None: the file is not written."""

    junit: Path | None = None
    tap: Path | None = None

    def __post_init__(self) -> None:
        if self.junit is not None and self.junit == self.tap:
            raise click.UsageError(f"--junit and --tap name one file, {self.tap}: name two")

    @property
    def is_wanted(self) -> bool:
        return (self.junit or self.tap) is not None

    def write(self, title: str, checks: Iterable[CheckedExpectation]) -> None:
        from mprun.reports.test_results import to_junit, to_tap

        found = list(checks)
        if self.junit is not None:
            self.junit.write_text(to_junit(title, found), encoding="utf-8")
        if self.tap is not None:
            self.tap.write_text(to_tap(found), encoding="utf-8")


def files(words: str) -> Decorator:
    """Return a decorator that adds options of files, by their names in _FILES. The command gets them as `files`."""
    return _group(FileOptions, "files", {word: _FILES[word] for word in words.split()})


def runs(words: str) -> Decorator:
    """Return a decorator that adds options of _RUNS, and for `consent` three. The command gets them as `runs`."""
    chosen = words.replace("consent", "allow_exec unconfined as_root").split()
    return _group(RunOptions, "runs", {word: _RUNS[word] for word in chosen})


def _group(kind: Callable[..., object], name: str, chosen: Mapping[str, Decorator]) -> Decorator:
    """Return a decorator that adds options, and gives their values to the command as one value of a dataclass.

    - name: of this parameter of the command.
    - chosen: the options by the names of the fields, with or without a form.
    """
    own = {one.partition(".")[0] for one in chosen}

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_group(**given: Any) -> Any:
            values = {key: given.pop(key) for key in own}
            return command(**given, **{name: kind(**values)})

        added: Callable[..., Any] = with_group
        for option in reversed(list(chosen.values())):
            added = option(added)
        return added

    return add


# Adds --junit and --tap. The command gets them as `verdicts`.
verdicts = _group(VerdictOptions, "verdicts", _VERDICTS)


def to(what: str, **settings: Any) -> Decorator:
    """Return a decorator that adds --to, where a command writes, with settings of click. The command gets `target`."""
    settings = {"metavar": "FILE", "type": Target(), "show_default": settings.get("default") is not None, **settings}
    return click.option("--to", "target", help=what, **settings)


to_folder = partial(to, metavar="DIRECTORY", type=Target(is_file=False))
# Options that name a file to read, and a folder that exists.
file = partial(click.option, metavar="FILE", type=click.Path(path_type=Path))
folder = partial(click.option, metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
metric = partial(click.option, "--metric", metavar="NAME", shell_complete=complete_metrics)


def _refuse_list(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of metrics. Raises BadParameter for several in one word."""
    for name in names:
        # a hostile run may have a metric whose name has a comma
        if re.fullmatch(r"[\w.-]+(, ?[\w.-]+)+,?", name):
            each = " ".join(f"--metric {one.strip()}" for one in name.split(",") if one.strip())
            raise click.BadParameter(f"'{name}' is no metric: write '{each}'")
    return names


metrics = partial(metric, "metrics", multiple=True, callback=_refuse_list)
fail_if = partial(click.option, "--fail-if", metavar="STATEMENT")
gdb_commands = text(
    "--command commands",
    "TEXT",
    "Run this command of gdb at the stop. Can be repeated. gdb then ends after the last command.",
    multiple=True,
)
control = partial(click.option, "--control", metavar="KERNEL", shell_complete=complete_kernels)


def jobs(noun: str) -> Decorator:
    """Return a decorator that adds -j for things of one kind, such as tests."""
    what = f"Run N {noun} at once. Default: the number of CPUs."
    every = len(os.sched_getaffinity(0))
    return click.option(
        "-j", "--jobs", type=WholeNumber(1), metavar="N", help=what, callback=lambda _c, _p, given: given or every
    )


confidence = click.option(
    "--ci",
    "confidence",
    type=click.Choice(["95%", "99%"]),
    callback=lambda _context, _parameter, value: None if value is None else int(value.removesuffix("%")) / 100,
    help="Set the confidence level of a sweep's intervals.  [default: 95%]",
)


def refuse_confidence(given: float | None) -> None:
    """Raise UsageError if a confidence level is given: a single run has no intervals."""
    if given is not None:
        raise click.UsageError("--ci is for sweeps: a single run has no intervals")
