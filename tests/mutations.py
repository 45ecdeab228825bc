# SPDX-License-Identifier: Apache-2.0
"""Print the tests that find errors of the product: each error is put into a copy of the tree, whose tests then run.

    python -m tests.mutations [--only NAME ...] [WORDS OF tests.phases ...]

No error changes what an engine leaves, so the tests of the copy take their runs from the store (`tests.stored_runs`).
The exit status is 1 if no test finds one of the errors. The copy is a clone of the last commit.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mprun.machine.scratch import scratch

ROOT = Path(__file__).parents[1]
# A line of pytest's summary. The name of a test may have spaces.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """An error: a text of a file, which occurs once, and the wrong text in its place."""

    file: str
    right: str
    wrong: str


MUTATIONS = {
    "wrong unit of a metric": Mutation(
        "mprun/metrics/path_use.py", "/ len(senders) / 1e6 if", "/ len(senders) / 1e3 if"
    ),
    "swapped direction in captures": Mutation(
        "mprun/captures/stream.py", 'WAYS = ("forward", "reverse")', 'WAYS = ("reverse", "forward")'
    ),
    "dropped check of a bundle": Mutation(
        "mprun/bundles/reproduction.py", "if run.has(name) and digest_of(run, name) != digest:", "if not run.has(name):"
    ),
}


def put(mutation: Mutation, tree: Path) -> None:
    """Put an error into a tree."""
    path = tree / mutation.file
    text = path.read_text()
    if (times := text.count(mutation.right)) != 1:
        raise ValueError(f"{mutation.file}: {mutation.right!r} occurs {times} times instead of once")
    path.write_text(text.replace(mutation.right, mutation.wrong))


def find_failed(tree: Path, words: Sequence[str]) -> list[str]:
    """Return the tests of a tree that fail. Raises RuntimeError if pytest could not run them."""
    argv = [sys.executable, "-m", "tests.phases", *words]
    done = subprocess.run(argv, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True)
    # no error changes what an engine leaves, so this would be another error, and the store is empty afterwards
    for line in done.stdout.splitlines():
        if "a run in the store differs" in line:
            print(line, flush=True)
    failed = list(dict.fromkeys(_FAILED.findall(done.stdout)))
    # with -x, pytest ends as if it was interrupted
    if done.returncode not in (0, 1) and not failed:
        raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-1000:]}")
    return failed


def main(argv: Sequence[str]) -> int:
    """Return the exit status: 1 if no test finds one of the errors."""
    parser = argparse.ArgumentParser(prog="tests.mutations")
    parser.add_argument("--only", action="append", choices=MUTATIONS, help="Try only this error; repeatable.")
    given, words = parser.parse_known_args(argv)
    missed = 0
    for name in given.only or MUTATIONS:
        with scratch("mprun-mutation-") as folder:
            # some tests run mprun as another user
            folder.chmod(0o755)
            tree = folder / "tree"
            subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
            (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
            put(MUTATIONS[name], tree)
            failed = find_failed(tree, words)
        missed += not failed
        print(f"{name}: found by {len(failed)} tests", *(f"  {test}" for test in failed), sep="\n", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
