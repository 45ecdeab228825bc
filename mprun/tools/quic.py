# SPDX-License-Identifier: Apache-2.0
"""`quic`: requests and answers over QUIC, on one path or several (RFC 9000, multipath as the library tquic has it).

Client and server are one program of ours, mprun-quic, which `mprun tools install quic` builds. The client
sends one request after the other; a transfer in bulk is one request for much. What each path carried is what
the library counted: payload of STREAM frames, those that were sent again included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.capabilities import Capabilities
from mprun.errors import SpecError
from mprun.plan import Process, Ready
from mprun.spec.fault import name_nearest
from mprun.spec.field import VOLUME_SCHEMA, Time, Whole
from mprun.spec.flow import ServedEntry, Size
from mprun.spec.metric import Metric, delays
from mprun.spec.model import refuse
from mprun.spec.spec import Flow
from mprun.spec.units import NS_PER_MS, VOLUME
from mprun.tools.tool import (
    BUILT,
    Endpoints,
    Outputs,
    PathUse,
    Program,
    Result,
    Table,
    Work,
    kept,
    summarize_delays,
)

EXECUTABLE = "mprun-quic"
PROGRAMS = {EXECUTABLE: Program("", "--version", "mprun tools install quic")}
PORTS = 1
METRICS = {
    "goodput": Metric("rate", "bytes of all answers, from the first request to the end of the last answer"),
    "bytes": Metric("size", "bytes of all answers"),
    "completion": Metric("time", "from the first packet to the end of the last answer, the handshake included"),
    "handshake": Metric("time", "from the first packet until the handshake was complete"),
    "paths": Metric("count", "paths that both ends have validated (RFC 9000 8.2)"),
    "share": Metric("ratio", "share of the payload that a path carried, in the direction that had more", by_path=True),
    "share.forward": Metric("ratio", "share of the payload that a path carried to the server", by_path=True),
    "share.reverse": Metric("ratio", "share of the payload that a path carried to the client", by_path=True),
    **delays("delay", "time from a request to the end of its answer"),
}

FOLDER = f"{BUILT}/quic"
KEY_LOG = "tls-keys.log"
# The library keeps connection identifiers for so many paths.
MOST_PATHS = 8
DEFAULT_TIMEOUT_NS = 300_000_000_000
# An end that hears nothing for so long gives up.
IDLE_NS = 10_000_000_000
# BoringSSL takes random numbers from the processor (RDRAND) unless told that there is no such instruction; then it
# takes the kernel's, which are seeded in simulated time.
ENVIRONMENT = {"OPENSSL_ia32cap": "~0x4000000000000000"}

Policy = str | Mapping[str, object]
SCHEDULERS = ("lowest-rtt", "roundrobin", "redundant")


def _parse_policy(value: object) -> Policy:
    if isinstance(value, dict):
        number = value.get("prefer")
        if set(value) == {"prefer"} and isinstance(number, int) and not isinstance(number, bool) and number >= 0:
            return {"prefer": number}
        raise ValueError("prefers no path: write its number from 0 on, as in '{prefer: 0}'")
    if not isinstance(value, str) or value not in SCHEDULERS:
        hint = name_nearest(str(value), (*SCHEDULERS, "{prefer: 0}"), "schedulers")
        raise ValueError(f"no scheduler '{value}'{hint}")
    return value


def _parse_schedulers(value: object) -> Mapping[str, Policy]:
    """The scheduler of each end."""
    if isinstance(value, dict) and value and set(value) <= {"client", "server"}:
        return {end: _parse_policy(value.get(end, SCHEDULERS[0])) for end in ("client", "server")}
    policy = _parse_policy(value)
    return {"client": policy, "server": policy}


def _parse_body(value: object) -> int:
    return VOLUME.parse(value)


_POLICY_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"enum": list(SCHEDULERS)},
        {
            "type": "object",
            "properties": {"prefer": {"type": "integer", "minimum": 0}},
            "required": ["prefer"],
            "additionalProperties": False,
        },
    ]
}
_ENDS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"client": _POLICY_SCHEMA, "server": _POLICY_SCHEMA},
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
    size_bytes: Size = Field(alias="size", description="Bytes of an answer.", examples=["5mb"])
    requests: Annotated[int, Whole(1, 100_000, "a run shows no more")] = Field(1, description="How many requests.")
    body_bytes: Annotated[int, PlainValidator(_parse_body), WithJsonSchema(VOLUME_SCHEMA)] = Field(
        0, alias="body", description="Bytes that a request carries. Default: none."
    )
    think_ns: Time = Field(0, alias="think", description="From an answer to the next request. Default: 0s.")
    multipath: bool = Field(False, description="Use every path between the hosts.")
    scheduler: Schedulers | None = Field(
        None,
        description="Which path a packet takes: lowest-rtt, roundrobin, redundant or {prefer: NUMBER}; for both ends, "
        "or {client: ..., server: ...}. Needs multipath. Default: lowest-rtt.",
    )
    congestion: Literal["cubic", "bbr", "bbr3", "copa"] = Field(
        "cubic", description="Congestion control of both ends, on each path."
    )

    @model_validator(mode="after")
    def _agree(self) -> Entry:
        if self.scheduler is not None and not self.multipath:
            raise refuse({("scheduler",): "has nothing to choose from on one path: write 'multipath: true'"}, self)
        return self


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """The server, bound to each of its addresses, and the client. Raises SpecError for paths that are not there."""
    pairs = ends.pairs if flow.options["multipath"] else ends.pairs[:1]
    _check_paths(flow, len(pairs))
    return Work(clients=(_client(flow, ends, pairs),), servers=(_server(flow, ends, pairs),))


def _check_paths(flow: Flow, paths: int) -> None:
    place = f"traffic.{flow.name}"
    if paths > MOST_PATHS:
        raise SpecError(f"{place}.multipath: {paths} paths, and a connection has {MOST_PATHS} at most: use fewer")
    for end, policy in _schedulers(flow).items():
        number = policy.get("prefer") if isinstance(policy, Mapping) else None
        if isinstance(number, int) and number >= paths:
            raise SpecError(f"{place}.scheduler: the {end} prefers path {number}: write a number from 0 to {paths - 1}")


def _schedulers(flow: Flow) -> Mapping[str, Policy]:
    """The scheduler of each end; empty on a single path."""
    if not flow.options["multipath"]:
        return {}
    given = flow.options.get("scheduler")
    return given if isinstance(given, Mapping) else dict.fromkeys(("client", "server"), SCHEDULERS[0])


def _server(flow: Flow, ends: Endpoints, pairs: Sequence[tuple[str, str]]) -> Process:
    argv = [f"{FOLDER}/{EXECUTABLE}", "server"]
    for address in dict.fromkeys(destination for _, destination in pairs):
        argv += ["--listen", _socket(address, ends.port)]
    argv += ["--certificate", f"{FOLDER}/certificate.pem", "--key", f"{FOLDER}/key.pem"]
    return Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=(*argv, *_shared(flow, "server", [(destination, source) for source, destination in pairs])),
        env=ENVIRONMENT,
        role="server",
        ready=Ready("output", "listening"),
    )


def _client(flow: Flow, ends: Endpoints, pairs: Sequence[tuple[str, str]]) -> Process:
    options: Mapping[str, Any] = flow.options
    timeout_ns = flow.timeout_ns or DEFAULT_TIMEOUT_NS
    argv = [f"{FOLDER}/{EXECUTABLE}", "client"]
    for source, destination in pairs:
        argv += ["--path", f"{source},{_socket(destination, ends.port)}"]
    argv += ["--requests", str(options["requests"]), "--size", str(options["size_bytes"])]
    argv += ["--body", str(options["body_bytes"]), "--think-us", str(options["think_ns"] // 1000)]
    argv += ["--timeout-ms", str(timeout_ns // NS_PER_MS), "--keylog", kept(flow, KEY_LOG)]
    return Process(
        name=flow.name,
        node=flow.source,
        argv=(*argv, *_shared(flow, "client", pairs)),
        env=ENVIRONMENT,
        role="flow",
        timeout_ns=timeout_ns,
        keeps=(kept(flow, KEY_LOG),),
    )


def _shared(flow: Flow, end: str, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """What both ends are told. pairs: (own address, the peer's) of each path."""
    think_ns = flow.options["think_ns"]
    assert isinstance(think_ns, int)
    argv = ["--congestion", flow.congestion or "cubic", "--idle-timeout-ms"]
    argv.append(str((IDLE_NS + think_ns) // NS_PER_MS))
    policy = _schedulers(flow).get(end)
    if isinstance(policy, Mapping):
        number = policy["prefer"]
        assert isinstance(number, int)
        argv += ["--scheduler", f"prefer={','.join(pairs[number])}"]
    elif policy is not None:
        argv += ["--scheduler", policy]
    return argv


def _socket(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Delays, rates and what each path carried, from the client's JSON lines."""
    try:
        events: list[dict[str, Any]] = [json.loads(line) for line in outputs.log(flow.name).splitlines()]
    except ValueError as fault:
        return Result(error=f"its output is not whole: {fault}")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    requests = by_kind.get("request", [])
    tables = {"requests": _requests_table(requests, by_kind.get("begin", []), outputs.zero_ns)}
    values = summarize_delays("delay", [request["delay_us"] * 1000 for request in requests])
    if "connected" in by_kind:
        values["handshake"] = by_kind["connected"][0]["at_us"] / 1e6
    said = outputs.log(flow.name, "err").strip().splitlines()
    cause = said[-1].removeprefix(f"{EXECUTABLE}: ") if said else "it ended without a word"
    if "end" not in by_kind:
        return Result(values, error=cause, tables=tables)
    end = by_kind["end"][0]
    validated = {(event["local"], event["remote"]): event["at_us"] / 1e6 for event in by_kind.get("path", [])}
    tables["paths"] = _paths_table(end["paths"])
    values["paths"] = sum(path["validated"] for path in end["paths"])
    elapsed_us = end["end_us"] - end["first_request_us"]
    if end["requests"] == flow.options["requests"] and elapsed_us > 0:
        values |= {"bytes": end["bytes"], "completion": end["end_us"] / 1e6, "goodput": end["bytes"] * 8e6 / elapsed_us}
    is_connected = "connected" in by_kind
    return Result(
        values,
        error=None if "bytes" in values else cause,
        tables=tables,
        paths=tuple(_use(flow, end, path, validated) for path in end["paths"] if is_connected),
    )


def _use(flow: Flow, end: Mapping[str, Any], path: Mapping[str, Any], validated: Mapping[Any, float]) -> PathUse:
    """What a path carried, and what is wrong if it is less than was asked for."""
    ends = (path["local"], path["remote"])
    use = PathUse(*ends, path["sent_stream_bytes"], path["received_stream_bytes"])
    if not flow.options["multipath"]:
        return use
    if not end["multipath"]:
        return use.fail("multipath was not negotiated (transport parameter enable_multipath)")
    if not path["validated"]:
        return use.fail(_explain_invalid(path))
    if use.forward_bytes or use.reverse_bytes:
        return use
    at = f" (it was usable from {validated[ends]:.3f} s on, and all was done at {end['end_us'] / 1e6:.3f} s)"
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


def _requests_table(requests: Sequence[Mapping[str, Any]], begin: Sequence[Mapping[str, Any]], zero_ns: int) -> Table:
    """A row for each request; times from time zero."""
    offset_s = (begin[0]["monotonic_ns"] - zero_ns) / 1e9 if begin else 0.0
    return {
        "number": [request["number"] for request in requests],
        "start_s": [offset_s + request["at_us"] / 1e6 for request in requests],
        "delay_s": [request["delay_us"] / 1e6 for request in requests],
        "bytes": [request["bytes"] for request in requests],
    }


def _paths_table(paths: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each path, as the client's library counted; sent: to the server."""
    counted = (
        *("sent_bytes", "received_bytes", "sent_packets", "received_packets", "lost_packets"),
        *("sent_stream_bytes", "received_stream_bytes"),
    )
    return {
        "source": [path["local"] for path in paths],
        "destination": [path["remote"] for path in paths],
        **{name: [path[name] for path in paths] for name in counted},
        "smoothed_rtt_s": [path["smoothed_rtt_us"] / 1e6 for path in paths],
        "least_rtt_s": [path["least_rtt_us"] / 1e6 for path in paths],
    }
