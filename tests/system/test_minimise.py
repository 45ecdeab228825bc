# SPDX-License-Identifier: Apache-2.0
"""`mprun minimise`: two lines of sixty are the cause of a failure, each of them without effect alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mprun.questions.minimise import digest_of, read_with_seed
from mprun.storage.run_directory import RunDirectory
from tests.system.conftest import call

# The cause: a delay and a small send buffer. A window of 16 kB per round trip of 112 ms is slow.
DELAY, BUFFER = "delay: 53ms", "net.ipv4.tcp_wmem: 4096 16384 16384"
TOPOLOGY = """\
version: 1
description: an office with an uplink
nodes:
  alice: {kind: host}
  bob: {kind: host}
  printer: {kind: host}
  office: {kind: router}
  backbone: {kind: router}
  server: {kind: host}
  mirror: {kind: host}
links:
  - {name: desk0, between: [alice, office], rate: 97.3mbit, delay: 1.2ms, queue: 93packets}
  - {name: desk1, between: [bob, office], rate: 97.3mbit, delay: 1.3ms}
  - {name: paper, between: [printer, office], rate: 11mbit}
  - name: uplink
    between: [office, backbone]
    rate: 47mbit
    delay: 53ms
    queue: 1bdp
    mtu: 1500
  - {name: core0, between: [backbone, server], delay: 2.7ms}
  - {name: core1, between: [backbone, mirror], delay: 3.1ms, loss: 0.01%}
events:
  - {at: 1s, link: paper, set: {rate: 7mbit}}
  - {at: 2s, link: core1, set: {delay: 4ms}}
"""
EXPERIMENT = """\
version: 1
description: transfers at the same time
hosts:
  alice:
    mptcp:
      path_manager: fullmesh
    sysctl:
      net.ipv4.tcp_congestion_control: cubic
      net.ipv4.tcp_slow_start_after_idle: 0
      net.ipv4.tcp_wmem: 4096 16384 16384
      net.ipv4.tcp_sack: 1
  bob:
    sysctl:
      net.ipv4.tcp_congestion_control: reno
      net.ipv4.tcp_timestamps: 1
  server:
    sysctl:
      net.ipv4.tcp_rmem: 4096 131072 33554432
      net.ipv4.tcp_window_scaling: 1
traffic:
  - {name: upload, tool: iperf3, from: alice, to: server, protocol: tcp, start: 0s, duration: 4s}
  - {name: other, tool: iperf3, from: bob, to: mirror, protocol: tcp, start: 0.5s, duration: 2s}
  - {name: status, tool: ping, from: printer, to: mirror, count: 5, interval: 200ms}
capture:
  - {host: alice, snaplen: 100}
  - {host: server, snaplen: 100}
sample:
  sockets: 100ms
  queues: 200ms
probe: {pings: 4}
expect:
  - {metric: upload.goodput, min: 20mbit}
  - {metric: other.goodput, min: 500kbit}
show: [upload.goodput, other.goodput]
repeat: {seed: 7}
"""


def write(folder: Path, topology: str = TOPOLOGY, experiment: str = EXPERIMENT) -> None:
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(experiment)


@pytest.mark.long
def test_two_lines_of_sixty_are_found(tmp_path: Path) -> None:
    assert len((TOPOLOGY + EXPERIMENT).splitlines()) == 60
    for topology, experiment, status in (
        (TOPOLOGY.replace(DELAY, "delay: 1ms"), EXPERIMENT, 0),
        (TOPOLOGY, EXPERIMENT.replace(BUFFER, "net.ipv4.tcp_wmem: 4096 16384 4194304"), 0),
        (TOPOLOGY, EXPERIMENT, 1),
    ):
        write(tmp_path, topology, experiment)
        assert call("-t", "topo", "-x", "xp", cwd=tmp_path).status == status
    done = call("minimise", "latest", "--json", cwd=tmp_path)
    assert done.status == 0, done.err
    assert "keeps: upload.goodput is " in done.err
    report = json.loads(done.out)
    assert report["complete"]
    assert report["lines"] <= 17
    topology, experiment = (yaml.safe_load((tmp_path / path).read_text()) for path in report["files"])
    assert [link for link in topology["links"] if link.keys() - {"between"}] == [
        {"between": ["office", "backbone"], "delay": "50ms"}
    ]
    assert experiment == {
        "version": 1,
        "hosts": {"alice": {"sysctl": {"net.ipv4.tcp_wmem": "4096 16384 16384"}}},
        "traffic": [{"name": "upload", "tool": "iperf3", "from": "alice", "to": "server", "duration": "1s"}],
        "expect": [{"metric": "upload.goodput", "min": "20mbit"}],
    }
    # the files fail as they are, and are not overwritten
    again = call("-t", "minimal/topo", "-x", "minimal/xp", "--json", cwd=tmp_path)
    assert again.status == 1
    assert [one["held"] for one in again.summary["expectations"]] == [False]
    second = call("minimise", "latest", cwd=tmp_path)
    assert (second.status, "minimal/topo.yaml exists: remove it" in second.err) == (2, True)


def test_a_run_that_passed_has_no_failure(tmp_path: Path) -> None:
    write(tmp_path, TOPOLOGY, EXPERIMENT.replace("20mbit", "1mbit"))
    assert call("-t", "topo", "-x", "xp", cwd=tmp_path).status == 0
    done = call("minimise", "latest", cwd=tmp_path)
    assert (done.status, done.err.strip()) == (
        2,
        "this run did not fail: name a run that did, or state what to keep with --fail-if",
    )
    # a budget ends the search, and a statement takes the place of an expectation
    short = call("minimise", "latest", "--fail-if", "upload.goodput < 20mbit", "--budget", "4", "--json", cwd=tmp_path)
    assert short.status == 1, short.err
    report = json.loads(short.out)
    assert (report["complete"], report["runs"]) == (False, 4)
    assert report["lines"] < report["lines_before"]


def test_a_failure_that_the_control_kernel_has_too_is_refused(tmp_path: Path) -> None:
    """The control is the same kernel under its digest."""
    write(tmp_path)
    assert call("-t", "topo", "-x", "xp", cwd=tmp_path).status == 1
    own = call("minimise", "latest", "--control", "default", cwd=tmp_path)
    refused = "--control: default is the kernel of the other runs too: name another, or give --kernel\n"
    assert (own.status, own.err) == (2, refused)
    digest = json.loads(call("kernel", "info", "--json", cwd=tmp_path).out)["digest"]
    done = call("minimise", "latest", "--control", digest, cwd=tmp_path)
    assert done.status == 2, done.out
    assert done.err.strip().endswith("its files fail on the control kernel too")
    # the commands that it prints name the kernel
    words = ("--fail-if", "upload.goodput < 20mbit", "--budget", "1", "--kernel", digest)
    assert f" --kernel {digest}\n" in call("minimise", "latest", *words, cwd=tmp_path).out


def test_commands_of_the_files_need_consent(tmp_path: Path) -> None:
    """The message was that the files do not show the failure."""
    flow = "{tool: exec, from: alice, to: server, command: ['false']}"
    write(tmp_path, experiment=f"version: 1\ntraffic: [{flow}]\n")
    assert call("-t", "topo", "-x", "xp", "--allow-exec", cwd=tmp_path).status == 1
    refused = call("minimise", "latest", cwd=tmp_path)
    assert refused.status == 2
    assert "runs commands of its own; if you want them, add --allow-exec" in refused.err
    done = call("minimise", "latest", "--allow-exec", "--budget", "2", "--json", cwd=tmp_path)
    assert (done.status, json.loads(done.out)["runs"]) == (1, 2)


@pytest.mark.parametrize("repeat", ["{seed: 3, vary: [start]}", "{seed: 3, reseed: {at: 1ms, seed: 4}}"])
def test_the_files_of_a_run_keep_what_its_seed_varies(tmp_path: Path, repeat: str) -> None:
    write(
        tmp_path,
        "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 5ms}]\n",
        "version: 1\ntraffic: [{tool: reqres, from: client, to: server, requests: 2}]\n"
        f"repeat: {repeat}\nmatrix: {{engine: [virtual]}}\n",
    )
    assert call("sweep", "-t", "topo", "-x", "xp", cwd=tmp_path).status == 0
    (folder,) = tmp_path.glob("runs/latest-sweep/runs/*/1")
    run, work = RunDirectory(folder), tmp_path / "work"
    work.mkdir()
    assert digest_of(read_with_seed(run, work), work) == run.digest
