# SPDX-License-Identifier: Apache-2.0
"""Check a baseline many times, under conditions that must not matter, and then after a small change that must show.

    false_alarms.py [checks]     100 checks by default: two hash seeds of Python, with and without load on all CPUs, and
                                 as another user (needs root; with the kernel of this user, as an archive)

The planted change is 0.1 % of the rate of a link. The exit status is 1 if a check says that something has changed, or
if the planted change does not show.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOPOLOGY = """\
version: 1
topology: multi-path
paths: [{rate: RATE, delay: 20ms, queue: 80packets}, {rate: 20mbit, delay: 20ms, queue: 80packets, loss: 0.1%}]
"""
EXPERIMENT = """\
version: 1
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 2s}]
show: [bulk.goodput, bulk.retransmits, bulk.share.path0]
"""
MPRUN = (sys.executable, "-m", "mprun")
NOBODY = 65534


def call(folder: Path, *words: str, user: int | None = None, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run mprun in a folder, as this user or another one. The cache is the folder's."""
    prefix = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "XDG_CACHE_HOME": str(folder / "cache")}
    environment |= {"HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*prefix, *MPRUN, *words], cwd=folder, env=environment, capture_output=True, text=True)


def make_folder(parent: Path, name: str, archive: Path, digest: str, user: int | None) -> Path:
    """Make a folder with the files, and with the kernel in its cache."""
    folder = parent / name
    folder.mkdir()
    (folder / "topo.yaml").write_text(TOPOLOGY.replace("RATE", "20mbit"))
    (folder / "xp.yaml").write_text(EXPERIMENT)
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user)
    done = call(folder, "kernel", "import", str(archive), "--trust", digest, user=user)
    if done.returncode:
        sys.exit(done.stderr)
    return folder


def check(folder: Path, user: int | None, hash_seed: str) -> bool:
    """Check the baseline of a folder. Return whether it says that nothing has changed."""
    done = call(folder, "baseline", "check", user=user, hash_seed=hash_seed)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    shutil.rmtree(folder / "runs", ignore_errors=True)
    return done.returncode == 0


def main(checks: int) -> int:
    users = [None, NOBODY] if os.geteuid() == 0 else [None]
    with tempfile.TemporaryDirectory(prefix="mprun-alarms-") as made:
        parent = Path(made)
        parent.chmod(0o755)
        archive = parent / "kernel.zip"
        done = subprocess.run([*MPRUN, "kernel", "export", str(archive)], capture_output=True, text=True, check=True)
        digest = done.stdout.split()[-1]
        folders = {user: make_folder(parent, f"user{n}", archive, digest, user) for n, user in enumerate(users)}
        written = call(folders[None], "baseline", "write", "-t", "topo", "-x", "xp")
        print(written.stdout.strip() or written.stderr)
        for folder in folders.values():
            if folder != folders[None]:
                shutil.copy(folders[None] / "topo-xp.baseline", folder)
        began, alarms = time.monotonic(), 0
        kinds = itertools.cycle(itertools.product(users, ("0", "random"), (False, True)))
        for user, hash_seed, is_loaded in itertools.islice(kinds, checks):
            load = [
                subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(is_loaded * 2 * os.cpu_count())
            ]
            try:
                alarms += not check(folders[user], user, hash_seed)
            finally:
                for one in load:
                    one.kill()
                    one.wait()
        print(f"{checks} checks, {len(users)} users: {alarms} false alarms, {time.monotonic() - began:.0f} s")
        (folders[None] / "topo.yaml").write_text(TOPOLOGY.replace("RATE", "19.98mbit"))
        planted = call(folders[None], "baseline", "check")
        print(f"0.1 % less on a link: status {planted.returncode}\n{planted.stdout.strip()}")
        return int(alarms > 0 or planted.returncode != 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 100))
