# SPDX-License-Identifier: Apache-2.0
"""tc commands as netlink messages. Each run reads back that the messages have the effect of the commands."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from mprun.agent import shaping
from mprun.agent.message import attribute, attributes
from mprun.agent.readback import differences_tc
from mprun.agent.rtnetlink import Netlink
from mprun.compile import allocate
from mprun.compile.wire import shaping_commands
from mprun.inputs.loading import load
from mprun.model.spec import Direction, Queue
from mprun.model.units import parse_link_rate

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


class Kernel:
    """A kernel that shows qdiscs as Linux does: the command's values, with the burst of a token bucket in ticks."""

    def __init__(self, commands: Sequence[str]) -> None:
        self.commands = commands

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        assert (kind, len(body)) == (shaping.RTM_GETQDISC, 20)
        for command in self.commands:
            message = translate(command)
            assert message is not None
            head, found = message[2][:20], attributes(message[2][20:])
            asked = found.get(shaping.TCA_OPTIONS, b"")
            if found[shaping.TCA_KIND] == b"tbf\0":
                asked = self._tbf(attributes(asked))
            yield head + attribute(shaping.TCA_KIND, found[shaping.TCA_KIND]) + attribute(shaping.TCA_OPTIONS, asked)

    @staticmethod
    def _tbf(asked: Mapping[int, bytes]) -> bytes:
        (burst,) = struct.unpack("=I", asked[shaping.TCA_TBF_BURST])
        parameters = bytearray(asked[shaping.TCA_TBF_PARMS])
        (rate,) = struct.unpack("=Q", asked.get(shaping.TCA_TBF_RATE64, bytes(parameters[8:12]) + bytes(4)))
        struct.pack_into("=I", parameters, 28, burst * 1_000_000_000 // rate // shaping.TICK_NS & shaping.LARGEST)
        large = asked.get(shaping.TCA_TBF_RATE64)
        return attribute(shaping.TCA_TBF_PARMS, bytes(parameters)) + (
            attribute(shaping.TCA_TBF_RATE64, large) if large else b""
        )


WIRE = (
    "root handle 1: netem limit 10000000 delay 20ms loss random 0.5%",
    "parent 1:1 handle 10: tbf rate 20mbit burst 1514 limit 121120",
    "parent 10:1 handle 100: pfifo limit 80",
    "ingress",
)


def shown(*wire: str) -> list[dict[str, Any]]:
    kernel = cast(Netlink, Kernel([f"qdisc add dev w0b {words}" for words in wire]))
    return shaping.read_back(kernel, {INDICES["w0b"]: "w0b"})


@pytest.mark.parametrize("rate", ["100kbit", "20mbit", "1gbit", "40gbit"])
@pytest.mark.parametrize("queue", ["pfifo limit 80", "bfifo limit 65536"])
def test_what_is_read_back_is_what_was_asked(rate: str, queue: str) -> None:
    wire = [words.replace("20mbit", rate).replace("pfifo limit 80", queue) for words in WIRE]
    asked = [f"tc qdisc add dev w0b {words}".split() for words in wire]
    assert differences_tc(asked, shown(*wire)) == []


def tc_shows(command: str) -> dict[str, Any]:
    """Return a token bucket as tc shows it: its burst as a time in whole microseconds."""
    message = translate(command)
    assert message is not None
    found = next(Kernel([command]).dump(shaping.RTM_GETQDISC, bytes(20)))
    options = attributes(attributes(found[20:])[shaping.TCA_OPTIONS])
    _limit, ticks, _ = struct.unpack_from("=III", options[shaping.TCA_TBF_PARMS], 24)
    (rate,) = struct.unpack_from("=I", options[shaping.TCA_TBF_PARMS], 8)
    if shaping.TCA_TBF_RATE64 in options:
        (rate,) = struct.unpack("=Q", options[shaping.TCA_TBF_RATE64])
    burst_us = ticks * shaping.TICK_NS // 1000
    shown = {"rate": rate, "burst": int(rate * burst_us / 1e6)}
    return {"kind": "tbf", "handle": "10:", "dev": "w0b", "options": shown}


def test_every_rate_of_a_link_is_read_back_as_it_was_set(tmp_path: Path) -> None:
    """Any whole rate that a file may have is compiled to commands whose effect is the asked one, in both read-backs."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\n"
        "links: [{name: l, between: [a, b], rate: 1mbit, delay: 1ms}]\n"
    )
    link = allocate(load(tmp_path / "topo", None).spec).links[0]
    draw = Random(1)
    edges = [100, 101, 104, 34_359_738_360, 34_359_738_361, 99_999_999_999, 100_000_000_000]
    for asked in [*edges, *(round(10 ** draw.uniform(2, 11)) for _ in range(800))]:
        rate = parse_link_rate(f"{asked}bit")
        assert abs(rate - asked) <= 4
        mtu, slack_ns = draw.choice((1280, 1500, 9000, 65_535)), draw.choice((0, 250_000))
        queue = draw.choice((Queue(80, "packets"), Queue(1_000_000, "packets"), Queue(4 * mtu, "bytes")))
        way = Direction(rate, 20_000_000, queue=queue)
        wire = replace(link, forward=way, reverse=way, mtu=mtu)
        commands = [one.argv for one in shaping_commands(wire, slack_ns, is_changing=False) if one.argv[1] == "qdisc"]
        texts = [" ".join(words[1:]) for words in commands]
        kernel = cast(Netlink, Kernel(texts))
        assert differences_tc(commands, shaping.read_back(kernel, {7: "w0a", 8: "w0b"})) == [], (asked, mtu, queue)
        bucket = next(text for text in texts if "tbf" in text and "w0b" in text)
        assert differences_tc([["tc", *bucket.split()]], [tc_shows(bucket)]) == [], (asked, mtu, queue)


@pytest.mark.parametrize(
    ("asked", "other", "message"),
    [
        ("20ms", "21ms", "w0b netem delay: asked 20ms, reads 0.021"),
        ("0.5%", "0.6%", "w0b netem loss random: asked 0.5%, reads 0.00"),
        ("10000000", "1000", "w0b netem limit: asked 10000000, reads 1000.0"),
        ("20mbit", "21mbit", "w0b tbf rate: asked 20mbit, reads 21000000.0"),
        ("1514", "15140", "w0b tbf burst: asked 1514, reads 15140.0"),
        ("80", "81", "w0b pfifo limit: asked 80, reads 81.0"),
    ],
)
def test_what_is_read_back_otherwise_is_named(asked: str, other: str, message: str) -> None:
    commands = [f"tc qdisc add dev w0b {words}".split() for words in WIRE]
    other_wire = [" ".join(other if word == asked else word for word in words.split()) for words in WIRE]
    (said,) = differences_tc(commands, shown(*other_wire))
    assert said.startswith(message)


def test_a_wire_of_which_nothing_is_there_is_named() -> None:
    commands = [f"tc qdisc add dev w0b {words}".split() for words in WIRE]
    assert differences_tc(commands, shown(*WIRE[1:])) == ["w0b has no netem 1:"]
    kernel = cast(Netlink, Kernel([f"qdisc add dev w0a {words}" for words in WIRE]))
    assert shaping.read_back(kernel, {INDICES["w0b"]: "w0b"}) == []


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


def test_a_dualpi2_is_set_and_shown_without_tc() -> None:
    words = "parent 10:1 handle 100: dualpi2 limit 200 target 10ms step_thresh 800us coupling_factor 3"
    found = attributes(options(words))
    # Linux 7.3 refuses the options without NLA_F_NESTED, which attributes() leaves out
    translated = translate(f"qdisc add dev w0b {words}")
    assert translated is not None
    assert struct.pack("=H", shaping.TCA_OPTIONS | 1 << 15) in translated[2]
    # the numbers of the attributes and their sizes are those of Linux 7.3's pkt_sched.h and sch_dualpi2.c
    assert found == {
        1: struct.pack("=I", 200),
        3: struct.pack("=I", 10_000),
        8: struct.pack("=I", 800),
        10: b"\x03",
    }
    command = f"qdisc add dev w0b {words}"
    shown = list(shaping.read_back(Kernel([command]), {8: "w0b"}))  # type: ignore[arg-type]
    assert shown[0]["options"] == {"limit": 200, "target": 10_000, "step_thresh": 800, "coupling_factor": 3}
    assert differences_tc([["tc", *command.split()]], shown) == []
    other = [["tc", *command.replace("800us", "900us").split()]]
    assert len(differences_tc(other, shown)) == 1
    assert differences_tc(other, shown)[0].startswith("w0b dualpi2 step_thresh: asked 900us, reads 0.000")
