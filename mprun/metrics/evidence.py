# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run: all that it left, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mprun.captures.pcapng import CaptureContent
from mprun.metrics.calibration import Calibration
from mprun.metrics.observation import Observation
from mprun.model.agent_report import AgentReport
from mprun.model.intent import Intent
from mprun.model.spec import Expectation

# Output of a process by its name and stream ("out", "err").
Logs = Callable[[str, str], str]
# A file that a flow left, by the flow's name and its own.
ReadOutput = Callable[[str, str], bytes | None]


@dataclass(frozen=True)
class Evidence:
    """All that a run left, and what is expected of it.

    `intent`: of the plan. `agent`: the agent's report. `observation`: of its record.
    `logs`, `files`: outputs of processes, and files of flows.
    `is_simulated`: the run had simulated time.
    `warnings`: known before the run.
    `calibration`: measured before the run; None without one.
    `captured`: what the capture files hold, by the name of the capture.
    """

    intent: Intent
    agent: AgentReport
    observation: Observation
    logs: Logs
    files: ReadOutput = lambda flow, name: None
    engine: str = ""
    is_simulated: bool = True
    expectations: Sequence[Expectation] = ()
    warnings: Sequence[str] = ()
    calibration: Calibration | None = None
    captured: Mapping[str, CaptureContent] = field(default_factory=dict)
