# SPDX-License-Identifier: Apache-2.0
"""Read the report of a QUIC client of mprun: its requests, its paths, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.intent import AddressedFlow
from mprun.model.spec import Flow
from mprun.workloads import tool
from mprun.workloads.quic_connection import STACKS, schedulers_of, stack_of
from mprun.workloads.tool import Movement, Outputs, PathUse, Result, Table

# An answer to a challenge that tquic has forgotten begins the series of challenges again: on_path_chal_timeout() and
# on_path_resp_received() in its connection/path.rs. It sends the second after 25 ms, and forgets it 50 ms later.
LATE_NS = 50_000_000
_LATE = (
    ": tquic forgets a PATH_CHALLENGE that is not answered within 50 ms, as on a path with a longer round trip: write "
    "'stack: noq' (docs/quic.md)"
)
# The end of what a client says if its time was over, and what is known of it.
_STALLED = "the connection stalled"
_TIME_OVER = "its time was over, and a longer 'timeout' gives it more"
_SHORT = ": the transfer was over too soon to use it, so transfer more data"
_LITTLE_LEFT = ": transfer more data, so that more is left to send when the path becomes usable"


class ReportError(ValueError):
    """The output of the client is incomplete."""


class ClientReport(Frozen):
    """The lines of a client.

    - events: its lines by the value of `event`, in order.
    - offset_ns: the client's start, from time zero. The client counts from its own start.
    """

    events: Mapping[str, Sequence[Mapping[str, Any]]]
    offset_ns: int

    @property
    def requests(self) -> Sequence[Mapping[str, Any]]:
        return self.events.get("request", ())

    @property
    def handshake_s(self) -> float | None:
        """The time from the client's start until the handshake was complete; None if it never was."""
        connected = self.events.get("connected")
        return connected[0]["at_ns"] / 1e9 if connected else None

    @property
    def end(self) -> Mapping[str, Any] | None:
        """The totals and the figures of each path; None if the client ended without them."""
        return self.events["end"][0] if "end" in self.events else None


def read_report(lines: Iterable[str], zero_ns: int) -> ClientReport:
    """Read the lines of a client. Raises ReportError."""
    try:
        events = gather((event["event"], event) for event in map(json.loads, lines))
    except ValueError as problem:
        raise ReportError(f"its output is not whole: {problem}") from None
    return ClientReport(events, events["begin"][0]["monotonic_ns"] - zero_ns if "begin" in events else 0)


def explain(standard_error: str) -> str:
    """Return the reason why a client ended, from its standard error."""
    said = standard_error.strip().splitlines()
    reason = strip_name(said[-1]) if said else "it ended without any output"
    # the client does not know whether data arrived up to the end of its time
    return reason.removesuffix(_STALLED) + _TIME_OVER if reason.endswith(_STALLED) else reason


def strip_name(line: str) -> str:
    """Return a message of a client without the name of its program."""
    for stack in STACKS.values():
        line = line.removeprefix(f"{stack.executable}: ")
    return line


def add_facts(flow: Flow, outputs: Outputs, report: ClientReport, result: Result) -> Result:
    """Return the result of a flow with the facts of its connection: handshake, paths, and movement of the data."""
    values = {} if report.handshake_s is None else {"handshake": report.handshake_s}
    tables = dict(result.tables)
    if report.end is not None:
        values["paths"] = sum(path["validated"] for path in report.end["paths"])
        tables["paths"] = _tell_paths(report.end["paths"])
    return replace(
        result,
        values={**result.values, **values},
        tables=tables,
        paths=_measure_paths(flow, report, outputs.log(f"{flow.name}.server")),
        movement=_find_movement(report),
    )


def _measure_paths(flow: Flow, report: ClientReport, server_log: str) -> tuple[PathUse, ...]:
    """Return what each path carried. Empty if the connection was never established.

    server_log: the output of the server. It has the counts of data that the server sent.
    """
    if report.end is None or report.handshake_s is None:
        return ()
    paths = report.end["paths"]
    validated = {(event["local"], event["remote"]): event["at_ns"] / 1e9 for event in report.events.get("path", ())}
    # the handshake validates the first path (RFC 9000 8.1)
    for first in paths[:1]:
        validated.setdefault((first["local"], first["remote"]), report.handshake_s)
    sent, received = (sum(path[f"{way}_stream_bytes"] for path in paths) for way in ("sent", "received"))
    is_forward = sent > received
    senders = _senders(report.end if is_forward else _closed(server_log), is_forward)
    return tuple(_use(flow, report.end, path, validated, senders) for path in paths)


def _closed(log: str) -> Mapping[str, Any]:
    """Return the server's report at the close of the connection.

    It has no paths if the report is missing or incomplete.
    """
    try:
        events: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines()]
    except ValueError:
        events = []
    return next((event for event in events if event["event"] == "closed"), {"paths": []})


def _senders(event: Mapping[str, Any], is_client: bool) -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Return an end's figures for each path that it sent on, by (address of the client, of the server)."""
    ends = ("local", "remote") if is_client else ("remote", "local")
    return {(path[ends[0]], path[ends[1]]): path for path in event["paths"] if path["sent_packets"]}


def _find_movement(report: ClientReport) -> Movement | None:
    """Return the time from the first request to the end of the last answer, or until the client gave up."""
    if report.end is None or not report.end["first_request_ns"]:
        return None
    began_ns, ended_ns = (report.end[name] + report.offset_ns for name in ("first_request_ns", "end_ns"))
    standstills = report.events.get("standstill", ())
    stood = [(event["at_ns"] + report.offset_ns, event["to_ns"] + report.offset_ns) for event in standstills]
    return Movement(began_ns, max([ended_ns, *(until for _, until in stood)]), stood)


def _use(
    flow: Flow,
    end: Mapping[str, Any],
    path: Mapping[str, Any],
    validated: Mapping[Any, float],
    senders: Mapping[tuple[str, str], Mapping[str, Any]],
) -> PathUse:
    """Return the payload of a path, and a failure if it is less than requested.

    senders: figures of the end that sent more. It sends data that it considers lost again in another packet.
    """
    ends, paths = (path["local"], path["remote"]), flow.paths if isinstance(flow, AddressedFlow) else ()
    use = PathUse(*ends, path["sent_stream_bytes"], path["received_stream_bytes"], joined_s=validated.get(ends))
    if sender := senders.get(ends):
        srtt_s = sender["smoothed_rtt_ns"] / 1e9
        use = replace(use, srtt_s=srtt_s, resent=sender["lost_packets"], resent_bytes=sender["lost_bytes"])
    if not flow.options["multipath"]:
        return use
    if not end["multipath"]:
        return use.fail(f"multipath was not negotiated (transport parameter {stack_of(flow).parameter})")
    if not path["validated"]:
        # the server's identifiers take a round trip, and so does the answer to PATH_CHALLENGE
        is_short = end["end_ns"] - end["first_request_ns"] < 3 * end["paths"][0]["least_rtt_ns"]
        idle_ns = next((one.rtt_ns for one in paths if one.ends == ends), 0)
        is_late = stack_of(flow) is STACKS["tquic"] and path["received_packets"] and idle_ns > LATE_NS
        return use.fail(f"{_explain_invalid(path)}{_SHORT if is_short else _LATE if is_late else ''}")
    if use.forward_bytes or use.reverse_bytes:
        return use
    at = f" (it was usable from {validated[ends]:.3f} s on, and all was done at {end['end_ns'] / 1e9:.3f} s)"
    is_short = ends in validated and end["end_ns"] - validated[ends] * 1e9 < path["least_rtt_ns"]
    nothing = f"it carried nothing{at if ends in validated else ''}{_SHORT if is_short else ''}"
    policies = schedulers_of(flow).values()
    if any(policy in ("roundrobin", "redundant") for policy in policies):
        return use.fail(nothing + ("" if is_short else _LITTLE_LEFT))
    if all(policy == "lowest-rtt" for policy in policies):
        why = ": lowest-rtt leaves a path alone while one of a shorter round trip has room"
        return use.warn(f"{nothing}{'' if is_short else why}")
    return use


def _explain_invalid(path: Mapping[str, Any]) -> str:
    if path["state"] == "unknown":
        return "it was never tried: the server gave no connection identifier for it, or the connection ended before"
    if path["received_packets"]:
        return "its validation was not over when the connection ended"
    return f"no answer came over it to {path['sent_packets']} packets with PATH_CHALLENGE (RFC 9000 8.2)"


def _tell_paths(paths: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each path, with the counts of the client's library. sent: to the server."""
    names = (
        *("sent_bytes", "received_bytes", "sent_packets", "received_packets", "lost_packets"),
        *("sent_stream_bytes", "received_stream_bytes", "smoothed_rtt_ns", "least_rtt_ns"),
    )
    rows = ((path["local"], path["remote"], *(path[name] for name in names)) for path in paths)
    return tool.tabulate(("source", "destination", *names), rows)
