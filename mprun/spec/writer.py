# SPDX-License-Identifier: Apache-2.0
"""A Spec as the two files that mean it: what a run keeps, so that defaults and derived values show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml

from mprun.spec import metric, units
from mprun.spec.spec import Capture, Direction, Expectation, ExperimentSpec, Flow, HostSpec, LinkSpec, TopologySpec

Value = TypeVar("Value")


def write_topology(topology: TopologySpec) -> str:
    """Nodes and links written out, whatever generator they came from."""
    return _dump(
        {
            "version": 1,
            "description": topology.description,
            "nodes": {name: {"kind": kind} for name, kind in topology.nodes.items()},
            "links": [_link(link) for link in topology.links],
        }
    )


def write_experiment(experiment: ExperimentSpec) -> str:
    """Parameters and templates filled in."""
    return _dump(
        {
            "version": 1,
            "description": experiment.description,
            "hosts": {name: _host(host) for name, host in experiment.hosts.items()},
            "traffic": [_flow(flow) for flow in experiment.traffic],
            "capture": [_capture(capture) for capture in experiment.captures],
            "probe": {"pings": experiment.probe_pings},
            "expect": [_expectation(expectation) for expectation in experiment.expectations],
            "repeat": {"seed": experiment.seed},
        }
    )


def _link(link: LinkSpec) -> dict[str, Any]:
    directions = (link.forward, link.reverse)
    entry: dict[str, Any] = {"name": link.name, "between": list(link.ends)}
    entry["rate"] = _both(directions, lambda d: d.rate_bit_per_s, units.RATE.render)
    entry["delay"] = _both(directions, lambda d: d.delay_ns or None, units.DELAY.render)
    entry["loss"] = _both(directions, lambda d: d.loss or None, units.render_ratio)
    entry["queue"] = _both(directions, lambda d: d.queue, units.render_queue)
    entry["backup"] = link.backup or None
    entry["addresses"] = list(link.addresses) if any(link.addresses) else None
    return _without_none(entry)


def _both(
    directions: tuple[Direction, Direction], get: Callable[[Direction], Value | None], render: Callable[[Value], str]
) -> Any:
    """One text if both directions agree, else one each; None where neither has the property."""
    texts = [None if (value := get(direction)) is None else render(value) for direction in directions]
    if texts[0] == texts[1]:
        return texts[0]
    return _without_none(dict(zip(("forward", "reverse"), texts, strict=True)))


def _host(host: HostSpec) -> dict[str, Any]:
    mptcp = host.mptcp
    limits = _without_none({"subflows": mptcp.subflows, "add_addr_accepted": mptcp.add_addr_accepted})
    settings: dict[str, Any] = {"path_manager": mptcp.path_manager, "scheduler": mptcp.scheduler}
    if limits:
        settings["limits"] = limits
    return {"mptcp": settings, "sysctl": dict(host.sysctl)}


def _flow(flow: Flow) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": flow.name, "tool": flow.tool, "from": flow.source, "to": flow.destination}
    if flow.tool != "ping":
        entry["protocol"] = flow.protocol
    entry["start"] = units.TIME.render(flow.start_ns)
    if flow.duration_ns is not None:
        entry["duration"] = units.TIME.render(flow.duration_ns)
    for name, value in flow.options.items():
        if name.endswith("_ns") and isinstance(value, int):
            entry[name.removesuffix("_ns")] = units.TIME.render(value)
        elif name.endswith("_bytes") and isinstance(value, int):
            entry[name.removesuffix("_bytes")] = units.SIZE.render(value)
        else:
            entry[name] = value
    return entry


def _capture(capture: Capture) -> dict[str, Any]:
    return {"host": capture.host, "snaplen": capture.snaplen, "filter": capture.filter}


def _expectation(expectation: Expectation) -> dict[str, Any]:
    unit = metric.unit_of(expectation.metric)
    assert unit is not None
    bounds = {"min": expectation.minimum, "max": expectation.maximum, "equals": expectation.equals}
    texts = {name: metric.render_bound(unit, value) for name, value in bounds.items() if value is not None}
    return {"metric": expectation.metric, **texts}


def _without_none(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value is not None}


def _dump(value: dict[str, Any]) -> str:
    head = "# As mprun understood it: every default and derived value filled in.\n"
    return head + yaml.safe_dump(value, sort_keys=False, width=110, allow_unicode=True)
