# SPDX-License-Identifier: Apache-2.0
"""Mutated input files and damaged run directories: no traceback, nothing over 5 s of CPU time (beside that of drawing
a report) or 1 GB.

usage: fuzz.py SECONDS [SEED]. Each case runs in a process of its own. What went wrong is printed with its seed, and the
exit status is 1 then.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hostile import VERBS, call, call_verb, copy_run, damage

ROOT = Path(__file__).parents[1]
INPUTS = sorted((ROOT / "tests" / "golden" / "plans").iterdir())
MOST_S = 5
MOST_BYTES = 1 << 30
LOADED = (
    *("mprun.spec.input", "mprun.spec.experiment", "mprun.compile", "mprun.runner", "mprun.report.report", "polars"),
    *("mprun.sweep.directory", "mprun.sweep.sides", "mprun.dissection", "mprun.bundle.pack", "matplotlib.figure"),
    *("mprun.cli.plan", "mprun.cli.show", "mprun.cli.report", "mprun.cli.compare", "mprun.cli.export"),
)
WORDS = (
    b"{{ ",
    b" }}",
    b"[",
    b"{",
    b"]",
    b"}",
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!x",
    b"1e9",
    b"-1",
    b"99999999999",
    b"\0",
)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Bytes of an input file, changed in a few places."""
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


def run_case(seed: int, folder: Path) -> str:
    """Run one case in this process; what it was."""
    draw = random.Random(seed)
    if draw.random() < 0.6:
        case = draw.choice(INPUTS)
        names = [path.name for path in case.iterdir() if path.suffix in (".yaml", "") and path.is_file()]
        changed = draw.choice(names)
        for name in names:
            data = (case / name).read_bytes()
            (folder / name).write_bytes(mutate(data, draw) if name == changed else data)
        call("plan", "-t", str(folder / "topo"), "-x", str(folder / "xp"))
        return f"{case.name}/{changed}"
    run = copy_run(folder)
    done = damage(run, draw)
    verb = draw.choice(list(VERBS))
    call_verb(verb, run)
    return f"{verb}: {done}"


def child(seed: int, folder: Path) -> None:
    """Run a case and end this process: 0, or 1 with a traceback on standard error."""
    # of CPU time: on a loaded machine the clock tells nothing
    signal.setitimer(signal.ITIMER_PROF, 4 * MOST_S)
    try:
        run_case(seed, folder)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def measure_drawing() -> float:
    """CPU time of the slowest verb on a run that is not damaged, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mprun-fuzz-") as name:
        pid = os.fork()
        if pid == 0:
            call_verb("bundle", copy_run(Path(name)))
            os._exit(0)
        _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found: Counter[str] = Counter()
    # what each case would import; polars starts its threads when it is first used, in the child
    for module in LOADED:
        import_module(module)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    drawing_s = measure_drawing()
    began, cases = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        with tempfile.TemporaryDirectory(prefix="mprun-fuzz-") as name:
            pid = os.fork()
            if pid == 0:
                child(seed, Path(name))
            _, status, used = os.wait4(pid, 0)
        cases += 1
        cpu_s = used.ru_utime + used.ru_stime
        wrong = []
        if status:
            wrong.append(f"ended by signal {status & 0x7F}" if status & 0x7F else "traceback")
        if cpu_s > MOST_S + drawing_s:
            wrong.append(f"{cpu_s:.1f} s of CPU time")
        if used.ru_maxrss * 1024 > base + MOST_BYTES:
            wrong.append(f"{used.ru_maxrss >> 10} MB")
        for what in wrong:
            found[what.partition(" ")[0]] += 1
            print(f"seed {seed}: {what}", flush=True)
        seed += 1
    print(f"{cases} cases, {sum(found.values())} went wrong{f': {dict(found)}' if found else ''}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
