# SPDX-License-Identifier: Apache-2.0
"""Small files that become large when they are read."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars

from tests.hostile import Called, Finding, call, call_verb, copy_run, first_line
from tests.scenes import ONE_PATH

EXPERIMENT = "version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n"
_ENTRY = struct.Struct("=BxHIq")


def bundle_of_zeros(folder: Path) -> Called:
    """Reproduce a list of 700 million zeros: 1.4 MB become 1.4 GB, and as values more than 5 GB."""
    with zipfile.ZipFile(folder / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        _write_zeros(archive, "artifacts.json", 1400)
    return call("verify", str(folder / "bundle.zip"), "-o", str(folder / "runs"))


def bundle_of_pages(folder: Path) -> Called:
    """Reproduce forty pages of 15 MB each. The ratio of one member is checked only for larger members."""
    with zipfile.ZipFile(folder / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(40):
            _write_zeros(archive, f"figures/{n}.svg", 15)
    return call("verify", str(folder / "bundle.zip"), "-o", str(folder / "runs"))


def _write_zeros(archive: zipfile.ZipFile, name: str, size_mb: int) -> None:
    with archive.open(name, "w") as file:
        for _ in range(size_mb):
            file.write(b"0," * (1 << 19))


def record_of_zeros(folder: Path) -> Called:
    """Read an entry that declares a size of 1.5 GB, in 1.5 MB."""
    run = copy_run(folder)
    shutil.rmtree(run / "tables")
    with gzip.open(run / "record.gz", "wb", compresslevel=1) as file:
        file.write(_ENTRY.pack(4, 0, 1500 << 20, 0))
        for _ in range(1500):
            file.write(bytes(1 << 20))
    return call_verb("show", run)


def record_of_entries(folder: Path) -> Called:
    """Read many empty entries, each within its limit: 1 GB in 1 MB."""
    run = copy_run(folder)
    shutil.rmtree(run / "tables")
    with gzip.open(run / "record.gz", "wb", compresslevel=1) as file:
        entries = _ENTRY.pack(4, 0, 0, 0) * (1 << 16)
        for _ in range(1024):
            file.write(entries)
    return call_verb("show", run)


def table_of_zeros(folder: Path) -> Called:
    """Draw two columns of one value with 40 million rows. They take some kilobytes, and gigabytes when drawn."""
    run = copy_run(folder)
    rows = 40_000_000
    columns = {"time_ns": polars.Int64, "tx_bytes": polars.Int64}
    zeros = [polars.repeat(0, rows, dtype=kind, eager=False).alias(name) for name, kind in columns.items()]
    texts = [polars.lit("x").alias(name) for name in ("node", "interface", "link")]
    packed = io.BytesIO()
    polars.LazyFrame().select(*zeros, *texts).sink_parquet(packed, row_group_size=1 << 22)
    (run / "tables" / "interfaces.parquet").write_bytes(packed.getvalue())
    return call_verb("show", run)


def matrix_of_a_billion(folder: Path) -> Called:
    """Validate three axes of a thousand values each."""
    axis = "{from: 1, to: 1000, step: 1}"
    matrix = f"params: {{a: 1, b: 1, c: 1}}\nmatrix: {{a: {axis}, b: {axis}, c: {axis}}}\n"
    return _validate(folder, EXPERIMENT + matrix)


def exclusions(folder: Path) -> Called:
    """Validate a matrix of 90,000 cells, each of which is compared with a hundred exclusions."""
    axis = "{from: 1, to: 300, step: 1}"
    excluded = ", ".join(f"{{a: {n}}}" for n in range(1, 101))
    matrix = f"params: {{a: 1, b: 1}}\nmatrix: {{a: {axis}, b: {axis}, exclude: [{excluded}]}}\n"
    return _validate(folder, EXPERIMENT + matrix)


def aliases(folder: Path) -> Called:
    """Validate ten levels of lists that contain the level below ten times."""
    levels = [f"x-{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10 if n else ['a'] * 10)}]\n" for n in range(10)]
    return _validate(folder, EXPERIMENT + "".join(levels))


def deep_lists(folder: Path) -> Called:
    """Validate a list in a list, 100,000 levels deep."""
    return _validate(folder, EXPERIMENT + "x-deep: " + "[" * 100_000 + "]" * 100_000 + "\n")


def chain_of_flows(folder: Path) -> Called:
    """Validate flows that each wait for the next one in the file, the last ones for each other."""
    waiting = "".join(
        f"  - {{name: f{n}, tool: ping, from: client, to: server, start: {{after: f{n + 1}}}}}\n" for n in range(3000)
    )
    last = "  - {name: f3000, tool: ping, from: client, to: server, start: {after: f2999}}\n"
    return _validate(folder, f"version: 1\ntraffic:\n{waiting}{last}")


def contradictions(folder: Path) -> Called:
    """Validate bounds of one metric, each of which excludes all others."""
    bounds = "".join(
        f"  - {{metric: ping.rtt, min: {n + 2}ms}}\n  - {{metric: ping.rtt, max: 1ms}}\n" for n in range(2500)
    )
    return _validate(folder, EXPERIMENT + f"expect:\n{bounds}")


def problems(folder: Path) -> Called:
    """Validate keys that no file has, and flows between hosts that do not exist."""
    keys = "".join(f"key{n}: 1\n" for n in range(10_000))
    flows = "".join(f"  - {{tool: ping, from: host{n}, to: server}}\n" for n in range(3000))
    return _validate(folder, f"version: 1\n{keys}traffic:\n{flows}")


def shared_link(folder: Path) -> Called:
    """Validate flows that offer more than their link carries, all at once."""
    flow = "  - {tool: iperf3, from: client, to: server, duration: 1s, rate: 1mbit}\n"
    return _validate(folder, "version: 1\ntraffic:\n" + flow * 1500)


def schedule(folder: Path) -> Called:
    """Validate a schedule of 200,000 rows."""
    (folder / "rows.csv").write_text("at,rate\n" + "".join(f"{n}ms,{n % 9 + 1}mbit\n" for n in range(200_000)))
    return _validate(folder, EXPERIMENT, ONE_PATH + "events: [{link: path0, schedule: rows.csv}]\n")


def traces(folder: Path) -> Called:
    """Validate a trace of a million intervals a hundred times. It has two rates."""
    (folder / "trace").write_text("1\n1000000\n")
    event = "  - {link: path0, trace: trace, interval: 1ms}\n"
    return _validate(folder, EXPERIMENT, f"{ONE_PATH}events:\n{event * 100}")


def repetitions(folder: Path) -> Called:
    """Validate 300 flows that are repeated a thousand times each."""
    flow = "  - {tool: ping, from: client, to: server, repeat: {times: 1000, pause: 1s}}\n"
    return _validate(folder, "version: 1\ntraffic:\n" + flow * 300)


def pairs(folder: Path) -> Called:
    """Validate a flow between each two of 6000 hosts, 36 million."""
    nodes = "".join(f"  h{n}: {{kind: host}}\n" for n in range(6000))
    flow = "traffic: [{tool: ping, from: h*, to: h*, pairs: all-to-all}]\n"
    return _validate(folder, "version: 1\n" + flow, f"version: 1\nnodes:\n{nodes}")


def _validate(folder: Path, experiment: str, topology: str = ONE_PATH) -> Called:
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(experiment)
    return call("validate", "-t", str(folder / "topo"), "-x", str(folder / "xp"))


CASES: dict[str, Callable[[Path], Called]] = {
    "bundle: one list of zeros": bundle_of_zeros,
    "bundle: many pages of zeros": bundle_of_pages,
    "record: one entry": record_of_zeros,
    "record: many entries": record_of_entries,
    "table: rows of zeros": table_of_zeros,
    "matrix: a billion cells": matrix_of_a_billion,
    "matrix: exclusions": exclusions,
    "YAML: aliases of aliases": aliases,
    "YAML: deep lists": deep_lists,
    "YAML: a chain of flows": chain_of_flows,
    "YAML: contradictions": contradictions,
    "YAML: thousands of problems": problems,
    "YAML: flows over one link": shared_link,
    "YAML: repetitions": repetitions,
    "schedule: many rows": schedule,
    "trace: many intervals": traces,
    "YAML: pairs": pairs,
}


def attempt(case: str, folder: Path) -> Finding:
    """Read a bomb. The caller limits time and memory."""
    called = CASES[case](folder)
    return Finding(first_line(called).replace(f"{folder}/", ""), cpu_s=called.cpu_s)
