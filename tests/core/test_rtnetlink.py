# SPDX-License-Identifier: Apache-2.0
"""The kernel's messages about interfaces, as the agent reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from mprun.agent.message import attribute, attributes
from mprun.agent.rtnetlink import (
    IF_OPER_UP,
    IFLA_BRPORT_STATE,
    IFLA_CARRIER,
    IFLA_IFNAME,
    IFLA_INFO_KIND,
    IFLA_INFO_SLAVE_DATA,
    IFLA_INFO_SLAVE_KIND,
    IFLA_LINKINFO,
    IFLA_OPERSTATE,
    IFLA_QDISC,
    RTA_METRICS,
    RTAX_CC_ALGO,
    Netlink,
    Translator,
    congestion_of,
    read_states,
)


class Dump:
    """A kernel with one interface. Arguments: as in RTM_NEWLINK. state: of a bridge's port."""

    def __init__(
        self,
        qdisc: bytes,
        slave_kind: bytes = b"",
        state: int = 0,
        carrier: int = 1,
        operstate: int = IF_OPER_UP,
        kind: bytes = b"veth\0",
    ) -> None:
        info = attribute(IFLA_INFO_KIND, kind)
        if slave_kind:
            port = attribute(IFLA_BRPORT_STATE, bytes([state]))
            info += attribute(IFLA_INFO_SLAVE_KIND, slave_kind) + attribute(IFLA_INFO_SLAVE_DATA, port)
        name = attribute(IFLA_IFNAME, b"s0-0\0")
        seen = attribute(IFLA_CARRIER, bytes([carrier])) + attribute(IFLA_OPERSTATE, bytes([operstate]))
        self._body = bytes(16) + name + attribute(IFLA_QDISC, qdisc) + seen + attribute(IFLA_LINKINFO, info)

    def dump(self, _kind: int, _body: bytes) -> Iterator[bytes]:
        yield self._body


@pytest.mark.parametrize(
    ("kernel", "works"),
    [
        pytest.param(Dump(b"noop\0"), False, id="no carrier yet"),
        pytest.param(Dump(b"noqueue\0"), True, id="a carrier"),
        # states of linux/if.h: 0 is unknown, 3 is lower layer down
        pytest.param(Dump(b"noqueue\0", operstate=0), False, id="a carrier that the kernel has not seen"),
        pytest.param(Dump(b"noqueue\0", operstate=3), False, id="a carrier that was off a moment ago"),
        pytest.param(Dump(b"noqueue\0", carrier=0, operstate=3), True, id="the other end is down"),
        pytest.param(Dump(b"noqueue\0", operstate=0, kind=b"bridge\0"), True, id="no pair"),
        # states of linux/if_bridge.h: 0 is disabled, 3 is forwarding
        pytest.param(Dump(b"noqueue\0", b"bridge\0", 0), False, id="a port whose bridge has not been told"),
        pytest.param(Dump(b"noqueue\0", b"bridge\0", 3), True, id="a port that forwards"),
        pytest.param(Dump(b"noqueue\0", b"openvswitch\0"), True, id="a port of another switch"),
    ],
)
def test_an_interface_works_when_it_can_send_and_its_bridge_forwards(kernel: Dump, works: bool) -> None:
    assert list(read_states(cast(Netlink, kernel))) == [("s0-0", works)]


def test_a_route_has_the_congestion_control_of_its_words() -> None:
    translator = Translator(lambda _name: 7, lambda _name: 0, lambda _node, _name: 0)
    plain, routed = (
        translator.translate(f"route add default via 10.0.0.2 dev client-eth0 table 1{words}".split())[2]
        for words in ("", " congctl lock vegas")
    )
    found = attributes(routed[12:])
    assert congestion_of(found) == ("vegas", True)
    assert congestion_of(attributes(plain[12:])) is None
    assert routed.startswith(plain)
    metrics = attributes(found[RTA_METRICS])
    assert congestion_of({RTA_METRICS: attribute(RTAX_CC_ALGO, metrics[RTAX_CC_ALGO])}) == ("vegas", False)
