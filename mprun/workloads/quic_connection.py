# SPDX-License-Identifier: Apache-2.0
"""A QUIC connection of one of our programs mprun-quic and mprun-noq, for the workloads that use one.

It knows the keys of an entry for the connection (paths, schedulers, qlog), and the arguments of client and server.
`quic_report` reads the lines that both print. The requests are left to the workloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from mprun.inputs.keys.field import parsed
from mprun.inputs.keys.file_model import KeyProblem
from mprun.model import engine_paths
from mprun.model.frozen import Frozen
from mprun.model.metric import OF_HANDOVER, OF_PATHS, Metric, Metrics, less
from mprun.model.path import NamedPath
from mprun.model.plan import Process, Ready
from mprun.model.problem import name_nearest, tell_unknown
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_MS
from mprun.workloads import certificate, tool
from mprun.workloads.tool import Endpoints, Program, Work


class QuicStack(Frozen):
    """A QUIC library and our program on it.

    - tool: the name of the program for `mprun tools install`.
    - congestion: its congestion controls.
    - parameter: the transport parameter that both ends send to negotiate multipath; empty without multipath.
    - declares_backups: a path can be declared a backup (PATH_STATUS_BACKUP of draft-ietf-quic-multipath).
    - cases: the test cases that its ends can do (`CASE_ENDS`).
    """

    tool: str
    congestion: tuple[str, ...]
    parameter: str
    declares_backups: bool
    cases: frozenset[str]

    @property
    def executable(self) -> str:
        return f"mprun-{self.tool}"

    @property
    def path(self) -> str:
        """The program's path inside the engine."""
        return f"{engine_paths.TOOLS}/{self.tool}/{self.executable}"


TestCase = Literal[
    "transfer",
    "multiconnect",
    "retry",
    "resumption",
    "zerortt",
    "keyupdate",
    "chacha20",
    "v2",
    "versionnegotiation",
]
# The ends that a test case asks for more than a transfer.
CASE_ENDS: Mapping[str, tuple[str, ...]] = {
    "retry": ("server",),
    **dict.fromkeys(("multiconnect", "resumption", "keyupdate", "versionnegotiation"), ("client",)),
    **dict.fromkeys(("zerortt", "chacha20", "v2"), ("client", "server")),
}
_COMMON_CASES = frozenset(("multiconnect", "retry", "resumption", "zerortt", "keyupdate", "chacha20"))
STACKS = {
    "tquic": QuicStack("quic", ("cubic", "bbr", "bbr3", "copa"), "enable_multipath", False, _COMMON_CASES),
    "noq": QuicStack("noq", ("cubic", "reno", "bbr3"), "initial_max_path_id", True, _COMMON_CASES),
    "aioquic": QuicStack("aioquic", ("cubic", "reno"), "", False, _COMMON_CASES | {"v2", "versionnegotiation"}),
}
DEFAULT_STACK = "tquic"
# What a capture of the server shows, by names of `mprun.captures.quic_observation`.
SEEN: Metrics = {
    "seen.handshakes": Metric("count", "connections with a Handshake packet of the server, in its capture"),
    "seen.flight": Metric(
        "size",
        "fewest bytes of Handshake packets that the server sent on a connection; a resumed one has no certificate",
    ),
    "seen.retries": Metric("count", "Retry packets whose token the client returned (RFC 9000 8.1.2)"),
    "seen.negotiations": Metric("count", "Version Negotiation packets of the server (RFC 9000 6)"),
    "seen.early": Metric("size", "bytes of 0-RTT packets that arrived at the server"),
    "seen.version2": Metric("ratio", "share of Handshake packets with QUIC version 2 (RFC 9369)"),
    "seen.amplification": less(
        "count",
        "most bytes that the server sent to an address, divided by the bytes from it, before the address was "
        "validated; at most 3 (RFC 9000 8.1)",
    ),
    "seen.ecn.forward": Metric("ratio", "share of the datagrams at the server that have ECT or CE (RFC 3168)"),
    "seen.ecn.reverse": Metric("ratio", "share of the server's datagrams that have ECT or CE (RFC 3168)"),
    "seen.chacha20": Metric("ratio", "share of ServerHello messages that choose ChaCha20-Poly1305; with `testcase`"),
    "seen.updated.forward": Metric(
        "ratio", "share of the 1-RTT packets to the server with key phase 1 (RFC 9001 6); with `testcase`"
    ),
    "seen.updated.reverse": Metric(
        "ratio", "share of the server's 1-RTT packets with key phase 1 (RFC 9001 6); with `testcase`"
    ),
    "seen.sources": Metric("count", "addresses and ports from which 1-RTT packets arrived at the server"),
    "seen.destinations": Metric("count", "addresses and ports to which the server sent 1-RTT packets"),
}
# Metrics of the connection's paths, which the library counts.
METRICS: Metrics = {
    "handshake": less("time", "time from the first packet until the handshake was complete"),
    "paths": Metric("count", "paths that both ends have validated (RFC 9000 8.2)"),
    **OF_PATHS,
    **OF_HANDOVER,
    "share.forward": Metric("ratio", "share of the payload that a path carried to the server", by_path=True),
    "share.reverse": Metric("ratio", "share of the payload that a path carried to the client", by_path=True),
    **SEEN,
}
KEY_LOG = "tls-keys.log"
# The events of each end as JSON text sequences (draft-ietf-quic-qlog-main-schema).
QLOGS = {"client": "client.sqlog", "server": "server.sqlog"}
# Each library keeps connection identifiers for this many paths.
MOST_PATHS = 8
# An end that receives nothing for this time gives up. In a test case, many packets in a row may be damaged, and an end
# doubles the time between its probes (RFC 9002 6.2.1).
IDLE_NS, CASE_IDLE_NS = 10_000_000_000, 30_000_000_000

Policy = str | Mapping[str, object]
SCHEDULERS = ("lowest-rtt", "roundrobin", "redundant")


def _parse_policy(value: object) -> Policy:
    if isinstance(value, dict):
        [(key, number)] = value.items() if len(value) == 1 else [("", None)]
        if key in ("prefer", "backup") and isinstance(number, int) and not isinstance(number, bool) and number >= 0:
            return {key: number}
        if "backup" in value:
            raise ValueError("declares no path a backup: write its number from 0 on, as in '{backup: 1}'")
        if "prefer" not in value:
            raise ValueError(
                "is a mapping without 'prefer', 'client' or 'server': write '{prefer: 0}' or '{client: lowest-rtt}'"
            )
        raise ValueError("prefers no path: write its number from 0 on, as in '{prefer: 0}'")
    if not isinstance(value, str) or value not in SCHEDULERS:
        raise ValueError(tell_unknown("scheduler", value, (*SCHEDULERS, "{prefer: 0}", "{backup: 1}")))
    return value


def _parse_schedulers(value: object) -> Mapping[str, Policy]:
    """Return the scheduler of each end."""
    if isinstance(value, dict) and value and set(value) <= {"client", "server"}:
        return {end: _parse_policy(value.get(end, SCHEDULERS[0])) for end in ("client", "server")}
    policy = _parse_policy(value)
    return {"client": policy, "server": policy}


_PREFERRED = "The number of the preferred path, from 0 on. Other paths are used if it fails."
_DECLARED = "The number of the path that the client declares a backup, from 0 on."
_POLICY_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {"enum": list(SCHEDULERS)},
        tool.mapping_schema(prefer={"type": "integer", "minimum": 0, "description": _PREFERRED}),
        tool.mapping_schema(backup={"type": "integer", "minimum": 0, "description": _DECLARED}),
    ]
}
_ENDS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        end: {**_POLICY_SCHEMA, "description": f"The scheduler for packets from the {end}.", "default": "lowest-rtt"}
        for end in ("client", "server")
    },
    "minProperties": 1,
    "additionalProperties": False,
}
Schedulers = Annotated[
    Mapping[str, Policy], *parsed(_parse_schedulers, {"oneOf": [*_POLICY_SCHEMA["oneOf"], _ENDS_SCHEMA]})
]


SCHEDULER = Field(
    None,
    description="The scheduler that chooses a packet's path: lowest-rtt, roundrobin, redundant, {prefer: "
    "NUMBER} or, with `stack: noq`, {backup: NUMBER}. Write one for both ends, or {client: ..., server: ...}. It needs "
    "`multipath`. Default: lowest-rtt.",
)
NO_CHOICE = "has nothing to choose from on one path: write 'multipath: true'"
# The congestion controls of all libraries. `find_stack_problems` refuses what a library does not have.
_CONTROLS = ["cubic", "reno", "bbr", "bbr3", "copa"]
QuicCongestion = Annotated[str, WithJsonSchema({"type": "string", "enum": _CONTROLS})]
StackName = Literal["tquic", "noq", "aioquic"]
MultipathStackName = Literal["tquic", "noq"]
# The case `keyupdate` updates its keys when this much of the answers has arrived (`built/exchange/src/lib.rs`).
KEY_UPDATE_BYTES = 50_000
STACK_DESCRIPTION = (
    "The QUIC library of both ends: tquic (multipath as in draft 05) or noq (as in draft 21). Default: tquic."
)


def scheduler_of(flow: Flow, end: str) -> str | None:
    """Return the scheduler of an end as a word, as in `lowest-rtt` or `prefer=0`; None on a single path."""
    policy = schedulers_of(flow).get(end)
    if isinstance(policy, Mapping):
        [(key, number)] = policy.items()
        return f"{key}={number}"
    return policy


def stack_of(flow: Flow, end: str = "client") -> QuicStack:
    """Return the library of an end of a flow."""
    server = flow.options.get("server_stack") if end == "server" else None
    return STACKS[str(server or flow.options.get("stack") or DEFAULT_STACK)]


def programs(flow: Flow) -> Mapping[str, Program]:
    """Return the programs that a flow over QUIC starts."""
    stacks = [stack_of(flow, end) for end in ("client", "server")]
    built = {one.executable: Program("", "--version", f"mprun tools install {one.tool}") for one in stacks}
    return {**built, **certificate.PROGRAMS}


def find_stack_problems(
    name: str | None, congestion: str | None, schedulers: Mapping[str, Policy] | None, multipath: bool
) -> Iterator[KeyProblem]:
    """Yield the problems of keys that the stack of this name does not have."""
    stack = STACKS[name or DEFAULT_STACK]
    if congestion is not None and congestion not in stack.congestion:
        hint = name_nearest(congestion, stack.congestion, "write one of")
        yield "congestion", f"the stack {name or DEFAULT_STACK} has no '{congestion}'{hint}"
    if multipath and not stack.parameter:
        yield "multipath", f"the stack {name} has one path only: write 'stack: tquic' or 'stack: noq'"
    declaring = {end for end, policy in (schedulers or {}).items() if _number(policy, "backup") is not None}
    if declaring and not stack.declares_backups:
        yield "scheduler", "declares a backup, which only one stack can: write 'stack: noq'"
    elif declaring == {"server"}:
        yield "scheduler", "has a backup for the server alone, but the client declares it: write it for both ends"


def find_case_problems(case: str, client: str, server: str) -> Iterator[KeyProblem]:
    """Yield the problem of a test case that the stack of an end cannot do."""
    for end in CASE_ENDS.get(case, ()):
        stack = client if end == "client" else server
        if case not in STACKS[stack].cases:
            able = [name for name, one in STACKS.items() if case in one.cases]
            yield "testcase", f"the {end} on {stack} cannot do '{case}': take {' or '.join(able)} for it"


def case_arguments(flow: Flow, end: str) -> list[str]:
    """Return the arguments of an end for the test case of its flow."""
    case = str(flow.options.get("testcase") or "")
    return ["--testcase", case] if end in CASE_ENDS.get(case, ()) else []


def check_paths(flow: Flow, paths: Sequence[NamedPath]) -> Iterator[tuple[str, str]]:
    """Yield problems of schedulers that prefer a missing path, and of more paths than a connection may have."""
    if not flow.options["multipath"]:
        return
    if len(paths) > MOST_PATHS:
        yield "multipath", f"has {len(paths)} paths, and a connection has {MOST_PATHS} at most: join the hosts by fewer"
    for end, policy in schedulers_of(flow).items():
        for key, does in (("prefer", "prefers"), ("backup", "declares as backup")):
            number = _number(policy, key)
            if number is not None and number >= len(paths):
                there = ", ".join(f"{n} ({path.name})" for n, path in enumerate(paths))
                yield "scheduler", f"the {end} {does} path {number}, which does not exist: write one of {there}"


def schedulers_of(flow: Flow) -> Mapping[str, Policy]:
    """Return the scheduler of each end; empty on a single path."""
    if not flow.options["multipath"]:
        return {}
    given = flow.options.get("scheduler")
    return given if isinstance(given, Mapping) else dict.fromkeys(("client", "server"), SCHEDULERS[0])


def _number(policy: Policy | None, key: str) -> int | None:
    """Return the number of the path that a scheduler has for `prefer` or `backup`; None if it has none."""
    number = policy.get(key) if isinstance(policy, Mapping) else None
    return number if isinstance(number, int) else None


def work(flow: Flow, ends: Endpoints, requests: Sequence[str], pause_ns: int) -> Work:
    """Return a preparation for the certificate, the server (bound to each of its addresses), and the client.

    - requests: the arguments of the client that describe its requests.
    - pause_ns: the longest time from an answer to the next request.
    """
    pairs = ends.pairs if flow.options["multipath"] else ends.pairs[:1]
    # BoringSSL, on which tquic is built, does not offer Ed25519 by default
    preparation = certificate.make_certificate(flow, ends.destination_address, certificate.P256)
    client = _client(flow, ends.port, pairs, requests, pause_ns)
    server = _server(flow, ends.port, pairs, pause_ns)
    return Work((client,), (server,), (preparation,))


def _client(flow: Flow, port: int, pairs: Sequence[tuple[str, str]], requests: Sequence[str], pause_ns: int) -> Process:
    argv = [stack_of(flow).path, "client"]
    for source, destination in pairs:
        argv += ["--path", f"{source},{tool.join_port(destination, port)}"]
    number = _number(schedulers_of(flow).get("client"), "backup")
    if number is not None:
        argv += ["--backup", ",".join(pairs[number])]
    keys = tool.kept(flow, KEY_LOG)
    argv += [*requests, "--timeout-ms", str(tool.time_limit_of(flow) // NS_PER_MS), "--keylog", keys]
    argv += [*case_arguments(flow, "client"), *_shared(flow, "client", pairs, pause_ns)]
    return tool.make_client(flow, argv, env=_environment(flow), keeps=(keys, *_qlog_of(flow, "client")))


def _server(flow: Flow, port: int, pairs: Sequence[tuple[str, str]], pause_ns: int) -> Process:
    argv = [stack_of(flow, "server").path, "server"]
    for address in dict.fromkeys(destination for _, destination in pairs):
        argv += ["--listen", tool.join_port(address, port)]
    argv += ["--certificate", certificate.certificate_of(flow), "--key", certificate.key_of(flow)]
    argv += case_arguments(flow, "server")
    argv += _shared(flow, "server", [(destination, source) for source, destination in pairs], pause_ns)
    ready, keeps = Ready("output", "listening"), _qlog_of(flow, "server")
    return tool.make_server(flow, argv, ready, env=_environment(flow), keeps=keeps)


def _environment(flow: Flow) -> Mapping[str, str]:
    """Return the environment of both ends. BoringSSL prefers ChaCha20 on a processor without instructions for AES."""
    return certificate.WITHOUT_AES if flow.options.get("testcase") == "chacha20" else certificate.DETERMINISTIC


def _qlog_of(flow: Flow, end: str) -> tuple[str, ...]:
    """Return the file with the events of an end; none if the flow keeps none."""
    return (tool.kept(flow, QLOGS[end]),) if flow.options.get("qlog") else ()


def _shared(flow: Flow, end: str, pairs: Sequence[tuple[str, str]], pause_ns: int) -> list[str]:
    """Return the arguments that both ends share. pairs: (own address, the peer's address) of each path."""
    argv = ["--congestion", flow.congestion or "cubic", "--idle-timeout-ms"]
    idle_ns = CASE_IDLE_NS if flow.options.get("testcase") else IDLE_NS
    argv.append(str((idle_ns + pause_ns) // NS_PER_MS))
    policy = schedulers_of(flow).get(end)
    number = _number(policy, "prefer")
    if number is not None:
        argv += ["--scheduler", f"prefer={','.join(pairs[number])}"]
    elif policy is not None:
        argv += ["--scheduler", policy if isinstance(policy, str) else "backup"]
    return [*argv, *(word for file in _qlog_of(flow, end) for word in ("--qlog", file))]
