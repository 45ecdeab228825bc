# SPDX-License-Identifier: Apache-2.0
"""The two files of a cell of `benchmarks/physics.py`, as a user would write them: trees for YAML."""

from __future__ import annotations

from typing import Any

from benchmarks import closed_form as form
from benchmarks.configuration import Configuration, Link


def topology(cell: Configuration) -> dict[str, Any]:
    """Return the topology file, as a tree."""
    shared: dict[str, Any] = {"version": 1, "addressing": cell.family}
    if cell.events:
        shared["events"] = list(cell.events)
    if cell.is_multipath:
        paths = [_written(link, cell) for link in cell.links]
        return {**shared, "topology": "multi-path", "paths": paths, "server_paths": [{"mtu": cell.mtu}]}
    names = ["client", *(f"router{number}" for number in range(1, len(cell.links))), "server"]
    nodes = {name: {"kind": "router" if name.startswith("router") else "host"} for name in names}
    links = [
        {"between": [names[number], names[number + 1]], **_written(link, cell)}
        for number, link in enumerate(cell.links)
    ]
    return {**shared, "nodes": nodes, "links": links}


def _written(link: Link, cell: Configuration) -> dict[str, Any]:
    written: dict[str, Any] = {"name": link.name, "mtu": cell.mtu}
    ways = {"forward": link.forward, "reverse": link.reverse}
    written["rate"] = {way: f"{one.rate_bit_per_s}bit" for way, one in ways.items()}
    written["delay"] = {way: f"{one.delay_us}us" for way, one in ways.items()}
    if cell.discipline == "fifo":
        written["queue"] = {way: f"{one.queue_packets}packets" for way, one in ways.items()}
    else:
        limit = f"{link.forward.queue_packets}packets"
        written["queue"] = {"limit": limit, "discipline": cell.discipline}
    for way, one in ways.items():
        if one.jitter:
            distribution, amount_us = one.jitter
            written.setdefault("jitter", {})[way] = {"amount": f"{amount_us}us", "distribution": distribution}
        if one.loss is not None:
            written.setdefault("loss", {})[way] = _written_loss(one.loss)
    return written


def _written_loss(loss: float | form.GilbertElliott) -> Any:
    if isinstance(loss, form.GilbertElliott):
        return {"gemodel": {"p": f"{loss.p * 100:.3f}%", "r": f"{loss.r * 100:.3f}%"}}
    return f"{loss * 100:.3f}%"


def experiment(cell: Configuration) -> dict[str, Any]:
    """Return the experiment file, as a tree."""
    host: dict[str, Any] = {"sysctl": cell.buffers} if cell.buffers else {}
    if cell.is_multipath:
        host["mptcp"] = {"path_manager": "fullmesh"}
    written: dict[str, Any] = {"version": 1, "probe": {"pings": 0}}
    if host:
        written["hosts"] = dict.fromkeys(("client", "server"), host)
    if cell.sampled_us:
        written["sample"] = {"sockets": f"{cell.sampled_us}us"}
    if cell.has_captures:
        written["capture"] = [{"host": name, "snaplen": 128} for name in ("client", "server")]
    return {**written, "traffic": list(cell.traffic)}
