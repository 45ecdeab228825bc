# SPDX-License-Identifier: Apache-2.0
"""Multipath QUIC in the virtual engine, on each stack: rates, schedulers, directions, losses, and repetition."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mprun.workloads.quic_connection import STACKS
from tests.qlog_schema import find_faults
from tests.scenes import RATES_ONLY
from tests.system.conftest import ROOT, Result, digests_of, environment, measures_real_time, needs_tool

LABS = ROOT / "labs" / "06_multipath_quic"
INTEROP = ROOT / "labs" / "08_multipath_scenarios"
FAST = ROOT / "labs" / "01_multipath" / "topo.yaml"
# The goodput of 20 Mbit/s on the wire: 1437 bytes of payload in a frame of 1514.
CEILING = 20e6 * 1437 / 1514


def needs(stack: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs the program of a stack."""
    return needs_tool(STACKS[stack].tool)


needs_tquic = needs("tquic")
needs_noq = needs("noq")
on_each_stack = pytest.mark.parametrize("stack", [pytest.param(name, marks=needs(name)) for name in STACKS])
on_multipath_stacks = pytest.mark.parametrize(
    "stack", [pytest.param(name, marks=needs(name)) for name, stack in STACKS.items() if stack.parameter]
)


def experiment(folder: Path, name: str, *lines: str, snaplen: int | None = None, seed: int = 1, **keys: object) -> Path:
    """Write an experiment with one flow `get` from client to server, and return its path."""
    entry = {"name": "get", "tool": "quic", "from": "client", "to": "server", **keys}
    words = ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in entry.items()
    )
    text = f"version: 1\ntraffic:\n  - {{{words}}}\nrepeat: {{seed: {seed}}}\n"
    if snaplen is not None:
        text += f"capture:\n  - {{host: client, snaplen: {snaplen}}}\n"
    path = folder / f"{name}.yaml"
    path.write_text(text + "".join(f"{line}\n" for line in lines))
    return path


def tshark(pcap: Path, *arguments: str) -> list[list[str]]:
    argv = ["tshark", "-r", str(pcap), *arguments]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in out.splitlines()]


@on_each_stack
@pytest.mark.usefixtures("leaves_nothing")
def test_a_single_path_is_filled(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    result = mprun(
        "-t", FAST, "-x", experiment(tmp_path, "xp", response="5mb", stack=stack), "--engine", "virtual", "--json"
    )
    assert result.status == 0, result.out + result.err
    assert 17.5e6 <= result.metric("get.goodput") <= CEILING
    assert result.metric("get.paths") == 1
    assert result.metric("get.share.path0") == 1


@on_multipath_stacks
def test_two_paths_are_filled(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    xp = experiment(tmp_path, "xp", response="10mb", multipath=True, stack=stack)
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert 34e6 <= result.metric("get.goodput") <= 2 * CEILING
    assert result.metric("get.paths") == 2
    assert result.metric("get.share.path0") == pytest.approx(0.5, abs=0.03)


@needs_tquic
def test_small_requests_tell_the_schedulers_apart(mprun: Callable[..., Result]) -> None:
    """lowest-rtt uses only the path of 40 ms. Round robin sends a part of each answer over the path of 80 ms."""
    results = {}
    for name in ("requests_rtt", "requests_rr"):
        results[name] = mprun("-t", LABS / "topo_unlike_paths", "-x", LABS / name, "--engine", "virtual", "--json")
        assert results[name].status == 0, results[name].out + results[name].err
    lowest, in_turn = results["requests_rtt"], results["requests_rr"]
    assert lowest.metric("get.delay.p95") < 0.046
    assert lowest.metric("get.share.path0") == 1
    assert lowest.summary["warnings"][0].startswith("get: path path1: it carried nothing (it was usable from ")
    # except for the first request, which has only the first path
    assert in_turn.metric("get.delay.median") > 0.06
    assert in_turn.metric("get.delay.max") < 0.085
    assert in_turn.metric("get.share.path1") == pytest.approx(0.47, abs=0.05)


@needs_tquic
def test_each_direction_takes_the_path_that_its_sender_prefers(mprun: Callable[..., Result]) -> None:
    result = mprun("-t", LABS / "topo_three_paths", "-x", LABS / "asymmetric", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.paths") == 3
    assert result.metric("get.share.forward.path0") == 1
    assert result.metric("get.share.reverse.path2") > 0.98
    # an independent measurement: the bytes of the server's packets on the wire, by the client's address
    fields = ("-T", "fields", "-e", "ip.dst", "-e", "udp.length", "-Y", "udp && ip.src == 10.1.0.1")
    carried: dict[str, int] = {}
    for address, length in tshark(result.run / "pcap" / "client.pcap", *fields):
        carried[address] = carried.get(address, 0) + int(length)
    share = carried["10.0.2.1"] / sum(carried.values())
    assert share == pytest.approx(result.metric("get.share.reverse.path2"), abs=0.01)


@on_multipath_stacks
def test_the_client_prefers_a_path_for_what_it_sends(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    """The request is large: the client's payload takes the third path, and the server's small answer the first."""
    policies = "{client: {prefer: 2}, server: {prefer: 0}}"
    keys: dict[str, Any] = {
        "request": "1mb",
        "response": "10kb",
        "multipath": True,
        "scheduler": policies,
        "stack": stack,
    }
    xp = experiment(tmp_path, "xp", **keys)
    result = mprun("-t", LABS / "topo_three_paths", "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    # the transfer begins on the first path, until the third is validated
    assert result.metric("get.share.forward.path2") > 0.9
    assert result.metric("get.share.forward.path1") < 0.02
    assert result.metric("get.share.path2") == result.metric("get.share.forward.path2")


@pytest.mark.parametrize(
    ("stack", "congestion"),
    [
        pytest.param(stack, congestion, marks=needs(stack))
        for stack, program in STACKS.items()
        for congestion in program.congestion
        if congestion != "cubic"
    ],
)
def test_other_congestion_controls_run(
    mprun: Callable[..., Result], tmp_path: Path, stack: str, congestion: str
) -> None:
    xp = experiment(tmp_path, "xp", response="2mb", stack=stack, congestion=congestion)
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert 2e6 < result.metric("get.goodput") < CEILING


@needs_noq
def test_noq_takes_each_direction_over_the_path_that_its_sender_prefers(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """A noq client acknowledges on the path of the server's packets, as the other stack does."""
    policies = "{client: {prefer: 0}, server: {prefer: 2}}"
    xp = experiment(tmp_path, "xp", response="5mb", multipath=True, scheduler=policies, stack="noq")
    result = mprun("-t", LABS / "topo_three_paths", "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.paths") == 3
    assert result.metric("get.share.forward.path0") == 1
    assert result.metric("get.share.reverse.path2") > 0.98
    assert result.metric("get.share.reverse.path1") < 0.005


@needs_noq
@pytest.mark.parametrize(("scheduler", "least", "most"), [("lowest-rtt", 0, 0), ("roundrobin", 0.42, 0.52)])
def test_noq_takes_the_scheduler_s_path_for_small_answers(
    mprun: Callable[..., Result], tmp_path: Path, scheduler: str, least: float, most: float
) -> None:
    """Each answer has less than the window, so only the scheduler chooses. The pacer spreads it over some 12 ms."""
    keys: dict[str, Any] = {
        "response": "10000bytes",
        "requests": 20,
        "think": "250ms",
        "multipath": True,
        "scheduler": scheduler,
    }
    xp = experiment(tmp_path, "xp", **keys, stack="noq")
    result = mprun("-t", LABS / "topo_unlike_paths", "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert least <= result.metric("get.share.path1") <= most


@needs_noq
def test_a_backup_carries_nothing_until_the_other_path_is_lost(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The client declares path1 a backup (PATH_STATUS_BACKUP). The server, which sends, follows."""
    keys: dict[str, Any] = {"response": "5mb", "multipath": True, "scheduler": "{backup: 1}", "stack": "noq"}
    xp = experiment(tmp_path, "xp", **keys)
    idle = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert idle.status == 0, idle.out + idle.err
    assert idle.metric("get.paths") == 2
    assert idle.metric("get.share.path1") < 0.01
    lost = mprun(
        "-t",
        _with_event(tmp_path, "{at: 1s, link: path0, set: {loss: 100%}}"),
        "-x",
        xp,
        "--engine",
        "virtual",
        "--json",
    )
    assert lost.status == 0, lost.out + lost.err
    assert lost.metric("get.share.path1") > 0.4
    assert 0 < lost.metric("get.handover.gap") < 1


@on_each_stack
def test_several_requests_are_under_way_at_a_time(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    """40 answers of 100 kB over 40 ms: one after the other, each waits a round trip; 8 at a time fill the path."""
    seconds = {}
    for streams in (1, 8):
        keys: dict[str, Any] = {"response": "100kb", "requests": 40, "streams": streams, "stack": stack}
        xp = experiment(tmp_path, f"xp{streams}", **keys)
        result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
        assert result.status == 0, result.out + result.err
        assert result.metric("get.requests") == 40
        seconds[streams] = result.metric("get.completion")
    assert seconds[1] > 40 * 0.04 + 40 * 100_000 * 8 / CEILING
    assert seconds[8] < seconds[1] - 1


@on_multipath_stacks
def test_redundant_sends_everything_twice(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    xp = experiment(tmp_path, "xp", response="2mb", multipath=True, scheduler="redundant", stack=stack)
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.goodput") < CEILING
    assert result.metric("get.share.path0") == pytest.approx(0.5, abs=0.1)


@on_each_stack
def test_runs_repeat_payload_and_keys_included(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    """Whole packets, including encrypted data, are equal byte by byte, because all random numbers follow the seed."""
    digests = []
    for number, seed in enumerate((1, 1, 2)):
        chosen: dict[str, Any] = {"multipath": bool(STACKS[stack].parameter), "stack": stack}
        xp = experiment(tmp_path, "xp", response="3mb", snaplen=0, seed=seed, **chosen)
        result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json", "-o", tmp_path / str(number))
        assert result.status == 0, result.out + result.err
        keys = hashlib.sha256((result.run / "files" / "get" / "tls-keys.log").read_bytes()).hexdigest()
        digests.append({**digests_of(result.run), "keys": keys})
    assert digests[0] == digests[1]
    assert digests[0]["keys"] != digests[2]["keys"]
    assert digests[0]["client.pcap"] != digests[2]["client.pcap"]


@on_multipath_stacks
def test_qlog_has_the_packets_of_both_ends_and_repeats(
    mprun: Callable[..., Result], tmp_path: Path, stack: str
) -> None:
    xp = experiment(tmp_path, "xp", response="1mb", multipath=True, snaplen=100, qlog=True, stack=stack)
    runs = [mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json", "-o", tmp_path / name) for name in "ab"]
    assert [result.status for result in runs] == [0, 0]
    counts = {}
    for end in ("client", "server"):
        first, again = ((result.run / "files" / "get" / f"{end}.sqlog").read_bytes() for result in runs)
        assert first == again
        head, *events = (json.loads(record) for record in first.split(b"\x1e")[1:])
        assert head.get("qlog_format", head.get("serialization_format")) == "JSON-SEQ"
        assert head["trace"]["vantage_point"]["type"] == end
        counts[end] = Counter(event["name"] for event in events)
    # no packet of the client is lost; a datagram of the handshake may hold several packets
    sent = len(tshark(runs[0].run / "pcap" / "client.pcap", "-Y", "udp && ip.dst == 10.1.0.1"))
    assert sent <= counts["client"]["quic:packet_sent"] <= sent + 3
    assert counts["server"]["quic:packet_received"] == counts["client"]["quic:packet_sent"]
    assert counts["server"]["quic:packet_sent"] >= counts["client"]["quic:packet_received"] > sent
    plain = experiment(tmp_path, "plain", response="1mb", stack=stack)
    result = mprun("-t", FAST, "-x", plain, "--engine", "virtual", "--json")
    assert [path.name for path in (result.run / "files" / "get").iterdir()] == ["tls-keys.log"]


@on_each_stack
def test_the_key_log_opens_the_first_path(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    xp = experiment(tmp_path, "xp", response="100kb", snaplen=0, stack=stack)
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    pcap, keys = result.run / "pcap" / "client.pcap", result.run / "files" / "get" / "tls-keys.log"
    fields = ("-T", "fields", "-e", "quic.stream.offset", "-Y", "quic.stream.offset && ip.src == 10.1.0.1")
    assert tshark(pcap, *fields) == []
    opened = tshark(pcap, "-o", f"tls.keylog_file:{keys}", *fields)
    assert max(int(offset) for row in opened for offset in row[0].split(",")) >= 100 * 1024 - 1472


def _with_event(folder: Path, event: str) -> Path:
    path = folder / "topo.yaml"
    path.write_text(FAST.read_text() + f"events:\n  - {event}\n")
    return path


@on_each_stack
@pytest.mark.usefixtures("leaves_nothing")
def test_a_connection_that_stalls_is_an_error_and_no_hang(
    mprun: Callable[..., Result], tmp_path: Path, stack: str
) -> None:
    topo = _with_event(tmp_path, "{at: 1s, link: path0, set: {loss: 100%}}")
    result = mprun(
        "-t", topo, "-x", experiment(tmp_path, "xp", response="10mb", stack=stack), "--engine", "virtual", "--json"
    )
    assert result.status == 1
    [error] = result.summary["errors"]
    assert error.endswith("0 of 1 requests done when the connection ended: nothing arrived any more on any path")
    assert "get.goodput" not in result.summary["metrics"]


@on_multipath_stacks
@pytest.mark.parametrize(
    "scheduler", ["lowest-rtt", "roundrobin", "redundant", "{client: {prefer: 0}, server: {prefer: 0}}"]
)
def test_a_path_that_is_lost_is_left(mprun: Callable[..., Result], tmp_path: Path, stack: str, scheduler: str) -> None:
    """path0 is lost after 0.5 s of 10 MiB.

    Data in flight on path0 arrives over path1, and the rest takes path1 alone.
    """
    topo = _with_event(tmp_path, "{at: 500ms, link: path0, set: {loss: 100%}}")
    xp = experiment(tmp_path, "xp", response="10mb", multipath=True, scheduler=scheduler, stack=stack)
    result = mprun("-t", topo, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    # at most the speed of path1 alone from 0.5 s on, plus the data of both paths before; 1 s for noticing the loss
    left_bits = 10 * 2**20 * 8 - 0.5 * 2 * CEILING
    assert 0.5 + left_bits / CEILING < result.metric("get.completion") < 0.5 + 10 * 2**20 * 8 / CEILING + 1
    assert result.metric("get.share.path1") > 0.8
    assert 0 < result.metric("get.handover.gap") < 1
    assert result.metric("get.handover.time") < 1
    # the data in flight on path0 came over path1. The library does not count it as lost, because no later packet of
    # path0 is acknowledged
    carried = result.metric("get.carried.path0") + result.metric("get.carried.path1")
    assert carried >= result.metric("get.bytes") == 10 * 2**20
    assert result.metric("get.srtt.path1") >= 0.04


@on_multipath_stacks
def test_a_path_that_works_again_is_used_again(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    """Path0 is lost at 1 s, after 2 of 20 MiB. It works again at 2.5 s."""
    events = "{at: 1s, link: path0, set: {loss: 100%}}\n  - {at: 2500ms, link: path0, set: {loss: 0%}}"
    xp = experiment(tmp_path, "xp", response="20mb", multipath=True, stack=stack)
    result = mprun("-t", _with_event(tmp_path, events), "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.share.path0") > 0.2
    assert result.metric("get.goodput") > 1.2 * CEILING
    assert 0 < result.metric("get.handover.gap") < 1


@on_multipath_stacks
def test_a_path_that_never_answers_is_a_failure(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    topo = _with_event(tmp_path, "{at: 0ms, link: path1, set: {loss: 100%}}")
    xp = experiment(tmp_path, "xp", response="1mb", multipath=True, stack=stack)
    result = mprun("-t", topo, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 1
    assert result.metric("get.paths") == 1
    [failure] = result.summary["failures"]
    assert failure.startswith("get: path path1: no answer came over it to ")


@on_multipath_stacks
@pytest.mark.skipif(os.geteuid() != 0, reason="the real engine is tried as root")
@measures_real_time
@pytest.mark.alone
def test_two_paths_in_the_real_engine(mprun: Callable[..., Result], tmp_path: Path, stack: str) -> None:
    topo = tmp_path / "topo.yaml"
    topo.write_text(RATES_ONLY)
    xp = experiment(tmp_path, "xp", response="5mb", multipath=True, stack=stack)
    result = mprun("-t", topo, "-x", xp, "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.paths") == 2
    assert result.metric("get.goodput") > CEILING


@on_multipath_stacks
def test_a_video_that_no_path_carries_alone_plays_over_both(
    mprun: Callable[..., Result], tmp_path: Path, stack: str
) -> None:
    """Chunks of 6.25 Mbit/s over two paths of 5 Mbit/s. The client asks for each when the player has room for it."""
    video = f"tool: video, from: client, to: server, protocol: quic, multipath: true, qlog: true, stack: {stack}"
    keys = "length: 4s, chunk: 1s, startup: 2s, buffer: 3s, qualities: [6250kbit]"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {{name: film, {video}, {keys}}}\n")
    result = mprun("-t", FAST, "-x", tmp_path / "xp", "-p", "rate=5mbit", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert (result.metric("film.chunks"), result.metric("film.stalls"), result.metric("film.paths")) == (4, 0, 2)
    assert result.metric("film.bytes") == 4 * 6.25e6 / 8
    assert result.metric("film.share.path1") == pytest.approx(0.5, abs=0.15)
    # faster than real time over both paths, once the second path is validated and slow start is over
    assert 6.25e6 / (2 * CEILING / 4) <= result.metric("film.delay.min") < 1
    assert sorted(path.name for path in (result.run / "files" / "film").iterdir()) == [
        "client.sqlog",
        "server.sqlog",
        "tls-keys.log",
    ]


@needs_tquic
@pytest.mark.parametrize(
    ("case", "client", "server"),
    [
        pytest.param(case, client, server, marks=[needs(client), needs(server)])
        for case, client, server in (
            ("crosstraffic", "noq", "aioquic"),
            ("handshakeloss", "aioquic", "noq"),
            ("retry", "tquic", "noq"),
            ("retry", "noq", "tquic"),
            # tquic fills the packets of a resumed connection with padding
            ("resumption", "noq", "tquic"),
            ("zerortt", "noq", "aioquic"),
            ("zerortt", "aioquic", "noq"),
            ("zerortt", "tquic", "tquic"),
            ("keyupdate", "tquic", "aioquic"),
            ("keyupdate", "noq", "tquic"),
            ("chacha20", "tquic", "aioquic"),
            ("chacha20", "noq", "tquic"),
            ("rebindport", "tquic", "noq"),
            ("rebindaddress", "noq", "aioquic"),
        )
    ],
)
def test_two_libraries_pass_a_case(mprun: Callable[..., Result], case: str, client: str, server: str) -> None:
    """The expectations of the experiment are the verdict, and say what the capture of the server has to show."""
    chosen = [word for pair in (f"case={case}", f"client={client}", f"server={server}") for word in ("-p", pair)]
    result = mprun("-t", INTEROP / "topo_interop", "-x", INTEROP / "interop", *chosen, "--json")
    assert result.status == 0, result.out + result.err
    assert (result.metric("get.seen.early") > 0) == (case == "zerortt")
    assert result.metric("get.seen.retries") == (case == "retry")
    assert (result.metric("get.seen.flight") <= 1_500) == (case in ("resumption", "zerortt"))
    assert result.metric("get.seen.chacha20") == (case == "chacha20")
    # a resumed client has a port for each of its connections
    assert case in ("resumption", "zerortt", "handshakeloss") or all(
        result.metric(f"get.seen.{name}") == 1 + case.startswith("rebind") for name in ("sources", "destinations")
    )
    if case == "keyupdate":
        # after 50 kB of 1 MB
        assert all(0.9 < result.metric(f"get.seen.updated.{way}") < 1 for way in ("forward", "reverse"))


@needs("aioquic")
def test_a_client_may_open_more_connections_than_it_may_have_files(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """A process may have 1024 open files."""
    xp = experiment(tmp_path, "xp", stack="aioquic", testcase="multiconnect", requests=1_100, response="1kb")
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err


REBOUND = """\
version: 1
nodes: {client: {kind: host}, home: {kind: router}, server: {kind: host}}
links:
  - {name: wifi, between: [client, home], rate: 20mbit, delay: 10ms}
  - {name: access, between: [home, server]}
events:
  - {at: 300ms, host: client, address: wifi, rebind: WHAT}
"""


@needs("noq")
@pytest.mark.parametrize(("what", "address"), [("port", "10.0.0.1"), ("address", "10.0.0.254")])
def test_a_server_follows_a_client_that_a_nat_rebinds(
    mprun: Callable[..., Result], tmp_path: Path, what: str, address: str
) -> None:
    """The client has sent its request, and only acknowledges from then on (RFC 9000 9.3)."""
    (tmp_path / "topo.yaml").write_text(REBOUND.replace("WHAT", what))
    xp = experiment(tmp_path, "xp", "capture: [{host: server}]", response="2mb", stack="noq")
    result = mprun("-t", "topo", "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("get.seen.sources") == result.metric("get.seen.destinations") == 2
    sources = ("-T", "fields", "-e", "ip.src", "-e", "udp.srcport", "-Y", "udp.dstport == 5201")
    (before, port), (after, new_port) = dict.fromkeys(map(tuple, tshark(result.run / "pcap" / "server.pcap", *sources)))
    assert (before, after) == ("10.0.0.1", address)
    assert (port == new_port) == (what == "address")


def test_what_is_installed_is_listed_and_not_built_again(mprun: Callable[..., Result]) -> None:
    again = mprun("tools", "install", "quic")
    assert again.status == 0, again.err
    assert " is built already: " in again.out
    assert '"installed": {"name": "quic"' in mprun("tools", "list", "--json").out


def test_a_run_without_the_tool_says_what_installs_it(mprun: Callable[..., Result], tmp_path: Path) -> None:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    (tmp_path / "cache" / "mprun").mkdir(parents=True)
    (tmp_path / "cache" / "mprun" / "kernels").symlink_to(base / "mprun" / "kernels")
    changed = environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    xp = experiment(tmp_path, "xp", response="1mb")
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", env=changed)
    assert result.status == 3
    assert result.err.strip().endswith("this run needs mprun-quic: mprun tools install quic")


def test_a_build_without_its_compilers_names_their_packages(mprun: Callable[..., Result], tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("make", "patch", "gcc"):
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    changed = environment(XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path), PATH=str(programs))
    result = mprun("tools", "install", "quic", env=changed)
    assert result.status == 3
    assert result.err.startswith("quic: building it needs cargo 1.75 or later: apt-get install cargo")
    cargo = programs / "cargo"
    cargo.write_text("#!/bin/sh\nexit 1\n")
    cargo.chmod(0o755)
    broken = mprun("tools", "install", "quic", env=changed)
    assert broken.status == 3
    assert broken.err.startswith(f"quic: `{cargo} --version` fails; building it needs cargo 1.75 or later: ")
    cargo.write_text("#!/bin/sh\necho 'cargo 1.65.0'\n")
    old = mprun("tools", "install", "quic", env=changed)
    assert old.status == 3
    assert "cargo 1.65.0 is too old, building it needs 1.75 or later" in old.err
    cargo.write_text("#!/bin/sh\necho 'cargo 1.85.0'\n")
    older = mprun("tools", "install", "noq", env=changed)
    assert older.status == 3
    assert older.err.startswith("noq: cargo 1.85.0 is too old, building it needs 1.88 or later: apt-get install rustup")
    cargo.write_text("#!/bin/sh\necho 'cargo 1.95.0'\n")
    bare = mprun("tools", "install", "quic", env=changed)
    assert bare.status == 3
    assert "building it needs cmake, g++: apt-get install cmake g++" in bare.err


@on_multipath_stacks
def test_tables_of_qlog_agree_with_the_counts_of_the_library(
    mprun: Callable[..., Result], tmp_path: Path, stack: str
) -> None:
    xp = experiment(tmp_path, "xp", response="3mb", multipath=True, qlog=True, stack=stack)
    result = mprun("-t", FAST, "-x", xp, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    run = tmp_path / result.run
    packets = pl.read_parquet(run / "tables" / "qlog_packets.parquet")
    received = packets.filter(end="client", event="received")
    paths = pl.read_parquet(run / "tables" / "paths.parquet")
    if stack == "tquic":
        # its qlog does not have paths
        assert received["path"].null_count() == received.height
        assert received["payload_bytes"].sum() == paths["received_stream_bytes"].sum()
    else:
        by_path = received.group_by("path").agg(pl.col("payload_bytes").sum(), pl.col("size_bytes").sum())
        assert sorted(by_path["payload_bytes"]) == sorted(paths["received_stream_bytes"])
        lost = packets.filter(end="server", event="lost").height
        assert lost == sum(result.metric(f"get.resent.path{n}") for n in (0, 1))
    # a packet arrives a delay of 20 ms after it was sent, on one clock
    first = packets.filter(type="handshake", packet=0).sort("time_ns")
    sent, arrived = (first.filter(event=event, end=end)["time_ns"][0] for event, end in FIRST)
    assert arrived - sent == pytest.approx(20_500_000, abs=500_000)
    report = mprun("report", run)
    assert report.status == 0, report.err
    wanted = {"rate-get", "sequence-get", *(("cwnd-get", "rtt-get", "in_flight-get") if stack == "noq" else ())}
    assert wanted <= {path.stem for path in (run / "figures").iterdir()}
    exported = mprun("export", run, "--qlog", "--to", tmp_path / "viewers")
    assert exported.status == 0, exported.err
    for end in ("client", "server"):
        found = json.loads((tmp_path / "viewers" / f"get-{end}.qlog").read_text())
        assert len(found["traces"]) == (1 if stack == "tquic" else 3)
        assert list(find_faults(found)) == []


FIRST = (("sent", "client"), ("received", "server"))
OWN_STACK = """\
    stack:
      client: {client}
      server: [python3, -c, "import os, socket, signal; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
s.bind((os.environ['MPRUN_DESTINATION'], int(os.environ['MPRUN_PORT']))); signal.pause()"]
"""


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("['true']", "0 of 2 files arrived whole: '1' has 0 of 1000 bytes"),
        ("[sh, -c, 'head -c 1000 /dev/zero > $DOWNLOADS/1; echo no route >&2']", "'2' has 0 of 1000 bytes"),
        ("[nothing-like-this]", "no program 'nothing-like-this'"),
        ("[sh, -c, 'exit 3']", "ended with status 3"),
    ],
)
def test_a_stack_of_the_user_that_fetches_nothing_fails_the_run(
    mprun: Callable[..., Result], tmp_path: Path, client: str, said: str
) -> None:
    xp = experiment(tmp_path, "xp", response="1000bytes", requests=2)
    text = xp.read_text().replace("  - {", "  - ", 1)
    keys = text.split("  - ")[1].split("}")[0].split(", ")
    entry = "\n    ".join(keys)
    xp.write_text(f"version: 1\ntraffic:\n  - {entry}\n{OWN_STACK.format(client=client)}")
    refused = mprun("-t", FAST, "-x", xp)
    assert refused.status == 2
    assert "--allow-exec" in refused.err
    result = mprun("-t", FAST, "-x", xp, "--allow-exec")
    assert result.status == 1
    # lines are wrapped
    assert said in " ".join((result.out + result.err).split())
