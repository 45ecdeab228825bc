# SPDX-License-Identifier: Apache-2.0
"""A flow: its errors, the metrics and tables of its tool, its connections, and its paths. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.metrics.capacity import find_capacity
from mprun.metrics.connection import count_resent, find_connections, ports_towards, subflows_of
from mprun.metrics.evidence import Evidence, FlowOutputs, parse
from mprun.metrics.handover import measure_handover, tell_handovers_seen
from mprun.metrics.interference import on_paths
from mprun.metrics.path_use import carried, judge_paths, tell_paths
from mprun.metrics.readings import Readings, join, name_metrics, with_delays
from mprun.metrics.series import FlowConnections
from mprun.metrics.subflow import count_reinjected, count_subflows, find_reset, tell_refused, tell_unopened
from mprun.model.agent_report import Ended, spell_status
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow
from mprun.model.intent.failure import find_failures
from mprun.model.spec import Change
from mprun.model.units import NS_PER_S, TIME
from mprun.safety.text import attach
from mprun.workloads.own_result import BESIDE_S, own_metrics
from mprun.workloads.tool import Result, Tool, metrics_of, steady_span, time_limit_of, tool_of

# A share of a flow's time in which no payload could arrive. A larger share gets a warning.
IDLE_SHARE = 0.02
# A handshake over a longer round trip takes most of a flow's time.
SLOW_NS = 3 * NS_PER_S

# A number that may be a port in a command.
_PORT = re.compile(r"(?<![\w.])[1-9]\d{1,4}(?![\w.])")


class FlowReading(Frozen):
    """A flow as its outputs and the kernel report it.

    - result: of its tool; None if the flow never ran.
    - connections: its data connections; None if its hosts were not observed.
    """

    readings: Readings
    result: Result | None = None
    connections: FlowConnections | None = None


def read_flow(flow: AddressedFlow, evidence: Evidence) -> FlowReading:
    """Return the metrics, tables, errors and warnings of a flow."""
    processes = evidence.agent.ended("flow", flow.name)
    if not processes:
        return FlowReading(Readings(errors=tuple(_explain_absent(flow, evidence.agent.error or ""))))
    outputs = FlowOutputs(flow, evidence)
    tool = tool_of(flow)
    began_ns = min(ended.started_ns for ended in processes.values()) - outputs.zero_ns
    ended_ns = max(ended.ended_ns for ended in processes.values()) - outputs.zero_ns
    # a tool knows a flow by the port that its server was given
    result = parse(tool, replace(flow, port=flow.endpoints.port), outputs, began_ns, ended_ns)
    # a middlebox because of which a connection was not made or carried nothing
    interference = on_paths(flow, evidence.agent.filtered)
    culprit = interference.blame("firewall.refused", "nat.unsolicited", "alter.mp_capable")
    because = f"; {culprit}" if culprit else ""
    found = [
        Readings(errors=tuple(_find_errors(flow, processes, result, outputs, because))),
        Readings(
            metrics=name_metrics(flow.name, with_delays(result), metrics_of(flow)),
            tables=tuple((title, flow.name, table) for title, table in result.tables.items()),
            accounts=result.accounts,
            warnings=tuple(f"{flow.name}: {text}" for text in (*result.warnings, *_find_idle_begin(flow, result))),
            notes=tuple(f"{flow.name}: {text}" for text in result.notes),
        ),
        Readings(warnings=tuple(_doubt_own(flow, result, evidence, (ended_ns - began_ns) / NS_PER_S))),
    ]
    # what a tool itself reports about its paths and their failures
    if result.paths:
        found.append(judge_paths(flow, result.paths, because))
        uses = {(use.source, use.destination): use for use in result.paths}
        found.append(tell_paths(flow, evidence.intent, uses, tool.METRICS, result.values.get("goodput")))
    if result.movement:
        found.append(tell_handovers_seen(flow, evidence.intent, result.movement))
    if flow.protocol == "quic" and flow.options.get("qlog"):
        # few flows need the modules of QUIC
        from mprun.metrics.qlog_tables import read_qlogs

        found.append(read_qlogs(flow, outputs, evidence.intent))
    # what the first capture of its QUIC server shows
    seen = next((one.quic[flow.name] for one in evidence.captured.values() if flow.name in one.quic), {})
    shown = {f"seen.{name}": value for name, value in seen.items()}
    found.append(Readings(name_metrics(flow.name, shown, metrics_of(flow))))
    observed, peer = (evidence.observation.hosts.get(host) for host in (flow.source, flow.destination))
    if not (result.data_ports or result.server_ports) or observed is None or peer is None:
        if not found[0].errors:
            found += (tell_unopened(flow, evidence), tell_refused(flow, evidence))
        return FlowReading(join(found), result)
    ports = result.data_ports or ports_towards(observed, result.server_ports)
    connections = FlowConnections(flow, find_connections(observed, peer, ports, flow.paths), began_ns, ended_ns)
    found += _read_connections(connections, tool, result, evidence)
    return FlowReading(join(found), result, connections)


def _explain_absent(flow: AddressedFlow, error: str) -> Iterator[str]:
    """Yield why a flow never started, and the remedy if its own server listens on a port of its own choice.

    error: the error that ended the run; empty without one.
    """
    if not error:
        yield f"{flow.name}: never started"
    elif f"{flow.name}.server: not ready: nothing listens" in error and flow.port is None:
        server, command = (" ".join(flow.options.get(key, ())) for key in ("server", "command"))
        both = [one for one in _PORT.findall(server) if one in _PORT.findall(command)]
        if both and "{port}" not in server:
            yield f"{flow.name}: both commands name {both[-1]}: if the server listens on it, write 'port: {both[-1]}'"


def _find_errors(
    flow: AddressedFlow, processes: Mapping[str, Ended], result: Result, outputs: FlowOutputs, because: str
) -> Iterator[str]:
    """Yield why a process of the flow failed, if one did. because: the middlebox that may be the cause."""
    failed = next((name for name, ended in processes.items() if ended.status), None)
    if any(ended.timed_out for ended in processes.values()):
        limit = f"after {time_limit_of(flow) / NS_PER_S:.1f} s, the time limit of {flow.tool} for this work"
        limit += ": 'timeout' sets another"
        if flow.timeout_ns:
            limit = f"after {TIME.render(flow.timeout_ns)}, its 'timeout'"
        began_ns = min(ended.started_ns for ended in processes.values()) - outputs.zero_ns
        if dead := tell_dead(flow, outputs.evidence.intent.changes, began_ns):
            limit, because = limit.removesuffix(": 'timeout' sets another"), dead
        elif flow.paths and flow.paths[0].rtt_ns >= SLOW_NS:
            because = f"; a round trip on '{flow.paths[0].name}' takes {TIME.render(flow.paths[0].rtt_ns)}"
        yield f"{flow.name}: did not end in time and was stopped {limit}{because}"
    elif failed is not None or result.error:
        why = processes[failed].why if failed is not None else ""
        output, printed = (_shown(outputs.log(failed or flow.name, stream)) for stream in ("out", "err"))
        silent = f"no errors printed; its output ends: {output}" if output else "it printed nothing"
        said = why or result.error or printed or silent
        status = "" if failed is None else f" ended with status {spell_status(processes[failed].status)}"
        yield attach(attach(f"{flow.name}: {flow.tool}{status}: {said}", result.hint), because)


def _shown(log: str) -> str:
    """Return the end of a log without lines that another one overwrites, as those of a progress bar."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in log.split("\n")).strip()[-500:]


def tell_dead(flow: AddressedFlow, changes: Sequence[Change], began_ns: int) -> str:
    """Return the failures of paths because of which a flow cannot end, as the end of a message; empty if none.

    changes: of the intent. began_ns: the flow's begin, from time zero.
    """
    since = {one.path: one.begin_ns for one in find_failures(flow, changes) if one.end_ns is None}
    # plain TCP has the path over which it connects, and no other
    paths = flow.paths[:1] if flow.protocol == "tcp" else flow.paths
    if paths and all(path.name in since for path in paths):
        which = "none of its paths has" if len(paths) > 1 else f"'{paths[0].name}', its only path, has not"
        lasts = f"{which} carried packets since {TIME.render(max(since[path.name] for path in paths), 'tc')}"
        return f"; {lasts}: let the flow end before, or restore {'one' if len(paths) > 1 else 'it'} by an event"
    if flow.paths and since.get(first := flow.paths[0].name, began_ns + 1) <= began_ns:
        return f"; '{first}', over which it connects, carried no packets when it began: list another path first"
    return ""


def _doubt_own(flow: AddressedFlow, result: Result, evidence: Evidence, ran_s: float) -> Iterator[str]:
    """Warn of each rate and time of a program of the user that can hardly be meant. ran_s: its command's time."""
    if flow.tool != "exec":
        return
    rates = [find_capacity(evidence.intent, flow, is_forward) for is_forward in (True, False)]
    for name, metric in own_metrics(flow).items():
        value = result.values.get(name, 0)
        if metric.unit == "rate" and all(rates) and value > 100 * max(rate.total for rate in rates if rate):
            yield f"{flow.name}.{name} is more than a hundred times what its paths carry: look at its 'unit'"
        if metric.unit == "time" and metric.over != "sum" and value > ran_s + BESIDE_S:
            yield f"{flow.name}.{name} is {value:.3g} s, and its command ran for {ran_s:.3g} s: look at its 'unit'"


def _find_idle_begin(flow: AddressedFlow, result: Result) -> Iterator[str]:
    """Yield a warning if the goodput counts a long time at the begin in which no payload could arrive."""
    portions = result.portions.get("goodput", ())
    if not result.waits_round_trip or not portions or not flow.paths:
        return
    counted_ns = sum(one.end_ns - one.begin_ns for one in portions)
    idle_ns = min(flow.paths[0].rtt_ns - steady_span(flow)[0], counted_ns)
    if idle_ns > IDLE_SHARE * counted_ns:
        begin_s = math.ceil(flow.paths[0].rtt_ns / 1e9)
        yield (
            f"its goodput counts {TIME.render(idle_ns)} before its first packet could arrive, "
            f"{idle_ns / counted_ns:.0%} of its time, as {flow.tool} begins to count a round trip too early. Remedy: "
            f"write a longer 'duration' and 'omit: {{start: {begin_s}s}}', or 'tool: udp'"
        )


def _read_connections(one: FlowConnections, tool: Tool, result: Result, evidence: Evidence) -> Iterator[Readings]:
    """Yield what the kernel reports about a flow's connections."""
    flow, connections = one.flow, one.connections
    are_of_all = "retransmits" in tool.METRICS and "losses" not in tool.METRICS
    if are_of_all and (result.server_ports or flow.protocol == "mptcp"):
        # the count that a tool reads from its socket is that of the first subflow, as are the losses of short flows
        yield Readings(name_metrics(flow.name, count_resent(flow, subflows_of(connections)), metrics_of(flow)))
    yield count_subflows(flow, connections, evidence)
    if flow.protocol == "mptcp":
        uses = carried(flow, connections, one.began_ns)
        known = all(subflow.is_sampled for subflow, _ in find_reset(flow, connections, evidence))
        metrics = tool.METRICS if known else {k: v for k, v in tool.METRICS.items() if k not in ("share", "carried")}
        yield tell_paths(flow, evidence.intent, uses, metrics, result.values.get("goodput"))
        yield count_reinjected(flow, evidence)
        yield measure_handover(flow, connections, evidence)
