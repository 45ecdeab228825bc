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
"""
RIGHT = {"CONTROL": "bbr", "SYSCTL": "tcp_sack", "SCHEDULER": "default", "FILTER": "port"}


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
    wrong = {"CONTROL": "bbbr", "SYSCTL": "tcp_sac", "SCHEDULER": "roundrobbin"}
    result = validate(mprun, tmp_path, **wrong)
    assert result.status == 0
    assert "warning: xp.yaml:5: hosts.client.sysctl.net.ipv4.tcp_sac: kernel 'default' has no sysctl" in result.err
    assert "traffic[0].congestion: kernel 'default' has no congestion control 'bbbr' (it has: " in result.err
    assert "hosts.client.mptcp.scheduler: kernel 'default' has no scheduler 'roundrobbin' (it has: " in result.err
    assert validate(mprun, tmp_path, "--strict", **wrong).status == 2


def test_a_filter_that_tcpdump_refuses(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = validate(mprun, tmp_path, FILTER="prot")
    assert result.status == 2
    assert "capture[0].filter: is no filter for tcpdump: can't parse filter expression: syntax error" in result.err
