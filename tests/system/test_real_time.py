# SPDX-License-Identifier: Apache-2.0
"""The same agent in real time: on this host's kernel, and in an experiment kernel without time travel.

The experiment kernel has netem, which this host may lack.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.engines import virtual
from mprun.inputs.loading import load
from mprun.kernel.store import find_kernel
from mprun.metrics.evidence import Evidence
from mprun.metrics.observation import observe
from mprun.metrics.summary import measure
from mprun.storage.run_directory import RunDirectory
from tests.scenes import AS_NOBODY, NOBODY, RATES_ONLY
from tests.system.conftest import LAB, LOST_CONTROL, SHORT, Result, call, environment, measures_real_time
from tests.system.test_shell import PROMPT, Terminal

pytestmark = pytest.mark.alone
# In real time, each capture needs two seconds more at the end.
UNCAPTURED = SHORT.partition("capture:")[0]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(UNCAPTURED)
    return tmp_path


@measures_real_time
@pytest.mark.usefixtures("leaves_nothing")
def test_rates_on_the_hosts_kernel(mprun: Callable[..., Result], files: Path) -> None:
    # A pause of this machine counts less in a longer transfer. The last samples are taken after the ping, when no
    # packet of the transfer waits in a queue.
    after = "  - {tool: ping, from: client, to: server, start: {after: bulk, offset: 500ms}, duration: 200ms}\n"
    (files / "xp.yaml").write_text(UNCAPTURED.replace("duration: 1s", "duration: 3s") + after)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("bulk.subflows") == 2
    # headers allow 37.6; a busy machine may reduce the rate
    assert 33e6 <= result.metric("bulk.goodput") <= 38.3e6
    # the difference between the packets sent at one end of a wire and received at the other was dropped by the queue
    last = {(row["node"], row["link"]): row for row in result.rows("interfaces")}
    drops = {row["link"]: row["drops_packets"] for row in result.rows("queues") if row["direction"] == "forward"}
    for link in ("path0", "path1"):
        assert last["client", link]["tx_packets"] - last["router", link]["rx_packets"] == drops[link]
    assert sum(drops.values()) > 0
    # the settings of this machine's kernel, which other machines may lack, and the settings of the run
    found = json.loads((result.run / "environment.json").read_text())["sysctls"]
    assert found["net.ipv4.tcp_rmem"] == " ".join(Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split())
    assert "net.core.rmem_max" in found
    # Linux has schedulers by name from 6.6 on
    assert ("net.mptcp.scheduler" in found) == Path("/proc/sys/net/mptcp/scheduler").exists()
    readback = json.loads((result.run / "agent.json").read_text())["readback"]
    assert readback["sysctl"]["router"]["net.ipv4.ip_forward"] == "1"


@pytest.mark.usefixtures("files")
def test_a_machine_that_cannot_keep_up_is_told(mprun: Callable[..., Result]) -> None:
    """Three busy loops run on each CPU, so some program waits there at all times.

    Each loop stays on its CPU. Otherwise a busy machine may give a CPU to another session alone, and share the other
    CPUs among the loops. The kernel would count a part of the time only, because it takes the mean of the CPUs.
    """
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("this kernel does not count who waits for a CPU")
    spin = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin, str(cpu)]) for cpu in 3 * [*os.sched_getaffinity(0)]]
    try:
        result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    (warning,) = [text for text in result.summary["warnings"] if "could not keep up" in text]
    assert re.search(r"some program waited for a CPU (9\d|100)% of the time", warning)


@measures_real_time
@pytest.mark.usefixtures("leaves_nothing")
def test_delays_in_an_experiment_kernel_in_real_time(files: Path) -> None:
    spec = load(LAB / "topo", files / "xp.yaml").spec
    plan = compile_plan(spec, allocate(spec))
    run = RunDirectory.create(files / "runs", "real-time", plan.digest)
    run.folder.write_json("plan.json", plan.to_json())
    virtual.run_plan(plan, run, find_kernel(), lambda *_: None, real_time=True)
    agent = run.agent_report()
    assert agent.error is None
    observation = observe(run.record(), agent.zero_ns or 0, plan.intent.links)
    summary = measure(Evidence(plan.intent, agent, observation, run.log)).summary
    assert summary.status == "passed", summary
    assert summary.metrics["bulk.subflows"].value == 2
    # both paths are used; the rate depends on this machine's speed
    assert summary.metrics["bulk.goodput"].value > 20e6
    assert 0.04 <= summary.metrics["path0.rtt"].value < 0.06


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("engine", ["virtual", "real"])
def test_a_run_stops_at_the_prompt(files: Path, engine: str, moment: str) -> None:
    for _ in range(3):
        terminal = Terminal("-t", "topo", "-x", "xp", "--engine", engine, "--shell", moment, cwd=files)
        terminal.until(PROMPT)
        assert "client router server" in terminal.ask("nodes")
        assert (files / "runs" / "latest" / "logs" / "bulk.out").exists() == (moment == "after")
        status = terminal.close()
        summary = (files / "runs" / "latest" / "summary.json").read_text()
        if engine == "virtual" or LOST_CONTROL not in summary:
            break
    assert status == 0, summary


@pytest.mark.skipif(os.geteuid() != 0, reason="this whole test run is unprivileged already")
@pytest.mark.usefixtures("leaves_nothing")
def test_rates_on_the_hosts_kernel_without_root(files: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mprun-test-"))
    (files / "xp.yaml").write_text(SHORT)
    try:
        for name in ("topo.yaml", "xp.yaml"):
            shutil.copy(files / name, folder / name)
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        if subprocess.run([*AS_NOBODY, "unshare", "--user", "--net", "true"], check=False).returncode:
            pytest.skip("this host gives users no namespaces")
        if subprocess.run([*AS_NOBODY, sys.executable, "-c", "import mprun.cli"], check=False).returncode:
            pytest.skip("an unprivileged user cannot read this checkout, so cannot run it")
        env = environment(HOME="/nonexistent", PATH="/usr/bin:/bin")
        result = call("-t", "topo", "-x", "xp", "--engine", "real", "--json", cwd=folder, prefix=AS_NOBODY, env=env)
        assert result.status == 0, result.out + result.err
        assert result.metric("bulk.subflows") == 2
        assert (folder / result.run / "pcap" / "client.pcap").stat().st_size > 10_000
    finally:
        shutil.rmtree(folder)
