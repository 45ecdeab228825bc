# SPDX-License-Identifier: Apache-2.0
"""Machines with few resources: a full disk, no inodes, tight limits of processes, little shared memory.

Each case is a command under a limit. The command must succeed, or end with an error that names the cause, and never
with a traceback. Mounts and another user need root.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.hostile import NAME, Finding, copy_run
from tests.scenes import AS_NOBODY, NOBODY, ONE_PATH

ROOT = Path(__file__).parents[2]
EXPERIMENT = """\
version: 1
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, duration: 1s}]
capture: [{host: client, snaplen: 100}]
"""
SWEEP = "params: {cc: cubic}\nhosts: {client: {sysctl: {net.ipv4.tcp_congestion_control: '{{ cc }}'}}}\n"
MATRIX = "matrix: {cc: [cubic, reno]}\n"
COMMANDS: Mapping[str, str] = {
    "run": "-t topo -x xp --engine virtual -o room",
    "sweep": "sweep -t topo -x sweep --engine virtual -o room",
    "show": "show room/RUN",
    "report": "report room/RUN",
    "packets": "packets room/RUN",
    "bundle": "bundle room/RUN --to room/bundle.zip",
    "export": "export --csv room/RUN",
}
DISK = "No space left on device|the disk was nearly full|check the free space"


@dataclass(frozen=True)
class Limit:
    """A limit.

    - shell: the commands that set the limit
    - cause: the expected error, as a regular expression
    - mount: options of the file system of the folder `room`, which has the run and gets the results
    """

    shell: str = ""
    cause: str = DISK
    mount: str = ""
    is_user: bool = False


LIMITS: Mapping[str, Limit] = {
    **{f"disk of {size}": Limit(mount=f"size={size}") for size in ("256k", "512k", "1m")},
    **{f"{count} inodes": Limit(mount=f"nr_inodes={count}") for count in (64, 80)},
    **{
        f"{count} descriptors": Limit(f"ulimit -n {count}", "files may be open at once|Too many open files")
        for count in (12, 48, 72)
    },
    **{f"{count} processes": Limit(f"ulimit -u {count}", "ulimit -u", is_user=True) for count in (8, 70)},
    **{f"stack of {count} kB": Limit(f"ulimit -s {count}", "ulimit -s") for count in (100, 255)},
    **{f"{count} s of CPU time": Limit(f"ulimit -t {count}", "ulimit -t") for count in (1, 5)},
    **{f"files of {count} kB": Limit(f"ulimit -f {count}", "File too large|ulimit -f") for count in (0, 10, 300)},
    **{
        f"{count} MB of addresses": Limit(f"ulimit -v {count << 10}", "ulimit -v|[Mm]emory|Cannot allocate")
        for count in (60, 400, 1000, 2100)
    },
    **{
        f"shared memory of {size}": Limit(
            f"mount -t tmpfs -o size={size} none /dev/shm; export TMPDIR=/dev/shm", "memory|room|space"
        )
        for size in ("1m", "60m")
    },
}


def attempt(limit: str, command: str, folder: Path, cache: Path) -> Finding:
    """Run a command under a limit. cache: a folder with kernels that any user may read."""
    one = LIMITS[limit]
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(EXPERIMENT)
    (folder / "sweep.yaml").write_text(EXPERIMENT + SWEEP + MATRIX)
    (folder / "room").mkdir()
    run = copy_run(folder)
    # commands make tables first
    shutil.rmtree(run / "tables")
    words = [sys.executable, "-m", "mprun", *COMMANDS[command].replace("RUN", NAME).split()]
    steps = ["set -e"]
    if one.mount:
        steps.append(f"mount -t tmpfs -o {one.mount} none room")
    steps.append(f"cp -r {NAME} room/")
    if one.is_user:
        steps.append(f"chown -R {NOBODY}:{NOBODY} .")
        words = [*AS_NOBODY, *words]
    if one.shell:
        steps.append(one.shell)
    steps.append(f"exec {shlex.join(words)}")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache), "HOME": str(folder)}
    env.pop("RUST_BACKTRACE", None)
    argv = ["unshare", "--mount", "bash", "-c", "\n".join(steps)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300, env=env)
    return judge(done.returncode, done.stdout + done.stderr, one.cause)


def judge(status: int, text: str, cause: str) -> Finding:
    """Return the output of a command, and the fault in it."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    last = lines[-1][:200] if lines else ""
    if re.search("Traceback|panicked", text):
        return Finding(last, "a traceback")
    if status < 0 or status > 128:
        return Finding(last, f"ended with status {status}")
    if status == 0:
        return Finding(f"it succeeds: {last}")
    said = next((line for line in lines if re.search(cause, line)), "")
    return Finding(said.strip()[:200]) if said else Finding(last, f"status {status}, and the cause is not named")
