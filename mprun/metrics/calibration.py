# SPDX-License-Identifier: Apache-2.0
"""Compare measured links with the requested links. Pure.

Tolerances: rate 1 %; delay 0.01 ms where time is simulated, else 0.1 ms or 1 %; with jitter, also four standard errors
of the mean; jitter 10 % of its standard deviation; loss its binomial interval of 99.99 %; queue one packet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from mprun.metrics.readings import Readings
from mprun.model.agent_report import Arrivals
from mprun.model.correlation import burstiness, inflation
from mprun.model.distribution import SHAPES
from mprun.model.frozen import Frozen
from mprun.model.network import Network
from mprun.model.plan import Train
from mprun.model.spec import Direction

# The factor and the unit in which a person reads a value in base units.
_SPOKEN = {"bit/s": (1e-6, "Mbit/s"), "s": (1e3, "ms"), "share": (100, "%")}
LEVEL = 0.9999
RATE_TOLERANCE = 0.01
# A train that offers less than this many times the rate does not show a link that is too fast.
LEAST_OFFERED = 1.1
JITTER_TOLERANCE = 0.1
MOST_REORDERED = 0.4
# Four standard errors of a correlation of 2000 values.
CORRELATION = 0.09
SIMULATED_DELAY_NS = 10_000
REAL_DELAY_NS, REAL_DELAY_SHARE = 100_000, 0.01


class CalibratedQuantity(Frozen):
    """A quantity of one direction, in base units: bit/s, s, share, packets. Its bounds are inclusive.

    `got` None: nothing was measured, and `note` gives the reason. `held` None: the quantity cannot be judged.
    `basis`: the derivation of `asked`, if the file has another value.
    """

    link: str
    direction: str
    quantity: str
    unit: str
    asked: float
    got: float | None
    minimum: float
    maximum: float
    held: bool | None
    note: str = ""
    basis: str = ""


class Calibration(Frozen):
    """The rows of all directions of all links."""

    rows: tuple[CalibratedQuantity, ...]

    @property
    def passed(self) -> bool:
        """No quantity is out of its bounds."""
        return all(row.held is not False for row in self.rows)

    def to_json(self) -> dict[str, object]:
        """Return the content of `calibration.json`."""
        return {"passed": self.passed, "rows": [asdict(row) for row in self.rows]}


def judge(network: Network, trains: Sequence[Train], measured: Sequence[Arrivals], is_simulated: bool) -> Calibration:
    """Return a row for each quantity that a train measures. trains, measured: in the same order."""
    ways: dict[tuple[str, str], Direction] = {
        (link.name, one.direction): one.way for link in network.links for one in link.ways
    }
    rows: list[CalibratedQuantity] = []
    for train, found in zip(trains, measured, strict=True):
        way = ways[train.link, train.direction]
        rows += _MeasuredWay(train.link, way, train, found, is_simulated).rows()
    return Calibration(tuple(rows))


def tell(rows: Sequence[CalibratedQuantity]) -> Readings:
    """Report each quantity that is out of its bounds as a failure, and each that could not be measured as a warning."""
    where = [(f"calibration of {row.link} {row.direction}", row) for row in rows]
    failures = tuple(f"{subject}: {say_row(row)}" for subject, row in where if row.held is False)
    doubted = [(subject, row) for subject, row in where if row.held is None or (row.held and row.note)]
    warnings = tuple(f"{subject}, {row.quantity}: {row.note}" for subject, row in doubted)
    return Readings(failures=failures, warnings=warnings)


def say_row(row: CalibratedQuantity) -> str:
    """Return a row as text, such as `rate: asked 20 Mbit/s, got 19.1 (19.8 to 20.2 is allowed)`."""
    factor, unit = _SPOKEN.get(row.unit, (1, row.unit))
    basis = f" ({row.basis})" if row.basis else ""
    asked = f"{row.quantity}{basis}: asked {row.asked * factor:.6g} {unit}"
    if row.got is None:
        return f"{asked}, {row.note}"
    got, least, most = (f"{one * factor:.6g}" for one in (row.got, row.minimum, row.maximum))
    return f"{asked}, got {got} ({least} to {most} is allowed)"


class _MeasuredWay(Frozen):
    """A direction of a link, a train of frames that was sent over it, and what arrived of it."""

    link: str
    way: Direction
    train: Train
    found: Arrivals
    is_simulated: bool

    def rows(self) -> Iterator[CalibratedQuantity]:
        kind, unseen = self.train.kind, self.found.unseen
        if unseen:
            yield self.row(kind, "", 0, None, 0, 0, f"{unseen} frames came too fast to be counted")
        elif kind == "delay":
            yield from self.delay_rows()
        elif kind == "loss":
            yield self.loss_row()
        elif kind == "rate":
            yield self.rate_row()
        elif kind == "queue":
            yield self.queue_row()

    def row(
        self, quantity: str, unit: str, asked: float, got: float | None, low: float, high: float, note: str = ""
    ) -> CalibratedQuantity:
        """Return a row, which holds if the value lies within the bounds."""
        held = None if got is None else low <= got <= high
        return CalibratedQuantity(self.link, self.train.direction, quantity, unit, asked, got, low, high, held, note)

    def loss_row(self) -> CalibratedQuantity:
        loss, n = self.way.loss, self.found.sent
        assert loss is not None
        low, high = binomial_interval(max(1, round(n / burstiness(loss))), loss.mean, LEVEL)
        few = "" if n >= 100 / loss.mean else f"{n} packets are fewer than 100 losses need"
        return self.row("loss", "share", loss.mean, (n - self.found.distinct) / n, low, high, few)

    def rate_row(self) -> CalibratedQuantity:
        train, found, way = self.train, self.found, self.way
        asked = float(way.rate_bit_per_s or 0)
        bounds = asked * (1 - RATE_TOLERANCE), asked * (1 + RATE_TOLERANCE)
        arriving = 1 - way.loss.mean if way.loss else 1.0
        offered = arriving * found.sent * train.frame_bytes * 8e9 / max(found.took_ns, 1)
        got, note = None, ""
        if offered < LEAST_OFFERED * asked:
            note = f"this machine could offer {offered / 1e6:.0f} Mbit/s, too little for a measurement"
        elif found.received > 1 and found.first_ns is not None and found.last_ns is not None:
            got = (found.received - 1) * train.frame_bytes * 8e9 / (found.last_ns - found.first_ns)
        return self.row("rate", "bit/s", asked, got, *bounds, note)

    def queue_row(self) -> CalibratedQuantity:
        """Return the number of frames of a burst that waited.

        All frames that arrived have waited, with two exceptions. The first frame was sent at once. Other frames left
        while the burst was still being sent; in real time their number is not known.
        """
        train, found, way = self.train, self.found, self.way
        assert way.queue is not None
        asked = float(way.queue.size_bytes(train.frame_bytes) // train.frame_bytes)
        left = math.floor(found.took_ns * (way.rate_bit_per_s or 0) / 8e9 / train.frame_bytes)
        most = found.received - 1
        got: float | None = most - left
        note = ""
        if not self.is_simulated and left > max(1, asked / 4):
            got, note = None, f"{left} frames may have left while the burst was sent, too many for a measurement"
        elif not self.is_simulated and left:
            got = min(max(asked, most - left), most)
        return self.row("queue", "packets", asked, got, asked - 1, asked + 1, note)

    def delay_rows(self) -> Iterator[CalibratedQuantity]:
        """Return the delay of the link alone: the measured delay less the time that a frame takes to be sent."""
        train, found, way = self.train, self.found, self.way
        # links of simulated time send bit by bit; in real time a frame that finds the link idle passes at once
        sending_ns = train.frame_bytes * 8e9 / way.rate_bit_per_s if self.is_simulated and way.rate_bit_per_s else 0.0
        asked_ns = float(way.delay_ns)
        slack_ns = SIMULATED_DELAY_NS if self.is_simulated else max(REAL_DELAY_NS, REAL_DELAY_SHARE * asked_ns)
        delays = found.delay_ns
        row = partial(self.row, "delay", "s")
        if delays is None:
            yield replace(row(asked_ns / 1e9, None, 0, 0, "nothing arrived"), held=False)
            return
        # the median is that of frames that wait, as long as fewer than half of the frames do not wait
        if way.jitter is None and (way.reorder is None or way.reorder.probability < MOST_REORDERED):
            got_ns = delays.median - sending_ns
            yield row(asked_ns / 1e9, got_ns / 1e9, (asked_ns - slack_ns) / 1e9, (asked_ns + slack_ns) / 1e9)
            return
        if way.jitter is None or way.reorder is not None:
            # every second frame and more does not wait, or jitter makes others quick too
            yield row(asked_ns / 1e9, None, 0, 0, "frames that do not wait cannot be distinguished from fast frames")
            return
        shape = SHAPES[way.jitter.distribution]
        what = f"of {way.jitter.distribution}, amount {way.jitter.amount_ns / 1e6:g} ms"
        mean_ns, deviation_ns = asked_ns + way.jitter.amount_ns * shape.mean, way.jitter.amount_ns * shape.deviation
        # the mean of so many delays lies within four of its standard errors
        error_ns = slack_ns + 4 * deviation_ns / math.sqrt(found.received / inflation(way.jitter.correlation))
        bounds = (mean_ns - error_ns) / 1e9, (mean_ns + error_ns) / 1e9
        yield replace(row(mean_ns / 1e9, (delays.mean - sending_ns) / 1e9, *bounds), basis=f"mean {what}")
        asked, got = deviation_ns / 1e9, delays.deviation / 1e9
        bounds = asked * (1 - JITTER_TOLERANCE), asked * (1 + JITTER_TOLERANCE)
        yield replace(self.row("jitter", "s", asked, got, *bounds), basis=f"standard deviation {what}")
        if way.jitter.correlation:
            asked, got = way.jitter.correlation, delays.correlation
            yield self.row("jitter correlation", "share", asked, got, asked - CORRELATION, asked + CORRELATION)


def binomial_interval(n: int, p: float, level: float) -> tuple[float, float]:
    """Return the interval in which the share of successes in n trials lies with probability `level` or more.

    p: the probability of a success. Each tail has at most half of the rest. The interval is exact.
    """
    from scipy.special import bdtrik

    tail = (1 - level) / 2
    low, high = (math.ceil(bdtrik(share, n, p)) for share in (tail, 1 - tail))
    return low / n, high / n
