# SPDX-License-Identifier: Apache-2.0
"""Measure links over rates, round-trip times and losses, and Mininet's own TCLink for comparison.

    make bench            all of it, and docs/measured/fidelity.md
    fidelity.py --quick   a few cells
    fidelity.py --again   resume after an interruption, or measure cells again that were outside the tolerances

Each cell is a link in the virtual engine. The benchmark measures the properties of `mprun calibrate` (delay, loss,
rate and queue of each direction), UDP of iperf3 at 110 % of the rate, idle pings, and TCP on links without loss.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import kernel_program

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "measured" / "fidelity.json"
MPRUN = str(Path(sys.executable).with_name("mprun"))
RATES_MBIT = (0.1, 1, 10, 100, 1000)
RTTS_MS = (0, 1, 10, 80, 400)
LOSSES_PERCENT = (0, 0.1, 1, 5)
WIRE_BYTES, PAYLOAD_BYTES, TCP_BYTES = 1514, 1472, 1448
# The frame of a ping with 56 bytes, as ping(8) sends it, and of its reply.
PING_BYTES = 98
RATE_TOLERANCE, RTT_TOLERANCE_S = 0.01, 20e-6

TOPOLOGY = """\
version: 1
nodes: {{a: {{kind: host}}, b: {{kind: host}}}}
links: [{{name: l, between: [a, b], rate: {rate}kbit, rtt: {rtt}us, loss: {loss}%}}]
"""
UDP = """\
version: 1
probe: {{pings: 10}}
traffic: [{{name: udp, tool: iperf3, from: a, to: b, protocol: udp, rate: {offered}kbit, duration: {seconds}s}}]
"""
TCP = """\
version: 1
probe: {{pings: 0}}
hosts:
  a: &big
    sysctl:
      net.core.rmem_max: 268435456
      net.core.wmem_max: 268435456
      net.ipv4.tcp_rmem: 4096 131072 268435456
      net.ipv4.tcp_wmem: 4096 131072 268435456
  b: *big
traffic: [{{name: tcp, tool: iperf3, from: a, to: b, duration: {seconds}s}}]
"""


@dataclass
class Cell:
    """A link with its settings and the result of each measurement. Shares are fractions, times are in s."""

    rate_mbit: float
    rtt_ms: float
    loss_percent: float
    calibration: list[dict[str, Any]]
    udp_bit_per_s: float | None
    ping_s: float | None
    tcp_share: float | None
    mininet: dict[str, float | None]

    @property
    def faults(self) -> list[str]:
        """Return the properties that are outside their tolerances."""
        found = [f"{row['direction']} {row['quantity']}" for row in self.calibration if row["held"] is not True]
        if self.udp_bit_per_s is None or abs(self.udp_bit_per_s / self.rate_mbit / 1e6 - 1) > RATE_TOLERANCE:
            found.append("udp")
        if self.ping_s is None or abs(self.ping_s - self.idle_s) > RTT_TOLERANCE_S:
            found.append("ping")
        return found

    @property
    def idle_s(self) -> float:
        """Return the round-trip time of a ping on the idle link: propagation, and a frame's time in each direction."""
        return self.rtt_ms / 1e3 + 2 * PING_BYTES * 8 / (self.rate_mbit * 1e6)

    def got(self, quantity: str) -> float | None:
        """Return the calibration's result for the worse direction."""
        rows = [row for row in self.calibration if row["quantity"] == quantity and row["got"] is not None]
        worst = max(rows, key=lambda row: abs(row["got"] - row["asked"]), default=None)
        return None if worst is None else float(worst["got"])


def call(folder: Path, *words: object) -> dict[str, Any]:
    """Return mprun's JSON. Failed expectations and links do not raise: the table shows them."""
    done = subprocess.run([MPRUN, *map(str, words), "--json"], cwd=folder, capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stderr}")
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def steady_rate(report: dict[str, Any]) -> float | None:
    """Return the bits per second on the wire that a UDP server received.

    The first interval is left out, and so are intervals after the client's end, in which a queue runs empty.
    """
    seconds = report["start"]["test_start"]["duration"]
    all_intervals = [interval["sum"] for interval in report["server_output_json"]["intervals"]]
    intervals = [interval for interval in all_intervals[1:] if interval["end"] <= seconds + 0.01]
    seconds = sum(interval["seconds"] for interval in intervals)
    if not seconds:
        return None
    return float(sum(interval["bytes"] for interval in intervals) * 8 / seconds * WIRE_BYTES / PAYLOAD_BYTES)


def udp_seconds(rate_mbit: float) -> int:
    """Return the shortest time with at least 400 packets in the middle intervals."""
    return 60 if rate_mbit < 1 else 12 if rate_mbit < 100 else 4 if rate_mbit < 1000 else 2


def measure(rate_mbit: float, rtt_ms: float, loss_percent: float, cpus: SimpleQueue[int]) -> Cell:
    """Measure a cell on one CPU."""
    cpu = cpus.get()
    try:
        return measure_on(cpu, rate_mbit, rtt_ms, loss_percent)
    finally:
        cpus.put(cpu)


def measure_on(cpu: int, rate_mbit: float, rtt_ms: float, loss_percent: float) -> Cell:
    os.sched_setaffinity(0, {cpu})
    with tempfile.TemporaryDirectory(prefix="mprun-fidelity-") as name:
        folder = Path(name)
        values = {"rate": round(rate_mbit * 1e3), "rtt": round(rtt_ms * 1e3), "loss": loss_percent}
        (folder / "topo.yaml").write_text(TOPOLOGY.format(**values))
        seconds = udp_seconds(rate_mbit)
        (folder / "udp.yaml").write_text(UDP.format(offered=round(rate_mbit * 1100), seconds=seconds))
        calibration = call(folder, "calibrate", "-t", "topo", "--engine", "virtual")["rows"]
        summary = call(folder, "-t", "topo", "-x", "udp", "--engine", "virtual")
        log = folder / summary["directory"] / "logs" / "udp.out"
        udp = steady_rate(json.loads(log.read_text())) if summary["status"] == "passed" else None
        ping = summary["metrics"].get("l.rtt", {}).get("value")
        tcp = None
        if not loss_percent:
            duration = 20 if rate_mbit <= 10 else 10 if rate_mbit <= 100 else 3
            (folder / "tcp.yaml").write_text(TCP.format(seconds=duration))
            found = call(folder, "-t", "topo", "-x", "tcp", "--engine", "virtual")
            goodput = found["metrics"].get("tcp.goodput", {}).get("value")
            tcp = goodput / (rate_mbit * 1e6 * TCP_BYTES / WIRE_BYTES) if goodput else None
        mininet = measure_mininet(folder, rate_mbit, rtt_ms, loss_percent)
    return Cell(rate_mbit, rtt_ms, loss_percent, calibration, udp, ping, tcp, mininet)


def measure_mininet(folder: Path, rate_mbit: float, rtt_ms: float, loss_percent: float) -> dict[str, float | None]:
    """Measure the same link by Mininet's own classes, in the same kernel."""
    place = folder / "mininet"
    place.mkdir()
    script = f"{kernel_program.BENCHMARKS}/mininet_link.py"
    words = [str(rate_mbit), str(rtt_ms), str(loss_percent), str(udp_seconds(rate_mbit))]
    argv = ["/usr/bin/python3", "-I", script, *words, f"{kernel_program.INSIDE}/out.json"]
    try:
        kernel_program.run(argv, place, 300)
        found: dict[str, float | None] = json.loads((place / "out.json").read_text())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        found = {"rtt_ms": None, "rate_bit_per_s": None}
    return found


def percent(got: float | None, asked: float) -> str:
    return "-" if got is None else f"{(got / asked - 1) * 100:+.2f} %"


def table(cells: list[Cell]) -> str:
    """Return the cells as Markdown."""
    lines = [
        "| rate | RTT | loss | rate got | UDP got | RTT (ping) | loss got | queue | TCP | TCLink rate | TCLink RTT |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for cell in cells:
        rate = cell.rate_mbit * 1e6
        loss, queue = cell.got("loss"), cell.got("queue")
        asked = next((row["asked"] for row in cell.calibration if row["quantity"] == "queue"), None)
        ping = "-" if cell.ping_s is None else f"{cell.ping_s * 1e3:.3f} ms"
        theirs = cell.mininet["rtt_ms"]
        cells_of_row = [
            f"{cell.rate_mbit:g} Mbit/s",
            f"{cell.rtt_ms:g} ms",
            f"{cell.loss_percent:g} %",
            percent(cell.got("rate"), rate),
            percent(cell.udp_bit_per_s, rate),
            ping,
            "-" if loss is None else f"{loss * 100:.3f} %",
            "-" if queue is None else f"{queue:.0f} of {asked:.0f}",
            "-" if cell.tcp_share is None else f"{cell.tcp_share * 100:.1f} %",
            percent(cell.mininet["rate_bit_per_s"], rate),
            "-" if theirs is None else f"{theirs:.3f} ms",
        ]
        lines.append("| " + " | ".join(cells_of_row) + " |" + (f" {', '.join(cell.faults)}" if cell.faults else ""))
    return "\n".join(lines) + "\n"


PAGE = """\
# Fidelity: requested and measured link properties

This page has a link between two hosts in the virtual engine for each rate, round-trip time and loss.
`make fidelity` writes it. All figures are measured, and none is computed from the settings. The columns
are:

- *rate got*: the deviation of the measured rate from the set rate, in the worse direction. Full frames are
  offered at 120 % of the rate (tolerance 1 %).
- *UDP got*: the same deviation for iperf3 over UDP at 110 % of the rate, without its first second
  (tolerance 1 %).
- *RTT (ping)*: the round trip of idle pings: the propagation and the time of 98 bytes in each direction
  (tolerance 0.02 ms).
- *loss got*: the loss of small frames at a quarter of the rate, in the worse direction. At least 100 frames
  divided by the loss are sent (tolerance: the binomial interval of 99.99 %).
- *queue*: the number of packets of a burst that waited, and the size of the default queue (tolerance one
  packet). The default queue is one BDP, at least 20 packets.
- *TCP*: the goodput of one cubic connection on a link without loss, as a share of the rate that headers
  leave. It is not a property of the link. At 1 Gbit/s the connection lasts three seconds. On a long path,
  it is in slow start for all of this time.
- *TCLink*: the same link by Mininet's own classes (HTB and netem on the hosts) in the same kernel. Its RTT
  is the mean of twelve pings, and the first ping also waits for ARP. The limit of netem, 1000 packets,
  includes the packets in its delay line. A long fast link exceeds this limit.

All runs have the same seed. Therefore equal losses drop the same frames in all cells.

{verdict}

{table}"""


def keep(cells: list[Cell]) -> None:
    """Save the measured cells, so that an interruption does not lose half an hour."""
    KEPT.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="measure a few cells and only print them")
    parser.add_argument(
        "--again", action="store_true", help="measure only missing cells and cells outside their tolerances"
    )
    arguments = parser.parse_args()
    quick = arguments.quick
    done: dict[tuple[float, float, float], Cell] = {}
    if arguments.again:
        kept = [Cell(**values) for values in json.loads(KEPT.read_text())]
        done = {(c.rate_mbit, c.rtt_ms, c.loss_percent): c for c in kept if not c.faults}
    cells = [(rate, rtt, loss) for rate in RATES_MBIT for rtt in RTTS_MS for loss in LOSSES_PERCENT]
    if quick:
        cells = [(0.1, 400, 0), (10, 10, 1), (100, 80, 0.1), (1000, 10, 0)]
    cpus: SimpleQueue[int] = SimpleQueue()
    usable = sorted(os.sched_getaffinity(0))
    for cpu in usable:
        cpus.put(cpu)
    # the slow cells first, so that they do not run alone at the end
    order = sorted((cell for cell in cells if cell not in done), key=lambda cell: -cell[0])
    with ThreadPoolExecutor(len(usable)) as pool:
        for cell in pool.map(lambda values: measure(*values, cpus), order):
            done[cell.rate_mbit, cell.rtt_ms, cell.loss_percent] = cell
            text = ", ".join(cell.faults) or "within tolerances"
            where = f"{cell.rate_mbit:g} Mbit/s, {cell.rtt_ms:g} ms, {cell.loss_percent:g} %"
            print(f"fidelity {len(done):3} of {len(cells)}: {where}: {text}", flush=True)
            if not quick:
                keep(list(done.values()))
    found = [done[cell] for cell in cells]
    wrong = sum(bool(cell.faults) for cell in found)
    verdict = f"All {len(found)} cells are inside the tolerances."
    if wrong:
        verdict = f"{wrong} of {len(found)} cells are outside the tolerances, marked at the end of their rows."
    print(f"\n{table(found)}\n{verdict}")
    if not quick:
        (ROOT / "docs" / "measured" / "fidelity.md").write_text(PAGE.format(verdict=verdict, table=table(found)))
        keep(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
