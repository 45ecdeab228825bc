# SPDX-License-Identifier: Apache-2.0
"""Run labs in an x86-64 machine that QEMU translates, as a Mac with Apple silicon does, and compare all their bytes.

python -m tests.vm.translated SUITE TREE LAB...

TREE is a system in which `.ci/fresh` has installed mprun from wheels and run the same labs. So the programs are equal.
The machine has a kernel of the distribution. Needs root.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mprun.machine.scratch import scratch
from tests.vm import kernel, machine, store
from tests.vm.__main__ import TIMEOUT_S
from tests.vm.image import SPARE_MB, make_disk
from tests.vm.keys import with_keys
from tests.vm.release import Architecture, release_of

INIT = Path(__file__).with_suffix(".sh")
# The file with the digests, in the folder of root.
DIGESTS = "lab-digests"
# What the tree has for the installation only.
INSTALLATION = ("dist", "wheels", "debs", "tools", "runs", "compared")


def compare(ours: str, theirs: str) -> list[str]:
    """Return a line for each file whose digests differ, or which only one side has. Arguments: lines of digests."""
    ours_by, theirs_by = ({line.rpartition(" ")[0]: line for line in text.splitlines()} for text in (ours, theirs))
    return sorted(name for name in {*ours_by, *theirs_by} if ours_by.get(name) != theirs_by.get(name))


def with_loops(known: Architecture) -> Architecture:
    """Return x86-64 on which Linux clears and copies memory in loops.

    Otherwise it uses string instructions, because QEMU's processor claims that they are fast (ERMS, FSRM). QEMU
    executes each byte of these as an instruction.
    """
    return replace(known, processor=("-cpu", "max,-erms,-fsrm"), quirks=("mitigations=off", "clearcpuid=cx16,rep_good"))


def children_s() -> float:
    """Return the CPU time of all ended children, s. On a busy host, the wall time says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(suite: str, tree: Path, labs: Sequence[str]) -> int:
    """Return 0 if all files of the labs are equal, 1 if some differ or are missing."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"translated: {time.monotonic() - began:.0f} s: {text}", flush=True)

    release = release_of(suite)
    known = replace(release, kernel=with_keys(release.kernel, say))
    name = f"kernel-{release.name}-{release.digest()}"
    folder = store.keep(name, lambda place: kernel.unpack(known, place), say)
    ours = (tree / "root" / DIGESTS).read_text()
    for name in INSTALLATION:
        shutil.rmtree(tree / "root" / name, ignore_errors=True)
    (tree / "root" / DIGESTS).unlink()
    with scratch("mprun-vm-") as work:
        payload = work / "payload"
        payload.mkdir()
        shutil.copy(INIT, payload / "init.sh")
        (payload / "labs").write_text(" ".join(labs))
        make_disk(payload, work / "payload.img", 8)
        used = subprocess.run(["du", "-sm", tree], capture_output=True, text=True, check=True).stdout
        make_disk(tree, work / "root.img", int(used.split()[0]) * 5 // 4 + SPARE_MB)
        say("booting")
        before_s = children_s()
        booted = kernel.read_kernel(folder, with_loops(release.kernel.architecture))
        left = machine.run(booted, work / "root.img", work / "payload.img", work, TIMEOUT_S, False, say)
        say(f"QEMU took {children_s() - before_s:.0f} s of CPU")
        if left is None:
            say((work / "console").read_text(errors="replace")[-2000:])
            return 1
        theirs = (left / DIGESTS).read_text()
    differing = compare(ours, theirs)
    say(f"{len(ours.splitlines())} files, {len(differing)} differ")
    print("\n".join(differing))
    return 1 if differing or not ours else 0


def main() -> None:
    suite, tree, *labs = sys.argv[1:]
    sys.exit(run(suite, Path(tree), labs))


if __name__ == "__main__":
    main()
