# SPDX-License-Identifier: Apache-2.0
"""The rates that flows offer and the values that are expected, against the links on the way of the flows.

Routes are not known yet. A packet takes one of the ways with the fewest routers, so that a maximum flow over all these
ways bounds what arrives. A flow over one path gets at most what the widest way carries. A link that lies on every way
of a flow carries all of the flow's rate, which is not left for other flows at that time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from mprun.inputs.traffic import expand
from mprun.inputs.ways import Crossing, FlowPaths
from mprun.model import units
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.path import HostPair, NamedPath, search, steps_to, used_paths
from mprun.model.problem import Notes
from mprun.model.span import find_spans
from mprun.model.spec import HEADER_BYTES, Flow, LinkChange, TopologySpec
from mprun.model.units import DAY_NS, NS_PER_S
from mprun.safety.text import name_some
from mprun.workloads.tool import receiver_of, time_limit_of, tool_of

# The option of flows that offer a rate.
RATE = "rate_bit_per_s"
# The headers of IPv4 and UDP, and those of IPv4 and TCP without options. No packet of these transports has less.
_LEAST_HEADERS_BYTES = (20 + 8, 20 + 20)
# The largest number of flows that a message names.
MOST_NAMES = 3
_Capacity = Mapping[Crossing, float]


class _Stream(Frozen):
    """The rate that a flow offers in one direction.

    `number`: of the flow. `entry`: the name of its group, or its own without the number of a repetition.
    `crossings`: the directions of links that it may use. `certain`: the directions that lie on each of its ways.
    `end_ns`: the time until which it surely runs.
    """

    number: int
    entry: str
    name: str
    sender: str
    receiver: str
    rate: int
    crossings: frozenset[Crossing]
    certain: frozenset[Crossing]
    start_ns: int
    end_ns: float


def check_rates(paths: FlowPaths, notes: Notes) -> None:
    """Warn of flows that offer more than the links on their way carry, alone or with other flows at the same time."""
    experiment = paths.experiment
    if not any(RATE in flow.options for flow in experiment.traffic):
        return
    capacity = _find_capacity(paths.topology)
    streams = list(_find_streams(paths))
    told: set[str] = set()
    for one in streams:
        is_single = experiment.traffic[one.number].protocol != "mptcp"
        most = (_find_widest if is_single else _find_most)(one.crossings, one.sender, one.receiver, capacity)
        if one.rate > most and one.entry not in told:
            told.add(one.entry)
            parallel = experiment.traffic[one.number].options.get("parallel", 1)
            each = f"amounts to {_spell(one.rate)} over {parallel} connections and " if parallel != 1 else ""
            message = f"{each}is above {_spell(most)}, what its links carry: the rest will be lost or wait"
            notes.warn(("traffic", one.number, "rate"), message)
    for at_ns in sorted({one.start_ns for one in streams}):
        running = [one for one in streams if one.start_ns <= at_ns < one.end_ns]
        if len(running) > 1:
            _check_together(running, capacity, told, notes)


def check_bounds(paths: FlowPaths, notes: Notes) -> None:
    """Warn of expectations that no run can meet.

    These are payloads of a flow above all that its links can carry, and round-trip times below the delays of a path.
    """
    experiment = paths.experiment
    _check_rtts(paths, notes)
    # a program of the user's may count what it likes
    flows = {flow.name: flow for flow in experiment.traffic if flow.tool != "exec"}
    wanted = [(n, one, flows.get(one.metric.rpartition(".")[0])) for n, one in enumerate(experiment.expectations)]
    if not any(flow for _, _, flow in wanted):
        return
    capacity = _find_capacity(paths.topology)
    for n, one, flow in wanted:
        least, kind = one.minimum or one.equals, one.metric.rpartition(".")[2]
        used = () if flow is None else used_paths(flow.protocol, paths.of(flow))
        backups = _find_unused(paths, flow) if flow is not None and used else ()
        used = [path for path in used if path not in backups]
        is_joined = flow is not None and used and flow.source != flow.destination
        if flow is None or least is None or kind not in ("goodput", "bytes") or not is_joined:
            continue
        ends = (flow.source, flow.destination)
        directions = [one for one in (ends, ends[::-1]) if receiver_of(flow) in (None, one[1])]
        headers = _LEAST_HEADERS_BYTES[flow.protocol in ("tcp", "mptcp")]
        payload = max((link.mtu - headers) / (link.mtu + HEADER_BYTES) for link in paths.topology.links)
        carried = {
            pair: payload * _find_most(paths.ways.of(*pair, flow, used), *pair, capacity) for pair in (ends, ends[::-1])
        }
        most = max(carried[pair] for pair in directions)
        limit_s = time_limit_of(flow, DAY_NS) / NS_PER_S
        until = f" until its time limit, {limit_s:.1f} s" if kind == "bytes" else ""
        if least > most * (limit_s / 8 if until else 1):
            key = "equals" if one.minimum is None else "min"
            message = f"cannot hold: the links of '{flow.name}' carry at most {most / 1e6:.4g}mbit of payload{until}"
            if backups:
                unused = " and ".join(f"'{path.name}'" for path in backups)
                message += f" without {unused}, used only if the other paths fail"
            if len(directions) == 1 and (other := max(carried.values())) >= least and not until:
                turn = "remove 'reverse'" if flow.options.get("reverse") else "write 'reverse: true'"
                turn = turn if "reverse" in tool_of(flow).Entry.model_fields else "swap 'from' and 'to'"
                carries = "any rate" if other == math.inf else f"{other / 1e6:.4g}mbit"
                message += (
                    f"; the other direction carries {carries}: {turn} in the flow, or swap the rates of the links"
                )
            notes.warn(("expect", n, key), message)


def _find_unused(paths: FlowPaths, flow: Flow) -> Sequence[NamedPath]:
    """Return the backups of a flow of MPTCP that send nothing, as nothing in the files can take another path down."""
    first, *others = paths.of(flow)
    hosts = filter(None, map(paths.experiment.hosts.get, (flow.source, flow.destination)))
    is_default = all(host.mptcp.scheduler == "default" and "mptcp" not in str(host.sysctl) for host in hosts)
    is_lossy = any(way.loss for link in paths.topology.links for way in (link.forward, link.reverse))
    if flow.protocol != "mptcp" or not is_default or is_lossy or paths.topology.changes or paths.experiment.faults:
        return ()
    marked = {link.name for link in paths.topology.links if link.backup}
    return () if first.first_link in marked else [path for path in others if path.first_link in marked]


def _check_rtts(paths: FlowPaths, notes: Notes) -> None:
    """Warn of round-trip times of paths that are below the delays of their links, where these are constant."""
    known = {path.name: (pair, path) for pair, found in paths.named.items() for path in found}
    changing = {change.link for change in paths.topology.changes if isinstance(change, LinkChange)}
    for n, one in enumerate(paths.experiment.expectations):
        name, _, kind = one.metric.partition(".")
        most = one.equals if one.maximum is None else one.maximum
        if name not in known or kind != "rtt" or most is None:
            continue
        (source, destination), path = known[name]
        crossings = paths.ways.between((source, path.first_link), (destination, path.last_link), path.family)
        crossed = {crossing[0] for crossing in crossings}
        ways = [way for link in paths.topology.links if link.name in crossed for way in (link.forward, link.reverse)]
        # of several ways, any may be taken
        is_single = len(_find_way(crossings, source, destination) or ()) == len(crossings)
        is_constant = not (changing & crossed or any(way.jitter or way.reorder for way in ways))
        if is_single and is_constant and most < (least := sum(way.delay_ns for way in ways) / NS_PER_S):
            message = f"cannot hold: the delays of '{name}' there and back add up to {least * 1000:.6g}ms"
            notes.warn(("expect", n, "equals" if one.maximum is None else "max"), message)


def _check_together(running: Sequence[_Stream], capacity: _Capacity, told: set[str], notes: Notes) -> None:
    """Warn of streams that offer too much together. told: the entries with a warning, to which this adds."""
    taken = Counter[Crossing]()
    for one in running:
        taken.update(dict.fromkeys(one.certain, one.rate))
    alike = gather(((one.sender, one.receiver, one.crossings), one) for one in running)
    for (sender, receiver, crossings), streams in alike.items():
        if told.issuperset(one.entry for one in streams):
            continue
        offered = sum(one.rate for one in streams)
        own = dict.fromkeys(streams[0].certain, offered)
        others = {crossing: taken[crossing] - own.get(crossing, 0) for crossing in crossings}
        left = {crossing: max(0, capacity[crossing] - others[crossing]) for crossing in crossings}
        most = _find_most(crossings, sender, receiver, left)
        if offered <= most:
            continue
        members = {*map(id, streams)}
        meeting = [one for one in running if id(one) in members or one.certain & crossings]
        names = [f"'{one.name}'" for one in meeting]
        for n, one in enumerate(meeting):
            if id(one) not in members or one.entry in told:
                continue
            told.add(one.entry)
            beside = name_some([*names[:n], *names[n + 1 :]], MOST_NAMES)
            notes.warn(
                ("traffic", one.number, "rate"),
                f"is above {_spell(max(0, most - offered + one.rate))}, what its links carry beside "
                f"{beside} at the same time: the rest will be lost or wait",
            )


def _find_streams(known_paths: FlowPaths) -> Iterator[_Stream]:
    """Yield the directions in which flows offer a rate, where their hosts are joined."""
    entries = known_paths.experiment.traffic
    flows = expand(entries)
    spans = find_spans(flows)
    numbers = (n for n, flow in enumerate(entries) for _ in flow.names)
    known: dict[tuple[str, str, tuple[NamedPath, ...]], tuple[frozenset[Crossing], frozenset[Crossing]]] = {}
    for n, flow in zip(numbers, flows, strict=True):
        offered = flow.options.get(RATE)
        paths = known_paths.of(flow)
        start_ns = spans[flow.name].start_ns
        # a flow to its own host has a problem already
        if not isinstance(offered, int) or not paths or flow.source == flow.destination:
            continue
        rate = offered * int(str(flow.options.get("parallel", 1)))
        used = tuple(used_paths(flow.protocol, paths))
        for sender, receiver in _directions(flow):
            key = (sender, receiver, used)
            if key not in known:
                crossings = known_paths.ways.of(sender, receiver, flow, used)
                known[key] = crossings, frozenset(_find_certain(crossings, sender, receiver))
            if known[key][0]:
                entry = flow.group or entries[n].name
                # a flow whose start is not known shares its links with no other for certain
                begin_ns = -1 if start_ns is None else start_ns
                end_ns = -1 if start_ns is None else start_ns + _least_ns(flow, rate)
                yield _Stream(n, entry, flow.name, sender, receiver, rate, *known[key], begin_ns, end_ns)


def _directions(flow: Flow) -> Iterator[HostPair]:
    """Yield sender and receiver of each direction in which a flow sends."""
    if not flow.options.get("reverse"):
        yield flow.source, flow.destination
    if flow.options.get("reverse") or flow.options.get("bidirectional"):
        yield flow.destination, flow.source


def _least_ns(flow: Flow, rate: int) -> float:
    size_bytes = flow.options.get("size_bytes")
    if flow.duration_ns is not None:
        return flow.duration_ns
    return size_bytes * 8 * NS_PER_S / rate if isinstance(size_bytes, int) else 0


def _find_capacity(topology: TopologySpec) -> _Capacity:
    """Return the largest rate that each direction of a link ever has."""
    states = [(link.name, link.forward, link.reverse) for link in topology.links]
    states += [(one.link, one.forward, one.reverse) for one in topology.changes if isinstance(one, LinkChange)]
    ends = {link.name: link.ends for link in topology.links}
    found: dict[Crossing, float] = {}
    for name, *ways in states:
        for way, (a, b) in zip(ways, (ends[name], ends[name][::-1]), strict=True):
            found[name, a, b] = max(found.get((name, a, b), 0), way.rate_bit_per_s or math.inf)
    return found


def _find_certain(crossings: Collection[Crossing], sender: str, receiver: str) -> Iterator[Crossing]:
    """Yield the crossings that lie on every way from the sender to the receiver."""
    for crossing in _find_way(crossings, sender, receiver) or ():
        if _find_way({*crossings} - {crossing}, sender, receiver) is None:
            yield crossing


def _find_way(crossings: Iterable[Crossing], sender: str, receiver: str) -> list[Crossing] | None:
    """Return a shortest way over some crossings; None if no such way exists."""
    beside = gather((crossing[1], crossing) for crossing in crossings)
    reached = search([sender], lambda node: ((crossing[2], crossing) for crossing in beside.get(node, ())))
    return steps_to(receiver, reached) if receiver in reached else None


def _find_most(crossings: Collection[Crossing], sender: str, receiver: str, capacity: _Capacity) -> float:
    """Return the maximum flow in bit/s over all ways (Edmonds and Karp 1972)."""
    left = {crossing: capacity[crossing] for crossing in sorted(crossings)}
    total = 0.0
    while way := _find_way([crossing for crossing, amount in left.items() if amount > 0], sender, receiver):
        amount = min(left[crossing] for crossing in way)
        if amount == math.inf:
            return math.inf
        total += amount
        for name, a, b in way:
            left[name, a, b] -= amount
            left[name, b, a] = left.get((name, b, a), 0) + amount
    return total


def _find_widest(crossings: Collection[Crossing], sender: str, receiver: str, capacity: _Capacity) -> float:
    """Return the largest rate in bit/s that a single way carries."""
    rates = sorted({capacity[crossing] for crossing in crossings}, reverse=True)
    return next(
        rate for rate in rates if _find_way([one for one in crossings if capacity[one] >= rate], sender, receiver)
    )


def _spell(rate: float) -> str:
    return units.RATE.render(round(rate))
