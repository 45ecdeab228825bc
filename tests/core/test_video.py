# SPDX-License-Identifier: Apache-2.0
"""The video player: when it plays, stalls and changes quality, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mprun.agent.programs.video import Player, choose_by_buffer, choose_by_rate
from mprun.model.spec import Flow
from mprun.workloads import video
from tests.core.test_tools import Left

RATES = [1_000_000, 2_500_000, 5_000_000]


def test_it_plays_from_the_startup_on_and_stalls_when_there_is_nothing_left() -> None:
    """Each chunk holds 2 s and takes 3 s. Playback begins with 4 s in the buffer."""
    player = Player(startup_ns=4, length_ns=12)
    assert player.add(2, 3) is None
    assert player.began_ns is None
    assert player.add(2, 6) is None
    assert player.began_ns == 6
    # 4 s at 6, and 2 s more at 9: empty at 12, when the next chunk comes just in time
    assert player.add(2, 9) is None
    assert (player.add(2, 12), player.buffer_ns) == (None, 2)
    player.advance(20)
    assert (player.stalled_ns, player.buffer_ns) == (14, 0)
    assert player.add(2, 21) is None
    # the last chunk ends a stall, whatever the buffer holds
    assert player.add(2, 24) == 14


@pytest.mark.parametrize(
    ("seen", "quality"),
    [([], 0), ([2.7e6], 0), ([2.8e6], 1), ([9e6], 2), ([9e6, 9e6, 9e6, 2e6], 1), ([5e5], 0)],
)
def test_by_rate(seen: list[float], quality: int) -> None:
    """The harmonic mean of 9, 9 and 2 Mbit/s is 4.15, 90 % of it 3.74."""
    assert choose_by_rate(RATES, seen) == quality


@pytest.mark.parametrize(
    ("before", "buffer_s", "quality"),
    [(2, 4, 0), (0, 9, 0), (0, 11, 1), (1, 17, 1), (1, 18, 2), (2, 10, 2), (2, 9, 1), (1, 5, 1), (0, 20, 2)],
)
def test_by_buffer(before: int, buffer_s: int, quality: int) -> None:
    """From 1 Mbit/s at 4 s to 5 Mbit/s at 18 s: 2.5 Mbit/s at 9.25 s.

    The quality changes only at another quality's rate.
    """
    assert choose_by_buffer(RATES, before, buffer_s, 4, 18) == quality


def test_what_the_player_says_becomes_metrics_and_tables() -> None:
    options = {"qualities_bit_per_s": RATES, "length_ns": 6, "chunk_ns": 2}
    asked = Flow("bulk", "video", "client", "server", "tcp", 0, None, options)
    said = "port 4321\n250 0 1000 1500 2\n250 0 1500 2600 0\nstall 2100 2600\n625 1 2600 2900 2\nstartup 1500\n"
    result = video.parse(asked, Left({"bulk": said}, zero_ns=900))
    assert result.error is None
    assert (result.values["stalls"], result.values["stall_time"]) == (1, 500e-9)
    assert (result.values["switches"], result.values["quality"], result.values["bytes"]) == (1, 1.5e6, 1125)
    assert result.tables["chunks"]["delay_ns"] == [500, 1100, 300]
    assert result.tables["stalls"] == {"start_ns": [1200], "duration_ns": [500]}
    short = video.parse(asked, Left({"bulk": said.splitlines()[0], "bulk.err": "reset\n"}))
    assert short.error == "0 of 3 chunks arrived: reset"
    assert video.parse(asked, Left({"bulk": "1 9 2 3 4\n"})).error == "a line that it never prints: 1 9 2 3 4"


# The client's lines of a video over two paths of 6 and 4 Mbit/s, its addresses, and the server's last line.
OVER_QUIC = Path(__file__).parents[1] / "outputs" / "mprun-quic-0.1.0-video-player.txt"


def test_what_the_client_of_quic_says_becomes_metrics_of_paths() -> None:
    options = {"qualities_bit_per_s": [1_000_000, 2_500_000], "length_ns": 6_000_000_000, "chunk_ns": 2_000_000_000}
    asked = Flow("bulk", "video", "client", "server", "quic", 0, None, {**options, "multipath": True})
    said = OVER_QUIC.read_text()
    result = video.parse(asked, Left({"bulk": said}, zero_ns=5_000_000_000))
    assert result.error is None
    assert result.values.keys() <= video.METRICS.keys()
    assert (result.values["chunks"], result.values["paths"], result.data_ports) == (3, 2, ())
    assert sum(use.reverse_bytes for use in result.paths) >= result.values["bytes"]
    assert [use.source for use in result.paths] == result.tables["paths"]["source"]
    assert result.movement is not None
    # the player asks when the client is connected
    first_ns = 5_000_000_000 + result.tables["chunks"]["start_ns"][0]
    begin = json.loads(said.splitlines()[0])
    assert first_ns - begin["monotonic_ns"] == pytest.approx(result.values["handshake"] * 1e9, abs=1e6)
    broken = "".join(line for line in said.splitlines(keepends=True) if '"end"' not in line and "startup" not in line)
    late = video.parse(asked, Left({"bulk": broken.rpartition("}\n")[0] + "}\n", "bulk.err": "mprun-quic: reset\n"}))
    assert late.error == "2 of 3 chunks arrived: reset"
    assert late.paths == ()


CLIENT = """
import sys
def say(line):
    print(line, flush=True)
say('{"event":"begin","monotonic_ns":1}')
say('{"event":"connected","at_ns":2}')
for number, line in enumerate(sys.stdin):
    if number == int(sys.argv[1]):
        sys.exit("mprun-quic: it was reset")
    say('{"event":"standstill","at_ns":1,"to_ns":2}')
    say('{"event":"request","bytes":%d}' % int(line))
say('{"event":"end","paths":[]}')
"""


def play(breaks_at: int) -> subprocess.CompletedProcess[str]:
    """Play three chunks of 1 ms over a client that ends at a request."""
    facts = ["rates=8000000", "chunk_ns=1000000", "length_ns=3000000", "buffer_ns=2000000", "startup_ns=1000000"]
    argv = [sys.executable, "-m", "mprun.agent.programs.video", "quic", *facts, "adaptation=rate", "--"]
    return subprocess.run([*argv, sys.executable, "-c", CLIENT, str(breaks_at)], capture_output=True, text=True)


def test_the_player_asks_the_client_for_one_chunk_after_the_other() -> None:
    done = play(breaks_at=9)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line)["event"] for line in done.stdout.splitlines() if line.startswith("{")]
    assert events == ["begin", "connected", *["standstill", "request"] * 3, "end"]
    assert [line.split()[0] for line in done.stdout.splitlines() if line[0].isdigit()] == ["1000"] * 3


def test_a_client_that_ends_early_ends_the_player_with_its_reason() -> None:
    done = play(breaks_at=1)
    assert (done.returncode, done.stderr) == (1, "mprun-quic: it was reset\n")
    assert "startup" not in done.stdout
