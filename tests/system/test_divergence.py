# SPDX-License-Identifier: Apache-2.0
"""The first packet in which two runs of equal inputs diverge."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import polars
import pytest

from tests.system.conftest import LAB, SHORT, Result

PACKET = 6
# The bytes of a block before those of the packet, which begin with headers of the link and of IP, 20 bytes each.
HEAD_BYTES = 28


def list_packets(capture: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offset and the length of each block with a packet."""
    offset = 0
    while offset < len(capture):
        kind, length = struct.unpack_from("<II", capture, offset)
        if kind == PACKET:
            yield offset, length
        offset += length


@pytest.fixture
def twins(mprun: Callable[..., Result], tmp_path: Path) -> tuple[Path, Path]:
    """Return a run and its copy."""
    (tmp_path / "xp.yaml").write_text(SHORT)
    first = mprun("-t", LAB / "topo", "-x", "xp", "--json").run
    second = first.with_name(first.name.replace("topo-xp", "topo-copy"))
    shutil.copytree(first, second, symlinks=True)
    return first, second


def test_equal_runs_do_not_diverge(twins: tuple[Path, Path], mprun: Callable[..., Result]) -> None:
    done = mprun("compare", *twins)
    assert done.status == 0, done.err
    assert "first packet" not in done.out
    assert "equal inputs" not in done.out


def test_the_first_packet_that_differs_is_named_with_its_fields(
    twins: tuple[Path, Path], mprun: Callable[..., Result]
) -> None:
    """The 300th packet of the copy gets another window."""
    path = twins[1] / "pcap" / "client.pcap"
    capture = bytearray(path.read_bytes())
    offset, _ = list(list_packets(bytes(capture)))[299]
    # the window is bytes 14 and 15 of the TCP header
    window_at = offset + HEAD_BYTES + 20 + 20 + 14
    window = struct.unpack_from(">H", capture, window_at)[0]
    struct.pack_into(">H", capture, window_at, 777)
    path.write_bytes(capture)
    counters = twins[1] / "tables" / "counters.parquet"
    table = polars.read_parquet(counters)
    is_retransmission = (polars.col("host") == "client") & (polars.col("name") == "TcpRetransSegs")
    more = polars.when(is_retransmission).then(polars.col("value") + 5).otherwise(polars.col("value"))
    table.with_columns(more.alias("value")).write_parquet(counters)
    done = mprun("compare", *twins)
    assert done.status == 0, done.err
    lines = [line.strip() for line in done.out.splitlines()]
    (first,) = (line for line in lines if line.startswith("first packet"))
    assert first.startswith("first packet: client.pcap:300 at ")
    assert [line for line in lines if line.startswith(("- ", "+ "))] == [f"- Window: {window}", "+ Window: 777"]
    assert f"to stop there: mprun debug runs/{twins[0].name} --packet client.pcap:300" in " ".join(lines)
    (counted,) = (line for line in lines if line.startswith("counters: "))
    old = table.filter(is_retransmission)["value"].item()
    assert counted == f"counters: client TcpRetransSegs {old} -> {old + 5}"
    found = mprun("compare", *twins, "--json").summary["divergence"]
    assert (found["packet"]["capture"], found["packet"]["number"]) == ("client.pcap", 300)
    assert found["event"] is None


def test_a_capture_that_ends_before_the_other_differs_there(
    twins: tuple[Path, Path], mprun: Callable[..., Result]
) -> None:
    path = twins[1] / "pcap" / "client.pcap"
    capture = path.read_bytes()
    blocks = list(list_packets(capture))
    path.write_bytes(capture[: blocks[-1][0]])
    found = mprun("compare", *twins, "--json").summary["divergence"]["packet"]
    assert found["number"] == len(blocks)
    assert found["at_ns"][0] is not None
    assert found["at_ns"][1] is None
    assert found["lines"] == [[], []]


def test_a_capture_that_cannot_be_read_is_a_note(twins: tuple[Path, Path], mprun: Callable[..., Result]) -> None:
    path = twins[1] / "pcap" / "client.pcap"
    path.write_bytes(b"none" + path.read_bytes()[4:])
    done = mprun("compare", *twins)
    assert done.status == 0, done.err
    assert "note: the first packet that differs is not known: " in done.err


def test_runs_of_other_inputs_have_no_first_packet(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT)
    runs = [mprun("-t", LAB / "topo", "-x", "xp", "--json", "--seed", seed).run for seed in (1, 2)]
    done = mprun("compare", *runs)
    assert done.status == 0, done.err
    assert "first packet" not in done.out
