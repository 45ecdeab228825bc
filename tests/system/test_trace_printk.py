# SPDX-License-Identifier: Apache-2.0
"""trace_printk() of a scheduler of the user's own is an event of the run.

The first build takes two and a half minutes of two idle CPUs. The kernel stays in `build/kernels`. It is built again
only if the scheduler, the recipe or the source of Linux has changed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.system.conftest import COMMAND, LAB, ROOT, call, environment

CACHE = ROOT / "build" / "kernels"
CHOICE = "\treturn mprun_srtt(one) < mprun_srtt(other);\n"
EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh, scheduler: printer}}
  server: {mptcp: {path_manager: fullmesh}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]
tracepoints: ["ftrace:print"]
"""


def test_trace_printk_of_a_scheduler_is_an_event(tmp_path: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    env = environment(XDG_CACHE_HOME=str(CACHE))
    assert call("kernel", "template", "scheduler", "printer.c", cwd=tmp_path, env=env).status == 0
    text = (tmp_path / "printer.c").read_text()
    assert CHOICE in text
    printing = '\ttrace_printk("srtt %u and %u\\n", mprun_srtt(one), mprun_srtt(other));\n'
    (tmp_path / "printer.c").write_text(text.replace(CHOICE, printing + CHOICE))
    build = [*COMMAND, "kernel", "build", "--name", "printer", "--with-scheduler", "printer.c"]
    built = subprocess.run(build, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800)
    assert built.returncode == 0, built.stdout + built.stderr
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    files = ("-t", LAB / "topo", "-x", "xp", "--engine", "virtual", "--kernel", "printer")
    run = call(*files, cwd=tmp_path, env=env)
    assert run.status == 0, run.out + run.err
    events = json.loads(call("show", "--trace", "ftrace:print", "--json", cwd=tmp_path, env=env).out)["events"]
    assert len(events) > 10
    for event in events:
        first, second = event["buf"].removeprefix("srtt ").split(" and ")
        # in us; the propagation delay is 40 ms
        assert all(40_000 <= srtt < 1_000_000 for srtt in map(int, (first, second)))
    assert 0 < events[0]["time_ns"] < events[-1]["time_ns"]
