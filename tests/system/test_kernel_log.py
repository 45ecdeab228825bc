# SPDX-License-Identifier: Apache-2.0
"""Each run has the log and the counters of its experiment kernel, and a fault that the kernel reports fails the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml

from tests.scenes import ONE_PATH
from tests.system.conftest import Result

pytestmark = pytest.mark.fresh

# More operations on semaphores than a kernel can hold in one piece of memory: kvmalloc() warns of the size. With
# `panic_on_warn` the kernel dies of its warning.
WARN = """
import ctypes, time
time.sleep(0.25)
open("/proc/sys/kernel/sem", "w").write("250 32000 2147483647 128")
open("/proc/sys/kernel/panic_on_warn", "w").write("{panic}")
ctypes.CDLL(None).semop(0, None, 400000000)
"""
PLACE = "mm/util.c:"
FAKE = "WARNING: CPU: 0 PID: 1 at net/ipv4/tcp.c:1 fake+0x1/0x2"
# A program writes what a kernel would say: with the kernel's own facility, and with another one.
WRITE = f"""
import os, stat, time
time.sleep(0.25)
os.mknod("/tmp/kmsg", stat.S_IFCHR | 0o600, os.makedev(1, 11))
for priority in (4, 12):
    with open("/tmp/kmsg", "w") as log:
        log.write(f"<{{priority}}>{FAKE}")
"""
PROMISCUOUS = """
import socket, struct, time
time.sleep(0.25)
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
index = socket.if_nametoindex("client-eth0")
packets.setsockopt(263, 1, struct.pack("iHH8x", index, 1, 0))
"""


def run(mprun: Callable[..., Result], folder: Path, program: str, *options: str) -> Result:
    command = ["python3", "-c", program]
    entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": command}
    experiment = {"version": 1, "probe": {"pings": 0}, "traffic": [entry]}
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(yaml.safe_dump(experiment))
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json", *options)


def shown(mprun: Callable[..., Result], run: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(mprun("show", run, "--kernel-log", "--json").out)
    return said


def test_a_warning_of_the_kernel_fails_the_run_and_is_in_its_log(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, WARN.format(panic=0))
    assert result.status == 1
    summary = result.summary
    assert summary["status"] == "failed"
    (failure,) = summary["failures"]
    assert failure.startswith('the kernel reported a fault at 0.25 s: "WARNING: CPU: 0 PID: ')
    assert failure.endswith('" in __kvmalloc_node_noprof(); see `mprun show --kernel-log`')
    assert PLACE in failure
    said = shown(mprun, result.run)
    assert said["complete"]
    (row,) = (one for one in said["messages"] if PLACE in one["text"])
    assert (row["level"], row["origin"]) == ("warn", "kernel")
    assert 0.24e9 < row["time_ns"] <= 0.25e9
    assert [one["sequence"] for one in said["messages"]][:3] == [0, 1, 2]
    assert [one["text"] for one in said["messages"][-2:]] == ["mprun: end of the run", "reboot: Power down"]
    text = mprun("show", result.run, "--kernel-log").out
    assert "     0.25  warn     WARNING: CPU: 0 PID: " in text
    assert "    -3.00  notice   Linux version " in text


def test_the_log_of_a_run_repeats_byte_for_byte(mprun: Callable[..., Result], tmp_path: Path) -> None:
    one = run(mprun, tmp_path, WARN.format(panic=0))
    other = run(mprun, tmp_path, WARN.format(panic=0), "-o", "others")
    for name in ("tables/kernel_log.parquet", "logs/console.log", "record.gz"):
        assert (tmp_path / one.run / name).read_bytes() == (tmp_path / other.run / name).read_bytes(), name


def test_a_program_cannot_fail_a_run_by_what_it_says(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, WRITE)
    assert result.status == 0, result.err
    assert result.summary["warnings"] == []
    written = [one for one in shown(mprun, result.run)["messages"] if one["text"] == FAKE]
    assert [(one["level"], one["origin"]) for one in written] == [("warn", "program")] * 2
    assert f"     0.25  program  {FAKE}" in mprun("show", result.run, "--kernel-log").out


def test_messages_below_the_level_of_the_console_are_kept(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, PROMISCUOUS)
    assert result.status == 0, result.err
    assert "promiscuous" not in (result.run / "logs" / "console.log").read_text()
    (row,) = (one for one in shown(mprun, result.run)["messages"] if "entered promiscuous mode" in one["text"])
    assert row["level"] == "info"
    assert 0.24e9 < row["time_ns"] <= 0.25e9


def test_of_a_kernel_that_died_the_console_is_shown(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, WARN.format(panic=1))
    assert result.status == 1
    assert "the experiment kernel ended before the run did" in result.err
    assert 'it reported "WARNING: CPU: 0 PID: ' in result.err
    assert "Kernel panic - not syncing: kernel: panic_on_warn set" in result.err
    (died,) = (path for path in (tmp_path / "runs").iterdir() if not path.is_symlink())
    said = shown(mprun, died)
    assert (said["complete"], said["times_from"]) == (False, "boot")
    assert said["messages"][-1]["text"].startswith("Kernel panic")
    text = mprun("show", died, "--kernel-log")
    assert "only the console of this kernel is left" in text.err
    assert "     3.25           Kernel panic - not syncing" in text.out
    assert "has no counters of kernels" in mprun("show", died, "--counters").err


@pytest.mark.parametrize("option", ["--kernel-log", "--counters"])
def test_a_sweep_has_no_log_of_its_own(mprun: Callable[..., Result], tmp_path: Path, option: str) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nprobe: {pings: 0}\ntraffic: [{name: a, tool: ping, from: client, to: server, count: 1}]\n"
        "repeat: {runs: 2}\n"
    )
    assert mprun("sweep", "-t", "topo", "-x", "xp", "--engine", "virtual").status == 0
    assert f"'{option}' shows a run: name one of its runs" in mprun("show", "latest-sweep", option).err


def test_hosts_and_routers_have_counters_before_and_after(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{name: it, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
    )
    made = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert made.status == 0, made.err
    table = polars.read_parquet(made.run / "tables" / "counters.parquet")
    assert set(table["host"]) == {"client", "router", "server"}
    assert (table["after"] - table["before"]).to_list() == table["value"].to_list()
    # the packets of the probe were before time zero
    (forwarded,) = table.filter(host="router", name="IpForwDatagrams").to_dicts()
    assert 0 < forwarded["before"] < forwarded["value"]
    names = set(table.filter(host="client", value=0)["name"])
    assert "IpDefaultTTL" in names
    said = mprun("show", made.run, "--counters", "MPTcpExtMPCapableSYN*").out.splitlines()
    assert [line.split()[:2] for line in said[1:]] == [
        ["MPTcpExtMPCapableSYNACKRX", "client"],
        ["MPTcpExtMPCapableSYNRX", "server"],
        ["MPTcpExtMPCapableSYNTX", "client"],
    ]
    assert "IpDefaultTTL" not in mprun("show", made.run, "--counters").out
    assert "IpDefaultTTL" in mprun("show", made.run, "--counters", "IpDefault*").out
    rows = json.loads(mprun("show", made.run, "--json", "--counters").out)["counters"]
    assert forwarded in rows
    assert mprun("export", made.run, "--csv").status == 0
    exported = polars.read_csv(made.run / "tables" / "counters.csv")
    assert exported.equals(table)
    assert "no counter matches 'latest'" in mprun("show", "--counters", "latest").err
