# SPDX-License-Identifier: Apache-2.0
"""Count the runs of a call of `make test`, and install the store of runs (`tests.stored_runs`).

Python imports this module whenever it starts with this folder on its path.

Each process that starts an engine appends a line to the file that `tests.phases` names: the kind of the run's time, and
the test that pytest has noted in the environment.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

# An experiment kernel has the first word in its command line, and the agent of the real engine the second.
BOOT, AGENT = "MPRUN_BOOT=", "import mprun.agent.main as agent"


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Append a line if this event of Python is the start of an engine. See PEP 578."""
    if event != "subprocess.Popen":
        return
    words = [str(word) for word in arguments[1]]
    if any(word.startswith(BOOT) or AGENT in word for word in words):
        kind = "simulated" if "time-travel=inf-cpu" in words else "real"
        # not counted: a run in a container whose file systems are read-only
        with contextlib.suppress(OSError):
            record = os.open(os.environ["MPRUN_TESTS_RUNS"], os.O_WRONLY | os.O_APPEND)
            # the end of the command tells whoever asks why a run is in real time
            how = " ".join(words)[-200:].replace("\n", " ") if kind == "real" else ""
            os.write(record, f"{kind} {os.environ.get('PYTEST_CURRENT_TEST', '')}\t{how}\n".encode())
            os.close(record)


class Finder:
    """Import the virtual engine with the store of runs (PEP 302)."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name == "mprun.engines.virtual":
            # not here: a package that was installed from its wheel
            with contextlib.suppress(ImportError):
                from tests.stored_runs import find_engine

                return find_engine(name, path)
        return None


if "MPRUN_TESTS_RUNS" in os.environ:
    sys.addaudithook(note)
if "MPRUN_TESTS_STORE" in os.environ:
    sys.meta_path.insert(0, Finder)
