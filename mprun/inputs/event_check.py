# SPDX-License-Identifier: Apache-2.0
"""Check events, schedules and traces against the end of the run. Warn of those that have no effect, or another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from mprun.inputs.cross_check import has_chosen, list_mappings
from mprun.inputs.document import Document
from mprun.inputs.event_changes import hold, write_size
from mprun.inputs.event_entry import ReadEvent
from mprun.inputs.keys.event import EventEntry
from mprun.inputs.traffic import expand
from mprun.inputs.ways import FlowPaths
from mprun.model.grouping import gather
from mprun.model.problem import InputProblem
from mprun.model.span import find_end, find_spans
from mprun.model.spec import (
    Change,
    Flow,
    LinkChange,
)
from mprun.model.units import LEAST_LINK_RATE, NS_PER_S, RATE, TIME
from mprun.workloads.tool import time_limit_of


def check_times(
    events: Sequence[ReadEvent], traffic: Sequence[Flow], changes: Sequence[Change], document: Document
) -> None:
    """Record problems of events that begin after the end of the run, and warn of events that end later.

    Most events are checked only if the end of the run is known. A trace may be longer than the run, and so may a
    repetition. A resolved topology has such changes one by one, so it is not checked.
    """
    if document.tree.is_resolved:
        return
    end_ns = find_end(traffic)
    if end_ns is None:
        _warn_of_unreached(events, traffic, document)
        return
    when = f"the end of the experiment, {TIME.render(end_ns)}"
    for n, event in enumerate(events):
        entry = event.entry
        if entry.at >= end_ns:
            document.refuse(("events", n, "at"), f"is not before {when}: write an earlier time, or a longer flow")
        elif entry.over is not None and entry.at + entry.over > end_ns:
            reached = TIME.render(entry.at + entry.over)
            document.warn(("events", n, "over"), f"its values are reached only at {reached}, after {when}")
        elif event.rows and entry.trace is None:
            _check_rows(event, end_ns - entry.at, when, document)
        elif entry.trace is not None and entry.format == "mahimahi":
            way = "reverse" if entry.direction == "reverse" else "forward"
            played = [one for one in changes if isinstance(one, LinkChange) and one.link == entry.link]
            rates = [getattr(one, way).rate_bit_per_s for one in played if entry.at <= one.at_ns < end_ns]
            if {*rates} == {LEAST_LINK_RATE}:
                document.refuse(("events", n, "trace"), f"lets no packet pass before {when}: its times are in ms")


def _warn_of_unreached(events: Sequence[ReadEvent], traffic: Sequence[Flow], document: Document) -> None:
    """Warn of events after the time limits of all flows. A parameter may give an earlier time in other runs."""
    # a flow whose tool has no limit has no latest end
    limited = (replace(one, duration_ns=one.duration_ns or time_limit_of(one, 0) or None) for one in expand(traffic))
    end_ns = find_end(limited)
    for n, event in enumerate(events):
        position = ("events", n, "at")
        if end_ns is not None and event.entry.at >= end_ns and not document.is_filled(position):
            message = "when the time limits of all flows have passed: it has no effect"
            document.warn(position, f"is not before {end_ns / NS_PER_S:.3f} s, {message}")


def _check_rows(event: ReadEvent, left_ns: int, when: str, document: Document) -> None:
    """Check the rows of a schedule as `check_times` does. left_ns: the time from its beginning to the end."""
    late = next((n for n, row in enumerate(event.rows) if row.at_ns >= left_ns), None)
    if late is None:
        return
    effect = "this row and all later rows have no effect" if late else "the schedule would have no effect"
    problem = InputProblem(event.file, event.rows[late].line, (), f"is not before {when}: {effect}")
    (document.warnings if late else document.problems)[problem] = None


def check_pauses(paths: FlowPaths, events: Sequence[ReadEvent], document: Document) -> None:
    """Warn of an event after which the link has its former values again before a flow runs, if all spans are known.

    Schedules and traces may begin before the flows, and steps and repetitions may reach into a pause.
    """
    flows = paths.experiment.traffic
    if document.tree.is_resolved or find_end(flows) is None:
        return
    spans = [(one.start_ns or 0, one.end_ns or 0) for one in find_spans(flows).values()]
    made = (one for one in paths.topology.changes if isinstance(one, LinkChange))
    later = gather((one.link, (one.at_ns, (one.forward, one.reverse, one.is_up))) for one in made)
    states = {
        link.name: [(-1, (link.forward, link.reverse, True)), *later.get(link.name, ())]
        for link in paths.topology.links
    }
    for n, entry in enumerate(event.entry for event in events):
        if entry.schedule or entry.trace or entry.over or entry.every or entry.rebind or entry.link not in states:
            continue
        next_ns = min((start for start, end in spans if end > entry.at), default=0)
        # in most experiments a flow runs
        if next_ns <= entry.at:
            continue
        own = states[entry.link]
        before = [state for at_ns, state in own if at_ns < entry.at][-1]
        until_ns = next((at_ns for at_ns, state in own if entry.at < at_ns <= next_ns and state == before), None)
        if until_ns is None:
            continue
        pause = f"no flow runs from {TIME.render(entry.at)} to {TIME.render(until_ns)}, when the link is as before"
        document.warn(("events", n, "at"), f"{pause}: it has no effect; write a time at which a flow runs")


def check_places(known_paths: FlowPaths, events: Sequence[ReadEvent], experiment: Document, document: Document) -> None:
    """Warn of events at links that no flow can cross. A parameter or the seed may choose other hosts in other runs.

    Flows over another protocol could cross any link between their hosts: an experiment with TCP may be for comparison.
    """
    flows = known_paths.experiment.traffic
    is_chosen = has_chosen(experiment, "from", "to") or any(
        "pairs" in entry for _, entry in list_mappings(experiment.part("traffic"))
    )
    if not (events and flows) or document.tree.is_resolved or is_chosen or any(flow.tool == "exec" for flow in flows):
        return
    known = {link.name for link in known_paths.topology.links} - known_paths.find_joining_links()
    for n, entry in enumerate(event.entry for event in events):
        key, link = ("address", entry.address) if entry.link is None else ("link", entry.link)
        if link in known and not document.is_filled(("events", n, key)):
            message = f"has no effect: '{link}' is on no path between the hosts of a flow: name another link"
            document.warn(("events", n, key), f"{message}, or remove the event")


def _may_set_rate(entry: EventEntry, link: str | None) -> bool:
    return entry.link == link and bool(entry.trace or entry.schedule or (entry.set and entry.set.rate))


def check_traces(known_paths: FlowPaths, events: Sequence[ReadEvent], document: Document) -> None:
    """Warn of traces that end before a flow over their link does, if nothing says what follows.

    Nothing is known of flows that end by themselves.
    """
    lengths = [(n, one.entry, one.period_ns) for n, one in enumerate(events) if one.entry.until is None]
    if not any(period_ns for _, _, period_ns in lengths):
        return
    spans = find_spans(known_paths.experiment.traffic)
    for n, entry, period_ns in lengths:
        following = [one.entry for one in events if one.entry.at > entry.at]
        if not period_ns or any(_may_set_rate(one, entry.link) for one in following):
            continue
        end_ns = entry.at + period_ns
        ends = [
            (spans[flow.name].end_ns or 0, flow.name) for flow, links in known_paths.used_links if entry.link in links
        ]
        last_ns, name = max(ends, key=itemgetter(0), default=(0, ""))
        if last_ns > end_ns:
            end, last = TIME.render(end_ns), TIME.render(last_ns)
            stays = "its last values stay" if entry.is_scheduled_trace else "its last rate stays"
            message = f"ends at {end}, and flow '{name}' at {last}: {stays}; write 'until: {last}' to repeat the trace"
            document.warn(("events", n, "trace"), f"{message}, or 'until: {end}' if that is meant")


def check_events(events: Sequence[ReadEvent], document: Document) -> None:
    """Warn of keys of events that have no effect."""
    for n, entry in enumerate(event.entry for event in events):
        if "step" in entry.model_fields_set and entry.over is None:
            document.warn(("events", n, "step"), "has no effect without 'over': write 'over' too, or remove it")
        if entry.every is not None and entry.until is not None and entry.at + entry.every >= entry.until:
            document.warn(
                ("events", n, "every"), "repeats nothing before 'until': write a later 'until', or remove both"
            )


def check_queues(paths: FlowPaths, events: Sequence[ReadEvent], document: Document) -> None:
    """Warn once of each link whose queue is a time that does not follow a rate of events, traces or schedules."""
    end_ns = find_end(paths.experiment.traffic) or math.inf
    made = [one for one in paths.topology.changes if isinstance(one, LinkChange) and one.at_ns < end_ns]
    for link in () if document.tree.is_resolved else paths.topology.links:
        later = [(one.forward, one.reverse) for one in made if one.link == link.name]
        for before, after in zip((link.forward, link.reverse), zip(*later, strict=True), strict=False):
            queue, old = before.queue, before.rate_bit_per_s or 0
            # at the least rate, which stands for 0 in a trace, no packet passes
            rates = {one.rate_bit_per_s or 0 for one in after if one.queue == queue} - {0, LEAST_LINK_RATE, old}
            if not rates or queue is None or queue.unit != "time":
                continue
            n, entry = next((n, one.entry) for n, one in enumerate(events) if _may_set_rate(one.entry, link.name))
            held, size = hold(link, queue, old), write_size(link, queue, min(rates) if entry.set else old, queue)
            times = (f"{held * 8e3 / rate:.4g}ms at {RATE.render(rate)}" for rate in (max(rates), min(rates)))
            advice = f"its size at the new rate too, as in '{size}'" if entry.set else f"'{size}' if that is meant"
            message = f"leaves the queue of '{link.name}' at {held} bytes, {TIME.render(round(queue.amount))} at "
            message += f"{RATE.render(old)} and {' to '.join(dict.fromkeys(times))}: write {advice}"
            document.warn(("events", n), message)
            break
