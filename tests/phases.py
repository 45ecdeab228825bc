# SPDX-License-Identifier: Apache-2.0
"""The tests of `make test`, in two phases: those that can share the machine, on all CPUs; then those in real time.

    python -m tests.phases [--long | --part DIGEST] [--lint] [--fresh] [WORDS OF PYTEST ...]

A test that is marked `alone` runs in real time or measures time, so it runs in the second phase, and nothing runs
beside it. The first phase takes runs that a test has made before from a store (`tests.stored_runs`). At the end, the
slowest tests and the number of runs are printed. They are kept in the user's cache.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mprun.errors import MachineError
from mprun.machine.cache import cache, locked
from mprun.machine.scratch import scratch
from tests import longest_first
from tests.stored_runs import COMMAND, FOLDER, SEED, prune

ROOT = Path(__file__).parents[1]
# The folder that Python needs on its path to count runs.
COUNTER = ROOT / "tests" / "counter"
SLOWEST = 60
SHARED = ("not alone", "-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder", "-p", "tests.longest_first")
# One worker, so that the tests have a folder for temporary files of their own here too.
ALONE = ("alone", "-n", "1")
_OK, _INTERRUPTED, _NONE = pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.NO_TESTS_COLLECTED


class Times:
    """A plugin of pytest: the seconds that each test took, with its fixtures, and the files of the second phase."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.files: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # a worker that has crashed reports nothing
        self.files.update(getattr(node, "workeroutput", {}).get(longest_first.ALONE, ()))


def run_phase(phase: Sequence[str], are_long: bool, words: Sequence[str], times: Times) -> int:
    """Run the tests of a phase. A module that cannot be imported does not keep the other modules from running."""
    which, *how = phase
    marked = which if are_long else f"{which} and not long"
    return pytest.main(["-m", marked, *how, "--continue-on-collection-errors", *words], plugins=[times])


def read_record(record: Path) -> Iterator[tuple[str, str, str]]:
    """Return what happened in each line of the record, in which test, and what more is to say of it."""
    for line in record.read_text().splitlines():
        start, _, more = line.partition("\t")
        what, _, test = start.partition(" ")
        # pytest names the part of the test too: "... (setup)"
        yield what, test.rpartition(" (")[0].partition(COMMAND)[0], more


def read_runs(record: Path) -> dict[str, Counter[str]]:
    """Return the number of runs of each test, for each kind of time, and for what the store did."""
    runs: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for what, test, _ in read_record(record):
        runs[what][test] += 1
    return runs


def report(seconds: Mapping[str, float], runs: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Return the lines of the report."""
    yield f"the {SLOWEST} slowest of {len(seconds)} tests, with seconds and runs:"
    for test in sorted(seconds, key=lambda one: -seconds[one])[:SLOWEST]:
        yield f"{seconds[test]:8.1f} {runs['simulated'][test] + runs['real'][test]:4}  {test}"
    yield f"{runs['simulated'].total()} runs in simulated time, {runs['real'].total()} in real time"
    if "taken" in runs or "made" in runs:
        yield (
            f"{runs['taken'].total()} runs taken from the store, {runs['made'].total()} kept there; "
            f"{runs['checked'].total()} in the store made again (seed {os.environ[SEED]})"
        )


def find_store() -> Path | None:
    """Return the folder of the store of runs; None if it cannot be written."""
    with contextlib.suppress(OSError, MachineError):
        folder = cache("tests") / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    return None


def keep(seconds: Mapping[str, float], runs: Mapping[str, Counter[str]], folder: Path, is_whole: bool) -> None:
    """Write seconds and runs of each test. is_whole: forget the tests that did not run. Else keep what is known."""
    path, partial = folder / "tests.json", folder / ".tests.json.new"
    with locked(folder, lambda: None):
        known = {} if is_whole or not path.exists() else json.loads(path.read_text())
        for test, took_s in seconds.items():
            known[test] = {"seconds": round(took_s, 3), "runs": runs["simulated"][test] + runs["real"][test]}
        partial.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        partial.replace(path)


def main(argv: Sequence[str]) -> int:
    """Return the exit status: that of pytest for the worse phase, or 1 if only the linters found a fault."""
    parser = argparse.ArgumentParser(prog="tests.phases")
    parser.add_argument("--long", action="store_true", help="Run the tests marked `long` too.")
    parser.add_argument("--part", metavar="DIGEST", help="Run the tests marked `long` that a digest chooses.")
    parser.add_argument("--lint", action="store_true", help="Run `make lint` beside the first phase.")
    parser.add_argument("--fresh", action="store_true", help="Take no run from the store of runs.")
    given, words = parser.parse_known_args(argv)
    is_part = bool(words)
    times = Times()
    with scratch("mprun-phases-") as folder, (folder / "lint").open("w+") as output:
        record = folder / "runs"
        record.touch()
        # some tests run mprun as another user
        folder.chmod(0o711)
        record.chmod(0o666)
        lint = ["make", "--no-print-directory", "lint"]
        linters = subprocess.Popen(lint, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) if given.lint else None
        # without this, each process of pytest would rewrite the assertions of all tests again
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ |= {"MPRUN_TESTS_RUNS": str(record), "PYTHONPATH": f"{ROOT}{os.pathsep}{COUNTER}"}
        store = None if given.fresh else find_store()
        if store:
            os.environ |= {FOLDER: str(store), SEED: str(random.randrange(1_000_000))}
        are_long = given.long or given.part is not None
        words += ["-p", "tests.part", "--part", given.part] if given.part else []
        found = [run_phase(SHARED, are_long, words, times)]
        os.environ.pop(FOLDER, None)
        noted = sorted(set(read_record(record)))
        misplaced = [(test, command) for what, test, command in noted if what == "real"]
        different = [(test, files) for what, test, files in noted if what == "differs"]
        if linters:
            found.append(int(linters.wait() != 0))
        if found[0] != _INTERRUPTED:
            # who names tests has named those of both phases
            found.append(run_phase(ALONE, are_long, [*words, *([] if is_part else sorted(times.files))], times))
        runs = read_runs(record)
        print(*report(times.seconds, runs), (folder / "lint").read_text(), sep="\n", end="")
    for test, command in misplaced:
        print(f"{test}: runs in real time (... {command}): mark it with pytest.mark.alone")
    for test, files in different:
        print(f"{test}: a run in the store differs: {files}; the store is emptied")
    if store and different:
        shutil.rmtree(store)
    elif store and store.exists():
        prune(store)
    # the durations serve only to make the tests faster
    with contextlib.suppress(OSError, MachineError, ValueError):
        keep(times.seconds, runs, cache("tests"), not is_part and _INTERRUPTED not in found)
    failed = [status for status in found if status not in (_OK, _NONE)]
    return max(failed, default=int(bool(misplaced or different)) if times.seconds else _NONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
