# SPDX-License-Identifier: Apache-2.0
"""The one-way delay of each packet from one capture to another (RFC 7679). Pure.

All captures of a run share one clock. A packet is found in the other capture by its identity, addresses and ports.
Behind a NAT, its addresses and ports differ. Behind a middlebox that changes its bytes, only the IPv4 identification
field is left. If several sent packets fit an arrival equally well, their delays stay unknown.

Each `CapturePair` is two captures and the direction between them. By default, a run has pairs between the captures of
the two hosts of each flow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

from mprun.captures.identity import IDENTITY_COLUMNS
from mprun.captures.packet import PACKET_COLUMNS
from mprun.errors import SpecError
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.intent import Intent
from mprun.model.problem import name_nearest
from mprun.model.run_summary import CaptureFacts
from mprun.model.spec import Capture
from mprun.workloads.tool import percentile

if TYPE_CHECKING:
    import polars


class CapturePair(Frozen):
    """Two captures, and what is known of the way between them.

    - sender, receiver: the names of the captures.
    - addresses: the addresses of the receiver's node, if its capture has all interfaces of a host; else empty.
    - is_complete: the receiver's capture has each packet that arrived and that the sender's capture could have.
    - is_altered: a middlebox changes more than addresses and ports.
    """

    sender: str
    receiver: str
    addresses: frozenset[str] = frozenset()
    is_complete: bool = True
    is_altered: bool = False


def choose_pairs(
    intent: Intent, facts: Mapping[str, CaptureFacts], wanted: Iterable[tuple[str, str]]
) -> Iterator[CapturePair]:
    """Yield the wanted pairs, or by default both directions between captures of the two hosts of each flow.

    facts: `captures` of the run's summary. Raises SpecError for a capture that the run does not have.
    """
    captures = {capture.name: capture for capture in intent.captures}
    for sender, receiver in list(wanted) or _usual(intent):
        for name in (sender, receiver):
            if name not in captures:
                raise SpecError(f"no capture '{name}'{name_nearest(name, list(captures), 'captures')}")
        if captures[sender].node == captures[receiver].node:
            raise SpecError(f"'{sender}' and '{receiver}' are captures of the same node: name captures of two nodes")
        yield _make(intent, facts, captures[sender], captures[receiver])


def _usual(intent: Intent) -> Iterator[tuple[str, str]]:
    """Yield the pairs of captures of hosts that have a flow with each other."""
    ends = {frozenset((flow.source, flow.destination)) for flow in intent.traffic}
    hosts = {node.name for node in intent.nodes if node.kind == "host"}
    by_node = gather((capture.node, capture) for capture in intent.captures if capture.node in hosts)
    for node, captures in by_node.items():
        # a capture of all interfaces has the packets of the others too
        by_node[node] = [capture for capture in captures if capture.link is None] or captures
    for one, other in permutations(by_node, 2):
        if frozenset((one, other)) in ends:
            yield from ((mine.name, its.name) for mine in by_node[one] for its in by_node[other])


def _make(intent: Intent, facts: Mapping[str, CaptureFacts], sender: Capture, receiver: Capture) -> CapturePair:
    node = next(node for node in intent.nodes if node.name == receiver.node)
    is_all = node.kind == "host" and receiver.link is None
    addresses = (str(address.ip) for interface in node.interfaces for address in interface.addresses)
    known = facts.get(receiver.name)
    has_all = known is not None and known.lost == 0 and known.passed == known.packets
    boxes = intent.middleboxes.values()
    return CapturePair(
        sender.name,
        receiver.name,
        frozenset(addresses if is_all else ()),
        is_complete=has_all and receiver.filter in ("", sender.filter),
        is_altered=any(box.strip or box.alter or box.rewrite_sequence or box.proxy for box in boxes),
    )


# received: the first arrival. duplicate: a further arrival. lost: no arrival, though the capture would have it.
# unknown: it may have arrived or not, or it cannot be distinguished from other packets.
RECEIVED, DUPLICATE, LOST, UNKNOWN = STATES = ("received", "duplicate", "lost", "unknown")
# (number, ns) of packets in the order of time; and (number sent, number received, state) of each match.
Times = Sequence[tuple[int, int]]
Matches = Iterable[tuple[int, int | None, str]]

_FLOW = ("protocol", "source", "source_port", "destination", "destination_port")
# The columns of the table, and the columns of `packets` that they need.
_OF_PACKET = (
    *("link", "interface", *_FLOW, "connection", "subflow", "way"),
    *("flags", "seq", "length_bytes", "payload_bytes", "ip_id", "identity"),
)
_READ = ("number", "time_ns", "direction", "fragment", *_OF_PACKET)
DELAY_COLUMNS: dict[str, type] = {
    **{"from": str, "to": str, "sent_ns": int, "received_ns": int, "delay_ns": int},
    **{"state": str, "flow": str, "path": str},
    **{name: {**PACKET_COLUMNS, **IDENTITY_COLUMNS}[name] for name in _OF_PACKET},
    **{"sent_number": int, "received_number": int},
}


def find_delays(
    packets: polars.LazyFrame,
    pair: CapturePair,
    paths: Mapping[tuple[str, str], str],
    flows: Mapping[tuple[str, int], str],
) -> tuple[polars.DataFrame, list[str]]:
    """Return a row for each packet that left the sender's node and passes the receiver's, and warnings.

    The rows are in the order of sending.
    packets: the table of that name.
    paths: the name of a path by source and destination address.
    flows: the name of a flow by address and port of its server.
    """
    import polars as pl

    def read(capture: str, direction: str) -> polars.DataFrame:
        mine = packets.filter(pl.col("capture") == capture, pl.col("direction") == direction)
        return mine.filter(pl.col("identity").is_not_null()).select(_READ).collect()

    sent, received = read(pair.sender, "out"), read(pair.receiver, "in")
    found = match(sent, received)
    states, warnings = _judge(sent, received, found, pair)
    rows = pl.concat([found, states.filter(pl.col("state").is_not_null())], how="diagonal")
    # beyond a NAT, a packet has the addresses of its path on one side only
    path = pl.coalesce(_name(("source", "destination"), paths), _name(("source_right", "destination_right"), paths))
    arrivals = received.select(
        pl.col("number").alias("received_number"),
        pl.col("time_ns").alias("received_ns"),
        pl.col("source").alias("source_right"),
        pl.col("destination").alias("destination_right"),
    )
    table = (
        sent.rename({"number": "sent_number", "time_ns": "sent_ns"})
        .join(rows, on="sent_number")
        .join(arrivals, on="received_number", how="left")
        .with_columns(
            pl.lit(pair.sender).alias("from"),
            pl.lit(pair.receiver).alias("to"),
            delay_ns=pl.col("received_ns") - pl.col("sent_ns"),
            flow=pl.coalesce(
                _name(("destination", "destination_port"), flows), _name(("source", "source_port"), flows)
            ),
            path=path,
        )
        # a lost packet is known by the others of its flow
        .with_columns(path=pl.coalesce("path", pl.col("path").drop_nulls().first().over(_FLOW)))
        .sort("sent_number", "received_number", nulls_last=True)
        .select(pl.col(name).cast(kind) for name, kind in DELAY_COLUMNS.items())
    )
    return table, warnings


def _name(columns: Sequence[str], names: Mapping[tuple[Any, Any], str]) -> polars.Expr:
    """Return the name of the values of two columns, null for other values."""
    import polars as pl

    known = {f"{one} {other}": name for (one, other), name in names.items()}
    return pl.concat_str(columns, separator=" ").replace_strict(known, default=None, return_dtype=pl.String)


def match(sent: polars.DataFrame, received: polars.DataFrame) -> polars.DataFrame:
    """Return the sent packets that arrived or may have arrived: `sent_number`, `received_number` and `state`.

    sent, received: rows of the table `packets` in the order of time. Other sent packets are missing in the result.
    """
    import polars as pl

    kinds = {"sent_number": pl.Int64, "received_number": pl.Int64, "state": pl.String}
    parts = [pl.DataFrame(schema=kinds)]
    for keys, choose in (
        ((*_FLOW, "identity"), match_equal),
        # behind a NAT, one end has another address and port
        (("protocol", "destination", "destination_port", "identity"), match_equal),
        (("protocol", "source", "source_port", "identity"), match_equal),
        # a middlebox has changed the bytes
        ((*_FLOW, "ip_id"), match_newest),
    ):
        one, other = sent, received
        if "ip_id" in keys:
            is_marked = (pl.col("protocol") == "tcp") & (pl.col("ip_id") > 0) & ~pl.col("fragment")
            one, other = sent.filter(is_marked), received.filter(is_marked)
        found = pl.DataFrame(_match_by(keys, one, other, choose), schema=kinds, orient="row")
        parts.append(found)
        sent = sent.join(found, left_on="number", right_on="sent_number", how="anti")
        received = received.join(found, left_on="number", right_on="received_number", how="anti")
    return pl.concat(parts)


def _match_by(
    keys: Sequence[str], sent: polars.DataFrame, received: polars.DataFrame, choose: Callable[[Times, Times], Matches]
) -> Matches:
    """Yield the matches of packets with equal keys. choose: matches several departures with their arrivals.

    If they are of several flows behind a NAT, their states are unknown.
    """
    import polars as pl

    columns = (pl.col("number"), pl.col("time_ns"), pl.struct(_FLOW).n_unique().alias("flows"))
    groups = sent.group_by(keys, maintain_order=True).agg(columns)
    arrivals = received.group_by(keys, maintain_order=True).agg(columns)
    both = groups.join(arrivals, on=keys, nulls_equal=True, maintain_order="left")
    lists = ("number", "time_ns", "number_right", "time_ns_right")
    for *row, flows, others in both.select(*lists, "flows", "flows_right").iter_rows():
        departed, arrived = (list(zip(*row[at : at + 2], strict=True)) for at in (0, 2))
        if len(departed) > 1:
            is_one_flow = flows == others == 1
            yield from choose(departed, arrived) if is_one_flow else ((one, None, UNKNOWN) for one, _ in departed)
            continue
        number, at_ns = departed[0]
        later = [arrival for arrival, when_ns in arrived if when_ns >= at_ns]
        yield from ((number, arrival, DUPLICATE if n else RECEIVED) for n, arrival in enumerate(later))


def match_newest(departures: Times, arrivals: Times) -> Matches:
    """Yield the matches of packets with an equal identification field: an arrival is of the newest departure.

    A sender counts the field up and uses a value again only after 65535 other packets (RFC 6864 4.1).
    """
    moments = [at_ns for _, at_ns in departures]
    taken = set()
    for arrival, at_ns in arrivals:
        newest = bisect_right(moments, at_ns) - 1
        if newest >= 0:
            number = departures[newest][0]
            yield number, arrival, DUPLICATE if number in taken else RECEIVED
            taken.add(number)


def match_equal(departures: Times, arrivals: Times) -> Matches:
    """Yield the matches of several packets that are equal in all bytes.

    With as many arrivals as departures, they match in order.
    Otherwise an arrival matches if only one packet was under way; if several were, the states of all are unknown.
    """
    pairs = list(zip(departures, arrivals, strict=False))
    if len(departures) == len(arrivals) and all(arrival[1] >= departure[1] for departure, arrival in pairs):
        yield from ((departure[0], arrival[0], RECEIVED) for departure, arrival in pairs)
        return
    events = sorted(
        [(at_ns, 0, number) for number, at_ns in departures] + [(at_ns, 1, number) for number, at_ns in arrivals]
    )
    under_way: list[int] = []
    for _, is_arrival, number in events:
        if not is_arrival:
            under_way.append(number)
        elif len(under_way) == 1:
            yield under_way.pop(), number, RECEIVED
        else:
            yield from ((one, None, UNKNOWN) for one in under_way)
            under_way.clear()


def _judge(
    sent: polars.DataFrame, received: polars.DataFrame, found: polars.DataFrame, pair: CapturePair
) -> tuple[polars.DataFrame, list[str]]:
    """Return the state of each packet without a match, and warnings.

    The state is null if the packet is not on its way to the receiver.
    """
    import polars as pl

    numbers = found.select(number="sent_number")
    matched, rest = sent.join(numbers, on="number", how="semi"), sent.join(numbers, on="number", how="anti")
    flows = matched.select(_FLOW).unique().with_columns(is_matched=True)
    parts = ("source", "destination", "ip_id")
    fragments = received.filter("fragment").select(parts).unique().with_columns(is_split=True)
    delays = (
        found.filter(pl.col("state") == RECEIVED)
        .join(sent.select("number", "time_ns"), left_on="sent_number", right_on="number")
        .join(received.select("number", "time_ns"), left_on="received_number", right_on="number")
        .select((pl.col("time_ns_right") - pl.col("time_ns")).max())
    )
    # a packet that left near the end of the captures may have been under way
    end_ns = pl.concat([sent["time_ns"], received["time_ns"]]).max()
    longest_ns = (delays.item() if delays.height else None) or 0
    is_matched, is_split = (pl.col(name).fill_null(False) for name in ("is_matched", "is_split"))
    is_expected = is_matched | (pl.lit(not pair.is_altered) & pl.col("destination").is_in(sorted(pair.addresses)))
    is_split &= ~pl.col("fragment")
    is_sure = (
        pl.lit(pair.is_complete)
        & ~is_split
        & (pl.col("time_ns") + longest_ns <= pl.lit(end_ns, pl.Int64))
        # without the field, a packet that a middlebox changed is not found
        & (pl.lit(not pair.is_altered) | (pl.col("ip_id").fill_null(0) > 0))
    )
    states = (
        rest.join(flows, on=_FLOW, how="left", nulls_equal=True)
        .join(fragments, on=parts, how="left")
        .select(
            pl.col("number").alias("sent_number"),
            "destination",
            state=pl.when(is_expected & is_sure).then(pl.lit(LOST)).when(is_expected).then(pl.lit(UNKNOWN)),
            is_split=is_expected & is_split,
        )
    )
    warnings = []
    if sent.height and received.height and not matched.height:
        warnings.append("no packet of the first capture is in the second")
    if pair.is_altered:
        is_changed = pl.col("state").is_null() & pl.col("destination").is_in(sorted(pair.addresses))
        if changed := states.filter(is_changed).height:
            warnings.append(f"{changed} packets are left out, because a middlebox changes their connections")
    if split := int(states["is_split"].sum()):
        warnings.append(f"{split} packets were fragmented on the way, so that their delays are not known")
    told = [f"{pair.sender} to {pair.receiver}: {text}" for text in warnings]
    return states.select("sent_number", "state"), told


def summarize(table: polars.DataFrame) -> list[dict[str, Any]]:
    """Return the number of packets of each state, and statistics of the delays of those received, by pair and path.

    The keys are those of `mprun packets --json`. Delays are in ns; None without packets that arrived.
    """
    rows = []
    for (sender, receiver, path), part in table.group_by("from", "to", "path", maintain_order=True):
        delays = sorted(part.filter(state=RECEIVED)["delay_ns"].to_list())
        row: dict[str, Any] = {"from": sender, "to": receiver, "path": path}
        row |= {"packets": part.select("sent_number").n_unique()}
        row |= {state: part.filter(state=state).height for state in STATES}
        values = {
            "min": delays[0] if delays else None,
            "mean": sum(delays) / len(delays) if delays else None,
            "median": percentile(delays, 0.5) if delays else None,
            "p95": percentile(delays, 0.95) if delays else None,
            "max": delays[-1] if delays else None,
        }
        rows.append(row | {f"{name}_delay_ns": value for name, value in values.items()})
    order = {name: n for n, name in enumerate(dict.fromkeys((row["from"], row["to"]) for row in rows))}
    return sorted(rows, key=lambda row: (order[row["from"], row["to"]], row["path"] is None, row["path"] or ""))
