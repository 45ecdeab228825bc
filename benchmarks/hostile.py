# SPDX-License-Identifier: Apache-2.0
"""Print each case of `tests/hostile` as a line: an attempt of a stranger's files, and what they get.

usage: hostile.py [GROUP ...]; GROUPS are guest, links, sweeps, bundles, kernels, programs, templates, bombs, texts,
limits. Each case runs in a process of its own. The exit status is 1 if a case does harm, or takes more than 5 s of CPU
time or 1 GB.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mprun.kernel.store import find_kernel
from tests.hostile import VERBS, Finding, archives, bombs, guest, kernels, limits, links, programs, templates, texts
from tests.scenes import copy_kernel

ROOT = Path(__file__).parents[1]
MOST_S = 5
MOST_BYTES = 1 << 30
Case = tuple[str, Callable[[Path], Finding]]


def _links() -> Iterator[Case]:
    for case in links.IN_RUN:
        for verb in VERBS:
            yield f"{case}, {verb}", lambda folder, case=case, verb=verb: links.attempt_run(case, verb, folder)


def _sweeps() -> Iterator[Case]:
    for case in links.IN_SWEEP:
        yield case, lambda folder, case=case: links.attempt_sweep(case, folder)


def _bundles() -> Iterator[Case]:
    for case in archives.CASES:
        yield case, lambda folder, case=case: archives.attempt(case, folder)


def _kernels() -> Iterator[Case]:
    for case in kernels.CASES:
        yield case, lambda folder, case=case: kernels.attempt(case, folder)


def _programs() -> Iterator[Case]:
    for case in programs.REPOSITORIES:
        for verb in programs.VERBS:
            yield f"{case}, {verb}", lambda folder, case=case, verb=verb: programs.attempt(case, verb, folder)
    for name in programs.NAMES:
        yield f"a run named {name}", lambda folder, name=name: programs.attempt_wireshark(name, folder)
    for case in programs.BASELINES:
        yield f"{case} for a baseline", lambda folder, case=case: programs.attempt_baseline(case, folder)


def _templates() -> Iterator[Case]:
    for text in templates.CASES:
        yield text[:60], lambda _, text=text: templates.attempt(text)


def _bombs() -> Iterator[Case]:
    for case in bombs.CASES:
        yield case, lambda folder, case=case: bombs.attempt(case, folder)


def _texts() -> Iterator[Case]:
    for case in texts.CASES:
        for verb in VERBS:
            yield f"{case}, {verb}", lambda folder, case=case, verb=verb: texts.attempt((case,), verb, folder)
    for case in texts.INPUTS:
        for verb in texts.INPUT_VERBS:
            yield f"{case}, {verb}", lambda folder, case=case, verb=verb: texts.attempt_input(case, verb, folder)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "links": _links,
    "sweeps": _sweeps,
    "bundles": _bundles,
    "kernels": _kernels,
    "programs": _programs,
    "templates": _templates,
    "bombs": _bombs,
    "texts": _texts,
}


def carry_out(attempt: Callable[[Path], Finding]) -> Finding:
    """Run a case in a process of its own, and compare its time and memory with the bounds."""
    source, sink = os.pipe()
    with tempfile.TemporaryDirectory(prefix="mprun-hostile-") as name:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pid = os.fork()
        if pid == 0:
            os.close(source)
            try:
                found = attempt(Path(name))
            except BaseException as error:
                traceback.print_exc()
                found = Finding("", f"a traceback: {error}"[:200])
            os.write(sink, json.dumps(asdict(found)).encode())
            os._exit(0)
        os.close(sink)
        with os.fdopen(source) as told:
            text = told.read()
        _, status, used = os.wait4(pid, 0)
    if not text:
        return Finding("", f"its process ended with status {status}")
    found = Finding(**json.loads(text))
    grown = (used.ru_maxrss - before_kb) << 10
    if not found.harm and grown > MOST_BYTES:
        return Finding(found.gets, f"{grown >> 20} MB of memory")
    if not found.harm and found.cpu_s > MOST_S:
        return Finding(found.gets, f"{found.cpu_s:.1f} s of CPU time")
    return found


def attack_host() -> Iterator[tuple[str, Finding]]:
    """Run all attempts of a guest in one run of the virtual engine."""
    with (
        tempfile.TemporaryDirectory(prefix="mprun-hostile-") as name,
        guest.host_to_attack(find_kernel().directory) as host,
    ):
        guest.write_files(Path(name), guest.script_of(host))
        argv = ["-m", "mprun", "-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "-o", "runs"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, *argv], cwd=name, capture_output=True, text=True, env=env, check=False)
        logs = sorted(Path(name).glob("runs/2*/logs/it.out"))
        if not logs:
            print(done.stdout + done.stderr, file=sys.stderr)
        yield from guest.read(logs[0].read_text() if logs else "", host).items()


def starve() -> Iterator[tuple[str, Finding]]:
    """Run commands on machines with little space. Mounts need root."""
    if os.geteuid() != 0:
        print("limits: not tried: mounts need root")
        return
    with tempfile.TemporaryDirectory(prefix="mprun-hostile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cache = copy_kernel(folder / "cache")
        for number, (limit, command) in enumerate((one, other) for one in limits.LIMITS for other in limits.COMMANDS):
            room = folder / str(number)
            room.mkdir(mode=0o755)
            yield f"{limit}, {command}", limits.attempt(limit, command, room, cache)
            shutil.rmtree(room)


def cases_of(group: str) -> Iterator[tuple[str, Finding]]:
    """Carry out the cases of a group."""
    if group == "guest":
        yield from attack_host()
    elif group == "limits":
        yield from starve()
    else:
        for name, attempt in GROUPS[group]():
            yield name, carry_out(attempt)


def main() -> int:
    harmful = 0
    for group in sys.argv[1:] or ("guest", *GROUPS, "limits"):
        count = 0
        for name, found in cases_of(group):
            count += 1
            harmful += bool(found.harm)
            told = f"HARM: {found.harm}: {found.gets}" if found.harm else found.gets
            print(f"{group:10} {name!r:48} {told}", flush=True)
        print(f"{group}: {count} cases", flush=True)
    print(f"{harmful} did harm")
    return 1 if harmful else 0


if __name__ == "__main__":
    sys.exit(main())
