# SPDX-License-Identifier: Apache-2.0
"""Write a Spec as two files with the same meaning. A run keeps them, to show all defaults and derived values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, astuple
from typing import Any

import yaml

from mprun.inputs.reader import RESOLVED
from mprun.model import metric, spec, units
from mprun.model.discipline import LOSS_MODELS, OPTIONS
from mprun.model.plot_form import SERIES, TABLE_FORMS
from mprun.workloads.tool import OwnedMetrics, tool_of

# The writer of an option, by the end of the name of a flow's option, and by the kind of a discipline's option. The
# first end that fits holds.
_RENDERERS: Mapping[str, Callable[[Any], str]] = {
    "_ns": units.TIME.render,
    "_bit_per_s": units.RATE.render,
    "_bytes": units.VOLUME.render,
    "_share": units.render_ratio,
    "_s": lambda amount_s: units.TIME.render(amount_s * units.NS_PER_S),
}


def write_topology(topology: spec.TopologySpec, head: str = RESOLVED) -> str:
    """Return a topology as nodes and links, whatever generator they came from. head: the comment before them."""
    entry = {
        "version": 1,
        "description": topology.description or None,
        "addressing": None if topology.addressing == "ipv4" else topology.addressing,
        "ecmp": topology.ecmp or None,
        "nodes": {name: _node(name, topology) for name in topology.nodes},
        "links": [_link(link) for link in topology.links],
        "events": tuple(_events(topology)),
        "middleboxes": {name: _options(asdict(box)) for name, box in topology.middleboxes.items()} or None,
    }
    return head + _dump(_filled(entry))


def write_experiment(experiment: spec.ExperimentSpec) -> str:
    """Return the text of an experiment with parameters and templates filled in."""
    owned = OwnedMetrics(experiment.traffic)
    reseed = experiment.reseed and _options(asdict(experiment.reseed))
    entry = {
        "version": 1,
        "description": experiment.description,
        "hosts": {name: _host(host) for name, host in experiment.hosts.items()},
        "traffic": [_flow(flow) for flow in experiment.traffic],
        "capture": [_capture(capture) for capture in experiment.captures],
        "faults": tuple(map(_fault, experiment.faults)),
        "probe": {"pings": experiment.probe_pings},
        "sample": {series: units.INTERVAL.render(ns) for series, ns in experiment.samples.items()} or None,
        "tracepoints": experiment.tracepoints,
        "expect": [_expectation(expectation, owned) for expectation in experiment.expectations],
        "calibrate": experiment.calibrate or None,
        "show": experiment.show,
        "plots": tuple(_plots(experiment)),
        "repeat": _filled({"seed": experiment.seed, "vary": experiment.vary, "reseed": reseed}),
        "links": dict(experiment.links) or None,
    }
    return RESOLVED + _dump(_filled(entry))


def _fault(fault: spec.PacketFault) -> dict[str, Any]:
    unsaid = {"drop": {"action", "by", "option"}, "strip": {"by"}}.get(fault.action, {"option"})
    return {key: value for key, value in _options(asdict(fault)).items() if key not in unsaid}


def _node(name: str, topology: spec.TopologySpec) -> dict[str, Any]:
    switch = topology.switches.get(name)
    return {"kind": topology.nodes[name], **({"openflow": _openflow(switch)} if switch else {})}


def _openflow(switch: spec.OpenFlow) -> dict[str, Any]:
    entry = {
        "mode": switch.mode,
        "flows": switch.flows,
        "groups": switch.groups,
        "hash": switch.hashed_by if switch.mode == "multipath" else None,
        "controller": switch.controller and asdict(switch.controller),
    }
    return _options(entry)


def _events(topology: spec.TopologySpec) -> Iterator[dict[str, Any]]:
    """Yield an event for each change, with only the properties that differ from before."""
    now = {link.name: spec.LinkChange(0, link.name, link.forward, link.reverse) for link in topology.links}
    for change in topology.changes:
        entry: dict[str, Any] = {"at": units.TIME.render(change.at_ns)}
        if isinstance(change, spec.AddressChange):
            state = "added" if change.is_there else "removed"
            yield entry | {"host": change.host, "address": change.link, "state": state}
            continue
        if isinstance(change, spec.Rebinding):
            yield entry | {"host": change.host, "address": change.link, "rebind": change.rebound}
            continue
        before = now[change.link]
        now[change.link] = change
        entry["link"] = change.link
        is_set = (change.forward, change.reverse) != (before.forward, before.reverse)
        # a change without new values is still a step of the plan
        if change.is_up != before.is_up or not is_set:
            yield entry | {"state": "up" if change.is_up else "down"}
        if is_set:
            yield entry | {"set": _difference(before, change)}


def _difference(before: spec.LinkChange, after: spec.LinkChange) -> dict[str, Any]:
    """The properties in which two states of a link differ, with the later values; 0 for a removed one."""
    old, new = (
        [spell_properties((way, way)) for way in (change.forward, change.reverse)] for change in (before, after)
    )
    said: dict[str, Any] = {}
    for name in dict.fromkeys(name for properties in (*new, *old) for name in properties):
        if [way.get(name) for way in old] == [way.get(name) for way in new]:
            continue
        nothing = "0ms" if name in ("delay", "jitter") else "0%"
        said[name] = _both(*(way.get(name, nothing) for way in new))
    return said


def _link(link: spec.LinkSpec) -> dict[str, Any]:
    entry = {
        "name": link.name,
        "between": link.ends,
        **spell_properties((link.forward, link.reverse)),
        "mtu": link.mtu if link.mtu != spec.DEFAULT_MTU else None,
        "backup": link.backup or None,
        "addressing": link.addressing,
        "addresses": list(map(_addresses, link.addresses)) if any(link.addresses) else None,
    }
    return _filled(entry)


def _addresses(end: tuple[str, ...]) -> str | list[str] | None:
    """Return a single address as it is, and addresses of both families as a list."""
    return list(end) if len(end) > 1 else next(iter(end), None)


def spell_properties(directions: tuple[spec.Direction, spec.Direction]) -> dict[str, Any]:
    """Return the properties of both directions, forward and reverse, as a file spells them."""
    forward, reverse = (
        {
            "rate": way.rate_bit_per_s and units.RATE.render(way.rate_bit_per_s),
            "delay": units.DELAY.render(way.delay_ns) if way.delay_ns else None,
            "jitter": way.jitter and _jitter(way.jitter),
            "loss": way.loss and _loss(way.loss),
            "duplicate": way.duplicate and units.render_ratio(way.duplicate.probability),
            "corrupt": way.corrupt and units.render_ratio(way.corrupt.probability),
            "reorder": way.reorder and _reorder(way.reorder),
            "queue": way.queue and _queue(way.queue),
        }
        for way in directions
    )
    return _filled({name: _both(one, reverse[name]) for name, one in forward.items()})


def _jitter(jitter: spec.Jitter) -> Any:
    amount = units.DELAY.render(jitter.amount_ns)
    if jitter.correlation == 0 and jitter.distribution == "uniform":
        return amount
    return {
        "amount": amount,
        "correlation": units.render_ratio(jitter.correlation),
        "distribution": jitter.distribution,
    }


def _loss(loss: spec.Loss) -> Any:
    ratio = units.render_ratio
    if isinstance(loss, spec.GilbertElliott | spec.FourState):
        return {loss.model: dict(zip(LOSS_MODELS[loss.model], map(ratio, astuple(loss)), strict=True))}
    if loss.correlation:
        return {"random": ratio(loss.probability), "correlation": ratio(loss.correlation)}
    return ratio(loss.probability)


def _reorder(reorder: spec.Reorder) -> Any:
    probability = units.render_ratio(reorder.probability)
    return probability if reorder.gap == 1 else {"probability": probability, "gap": reorder.gap}


def _queue(queue: spec.Queue) -> Any:
    limit = units.render_queue(queue)
    if queue.discipline == "fifo":
        return limit
    options = {name: _option(one, _RENDERERS.get(f"_{OPTIONS[name].kind}", str)) for name, one in queue.options.items()}
    return {"limit": limit, "discipline": queue.discipline, **options}


def _both(forward: Any, reverse: Any) -> Any:
    """Return a single value if both directions agree, else a value for each. None if neither has the property."""
    return forward if forward == reverse else _filled({"forward": forward, "reverse": reverse})


def _host(host: spec.HostSpec) -> dict[str, Any]:
    mptcp = host.mptcp
    settings = {
        "path_manager": mptcp.path_manager,
        "scheduler": mptcp.scheduler,
        "subflows_per_pair": mptcp.subflows_per_pair if mptcp.is_in_user_space else None,
        "endpoints": tuple(map(asdict, mptcp.endpoints)),
        "limits": _filled({"subflows": mptcp.subflows, "add_addr_accepted": mptcp.add_addr_accepted}) or None,
    }
    entry = {"mptcp": _filled(settings), "sysctl": dict(host.sysctl), "congestion": dict(host.congestion) or None}
    return _filled(entry)


def _flow(flow: spec.Flow) -> dict[str, Any]:
    start = units.TIME.render(flow.start_ns)
    has_protocol = "protocol" in tool_of(flow).Entry.model_fields
    entry = {
        "name": flow.name,
        "tool": flow.tool,
        "from": flow.source,
        "to": flow.destination,
        "protocol": flow.protocol if has_protocol else None,
        "family": flow.family,
        "start": {"after": flow.after.flow, "of": flow.after.of, "offset": start} if flow.after else start,
        "duration_ns": flow.duration_ns,
        "timeout_ns": flow.timeout_ns,
        "port": flow.port,
        "congestion": flow.congestion,
        "background": flow.background or None,
        "group": flow.group,
    }
    options: dict[str, Any] = {**flow.options}
    if attached := options.pop("attachments", None):
        files = [{"name": one["name"], "archive": spec.path_of_attachment(one["sha256"])} for one in attached]
        if isinstance(stack := options.get("stack"), Mapping):
            options["stack"] = {**stack, "files": files}
        else:
            options["files"] = files
    return _options({**entry, **options})


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a file has them: the unit at the end of a name moves to the value."""
    entry: dict[str, Any] = {}
    for name, value in _filled(options).items():
        # a name with a text as its value may be any name that the user gave
        is_text = isinstance(value, str)
        suffix = "" if is_text else next((suffix for suffix in _RENDERERS if name.endswith(suffix)), "")
        entry[name.removesuffix(suffix)] = _option(value, _RENDERERS.get(suffix, str))
    return entry


def _option(value: Any, render: Callable[[Any], str]) -> Any:
    if isinstance(value, Mapping):
        return _options(value)
    if isinstance(value, (list, tuple)):
        return [_option(item, render) for item in value]
    return value if render is str else render(value)


def _capture(capture: spec.Capture) -> dict[str, Any]:
    names = ("node", "link", "snaplen", "filter", *(("size_bytes", "keep") if capture.size_bytes is not None else ()))
    return _options({name: getattr(capture, name) for name in names})


def _expectation(expectation: spec.Expectation, owned: Mapping[str, metric.Metrics]) -> dict[str, Any]:
    found = metric.find_owned(expectation.metric, owned)
    assert found is not None
    unit = found[0].unit
    bounds = {"min": expectation.minimum, "max": expectation.maximum, "equals": expectation.equals}
    texts = {name: metric.render_bound(unit, value) for name, value in bounds.items() if value is not None}
    return {"metric": expectation.metric, **texts}


def _plots(experiment: spec.ExperimentSpec) -> Iterator[dict[str, Any]]:
    """The plots of a single run, as it has no matrix for plots over cells."""
    for plot in experiment.plots:
        if plot.is_over_time:
            form = plot.form or (TABLE_FORMS if plot.series is None else SERIES[plot.series].forms)[0]
            shown = {"series": plot.series, "table": plot.table, "column": plot.column}
            look = {
                "title": plot.title or None,
                "x_title": plot.x_title or None,
                "y_title": plot.y_title or None,
                "names": dict(plot.names) or None,
                "width": None if plot.width_um is None else units.WIDTH.render(plot.width_um),
            }
            yield _filled({**shown, "flow": plot.flow, "form": form, **look})


def _filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without the keys that have no value or an empty tuple. Other tuples become lists of their own."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in entry.items()
        if value not in (None, ())
    }


def _dump(value: dict[str, Any]) -> str:
    return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, width=110, allow_unicode=True)
