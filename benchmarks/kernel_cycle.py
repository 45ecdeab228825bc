# SPDX-License-Identifier: Apache-2.0
"""Measure the time from an edit of a kernel tree to the result of a run.

    make cycle                   unpack the default source, build it once, then one edit after the other
    kernel_cycle.py --source TREE       a copy of your tree instead
    kernel_cycle.py --whole             also build the last edit from nothing, and compare the kernels

Each edit changes one line. After it, `mprun kernel build --source TREE --name cycle` and lab 01's run with MPTCP are
timed. In the end all edits are undone. The kernel must then be the first one, byte for byte. All files are temporary.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mprun.kernel.build import default_source, unpack

ROOT = Path(__file__).parents[1]
MPRUN = str(Path(sys.executable).with_name("mprun"))
LAB = ROOT / "labs" / "01_multipath"
MOST_S = 30.0


@dataclass(frozen=True)
class Edit:
    """A change of one line in a file. is_bound: the time limit applies, because only one file is compiled."""

    file: str
    old: str
    new: str
    is_bound: bool = True


EDITS = (
    Edit("net/mptcp/protocol.c", "MPTCP_SEND_BURST_SIZE\t\t((1 << 16)", "MPTCP_SEND_BURST_SIZE\t\t((1 << 15)"),
    Edit("net/ipv4/tcp_cubic.c", "static int beta __read_mostly = 717;", "static int beta __read_mostly = 600;"),
    Edit("include/net/tcp.h", "#define TCP_INIT_CWND\t\t10", "#define TCP_INIT_CWND\t\t4", is_bound=False),
)


def build(tree: Path, name: str) -> tuple[float, str]:
    """Return the time of a build in s, and the SHA-256 of the kernel."""
    started = time.monotonic()
    argv = [MPRUN, "kernel", "build", "--source", str(tree), "--name", name, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    took_s = time.monotonic() - started
    return took_s, hashlib.sha256(Path(json.loads(done.stdout)["path"]).read_bytes()).hexdigest()


def measure(runs: Path) -> tuple[float, float]:
    """Return the time of a run in s, and its goodput in bit/s."""
    started = time.monotonic()
    argv = [MPRUN, "-t", str(LAB / "topo"), "-x", str(LAB / "xp_mptcp"), "--kernel", "cycle", "-o", str(runs), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return time.monotonic() - started, json.loads(done.stdout)["metrics"]["bulk.goodput"]["value"]


def cycle(what: str, tree: Path, runs: Path, most_s: float | None) -> tuple[bool, str]:
    """Build and run, and print a row. Return True if the time is within the limit, and the kernel's SHA-256."""
    build_s, kernel = build(tree, "cycle")
    run_s, goodput = measure(runs)
    met = most_s is None or build_s + run_s <= most_s
    cells = [what, f"{build_s:.1f} s", f"{run_s:.1f} s", f"{build_s + run_s:.1f} s", f"{goodput / 1e6:.3f} Mbit/s"]
    print(f"| {' | '.join(cells)} |{'' if met else ' MISSED'}", flush=True)
    return met, kernel


def change(tree: Path, edit: Edit) -> None:
    path = tree / edit.file
    text = path.read_text()
    if text.count(edit.old) != 1:
        sys.exit(f"{edit.file} has not exactly one {edit.old!r}: this tree needs an edit of its own here")
    path.write_text(text.replace(edit.old, edit.new))


@contextmanager
def restored(tree: Path, edits: Sequence[Edit]) -> Iterator[None]:
    """Give the files of edits their text of before at the end of the block."""
    before = {tree / edit.file: (tree / edit.file).read_text() for edit in edits}
    yield
    for path, text in before.items():
        path.write_text(text)


@contextmanager
def own_tree(source: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield a temporary folder and a kernel tree in it: a copy of `source`, or the default source.

    Until the end of the block, kernels are built into the folder: those of a benchmark are not the user's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        tree = folder / "linux"
        yield folder, shutil.copytree(source, tree, symlinks=True) if source else unpack(default_source(), folder, [])


def word_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, help="a kernel tree, which is copied; default: the default source")
    return parser


def main() -> int:
    parser = word_parser()
    parser.add_argument("--whole", action="store_true", help="compare with a build from nothing")
    asked = parser.parse_args()
    with own_tree(asked.source) as (folder, tree):
        return compare(tree, folder / "runs", asked.whole)


def compare(tree: Path, runs: Path, is_whole: bool) -> int:
    print(f"from an edit to a result on {len(os.sched_getaffinity(0))} CPUs")
    print("| changed | build | run | both | goodput of lab 01 |\n| --- | ---: | ---: | ---: | ---: |")
    met, first = cycle("nothing: the first build", tree, runs, None)
    met &= cycle("nothing: the same again", tree, runs, MOST_S)[0]
    last = first
    with restored(tree, EDITS):
        for edit in EDITS:
            change(tree, edit)
            good, last = cycle(f"one line of `{edit.file}`", tree, runs, MOST_S if edit.is_bound else None)
            met &= good
        if is_whole:
            subprocess.run([MPRUN, "kernel", "rm", "--yes", "cycle"], check=True)
            took_s, whole = build(tree, "cycle")
            met &= whole == last
            print(
                f"built from nothing in {took_s:.1f} s: {'the same' if whole == last else 'ANOTHER'} kernel", flush=True
            )
    _, undone = cycle("all edits undone", tree, runs, None)
    print(f"with all edits undone: {'the first' if undone == first else 'ANOTHER'} kernel")
    met &= undone == first
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
