# SPDX-License-Identifier: Apache-2.0
"""The warnings about differences between links in real time and links that send bit by bit."""

from __future__ import annotations

from pathlib import Path

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.metrics.host_doubts import tell_real_links
from mprun.model.intent import Intent

XP = "version: 1\nprobe: {pings: 0}\ntraffic:\n  - {tool: ping, from: client, to: server, count: 1}\n"
PATH = "version: 1\ntopology: multi-path\npaths:\n  - "


def intent(folder: Path, path: str) -> Intent:
    (folder / "topo.yaml").write_text(PATH + path)
    (folder / "xp.yaml").write_text(XP)
    spec = load(folder / "topo", folder / "xp").spec
    return compile_plan(spec, allocate(spec)).intent


def test_an_idle_link_with_a_rate_passes_a_frame_early(tmp_path: Path) -> None:
    (told,) = tell_real_links(intent(tmp_path, "{rate: 20mbit, rtt: 40ms}"))
    assert told.startswith("links path0 let a frame pass at once where they are idle")


def test_a_sender_sees_the_queue_of_a_link_without_delay(tmp_path: Path) -> None:
    """The router at the other end only forwards: it has no sending socket."""
    _, told = tell_real_links(intent(tmp_path, "{rate: 20mbit}"))
    assert told.startswith("links 'path0' from client have a rate and no delay: the sender's sockets see their queue")


def test_links_without_a_rate_are_as_in_the_virtual_engine(tmp_path: Path) -> None:
    assert list(tell_real_links(intent(tmp_path, "{rtt: 40ms}"))) == []
