# SPDX-License-Identifier: Apache-2.0
"""tc commands as messages; that they do what tc does is read back in every run."""

from __future__ import annotations

import struct

import pytest

from mprun.agent import shaping
from mprun.agent.message import attributes

INDICES = {"w0a": 7, "w0b": 8}


def translate(text: str) -> tuple[int, int, bytes] | None:
    return shaping.translate(text.split(), INDICES.__getitem__)


def options(text: str) -> bytes:
    message = translate(f"qdisc add dev w0b {text}")
    assert message is not None
    return attributes(message[2][20:])[shaping.TCA_OPTIONS]


def test_a_place_in_the_tree_is_hexadecimal() -> None:
    message = translate("qdisc add dev w0b parent 10:1 handle 100: pfifo limit 80")
    assert message is not None
    kind, _, body = message
    assert (kind, struct.unpack_from("=BxxxiIII", body)) == (36, (0, 8, 0x1000000, 0x100001, 0))
    assert options("parent 10:1 handle 100: pfifo limit 80") == struct.pack("=I", 80)


def test_a_rate_above_32_bits_has_its_own_attribute() -> None:
    slow, fast = (
        attributes(options(f"root handle 10: tbf rate {rate} burst 1527 limit 30280")) for rate in ("100mbit", "40gbit")
    )
    assert struct.unpack_from("=I", slow[shaping.TCA_TBF_PARMS], 8) == (12_500_000,)
    assert shaping.TCA_TBF_RATE64 not in slow
    assert struct.unpack_from("=I", fast[shaping.TCA_TBF_PARMS], 8) == (0xFFFFFFFF,)
    assert fast[shaping.TCA_TBF_RATE64] == struct.pack("=Q", 5_000_000_000)


def test_a_delay_is_in_nanoseconds_and_a_loss_a_share_of_32_bits() -> None:
    found = options("root handle 1: netem limit 10000000 delay 20ms loss random 0.5%")
    assert struct.unpack_from("=IIIIII", found) == (312_500, 10_000_000, 21_474_836, 0, 0, 0)
    assert attributes(found[24:])[shaping.TCA_NETEM_LATENCY64] == struct.pack("=q", 20_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "qdisc add dev w0b root handle 1: netem limit 1000 delay 20ms 2ms 0%",
        "qdisc add dev w0b root handle 1: netem limit 1000 loss gemodel 1% 10% 100% 0%",
        "qdisc add dev w0b root handle 1: netem limit 1000 loss random 1% 25%",
        "qdisc add dev w0b root handle 1: netem limit 1000 delay 20ms reorder 1% 0% gap 5",
        "qdisc add dev w0b parent 10:1 handle 100: red limit 60000 min 5000 max 15000",
        "qdisc add dev w0b root handle 10: tbf rate 1mbit burst 1527 latency 50ms",
        "qdisc change dev w0b root handle 10: tbf rate 1mbit burst 1527 limit 30280",
        "filter add dev w0a parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev w0b",
    ],
)
def test_what_else_tc_knows_is_for_tc(text: str) -> None:
    assert translate(text) is None
