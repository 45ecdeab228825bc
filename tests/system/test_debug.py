# SPDX-License-Identifier: Apache-2.0
"""`mprun debug`: gdb stops the kernel of a repeated run, and the bytes of the run stay the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.engines import real
from mprun.engines.debugger import Debugger
from mprun.errors import MachineError
from mprun.kernel.store import SYMBOLS
from mprun.storage.run_directory import RunDirectory
from mprun.storage.table import read_table
from tests.scenes import copy_kernel
from tests.system.conftest import SHORT, Result, call, environment

pytestmark = pytest.mark.fresh

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms}
  - {rate: 20mbit, delay: 20ms, backup: true}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run: two subflows between client and server for a second."""
    made = tmp_path_factory.mktemp("debug")
    (made / "topo.yaml").write_text(TOPOLOGY)
    (made / "xp.yaml").write_text(SHORT)
    assert call("-t", "topo", "-x", "xp", cwd=made).status == 0
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> RunDirectory:
    return RunDirectory((folder / "runs" / "latest").resolve())


@pytest.fixture
def debug(folder: Path) -> Callable[..., Result]:
    """Return a function that calls `mprun debug` with commands for gdb."""

    def do(*arguments: str, commands: tuple[str, ...] = ("mp-time",)) -> Result:
        return call("debug", *arguments, *(word for one in commands for word in ("--command", one)), cwd=folder)

    return do


def captured(run: RunDirectory, *fields: str) -> list[list[str]]:
    """Return fields of tshark of each packet at the client, in order."""
    options = [word for field in fields for word in ("-e", field)]
    argv = ["tshark", "-r", str(run.path / "pcap/client.pcap"), "-T", "fields", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def ns_of(seconds: str) -> int:
    """Return nanoseconds from a decimal number of seconds with nine places."""
    whole, _, places = seconds.partition(".")
    return int(whole) * 10**9 + int(places.ljust(9, "0"))


def stopped_ns(output: str) -> int:
    """Return the time at which gdb stopped the kernel."""
    match = re.search(r"^stopped at (\d+\.\d{9}) s of simulated time", output, re.MULTILINE)
    assert match, output
    return ns_of(match[1])


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_a_time_shows_the_state_of_that_time_and_the_run_stays_the_same(
    run: RunDirectory, debug: Callable[..., Result]
) -> None:
    """The acknowledged bytes in the kernel are those that the capture has until that time."""
    done = debug("--at", "1.2s", commands=("mp-time", "mp-hosts", "mp-subflows client", "backtrace 2", "continue"))
    assert done.status == 0, done.out + done.err
    now_ns = stopped_ns(done.out)
    # a packet comes at least every millisecond, and each of them advances the clock
    assert 1_200_000_000 <= now_ns < 1_202_000_000
    assert f"\n{now_ns / 1e9:.9f} s of simulated time\n" in done.out
    for name, addresses in (("client", ("10.0.0.1/24", "10.0.1.1/24")), ("server", ("10.1.0.1/24",))):
        part = re.search(rf"^{name} \(struct net \*\) 0x[0-9a-f]+\n((?:  .*\n)+)", done.out, re.MULTILINE)
        assert part
        assert all(address in part[1] for address in addresses)
    subflows = re.findall(
        r"  subflow (\d): (10[.\d]+):(\d+) > (10[.\d]+):5201, ESTABLISHED(.*), sk .*\n"
        r"    cwnd (\d+), srtt ([\d.]+) ms, snd_una (\d+), snd_nxt (\d+) ",
        done.out,
    )
    zero_ns = run.agent_report().zero_epoch_ns
    assert zero_ns is not None
    fields = ("frame.time_epoch", "ip.dst", "tcp.dstport", "tcp.ack_raw", "tcp.flags.ack")
    acks = [
        (row[1], row[2], int(row[3]))
        for row in captured(run, *fields)
        if row[4] in ("1", "True") and ns_of(row[0]) - zero_ns <= now_ns
    ]
    # those of the connection with the data, and of iperf3's control connection
    assert sorted((number, own) for number, own, *_ in subflows) == [
        *[("1", "10.0.0.1")] * 2,
        *[("2", "10.0.1.1")] * 2,
    ]
    assert any(int(nxt) > int(una) for *_, una, nxt in subflows)
    for number, own, port, peer, flags, cwnd, srtt, una, _ in subflows:
        assert peer == "10.1.0.1"
        assert int(cwnd) >= 2
        assert float(srtt) >= 40
        assert ("backup" in flags) == (number == "2")
        assert int(una) == [ack for address, to, ack in acks if (address, to) == (own, port)][-1]
    # the kernel's functions and lines
    assert re.search(r"^#1 .* at arch/um/kernel/time\.c:\d+$", done.out, re.MULTILINE)
    assert "exited normally" in done.out
    assert f"identical: {len(list(run.artifacts()))} artifacts of {run.name}, byte by byte" in done.out


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_a_packet_is_shown_as_captured_and_the_run_continues_when_gdb_ends(
    run: RunDirectory, debug: Callable[..., Result]
) -> None:
    fields = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "ip.id", "ip.len")
    packets = captured(run, *fields, "tcp.options.mptcp.subtype")
    zero_ns = run.agent_report().zero_epoch_ns
    assert zero_ns is not None
    # the last packet of the first hundred with data of the client: of the network's way out of the host
    number = max(n for n, row in enumerate(packets[:100], 1) if row[1] == "10.0.0.1" and int(row[7]) > 1000)
    at, source, destination, *ports, sequence, identifier, length, _ = packets[number - 1]
    done = debug("--packet", f"client.pcap:{number}", commands=("mp-skb skb",))
    assert done.status == 0, done.out + done.err
    assert f"packet {number} of client.pcap\n" in done.out
    assert stopped_ns(done.out) == ns_of(at) - zero_ns
    assert f"IPv4 {source} > {destination}, {length} bytes, id {int(identifier, 16)}, " in done.out
    assert f"TCP {ports[0]} > {ports[1]} [" in done.out
    assert f" seq {sequence}, " in done.out
    assert "DSS, " in done.out
    assert "identical: " in done.out


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_a_statement_stops_where_its_rows_first_make_it_true(run: RunDirectory, debug: Callable[..., Result]) -> None:
    """The first sample of the first path with a window above 20 packets is found, and the kernel has this window."""
    rows = read_table(run.folder, "tables/sockets.parquet").collect().iter_rows(named=True)
    samples = [row for row in rows if (row["host"], row["flow"], row["path"]) == ("client", "bulk", "path0")]
    first = next(row for row in samples if row["snd_cwnd_packets"] > 20)
    statement = "max(sockets[host=client, flow=bulk, path=path0].snd_cwnd_packets) > 20"
    done = debug("--fail-if", statement, commands=("mp-subflows client",))
    assert done.status == 0, done.out + done.err
    assert f", where first {statement}\n" in done.out
    assert first["time_ns"] <= stopped_ns(done.out) < first["time_ns"] + 2_000_000
    windows = re.findall(r"10\.0\.0\.1:\d+ > 10[.\d]+:5201, .*\n    cwnd (\d+),", done.out)
    assert str(first["snd_cwnd_packets"]) in windows
    assert "identical: " in done.out


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_a_change_in_gdb_is_a_difference(debug: Callable[..., Result]) -> None:
    change = "set var ((struct tcp_sock *)sk)->snd_cwnd = 2"
    done = debug("--at", "1s", commands=("tbreak tcp_rcv_established", "continue", change))
    assert done.status == 1
    assert re.search(r"^different: \S+ differs from byte \d+ on", done.out, re.MULTILINE), done.out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--at", "90s"), 2, r"^--at 90s is after the end of the run, \d\.\d{9} s$"),
        (("--at", "3"), 2, r"^--at: a bare number has no unit: write '3s' or '3ms'$"),
        ((), 2, "give one of --at TIME, --packet CAPTURE:N and --fail-if STATEMENT"),
        (("--at", "1s", "--packet", "client.pcap:1"), 2, "give one of --at TIME, --packet CAPTURE:N and --fail-if"),
        (
            ("--fail-if", "bulk.goodput > 1mbit"),
            2,
            "'bulk.goodput'.*: is known only at the end of a run: name a column",
        ),
        (
            ("--fail-if", "max(goodput[flow=bulk].goodput_bit_per_s) > 1gbit"),
            2,
            "^--fail-if max.*: is true at no time of",
        ),
        (("--packet", "client.pcap:9999999"), 2, r"^--packet client.pcap:9999999: the capture has \d+ packets$"),
        (("--packet", "server.pcap:1"), 2, "the run has no capture 'server.pcap'; captures: client$"),
        (("--packet", "client.pcap"), 2, "write the name of a capture and a number from 1 on, as in client.pcap:120$"),
        (("--at", "1s", "--kernel", "nobodys"), 3, "^no experiment kernel 'nobodys' is built for this user"),
    ],
)
def test_a_faulty_request_names_the_remedy(
    debug: Callable[..., Result], arguments: tuple[str, ...], status: int, said: str
) -> None:
    done = debug(*arguments)
    assert done.status == status
    assert re.search(said, done.err, re.MULTILINE), done.err


def test_what_cannot_be_debugged_is_refused_with_a_reason(run: RunDirectory, folder: Path, tmp_path: Path) -> None:
    """The cases: a run in real time, a kernel that is gone, a kernel without symbols, and a machine without gdb."""

    def change(name: str, **facts: object) -> Path:
        copy = Path(shutil.copytree(run.path, tmp_path / name))
        told = json.loads((copy / "environment.json").read_text())
        (copy / "environment.json").write_text(json.dumps(told | facts))
        return copy

    def refuse(path: Path, env: dict[str, str] | None = None) -> Result:
        return call("debug", path, "--at", "1s", "--command", "mp-time", cwd=folder, env=env)

    done = refuse(change("real", engine="real", real_time=True))
    assert done.status == 1
    assert "ran in real time (real engine): gdb can stop only a kernel in simulated" in done.err
    kernel = run.folder.read_json("environment.json")["kernel"] | {"digest": "0" * 64}
    done = refuse(change("gone", kernel=kernel))
    assert done.status == 3
    assert f"{kernel['version']} 000000000000, is not built here (built: " in done.err
    cache = copy_kernel(tmp_path / "cache")
    symbols = cache / "mprun" / "kernels" / "it" / SYMBOLS
    symbols.unlink(missing_ok=True)
    done = refuse(run.path, environment(XDG_CACHE_HOME=str(cache)))
    assert done.status == 3
    assert done.err == "kernel 'default' has no symbols, which gdb needs: run `mprun kernel build --symbols`\n"
    symbols.touch()
    done = refuse(run.path, environment(XDG_CACHE_HOME=str(cache), PATH=str(tmp_path)))
    assert done.status == 3
    assert done.err == "debugging a run needs gdb: apt-get install gdb\n"


def test_the_real_engine_takes_no_debugger(run: RunDirectory) -> None:
    with pytest.raises(MachineError, match="gdb can stop only a kernel of the virtual engine"):
        real.run_plan(run.plan(), run, None, lambda *_: None, debugger=Debugger("gdb", {}))
