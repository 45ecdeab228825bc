# SPDX-License-Identifier: Apache-2.0
"""Run graphviz' `dot`, which lays out and paints the text of `dot.py`. Not pure: it starts a process."""

from __future__ import annotations

import re
import subprocess
from typing import Literal

from mprun.errors import MachineError, RunError

PROGRAM = "dot"
# An image as wide as a page then has 900 pixels.
PIXELS_PER_INCH = 192

# The time of creation in a PDF. Its length must not change, because the PDF stores offsets.
_DATE = re.compile(rb"(?<=/CreationDate \(D:)\d{14}")


def render(dot: str, image: Literal["svg", "png", "pdf"]) -> bytes:
    """Return the image. The same text gives the same bytes on the same machine.

    Raises MachineError without graphviz.
    """
    argv = [PROGRAM, f"-T{image}", *([f"-Gdpi={PIXELS_PER_INCH}"] if image == "png" else [])]
    try:
        done = subprocess.run(argv, input=dot.encode(), capture_output=True, check=False)
    except FileNotFoundError as error:
        raise MachineError(
            f"graphviz, which draws {image}, is not installed: apt-get install graphviz (--format dot needs nothing)"
        ) from error
    if done.returncode:
        raise RunError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return _DATE.sub(b"20000101000000", done.stdout) if image == "pdf" else done.stdout
