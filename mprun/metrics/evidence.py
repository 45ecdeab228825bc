# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run: all that it left, and what is expected of it.

`parse` returns what the tool of a flow reads from its outputs. Damaged outputs are an error of the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain

from mprun.captures.pcapng import CaptureContent
from mprun.metrics.calibration import Calibration
from mprun.metrics.connection import servers_of
from mprun.metrics.observation import Host, Observation
from mprun.model.agent_report import AgentReport
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.metric import Metrics
from mprun.model.scalar import Scalar
from mprun.model.spec import Expectation, Flow
from mprun.workloads.tool import Portion, Result, SocketSample, Tool, metrics_of

# Output of a process by its name and stream ("out", "err").
Logs = Callable[[str, str], str]
# A file that a flow left, by the flow's name and its own.
ReadOutput = Callable[[str, str], bytes | None]


class Evidence(Frozen):
    """All that a run left, and what is expected of it.

    - intent: of the plan.
    - agent: the agent's report.
    - observation: the content of the run's record.
    - logs, files: the outputs of processes, and the files of flows.
    - is_simulated: the run had simulated time.
    - warnings: known before the run.
    - calibration: measured before the run; None without a calibration.
    - captured: the content of each capture's file, by the name of the capture.
    - parameters: the values of the files' parameters and axes.
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
    parameters: Mapping[str, Scalar] = field(default_factory=dict)

    def expects(self, flow: str) -> bool:
        return any(one.metric.startswith(f"{flow}.") for one in self.expectations)


# The errors of a parser that reads values of other types than its program prints.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class FlowOutputs(Frozen):
    """The outputs of the processes of one flow (`mprun.workloads.tool.Outputs`)."""

    flow: AddressedFlow
    evidence: Evidence

    @property
    def zero_ns(self) -> int:
        return self.evidence.agent.zero_ns or 0

    @property
    def epoch_ns(self) -> int:
        return (self.evidence.agent.boot_ns or 0) + self.zero_ns

    def log(self, process: str, stream: str = "out") -> str:
        return self.evidence.logs(self._find(process), stream)

    def span(self, process: str) -> tuple[int, int] | None:
        ended = self.evidence.agent.processes.get(self._find(process))
        return None if ended is None else (ended.started_ns, ended.ended_ns)

    def file(self, name: str) -> bytes | None:
        return self.evidence.files(self.flow.name, name)

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        observation = self.evidence.observation
        servers = servers_of(observation.hosts.get(self.flow.destination, Host()), self.flow.paths)
        return observation.sample_sockets(host, port, servers)

    def _find(self, process: str) -> str:
        """Return the name of a process, or of the process that several flows share in its place."""
        if process in self.evidence.agent.processes:
            return process
        role = "server" if process.endswith(".server") else "flow"
        return next(iter(self.evidence.agent.ended(role, self.flow.name)), process)


def parse(tool: Tool, flow: Flow, outputs: FlowOutputs, began_ns: int, ended_ns: int) -> Result:
    """Return the result of a flow from its outputs. began_ns, ended_ns: the span of the flow, from time zero."""
    try:
        result = _with_portions(tool.parse(flow, outputs), metrics_of(flow), began_ns, ended_ns)
        for name, value in result.values.items():
            if not _is_measured(value):
                raise ValueError(f"{name} is no number that is measured")
        for column in chain(*(table.values() for table in result.tables.values()), result.delays_ns.values()):
            if not all(value is None or isinstance(value, str) or _is_measured(value) for value in column):
                raise ValueError("a value is neither a text nor a number that is measured")
        return result
    except _DAMAGE as error:
        return Result(error=f"its output cannot be read: {type(error).__name__}: {error}")


def _is_measured(value: object) -> bool:
    """Check whether a value is a number that fits into a table."""
    return isinstance(value, int | float) and abs(value) < 1 << 63


def _with_portions(result: Result, metrics: Metrics, began_ns: int, ended_ns: int) -> Result:
    """Add a portion for each rate without portions. Its payload counts as constant over the flow."""
    length_ns = ended_ns - began_ns
    assumed = {
        name: (Portion(began_ns, ended_ns, value * length_ns / 8e9),)
        for name, value in result.values.items()
        if metrics[name].unit == "rate" and metrics[name].over == "sum" and name not in result.portions
    }
    return replace(result, portions={**assumed, **result.portions})
