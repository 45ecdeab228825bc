# SPDX-License-Identifier: Apache-2.0
"""Read-back: the output of tc and ip, compared with the requested configuration."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.readback import differences_groups, differences_mptcp, differences_ports, differences_tc

SHOWN: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "outputs" / "tc-6.1.0-qdisc.json").read_text())
TC = [
    "tc qdisc add dev w0b root handle 1: netem limit 10000000 delay 20ms loss random 0.5%".split(),
    "tc qdisc add dev w0b parent 1:1 handle 10: tbf rate 20mbit burst 1514 limit 121120".split(),
    "tc qdisc add dev w0b parent 10:1 handle 100: pfifo limit 80".split(),
    "tc qdisc add dev w0a ingress".split(),
]
LIMITS = "ip mptcp limits set subflows 2 add_addr_accepted 1".split()
ENDPOINT = "ip mptcp endpoint add 10.0.0.1 subflow fullmesh".split()


def test_equal_qdiscs_have_no_difference() -> None:
    assert differences_tc(TC, SHOWN) == []


def test_a_delay_beside_a_jitter_is_shown_a_microsecond_short() -> None:
    """The output of tc 6.1 for `delay 43.5us 6us 0%`."""
    command = "tc qdisc add dev w0b root handle 1: netem limit 10000000 delay 43.500us 6us 0%".split()
    options = {"limit": 10000000, "delay": {"delay": 4.2e-05, "jitter": 5e-06, "correlation": 0}}
    shown = {"kind": "netem", "handle": "1:", "dev": "w0b", "root": True, "options": options}
    assert differences_tc([command], [shown]) == []
    options["delay"] = {"delay": 4.1e-05, "jitter": 5e-06, "correlation": 0}
    assert differences_tc([command], [shown]) == ["w0b netem delay: asked 43.500us, reads 4.1e-05"]


@pytest.mark.parametrize(
    ("index", "asked", "other", "message"),
    [
        (0, "20ms", "21ms", "w0b netem delay: asked 21ms, reads 0.02"),
        (0, "0.5%", "0.6%", "w0b netem loss random: asked 0.6%, reads 0.005"),
        (1, "20mbit", "21mbit", "w0b tbf rate: asked 21mbit, reads 20000000.0"),
        (2, "80", "81", "w0b pfifo limit: asked 81, reads 80.0"),
        (2, "pfifo", "bfifo", "w0b has no bfifo 100:"),
    ],
)
def test_each_difference_is_named(index: int, asked: str, other: str, message: str) -> None:
    commands = copy.deepcopy(TC)
    commands[index] = [other if word == asked else word for word in commands[index]]
    assert differences_tc(commands, SHOWN) == [message]


def test_a_burst_is_shown_in_whole_microseconds_of_its_rate() -> None:
    # tc shows 2794 bytes at 10 Gbit/s as 2 us, which are 2500 bytes
    options = {"rate": 1_250_000_000, "burst": 2500, "limit": 20_000_000}
    shown = [{"dev": "w0b", "kind": "tbf", "handle": "10:", "root": True, "options": options}]
    asked = "tc qdisc add dev w0b root handle 10: tbf rate 10gbit burst {} limit 20000000"
    assert differences_tc([asked.format(2794).split()], shown) == []
    assert differences_tc([asked.format(4000).split()], shown) == ["w0b tbf burst: asked 4000, reads 2500.0"]
    # 1294 bytes at 279.797 Mbit/s take 36.998 us, shown as 36 us, which are 1259 bytes
    options = {"rate": 34_974_625, "burst": 1259, "limit": 20_000_000}
    shown = [{"dev": "w0b", "kind": "tbf", "handle": "10:", "root": True, "options": options}]
    asked = "tc qdisc add dev w0b root handle 10: tbf rate 279797kbit burst {} limit 20000000"
    assert differences_tc([asked.format(1294).split()], shown) == []
    # a burst that differs by two microseconds is a difference
    assert differences_tc([asked.format(1294 + 70).split()], shown) != []


def test_equal_endpoints_have_no_difference() -> None:
    shown = ["10.0.0.1 id 1 subflow fullmesh", "add_addr_accepted 1 subflows 2 "]
    assert differences_mptcp([LIMITS, ENDPOINT], shown) == []


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            ["10.0.0.1 id 1 subflow fullmesh", "add_addr_accepted 0 subflows 2"],
            "limit add_addr_accepted: asked 1, reads 0",
        ),
        (["10.0.0.1 id 1 subflow", "add_addr_accepted 1 subflows 2"], "endpoint 10.0.0.1 lacks fullmesh"),
        (["add_addr_accepted 1 subflows 2"], "no endpoint 10.0.0.1"),
    ],
)
def test_each_endpoint_difference_is_named(shown: list[str], message: str) -> None:
    assert differences_mptcp([LIMITS, ENDPOINT], shown) == [message]


def test_groups_are_compared_by_what_they_do() -> None:
    head = "group_id=1,type=select,selection_method=dp_hash,"
    asked = [head + "bucket=weight:2,output:a,bucket=weight=1,watch_port:b,actions=output:b"]
    buckets = 'bucket=bucket_id:0,weight:2,actions=output:"a",bucket=bucket_id:1,watch_port:"b",actions=output:"b"'
    same = f" {head}{buckets}"
    assert differences_groups(asked, ["OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):", same]) == []
    for changed in (same.replace("select", "all"), same.replace('output:"b"', 'output:"a"'), same.replace(":2", ":3")):
        assert "reads 'group_id=1" in differences_groups(asked, [changed])[0]
    assert differences_groups(asked, [])[0].endswith("reads 'nothing'")


def test_ports_are_compared_by_number() -> None:
    asked = [shlex.split("ovs-vsctl add-br s -- add-port s s-eth0 -- set interface s-eth0 ofport_request=1")]
    assert differences_ports(asked, [["s-eth0", 1, ["set", []]]]) == []
    assert differences_ports(asked, [["s-eth0", 2, ["set", []]]]) == ["port s-eth0: asked 1, reads 2"]
    wrong = [["s-eth0", -1, "could not open network device"]]
    assert differences_ports(asked, wrong) == ["port s-eth0: asked 1, reads -1 (could not open network device)"]
    assert differences_ports(asked, []) == ["port s-eth0: asked 1, reads nothing"]
