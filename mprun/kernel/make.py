# SPDX-License-Identifier: Apache-2.0
"""Start make(1) and compilers, with nothing of the user's environment that could change a kernel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from mprun.errors import RunError, show_failure

# Fixed, so that place, time and user of the build do not enter the kernel. They are in utsname, which is mixed into the
# kernel's random pool.
_BUILD_IDENTITY = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "mprun",
    "KBUILD_BUILD_HOST": "mprun",
    "KBUILD_BUILD_VERSION": "1",
}


# The variables of the user's environment that a build gets. Others, such as ARCH, CROSS_COMPILE or MAKEFLAGS of a
# parent make, would give another kernel or none.
_BUILD_SEES = ("PATH", "HOME")


# The number of files that the configuration compiles; only the progress bar needs it.
_EXPECTED_STEPS = 1090


# The time that make has to remove unfinished files when it is interrupted.
_GRACE_S = 5


def make(tree: Path, log: Path, output: TextIO, words: Sequence[str], progress: Callable[[float], None] | None) -> None:
    """Run make in a tree for the architecture `um`, and write what it prints to `output`.

    words: targets and variables. log: the path of `output`, for messages. Raises RunError with the first error.
    """
    compiler = ["CC=ccache gcc"] if shutil.which("ccache") else []
    process = subprocess.Popen(
        ["make", "ARCH=um", *compiler, *words],
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**_environment(), "TMPDIR": str(tree.parent)},
        start_new_session=True,
    )
    assert process.stdout is not None
    steps = 0
    lines: list[str] = []
    try:
        for line in process.stdout:
            output.write(line)
            lines.append(line)
            if line.startswith("  CC "):
                steps += 1
                if progress:
                    progress(min(0.99, steps / _EXPECTED_STEPS))
    except BaseException:
        # also the compilers, which would otherwise continue to write into the folder
        _end(process)
        raise
    finally:
        process.wait()
    if process.returncode:
        raise RunError(f"the kernel does not build (whole log: {log}):\n{show_failure(''.join(lines))}")


def _end(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def run(argv: Sequence[str], directory: Path | None = None) -> str:
    """Run a program of the build, and return what it prints. Raises RunError."""
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    seen = {name: value for name, value in os.environ.items() if name in _BUILD_SEES}
    # in its other mode, ccache does not see that a file which `.incbin` includes has changed
    return {**seen, "LC_ALL": "C", "CCACHE_NODEPEND": "1", **_BUILD_IDENTITY}
