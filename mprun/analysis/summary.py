# SPDX-License-Identifier: Apache-2.0
"""Raw artifacts -> summary.json: metrics, expectations, warnings, verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mprun.analysis.connection import Connection, find_connections
from mprun.analysis.diagnosis import explain_missing_subflows, explain_plain_tcp
from mprun.spec.spec import Expectation
from mprun.tools import TOOLS, ping, tcpdump

# Output of a process by its name and stream ("out", "err").
Logs = Callable[[str, str], str]


@dataclass
class _Findings:
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        self.metrics[name] = {"value": int(value) if unit == "1" and value == int(value) else value, "unit": unit}


def summarize(
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    logs: Logs,
    expectations: Sequence[Expectation],
    engine: str,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The summary of a run.

    status: `error` if a step failed, `failed` if the run did not do what it was asked for or an
    expectation does not hold, else `passed`.
    """
    found = _Findings(warnings=list(warnings))
    if agent["error"]:
        found.errors.append(agent["error"])
    _read_probes(agent, logs, found)
    for flow in intent["traffic"]:
        _read_flow(flow, intent, agent, logs, found)
    _read_captures(intent, logs, found)
    verdicts = [_judge(expectation, found.metrics) for expectation in expectations]
    held = all(verdict["held"] for verdict in verdicts)
    status = "error" if found.errors else "passed" if held and not found.failures else "failed"
    return {
        "status": status,
        "engine": engine,
        "complete": bool(agent["complete"]),
        "seed": intent["seed"],
        "metrics": found.metrics,
        "expectations": verdicts,
        "errors": found.errors,
        "failures": found.failures,
        "warnings": found.warnings,
    }


def _read_probes(agent: Mapping[str, Any], logs: Logs, found: _Findings) -> None:
    for name, ended in agent["processes"].items():
        if ended["role"] == "probe":
            values = ping.parse(logs(name, "out")).values
            if "rtt" in values:
                found.add(f"{name.removeprefix('probe.')}.rtt", *values["rtt"])


def _read_flow(
    flow: Mapping[str, Any], intent: Mapping[str, Any], agent: Mapping[str, Any], logs: Logs, found: _Findings
) -> None:
    name = flow["name"]
    ended = agent["processes"].get(name)
    if ended is None:
        if not agent["error"]:
            found.errors.append(f"{name}: never started")
        return
    result = TOOLS[flow["tool"]].parse(logs(name, "out"))
    if ended["timed_out"]:
        found.errors.append(f"{name}: did not end in time and was stopped")
    elif ended["status"] or result.error:
        said = result.error or logs(name, "err").strip()[-500:] or "without a word"
        found.errors.append(f"{name}: {flow['tool']} ended with status {ended['status']}: {said}")
    for metric, (value, unit) in result.values.items():
        found.add(f"{name}.{metric}", value, unit)
    observed, peer = (agent["observed"].get(flow[end]) for end in ("source", "destination"))
    if not result.data_ports or observed is None or peer is None:
        return
    connections = find_connections(observed, peer, result.data_ports, flow["paths"])
    _count_subflows(flow, connections, intent, agent, found)
    _share_paths(flow, connections, found)


def _count_subflows(
    flow: Mapping[str, Any],
    connections: Sequence[Connection],
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    found: _Findings,
) -> None:
    """subflows: of the data connection with the fewest; fewer than the endpoints allow is a failure."""
    if not connections:
        text = f"{flow['name']}: the kernel told nothing of its connection"
        (found.failures if flow["protocol"] == "mptcp" else found.warnings).append(text)
        return
    got = min(len(connection.subflows) for connection in connections)
    found.add(f"{flow['name']}.subflows", got, "1")
    if flow["protocol"] != "mptcp":
        return
    client, server = (agent.get("counters", {}).get(flow[end], {}) for end in ("source", "destination"))
    if any(connection.token is None for connection in connections):
        cause = explain_plain_tcp(client, server)
        found.failures.append(f"{flow['name']}: asked for MPTCP and got TCP: {cause}")
    elif got < flow["subflows"]:
        settings = intent["hosts"].get(flow["source"], {}).get("mptcp", {})
        cause = explain_missing_subflows(client, server, flow["subflows"], got, settings.get("subflows"))
        found.failures.append(f"{flow['name']}: {got} of {flow['subflows']} subflows: {cause}")


def _share_paths(flow: Mapping[str, Any], connections: Sequence[Connection], found: _Findings) -> None:
    """share.<path>: of the payload bytes of all subflows, in the direction that carried more."""
    subflows = [subflow for connection in connections for subflow in connection.subflows]
    acked, received = (sum(getattr(s, name) for s in subflows) for name in ("bytes_acked", "bytes_received"))
    name = "bytes_acked" if acked >= received else "bytes_received"
    total = max(acked, received)
    if not total:
        return
    for path in flow["paths"]:
        carried = sum(getattr(s, name) for s in subflows if s.path == path["name"])
        if carried or flow["protocol"] == "mptcp":
            found.add(f"{flow['name']}.share.{path['name']}", carried / total, "share")


def _read_captures(intent: Mapping[str, Any], logs: Logs, found: _Findings) -> None:
    for wanted in intent["captures"]:
        lost = tcpdump.dropped(logs(f"capture.{wanted['host']}", "err"))
        if lost is None:
            found.warnings.append(f"capture of {wanted['host']}: tcpdump did not say how many packets it lost")
        elif lost:
            found.warnings.append(
                f"capture of {wanted['host']}: the kernel dropped {lost} packets before they were seen"
            )


def _judge(expectation: Expectation, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    value = metrics.get(expectation.metric, {}).get("value")
    held = value is not None
    if value is not None:
        if expectation.minimum is not None:
            held &= value >= expectation.minimum
        if expectation.maximum is not None:
            held &= value <= expectation.maximum
        if expectation.equals is not None:
            held &= value == expectation.equals
    return {**asdict(expectation), "value": value, "held": held}
