# SPDX-License-Identifier: Apache-2.0
"""A run that asked for MPTCP and did not get it, or got fewer subflows, fails and names the cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.analysis.observation import observe
from mprun.analysis.summary import measure
from mprun.compile import allocate, compile_plan
from mprun.engines import virtual
from mprun.kernel.store import find_kernel
from mprun.rundir import RunDirectory
from mprun.spec import load
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
    # the kernel's limits leave 4 pairs of addresses, of which two have a server
    cause = "nobody listens at 10.1.1.1: the server's program has to take joins there too"
    assert result.summary["failures"] == [f"one: 2 of 4 subflows: {cause}"]


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
    """One end's program runs without the library that opens MPTCP sockets for it."""
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("LOSS", "0%"))
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("CLIENT", FULLMESH).replace("SERVER", FULLMESH))
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    plan = compile_plan(spec, allocate(spec))
    if end == "client":
        plan = replace(plan, flows=(replace(plan.flows[0], env={}),))
    else:
        plan = replace(plan, daemons=(replace(plan.daemons[0], env={}),))
    run = RunDirectory.create(tmp_path / "runs", "test", plan.digest)
    run.write("plan.json", plan.to_json())
    virtual.run_plan(plan, run, find_kernel(), lambda *_: None)
    agent = run.read("agent.json")
    observation = observe(run.record(), agent["zero_ns"], plan.intent["links"])
    summary = measure(plan.to_json()["intent"], agent, observation, run.log, (), "virtual").summary
    assert summary["failures"] == [f"bulk: asked for MPTCP and got TCP: {cause}"]
    assert summary["status"] == "failed"


def test_a_receive_window_too_small_for_the_queues_is_told_of(mprun: Callable[..., Result]) -> None:
    """16 MB of buffer are a window of 8 MB; six paths of 49 Mbit/s and 285 ms with full queues ask for 10.5 MB."""
    lab = ROOT / "labs" / "10_openflow_topologies"
    paths = ("-p", "paths=6", "-p", "rate=49mbit", "-p", "duration=8s", "--engine", "virtual", "--json")
    small = mprun("-t", lab / "topo_paths", "-x", lab / "bulk", *paths)
    large = mprun("-t", lab / "topo_paths", "-x", lab / "bulk", *paths, "-p", "buffer=67108864")
    assert [text for text in small.summary["warnings"] if text.startswith("server: dropped ")]
    assert not [text for text in large.summary["warnings"] if "dropped" in text]
    # 1428 of 1514 bytes are data; a tenth for slow start
    assert large.metric("bulk.goodput") > 0.9 * 6 * 49e6 * 1428 / 1514 > small.metric("bulk.goodput")
