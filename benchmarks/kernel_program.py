# SPDX-License-Identifier: Apache-2.0
"""Run a program in the experiment kernel, in simulated time, for comparisons with what others do there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MPRUN = str(Path(sys.executable).with_name("mprun"))
INSIDE = "/run/mprun/run"
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def kernel() -> Path:
    """The default experiment kernel; its init lies beside it."""
    done = subprocess.run([MPRUN, "kernel", "info", "--json"], capture_output=True, check=True)
    return Path(json.loads(done.stdout)["path"])


def run(argv: list[str], folder: Path, cpu: int, timeout_s: float) -> str:
    """What the program says; `folder` is its working directory and the only place that it can write to."""
    image = kernel()
    with tempfile.TemporaryDirectory(prefix="mprun-bench-") as scratch:
        lines = [("open", str(folder.resolve()), INSIDE), ("cwd", INSIDE), ("log", f"{INSIDE}/said.txt")]
        lines += [("env", f"PATH={SEARCH}"), ("env", "HOME=/tmp"), ("env", "PYTHONDONTWRITEBYTECODE=1")]
        lines += [("arg", word) for word in argv]
        boot = Path(scratch) / "boot"
        boot.write_text("".join("\t".join(line) + "\n" for line in lines))
        (Path(scratch) / "init").symlink_to(image.parent / "init")
        words = [str(image), "mem=1536M", "rootfstype=hostfs", "rootflags=/", "ro", "root=none"]
        words += [f"init={scratch}/init", f"MPRUN_BOOT={boot}", f"uml_dir={scratch}/", "umid=uml", "con=null"]
        words += ["con0=null,fd:1", "quiet", "panic=-1", "mprun_seed=1", "time-travel=inf-cpu"]
        words += ["time-travel-start=1700000000000000000"]
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"TMPDIR": "/dev/shm", "PATH": SEARCH},
            timeout=timeout_s,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )
    return (folder / "said.txt").read_text(errors="replace")
