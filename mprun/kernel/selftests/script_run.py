# SPDX-License-Identifier: Apache-2.0
"""Run scripts of the kernel's tests, each in its own experiment kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from mprun.engines.agent_process import ENVIRONMENT
from mprun.engines.debugger import Debugger, attached
from mprun.engines.guest import Guest, booted
from mprun.engines.trial import find_schedulers
from mprun.errors import MachineError
from mprun.kernel.log import find_reports, read_console
from mprun.kernel.selftests import tap
from mprun.kernel.selftests.test_source import GUEST, Script
from mprun.kernel.store import Kernel
from mprun.model import engine_paths
from mprun.model.frozen import Frozen

# The order of starts: the longest scripts first, so that concurrent scripts end at about the same time.
DEFAULT_SCRIPTS = (
    "mptcp_join",
    "mptcp_connect",
    "diag",
    "userspace_pm",
    "pm_netlink",
    "simult_flows",
    "mptcp_sockopt",
    "packetdrill",
)
# Exit status of a test that cannot run (tools/testing/selftests/kselftest.h).
SKIP_STATUS = 4
# The file with the warnings of a script's kernel.
CONSOLE = "console.log"
POLL_S = 0.1
# The longest real time in which a working script prints nothing new.
SILENCE_S = 300.0
# The scripts transfer files in /tmp, which is in memory.
MEMORY_MIB = 1536

# (running scripts with their last line, number of scripts that have ended)
ScriptProgress = Callable[[dict[str, str], int], None]


class KeptRecords(Frozen):
    """The records that are kept of scripts besides their output.

    - captures: keep the packets of each network namespace (`pcap/`).
    - tracepoints: the trace events to keep (`trace.txt`), as names or patterns.
    - debugger: gdb, which stops the kernel of the script.
    """

    captures: bool = False
    tracepoints: tuple[str, ...] = ()
    debugger: Debugger | None = None


NOTHING = KeptRecords()


class ScriptResult(Frozen):
    """The result of a script.

    - status: its exit status; None if it did not end by itself.
    - problem: the reason for a failure other than failed subtests; empty if there is none.
    - simulated_s, wall_s: seconds.
    - log: its whole output.
    """

    script: Script
    status: int | None
    subtests: tuple[tap.Subtest, ...]
    error: str
    simulated_s: float | None
    wall_s: float
    log: Path

    def names(self, outcome: tap.TapResult) -> list[str]:
        """Return the names of the subtests with this outcome."""
        return [subtest.name for subtest in self.subtests if subtest.outcome == outcome]


def run_scripts(
    kernel: Kernel,
    scripts: Sequence[Script],
    output: Path,
    jobs: int,
    seed: int,
    scheduler: str | None,
    progress: ScriptProgress,
    kept: KeptRecords,
) -> Iterator[ScriptResult]:
    """Yield the results as scripts end; `jobs` scripts run at a time.

    output: gets a folder for each script. scheduler: the value of net.mptcp.scheduler in every new namespace, if not
    the kernel's default. Scripts that still run when the iterator is closed are killed.
    """
    waiting = list(scripts)
    running: list[_Run] = []
    with ExitStack() as stack:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Run(kernel, waiting.pop(0), output, seed, scheduler, kept, stack))
            ended = [run for run in running if run.has_ended()]
            running = [run for run in running if run not in ended]
            if running:
                lines = {run.script.label: run.last_line for run in running}
                progress(lines, len(scripts) - len(waiting) - len(running))
            yield from (run.result() for run in ended)
            if not ended:
                time.sleep(POLL_S)


def check_scheduler(kernel: Kernel, name: str) -> None:
    """Raise MachineError, with the list of the kernel's schedulers, if the kernel lacks a scheduler."""
    has = find_schedulers(kernel)
    if name not in has:
        raise MachineError(f"the kernel '{kernel.name}' has no scheduler '{name}' (it has: {', '.join(has)})")


class _Run:
    """A script in a kernel that was booted for the script. `stack` removes what is left of both."""

    def __init__(
        self,
        kernel: Kernel,
        script: Script,
        output: Path,
        seed: int,
        scheduler: str | None,
        kept: KeptRecords,
        stack: ExitStack,
    ) -> None:
        self.script = script
        self.last_line = ""
        self._folder = output / script.label
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log = self._folder / "said.txt"
        pcap = self._folder / "pcap"
        for path in (*(self._folder / name for name in ("said.txt", "end", "trace.txt")), *pcap.glob("*.pcap")):
            path.unlink(missing_ok=True)
        if kept.captures:
            pcap.mkdir(exist_ok=True)
        inside = f"{engine_paths.ROOT}/guest"
        traced = ("/usr/bin/python3", f"{inside}/traced.py", " ".join(kept.tracepoints)) if kept.tracepoints else ()
        guest = Guest(
            argv=(*traced, f"{inside}/run.sh", script.folder, *script.command),
            cwd=engine_paths.RUN,
            log=f"{engine_paths.RUN}/{self._log.name}",
            opened={self._folder: engine_paths.RUN},
            shown={**script.shown, GUEST: inside},
            # failures that the scripts call flaky count as failures, because nothing here depends on chance
            environment={
                **ENVIRONMENT,
                "HOME": "/tmp",
                "SELFTESTS_MPTCP_LIB_OVERRIDE_FLAKY": "1",
                "MPRUN_SCHEDULER": scheduler or "",
                "MPRUN_CAPTURE": "1" if kept.captures else "",
            },
            seed=seed,
            memory_mib=MEMORY_MIB,
        )
        self._started = self._moved = time.monotonic()
        self._size = 0
        self._is_hung = False
        self._kernel = ExitStack()
        stack.push(self._kernel)
        console = self._kernel.enter_context((self._folder / CONSOLE).open("wb"))
        self._process = self._kernel.enter_context(booted(kernel, guest, console, kept.debugger is not None))
        self._is_held = (
            self._kernel.enter_context(attached(kept.debugger, kernel, self._process.pid)) if kept.debugger else None
        )

    def has_ended(self) -> bool:
        """Return True if the script has ended, or has printed nothing for too long."""
        self._look()
        if self._is_held is not None and self._is_held():
            self._moved = time.monotonic()
        self._is_hung = time.monotonic() - self._moved > SILENCE_S
        return self._is_hung or self._process.poll() is not None

    def result(self) -> ScriptResult:
        """Return the result. Call it once, after the script has ended."""
        self._kernel.close()
        report = tap.parse(self._text())
        status, seconds = self._end()
        return ScriptResult(
            script=self.script,
            status=status,
            subtests=report.subtests,
            error=self._error(status, report),
            simulated_s=seconds,
            wall_s=round(time.monotonic() - self._started, 1),
            log=self._log,
        )

    def _look(self) -> None:
        size = self._log.stat().st_size if self._log.exists() else 0
        if size != self._size:
            self._size, self._moved = size, time.monotonic()
            lines = [line for line in self._text().splitlines() if line.strip()]
            self.last_line = lines[-1].strip() if lines else ""

    def _text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _end(self) -> tuple[int | None, float | None]:
        try:
            status, seconds = (self._folder / "end").read_text().split()
        except (FileNotFoundError, ValueError):
            return None, None
        return int(status), float(seconds)

    def _error(self, status: int | None, report: tap.TapOutput) -> str:
        if self._is_hung:
            return f"printed nothing new for {SILENCE_S:g} s of real time"
        console = self._folder / CONSOLE
        if reports := find_reports(read_console(console.read_text(errors="replace"))):
            return f"the kernel reported {reports[0].describe()}; see {console}"
        if status is None:
            return "the experiment kernel ended before the script did"
        if status == SKIP_STATUS:
            return f"cannot run: {self.last_line}"
        if report.planned is None or report.planned != len(report.subtests):
            return f"ended with status {status} and {len(report.subtests)} of {report.planned or 'no'} results"
        failed = any(subtest.outcome == "failed" for subtest in report.subtests)
        return f"ended with status {status} though no subtest failed" if status and not failed else ""
