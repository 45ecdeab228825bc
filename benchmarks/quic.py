# SPDX-License-Identifier: Apache-2.0
"""Measure the packets per CPU second of the QUIC programs: a download of 100 MB over one path on loopback.

    python benchmarks/quic.py [--repeats 5] [--json FILE]

The stacks take turns, and each figure is a median. Packets are those that loopback carried in both directions. The CPU
time is that of one end, user and system.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mprun.workloads.built import program_store

# the names of the tools
STACKS = {"tquic": "quic", "noq": "noq"}
ADDRESS = "127.0.0.1:15201"
SIZE = 100_000_000


def loopback_packets() -> int:
    """Return the number of packets that loopback has carried."""
    return int(Path("/sys/class/net/lo/statistics/rx_packets").read_text())


def make_certificate(folder: Path) -> list[str]:
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    return ["--certificate", certificate, "--key", key]


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process. Return its CPU time in seconds."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def measure(program: str, folder: Path) -> dict[str, float]:
    """Return the packets per CPU second of both ends."""
    common = ["--congestion", "cubic", "--idle-timeout-ms", "10000", "--scheduler", "lowest-rtt"]
    server = subprocess.Popen(
        [program, "server", "--listen", ADDRESS, *make_certificate(folder), *common],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before = loopback_packets()
    words = ["--path", f"127.0.0.1,{ADDRESS}", "--requests", "1", "--response", str(SIZE), "--request", "0"]
    words += ["--think-ns", "0", "--timeout-ms", "60000", *common]
    client = subprocess.Popen([program, "client", *words], stdout=subprocess.DEVNULL)
    client_s = cpu_of(client)
    packets = loopback_packets() - before
    server.terminate()
    server_s = cpu_of(server)
    if client.returncode:
        sys.exit(f"{program}: the client ended with status {client.returncode}")
    return {"packets": packets, "server": packets / server_s, "client": packets / client_s}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    programs = {stack: program_store.find(name) for stack, name in STACKS.items()}
    results: dict[str, list[dict[str, float]]] = {stack: [] for stack in STACKS}
    with tempfile.TemporaryDirectory(prefix="mprun-quic-") as folder:
        for _ in range(given.repeats):
            for stack, program in programs.items():
                if program is None:
                    sys.exit(f"{STACKS[stack]} is not built: make quic")
                results[stack].append(measure(program.path, Path(folder)))
    medians = {
        stack: {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        for stack, rows in results.items()
    }
    for stack, row in medians.items():
        ends = f"server {row['server']:9,.0f}  client {row['client']:9,.0f}"
        print(f"{stack:6} {row['packets']:9,.0f} packets   per CPU second: {ends}")
    if given.json:
        given.json.write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
