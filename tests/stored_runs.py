# SPDX-License-Identifier: Apache-2.0
"""A store of runs for the tests: a run in simulated time that some test has made need not be made again.

An entry has what an engine leaves in a run directory, before anything is measured. A test that asks for the same plan
gets a copy, and everything after the engine happens as in a run: captures, tables, metrics and pages. The key covers
all bytes that the engine's result depends on: the plan, the kernel, the programs and libraries of this machine, and the
code that carries out plans.

The store must not hide an error:

- Some runs that are in the store are made again, and every byte is compared. `tests.phases` chooses a share of them
  with a seed, which it prints. A difference fails the tests and empties the store.
- A test that asks for one plan twice gets at most one copy, so a comparison of two runs compares two runs. The
  commands of a page are asked one by one (`command_of`), because no command compares runs of an earlier one.
- Tests of engines are marked `fresh` and get no copies, nor do the commands that repeat a run.

`tests/counter/sitecustomize.py` installs the store in each process. Where it cannot be written, each run is made.
"""

from __future__ import annotations

import contextlib
import filecmp
import functools
import hashlib
import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mprun.kernel.store import Kernel
    from mprun.model.plan import Plan
    from mprun.storage.run_directory import RunDirectory

# Variables of the environment: the folder of the store, the file to which each process appends what it did, the seed of
# the choice of runs that are made again, and whether the current test is marked `fresh`.
FOLDER, RECORD, SEED, FRESH = "MPRUN_TESTS_STORE", "MPRUN_TESTS_RUNS", "MPRUN_TESTS_SEED", "MPRUN_TESTS_FRESH"
TEST = "PYTEST_CURRENT_TEST"
# What stands between a test and the number of its command.
COMMAND = "::command "
# One of this many copies is made again.
SHARE = 20
MOST_BYTES = 4 << 30
# Files about the time of the host, which no run repeats (`mprun.storage.run_directory`).
OF_HOST = frozenset({"wall.json", "stops.json"})
# A run with this file may differ from another one.
DISTURBED = "changed.json"
# Functions that repeat a run in order to compare it.
REPEATING = frozenset({"run_again"})
PACKAGE = Path(__file__).parents[1] / "mprun"
# The folders with the code that carries out plans.
OF_CODE = ("agent", "engines", "kernel", "workloads/built")
# What a module of mprun imports when it is loaded: a module, and the names taken from it.
IMPORT = re.compile(r"^(?:from|import) (mprun[\w.]*)(?: import (\([^)]*\)|.*))?$", re.MULTILINE)
RunPlan = Callable[..., None]


def find_engine(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return the virtual engine, with the store in front of its function `run_plan`, for Python to import."""
    found = PathFinder.find_spec(name, path)
    if found is not None and found.origin is not None:
        found.loader = _Loader(name, found.origin)
    return found


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.run_plan = storing(module.run_plan)  # type: ignore[attr-defined]


def storing(run_plan: RunPlan) -> RunPlan:
    """Return `run_plan` with the store in front.

    Runs with a shell or gdb, in real time or under sudo do not use the store.
    """
    from mprun.machine.invoking_user import is_root_for_user

    @functools.wraps(run_plan)
    def take_or_run(plan: Plan, run: RunDirectory, kernel: Kernel, *more: Any, **options: Any) -> None:
        has_options = any((*more[1:], *options.values()))
        if has_options or os.environ.get(FRESH) or is_root_for_user() or _is_repeating():
            run_plan(plan, run, kernel, *more, **options)
            return
        key = key_of(plan, kernel)
        with contextlib.ExitStack() as stack:
            try:
                entry = stack.enter_context(opened(key))
            except OSError:
                # without the store: the cache of another user, or a file system that cannot be written
                entry = None
            is_kept = entry is not None and (entry / "run").exists()
            may_take = is_kept and not was_used(key)
            if entry is not None and may_take:
                os.utime(entry)
                if not is_chosen(key):
                    shutil.copytree(entry / "run", run.path, dirs_exist_ok=True, symlinks=True)
                    note("taken", key)
                    return
            before = set(_files_of(run.path))
            run_plan(plan, run, kernel, *more, **options)
            new = set(_files_of(run.path)) - before
            note("checked" if may_take else "made", key)
            if entry is None:
                return
            if may_take and DISTURBED not in new and (different := compare(run.path, new, entry / "run")):
                note("differs", f"{key} {' '.join(different)}")
            elif not is_kept and DISTURBED not in new:
                with contextlib.suppress(OSError):
                    keep(run.path, new, entry)

    return take_or_run


def key_of(plan: Plan, kernel: Kernel) -> str:
    """Return a digest of everything that the result of an engine depends on."""
    from mprun.engines import agent_process
    from mprun.kernel.store import SYMBOLS

    parts: list[bytes] = [plan.to_text().encode(), repr(sorted(agent_process.environment(None).items())).encode()]
    # no run reads the symbols, and to read their 100 MB takes longer than many a run
    files = (path for path in kernel.directory.iterdir() if path.suffix != ".json" and path.name != SYMBOLS)
    parts += [path.read_bytes() for path in sorted(files)]
    for folder in sorted(agent_process.find_built(plan, as_user=True).values()):
        parts += [path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    total = hashlib.sha256(f"{os.geteuid()} {of_machine(agent_process.PROGRAM_PATH)} {of_code()}".encode())
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:32]


@functools.cache
def of_machine(program_path: str) -> str:
    """Return a digest of this machine's packages and of the programs on the path of a run."""
    programs = [
        (entry.path, (found := entry.stat()).st_size, found.st_mtime_ns, found.st_dev, found.st_ino)
        for folder in program_path.split(":")
        if os.path.isdir(folder)
        for entry in os.scandir(folder)
        if entry.is_file()
    ]
    with contextlib.suppress(OSError):
        programs.append((Path("/var/lib/dpkg/status").read_text(),))  # type: ignore[arg-type]
    return hashlib.sha256(f"{sys.version} {sorted(map(repr, programs))}".encode()).hexdigest()


@functools.cache
def of_code(package: Path = PACKAGE) -> str:
    """Return a digest of the code that carries out plans: some folders, and what they import when they are loaded."""
    total = hashlib.sha256()
    for path in _code(package):
        total.update(f"{path.relative_to(package)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _code(package: Path) -> list[Path]:
    own = [path for name in OF_CODE for path in (package / name).rglob("*") if path.is_file() and _is_source(path)]
    inside = [path for path in own if path.suffix == ".py" and path.is_relative_to(package / "agent")]
    return sorted({*own, *_imported(inside, package)})


def _is_source(path: Path) -> bool:
    return "__pycache__" not in path.parts and "target" not in path.parts


def _imported(todo: Iterable[Path], package: Path) -> set[Path]:
    found, waiting = set[Path](), list(todo)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for module, names in IMPORT.findall(path.read_text()):
            for name in (module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))):
                place = package.parent.joinpath(*name.split("."))
                waiting += [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.exists()]
    return {path for path in found if path.is_relative_to(package)}


@contextlib.contextmanager
def opened(key: str) -> Iterator[Path]:
    """Lock an entry, so that only one process makes it, and return its folder. Raises OSError."""
    from mprun.machine.cache import locked

    entry = Path(os.environ[FOLDER]) / key
    with locked(entry, lambda: None, of_root=True):
        yield entry


def keep(run: Path, files: Collection[str], entry: Path) -> None:
    """Copy files of a run directory, and its folders, into an entry, as a whole or not at all. Raises OSError.

    A run with other files than regular files and links, such as a FIFO, is not kept.
    """
    if not all((run / name).is_symlink() or (run / name).is_file() for name in files):
        return
    partial = entry / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    for path, _, _ in os.walk(run):
        (partial / os.path.relpath(path, run)).mkdir(parents=True)
    for name in files:
        shutil.copy2(run / name, partial / name, follow_symlinks=False)
    partial.rename(entry / "run")


def compare(run: Path, new: set[str], stored: Path) -> list[str]:
    """Return the files that are not equal, or that only one of the two has."""
    both = new & (kept := set(_files_of(stored)))
    unequal = {name for name in both if not filecmp.cmp(run / name, stored / name, shallow=False)}
    return sorted({*(new ^ kept), *unequal} - OF_HOST)


def _files_of(folder: Path) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        yield from (str(Path(path, name).relative_to(folder)) for name in names)


def _is_repeating() -> bool:
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        if frame.f_code.co_name in REPEATING:
            return True
    return False


def is_chosen(key: str) -> bool:
    """Return whether a run is made again though the store has it."""
    return random.Random(f"{os.environ.get(SEED)} {key}").randrange(SHARE) == 0


def note(what: str, about: str) -> None:
    """Append to the record what happened, in which test."""
    line = f"{what} {os.environ.get(TEST, '')}\t{about}\n"
    with contextlib.suppress(OSError), open(os.environ[RECORD], "a") as record:
        record.write(line)


def command_of(number: int) -> str:
    """Return the current test, for the environment of one of its commands, which takes copies as a test of its own."""
    test, _, phase = os.environ[TEST].rpartition(" (")
    return f"{test}{COMMAND}{number} ({phase}"


def was_used(key: str) -> bool:
    """Return whether the current test has made or taken this run already."""
    test = os.environ.get(TEST, "").rpartition(" (")[0]
    with contextlib.suppress(OSError), open(os.environ[RECORD]) as record:
        return any(line.endswith(f"\t{key}\n") and f" {test} (" in line for line in record)
    return True


def prune(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Remove the entries that were not used for the longest time, until the others are no larger than `most_bytes`."""
    entries = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: -path.stat().st_mtime)
    for entry in entries:
        most_bytes -= sum((entry / name).lstat().st_size for name in _files_of(entry))
        if most_bytes < 0:
            shutil.rmtree(entry, ignore_errors=True)
