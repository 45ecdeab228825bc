# SPDX-License-Identifier: Apache-2.0
"""Mutated input files and damaged run directories: no traceback, and no case over 5 s of CPU time or 1 GB.

usage: fuzz.py SECONDS [SEED [SHARE]]. SHARE of the cases, by default 0.8, are input files, the others run directories.
The program prints each case that went wrong with its seed, and its exit status is 1 then.
"""

from __future__ import annotations

import gc
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hostile import DRAWING, VERBS, call, call_verb, copy_run, damage, used_s

ROOT = Path(__file__).parents[1]
PLANS = sorted((ROOT / "tests" / "golden" / "plans").iterdir())
LABS = sorted((ROOT / "labs").iterdir())
SHARE_OF_INPUTS = 0.8
SHARE_OF_LABS = 0.1
# Painting the figures of a report takes two seconds, fifty times as long as the rest of a command.
SHARE_OF_DRAWING = 0.04
MOST_S = 5
# A process that waits uses no CPU time. At a load of 20 a case of low priority took 130 s for 0.4 s of CPU time.
MOST_WAITING_S = 1200
MOST_BYTES = 1 << 30
# cases of one process; to start it costs as much as two cases
BATCH = 25
LOADED = (
    *("mprun.inputs", "mprun.compile", "mprun.runs.runner", "mprun.reports.run_page", "polars"),
    *(
        "mprun.storage.sweep_directory",
        "mprun.sweeps.operands",
        "mprun.captures.dissection",
        "mprun.bundles.pack",
        "matplotlib.figure",
    ),
    *("mprun.cli.plan", "mprun.cli.show", "mprun.cli.report", "mprun.cli.compare", "mprun.cli.export"),
    *("mprun.cli.packets", "mprun.cli.runs", "mprun.cli.bundle", "mprun.reports.run_figures", "mprun.metrics.summary"),
)
WORDS = (
    *(b"{{ ", b" }}", b"[", b"{", b"]", b"}", b": ", b"- ", b"&a ", b"*a", b"!!x"),
    *(b"1e9", b"-1", b"99999999999", b"\0"),
)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Change the bytes of an input file in a few places."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 2, 5, 20))):
        at = draw.randrange(len(made) + 1)
        match draw.randrange(4):
            case 0:
                made[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                made[at:at] = draw.choice(WORDS)
            case 2:
                del made[at : at + draw.randrange(1, 30)]
            case _:
                begin = draw.randrange(len(made) + 1)
                made[at:at] = made[begin : begin + draw.randrange(1, 60)]
    return bytes(made)


def run_plan(case: Path, folder: Path, draw: random.Random | None) -> None:
    """Plan a pair of files. With `draw`, change one of the files first."""
    names = sorted(path.name for path in case.iterdir() if path.suffix in (".yaml", "") and path.is_file())
    changed = draw.choice(names) if draw else ""
    for name in names:
        data = (case / name).read_bytes()
        (folder / name).write_bytes(mutate(data, draw) if draw and name == changed else data)
    call("plan", "-t", str(folder / "topo"), "-x", str(folder / "xp"))


def run_lab(lab: Path, folder: Path, draw: random.Random | None) -> None:
    """Show a lab. With `draw`, change its file first."""
    copy = folder / lab.name
    shutil.copytree(lab, copy, ignore=shutil.ignore_patterns("runs", "*.svg", "*.md"))
    if draw:
        (copy / "lab.yaml").write_bytes(mutate((lab / "lab.yaml").read_bytes(), draw))
    call("lab", "show", str(copy))


def run_directory(folder: Path, draw: random.Random) -> None:
    """Damage a run directory and call one command on it."""
    run = copy_run(folder)
    damage(run, draw)
    is_drawing = draw.random() < SHARE_OF_DRAWING
    call_verb(draw.choice([verb for verb in VERBS if (verb in DRAWING) == is_drawing]), run)


def run_case(seed: int, folder: Path, share: float = SHARE_OF_INPUTS) -> None:
    """Run one case in this process."""
    draw = random.Random(seed)
    if not is_input(draw, share):
        run_directory(folder, draw)
    elif draw.random() < SHARE_OF_LABS:
        run_lab(draw.choice(LABS), folder, draw)
    else:
        run_plan(draw.choice(PLANS), folder, draw)


def is_input(draw: random.Random, share: float) -> bool:
    """Draw whether a case is an input file. It is the first thing that a case draws."""
    return draw.random() < share


def run_batch(seeds: Iterable[int], share: float, current: mmap.mmap, found: int) -> None:
    """Run cases in this process, write what goes wrong to a descriptor, a line each, and end the process."""
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before_s = used_s()
    for seed in seeds:
        current[:8] = seed.to_bytes(8, "little")
        # CPU time: on a loaded machine a clock measures the load
        signal.setitimer(signal.ITIMER_PROF, 4 * MOST_S)
        signal.alarm(MOST_WAITING_S)
        wrong = []
        try:
            with tempfile.TemporaryDirectory(prefix="mprun-fuzz-") as name:
                run_case(seed, Path(name), share)
        except BaseException:
            traceback.print_exc()
            wrong.append("traceback")
        case_s, before_s = used_s() - before_s, used_s()
        if case_s > MOST_S:
            wrong.append(f"{case_s:.1f} s of CPU time")
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base_kb
        if grown_kb > MOST_BYTES >> 10:
            wrong.append(f"{grown_kb >> 10} MB")
            base_kb += grown_kb
        for what in wrong:
            os.write(found, f"{seed} {what}\n".encode())
    os._exit(0)


def warm(folder: Path) -> None:
    """Import what the cases import. polars starts its threads when it is first used, which must be in the child."""
    for module in LOADED:
        import_module(module)
    for number, case in enumerate((*PLANS, *LABS)):
        (folder / str(number)).mkdir()
        run_plan(case, folder / str(number), None) if case in PLANS else run_lab(case, folder / str(number), None)
    gc.collect()
    gc.freeze()


def start_batch(seeds: Iterable[int], share: float) -> tuple[int, list[str]]:
    """Run cases in a process of its own; return the last seed that it began, and what went wrong."""
    current = mmap.mmap(-1, 8)
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        run_batch(seeds, share, current, sink)
    os.close(sink)
    with os.fdopen(source) as lines:
        wrong = [line.strip() for line in lines]
    _, status = os.waitpid(pid, 0)
    last = int.from_bytes(current[:8], "little")
    if status:
        wrong.append(f"{last} process ended by signal {status & 0x7F}")
    return last, wrong


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    first = seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    share = float(sys.argv[3]) if len(sys.argv) > 3 else SHARE_OF_INPUTS
    wrong = told = 0
    cases: Counter[bool] = Counter()
    with tempfile.TemporaryDirectory(prefix="mprun-fuzz-") as name:
        warm(Path(name))
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        last, found = start_batch(range(seed, seed + BATCH), share)
        cases.update(is_input(random.Random(one), share) for one in range(seed, last + 1))
        seed = last + 1
        for what in found:
            print(f"seed {what}", flush=True)
        wrong += len(found)
        if sum(cases.values()) // 5000 > told:
            told = sum(cases.values()) // 5000
            print(report(first, last, cases, wrong), flush=True)
    print(report(first, seed - 1, cases, wrong))
    return 1 if wrong else 0


def report(first: int, last: int, cases: Counter[bool], wrong: int) -> str:
    """Return a line that counts the cases."""
    return f"seeds {first} to {last}: {cases[True]} input files, {cases[False]} run directories, {wrong} went wrong"


if __name__ == "__main__":
    sys.exit(main())
