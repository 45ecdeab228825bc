# SPDX-License-Identifier: Apache-2.0
"""Read and write files of the experiment kernel by single system calls.

Python's own files make more calls, which could let a moment of simulated time pass.
"""

from __future__ import annotations

import os

_BLOCK = 1 << 16


def read(path: str) -> str:
    """Return the text of a file. Raises OSError."""
    return read_open(os.open(path, os.O_RDONLY)).decode()


def read_open(file: int) -> bytes:
    """Return the content of an open file, and close the file. Raises OSError."""
    parts = []
    try:
        while block := os.read(file, _BLOCK):
            parts.append(block)
    finally:
        os.close(file)
    return b"".join(parts)


def write(path: str, *texts: str) -> None:
    """Write texts, each by a call of its own. The file is not truncated. Raises OSError."""
    file = os.open(path, os.O_WRONLY)
    try:
        for text in texts:
            os.write(file, text.encode())
    finally:
        os.close(file)
