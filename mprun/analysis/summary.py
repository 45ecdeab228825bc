# SPDX-License-Identifier: Apache-2.0
"""Raw artifacts -> summary.json: metrics, expectations, warnings, verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from mprun.analysis.capacity import find_capacity
from mprun.analysis.connection import (
    Connection,
    find_brief,
    find_connections,
    find_refused,
    goes_forward,
    ports_towards,
)
from mprun.analysis.diagnosis import (
    MAINLINE_SCHEDULER,
    STALE_LOSSES,
    count_fallbacks,
    explain_dropped_data,
    explain_handover,
    explain_memory_pressure,
    explain_missing_subflows,
    explain_plain_tcp,
    explain_refusal,
    explain_settings,
    has_fallen_back,
)
from mprun.analysis.group import measure_groups
from mprun.analysis.handover import Handover, find_handover, find_handover_of
from mprun.analysis.interference import Interference, on_paths
from mprun.analysis.lateness import Allowance, find_allowances
from mprun.analysis.limitation import GOOD, Limits, Sample, SubflowState, explain_rate
from mprun.analysis.observation import ENDS, Host, Observation, Tuple4
from mprun.analysis.preference import carry, find_flapping, share_deviations
from mprun.analysis.real_link import tell_real_links
from mprun.analysis.series import FlowConnections, tabulate
from mprun.analysis.together import find_fairness, find_rate
from mprun.compile.failure import Failure, find_failures
from mprun.model.metric import OF_CONNECTIONS, OF_FLOWS, OF_PATHS, OF_TOTAL, SYMBOLS, TOTAL, Metrics, Unit
from mprun.model.spec import After, Expectation, Flow
from mprun.packets.pcapng import Captured
from mprun.text import make_printable
from mprun.tools import probe, tcpdump
from mprun.tools.tool import PathUse, Portion, Result, SocketSample, Table, Tool, summarize_delays, tool_of

if TYPE_CHECKING:
    import polars

# Output of a process by its name and stream ("out", "err").
Logs = Callable[[str, str], str]
# A file that a flow left, by the flow's name and its own.
Files = Callable[[str, str], bytes | None]


# Beyond these a run in real time is marked: a timer this late holds back what a link at 10 Mbit/s sends in it,
# and a program that waits for a CPU may be the one that sends or receives.
LATE_NS = 10_000_000
MOST_STEAL = 0.02
MOST_PRESSURE = 0.3
_COMPLAINT = re.compile(r"\b(WARNING|BUG|Oops|Call Trace|INFO: task|possible .* deadlock)\b")
# How a person says what a calibration measured in base units.
_SPOKEN = {"bit/s": (1e-6, "Mbit/s"), "s": (1e3, "ms"), "share": (100, "%")}


@dataclass
class _Findings:
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    connections: list[FlowConnections] = field(default_factory=list)
    accounts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, unit: Unit) -> None:
        is_whole = unit in ("count", "size") and value == int(value)
        self.metrics[name] = {"value": int(value) if is_whole else value, "unit": SYMBOLS[unit]}

    def add_table(self, name: str, flow: str, table: Table) -> None:
        """Rows under those of other flows; a column that one of them has not is empty there."""
        joined = self.tables.setdefault(name, {"flow": []})
        before = len(joined["flow"])
        rows = len(next(iter(table.values()), ()))
        joined["flow"] += [flow] * rows
        for column in [*joined, *table]:
            values = joined.setdefault(column, [None] * before)
            if column != "flow" and len(values) == before:
                values += table.get(column, [None] * rows)


@dataclass(frozen=True)
class _FlowOutputs:
    """What the processes of one flow left (`mprun.tools.tool.Outputs`)."""

    flow: str
    logs: Logs
    files: Files
    processes: Mapping[str, Mapping[str, Any]]
    zero_ns: int
    epoch_ns: int
    observation: Observation

    def log(self, process: str, stream: str = "out") -> str:
        return self.logs(self._find(process), stream)

    def span(self, process: str) -> tuple[int, int] | None:
        ended = self.processes.get(self._find(process))
        return None if ended is None else (ended["started_ns"], ended["ended_ns"])

    def file(self, name: str) -> bytes | None:
        return self.files(self.flow, name)

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        return self.observation.sample_sockets(host, port)

    def _find(self, process: str) -> str:
        """The process of that name, or the one that several flows share in its place."""
        if process in self.processes:
            return process
        role = "server" if process.endswith(".server") else "flow"
        shared = [n for n, p in self.processes.items() if p["role"] == role and self.flow in p["flows"]]
        return shared[0] if shared else process


@dataclass(frozen=True)
class Measured:
    """What a run came to: its summary, its tables as columns by name, and what its processes saw as text for people."""

    summary: dict[str, Any]
    tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame]
    accounts: Mapping[str, str]


@dataclass(frozen=True)
class Evidence:
    """All that a run left, and what is expected of it.

    intent: of the plan. agent: the agent's report. observation: of its record.
    logs, files: outputs of processes, and files of flows.
    is_simulated: the run had simulated time.
    warnings: known before the run.
    calibration: rows of a calibration before the run; None without one.
    captured: what the capture files hold, by the name of the capture.
    """

    intent: Mapping[str, Any]
    agent: Mapping[str, Any]
    observation: Observation
    logs: Logs
    files: Files = lambda flow, name: None
    engine: str = ""
    is_simulated: bool = True
    expectations: Sequence[Expectation] = ()
    warnings: Sequence[str] = ()
    calibration: Mapping[str, Any] | None = None
    captured: Mapping[str, Captured] = field(default_factory=dict)


def measure(evidence: Evidence) -> Measured:
    """Return the summary and the tables of a run.

    status: `error` if a step failed, `failed` if the run did not do what it was asked for or an
    expectation does not hold, else `passed`.
    """
    intent, agent, observation = evidence.intent, evidence.agent, evidence.observation
    logs, files, calibration = evidence.logs, evidence.files, evidence.calibration
    found = _Findings(warnings=list(evidence.warnings))
    if agent["error"]:
        found.errors.append(agent["error"])
    _read_probes(agent, logs, found)
    results = {}
    zero_ns = agent.get("zero_ns") or 0
    for flow in intent["traffic"]:
        outputs = _FlowOutputs(
            flow["name"], logs, files, agent["processes"], zero_ns, agent.get("boot_ns", 0) + zero_ns, observation
        )
        result = _read_flow(flow, intent, agent, observation, outputs, found)
        if result is not None:
            results[flow["name"]] = result
    flows = [read_flow(flow) for flow in intent["traffic"]]
    groups: dict[str, list[str]] = {}
    for member in flows:
        if member.group is not None:
            groups.setdefault(member.group, []).append(member.name)
    for group, values, tables in measure_groups(flows, results, found.metrics):
        for metric, (value, unit) in values.items():
            found.add(f"{group}.{metric}", value, unit)
        for title, table in tables.items():
            found.add_table(title, group, table)
    _sum_up(flows, results, found)
    sampled = tabulate(agent, observation, found.connections)
    for one in found.connections:
        if one.flow["protocol"] == "mptcp" and "sockets" in sampled:
            _measure_preference(one, sampled["sockets"], found)
            _explain_efficiency(one, sampled["sockets"], observation, intent, agent, found)
    if "cpu" in sampled:
        _measure_cpu(agent, sampled["cpu"], found)
    captures = _read_captures(intent, agent, logs, evidence.captured, found)
    _read_logs(agent, found)
    found.warnings += doubt_host(agent.get("host"))
    found.warnings += tell_untaken(intent, observation)
    found.notes += () if evidence.is_simulated else tell_real_links(intent)
    found.warnings += [
        f"{name}: more sockets closed at once than the kernel could report: some counts are missing"
        for name, host in observation.hosts.items()
        if host.has_lost_sockets
    ]
    found.warnings += find_complaints(logs("console", "log"))
    _read_ways(intent, found)
    interference = Interference(agent.get("filtered", {}))
    for host, counters in agent.get("counters", {}).items():
        texts = (explain_dropped_data(counters, interference), explain_memory_pressure(counters))
        found.warnings += [f"{host}: {text}" for text in texts if text]
    for row in calibration["rows"] if calibration else ():
        if row["held"] is False:
            found.failures.append(f"calibration of {row['link']} {row['direction']}: {say_row(row)}")
        elif row["held"] is None or row["note"]:
            found.warnings.append(f"calibration of {row['link']} {row['direction']}, {row['quantity']}: {row['note']}")
    allowances = find_allowances(intent, agent)
    verdicts = [_judge(expectation, found, allowances) for expectation in evidence.expectations]
    _explain_expected(verdicts, intent, found)
    held = all(verdict["held"] for verdict in verdicts)
    status = "error" if found.errors else "passed" if held and not found.failures else "failed"
    summary = {
        "status": status,
        "engine": evidence.engine,
        "complete": bool(agent["complete"]),
        "seed": intent["seed"],
        "metrics": found.metrics,
        "expectations": verdicts,
        "errors": found.errors,
        "failures": found.failures,
        "warnings": found.warnings,
        **({"groups": groups} if groups else {}),
        **({"captures": captures} if captures else {}),
        **({"notes": found.notes} if found.notes else {}),
        **({"middleboxes": told} if (told := list(interference.tell())) else {}),
    }
    return Measured(make_printable(summary), {**found.tables, **sampled}, found.accounts)


def doubt_host(host: Mapping[str, Any] | None) -> list[str]:
    """Why a run in real time may show its machine rather than its network; empty if nothing speaks for it."""
    if host is None:
        return []
    reasons = []
    if host["late_most_ns"] > LATE_NS:
        reasons.append(f"a timer came {host['late_most_ns'] / 1e6:.0f} ms late")
    if host["steal"] > MOST_STEAL:
        reasons.append(f"its hypervisor took {host['steal']:.0%} of the time")
    if (host["cpu_pressure"] or 0) > MOST_PRESSURE:
        reasons.append(f"some program waited for a CPU {host['cpu_pressure']:.0%} of the time")
    return [f"this machine could not keep up: {'; '.join(reasons)}"] if reasons else []


def tell_untaken(intent: Mapping[str, Any], observation: Observation) -> list[str]:
    """Losses that no queue counts and nobody asked for; a link that goes down is asked to lose."""
    cut = {change["link"] for change in intent["changes"] if change.get("is_up") is False}
    return [
        f"link '{link}' {direction}: {packets} packets lost outside its queue: the kernel had too many to take in "
        "(net.core.netdev_max_backlog)"
        for (link, direction), packets in sorted(observation.counters.find_untaken().items())
        if link not in cut
    ]


def find_complaints(console: str) -> list[str]:
    """What the experiment kernel warned of on its console."""
    lines = [line for line in console.splitlines() if _COMPLAINT.search(line)]
    more = f", and {len(lines) - 1} more, see logs/console.log" if len(lines) > 1 else ""
    return [f"the kernel complained: {lines[0].strip()}{more}"] if lines else []


def _read_logs(agent: Mapping[str, Any], found: _Findings) -> None:
    """Logs that do not hold all that their program printed."""
    for ended in agent["processes"].values():
        for log, printed_bytes in ended.get("cut", {}).items():
            found.warnings.append(f"logs/{log} is cut off: its program printed {printed_bytes / 1e6:.0f} MB")


def say_row(row: Mapping[str, Any]) -> str:
    """`rate: asked 20 Mbit/s, got 19.1 (19.8 to 20.2 is allowed)`."""
    factor, unit = _SPOKEN.get(row["unit"], (1, row["unit"]))
    basis = f" ({row['basis']})" if row["basis"] else ""
    asked = f"{row['quantity']}{basis}: asked {row['asked'] * factor:.6g} {unit}"
    if row["got"] is None:
        return f"{asked}, {row['note']}"
    got, least, most = (f"{row[key] * factor:.6g}" for key in ("got", "minimum", "maximum"))
    return f"{asked}, got {got} ({least} to {most} is allowed)"


def _read_probes(agent: Mapping[str, Any], logs: Logs, found: _Findings) -> None:
    for name, ended in agent["processes"].items():
        if ended["role"] == "probe":
            values = probe.read_statistics(logs(name, "out"))
            if "rtt" in values:
                found.add(f"{name.removeprefix('probe.')}.rtt", values["rtt"], "time")


# What a parser ends in that meets values of another kind than its program prints.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _is_measured(value: object) -> bool:
    """Return whether a value is a number that fits into a table."""
    return isinstance(value, int | float) and abs(value) < 1 << 63


def _parse(tool: Tool, flow: Flow, outputs: _FlowOutputs, began_ns: int, ended_ns: int) -> Result:
    """Return what a flow's outputs say. Outputs that are damaged make an error of the flow."""
    try:
        result = _with_portions(tool.parse(flow, outputs), tool.METRICS, began_ns, ended_ns)
        for name, value in result.values.items():
            if not _is_measured(value):
                raise ValueError(f"{name} is no number that is measured")
        for column in chain(*(table.values() for table in result.tables.values()), result.delays_ns.values()):
            if not all(value is None or isinstance(value, str) or _is_measured(value) for value in column):
                raise ValueError("a value is neither a text nor a number that is measured")
        return result
    except _DAMAGE as error:
        return Result(error=f"its output cannot be read: {type(error).__name__}: {error}")


def _read_flow(
    flow: Mapping[str, Any],
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    observation: Observation,
    outputs: _FlowOutputs,
    found: _Findings,
) -> Result | None:
    """What a flow's outputs say, and what is wrong with it; None where it never ran."""
    name = flow["name"]
    processes = {n: p for n, p in agent["processes"].items() if p["role"] == "flow" and name in p["flows"]}
    if not processes:
        if not agent["error"]:
            found.errors.append(f"{name}: never started")
        return None
    asked = read_flow(flow)
    tool = tool_of(asked)
    began_ns = min(ended["started_ns"] for ended in processes.values()) - outputs.zero_ns
    ended_ns = max(ended["ended_ns"] for ended in processes.values()) - outputs.zero_ns
    result = _parse(tool, asked, outputs, began_ns, ended_ns)
    culprit = explain_refusal(on_paths(flow, agent))
    because = f"; {culprit}" if culprit else ""
    statuses = [ended["status"] for ended in processes.values() if ended["status"]]
    if any(ended["timed_out"] for ended in processes.values()):
        found.errors.append(f"{name}: did not end in time and was stopped{because}")
    elif statuses or result.error:
        failed = next((process for process, ended in processes.items() if ended["status"]), name)
        why = processes.get(failed, {}).get("why")
        said = result.error or why or outputs.log(failed, "err").strip()[-500:] or "without a word"
        status = statuses[0] if statuses else 0
        found.errors.append(f"{name}: {flow['tool']} ended with status {status}: {said}{because}")
    values = dict(result.values)
    for what, delays_ns in result.delays_ns.items():
        values |= summarize_delays(what, delays_ns)
    for metric, value in values.items():
        found.add(f"{name}.{metric}", value, tool.METRICS[metric].unit)
    for title, table in result.tables.items():
        found.add_table(title, name, table)
    found.accounts |= result.accounts
    found.warnings += [f"{name}: {text}" for text in result.warnings]
    if result.paths:
        _judge_paths(flow, result.paths, because, found)
        uses = {(use.source, use.destination): use for use in result.paths}
        _tell_paths(flow, intent, uses, tool.METRICS, found)
    if result.movement:
        failures = find_failures(flow, intent["changes"])
        spans = ((failure, failure.begin_ns, failure.watched_until_ns) for failure in failures)
        known = ((failure, find_handover_of(result.movement, begin, end)) for failure, begin, end in spans)
        _tell_handover(flow, [(failure, handover) for failure, handover in known if handover], None, found)
    observed, peer = (observation.hosts.get(flow[end]) for end in ("source", "destination"))
    if not (result.data_ports or result.server_ports) or observed is None or peer is None:
        return result
    ports = result.data_ports or ports_towards(observed, result.server_ports)
    connections = find_connections(observed, peer, ports, flow["paths"])
    found.connections.append(FlowConnections(flow, connections, began_ns, ended_ns))
    if result.server_ports and connections:
        lost = sum(subflow.client.resent for connection in connections for subflow in connection.subflows)
        found.add(f"{name}.retransmits", lost, "count")
    _count_subflows(flow, connections, observed, intent, agent, found)
    if flow["protocol"] == "mptcp":
        uses = _carried(flow, connections, began_ns)
        resent = [use.resent for use in uses.values() if use.resent is not None]
        if resent and "retransmits" in tool.METRICS:
            # what the tool asks of its socket is told of the first subflow alone
            found.add(f"{name}.retransmits", sum(resent), "count")
        _tell_paths(flow, intent, uses, tool.METRICS, found)
        _count_reinjected(flow, intent, agent, found)
        _measure_handover(flow, connections, intent, observation, found)
    return result


def _with_portions(result: Result, metrics: Metrics, began_ns: int, ended_ns: int) -> Result:
    """With a portion for each rate of which the tool does not say when its payload came: constant over the flow."""
    length_ns = ended_ns - began_ns
    assumed = {
        name: (Portion(began_ns, ended_ns, value * length_ns / 8e9),)
        for name, value in result.values.items()
        if metrics[name].unit == "rate" and metrics[name].over == "sum" and name not in result.portions
    }
    return replace(result, portions={**assumed, **result.portions})


def read_flow(flow: Mapping[str, Any]) -> Flow:
    """A flow of the intent as the value that it was, with the port that its server was given."""
    known = {field.name: flow[field.name] for field in fields(Flow) if field.name in flow}
    known["port"] = flow.get("endpoints", {}).get("port")
    return Flow(**{**known, "after": After(**flow["after"]) if flow.get("after") else None})


def _sum_up(flows: Sequence[Flow], results: Mapping[str, Result], found: _Findings) -> None:
    """Goodput and fairness of the flows that are not in the background, where two of them ran at one time."""
    names = [flow.name for flow in flows if not flow.background and f"{flow.name}.goodput" in found.metrics]
    portions = [results[name].portions["goodput"] for name in names]
    together = {"goodput": find_rate(portions), "fairness": find_fairness(portions)}
    for metric, value in together.items():
        if value is not None:
            found.add(f"{TOTAL}.{metric}", value, OF_TOTAL[metric].unit)


def _measure_cpu(agent: Mapping[str, Any], programs: polars.DataFrame, found: _Findings) -> None:
    """cpu.client, cpu.server: by the last sample of each program. One that serves several flows is no flow's own."""
    last = programs.group_by("process", maintain_order=True).last()
    used_ns = {row["process"]: row["user_ns"] + row["system_ns"] for row in last.iter_rows(named=True)}
    for role, metric in (("flow", "cpu.client"), ("server", "cpu.server")):
        sums: dict[str, int] = {}
        for name, process in agent["processes"].items():
            if process["role"] == role and len(process["flows"]) == 1 and name in used_ns:
                (flow,) = process["flows"]
                sums[flow] = sums.get(flow, 0) + used_ns[name]
        for flow, total_ns in sums.items():
            found.add(f"{flow}.{metric}", total_ns / 1e9, OF_FLOWS[metric].unit)


def _measure_preference(one: FlowConnections, sockets: polars.DataFrame, found: _Findings) -> None:
    """flapping, share.stdev: of the flow's time, without what it omits."""
    flow = one.flow
    began_ns, ended_ns = _find_span(one)
    is_forward = _is_forward(one)
    mine = sockets.filter(flow=flow["name"], host=flow["source"]).sort("time_ns", maintain_order=True)
    columns = ("time_ns", "connection", "path", *ENDS, "bytes_acked" if is_forward else "bytes_received")
    samples = ((row[0], (row[1], row[2], row[3:-1]), row[-1]) for row in mine.select(columns).iter_rows())
    carried = carry(samples, began_ns, ended_ns)
    flapping = find_flapping(carried)
    if flapping is not None:
        found.add(f"{flow['name']}.flapping", flapping, OF_CONNECTIONS["flapping"].unit)
    for path, deviation in share_deviations(carried, [path["name"] for path in flow["paths"]]).items():
        found.add(f"{flow['name']}.share.stdev.{path}", deviation, OF_CONNECTIONS["share.stdev"].unit)


def _find_span(one: FlowConnections) -> tuple[int, int]:
    """When the part of a flow that counts began and ended, from time zero: without what the flow omits."""
    omit = one.flow["options"].get("omit", {"start_ns": 0, "end_ns": 0})
    began_ns, ended_ns = one.began_ns + omit["start_ns"], one.ended_ns - omit["end_ns"]
    if one.flow["duration_ns"] is not None:
        ended_ns = min(ended_ns, one.began_ns + one.flow["duration_ns"] - omit["end_ns"])
    return began_ns, ended_ns


def _is_forward(one: FlowConnections) -> bool:
    """Return whether the flow's client sent more than its server did."""
    return goes_forward(subflow for connection in one.connections for subflow in connection.subflows)


def _explain_efficiency(
    one: FlowConnections,
    sockets: polars.DataFrame,
    observation: Observation,
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    found: _Findings,
) -> None:
    """Why a flow of MPTCP got less than its best path would give: a warning if a cause was found, else a note."""
    flow = one.flow
    efficiency = found.metrics.get(f"{flow['name']}.efficiency.best")
    capacity = find_capacity(intent, flow, _is_forward(one))
    if efficiency is None or efficiency["value"] >= GOOD or capacity is None:
        return
    sender, receiver = (flow["source"], flow["destination"])[:: 1 if _is_forward(one) else -1]
    counters = agent.get("counters", {})
    limits = Limits(
        sender,
        receiver,
        _mptcp_of(sender, intent).get("scheduler", MAINLINE_SCHEDULER),
        sum(counters.get(host, {}).get("TcpExtTCPMemoryPressures", 0) for host in (sender, receiver)),
    )
    text, is_known = explain_rate(
        efficiency["value"], list(_find_samples(one, sockets, observation)), capacity.best_paths, limits
    )
    told = f"{flow['name']}: {efficiency['value']:.1%} of its best path's rate".replace("%", " %")
    if is_known:
        found.warnings.append(f"{told}: {text}")
    elif flow.get("group") is None:
        # nobody reads those of hundreds
        found.notes.append(f"{told}: {text}")


def _find_samples(one: FlowConnections, sockets: polars.DataFrame, observation: Observation) -> Iterator[Sample]:
    """Each moment of the sending ends of a flow's connections at which a connection and its subflows were sampled."""
    flow, is_forward = one.flow, _is_forward(one)
    sender = flow["source" if is_forward else "destination"]
    began_ns, ended_ns = _find_span(one)
    of_subflow = ("snd_cwnd_packets", "unacked_packets", "notsent_bytes", "snd_wnd_bytes", "last_ack_recv_ms")
    mine = sockets.filter(flow=flow["name"], host=sender).sort("time_ns", maintain_order=True)
    moments: dict[tuple[int, int], list[SubflowState]] = {}
    for number, time_ns, path, *values in mine.select("connection", "time_ns", "path", *of_subflow).iter_rows():
        # older kernels do not tell all of it
        if None not in values:
            moments.setdefault((number, time_ns), []).append(SubflowState(path, *values))
    for number, connection in enumerate(one.connections):
        for held in observation.states.get((sender, _addresses_at(connection, flow, is_forward)), ()):
            subflows = moments.get((number, held.at_ns))
            if subflows and began_ns <= held.at_ns < ended_ns:
                yield Sample(held, subflows)


def _addresses_at(connection: Connection, flow: Mapping[str, Any], is_client: bool) -> Tuple4:
    """By which addresses an end of a flow knows one of its connections; a server beyond a NAT sees another client."""
    local, local_port, remote, remote_port = connection.subflows[0].addresses
    if is_client:
        return local, local_port, remote, remote_port
    seen = {path["source"]: path.get("source_seen", path["source"]) for path in flow["paths"]}
    return remote, remote_port, seen.get(local, local), local_port


def _count_subflows(
    flow: Mapping[str, Any],
    connections: Sequence[Connection],
    observed: Host,
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    found: _Findings,
) -> None:
    """subflows: of the data connection with the fewest; fewer than the endpoints allow is a failure."""
    if not connections:
        text = f"{flow['name']}: the kernel reported nothing about its connection"
        (found.failures if flow["protocol"] == "mptcp" else found.warnings).append(text)
        return
    if flow["protocol"] != "mptcp":
        return
    client, server = (agent.get("counters", {}).get(flow[end], {}) for end in ("source", "destination"))
    has_fallen = count_fallbacks(client, server) > 0
    whole = [one for one in connections if one.is_known or not has_fallen]
    brief = set(find_brief(whole, max((path["rtt_ns"] for path in flow["paths"]), default=0), flow["subflows"]))
    lasting = [one for one in whole if one not in brief]
    if 0 < len(whole) < len(connections):
        found.warnings.append(
            f"{flow['name']}: {len(connections) - len(whole)} of {len(connections)} connections continued as TCP "
            "after their handshake (fallback, RFC 8684 3.7): their subflows are not counted"
        )
    if brief:
        longest_ns = max(one.lived_ns or 0 for one in brief)
        found.warnings.append(
            f"{flow['name']}: {len(brief)} of {len(connections)} connections ended after {longest_ns / 1e6:.0f} ms at "
            "most, too early for further subflows: they are not counted"
        )
    got = min((len(connection.subflows) for connection in lasting), default=0)
    if lasting:
        found.add(f"{flow['name']}.subflows", got, "count")
    interference = on_paths(flow, agent)
    is_plain = any(connection.token is None for connection in connections) or not whole
    if is_plain or has_fallen_back(client, server):
        cause = explain_plain_tcp(client, server, interference)
        found.failures.append(f"{flow['name']}: asked for MPTCP and got TCP: {cause}")
    elif lasting and got < flow["subflows"]:
        accepted = _mptcp_of(flow["source"], intent).get("add_addr_accepted")
        refused = find_refused(observed, lasting)
        cause = explain_missing_subflows(client, server, flow["subflows"], got, accepted, interference, refused)
        found.failures.append(f"{flow['name']}: {got} of {flow['subflows']} subflows: {cause}")
    astray = {(one.addresses[0], one.addresses[2]) for each in connections for one in each.subflows if not one.path}
    for local, remote in sorted(astray):
        found.warnings.append(
            f"{flow['name']}: no path joins {local} and {remote}, between which it had a subflow: that goes where the "
            "routes of both hosts send it, and no path's share has its bytes"
        )


def _explain_expected(verdicts: Sequence[Mapping[str, Any]], intent: Mapping[str, Any], found: _Findings) -> None:
    """Why a flow has fewer subflows than an expectation says, where it has all that its hosts were set to open."""
    for flow in intent["traffic"]:
        for verdict in verdicts:
            bounds = [verdict[bound] for bound in ("equals", "minimum") if verdict[bound] is not None]
            if verdict["metric"] != f"{flow['name']}.subflows" or verdict["value"] is None or not bounds:
                continue
            if flow["subflows"] <= verdict["value"] < max(bounds):
                client, server = (_mptcp_of(flow[end], intent) for end in ("source", "destination"))
                if cause := explain_settings(client, server, max(bounds)):
                    found.failures.append(f"{flow['name']}: {verdict['value']} of {max(bounds):g} subflows: {cause}")


def _mptcp_of(host: str, intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """A host's MPTCP settings, as far as the experiment gives any."""
    settings: Mapping[str, Any] = intent["hosts"].get(host, {}).get("mptcp", {})
    return settings


def _carried(
    flow: Mapping[str, Any], connections: Sequence[Connection], began_ns: int
) -> dict[tuple[str, str], PathUse]:
    """What each path carried: the payload of its subflows. began_ns: when the flow did, from time zero."""
    every = [subflow for connection in connections for subflow in connection.subflows]
    is_forward = goes_forward(every)
    uses = {}
    for path in flow["paths"]:
        subflows = [subflow for subflow in every if subflow.path == path["name"]]
        senders = [s.client if is_forward else s.server for s in subflows]
        senders = [sender for sender in senders if sender.srtt_us]
        ends = (path["source"], path["destination"])
        uses[ends] = PathUse(
            *ends,
            sum(s.bytes_acked for s in subflows),
            sum(s.bytes_received for s in subflows),
            joined_s=min(((s.established_ns - began_ns) / 1e9 for s in subflows), default=None),
            srtt_s=sum(s.srtt_us for s in senders) / len(senders) / 1e6 if senders else None,
            resent=sum(s.resent for s in senders) if senders else None,
            resent_bytes=sum(s.resent_bytes for s in senders) if senders else None,
        )
    return uses


def _count_reinjected(
    flow: Mapping[str, Any], intent: Mapping[str, Any], agent: Mapping[str, Any], found: _Findings
) -> None:
    """The kernel counts them for a host: they are a flow's where it is the only one of MPTCP there."""
    ends = {flow["source"], flow["destination"]}
    flows = [one for one in intent["traffic"] if one["protocol"] == "mptcp"]
    counters = agent.get("counters", {})
    if sum(not ends.isdisjoint((one["source"], one["destination"])) for one in flows) == 1 and ends <= counters.keys():
        total = sum(counters[host].get("MPTcpExtMPTCPRetrans", 0) for host in ends)
        found.add(f"{flow['name']}.reinjected", total, "count")


def _measure_handover(
    flow: Mapping[str, Any],
    connections: Sequence[Connection],
    intent: Mapping[str, Any],
    observation: Observation,
    found: _Findings,
) -> None:
    """The hand-overs of all connections of an MPTCP flow after all failures of its paths."""
    failures = find_failures(flow, intent["changes"])
    handovers: list[tuple[Failure, Handover]] = []
    for connection in connections:
        at_client, at_server = (
            observation.progress.get((flow[end], _addresses_at(connection, flow, end == "source")), [])
            for end in ("source", "destination")
        )
        for failure in failures:
            handover = find_handover(at_client, at_server, failure.begin_ns, failure.watched_until_ns)
            if handover is not None:
                handovers.append((failure, handover))
    every = [subflow for connection in connections for subflow in connection.subflows]
    sender = intent["hosts"].get(flow["source" if goes_forward(every) else "destination"], {})
    _tell_handover(flow, handovers, sender, found)


def _tell_handover(
    flow: Mapping[str, Any],
    handovers: Sequence[tuple[Failure, Handover]],
    sender: Mapping[str, Any] | None,
    found: _Findings,
) -> None:
    """handover.gap, handover.time: the worst of all. sender: what the experiment says of the host that sent the more
    over MPTCP; None for other transports."""
    if not handovers:
        return
    failure, worst = max(handovers, key=lambda one: one[1].time_ns)
    found.add(f"{flow['name']}.handover.gap", max(one.gap_ns for _, one in handovers) / 1e9, "time")
    found.add(f"{flow['name']}.handover.time", worst.time_ns / 1e9, "time")
    given: tuple[str | None, ...] = ()
    if sender is not None:
        sysctls = dict(sender.get("sysctl", ()))
        given = (sysctls.get(STALE_LOSSES), sender.get("mptcp", {}).get("scheduler", MAINLINE_SCHEDULER))
    backups = [path["name"] for path in flow["paths"] if path["backup"]]
    if text := explain_handover(failure.path, worst.time_ns, worst.is_over, backups, *given):
        found.warnings.append(f"{flow['name']}: {text}")


def _judge_paths(flow: Mapping[str, Any], uses: Sequence[PathUse], because: str, found: _Findings) -> None:
    """A path that was not used as asked is a failure. because: the middlebox that may have kept it from that."""
    names = {(path["source"], path["destination"]): path["name"] for path in flow["paths"]}
    for use in uses:
        where = f"{flow['name']}: path {names[use.source, use.destination]}"
        if use.failure:
            found.failures.append(f"{where}: {use.failure}{because}")
        if use.warning:
            found.warnings.append(f"{where}: {use.warning}")


def _tell_paths(
    flow: Mapping[str, Any],
    intent: Mapping[str, Any],
    uses: Mapping[tuple[str, str], PathUse],
    metrics: Metrics,
    found: _Findings,
) -> None:
    """share.<path>: of the payload bytes of all paths, in the direction that carried more; of each direction, if
    the tool has it. And what else is known of each path, and how much of the paths the flow made use of."""
    name = flow["name"]
    forward, reverse = (sum(getattr(use, way) for use in uses.values()) for way in ("forward_bytes", "reverse_bytes"))
    named = [(path["name"], uses.get((path["source"], path["destination"]))) for path in flow["paths"]]
    told = {path: _facts(use, forward, reverse) for path, use in named if use is not None}
    for metric in (*OF_PATHS, "share.forward", "share.reverse"):
        for path, facts in told.items():
            if metric in metrics and facts.get(metric) is not None:
                found.add(f"{name}.{metric}.{path}", facts[metric], metrics[metric].unit)
    goodput = found.metrics.get(f"{name}.goodput")
    capacity = find_capacity(intent, flow, forward >= reverse)
    if len(flow["paths"]) > 1 and goodput and capacity and "efficiency.sum" in metrics:
        found.add(f"{name}.efficiency.sum", goodput["value"] / capacity.total, "ratio")
        found.add(f"{name}.efficiency.best", goodput["value"] / capacity.best, "ratio")


def _facts(use: PathUse, forward: int, reverse: int) -> dict[str, Any]:
    """What is known of a path by the names of metrics. forward, reverse: bytes that all paths carried."""
    shares = {"share.forward": (use.forward_bytes, forward), "share.reverse": (use.reverse_bytes, reverse)}
    shares["share"] = shares["share.forward" if forward >= reverse else "share.reverse"]
    return {
        **{metric: carried / total for metric, (carried, total) in shares.items() if total},
        "carried": use.forward_bytes if forward >= reverse else use.reverse_bytes,
        "joined": use.joined_s,
        "srtt": use.srtt_s,
        "resent": use.resent,
        "resent.bytes": use.resent_bytes,
    }


def _read_captures(
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    logs: Logs,
    captured: Mapping[str, Captured],
    found: _Findings,
) -> dict[str, dict[str, Any]]:
    """By capture: how long before time zero it was live, what it holds and what it lacks.

    packets: in its file; passed: read by tcpdump, which a file with a size does not all hold; lost: not read.
    """
    told: dict[str, dict[str, Any]] = {}
    for value in intent["captures"]:
        wanted = tcpdump.read_wanted(value)
        process = f"{tcpdump.PREFIX}{wanted.name}"
        seen, held = agent.get("captures", {}).get(process), captured.get(wanted.name)
        if seen is None or held is None:
            continue
        log = logs(process, "err")
        passed, lost = tcpdump.passed(log), tcpdump.lost(log)
        zero_ns = agent.get("zero_ns")
        told[wanted.name] = {
            "node": wanted.node,
            "link": wanted.link,
            # to the millisecond, as steps before time zero are in simulated time
            "ready_s": None if zero_ns is None else round((seen["ready_ns"] - zero_ns) / 1e9, 3),
            "first_s": None if held.first_ns is None else held.first_ns / 1e9,
            "packets": held.packets,
            "passed": passed,
            "lost": lost,
        }
        where = f"capture of {wanted.name}"
        if held.problem:
            found.warnings.append(f"{where}: {held.problem}")
        if lost is None or passed is None:
            found.warnings.append(f"{where}: tcpdump did not report how many packets it lost")
            continue
        if lost:
            missing = "1 packet that passed is" if lost == 1 else f"{lost} packets that passed are"
            found.warnings.append(f"{where}: {missing} not in it")
        if "ended_ns" in seen:
            ended_s = (seen["ended_ns"] - (zero_ns or 0)) / 1e9
            found.failures.append(f"{where}: ended at {ended_s:g} s, when the disk was nearly full; the run continued")
        elif held.packets < passed and wanted.size_bytes is not None:
            which = f"{wanted.keep} {held.packets} of {passed} packets"
            found.warnings.append(f"{where}: reached its size, and holds the {which}")
        elif held.packets < passed and not held.problem:
            found.failures.append(f"{where}: holds {held.packets} of {passed} packets: the disk was full")
    return told


def _read_ways(intent: Mapping[str, Any], found: _Findings) -> None:
    """A path whose flows may differ in delay, by the way that a hash chose for each."""
    paths = {path["name"]: path for flow in intent["traffic"] for path in flow["paths"]}
    for name, path in paths.items():
        if path.get("least_rtt_ns", path["rtt_ns"]) != path["rtt_ns"]:
            least_ms, most_ms = path["least_rtt_ns"] / 1e6, path["rtt_ns"] / 1e6
            found.warnings.append(
                f"path {name}: its flows take {path['ways']} ways of {least_ms:g} to {most_ms:g} ms, and {name}.rtt is "
                "that of its pings"
            )


def _judge(expectation: Expectation, found: _Findings, allowances: Mapping[str, Allowance]) -> dict[str, Any]:
    """Hold an expectation against what was measured; a warning tells where late timers decided."""
    value = found.metrics.get(expectation.metric, {}).get("value")
    held = value is not None
    if value is not None:
        if expectation.minimum is not None:
            held &= value >= expectation.minimum
        if expectation.maximum is not None and value > expectation.maximum:
            allowance = allowances.get(expectation.metric)
            held &= allowance is not None and value <= expectation.maximum + allowance.most_s
            if held and allowance is not None:
                found.warnings.append(allowance.explain(expectation.metric, value, expectation.maximum))
        if expectation.equals is not None:
            held &= value == expectation.equals
    return {**asdict(expectation), "value": value, "held": held}
