# SPDX-License-Identifier: Apache-2.0
"""Turn the plain values of an experiment file into an ExperimentSpec, and check them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any

from mprun.errors import SpecError
from mprun.inputs.cross_check import has_chosen
from mprun.inputs.document import Document, Spread
from mprun.inputs.keys.experiment import (
    DEFAULT_PROBE_PINGS,
    ExpectEntry,
    ExperimentFile,
    HostEntry,
    RepeatEntry,
    is_link_name,
    name_link,
)
from mprun.inputs.keys.field import DEFAULT_SEED
from mprun.inputs.keys.file_model import check, fields_of, salvage
from mprun.inputs.keys.pairing import spread_hosts
from mprun.inputs.keys.shape import write_bound
from mprun.inputs.matrix_cells import list_axes
from mprun.inputs.search_point import read_search
from mprun.inputs.traffic import read_traffic
from mprun.model import metric
from mprun.model.grouping import gather
from mprun.model.metric import Metric
from mprun.model.plot_form import SERIES, SeriesTraits
from mprun.model.problem import Notes, ValuePath, find_nearest, list_names, name_nearest, tell_unknown
from mprun.model.scalar import read_scalar, spell_scalar
from mprun.model.spec import Expectation, ExperimentSpec, Flow, HostSpec, Mptcp, Plot, Reseed, SeriesName
from mprun.model.trace_event_name import event_of, is_recorded
from mprun.model.units import QuantityError, parse_share
from mprun.statements.evaluation import check as check_statement
from mprun.statements.expression import ExpressionError, Reference, UnknownName, refuse_conditions
from mprun.statements.expression import parse as parse_statement
from mprun.workloads.tool import OwnedMetrics

# The metrics that are meant by other words.
_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("throughput", "bandwidth", "rate", "speed", "bitrate"), ("goodput",)),
    **dict.fromkeys(("rtt", "latency"), ("delay.mean", "srtt")),
    **dict.fromkeys(("time", "duration"), ("completion.mean", "delay.mean")),
    "retransmits": ("resent",),
    "subflows": ("paths",),
}
# A value with what it may differ by, and a metric, in place of a bound.
_AROUND = re.compile(r"(\S.*?) *(?:±|\+/?-) *(\S.*)")
_METRIC = re.compile(r"[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+")
# The keys of the experiment that the checks of some keys use.
_USED: Mapping[str, set[str]] = {
    "expect": {"traffic", "sample", "probe", "matrix"},
    "plots": {"traffic", "sample", "capture", "tracepoints"},
    "show": {"traffic"},
    "repeat": {"traffic"},
    "search": {"traffic", "matrix"},
}
# The name of a sweep's cells in a statement.
CELLS = "cells"
_OF_CELLS = re.compile(rf"{CELLS}(\[[^]]*\])?\.")


def read_experiment(
    values: Mapping[str, object], document: Document, hosts: Sequence[str] | None, seed: int | None
) -> tuple[ExperimentSpec, Mapping[str, HostEntry], Notes] | None:
    """Return the experiment from plain values, the hosts as the file has them, and the notes for problems of its flows,
    as `traffic[n]` of the n-th flow.

    Other problems go to the document.
    `hosts`: the hosts of the topology; None if they are not known.
    `seed`: replaces the seed of the file.
    """
    file = check(ExperimentFile, values, document)
    if seed is None:
        seed = DEFAULT_SEED if file is None or file.repeat is None else file.repeat.seed
    traffic = read_traffic(values.get("traffic"), document, hosts, seed)
    numbers: Sequence[int] = range(len(file.expect) if file else 0)
    if file is None or traffic is None:
        file, numbers = _take_sound(values, document, has_flows=traffic is not None)
    if file is None:
        return None
    flows, origins = traffic or ((), ())
    expected = list(zip(numbers, file.expect, strict=False))
    is_written = not (document.tree.is_resolved or document.tree.older_keys)
    if values.get("traffic") is None and is_written and not file.calibrate:
        missing = "is missing, so that a run measures nothing: write '- {tool: ping, from: client, to: server}' in it"
        document.warn(("traffic",), missing)
    owned = OwnedMetrics(flows)
    repeat = RepeatEntry.model_validate({}) if file.repeat is None else file.repeat
    if repeat.until is not None:
        _find(("repeat", "until", "metric"), repeat.until.metric, owned, document)
    for n, name in enumerate(file.show):
        _find(("show", n), name, owned, document)
    tables = {own["name"]: own for flow in flows for own in flow.options.get("tables", ())}
    for n, plot in enumerate(file.plots):
        if plot.metric is not None and plot.metric != metric.PASSED:
            _find(("plots", n, "metric"), plot.metric, owned, document)
        event = event_of(plot.table or "")
        if plot.flow is not None and plot.flow not in owned:
            document.refuse(("plots", n, "flow"), tell_unknown("flow", plot.flow, owned))
        if event is not None:
            if not is_recorded(event, file.tracepoints):
                document.refuse(("plots", n, "table"), f"needs the event: write 'tracepoints: [{event}]'")
            if plot.flow is not None:
                document.refuse(("plots", n, "flow"), "is not for trace events, which name no flow: remove it")
        elif plot.table is not None and plot.table not in tables:
            without = ": write 'tables' in an entry of 'exec', or for a figure of mprun 'series' in place of 'table'"
            hint = name_nearest(plot.table, tables, "tables") if tables else without
            document.refuse(("plots", n, "table"), f"no entry has a table '{plot.table}'{hint}")
        elif plot.table is not None and "time" not in tables[plot.table]:
            document.refuse(("plots", n, "table"), f"'{plot.table}' has no times: write 'time' in the entry's table")
        needed = SERIES[plot.series] if plot.series else SeriesTraits(())
        if needed.metrics and not any(not {*needed.metrics}.isdisjoint(metrics) for metrics in owned.values()):
            names = " or ".join(f"'{name}'" for name in needed.metrics)
            document.warn(("plots", n, "series"), f"has nothing to show: no flow has the metric {names}; remove it")
        shown = [flow for flow in flows if plot.flow in (None, flow.name, flow.group)]
        if needed.qlog and shown and not any(_has_series(flow, plot.series) for flow in shown):
            over_quic = next((flow.name for flow in shown if flow.protocol == "quic"), None)
            protocols = "QUIC" if plot.series == "in_flight" else "TCP, MPTCP or QUIC"
            message = (
                f"write 'qlog: true' in flow '{over_quic}'" if over_quic else f"no flow is over {protocols}; remove it"
            )
            if over_quic or not has_chosen(document, "protocol", "tool"):
                document.warn(("plots", n, "series"), f"has nothing to show: {message}")
        has_qlog = plot.series == "sequence" and "quic" in {flow.protocol for flow in flows}
        if len({entry.capture().node for entry in file.capture}) < needed.captures and not has_qlog:
            what = "captures at both ends" if needed.captures > 1 else "a capture"
            written = ", ".join(["{host: ...}"] * needed.captures)
            message = f"has nothing to show without {what}: write 'capture: [{written}]'"
            document.warn(("plots", n, "series"), message)
        if needed.sample and (file.sample is None or needed.sample not in file.sample.intervals()):
            document.refuse(("plots", n, "series"), f"needs samples: write 'sample: {{{needed.sample}: 100ms}}'")
    expectations = {
        n: _expectation(n, entry.metric, entry, owned, document) for n, entry in expected if entry.metric is not None
    }
    # a run of an earlier version is read as it is
    if not document.tree.is_resolved:
        _refuse_contradictions(expectations, document)

    experiment = ExperimentSpec(
        name=PurePath(document.name).stem,
        description=file.description,
        hosts={
            name: entry.fill(HostSpec, mptcp=entry.mptcp.settings() if entry.mptcp else Mptcp())
            for name, entry in spread_hosts(file.hosts, hosts or ()).items()
        },
        traffic=flows,
        captures=tuple(entry.capture() for entry in file.capture),
        expectations=tuple(expectations.values()),
        probe_pings=DEFAULT_PROBE_PINGS if file.probe is None else file.probe.pings,
        seed=seed,
        calibrate=file.calibrate,
        vary=tuple(repeat.vary or ()),
        repeat=repeat.repeat(),
        links=tuple(file.links.items()),
        samples={} if file.sample is None else file.sample.intervals(),
        plots=tuple(entry.fill(Plot) for entry in file.plots),
        across=tuple(
            _read_across(n, entry.holds, file.matrix, owned, document)
            for n, entry in expected
            if entry.holds is not None
        ),
        attachments=tuple(dict.fromkeys(document.attachments)),
        show=tuple(dict.fromkeys(file.show)),
        faults=tuple(dict.fromkeys(entry.fault() for entry in file.faults)),
        reseed=None if repeat.reseed is None else repeat.reseed.fill(Reseed),
        tracepoints=tuple(dict.fromkeys(file.tracepoints)),
        search=None if file.search is None else read_search(file.search, partial(_metric_of, owned=owned), document),
    )
    return experiment, file.hosts, Spread(document, {"traffic": origins, "expect": list(expectations)})


def _has_series(flow: Flow, series: SeriesName | None) -> bool:
    """Return True if a flow may have one of the series of QUIC. A program may open any sockets."""
    has_sockets = flow.tool == "exec" or flow.protocol in ("tcp", "mptcp")
    return bool(flow.options.get("qlog")) or (has_sockets and series != "in_flight")


def _take_sound(
    values: Mapping[str, object], document: Document, has_flows: bool
) -> tuple[ExperimentFile | None, Sequence[int]]:
    """Return the parts of a file whose checks use no part with a problem, so that one problem hides few others.

    None if too few parts are left. Return also the numbers of the expectations without a problem, which are left.
    has_flows: the flows are known.
    """
    document.is_partial = True
    entries = values.get("expect")
    wrong = {one.path[1] for one in document.problems if one.path[:1] == ("expect",) and len(one.path) > 1}
    numbers = [n for n in range(len(entries)) if n not in wrong] if isinstance(entries, list) else []
    faulty = {one.path[0] for one in document.problems if one.path} | (set() if has_flows else {"traffic"})
    # an unknown key may be meant as any other
    used = {key: faulty & needed or faulty - {*fields_of(ExperimentFile)} for key, needed in _USED.items()}
    sound = {key: value for key, value in values.items() if not used.get(key)}
    if isinstance(entries, list) and "expect" in sound:
        sound["expect"] = [entries[n] for n in numbers]
    return salvage(ExperimentFile, sound), numbers


def check_links(links: Sequence[tuple[str, str]], topology: str, experiment: str, document: Document) -> None:
    """Record problems of links whose names, with the names of the two files, are no names or the same."""
    taken: set[str] = set()
    for key, _ in links:
        name = name_link(key, topology, experiment)
        if name in taken:
            document.refuse(("links", key), f"is a second link '{name}': give it another name")
        elif not is_link_name(name):
            document.refuse(("links", key), f"'{name}' cannot be a link's name: rename the link or the file")
        taken.add(name)


def _expectation(n: int, name: str, entry: ExpectEntry, owned: OwnedMetrics, document: Document) -> Expectation:
    """Return an expectation with its bounds in base units. A bound that cannot be read is left out."""
    found = _find(("expect", n, "metric"), name, owned, document)
    if found is None:
        return Expectation(name)
    bounds: dict[str, float] = {}
    for key, value in (("min", entry.min), ("max", entry.max), ("equals", entry.equals)):
        try:
            if value is not None:
                bounds[key] = metric.parse_bound(found, value)
        except QuantityError as error:
            text = str(error)
            if isinstance(value, str) and found.unit == "count" and found.is_free:
                text += f", or write the 'unit' of {name} where it is defined"
            document.refuse(("expect", n, key), _explain_bound(found, value) or text)
    minimum, maximum = bounds.get("min"), bounds.get("max")
    if minimum is not None and maximum is not None and minimum > maximum:
        document.refuse(("expect", n, "min"), f"'{entry.min}' is above max, '{entry.max}': swap them")
    equals = bounds.get("equals")
    # a run of an earlier version is read as it is
    if not found.is_free and not document.tree.is_resolved:
        if found.unit == "count" and equals is not None and not equals.is_integer():
            both = f"'min: {math.floor(equals)}, max: {math.ceil(equals)}'"
            document.refuse(("expect", n, "equals"), f"no count is {equals:g}: write a whole number, or {both}")
        is_whole = found.unit == "ratio" and not found.may_exceed and maximum == 1
        idle = [("min", "below 0", "larger")] * (minimum == 0 and maximum is None)
        idle += [("max", "above 100%", "smaller")] * (is_whole and not minimum)
        for key, where, other in idle:
            # a parameter may give another bound in some of the runs
            if not document.is_filled(("expect", n, key)):
                message = f"no {name} is {where}, so the bound asks only that a value is measured: write a {other} one"
                document.warn(("expect", n, key), message)
    return Expectation(name, minimum, maximum, equals)


def _explain_bound(found: metric.Metric, value: object) -> str | None:
    """Return the message of a text that is a range or a metric in place of a bound; None for another value."""
    if (around := _AROUND.fullmatch(str(value))) is None:
        is_metric = _METRIC.fullmatch(str(value))
        compares = "write a value; in a sweep, 'holds' compares cells, as in 'cells[cc=cubic].bulk.goodput > ...'"
        return f"'{value}' is a metric, and no bound: {compares}" if is_metric else None
    with suppress(QuantityError):
        middle = metric.parse_bound(found, read_scalar(around[1]))
        by = middle * parse_share(around[2]) if "%" in around[2] else metric.parse_bound(found, read_scalar(around[2]))
        low, high = (spell_scalar(metric.render_bound(found.unit, bound)) for bound in (middle - by, middle + by))
        lower = f"min: {low}, " if by < middle or (found.is_free and found.unit == "count") else ""
        return f"'{value}' is a range: write '{lower}max: {high}'"
    return None


def _refuse_contradictions(expectations: Mapping[int, Expectation], document: Document) -> None:
    """Record an expectation that cannot hold together with an earlier one. expectations: by their places."""
    lows = gather((one.metric, (one.minimum, -n)) for n, one in expectations.items() if one.minimum is not None)
    largest = {metric: max(own) for metric, own in lows.items()}
    for n, one in expectations.items():
        low, m = largest.get(one.metric, (-math.inf, 0))
        if one.maximum is not None and low > one.maximum and -m != n:
            message = f"of '{one.metric}' is below the 'min' of expect[{-m}]: both cannot hold, so remove one"
            document.refuse(("expect", n, "max"), message)
    shares: dict[str, dict[str, float]] = {}
    for n, one in expectations.items():
        name, _, path = one.metric.rpartition(".")
        least = one.minimum or one.equals or 0
        if not name.endswith(".share") or not least:
            continue
        own = shares.setdefault(name, {})
        was_above = math.fsum(own.values()) > 1
        own[path] = max(least, own.get(path, 0))
        if not was_above and (total := math.fsum(own.values())) > 1 and len(own) > 1:
            message = f"makes {total:.0%} with the least shares of the other paths, and all paths have 100%: write less"
            document.refuse(("expect", n, "equals" if one.minimum is None else "min"), message)


def _read_across(n: int, text: str, matrix: Mapping[str, Any], owned: OwnedMetrics, document: Document) -> str:
    """Check a statement about cells, and return it. Its problems go to the document."""
    position: ValuePath = ("expect", n, "holds")
    axes = list_axes(matrix)

    def find(reference: Reference) -> Metric:
        cells, *rest = reference.segments
        if cells.name != CELLS or not rest:
            axis = axes[0] if axes else "NAME"
            lacks = "" if axes else f"give parameter {axis} its values by 'matrix: {{{axis}: [...]}}', and "
            bound = write_bound(text)
            if bound and not axes:
                raise UnknownName(f"is no value of a cell: write '{bound}', which holds for each run")
            flow, _, what = reference.name.partition(".")
            is_known = metric.find_metric(metric.metrics_of(flow, owned), what) is not None
            name = reference.name if is_known else f"{next(iter(owned), 'bulk')}.goodput"
            example = f"'{CELLS}[{axis}=...].{name}', or '{bound or 'metric'}' for each run"
            raise UnknownName(f"is no value of a cell: {lacks}write as in {example}")
        for condition in cells.conditions:
            if condition.key not in axes:
                write = f": write 'matrix: {{{condition.key}: [...]}}'"
                raise UnknownName(
                    f"no axis '{condition.key}'{name_nearest(condition.key, axes, 'axes') if axes else write}"
                )
        found = _metric_of(".".join(segment.name for segment in rest), owned)
        refuse_conditions(rest)
        return found

    try:
        statement = parse_statement(text)
        check_statement(statement, find)
        if not statement.references():
            document.refuse(position, f"'{text}' names no metric: write one, as in '{CELLS}.bulk.goodput'")
    except ExpressionError as error:
        document.refuse(position, str(error))
    return text


def _find(position: ValuePath, name: str, owned: OwnedMetrics, document: Document) -> Metric | None:
    """Return a metric. None if it does not exist; the reason is recorded."""
    try:
        return _metric_of(name, owned, str(document.suggest(("link",), "PATH")))
    except UnknownName as error:
        document.refuse(position, str(error))
        return None


def metric_of(name: str, experiment: ExperimentSpec) -> Metric:
    """Return a metric. Raises UnknownName if no flow and no path of an experiment can have it."""
    return _metric_of(name, OwnedMetrics(experiment.traffic))


def refuse_unknown_metrics(names: Iterable[str], experiments: Sequence[ExperimentSpec]) -> None:
    """Raise SpecError for a name that is no metric of any of these experiments."""
    for name in names:
        reasons = []
        for experiment in experiments:
            try:
                metric_of(name, experiment)
                break
            except UnknownName as error:
                reasons.append(str(error))
        else:
            raise SpecError(f"--metric {name}: {reasons[0]}")


def _metric_of(name: str, owned: OwnedMetrics, path: str = "PATH") -> Metric:
    """Return a metric. Raises UnknownName if no flow and no path can have the metric. `cross_check` knows the paths.

    path: the name of one for messages.
    """
    owner, _, what = name.partition(".")
    metrics = metric.metrics_of(owner, owned)
    found = metric.find_metric(metrics, what)
    if found is not None:
        return found[0]
    if of_cells := _OF_CELLS.match(name):
        statement = f"in 'expect' the statement 'holds: \"{name} > ...\"'"
        raise UnknownName(f"names cells: write '{name[of_cells.end() :]}', or {statement}")
    if not what:
        raise UnknownName(f"no metric '{name}': write the flow or path first, as in 'bulk.goodput'")
    if what in metrics:
        raise UnknownName(f"no metric '{name}': name one path, as in '{name}.{path}'")
    if owner in owned or owner == metric.TOTAL:
        offered = owned.offered(owner)
        own_first = sorted(offered, key=lambda one: not offered[one].is_free)
        meant = next((one for one in _MEANT.get(what, ()) if one in offered), find_nearest(what, own_first))
        if meant and offered[meant].by_path:
            meant = f"{owner}.{meant}.{path}"
        # the virtual engine, the default, does not measure CPU time
        listed = [one for one in own_first if one not in metric.OF_FLOWS]
        hint = f": did you mean '{meant}'?" if meant else list_names(listed, "it has")
        raise UnknownName(f"flow '{owner}' has no metric '{what}'{hint}")
    if f"{owner}-1" in owned:
        raise UnknownName(f"flow '{owner}' is repeated: write '{owner}-1.{what}', or give the flow a 'group'")
    near = find_nearest(owner, known := list(owned))
    every = f"{list_names(known, 'flows')}; a path has: {', '.join(metric.OF_PATH)}"
    if shared := [flow for flow in known if "share" in owned.offered(flow)]:
        every += f"; of a flow on a path: '{shared[0]}.share.PATH', '{shared[0]}.carried.PATH'"
    raise UnknownName(f"no flow '{owner}'" + (f": did you mean '{near}'?" if near else every))
