# SPDX-License-Identifier: Apache-2.0
"""Claims of labs, held against the real engine on a kernel without the schedulers of the experiment kernel.

A lab is run with those of its steps that such a kernel can run, and each claim about them decides.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import pytest
import yaml

from mprun.labs.catalog import open_lab
from mprun.labs.definition import Lab
from mprun.labs.steps import Done, LabRun, LabSettings, run_labs
from mprun.runs.place import choose_place
from mprun.workloads.built.program_store import find
from tests.system.conftest import ROOT, Result, call, leaves_nothing, mprun
from tests.vm.guest import needs_netem

__all__ = ["leaves_nothing", "mprun"]
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("leaves_nothing"), needs_netem]

# On 6.1 a connection of four subflows does not fill its paths with the send buffer that the kernel chooses: it gets 8.2
# of 9.4 Mbit/s in lab 03. Larger buffers fill them, and 6.12 needs none. Linux 6.7 changed how it chooses this buffer.
HAS_SMALL_BUFFERS = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < (6, 7)
# What mainline has instead of the tutorial's scheduler, and when it gives a path up as the tutorial's kernel did.
MAINLINE = {"scheduler": "default", "stale": "1"}
SMALL = {"size": "5mb"}
# Lab 05 with four subflows on each path, for longer than in the lab's file.
FOUR = """\
version: 1
extends: {lab}/iperf_scenario_long.yaml
params: {{cc: reno, per_pair: 4}}
traffic:
  - {{name: multipath, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 120s}}
  - {{name: tcp0, tool: iperf3, from: client1, to: server1, start: 10s, duration: 110s, omit: {{start: 20s}}}}
  - {{name: tcp1, tool: iperf3, from: client2, to: server2, start: 10s, duration: 110s, omit: {{start: 20s}}}}
repeat: {{runs: 1}}
"""


@dataclass(frozen=True)
class Part:
    """Steps of a lab, and the number of its claims that they decide.

    given: parameters of the lab. changes: parameters of some of the steps, in place of the lab's.
    """

    lab: str
    steps: tuple[str, ...]
    claims: int
    given: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def cut(self, folder: Path) -> Lab:
        """Return the lab in a folder with these steps only."""
        lab = open_lab(str(folder), self.given)
        named = {
            step.name: replace(step, parameters={**step.parameters, **self.changes.get(step.name, {})})
            for step in lab.steps
        }
        return replace(lab, steps=tuple(named[name] for name in self.steps))


PARTS = {
    "02 TCP": Part("02", ("tcp_20mb", "tcp_20mb_300kB"), 1, changes={"tcp_20mb": SMALL, "tcp_20mb_300kB": SMALL}),
    "03 path managers": Part(
        "03",
        tuple(
            f"{topology}_{manager}"
            for topology in ("single", "two", "two_by_two")
            for manager in ("default", "fullmesh", "ndiffports")
        ),
        6,
        {"rate": "5mbit"},
    ),
    "04 backup": Part("04", ("backup", "mainline"), 4, changes={"backup": MAINLINE}),
    "06 QUIC": Part(
        "06",
        (
            *("xp_single_path", "xp_multipath_rtt", "xp_multipath_rr", "asymmetric", "unlike_single_path"),
            *("unlike_multipath_rtt", "unlike_multipath_rr", "requests_rtt", "requests_rr"),
        ),
        8,
    ),
}


def find_lab(number: str, place: Path) -> Path:
    """Return the folder of a lab. On a kernel with small send buffers it is a copy, whose clients have larger ones."""
    (folder,) = ROOT.glob(f"labs/{number}_*")
    if not HAS_SMALL_BUFFERS:
        return folder
    shutil.copytree(folder, place / folder.name)
    for path in (place / folder.name).glob("*.yaml"):
        experiment = yaml.safe_load(path.read_text())
        client = experiment.get("hosts", {}).get("client", {})
        if "mptcp" in client:
            client.setdefault("sysctl", {})["net.ipv4.tcp_wmem"] = "4096 1048576 4194304"
            path.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return place / folder.name


def run_lab(lab: Lab, parent: Path) -> LabRun:
    """Run a lab in the real engine, and print what each of its claims amounts to."""
    place = choose_place("real", "default")

    def report(done: Done) -> None:
        print(f"{done.step.name}: {done.state} {done.error}")

    (result,) = run_labs([lab.in_profile("quick")], LabSettings(place, parent), report, lambda: None)
    for one in result.judgements:
        print(f"{one.verdict}: {one.claim.says}: {one.evaluation} {one.reason}")
    return result


@pytest.mark.skipif(os.geteuid() != 0, reason="labs are run as root")
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_claims_of_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Part) -> None:
    if part.lab == "06" and find("quic") is None:
        pytest.skip("the program for multipath QUIC is not built: make quic")
    # a step's process imports mprun from here
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = run_lab(part.cut(find_lab(part.lab, tmp_path)), tmp_path / "runs")
    assert [done.state for done in result.done] == ["ran"] * len(part.steps)
    assert [one.claim.says for one in result.judgements if one.verdict != "held"] == []
    assert len(result.judgements) == part.claims


@pytest.mark.skipif(os.geteuid() != 0, reason="labs are run as root")
def test_uncoupled_subflows_and_tcp_share_paths_as_lab_05_says(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Its ratios at 5 Mbit/s, with Reno. OLIA needs the experiment kernel."""
    lab = ROOT / "labs" / "05_congestion_control"
    slower = ("-t", lab / "topo_cong", "-p", "rate=5mbit", "--engine", "real", "--json")
    one = mprun("-x", lab / "iperf_scenario_reno_1sf", *slower)
    assert one.status == 0, one.out + one.err
    assert one.metric("multipath.subflows") == 2
    # TCP connections come on path0 at 10 s and on path1 at 20 s, and each ends after 20 s
    phases = [
        mean(
            row["goodput_bit_per_s"]
            for row in one.rows("goodput")
            if row["flow"] == "multipath" and begin + 2.5 <= row["start_s"] < begin + 8.5
        )
        for begin in range(0, 50, 10)
    ]
    print(phases)
    assert phases[0] > phases[1] > phases[2] < phases[3] < phases[4]
    (tmp_path / "four.yaml").write_text(FOUR.format(lab=lab))
    four = mprun("-x", tmp_path / "four", *slower, "--allow-outside")
    assert four.status == 0, four.out + four.err
    assert four.metric("multipath.subflows") == 8
    # Of two flows TCP gets half, of five a fifth: it must be nearer to a fifth. In simulated time, 16 runs of this
    # length give 1.03 Mbit/s with a standard deviation of 0.08. After the 20 s of the lab's file it would be 0.18,
    # because a quarter of the rate gives a quarter of the losses.
    rate = 5e6 * 1448 / 1514
    print(four.metric("tcp0.goodput"), four.metric("tcp1.goodput"))
    assert mean([four.metric("tcp0.goodput"), four.metric("tcp1.goodput")]) <= (rate / 2 + rate / 5) / 2


def test_a_lab_names_what_this_kernel_lacks(tmp_path: Path) -> None:
    """Lab 04 needs a scheduler of the experiment kernel for two of its steps."""
    done = call("lab", "run", "04", "--engine", "real", "-o", tmp_path / "runs", cwd=tmp_path)
    assert done.status == 3, done.out + done.err
    assert done.out.count("has no scheduler 'lowest-rtt'") >= 2


@pytest.mark.skipif(os.geteuid() != 0, reason="labs are run as root")
@pytest.mark.parametrize("technology", ["ethernet", "wifi-802.11g", "4g-lte", "3g-hspa+"])
def test_cpu_time_over_time_on_an_emulated_technology(mprun: Callable[..., Result], technology: str) -> None:
    """Lab 13's CPU times come with each program's samples.

    On a translated processor, an instruction takes 2 ns (`machine.TCG`). So CPU time counts instructions, and tells the
    shares of the transports. The line that begins with `cpu` has goodput, bit/s, and CPU time, s, of each flow.
    """
    if find("cmtsctp") is None:
        pytest.skip("the program for SCTP is not built: mprun tools install cmtsctp")
    lab = ROOT / "labs" / "13_sctp_vs_mptcp"
    given = ("-p", f"technology={technology}", "-p", "duration=10s", "--engine", "real", "--json")
    done = mprun("-t", lab / "topo_table", "-x", lab / "cpu", *given)
    assert done.status == 0, done.out + done.err
    flows = ("tcp", "mptcp", "sctp", "cmt")
    names = [f"{flow}.{what}" for flow in flows for what in ("goodput", "cpu.client", "cpu.server")]
    print("cpu", json.dumps({"technology": technology, **{name: done.metric(name) for name in names}}))
    rows = done.rows("cpu")
    for flow in flows:
        for host in ("client", "server"):
            process = flow if host == "client" else f"{flow}.server"
            own = [row for row in rows if (row["host"], row["process"]) == (host, process)]
            used_ns = [row["user_ns"] + row["system_ns"] for row in own]
            # a sample every 100 ms for 10 s, of a program that works all the time
            assert len(own) >= 50, (flow, host)
            assert used_ns == sorted(used_ns)
            assert used_ns[-1] > 0
    # for each byte, the programs at both ends need less CPU time over MPTCP than over CMT-SCTP
    for end in ("client", "server"):
        mptcp, cmt = (done.metric(f"{flow}.cpu.{end}") / done.metric(f"{flow}.goodput") for flow in ("mptcp", "cmt"))
        assert cmt > mptcp, (technology, end)
