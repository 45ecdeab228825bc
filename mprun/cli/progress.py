# SPDX-License-Identifier: Apache-2.0
"""Progress on a terminal: one line that is redrawn; elsewhere a line when the text changes."""

from __future__ import annotations

import sys
import time
from types import TracebackType

WIDTH = 24
REDRAW_S = 0.1


class Bar:
    """Shows what is going on and how far it is, on standard error."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._drawn = 0.0
        self._text = ""

    def show(self, text: str, done: float, note: str = "") -> None:
        """`done` from 0 to 1."""
        now = time.monotonic()
        if not self._is_terminal:
            if text != self._text:
                print(f"{text} ...", file=sys.stderr, flush=True)
            self._text = text
            return
        if text == self._text and now - self._drawn < REDRAW_S:
            return
        self._text, self._drawn = text, now
        full = int(done * WIDTH)
        bar = "█" * full + "░" * (WIDTH - full)
        left = self._left(now, done)
        sys.stderr.write(f"\r\x1b[2K{bar} {done:4.0%}  {text}{'  ' + note if note else ''}{left}")
        sys.stderr.flush()

    def _left(self, now: float, done: float) -> str:
        elapsed = now - self._started
        if done < 0.05 or elapsed < 5:
            return ""
        return f"  {elapsed / done * (1 - done):.0f} s left"

    def clear(self) -> None:
        if self._is_terminal and self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.clear()
