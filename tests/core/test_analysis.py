# SPDX-License-Identifier: Apache-2.0
"""From observations to connections, causes and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mprun.captures.pcapng import CaptureContent
from mprun.metrics.capacity import Capacity, find_capacity
from mprun.metrics.capture import read_captures
from mprun.metrics.connection import (
    Connection,
    SendingEnd,
    Subflow,
    count_resent,
    find_brief,
    find_connections,
    find_refused,
)
from mprun.metrics.diagnosis import (
    explain_missing_subflows,
    explain_plain_tcp,
    explain_settings,
    has_fallen_back,
)
from mprun.metrics.evidence import Evidence, FlowOutputs
from mprun.metrics.expectation import explain_expected, judge_all
from mprun.metrics.flow import _read_connections
from mprun.metrics.host_doubts import _tell_idle_changes, explain_dropped_data, explain_memory_pressure
from mprun.metrics.interference import Interference, on_paths
from mprun.metrics.observation import NAMES, Host, Observation, PathManagerEvent, SocketState
from mprun.metrics.path_use import read_probes, tell_paths
from mprun.metrics.readings import join, measured
from mprun.metrics.series import FlowConnections
from mprun.metrics.summary import measure
from mprun.model import agent_report
from mprun.model.agent_report import AgentReport, Ended, MachineLoad
from mprun.model.intent import AddressedFlow, FlowEnds
from mprun.model.metric import OF_CONNECTIONS, OF_PATHS
from mprun.model.run_summary import KINDS, ExpectationVerdict, Kind, MetricValue
from mprun.model.spec import (
    Capture,
    Direction,
    Endpoint,
    Expectation,
    HostSpec,
    LinkChange,
    Mptcp,
    PathManagerName,
    Protocol,
)
from mprun.workloads.tool import PathUse, Result, tool_of
from tests.intents import flow, intent, link, path

PATHS = [path(f"path{n}", source=f"10.0.{n}.1", destination="10.1.0.1") for n in range(2)]


def of_server(state: SocketState) -> SocketState:
    """The server's end of a client's socket."""
    local, port, remote, remote_port = state.addresses
    return state._replace(addresses=(remote, remote_port, local, port))


def socket(
    local: str, port: int, acked: int, received: int = 0, sent: int | None = None, resent: int = 0
) -> SocketState:
    """Return the state of a client's socket. sent: all payload, also what was sent again; by default, as acked."""
    known = {"bytes_acked": acked, "bytes_received": received, "retransmits_packets": 1}
    known |= {"bytes_sent": acked if sent is None else sent, "bytes_retransmitted": resent}
    return SocketState((local, port, "10.1.0.1", 5201), tuple(known.get(name) for name in NAMES))


def event(kind: str, local: str, port: int, token: int = 7) -> PathManagerEvent:
    return PathManagerEvent(1, kind, token, local, port, "10.1.0.1", 5201)


def mirrored(found: PathManagerEvent) -> PathManagerEvent:
    remote, remote_port, local, local_port = found.addresses
    return found._replace(local=local, local_port=local_port, remote=remote, remote_port=remote_port)


def observed(events: Sequence[PathManagerEvent] = (), sockets: Sequence[SocketState] = ()) -> Host:
    return Host(list(events), {state.addresses: state for state in sockets})


def test_subflows_of_the_data_connection_only() -> None:
    joins = [event("subflow established", "10.0.1.1", 40), event("subflow established", "10.0.1.1", 41, token=8)]
    client = observed(
        events=[event("created", "10.0.0.1", 30), event("created", "10.0.0.1", 31, token=8), *joins],
        sockets=[socket("10.0.0.1", 31, 600), socket("10.0.1.1", 41, 400)],
    )
    server = observed(events=[mirrored(join) for join in joins])
    (connection,) = find_connections(client, server, [31], PATHS)
    assert connection.token == 8
    assert [(s.path, s.bytes_acked) for s in connection.subflows] == [("path0", 600), ("path1", 400)]


def test_the_servers_counts_replace_those_that_a_fast_close_has_cleared() -> None:
    """The client has a sample of the initial subflow from before its end, or none."""
    join = event("subflow established", "10.0.1.1", 41)
    later = socket("10.0.1.1", 41, 401)
    server = observed(
        events=[mirrored(join)],
        sockets=[of_server(socket("10.0.0.1", 31, 42, 600, 40)), of_server(socket("10.0.1.1", 41, 2, 450, 0))],
    )
    for known in ([socket("10.0.0.1", 31, 100, 10), later], [later]):
        client = observed(events=[event("created", "10.0.0.1", 31), join], sockets=known)
        (connection,) = find_connections(client, server, [31], PATHS)
        # the server's 42 acknowledged bytes include its SYN and its FIN
        assert [(one.bytes_acked, one.bytes_received) for one in connection.subflows] == [(600, 40), (450, 0)]


def test_syn_and_fin_are_no_payload() -> None:
    """These are the counts of a client that sent 1000 bytes and received 102400, and of a subflow without payload."""
    join = event("subflow established", "10.0.1.1", 41)
    client = observed(
        events=[event("created", "10.0.0.1", 31), join],
        sockets=[socket("10.0.0.1", 31, 1002, 102401, 1000), socket("10.0.1.1", 41, 2, 1, 0)],
    )
    server = observed(
        events=[mirrored(join)],
        sockets=[
            of_server(socket("10.0.0.1", 31, 102401, 1001, 103848, 1448)),
            of_server(socket("10.0.1.1", 41, 1, 1, 0)),
        ],
    )
    (connection,) = find_connections(client, server, [31], PATHS)
    assert [(one.bytes_acked, one.bytes_received) for one in connection.subflows] == [(1000, 102400), (0, 0)]


def test_two_bytes_that_did_not_arrive_are_no_payload() -> None:
    join = event("subflow established", "10.0.1.1", 41)
    client = observed(
        events=[event("created", "10.0.0.1", 31), join],
        sockets=[socket("10.0.0.1", 31, 1002, 1, 1000), socket("10.0.1.1", 41, 1, 0, 2)],
    )
    (connection,) = find_connections(client, observed(events=[mirrored(join)]), [31], PATHS)
    assert [one.bytes_acked for one in connection.subflows] == [1000, 0]


def test_a_subflow_that_the_server_refused_does_not_count() -> None:
    client = observed(events=[event("created", "10.0.0.1", 31), event("subflow established", "10.0.1.1", 41)])
    (connection,) = find_connections(client, observed(), [31], PATHS)
    assert len(connection.subflows) == 1


def test_a_connection_whose_server_never_heard_of_mptcp_is_told() -> None:
    """The packet with MP_CAPABLE was lost. The client learns of the fallback from the first answer."""
    client = observed(events=[event("created", "10.0.0.1", 31), event("created", "10.0.0.1", 32, token=8)])
    server = observed(events=[mirrored(event("created", "10.0.0.1", 32, token=9))])
    assert [one.is_known for one in find_connections(client, server, [31, 32], PATHS)] == [False, True]


def lasting(lived_ms: int, subflows: int, srtt_ms: int = 100) -> Connection:
    """Return a connection that lasted `lived_ms` milliseconds."""
    ends = ("10.0.0.1", 30, "10.1.0.1", 5201)
    one = Subflow(ends, None, 0, 0, 0, SendingEnd(srtt_us=1000 * srtt_ms), SendingEnd())
    return Connection(lived_ms, (one,) * subflows, 1_000_000 * lived_ms, True)


def test_a_connection_may_end_before_further_subflows_join() -> None:
    idle_ns = 40_000_000
    # if no connection shows that joins are allowed: four round trips of the idle path
    few = [lasting(159, 1), lasting(161, 1)]
    assert find_brief(few, idle_ns, 2) == (few[0],)
    # if one has all, four round trips as loaded paths have them, and a packet that is lost and sent again
    some = [lasting(100, 2), lasting(1399, 1), lasting(1401, 1)]
    assert find_brief(some, idle_ns, 2) == (some[1],)
    # a connection without a seen end was long enough
    assert find_brief([replace(few[0], lived_ns=None)], idle_ns, 2) == ()


def test_plain_tcp_is_a_connection_without_token() -> None:
    client = observed(sockets=[socket("10.0.0.1", 31, 600)])
    (connection,) = find_connections(client, observed(), [31], PATHS)
    assert connection.token is None
    assert connection.subflows[0].bytes_acked == 600


def test_a_port_of_another_server_is_not_that_of_the_flow() -> None:
    """The kernel gives a client's port to connections to several servers."""
    elsewhere = event("created", "10.0.0.1", 31, token=8)._replace(remote="10.2.0.1")
    other = socket("10.0.0.1", 32, 900)._replace(addresses=("10.0.0.1", 32, "10.2.0.1", 5201))
    client = observed([elsewhere, event("created", "10.0.0.1", 31)], [other, socket("10.0.0.1", 31, 600)])
    (connection,) = find_connections(client, observed(), [31, 32], PATHS)
    assert (connection.token, connection.subflows[0].bytes_acked) == (7, 600)


def test_samples_are_those_of_the_server_of_a_flow() -> None:
    found = Observation()
    known = {"bytes_sent": 0, "bytes_retransmitted": 0, "last_sent_ms": 0, "last_received_ms": 0}
    for at_ns, remote in ((1, "10.2.0.1"), (2, "10.1.0.1")):
        values = {**known, "bytes_received": at_ns}
        found.sockets.add((at_ns, "client", "10.0.0.1", 31, remote, 5201, *(values.get(name) for name in NAMES)))
    outputs = FlowOutputs(flow(PATHS), Evidence(intent(), AgentReport(None, True), found, lambda name, stream: ""))
    assert [[one.received_bytes for one in some] for _, some in outputs.sockets("client", 5201)] == [[2]]


def carrying(forward: int, reverse: int) -> Connection:
    """Return a connection with a payload, and with 5 retransmissions of its client and 7 of its server."""
    ends = ("10.0.0.1", 30, "10.1.0.1", 5201)
    sides = SendingEnd(srtt_us=1, resent=5), SendingEnd(srtt_us=1, resent=7)
    return Connection(1, (Subflow(ends, "path0", 0, forward, reverse, *sides),))


def test_short_flows_keep_the_retransmissions_of_their_initial_subflows() -> None:
    """Their losses and their table are of the initial subflows, too."""
    one = FlowConnections(flow(PATHS, tool="flows", subflows=1), [carrying(100, 0)], 0, 1)
    hosts = {"client": Host(), "server": Host()}
    evidence = Evidence(intent(), AgentReport(None, True), Observation(hosts), lambda name, stream: "")
    found = join(_read_connections(one, tool_of(one.flow), Result(data_ports=(30,)), evidence))
    assert "bulk.retransmits" not in found.metrics


def test_a_program_over_tcp_that_receives_has_the_retransmissions_of_its_server() -> None:
    """The passive side of netperfmeter sends, and the client's count is that of its acknowledgements."""
    one = FlowConnections(flow(protocol="tcp", tool="netperfmeter"), [carrying(0, 1000)], 0, 1)
    evidence = Evidence(intent(), AgentReport(None, True), Observation(), lambda name, stream: "")
    found = join(_read_connections(one, tool_of(one.flow), Result(server_ports=(5201,)), evidence))
    assert found.metrics["bulk.retransmits"].value == 7


def counters(**values: int) -> dict[str, int]:
    return {f"MPTcpExt{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("client", "server", "cause"),
    [
        ({}, {}, "plain TCP socket"),
        ({"MPCapableSYNTX": 1}, {}, "no MPTCP socket received it"),
        ({"MPCapableSYNTX": 1}, {"MPCapableSYNRX": 1}, "its answer lost the option"),
        ({"MPCapableSYNTX": 1, "MPCapableSYNACKRX": 1}, {"MPCapableSYNRX": 1}, "fell back to TCP after its handshake"),
        ({"MPCapableSYNTX": 1, "MPCapableSYNTXDrop": 1}, {"MPCapableSYNRX": 1}, "no answer in time"),
        ({"MPCapableSYNTXDisabled": 1}, {}, "no answer in time"),
    ],
)
def test_causes_of_plain_tcp(client: dict[str, int], server: dict[str, int], cause: str) -> None:
    assert cause in explain_plain_tcp(counters(**client), counters(**server))


@pytest.mark.parametrize(
    ("client", "server", "accepted", "cause"),
    [
        ({}, {}, None, "no join was sent"),
        ({"AddAddr": 2}, {"AddAddrTx": 2}, 1, "limits: the client takes 1 of the announced addresses"),
        ({"MPJoinSynTx": 1}, {}, None, "did not arrive: no route"),
        ({"MPJoinSynTx": 1}, {"MPJoinSynRx": 1}, None, "join unanswered: the server received MP_JOIN and its answer"),
        ({"MPJoinSynTx": 1}, {"MPJoinSynRx": 1, "MPJoinRejected": 1}, None, "the server refused the join"),
        ({"MPJoinSynTx": 1, "MPJoinSynAckRx": 1}, {"MPJoinSynRx": 1}, None, "the server refused the join"),
        (
            {"MPJoinSynTx": 2, "MPJoinSynAckRx": 1},
            {"MPJoinSynRx": 2, "MPJoinAckRx": 1},
            None,
            "1 of 2 joins had no answer",
        ),
        (
            {"MPJoinSynTx": 1, "MPJoinSynAckRx": 1, "AddAddr": 2, "AddAddrDrop": 1},
            {"MPJoinSynRx": 1, "MPJoinAckRx": 1, "AddAddrTx": 2},
            None,
            "Linux dropped 1 of the announced addresses",
        ),
    ],
)
def test_causes_of_missing_subflows(
    client: dict[str, int], server: dict[str, int], accepted: int | None, cause: str
) -> None:
    assert cause in explain_missing_subflows(counters(**client), counters(**server), 2, 1, accepted)


@pytest.mark.parametrize(
    ("client", "server", "cause"),
    [
        (Mptcp("fullmesh", subflows=1), Mptcp(), "the server's path manager is default"),
        (Mptcp("ndiffports"), Mptcp(), None),
        (Mptcp(), Mptcp(), "the client's path manager is default"),
        (Mptcp(endpoints=(Endpoint("path1", ("signal", "backup")),)), Mptcp(), "and has signal, backup"),
        (Mptcp("fullmesh", subflows=0), Mptcp(), "limits: the client may open 0"),
        (Mptcp("fullmesh"), Mptcp(), "the server's path manager is default"),
        (Mptcp(endpoints=(Endpoint("path1", ("subflow",)),)), Mptcp("fullmesh"), None),
    ],
)
def test_settings_that_ask_for_no_more_subflows(client: Mptcp, server: Mptcp, cause: str | None) -> None:
    said = explain_settings(client, server, 2)
    assert (said is None) == (cause is None)
    assert cause is None or (said is not None and cause in said)


def test_more_subflows_than_there_are_addresses_are_explained() -> None:
    hosts = {name: HostSpec(mptcp=Mptcp("fullmesh")) for name in ("client", "server")}
    asked = intent(traffic=(flow(subflows=2),), hosts=hosts)
    verdict = ExpectationVerdict("bulk.subflows", None, None, 4, value=2, held=False)
    why = "the addresses and settings of both hosts allow 2, not more"
    assert list(explain_expected([verdict], asked, {})) == [f"bulk: 2 of 4 subflows: {why}"]


@pytest.mark.parametrize(
    ("value", "joined", "manager", "cause"),
    [
        (0.0, {}, "ndiffports", ": ndiffports opens all subflows between the first pair of addresses: write fullmesh"),
        (0.0, {}, "fullmesh", ""),
        (0.0, {"bulk.joined.path1": MetricValue(0.1, "s")}, "ndiffports", None),
        (0.1, {}, "ndiffports", None),
    ],
)
def test_a_path_without_a_subflow_explains_its_share(
    value: float, joined: dict[str, MetricValue], manager: PathManagerName, cause: str | None
) -> None:
    hosts = {"client": HostSpec(mptcp=Mptcp(manager)), "server": HostSpec(mptcp=Mptcp("fullmesh"))}
    asked = intent(traffic=(flow(subflows=2),), hosts=hosts)
    verdict = ExpectationVerdict("bulk.share.path1", 0.2, None, None, value=value, held=False)
    told = f"bulk: no subflow was on path path1, so that its share is 0{cause}"
    assert list(explain_expected([verdict], asked, joined)) == ([] if cause is None else [told])


@pytest.mark.parametrize(("opened", "protocol", "warned"), [(0, "mptcp", 1), (1, "mptcp", 0), (0, "tcp", 0)])
def test_a_command_that_opens_no_mptcp_is_told(opened: int, protocol: Protocol, warned: int) -> None:
    """The flow has no server whose connections could be looked up."""
    one = flow(tool="exec", protocol=protocol)
    record = agent(
        processes={one.name: Ended(0, False, "flow", (one.name,), 0, 1)},
        counters={one.source: counters(MPCapableSYNTX=opened)},
        zero_ns=0,
    )
    summary = measure(Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda *_: "")).summary
    told = f"{one.name}: asked for MPTCP, and no MPTCP connection was opened on '{one.source}'"
    assert sum(text.startswith(told) for text in summary.warnings) == warned


@pytest.mark.parametrize(
    ("opened", "protocol", "parameters", "scheduler", "warned"),
    [
        (0, "tcp", {"scheduler": "roundrobin"}, "roundrobin", 1),
        (1, "tcp", {}, "roundrobin", 0),
        (0, "mptcp", {}, "roundrobin", 0),
        (0, "tcp", {"protocol": "tcp"}, "roundrobin", 0),
        (0, "tcp", {}, "default", 0),
    ],
)
def test_settings_of_mptcp_that_a_command_does_not_use_are_told(
    opened: int, protocol: Protocol, parameters: dict[str, str], scheduler: str, warned: int
) -> None:
    """Schedulers of a command over plain TCP were compared without a word."""
    one = flow(tool="exec", protocol=protocol)
    asked = replace(INTENT, traffic=(one,), hosts={one.source: HostSpec(mptcp=Mptcp(scheduler=scheduler))})
    record = agent(
        processes={one.name: Ended(0, False, "flow", (one.name,), 0, 1)},
        counters={one.source: counters(MPCapableSYNTX=opened), one.destination: {}},
        zero_ns=0,
    )
    summary = measure(Evidence(asked, record, Observation(), lambda *_: "", parameters=parameters)).summary
    told = f"{one.name}: 'mptcp' of {one.source} had no effect, as no MPTCP connection was opened: write 'protocol: mp"
    assert sum(text.startswith(told) for text in summary.warnings) == warned


@pytest.mark.parametrize(
    ("counted", "is_simulated", "told"),
    [
        ({"TcpActiveOpens": 1}, True, "write 'protocol: tcp', if they use TCP"),
        ({"UdpInDatagrams": 1}, True, "write 'protocol: udp', if they use UDP"),
        ({"SctpInSCTPPacks": 1}, True, None),
        # a program of its own transport needs no SCTP of the machine's kernel
        ({"TcpActiveOpens": 1}, False, None),
    ],
)
def test_a_command_over_sctp_without_an_sctp_packet_is_told(
    counted: dict[str, int], is_simulated: bool, told: str | None
) -> None:
    """A program over TCP passed as one over SCTP."""
    one = flow(tool="exec", protocol="sctp")
    record = agent(
        processes={one.name: Ended(0, False, "flow", (one.name,), 0, 1)},
        counters={one.source: counted, one.destination: {}},
        zero_ns=0,
    )
    evidence = Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda *_: "")
    found = [text for text in measure(replace(evidence, is_simulated=is_simulated)).summary.warnings if "SCTP" in text]
    assert [text.partition("packet: ")[2].partition(", or open")[0] for text in found] == ([told] if told else [])


@pytest.mark.parametrize(
    ("printed", "unit", "is_simulated", "notes"),
    [
        ("cpu: 0.000 ms", "ms", True, ["flow.cpu is 0: in simulated time computing takes no time"]),
        ("cpu: 0.001 ms", "ms", True, []),
        ("cpu: 0 ms", "count", True, []),
        ("cpu: 0 ms", "ms", False, []),
    ],
)
def test_a_time_of_0_of_an_own_program_is_told(printed: str, unit: str, is_simulated: bool, notes: list[str]) -> None:
    """The CPU time of a computation was 0 without a word."""
    own = {"name": "cpu", "regex": "cpu: ([0-9.]+)", "unit": unit, "take": "last", "of": "command"}
    one = flow(tool="exec", options={"metrics": (own,)})
    record = agent(processes={one.name: Ended(0, False, "flow", (one.name,), 0, 1)}, zero_ns=0)
    evidence = Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda *_: printed)
    found = measure(replace(evidence, is_simulated=is_simulated)).summary.notes
    expected = [note.replace("flow", one.name, 1) for note in notes]
    assert [text.partition(", and")[0] for text in found if ".cpu" in text] == expected


@pytest.mark.parametrize(
    "printed", ["begin\n  0  0 --:--:--\r100  0 --:--:--\rno such host\r\n", "begin\nno such host\r"]
)
def test_an_error_has_no_lines_that_a_program_overwrote(printed: str) -> None:
    one = flow(tool="exec")
    record = agent(processes={one.name: Ended(6, False, "flow", (one.name,), 0, 1)}, zero_ns=0)
    summary = measure(Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda *_: printed)).summary
    assert summary.errors[0] == f"{one.name}: exec ended with status 6: begin\nno such host"


@pytest.mark.parametrize(("rtt_s", "told"), [(10, "; a round trip on 'path0' takes 10s"), (1, "")])
def test_a_flow_that_was_stopped_names_a_long_round_trip(rtt_s: int, told: str) -> None:
    one = flow(tool="exec", timeout_ns=35 * 10**9, paths=(replace(PATHS[0], rtt_ns=rtt_s * 10**9),))
    record = agent(processes={one.name: Ended(None, True, "flow", (one.name,), 0, 1)}, zero_ns=0)
    (said,) = measure(Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda *_: "")).summary.errors
    assert said == f"{one.name}: did not end in time and was stopped after 35s, its 'timeout'{told}"


def test_a_failed_program_without_errors_shows_the_end_of_its_output() -> None:
    one = flow(tool="exec")
    record = agent(processes={one.name: Ended(1, False, "flow", (one.name,), 0, 1)}, zero_ns=0)
    # as a terminal shows it, which a progress bar has overwritten
    logs = {"out": "10 %\r20 %\rrate: 8\n", "err": ""}
    evidence = Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda _, stream: logs.get(stream, ""))
    (said,) = measure(evidence).summary.errors
    assert said == f"{one.name}: exec ended with status 1: no errors printed; its output ends: rate: 8"


def error_of_failed_command(command: list[str], server: str, printed: str) -> str:
    """Return the error of a program that ended with status 1, without the words before what it printed."""
    options = {"command": command, "server": ["server"], "listens": True}
    one = flow(tool="exec", options=options, endpoints=FlowEnds("", server))
    record = agent(processes={one.name: Ended(1, False, "flow", (one.name,), 0, 1)}, zero_ns=0)
    logs = {"err": printed}
    evidence = Evidence(replace(INTENT, traffic=(one,)), record, Observation(), lambda _, stream: logs.get(stream, ""))
    (said,) = measure(evidence).summary.errors
    before = f"{one.name}: exec ended with status 1: {printed}"
    assert said.startswith(before)
    return said.removeprefix(before)


@pytest.mark.parametrize(
    ("server", "listens"),
    [("10.1.0.1", "0.0.0.0, and not on 127.0.0.1 only"), ("fd00::1", "'::', and not on ::1 only")],
)
def test_a_refused_connection_of_a_failed_program_is_explained(server: str, listens: str) -> None:
    printed = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert error_of_failed_command(["client", "{port}"], server, printed) == f"; let the server listen on {listens}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["client", "10.0.9.9", "{port}"], "; 10.0.9.9 is no address of 'server': write '{destination}'"),
        # the address of the server, and that of another service
        (["client", "10.1.0.1", "{port}"], ""),
        (["client", "--dns", "10.0.9.9", "{destination}", "{port}"], ""),
    ],
)
def test_a_wrong_address_of_a_failed_program_is_named(command: list[str], told: str) -> None:
    assert error_of_failed_command(command, "10.1.0.1", "connect: Network is unreachable") == told


@pytest.mark.parametrize(
    ("server", "port", "told"),
    [
        ("serve 9000", None, ["bulk: both commands name 9000: if the server listens on it, write 'port: 9000'"]),
        ("serve 9000 {port}", None, []),
        ("serve 9000", 9000, []),
        ("serve 30", None, []),
    ],
)
def test_a_server_on_a_port_of_its_own_is_told_how_to_name_it(server: str, port: int | None, told: list[str]) -> None:
    """The message named three other remedies, none of which let the run pass."""
    options = {"command": ["sh", "-c", "ask 9000"], "server": ["sh", "-c", server], "listens": True}
    one = replace(flow(tool="exec", options=options), name="bulk", port=port)
    error = "bulk.server: not ready: nothing listens on its TCP port 5201 after 10 s"
    evidence = Evidence(replace(INTENT, traffic=(one,)), agent(error=error), Observation(), lambda *_: "")
    assert measure(evidence).summary.errors == (error, *told)


@pytest.mark.parametrize(
    ("printed", "unit", "told"),
    [
        ("3001", "mbit", ["is more than a hundred times what its paths carry: look at its 'unit'"]),
        ("2999", "mbit", []),
        ("3001", "count", []),
        ("3001", "s", ["is 3e+03 s, and its command ran for 2 s: look at its 'unit'"]),
        ("3001", "ms", []),
    ],
)
def test_own_values_that_cannot_be_meant_are_told(printed: str, unit: str, told: list[str]) -> None:
    entry = {"name": "found", "regex": r"is (\d+)", "unit": unit, "take": "last"}
    one = replace(flow_over(["a"], ["b"]), tool="exec", options={"metrics": [entry]})
    way = Direction(15_000_000)
    links = tuple(link(name, ("client", "server"), way, way) for name in ("a", "b"))
    record = agent(processes={one.name: Ended(0, False, "flow", (one.name,), 0, 2 * 10**9)}, zero_ns=0)
    evidence = Evidence(intent(traffic=(one,), links=links), record, Observation(), lambda *_: f"is {printed}\n")
    summary = measure(evidence).summary
    assert [text for text in summary.warnings if "found" in text] == [f"{one.name}.found {text}" for text in told]


def test_data_beyond_the_window_is_told_of() -> None:
    assert explain_dropped_data(counters(MPTCPRetrans=3)) is None
    said = explain_dropped_data(counters(NoDSSInWindow=1252))
    assert said is not None
    assert "dropped 1252 segments" in said
    assert "tcp_rmem" in said


def test_memory_pressure_is_told() -> None:
    assert explain_memory_pressure({"TcpRetransSegs": 3}) is None
    said = explain_memory_pressure({"TcpExtTCPMemoryPressures": 1})
    assert said is not None
    assert "tcp_mem" in said


@pytest.mark.parametrize(
    ("counter", "cause"),
    [
        ("TcpExtIPReversePathFilter", "rp_filter of the server dropped 3"),
        ("IpOutNoRoutes", "3 packets of the server had no route"),
    ],
)
def test_routing_is_blamed_for_a_join_without_answer(counter: str, cause: str) -> None:
    client, server = counters(MPJoinSynTx=1), counters(MPJoinSynRx=1) | {counter: 3}
    assert cause in explain_missing_subflows(client, server, 2, 1, None)


def test_a_join_to_an_address_where_nobody_listens_is_told() -> None:
    refused = event("subflow closed", "10.0.1.1", 4001)._replace(remote="10.1.1.1", error=111)
    elsewhere = refused._replace(remote="10.1.2.1", token=8)
    timed_out = refused._replace(remote="10.1.3.1", error=110)
    # the kernel reports no error if a subflow was refused after it was established
    silent = event("subflow closed", "10.0.1.1", 4001)._replace(remote="10.1.4.1")
    found = find_refused(observed([refused, elsewhere, timed_out, silent]), [Connection(7, ())])
    assert found == {"10.1.1.1"}
    client, server = counters(MPJoinSynTx=2, MPJoinSynAckRx=1), counters(MPJoinSynRx=1, MPJoinAckRx=1)
    assert "no program listens at 10.1.1.1" in explain_missing_subflows(client, server, 3, 2, None, refused=found)
    client = counters(MPJoinSynTx=1)
    limited = explain_missing_subflows(client, counters(MPJoinSynRx=1, MPJoinRejected=1), 2, 1, None, refused=found)
    assert "the server refused the join" in limited


def agent(error: str | None = None, **parts: Any) -> AgentReport:
    return AgentReport(error, error is None, **parts)


INTENT = intent()
PING = "3 packets transmitted, 3 received, 0% packet loss, time 400ms\n"
PING += "rtt min/avg/max/mdev = 40.000/40.000/40.000/0.000 ms"


@pytest.mark.parametrize(
    ("expectation", "held"),
    [
        (Expectation("path0.rtt", minimum=0.04), True),
        (Expectation("path0.rtt", minimum=0.041), False),
        (Expectation("path0.rtt", maximum=0.04), True),
        (Expectation("path0.rtt", maximum=0.039), False),
        (Expectation("path0.rtt", equals=0.04), True),
        (Expectation("path1.rtt", maximum=1), False),
    ],
)
def test_verdicts(expectation: Expectation, held: bool) -> None:
    record = agent(processes={"probe.path0": Ended(0, False, "probe")})
    summary = measure(Evidence(INTENT, record, Observation(), lambda *_: PING, expectations=[expectation])).summary
    assert summary.metrics["path0.rtt"] == MetricValue(0.04, "s")
    assert [verdict.held for verdict in summary.expectations] == [held]
    assert summary.status == ("passed" if held else "failed")


def test_an_agent_that_failed_is_an_error_whatever_held() -> None:
    summary = measure(Evidence(INTENT, agent(error="no luck"), Observation(), lambda *_: "")).summary
    assert summary.status == "error"
    assert summary.errors == ("no luck",)
    assert not summary.complete


def test_a_capture_that_cannot_tell_its_losses_is_a_warning() -> None:
    wanted = replace(INTENT, captures=(Capture("client"),))
    record = agent(captures={"capture.client": agent_report.Captured(2_000_000_000)}, zero_ns=4_000_000_000)
    captured = {"client": CaptureContent(packets=6, first_ns=-1_000_000_000)}
    counts = "{} packets captured\n10 packets received by filter\n{} packets dropped by kernel\n"
    logs = (("", "did not report"), (counts.format(6, 4), "4 packets that passed"), (counts.format(7, 0), "3 packets"))
    for log, said in logs:
        summary = measure(Evidence(wanted, record, Observation(), lambda *_, log=log: log, captured=captured)).summary
        assert said in summary.warnings[0]
        assert (summary.captures["client"].ready_s, summary.captures["client"].first_s) == (-2, -1)


@pytest.mark.parametrize(
    ("size", "seen", "problem", "said"),
    [
        ({}, {}, "", ("failures", "holds 6 of 10 packets: the disk was full")),
        ({}, {}, "stays", ("warnings", "stays")),
        ({"size_bytes": 10_000, "keep": "first"}, {}, "", ("warnings", "and holds the first 6 of 10 packets")),
        ({"size_bytes": 10_000, "keep": "last"}, {}, "", ("warnings", "and holds the last 6 of 10 packets")),
        ({}, {"ended_ns": 5_500_000_000}, "", ("failures", "ended at 1.5 s, when the disk was nearly full")),
    ],
)
def test_a_capture_says_what_its_file_lacks(
    size: dict[str, Any], seen: dict[str, Any], problem: str, said: tuple[Kind, str]
) -> None:
    wanted = replace(INTENT, captures=(Capture("client", **size),))
    record = agent(captures={"capture.client": agent_report.Captured(2_000_000_000, **seen)}, zero_ns=4_000_000_000)
    captured = {"client": CaptureContent(packets=6, first_ns=0, problem=problem)}
    log = "10 packets captured\n10 packets received by filter\n0 packets dropped by kernel\n"
    summary = measure(Evidence(wanted, record, Observation(), lambda *_: log, captured=captured)).summary
    where, text = said
    assert text in summary.messages(where)[0]
    assert sum(len(summary.messages(kind)) for kind in KINDS) == 1


@pytest.mark.parametrize(
    ("rate", "shared", "named"),
    [
        # a frame of 98 bytes takes 7.84 ms each way
        (100_000, ("own", "slow"), "15.7 ms: path0.rtt, path1.rtt hold for pings that meet"),
        # 0.825 ms is above 1 % of 55 ms, and 0.392 ms is below
        (1_900_000, ("own", "slow"), "0.825 ms: path0.rtt"),
        (4_000_000, ("own", "slow"), ""),
        (100_000, ("own",), ""),
    ],
)
def test_probes_that_meet_on_a_slow_link_are_a_warning(rate: int, shared: tuple[str, ...], named: str) -> None:
    way = Direction(rate_bit_per_s=rate)
    links = [link("slow", ("a", "b"), way, way), link("own", ("b", "c"), Direction(), Direction())]
    paths = [path("path0", ["slow"], "10.0.0.1"), path("path1", shared, "10.0.1.1")]
    ended = {f"probe.path{n}": Ended(0, False, "probe") for n in range(2)}
    log = "3 packets transmitted, 3 received, 0% packet loss\nrtt min/avg/max/mdev = 55.0/55.0/55.0/0.0 ms\n"
    wanted = intent(links=tuple(links), traffic=(flow(paths),))
    readings = read_probes(ended, lambda *_: log, wanted)
    assert [readings.metrics[f"path{n}.rtt"].value for n in range(2)] == [0.055, 0.055]
    assert len(readings.warnings) == bool(named)
    still = log.replace("55.0/55.0/55.0", "0.000/0.000/0.000")
    assert len(read_probes(ended, lambda *_: still, wanted).warnings) == ("slow" in shared)
    assert all(one.startswith("link 'slow': ") and named in one for one in readings.warnings)


def test_an_expected_handover_without_a_failure_has_its_reason() -> None:
    wanted = [Expectation("bulk.handover.gap", maximum=1.0), Expectation("bulk.goodput", minimum=1e6)]
    verdicts, warnings = judge_all(wanted, {}, {})
    assert [one.held for one in verdicts] == [False, False]
    assert warnings == ["bulk.handover.gap: is not measured: no path failed while the flow's data was on its way"]


def test_a_round_trip_below_its_bound_is_of_the_idle_network() -> None:
    """A bound that was meant for a loaded path failed without a word."""
    metrics = {"wifi.rtt": measured(0.0201, "time"), "dl.srtt.wifi": measured(0.0469, "time")}
    _, warnings = judge_all([Expectation("wifi.rtt", minimum=0.03)], metrics, {})
    assert warnings == [
        "wifi.rtt: is measured before the flows, in the idle network. While the flows send, dl.srtt.wifi is 46.900 ms"
    ]
    for minimum, known in ((0.02, metrics), (0.5, metrics), (0.03, {"wifi.rtt": metrics["wifi.rtt"]})):
        assert judge_all([Expectation("wifi.rtt", minimum=minimum)], known, {})[1] == []


def test_a_filter_that_no_packet_passed_is_a_warning() -> None:
    wanted = replace(INTENT, captures=(Capture("client", filter="udp"), Capture("server")))
    live = {f"capture.{one.node}": agent_report.Captured(2_000_000_000) for one in wanted.captures}
    captured = dict.fromkeys(("client", "server"), CaptureContent(packets=0, first_ns=None))
    log = "0 packets captured\n0 packets received by filter\n0 packets dropped by kernel\n"
    record = agent(captures=live, zero_ns=4_000_000_000)
    summary = measure(Evidence(wanted, record, Observation(), lambda *_: log, captured=captured)).summary
    assert summary.warnings == ("capture of client: no packet passed its filter 'udp': see pcap-filter(7)",)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("tcp port 5001", "the servers of the flows use port 5201; "),
        ("udp port 5201", ""),
        ("udp portrange 1-9999", ""),
    ],
)
def test_a_filter_of_another_port_names_the_ports_of_the_flows(asked: str, named: str) -> None:
    ends = FlowEnds("10.0.0.1", "10.1.0.1", 5201)
    wanted = intent(traffic=(flow(endpoints=ends),), captures=(Capture("client", filter=asked),))
    live = {"capture.client": agent_report.Captured(2_000_000_000)}
    captured = {"client": CaptureContent(packets=0, first_ns=None)}
    log = "0 packets captured\n0 packets received by filter\n0 packets dropped by kernel\n"
    evidence = Evidence(wanted, agent(captures=live), Observation(), lambda *_: log, captured=captured)
    _, found = read_captures(evidence)
    assert found.warnings == (f"capture of client: no packet passed its filter '{asked}': {named}see pcap-filter(7)",)


def test_a_subflow_behind_a_nat_is_known_by_the_address_that_its_server_sees() -> None:
    translated = event("subflow established", "10.9.0.1", 41)
    client = observed(events=[event("created", "10.0.0.1", 31), event("subflow established", "10.0.1.1", 41)])
    paths = [PATHS[0], replace(PATHS[1], source_seen="10.9.0.1")]
    (connection,) = find_connections(client, observed(events=[mirrored(translated)]), [31], paths)
    assert [subflow.path for subflow in connection.subflows] == ["path0", "path1"]


@pytest.mark.parametrize(
    ("client", "server", "counted", "cause"),
    [
        ({"MPCapableSYNTX": 1}, {}, "strip.mp_capable", "middlebox 'box' removed MP_CAPABLE from 2 packets"),
        ({"MPCapableSYNTX": 1}, {}, "proxy.intercepted", "middlebox 'box' answered 2 connections in the server's"),
        ({"MPCapableSYNTX": 1}, {}, "nat.translated", "no MPTCP socket received it"),
        (
            {"MPCapableSYNTX": 1, "MPCapableSYNACKRX": 1, "MPCapableDataFallback": 1},
            {"MPCapableSYNRX": 1},
            "strip.dss",
            "(fallback, RFC 8684 3.7): middlebox 'box' removed DSS from 2 packets",
        ),
    ],
)
def test_middleboxes_that_make_it_plain_tcp(
    client: dict[str, int], server: dict[str, int], counted: str, cause: str
) -> None:
    interference = Interference({"clean": {counted: 0}, "box": {counted: 2}})
    assert cause in explain_plain_tcp(counters(**client), counters(**server), interference)


@pytest.mark.parametrize(
    ("client", "server", "counted", "cause"),
    [
        (
            {"MPJoinSynTx": 1},
            {},
            "strip.mp_join",
            "MP_JOIN was sent and did not arrive: middlebox 'box' removed MP_JOIN",
        ),
        ({"MPJoinSynTx": 1}, {}, "firewall.refused", "middlebox 'box' refused 1 packet of connections from outside"),
        ({"MPJoinSynTx": 3}, {"MPJoinSynRx": 1}, "nat.unsolicited", "2 of 3 joins were lost: middlebox 'box' dropped"),
        ({"MPJoinSynTx": 1}, {"MPJoinSynRx": 1}, "strip.mp_join", "MP_JOIN arrived and its answer did not: middlebox"),
        ({}, {"AddAddrTx": 1}, "strip.add_addr", "did not arrive: middlebox 'box' removed ADD_ADDR from 1 packet"),
        (
            {"MPJoinSynTx": 1},
            {"MPJoinSynRx": 1},
            "alter.mp_join",
            "MP_JOIN arrived with a token that no connection has: middlebox 'box' altered MP_JOIN in 1 packet",
        ),
        ({}, {"AddAddrTx": 1}, "alter.add_addr", "as its HMAC shows (RFC 8684 3.4.1): middlebox 'box' altered ADD_"),
        ({}, {"AddAddrTx": 1}, "nat.translated", "ADD_ADDR was sent and did not arrive"),
        # a middlebox that removed another option is not the cause
        ({"MPJoinSynTx": 1}, {}, "strip.add_addr", "no route from that address, or the path drops it"),
    ],
)
def test_middleboxes_that_take_a_subflow(
    client: dict[str, int], server: dict[str, int], counted: str, cause: str
) -> None:
    interference = Interference({"box": {counted: 1}})
    said = explain_missing_subflows(counters(**client), counters(**server), 2, 1, None, interference)
    assert cause in said


def test_a_fallback_is_one_of_all_connections() -> None:
    client = counters(MPCapableSYNTX=2, MPCapableDataFallback=1)
    assert not has_fallen_back(client, counters(DssFallback=1))
    assert has_fallen_back(client, counters(DssFallback=2))
    assert not has_fallen_back({}, {})


def test_only_middleboxes_on_its_paths_are_to_blame() -> None:
    blamed = flow([path("path0"), path("path1", middleboxes=("near",))])
    filtered = {"near": {"strip.mp_join": 1}, "far": {"strip.mp_join": 5}}
    assert list(on_paths(blamed, filtered).tell()) == ["middlebox 'near' removed MP_JOIN from 1 packet"]
    assert on_paths(blamed, {}).blame("strip.mp_join") is None


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (None, []),
        (MachineLoad(None, 0.0, late_most_ns=9_000_000), []),
        (MachineLoad(0.1, 0.0, late_most_ns=25_000_000), ["a timer came 25 ms late"]),
        (MachineLoad(0.5, 0.05, late_most_ns=0), ["took 5%", "waited for a CPU 50%"]),
    ],
)
def test_a_host_that_could_not_keep_up_marks_its_run(host: MachineLoad | None, said: list[str]) -> None:
    summary = measure(Evidence(INTENT, agent(host=host), Observation(), lambda *_: "")).summary
    (warning,) = [text for text in summary.warnings if "keep up" in text] or [""]
    assert bool(warning) == bool(said)
    assert all(text in warning for text in said)


LINKS = (
    link("a", ("client", "router"), Direction(20), Direction(2)),
    # written from the router's end
    link("b", ("router", "client"), Direction(3), Direction(30)),
    link("c", ("router", "server"), Direction(), Direction()),
)


def flow_over(*paths: list[str]) -> AddressedFlow:
    return flow([path(f"path{n}", links) for n, links in enumerate(paths)])


def test_a_bidirectional_flow_counts_what_its_client_sends() -> None:
    """Its destination sends more, which `.back` counts. The paths' rates are those of the client's direction."""
    ends = ("10.0.0.1", 1, "10.0.0.2", 2)
    both = (Subflow(ends, "path0", 0, 9, 20, SendingEnd(1, 3), SendingEnd(1, 50)),)
    for options, resent, used in (
        ({}, {"retransmits": 50}, 9 / 5),
        ({"bidirectional": True}, {"retransmits": 3, "retransmits.back": 50}, 9 / 50),
    ):
        one = replace(flow_over(["a", "c"], ["b", "c"]), options=options)
        assert count_resent(one, both) == resent
        uses = {path.ends: PathUse(*path.ends, 9, 20) for path in one.paths}
        told = tell_paths(one, intent(links=LINKS), uses, OF_CONNECTIONS, 9)
        assert told.metrics["bulk.efficiency.sum"].value == used


@pytest.mark.parametrize(("shared", "total"), [(10, 10), (20, 20), (30, 30), (45, 40)])
def test_paths_carry_no_more_than_the_link_that_they_share(shared: int, total: int) -> None:
    rate = Direction(20)
    own = (link("a", ("client", "router"), rate, rate), link("b", ("client", "router"), rate, rate))
    network = intent(links=(*own, link("c", ("router", "server"), Direction(shared), rate)))
    found = find_capacity(network, flow_over(["a", "c"], ["b", "c"]), is_forward=True)
    assert found is not None
    assert found.total == total


def test_the_efficiency_of_quic_is_that_of_answers() -> None:
    """Its requests have more payload. The paths carry 50 bit/s of these, and 5 bit/s of answers."""
    one = replace(flow_over(["a", "c"], ["b", "c"]), protocol="quic")
    uses = {path.ends: PathUse(*path.ends, 90, 4) for path in one.paths}
    assert tell_paths(one, intent(links=LINKS), uses, OF_PATHS, 4).metrics["bulk.efficiency.sum"].value == 4 / 5


def test_what_paths_can_carry() -> None:
    network = intent(links=LINKS)
    assert find_capacity(network, flow_over(["a", "c"], ["b", "c"]), is_forward=True) == Capacity(50, 30)
    assert find_capacity(network, flow_over(["a", "c"], ["b", "c"]), is_forward=False) == Capacity(5, 3)
    # two paths through one bottleneck count it once
    assert find_capacity(network, flow_over(["a", "c"], ["a", "c"]), is_forward=True) == Capacity(20, 20)
    assert find_capacity(network, flow_over(["c"]), is_forward=True) is None
    change = LinkChange(0, "a", Direction(), Direction())
    assert find_capacity(replace(network, changes=(change,)), flow_over(["a", "c"]), is_forward=True) is None


def test_a_change_of_a_link_that_no_flow_crosses_is_a_note() -> None:
    """TCP has its first path alone, so that a change of the second path says nothing about TCP."""
    ways = (Direction(rate_bit_per_s=1_000_000), Direction(rate_bit_per_s=1_000_000))
    changes = (LinkChange(2_000_000_000, "slow", *ways), LinkChange(3_000_000_000, "slow", *ways))
    paths = [path("wifi", ["fast", "last"]), path("lte", ["slow", "last"])]

    def notes(*flows: AddressedFlow, changes: Sequence[LinkChange] = changes) -> tuple[str, ...]:
        wanted = intent(links=(), traffic=flows, changes=tuple(changes))
        return tuple(_tell_idle_changes(wanted))

    tcp = flow(paths, protocol="tcp")
    assert notes(tcp) == (f"events change slow, which no flow crosses: {tcp.name} is over wifi",)
    assert notes(tcp, replace(tcp, protocol="mptcp")) == ()
    assert notes(replace(tcp, tool="exec")) == ()
    assert notes(tcp, changes=[replace(changes[0], link="last")]) == ()
    assert notes() == ()
