# SPDX-License-Identifier: Apache-2.0
"""Kill mprun at random times, and count what is left, lost, repeated or falsely passed.

    kill.py [--runs 200] [--sweeps 200] [--stops 100] [--real 80] [--seed 1]

- --runs: SIGKILL of a run in the virtual engine.
- --sweeps: SIGKILL of a sweep of four cells, resumed until it ends.
- --stops: SIGTERM or SIGINT of a run.
- --real: SIGKILL, SIGTERM or SIGINT of a run in the real engine.

Only kills that met a live process count. After each kill the program checks:

- no process of the run is left 2 s later
- no run says `passed` that is not complete
- there is no traceback

After every tenth kill a run without a kill must pass, repeat byte by byte in simulated time, and leave no temporary
folder. Each finished cell of a sweep must stay unchanged, and the finished sweep must equal a sweep without kills. The
exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.descendants import adopt_orphans, below, command, end, reap
from tests.scenes import RATES_ONLY

ROOT = Path(__file__).parents[1]
# No part of a killed process may be left after this time.
GONE_S = 2.0
# The number of kills between two runs without a kill.
EVERY = 10
# The time that a stopped run has to clean up, plus the same time again.
STOP_S = 20.0
# The place of an experiment kernel's memory.
SHARED = Path("/dev/shm")

# The links have rates only, which any kernel supports, so that one pair of files works in both engines.
EXPERIMENT = """\
version: 1
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, duration: 1s}
capture: [{host: client, snaplen: 60}]
probe: {pings: 1}
"""
MATRIX = "matrix: {path0.rate: {from: 5mbit, to: 8mbit, step: 1mbit}}\n"
CELLS = 4


@dataclass
class Count:
    """The findings of a campaign."""

    name: str
    kills: int = 0
    too_late: int = 0
    slowest_s: float = 0.0
    left: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    false_passed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [*self.left, *self.folders, *self.false_passed, *self.lost, *self.repeated, *self.other]


@dataclass(frozen=True)
class Place:
    """The folder of a campaign: files, results and temporary files."""

    folder: Path

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def start(self, *words: object) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary)}
        argv = [sys.executable, "-m", "mprun", *map(str, words)]
        with (self.folder / "said").open("w") as said:
            return subprocess.Popen(argv, cwd=self.folder, env=env, stdout=said, stderr=said, text=True)

    def said(self) -> str:
        return (self.folder / "said").read_text()


def lay_out(folder: Path, experiment: str) -> Place:
    """Write the two files."""
    (folder / "tmp").mkdir(parents=True)
    (folder / "topo.yaml").write_text(RATES_ONLY)
    (folder / "xp.yaml").write_text(experiment)
    return Place(folder)


def digest(directory: Path, patterns: Sequence[str]) -> str:
    """Return the digest of a run's or a sweep's artifacts."""
    total = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in directory.glob(pattern)):
        total.update(f"{path.relative_to(directory)}\n".encode() + path.read_bytes())
    return total.hexdigest()


OF_RUN = ("pcap/*", "summary.json", "steps.jsonl", "agent.json")
OF_SWEEP = ("tables/cells.parquet", *(f"runs/*/*/{pattern}" for pattern in OF_RUN))


def stale_memory() -> set[Path]:
    """Return the folders for a kernel's memory that no process holds."""
    found = set()
    for folder in SHARED.glob("mprun-memory-*"):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.add(folder)
        except OSError:
            pass
        finally:
            os.close(handle)
    return found


def strike(place: Place, count: Count, number: signal.Signals, at_s: float, words: Sequence[object]) -> bool:
    """Start mprun, send it a signal after `at_s`, and check what it leaves. Return True if it was alive by then."""
    process = place.start(*words)
    try:
        process.wait(at_s)
        count.too_late += 1
        reap()
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    count.kills += 1
    what = f"{number.name} at {at_s:.3f} s"
    began = time.monotonic()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        count.other.append(f"{what}: has not ended {STOP_S:g} s later")
        process.kill()
        process.wait()
    reap()
    while (left := below(os.getpid())) and time.monotonic() - began < GONE_S:
        time.sleep(0.005)
        reap()
    count.slowest_s = max(count.slowest_s, time.monotonic() - began)
    if left:
        count.left.append(f"{what}: {'; '.join(command(pid)[:120] for pid in left)}")
        end(left)
        while below(os.getpid()):
            reap()
    said = place.said()
    # before mprun's first line, Python itself is interrupted and reports it
    if "Traceback" in said and "mprun" in said.partition("Traceback")[2]:
        count.other.append(f"{what}: a traceback: {said.strip().splitlines()[-1]}")
    # Python itself ends by SIGINT (130 in a shell) if the interruption was in the text of an exec()
    if number != signal.SIGKILL and process.returncode not in (130, -signal.SIGINT, -number):
        count.other.append(f"{what}: ended with status {process.returncode}: {' / '.join(said.split(chr(10))[-3:])}")
    return True


def check_passed(count: Count, runs: Path, whole: str | None) -> None:
    """Check that each run that says `passed` is complete and, in simulated time, equals a run without a kill."""
    for summary in sorted(runs.glob("*/summary.json")):
        if summary.parent.is_symlink():
            continue
        try:
            passed = json.loads(summary.read_text())["status"] == "passed"
            agent = json.loads((summary.parent / "agent.json").read_text())
            is_whole = agent["complete"] and (whole is None or digest(summary.parent, OF_RUN) == whole)
        except (OSError, ValueError) as error:
            passed, is_whole = True, False
            count.other.append(f"{summary}: {error}")
        if passed and not is_whole:
            count.false_passed.append(str(summary.parent))
    for run in list(runs.glob("*/")):
        if not run.is_symlink():
            subprocess.run(["rm", "-r", str(run)], check=True)


def leave_alone(place: Place, words: Sequence[object]) -> float:
    """Run without a kill. Return the duration in s."""
    began = time.monotonic()
    process = place.start(*words)
    if process.wait() != 0:
        sys.exit(f"a run that was left alone ended with status {process.returncode}:\n{place.said()}")
    reap()
    return time.monotonic() - began


def check_folders(place: Place, count: Count, before: set[Path], words: Sequence[object]) -> None:
    """Check that no temporary files are left.

    words: the command of a run. It also removes the memory of other killed kernels, which is kept in the same folder.
    """
    left = [str(path.relative_to(place.temporary)) for path in place.temporary.iterdir()]
    if kept := stale_memory() - before:
        leave_alone(place, words)
        left += [str(path) for path in kept & stale_memory()]
    if left:
        count.folders.append(f"after {count.kills} kills: {', '.join(left)}")


def campaign_of_runs(
    place: Place, name: str, engine: str, kills: int, signals: Sequence[signal.Signals], draw: random.Random
) -> Count:
    """Kill a run `kills` times."""
    count = Count(name)
    words = ("-t", "topo", "-x", "xp", "-o", "out", "--engine", engine)
    before = stale_memory()
    leave_alone(place, words)
    whole_s = leave_alone(place, words)
    whole = None if engine == "real" else digest((place.folder / "out" / "latest").resolve(), OF_RUN)
    check_passed(count, place.folder / "out", whole)
    while count.kills < kills:
        if not strike(place, count, draw.choice(signals), draw.uniform(0, whole_s), words):
            continue
        check_passed(count, place.folder / "out", whole)
        if count.kills % EVERY == 0 or count.kills == kills:
            leave_alone(place, words)
            if whole and digest((place.folder / "out" / "latest").resolve(), OF_RUN) != whole:
                count.other.append(f"after {count.kills} kills: a run left alone has other bytes")
            check_folders(place, count, before, words)
            check_passed(count, place.folder / "out", whole)
            tell(count, kills)
    return count


def finished(sweep: Path) -> dict[str, int]:
    """Return the inode of each run that is complete in a sweep."""
    return {str(path.relative_to(sweep)): path.stat().st_ino for path in sweep.glob("runs/*/*")}


def campaign_of_sweeps(place: Place, kills: int, draw: random.Random) -> Count:
    """Kill a sweep and resume it until it ends. Then start the next one."""
    count = Count(f"SIGKILL of a sweep of {CELLS} cells")
    words = ("sweep", "-t", "topo", "-x", "xp")
    before = stale_memory()
    whole_s = leave_alone(place, (*words, "-o", "whole"))
    whole = digest((place.folder / "whole" / "latest-sweep").resolve(), OF_SWEEP)
    for story in stories():
        parent = place.folder / f"out{story}"
        sweep = parent / "latest-sweep"
        is_complete = False
        while not is_complete and count.kills < kills:
            done = finished(sweep)
            is_hit = strike(place, count, signal.SIGKILL, draw.uniform(0, whole_s), (*words, "-o", parent.name))
            is_complete = check_sweep(place, count, sweep, done)
            if is_hit and count.kills % EVERY == 0:
                tell(count, kills)
        if not is_complete:
            done = finished(sweep)
            leave_alone(place, (*words, "-o", parent.name))
            check_sweep(place, count, sweep, done)
        if digest(sweep.resolve(), OF_SWEEP) != whole:
            count.false_passed.append(f"{parent.name}: not what a sweep left alone is")
        # a folder of a sweep that was killed during its creation is removed an hour later (`sweep/directory.py`)
        left = sorted(path.name for path in parent.iterdir() if not path.name.startswith(".sweep-"))
        if len(left) != 2:
            count.other.append(f"{parent.name}: not one sweep and a link to it: {', '.join(left)}")
        count.folders += [str(path) for path in parent.rglob(".*.partial")]
        check_folders(place, count, before, (*words, "-o", "after"))
        subprocess.run(["rm", "-r", str(parent)], check=True)
        if count.kills >= kills:
            return count
    raise AssertionError


def check_sweep(place: Place, count: Count, sweep: Path, done: Mapping[str, int]) -> bool:
    """Check that complete runs still exist and are the same. Return True if the sweep is complete."""
    now = finished(sweep)
    count.lost += [f"{sweep.parent.name}/{run}" for run in done if run not in now]
    count.repeated += [f"{sweep.parent.name}/{run}" for run in done if run in now and now[run] != done[run]]
    if "were not made by your mprun" in place.said():
        count.other.append(f"{sweep.parent.name}: a run of its own is called a stranger's")
    summary = sweep / "summary.json"
    is_complete = summary.exists() and bool(json.loads(summary.read_text())["complete"])
    if is_complete and len(now) != CELLS:
        count.false_passed.append(f"{sweep.parent.name}: complete with {len(now)} cells")
    return is_complete


def stories() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def tell(count: Count, kills: int) -> None:
    print(f"{count.name}: {count.kills} of {kills}, {len(count.faults)} faults", file=sys.stderr, flush=True)
    for fault in count.faults[-3:]:
        print(f"    {fault}", file=sys.stderr, flush=True)


def table(counts: Sequence[Count]) -> str:
    """Return the result as a Markdown table."""
    lines = [
        "| campaign | kills of a live process | ended before | all gone after, at most | processes left | folders left "
        "| false passed | cells lost | cells repeated | other |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for count in counts:
        cells = [len(found) for found in (count.left, count.folders, count.false_passed, count.lost, count.repeated)]
        values = [count.name, count.kills, count.too_late, f"{count.slowest_s:.2f} s", *cells, len(count.other)]
        lines.append(f"| {' | '.join(map(str, values))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill mprun at random moments, and count what is left.")
    for name, default in (("runs", 200), ("sweeps", 200), ("stops", 100), ("real", 80), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    adopt_orphans()
    # a shell makes its background commands ignore SIGINT, and mprun would inherit this
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stops = (signal.SIGTERM, signal.SIGINT)
    counts = []
    with tempfile.TemporaryDirectory(prefix="mprun-kills-") as folder:
        for name, kills, engine, signals in (
            ("SIGKILL of a run, virtual", asked.runs, "virtual", (signal.SIGKILL,)),
            ("SIGTERM, SIGINT of a run, virtual", asked.stops, "virtual", stops),
            ("SIGKILL, SIGTERM, SIGINT of a run, real", asked.real, "real", (signal.SIGKILL, *stops)),
        ):
            if kills:
                draw = random.Random(f"{asked.seed} {name}")
                place = lay_out(Path(folder) / str(len(counts)), EXPERIMENT)
                counts.append(campaign_of_runs(place, name, engine, kills, signals, draw))
        if asked.sweeps:
            place = lay_out(Path(folder) / "sweeps", EXPERIMENT + MATRIX)
            counts.append(campaign_of_sweeps(place, asked.sweeps, random.Random(f"{asked.seed} sweeps")))
    print(f"seed {asked.seed}\n{table(counts)}")
    for fault in (f"{count.name}: {fault}" for count in counts for fault in count.faults):
        print(fault)
    return 1 if any(count.faults for count in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
