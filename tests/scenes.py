# SPDX-License-Identifier: Apache-2.0
"""The topologies, the user and the kernels that several tests and benchmarks run with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from mprun.kernel.store import find_kernel

# One path with a rate and a delay.
ONE_PATH = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 20ms}]\n"
TWO_PATHS = """\
version: 1
topology: multi-path
paths: [{rate: 20mbit, delay: 20ms, queue: 80packets}, {rate: 20mbit, delay: 20ms, queue: 80packets}]
"""
# Two paths that any kernel with tbf can have.
RATES_ONLY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, queue: 30packets}
  - {rate: 20mbit, queue: 30packets}
"""
# A baseline of one metric, in bit/s.
BASELINE = """\
engine = virtual
experiment = xp.yaml
kernel = 6.12.117-mprun
mprun = 0.1.0
plan = 0123456789abcdef
seed = 1
status = passed
topology = topo.yaml
value bulk.goodput = {goodput} bit/s
"""
# A user without any rights, and a command prefix that becomes them.
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def copy_kernel(cache: Path) -> Path:
    """Copy the default kernel to a cache of its own that every user may read; return the cache.

    Its folder is a link to another one, as that of a user who keeps several kernels may be.
    """
    folder = cache / "mprun" / "kernels"
    shutil.copytree(find_kernel().directory, folder / "it", symlinks=True)
    (folder / "default").symlink_to("it")
    subprocess.run(["chmod", "-R", "a+rX", cache], check=True)
    return cache


def give_to_nobody(folder: Path) -> None:
    """Make NOBODY the owner of a folder and all below it, as root only can."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
