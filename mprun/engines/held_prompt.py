# SPDX-License-Identifier: Apache-2.0
"""A prompt in a run that stands still at a simulated time.

The agent executes one line at a time on a node. Meanwhile, simulated time passes. While the user types, the process of
the experiment kernel is stopped, so no time passes.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from mprun.model.engine_paths import HELD, PROMPT_OUTPUT
from mprun.safety.folder import Folder
from mprun.storage.run_directory import RunDirectory


class HeldPrompt(NamedTuple):
    """The moment of a stop, and the user's lines.

    - at_ns: the time of the stop on the agent's monotonic clock.
    - ask: a function that shows the output of the last line and returns the next line; None ends the run.
    """

    at_ns: int
    ask: Callable[[str], str | None]

    def serve(self, process: subprocess.Popen[bytes], run: RunDirectory, folder: Folder, told: str) -> None:
        """Get a line from the user if the agent waits for one. Raises KeyboardInterrupt if the user ends the run.

        folder: of the orders that the agent reads. told: the report of the agent.
        """
        word, _, number = told.partition(" ")
        if word != HELD:
            return
        process.send_signal(signal.SIGSTOP)
        try:
            output = run.folder.read_text(PROMPT_OUTPUT) if run.has(PROMPT_OUTPUT) else ""
            line = self.ask(output)
            if line is None:
                raise KeyboardInterrupt
            folder.write_text(number, line)
        finally:
            process.send_signal(signal.SIGCONT)
