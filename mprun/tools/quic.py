# SPDX-License-Identifier: Apache-2.0
"""`quic`: requests and answers over QUIC, on one path or several (RFC 9000, multipath as in the library tquic).

Client and server are our program mprun-quic, which `mprun tools install quic` builds. The client sends one request
after the other. A bulk transfer is one request for many bytes. The library counts what each path carried: payload of
STREAM frames, including retransmissions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun import inside
from mprun.capabilities import Capabilities
from mprun.model.fault import tell_unknown
from mprun.model.metric import OF_HANDOVER, OF_PATHS, Metric, delays
from mprun.model.path import NamedPath
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_MS, VOLUME
from mprun.plan import Process, Ready
from mprun.schema.field import VOLUME_SCHEMA, Time, Whole
from mprun.schema.file_model import refuse
from mprun.schema.flow import ServedEntry, Size
from mprun.tools import certificate
from mprun.tools.account import tell_requests
from mprun.tools.tool import (
    Endpoints,
    Movement,
    Outputs,
    PathUse,
    Portion,
    Program,
    Result,
    Table,
    Work,
    kept,
)

EXECUTABLE = "mprun-quic"
PROGRAMS = {EXECUTABLE: Program("", "--version", "mprun tools install quic"), **certificate.PROGRAMS}
PORTS = 1
METRICS = {
    "goodput": Metric(
        "rate",
        "bytes of all answers, divided by the time from the first request to the end of the last answer",
        over="sum",
        better="higher",
    ),
    "requests": Metric("count", "requests that were answered", over="sum"),
    "bytes": Metric("size", "bytes of all answers", over="sum"),
    "completion": Metric(
        "time", "time from the first packet to the end of the last answer, including the handshake", better="lower"
    ),
    "handshake": Metric("time", "time from the first packet until the handshake was complete", better="lower"),
    "paths": Metric("count", "paths that both ends have validated (RFC 9000 8.2)"),
    **OF_PATHS,
    **OF_HANDOVER,
    "share.forward": Metric("ratio", "share of the payload that a path carried to the server", by_path=True),
    "share.reverse": Metric("ratio", "share of the payload that a path carried to the client", by_path=True),
    **delays("delay", "time from a request to the end of its answer"),
}

FOLDER = f"{inside.TOOLS}/quic"
KEY_LOG = "tls-keys.log"
# The events of each end as JSON text sequences (draft-ietf-quic-qlog-main-schema).
CLIENT_QLOG, SERVER_QLOG = "client.sqlog", "server.sqlog"
# The library keeps connection identifiers for this many paths.
MOST_PATHS = 8
DEFAULT_TIMEOUT_NS = 300_000_000_000
# An end that receives nothing for this time gives up.
IDLE_NS = 10_000_000_000

Policy = str | Mapping[str, object]
SCHEDULERS = ("lowest-rtt", "roundrobin", "redundant")


def _parse_policy(value: object) -> Policy:
    if isinstance(value, dict):
        number = value.get("prefer")
        if set(value) == {"prefer"} and isinstance(number, int) and not isinstance(number, bool) and number >= 0:
            return {"prefer": number}
        if "prefer" not in value:
            raise ValueError(
                "is a mapping without 'prefer', 'client' or 'server': write '{prefer: 0}' or '{client: lowest-rtt}'"
            )
        raise ValueError("prefers no path: write its number from 0 on, as in '{prefer: 0}'")
    if not isinstance(value, str) or value not in SCHEDULERS:
        raise ValueError(tell_unknown("scheduler", value, (*SCHEDULERS, "{prefer: 0}")))
    return value


def _parse_schedulers(value: object) -> Mapping[str, Policy]:
    """Return the scheduler of each end."""
    if isinstance(value, dict) and value and set(value) <= {"client", "server"}:
        return {end: _parse_policy(value.get(end, SCHEDULERS[0])) for end in ("client", "server")}
    policy = _parse_policy(value)
    return {"client": policy, "server": policy}


_POLICY_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"enum": list(SCHEDULERS)},
        {
            "type": "object",
            "properties": {
                "prefer": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The number of the preferred path, from 0 on. Other paths are used if it fails.",
                }
            },
            "required": ["prefer"],
            "additionalProperties": False,
        },
    ]
}
_ENDS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "client": {
            **_POLICY_SCHEMA,
            "description": "The scheduler for packets from the client.",
            "default": "lowest-rtt",
        },
        "server": {
            **_POLICY_SCHEMA,
            "description": "The scheduler for packets from the server.",
            "default": "lowest-rtt",
        },
    },
    "minProperties": 1,
    "additionalProperties": False,
}
Schedulers = Annotated[
    Mapping[str, Policy],
    PlainValidator(_parse_schedulers),
    WithJsonSchema({"oneOf": [*_POLICY_SCHEMA["oneOf"], _ENDS_SCHEMA]}),
]


class Entry(ServedEntry):
    """Requests and answers over QUIC, one after the other on one connection."""

    tool: Literal["quic"] = Field(description="The tool.")
    protocol: Literal["quic"] = Field("quic", description="The transport protocol.")
    response_bytes: Size = Field(alias="response", description="The size of an answer.", examples=["5mb"])
    requests: Annotated[int, Whole(1, 100_000, "a run shows no more")] = Field(1, description="The number of requests.")
    request_bytes: Annotated[int, PlainValidator(VOLUME.parse), WithJsonSchema(VOLUME_SCHEMA)] = Field(
        0,
        alias="request",
        description="The size of a request, in addition to the line that asks for the answer. Default: 0bytes.",
    )
    think_ns: Time = Field(0, alias="think", description="The time from an answer to the next request. Default: 0s.")
    multipath: bool = Field(False, description="Use every path between the hosts.")
    scheduler: Schedulers | None = Field(
        None,
        description="The scheduler that chooses a packet's path: lowest-rtt, roundrobin, redundant or {prefer: "
        "NUMBER}. Write one for both ends, or {client: ..., server: ...}. It needs `multipath`. "
        "Default: lowest-rtt.",
    )
    congestion: Literal["cubic", "bbr", "bbr3", "copa"] = Field(
        "cubic", description="The congestion control of both ends, on each path."
    )
    qlog: bool = Field(
        False,
        description="Keep the events of client and server as qlog: packets, recovery and congestion control.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Entry:
        if self.scheduler is not None and not self.multipath:
            raise refuse({("scheduler",): "has nothing to choose from on one path: write 'multipath: true'"}, self)
        return self


def check_paths(flow: Flow, paths: Sequence[NamedPath]) -> Iterator[tuple[str, str]]:
    """Yield faults of schedulers that prefer a missing path, and of more paths than a connection may have."""
    if not flow.options["multipath"]:
        return
    if len(paths) > MOST_PATHS:
        yield "multipath", f"has {len(paths)} paths, and a connection has {MOST_PATHS} at most: join the hosts by fewer"
    for end, policy in _schedulers(flow).items():
        number = _preferred(policy)
        if number is not None and number >= len(paths):
            there = ", ".join(f"{n} ({path.name})" for n, path in enumerate(paths))
            yield "scheduler", f"the {end} prefers path {number}, which does not exist: write one of {there}"


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a preparation for the certificate, the server (bound to each of its addresses), and the client."""
    pairs = ends.pairs if flow.options["multipath"] else ends.pairs[:1]
    # BoringSSL, on which the library is built, does not offer Ed25519 by default
    preparation = certificate.make_certificate(flow, ends.destination_address, certificate.P256)
    return Work((_client(flow, ends, pairs),), (_server(flow, ends, pairs),), (preparation,))


def _schedulers(flow: Flow) -> Mapping[str, Policy]:
    """Return the scheduler of each end; empty on a single path."""
    if not flow.options["multipath"]:
        return {}
    given = flow.options.get("scheduler")
    return given if isinstance(given, Mapping) else dict.fromkeys(("client", "server"), SCHEDULERS[0])


def _preferred(policy: Policy | None) -> int | None:
    """Return the number of the path that a scheduler prefers; None if it has none."""
    number = policy.get("prefer") if isinstance(policy, Mapping) else None
    return number if isinstance(number, int) else None


def _server(flow: Flow, ends: Endpoints, pairs: Sequence[tuple[str, str]]) -> Process:
    argv = [f"{FOLDER}/{EXECUTABLE}", "server"]
    for address in dict.fromkeys(destination for _, destination in pairs):
        argv += ["--listen", _socket(address, ends.port)]
    argv += ["--certificate", certificate.certificate_of(flow), "--key", certificate.key_of(flow)]
    return Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=(*argv, *_shared(flow, "server", [(destination, source) for source, destination in pairs])),
        env=certificate.DETERMINISTIC,
        role="server",
        ready=Ready("output", "listening"),
        keeps=(kept(flow, SERVER_QLOG),) if flow.options.get("qlog") else (),
    )


def _client(flow: Flow, ends: Endpoints, pairs: Sequence[tuple[str, str]]) -> Process:
    options: Mapping[str, Any] = flow.options
    timeout_ns = flow.timeout_ns or DEFAULT_TIMEOUT_NS
    argv = [f"{FOLDER}/{EXECUTABLE}", "client"]
    for source, destination in pairs:
        argv += ["--path", f"{source},{_socket(destination, ends.port)}"]
    argv += ["--requests", str(options["requests"]), "--response", str(options["response_bytes"])]
    argv += ["--request", str(options["request_bytes"]), "--think-ns", str(options["think_ns"])]
    argv += ["--timeout-ms", str(timeout_ns // NS_PER_MS), "--keylog", kept(flow, KEY_LOG)]
    return Process(
        name=flow.name,
        node=flow.source,
        argv=(*argv, *_shared(flow, "client", pairs)),
        env=certificate.DETERMINISTIC,
        role="flow",
        timeout_ns=timeout_ns,
        keeps=(kept(flow, KEY_LOG), *((kept(flow, CLIENT_QLOG),) if options.get("qlog") else ())),
    )


def _shared(flow: Flow, end: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the arguments that both ends share. pairs: (own address, the peer's address) of each path."""
    think_ns = flow.options["think_ns"]
    assert isinstance(think_ns, int)
    argv = ["--congestion", flow.congestion or "cubic", "--idle-timeout-ms"]
    argv.append(str((IDLE_NS + think_ns) // NS_PER_MS))
    policy = _schedulers(flow).get(end)
    number = _preferred(policy)
    if policy is not None:
        argv += ["--scheduler", str(policy) if number is None else f"prefer={','.join(pairs[number])}"]
    if flow.options.get("qlog"):
        argv += ["--qlog", kept(flow, CLIENT_QLOG if end == "client" else SERVER_QLOG)]
    return argv


def _socket(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return delays, rates and the payload of each path, from the client's JSON lines.

    The counts of data that the server sent come from the server's lines.
    """
    try:
        events: list[dict[str, Any]] = [json.loads(line) for line in outputs.log(flow.name).splitlines()]
    except ValueError as fault:
        return Result(error=f"its output is not whole: {fault}")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    requests = by_kind.get("request", [])
    # the client counts from its own start
    offset_ns = by_kind["begin"][0]["monotonic_ns"] - outputs.zero_ns if "begin" in by_kind else 0
    tables = {"requests": _requests_table(requests, offset_ns)}
    values: dict[str, float] = {"requests": len(requests)}
    delays_ns = {"delay": [request["delay_ns"] for request in requests]}
    if "connected" in by_kind:
        values["handshake"] = by_kind["connected"][0]["at_ns"] / 1e9
    said = outputs.log(flow.name, "err").strip().splitlines()
    cause = said[-1].removeprefix(f"{EXECUTABLE}: ") if said else "it ended without any output"
    if "end" not in by_kind:
        return Result(values, error=cause, tables=tables, delays_ns=delays_ns)
    end = by_kind["end"][0]
    validated = {(event["local"], event["remote"]): event["at_ns"] / 1e9 for event in by_kind.get("path", [])}
    if "connected" in by_kind:
        # the handshake validates the first path (RFC 9000 8.1)
        for first in end["paths"][:1]:
            validated.setdefault((first["local"], first["remote"]), values["handshake"])
    tables["paths"] = _paths_table(end["paths"])
    values["paths"] = sum(path["validated"] for path in end["paths"])
    elapsed_ns = end["end_ns"] - end["first_request_ns"]
    portions: dict[str, list[Portion]] = {}
    if end["requests"] == flow.options["requests"] and elapsed_ns > 0:
        values |= {"bytes": end["bytes"], "completion": end["end_ns"] / 1e9, "goodput": end["bytes"] * 8e9 / elapsed_ns}
        whole = Portion(end["first_request_ns"] + offset_ns, end["end_ns"] + offset_ns, end["bytes"])
        portions = {"goodput": [whole]}
    is_connected = "connected" in by_kind
    is_forward = _sums(end["paths"], "sent_stream_bytes") > _sums(end["paths"], "received_stream_bytes")
    senders = _senders(end if is_forward else _closed(outputs.log(f"{flow.name}.server")), is_forward)
    return Result(
        values,
        error=None if "bytes" in values else cause,
        tables=tables,
        delays_ns=delays_ns,
        paths=tuple(_use(flow, end, path, validated, senders) for path in end["paths"] if is_connected),
        movement=_movement(end, by_kind.get("standstill", []), offset_ns),
        accounts={flow.name: tell_requests(tables["requests"])},
        portions=portions,
    )


def _sums(paths: Sequence[Mapping[str, Any]], counted: str) -> int:
    return sum(path[counted] for path in paths)


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


def _movement(end: Mapping[str, Any], standstills: Sequence[Mapping[str, Any]], offset_ns: int) -> Movement | None:
    """Return the time from the first request to the end of the last answer, or until the client gave up."""
    stood = [(event["at_ns"] + offset_ns, event["to_ns"] + offset_ns) for event in standstills]
    ended_ns = max([end["end_ns"] + offset_ns, *(until for _, until in stood)])
    return Movement(end["first_request_ns"] + offset_ns, ended_ns, stood) if end["first_request_ns"] else None


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
    ends = (path["local"], path["remote"])
    use = PathUse(*ends, path["sent_stream_bytes"], path["received_stream_bytes"], joined_s=validated.get(ends))
    if sender := senders.get(ends):
        srtt_s = sender["smoothed_rtt_ns"] / 1e9
        use = replace(use, srtt_s=srtt_s, resent=sender["lost_packets"], resent_bytes=sender["lost_bytes"])
    if not flow.options["multipath"]:
        return use
    if not end["multipath"]:
        return use.fail("multipath was not negotiated (transport parameter enable_multipath)")
    if not path["validated"]:
        return use.fail(_explain_invalid(path))
    if use.forward_bytes or use.reverse_bytes:
        return use
    at = f" (it was usable from {validated[ends]:.3f} s on, and all was done at {end['end_ns'] / 1e9:.3f} s)"
    nothing = f"it carried nothing{at if ends in validated else ''}"
    policies = _schedulers(flow).values()
    if any(policy in ("roundrobin", "redundant") for policy in policies):
        return use.fail(nothing)
    if all(policy == "lowest-rtt" for policy in policies):
        return use.warn(f"{nothing}: lowest-rtt leaves a path alone while one of a shorter round trip has room")
    return use


def _explain_invalid(path: Mapping[str, Any]) -> str:
    if path["state"] == "unknown":
        return "it was never tried: the server gave no connection identifier for it, or the connection ended before"
    if path["received_packets"]:
        return "its validation was not over when the connection ended"
    return f"no answer came over it to {path['sent_packets']} packets with PATH_CHALLENGE (RFC 9000 8.2)"


def _requests_table(requests: Sequence[Mapping[str, Any]], offset_ns: int) -> Table:
    """Return a row for each request. Start times count from time zero, which is offset_ns before the client's start."""
    return {
        "sequence": [request["number"] + 1 for request in requests],
        "start_ns": [offset_ns + request["at_ns"] for request in requests],
        "delay_ns": [request["delay_ns"] for request in requests],
        "received_bytes": [request["bytes"] for request in requests],
    }


def _paths_table(paths: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each path, with the counts of the client's library. sent: to the server."""
    counted = (
        *("sent_bytes", "received_bytes", "sent_packets", "received_packets", "lost_packets"),
        *("sent_stream_bytes", "received_stream_bytes"),
    )
    return {
        "source": [path["local"] for path in paths],
        "destination": [path["remote"] for path in paths],
        **{name: [path[name] for path in paths] for name in counted},
        "smoothed_rtt_ns": [path["smoothed_rtt_ns"] for path in paths],
        "least_rtt_ns": [path["least_rtt_ns"] for path in paths],
    }
