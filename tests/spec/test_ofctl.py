# SPDX-License-Identifier: Apache-2.0
"""Ports and groups in flows, and their translation to interfaces."""

from __future__ import annotations

import pytest

from mprun.model.ofctl import group_id, groups_used, has_actions, port_numbers, ports_named, rename_ports

NAMES = {"path0": "s1-eth0", "a-b": "s1-eth1", "port": "s1-eth2"}


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("in_port=path0,actions=output:a-b", "in_port=s1-eth0,actions=output:s1-eth1"),
        ('in_port="path0" actions=output:"a-b"', "in_port=s1-eth0 actions=output:s1-eth1"),
        ("actions=path0", "actions=output:s1-eth0"),
        ("actions=set_field:1->ip_dscp,path0,a-b", "actions=set_field:1->ip_dscp,output:s1-eth0,output:s1-eth1"),
        ("actions=output(port=path0,max_len=64)", "actions=output(port=s1-eth0,max_len=64)"),
        ("in_port=1,actions=NORMAL", "in_port=1,actions=NORMAL"),
        ("tp_src=80,tcp,actions=in_port", "tp_src=80,tcp,actions=in_port"),
        ("in_port=port,actions=drop", "in_port=s1-eth2,actions=drop"),
        (
            "group_id=1,type=select,bucket=watch_port:path0,output:path0,bucket=weight:2,actions=output:a-b",
            "group_id=1,type=select,bucket=watch_port:s1-eth0,output:s1-eth0,bucket=weight:2,actions=output:s1-eth1",
        ),
    ],
)
def test_links_become_interfaces(text: str, renamed: str) -> None:
    assert rename_ports(text, NAMES) == renamed


def test_ports_named() -> None:
    text = "in_port=path0,tcp,tp_dst=80,actions=output:x,output:NORMAL,output:3,in_port,enqueue:y:1"
    assert list(ports_named(text)) == ["path0", "x", "y"]
    assert list(port_numbers(text)) == [3]


def test_groups() -> None:
    assert group_id("group_id=12,type=all") == 12
    assert group_id("type=all,bucket=output:1") is None
    assert groups_used("actions=group:3,group=4") == {3, 4}
    assert groups_used("group_id=3,type=all") == set()


def test_actions() -> None:
    assert has_actions("priority=1 actions=drop")
    assert not has_actions("priority=1,output:1")
