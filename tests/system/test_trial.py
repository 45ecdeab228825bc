# SPDX-License-Identifier: Apache-2.0
"""`mprun validate` finds what the experiment kernel and tcpdump refuse, in all cells of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenes import ONE_PATH
from tests.system.conftest import Result

pytestmark = pytest.mark.fresh

EXPERIMENT = """\
version: 1
params: {cc: cubic}
matrix: {cc: [cubic, CONTROL]}
hosts:
  client: {sysctl: {net.ipv4.SYSCTL: 1, net.ipv4.conf.client-eth0.rp_filter: 0}, mptcp: {scheduler: SCHEDULER}}
traffic:
  - {tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s, congestion: "{{cc}}"}
capture:
  - {host: client, filter: tcp FILTER 80}
  - {node: router, link: path0, filter: ether proto 0x800}
tracepoints: ["tcp:EVENT", "mptcp:*", "ftrace:print"]
"""
RIGHT = {"EVENT": "tcp_probe", "CONTROL": "bbr", "SYSCTL": "tcp_sack", "SCHEDULER": "default", "FILTER": "port"}


def validate(mprun: Callable[..., Result], folder: Path, *options: str, **words: str) -> Result:
    text = EXPERIMENT
    for name, word in {**RIGHT, **words}.items():
        text = text.replace(name, word)
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(text)
    return mprun("validate", "-t", "topo", "-x", "xp", *options)


def test_what_the_kernel_has(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = validate(mprun, tmp_path, "--strict")
    assert (result.status, result.err) == (0, "")


def test_names_that_the_kernel_does_not_have(mprun: Callable[..., Result], tmp_path: Path) -> None:
    wrong = {"EVENT": "tcp_prob", "CONTROL": "bbbr", "SYSCTL": "tcp_sac", "SCHEDULER": "roundrobbin"}
    result = validate(mprun, tmp_path, **wrong)
    assert result.status == 2
    assert (
        "xp.yaml:5: hosts.client.sysctl.net.ipv4.tcp_sac: kernel 'default' has no sysctl net.ipv4.tcp_sac: did you"
        in (result.err)
    )
    said = "xp.yaml:11: tracepoints[0]: kernel 'default' has no event 'tcp:tcp_prob': did you mean tcp:tcp_probe or "
    assert said in result.err
    assert "congestion: kernel 'default' has no congestion control 'bbbr': did you mean 'bbr'?" in result.err
    assert "mptcp.scheduler: kernel 'default' has no scheduler 'roundrobbin': did you mean 'roundrobin'?" in result.err


def test_a_fault_of_the_files_hides_no_name_that_the_kernel_lacks(mprun: Callable[..., Result], tmp_path: Path) -> None:
    fault = {"tracepoints:": "expect: [{metric: nothing.goodput, min: 1mbit}]\ntracepoints:"}
    result = validate(mprun, tmp_path, SCHEDULER="roundrobbin", **fault)
    assert result.status == 2
    assert "expect[0].metric: no flow 'nothing'" in result.err
    assert "kernel 'default' has no scheduler 'roundrobbin'" in result.err


def test_names_far_from_all_others(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = validate(mprun, tmp_path, SCHEDULER="own")
    assert result.status == 2
    assert "kernel 'default' has no scheduler 'own'; it has: default, " in result.err
    assert "; to add your own: mprun kernel build --name mine --with-scheduler FILE.c, then --kernel mine" in result.err
    assert validate(mprun, tmp_path, "--kernel", "none").status == 3


def test_a_configured_engine_on_another_kernel(
    mprun: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run on the kernel of this machine may have what the experiment kernel lacks."""
    (tmp_path / "mprun").mkdir()
    (tmp_path / "mprun" / "config.yaml").write_text("version: 1\nengine: real\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    result = validate(mprun, tmp_path, SCHEDULER="own")
    assert result.status == 0
    assert "warning: xp.yaml:5: hosts.client.mptcp.scheduler: kernel 'default' has no scheduler 'own'" in result.err


def test_a_value_that_a_sysctl_refuses(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = validate(mprun, tmp_path, SYSCTL="tcp_rmem: big, net.ipv4.tcp_sack")
    assert result.status == 2
    assert "sysctl.net.ipv4.tcp_rmem: 'big' is no value of this sysctl for kernel 'default'" in result.err
    right = validate(mprun, tmp_path, SYSCTL="tcp_wmem: 4096 20000 100000, net.ipv4.tcp_sack")
    assert (right.status, right.err) == (0, "")


def test_a_value_is_judged_after_the_other_values_of_its_host_alone(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """A kernel takes the first of these ports only after it has taken the range of the same host."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text("""\
version: 1
hosts:
  client: {sysctl: {net.ipv4.ip_local_port_range: 50000 60000, net.ipv4.ip_unprivileged_port_start: 40000}}
  server: {sysctl: {net.ipv4.ip_local_port_range: 30000 60000}}
traffic: [{tool: ping, from: client, to: server, count: 1}]
""")
    for command in ("validate", "run"):
        result = mprun(command, "-t", "topo", "-x", "xp")
        assert (result.status, "warning" in result.err) == (0, False), result.err


def test_a_filter_that_tcpdump_refuses(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = validate(mprun, tmp_path, FILTER="prot")
    assert result.status == 2
    assert "capture[0].filter: is no filter for tcpdump: can't parse filter expression: syntax error" in result.err
