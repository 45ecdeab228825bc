# SPDX-License-Identifier: Apache-2.0
"""A run that asked for MPTCP and got TCP or fewer subflows fails and names the cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.engines import virtual
from mprun.inputs.loading import load
from mprun.kernel.store import find_kernel
from mprun.metrics.evidence import Evidence
from mprun.metrics.observation import observe
from mprun.metrics.summary import measure
from mprun.model.plan import Command, Plan
from mprun.model.run_summary import Summary
from mprun.storage.run_directory import RunDirectory
from tests.system.conftest import ROOT, Result

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 5ms}
  - {rate: 20mbit, delay: 5ms, loss: LOSS}
"""
EXPERIMENT = """\
version: 1
hosts:
  client: {CLIENT}
  server: {SERVER}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, duration: 2s}
probe: {pings: 0}
"""
FULLMESH = "mptcp: {path_manager: fullmesh}"
# The keys of the experiment that describe hosts.
HOSTS = ("hosts", "client", "server")


@pytest.mark.parametrize(
    ("client", "server", "loss", "failure"),
    [
        pytest.param(FULLMESH, FULLMESH, "0%", None, id="nothing-wrong"),
        pytest.param("mptcp: {path_manager: default}", FULLMESH, "0%", None, id="passive-client-expects-one"),
        pytest.param(
            FULLMESH,
            "mptcp: {path_manager: fullmesh, limits: {subflows: 0}}",
            "0%",
            "bulk: 1 of 2 subflows: the server refused the join: its limits allow no further subflow",
            id="server-limits",
        ),
        pytest.param(
            FULLMESH,
            FULLMESH,
            "100%",
            "bulk: 1 of 2 subflows: MP_JOIN was sent and did not arrive: no route from that address, or the path "
            "drops it",
            id="dead-path",
        ),
        pytest.param(
            "mptcp: {path_manager: default, endpoints: [{link: path1, flags: [subflow]}]}",
            FULLMESH,
            "100%",
            "bulk: 1 of 2 subflows: MP_JOIN was sent and did not arrive: no route from that address, or the path "
            "drops it",
            id="endpoint-on-a-dead-path",
        ),
    ],
)
def test_cause_is_named(
    mprun: Callable[..., Result], tmp_path: Path, client: str, server: str, loss: str, failure: str | None
) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", loss))
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", client).replace("SERVER", server))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.summary["failures"] == ([] if failure is None else [failure])
    assert result.summary["status"] == ("passed" if failure is None else "failed")
    assert result.status == (0 if failure is None else 1)


def test_paths_left_unused_for_want_of_a_path_manager_are_told_of(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A user's first file: with the lines of the warning copied into it, it uses both subflows and gets no warning."""
    plain = "".join(line for line in EXPERIMENT.splitlines(True) if line.split(":")[0].strip() not in HOSTS)
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    (tmp_path / "xp.yaml").write_text(plain)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert (result.status, result.metric("bulk.subflows")) == (0, 1)
    [warning] = result.summary["warnings"]
    lines = re.findall(r"'(\w+: \{mptcp: \{path_manager: fullmesh\}\})'", warning)
    assert len(lines) == 2
    strict = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--strict")
    assert strict.status == 2
    assert all(line in strict.err for line in lines)
    (tmp_path / "xp.yaml").write_text(plain + "hosts:\n" + "".join(f"  {line}\n" for line in lines))
    whole = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--strict", "--json")
    assert (whole.status, whole.metric("bulk.subflows")) == (0, 2)
    assert whole.summary["warnings"] == []


def test_a_server_that_listens_on_one_of_its_addresses(mprun: Callable[..., Result], tmp_path: Path) -> None:
    topology = (
        TOPOLOGY.replace("LOSS", "0%") + "server_paths: [{rate: 20mbit, delay: 5ms}, {rate: 20mbit, delay: 5ms}]\n"
    )
    place = "('{destination}', {port})"
    client = f"import socket, time; s = socket.create_connection({place}); s.send(b'x'); time.sleep(1)"
    server = f"import socket; s = socket.create_server({place}); c = s.accept()[0]; [c.recv(1) for n in (1, 2)]"
    (tmp_path / "topo.yaml").write_text(topology)
    (tmp_path / "xp.yaml").write_text(f"""\
version: 1
hosts:
  client: {{{FULLMESH}}}
  server: {{{FULLMESH}}}
traffic:
  - name: one
    tool: exec
    from: client
    to: server
    protocol: mptcp
    command: [python3, -c, "{client}"]
    server: [python3, -c, "{server}"]
probe: {{pings: 0}}
""")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")
    # the kernel's limits leave 4 pairs of addresses, and the server listens at two of them
    cause = "no program listens at 10.1.1.1: the server's program has to take joins there too"
    assert result.summary["failures"] == [f"one: 2 of 4 subflows: {cause}"]


@pytest.mark.parametrize(
    ("client", "cause"),
    [
        pytest.param(
            "mptcp: {path_manager: default, endpoints: [{link: path1, flags: [signal]}]}",
            "endpoint flags: the client opens subflows from endpoints with subflow or fullmesh, and has signal",
            id="endpoint-flag",
        ),
        pytest.param(
            "mptcp: {path_manager: fullmesh, limits: {subflows: 0}}",
            "limits: the client may open 0 additional subflows",
            id="client-limits",
        ),
    ],
)
def test_cause_of_an_expectation_is_named(
    mprun: Callable[..., Result], tmp_path: Path, client: str, cause: str
) -> None:
    """Two subflows are expected, but the client is set to open none."""
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    expect = "expect:\n  - {metric: bulk.subflows, equals: 2}\n"
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", client).replace("SERVER", FULLMESH) + expect)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 1
    assert result.summary["failures"] == [f"bulk: 1 of 2 subflows: {cause}"]


def run_plan(plan: Plan, folder: Path) -> Summary:
    """Return the summary of a plan that no input file can describe."""
    run = RunDirectory.create(folder / "runs", "test", plan.digest)
    run.folder.write_json("plan.json", plan.to_json())
    virtual.run_plan(plan, run, find_kernel(), lambda *_: None)
    agent = run.agent_report()
    observation = observe(run.record(), agent.zero_ns or 0, plan.intent.links)
    return measure(Evidence(plan.intent, agent, observation, run.log)).summary


def full_mesh(folder: Path) -> Plan:
    (folder / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    (folder / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH))
    spec = load(folder / "topo.yaml", folder / "xp.yaml").spec
    return compile_plan(spec, allocate(spec))


def change(plan: Plan, node: str, without: str, instead: str | None) -> Plan:
    """Return a plan in which a command of a node is replaced, or removed."""
    [place] = [n for n, one in enumerate(plan.build) if one.node == node and " ".join(one.argv) == without]
    new = () if instead is None else (Command(node, tuple(instead.split())),)
    return replace(plan, build=(*plan.build[:place], *new, *plan.build[place + 1 :]))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        # a host that was set up by hand: joins leave through the first interface, and the answers go to the second
        pytest.param(
            [
                ("client", "ip rule add from 10.0.1.1 table 2", None),
                ("client", "sysctl -w net.ipv4.conf.all.rp_filter=0", "sysctl -w net.ipv4.conf.all.rp_filter=1"),
            ],
            "rp_filter of the client dropped",
            id="source-rule-and-rp-filter",
        ),
        # the router knows only the route back to the first address
        pytest.param(
            [
                (
                    "server",
                    "ip route add default via 10.1.0.2 dev server-eth0",
                    "ip route add 10.0.0.0/24 via 10.1.0.2 dev server-eth0",
                )
            ],
            "packets of the server had no route: a source rule, or a route in its table, is missing",
            id="route",
        ),
    ],
)
def test_cause_in_the_routing_is_named(
    tmp_path: Path, changes: Sequence[tuple[str, str, str | None]], cause: str
) -> None:
    plan = full_mesh(tmp_path)
    for node, without, instead in changes:
        plan = change(plan, node, without, instead)
    [failure] = run_plan(plan, tmp_path).failures
    assert failure.startswith("bulk: 1 of 2 subflows: ")
    assert cause in failure


SIDE_BY_SIDE = """\
version: 1
nodes: {client: {kind: host}, server: {kind: host}}
links:
  - {name: path0, between: [client, server], rate: 20mbit, delay: 5ms}
  - {name: path1, between: [client, server], rate: 20mbit, delay: 5ms}
"""
ON_PATH1 = "mptcp: {path_manager: default, endpoints: [{link: path1, flags: [subflow]}]}"


def joining_the_first_address(folder: Path, expect: str = "") -> Plan:
    """Return a plan with two links between the hosts.

    The client joins the server's end of path0 from its end of path1.
    """
    (folder / "topo.yaml").write_text(SIDE_BY_SIDE)
    (folder / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", ON_PATH1).replace("SERVER", FULLMESH) + expect)
    spec = load(folder / "topo.yaml", folder / "xp.yaml").spec
    return compile_plan(spec, allocate(spec))


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound-to-its-device", "not-bound"])
@pytest.mark.parametrize("is_elsewhere", [True, False], ids=["answered-by-the-other", "answered-by-the-same"])
def test_a_join_that_is_bound_to_a_device(tmp_path: Path, is_bound: bool, is_elsewhere: bool) -> None:
    """The join gets no answer only if it is bound to a device and the server's routes answer through another device."""
    plan = joining_the_first_address(tmp_path)
    # both ends have two addresses: only the first join is expected
    (flow,) = plan.intent.traffic
    plan = replace(plan, intent=replace(plan.intent, traffic=(replace(flow, subflows=2),)))
    if is_bound:
        endpoint = "ip mptcp endpoint add 10.0.1.1 id 2 subflow"
        plan = change(plan, "client", endpoint, f"{endpoint} dev client-eth1")
    if is_elsewhere:
        near, all_of_it = (f"ip route add 10.0.0.0/{length} dev server-eth0 table 1" for length in (24, 8))
        plan = change(plan, "server", near, all_of_it)
    summary = run_plan(plan, tmp_path)
    unanswered = (
        "bulk: 1 of 2 subflows: join unanswered: the server's answer reached the client and no subflow took it; an "
        "endpoint that is bound to a device takes none that comes by another one"
    )
    assert summary.failures == ((unanswered,) if is_bound and is_elsewhere else ())


def test_an_answer_that_is_lost_on_its_way_is_no_matter_of_devices(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "{forward: 0%, reverse: 100%}"))
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    cause = "its answer did not come back: no route to that address, or the path drops it"
    assert result.summary["failures"] == [
        f"bulk: 1 of 2 subflows: join unanswered: the server received MP_JOIN and {cause}"
    ]


def test_a_subflow_that_no_path_has_is_told_of(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Both subflows use path0. Its share would be 100 % of the data of one subflow."""
    joining_the_first_address(tmp_path)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.metric("bulk.subflows") == 2
    [warning] = result.summary["warnings"]
    assert warning.startswith("bulk: no path joins 10.0.1.1 and 10.0.0.2, between which it had a subflow")


LATE = """\
version: 1
topology: multi-path
paths: [{rate: 20mbit, delay: 20ms}, {rate: 20mbit, delay: 20ms, backup: true}]
events: [{at: 1s, link: path0, set: {loss: 100%}}]
"""


@pytest.mark.parametrize(
    ("allowed", "scheduler", "reverse"),
    [
        pytest.param(12, "default", False, id="late"),
        pytest.param(12, "default", True, id="late-of-the-server"),
        pytest.param(1, "default", True, id="first-loss-of-the-server"),
        pytest.param(12, "lowest-rtt", False, id="leaves-at-the-first-time-out"),
    ],
)
def test_a_backup_that_is_late_is_blamed_on_what_its_sender_allows(
    mprun: Callable[..., Result], tmp_path: Path, allowed: int, scheduler: str, reverse: bool
) -> None:
    (tmp_path / "topo.yaml").write_text(LATE)
    patient = (
        f"mptcp: {{path_manager: fullmesh, scheduler: {scheduler}}}, sysctl: {{net.mptcp.stale_loss_cnt: {allowed}}}"
    )
    ends = {"CLIENT": FULLMESH, "SERVER": patient} if reverse else {"CLIENT": patient, "SERVER": FULLMESH}
    text = EXPERIMENT.replace("duration: 2s", f"duration: 6s, reverse: {str(reverse).lower()}")
    for name, settings in ends.items():
        text = text.replace(name, settings)
    (tmp_path / "xp.yaml").write_text(text)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    late = [text for text in result.summary["warnings"] if "after path0 had failed" in text]
    if (allowed, scheduler) != (12, "default"):
        assert late == []
        assert result.metric("bulk.handover.time") < 12 * 0.2
        return
    [told] = late
    assert (
        f"a subflow counts as stale after {allowed} of them in a row (net.mptcp.stale_loss_cnt={allowed} of '" in told
    )
    assert "backup path1 gets only what timers send again" in told
    # each time-out lasts 200 ms at least
    assert result.metric("bulk.handover.time") > allowed * 0.2


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("client", "the application opened a plain TCP socket: no MP_CAPABLE was sent"),
        (
            "server",
            "MP_CAPABLE was sent and no MPTCP socket received it: the server's program listens on plain TCP, or "
            "something between the hosts removes the option",
        ),
    ],
)
def test_application_without_mptcp(tmp_path: Path, end: str, cause: str) -> None:
    """The program of one end runs without the library that opens MPTCP sockets."""
    plan = full_mesh(tmp_path)
    if end == "client":
        plan = replace(plan, flows=(replace(plan.flows[0], env={}),))
    else:
        plan = replace(plan, daemons=(replace(plan.daemons[0], env={}),))
    summary = run_plan(plan, tmp_path)
    assert summary.failures == (f"bulk: asked for MPTCP and got TCP: {cause}",)
    assert summary.status == "failed"


UNLIKE = """\
version: 1
topology: multi-path
paths:
  - {rate: 60mbit, rtt: 1ms}
  - {rate: 6mbit, rtt: 300ms}
"""


@pytest.mark.parametrize(
    ("scheduler", "least", "cause"),
    [
        # each subflow's buffer begins at the middle value of tcp_wmem
        ("default", 16_384, "its send buffer was full "),
        ("default", 67_108_864, None),
        # a share of 1/2 + 5 % when the slow path carries 6 Mbit/s: 6 / 0.45 = 13.3 Mbit/s
        ("balanced", 67_108_864, "scheduler balanced: "),
    ],
)
def test_what_holds_a_connection_over_unlike_paths_back_is_told(
    mprun: Callable[..., Result], tmp_path: Path, scheduler: str, least: int, cause: str | None
) -> None:
    """With enough of the resource that is named as the cause, the best path is used and no cause is reported."""
    (tmp_path / "topo.yaml").write_text(UNLIKE)
    # a receive window that grows from Linux's own value may hold the connection back for a part of the run
    window = max(131_072, least)
    sysctl = f"sysctl: {{net.ipv4.tcp_wmem: 4096 {least} 67108864, net.ipv4.tcp_rmem: 4096 {window} 67108864}}"
    client = f"mptcp: {{path_manager: fullmesh, scheduler: {scheduler}}}, {sysctl}"
    text = EXPERIMENT.replace("CLIENT", client).replace("SERVER", f"{FULLMESH}, {sysctl}")
    (tmp_path / "xp.yaml").write_text(text.replace("duration: 2s", "duration: 20s"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    told = [text for text in result.summary["warnings"] if "of its best path's rate" in text]
    assert (result.metric("bulk.efficiency.best") < 0.9) == (cause is not None)
    assert len(told) == (cause is not None)
    assert not told or f"best path's rate: {cause}in " in told[0]


FASTER_SECOND = """\
version: 1
topology: multi-path
paths:
  - {name: dsl, rate: 16mbit, delay: 10ms}
  - {name: lte, rate: 24mbit, delay: 35ms, MORE}
"""


def download(mprun: Callable[..., Result], folder: Path, client: str, more: str) -> Result:
    (folder / "topo.yaml").write_text(FASTER_SECOND.replace("MORE", more))
    text = EXPERIMENT.replace("CLIENT", client).replace("SERVER", FULLMESH)
    (folder / "xp.yaml").write_text(text.replace("duration: 2s", "duration: 5s, reverse: true"))
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")


@pytest.mark.parametrize(
    ("client", "more", "told"),
    [
        (FULLMESH, "backup: true", "lte is a backup, which gets data only after the other paths have failed"),
        (
            "mptcp: {endpoints: [{link: lte, flags: [subflow, backup]}]}",
            "",
            "lte is a backup, which gets data only after the other paths have failed",
        ),
        ("mptcp: {}", "", "it has no subflow on lte"),
    ],
)
def test_a_best_path_that_gets_no_data_is_no_fault_of_a_buffer(
    mprun: Callable[..., Result], tmp_path: Path, client: str, more: str, told: str
) -> None:
    """A warning named the send buffer, and then the receive window, until both had 16 MB."""
    result = download(mprun, tmp_path, client, more)
    assert result.metric("bulk.efficiency.best") < 0.7
    (note,) = [text for text in result.summary["notes"] if "of its best path's rate" in text]
    assert told in note
    assert not [text for text in result.summary["warnings"] if "of its best path's rate" in text]


def test_a_backup_as_fast_as_the_used_path_has_room_for_no_reason(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A warning blamed the scheduler, as the window of the backup was not full."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: multi-path\npaths:\n"
        "  - {rate: 20mbit, delay: 5ms, queue: 80packets, backup: true}\n"
        "  - {rate: 20mbit, delay: 40ms, queue: 80packets}\n"
    )
    text = EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH)
    (tmp_path / "xp.yaml").write_text(text.replace("duration: 2s", "duration: 5s, reverse: true"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.metric("bulk.share.path0") < 0.05
    assert result.metric("bulk.efficiency.best") < 0.9
    assert not [text for text in result.summary["warnings"] if "of its best path's rate" in text]


def test_a_join_that_was_reset_is_no_subflow(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Jitter lets the first data overtake the last packet of the handshake. The run had two subflows, and passed."""
    result = download(mprun, tmp_path, FULLMESH, "jitter: 10ms")
    assert result.metric("bulk.subflows") == 1
    (failure,) = result.summary["failures"]
    assert failure.startswith("bulk: 1 of 2 subflows: that over 'lte' was reset ")
    assert "overtakes the last packet of the handshake" in failure


def test_a_flow_that_ends_before_its_joins_lacks_no_subflow(mprun: Callable[..., Result], tmp_path: Path) -> None:
    topology = TOPOLOGY.replace("LOSS", "0%")
    (tmp_path / "topo.yaml").write_text(topology.replace("5ms", "20ms", 1).replace("5ms", "30ms"))
    text = EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH)
    (tmp_path / "xp.yaml").write_text(text.replace("duration: 2s", "size: 5kb"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.summary["failures"] == []
    assert "ended" in result.summary["warnings"][0]
    assert "before all 2 subflows were established" in result.summary["warnings"][0]


def test_a_program_that_wants_little_is_no_warning(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    text = EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH)
    (tmp_path / "xp.yaml").write_text(text.replace("duration: 2s", "duration: 6s, rate: 5mbit"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--strict")
    assert result.status == 0
    assert result.summary["warnings"] == []
    [note] = result.summary["notes"]
    assert "of its best path's rate: its program had nothing to send in " in note


def test_a_receive_window_too_small_for_the_queues_is_told_of(mprun: Callable[..., Result]) -> None:
    """16 MB of buffer give a window of 8 MB. Six paths of 49 Mbit/s and 285 ms with full queues need 10.5 MB."""
    lab = ROOT / "labs" / "10_openflow_topologies"
    paths = ("-p", "paths=6", "-p", "rate=49mbit", "-p", "duration=8s", "--engine", "virtual", "--json")
    small = mprun("-t", lab / "topo_paths", "-x", lab / "bulk", *paths)
    large = mprun("-t", lab / "topo_paths", "-x", lab / "bulk", *paths, "-p", "buffer=67108864")
    assert [text for text in small.summary["warnings"] if text.startswith("server: dropped ")]
    assert not [text for text in large.summary["warnings"] if "dropped" in text]
    # 1424 of 1514 bytes are data; a tenth is for slow start
    assert large.metric("bulk.goodput") > 0.9 * 6 * 49e6 * 1424 / 1514 > small.metric("bulk.goodput")


def test_a_path_that_loses_all_packets_is_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "100%"))
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    result = mprun("-t", "topo", "-x", "xp", "--json")
    assert result.status == 1
    (error,) = result.summary["errors"]
    said = "probe.path1: no answer over this path before any traffic: none of its pings was answered. Look at"
    assert error.startswith(said)
    assert "PING" not in error


def test_a_filter_that_tcpdump_refuses_is_named_with_its_line(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    capture = "capture:\n  - {host: client}\n  - {host: server, filter: tcp prot 80}\n"
    traffic = "traffic: [{tool: ping, from: client, to: server}]\n"
    (tmp_path / "xp.yaml").write_text(f"version: 1\n{traffic}{capture}")
    result = mprun("-t", "topo", "-x", "xp", "--json")
    assert result.status == 1
    (error,) = result.summary["errors"]
    assert error.startswith("xp.yaml:5: capture[1].filter: capture.server: ended with status 1"), error
    assert "can't parse filter expression" in error


@pytest.mark.parametrize(
    ("hosts", "flow", "place"),
    [
        (
            "sysctl: {net.ipv4.tcp_rmen: 1}",
            "",
            "xp.yaml:3: hosts.client.sysctl.net.ipv4.tcp_rmen: kernel 'default' has no sysctl net.ipv4.tcp_rmen",
        ),
        ("mptcp: {scheduler: robin}", "", "xp.yaml:3: hosts.client.mptcp.scheduler: kernel 'default' has no scheduler"),
        ("", ", congestion: renoo", "xp.yaml:5: traffic[0].congestion: kernel 'default' has no congestion control"),
    ],
)
def test_names_that_the_kernel_does_not_have_are_refused_before_a_run(
    hosts: str, flow: str, place: str, mprun: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    entry = f"  - {{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s{flow}}}\n"
    (tmp_path / "xp.yaml").write_text(f"version: 1\nhosts:\n  client: {{{hosts}}}\ntraffic:\n{entry}")
    refused = [mprun(*words, "-t", "topo", "-x", "xp") for words in (("run",), ("sweep",), ("validate",))]
    # a run and a sweep warn of the files before
    (error,) = {one.err.splitlines()[-1] for one in refused}
    assert {(one.status, one.out) for one in refused} == {(2, "")}
    # nothing was booted for a run
    assert not (tmp_path / "runs").exists()
    assert error.startswith(place), error


@pytest.mark.parametrize(
    ("where", "name", "value"), [("client", "net.ipv4.tcp_rmem", "big"), ("build", "net.core.rmem_max", "1")]
)
def test_a_value_that_the_kernel_refuses_is_named_with_its_line(
    mprun: Callable[..., Result], tmp_path: Path, where: str, name: str, value: str
) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    entry = "  - {name: bulk, tool: iperf3, from: client, to: server, duration: 1s}\n"
    sysctl = f"sysctl: {{{name}: '{{{{ value }}}}'}}"
    params = "params: {value: 1}\n"
    (tmp_path / "xp.yaml").write_text(f"version: 1\nhosts:\n  client: {{{sysctl}}}\ntraffic:\n{entry}{params}")
    run = mprun("run", "-t", "topo", "-x", "xp", "-p", f"value={value}")
    said = " ".join(run.out.split())
    assert run.status == 1
    assert f"xp.yaml:3: hosts.client.sysctl.{name}" in said
    assert f"{where}: sysctl -w {name}={value}: Invalid argument (given by -p value={value})" in said
