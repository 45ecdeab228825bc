# SPDX-License-Identifier: Apache-2.0
"""`python -m mprun.inputs.traces.generate NAME`: print a trace that comes with mprun. They are synthetic.

Each follows from a model with a seed. A test compares the files with the models, and `make golden` writes the files.
Forward is the uplink.

`lte-drive` is a stochastic model of a cellular link by K. Winstein, A. Sivaraman and H. Balakrishnan. It is in their
paper "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks" (NSDI 2013). The rate of
deliveries is a Brownian motion between 0 and 1000 packets of 1500 bytes a second. Its noise is 200 packets/s per square
root of a second. At 0 an outage begins, which ends at a rate of one in a second. The delay is 30 ms, as in the profile
`4g-lte`. Every 15 to 30 s a hand-over between cells stops both directions for 50 ms. Packets wait meanwhile and are not
lost. A stopped direction has a rate of 64 kbit/s. Assumptions without a source: the times and the length of hand-overs,
half the noise and half the largest rate for the uplink, and a quarter of the largest rate after an outage.

`leo-handover` gives a terminal another satellite every 15 s, at the seconds 12, 27, 42 and 57 of each minute, as
measurements of Starlink report. The delay of a slot includes the way up to the satellite and down to a gateway. The
satellite has a height of 550 km and a random elevation of 25 to 90 degrees at both ends. Everything else takes 15 ms.
The delay is constant during a slot. The rates of slots are log-normal, with medians of 150 Mbit/s down and 15 Mbit/s
up. The standard deviation of their logarithm is 0.3, and they vary by 5 % around it from second to second. A hand-over
takes 50 to 250 ms, in which all packets are lost. Assumptions without a source: the fixed delay, the medians and the
spread of rates, and the length of hand-overs. When the trace repeats, its first slot begins without a hand-over.

Random numbers come from `random.Random.random`, which is the same in every version of Python.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from random import Random

SEED = 1
# A full frame waits for at most 0.2 s at this rate: the least rate of an outage.
LEAST_KBIT = 64
PACKET_KBIT = 12
SPEED_OF_LIGHT_KM_PER_MS, EARTH_KM, HEIGHT_KM = 299.792458, 6371.0, 550.0

TraceRow = tuple[int, Mapping[str, str]]


def _normal(draw: Random) -> float:
    """Return a number of the standard normal distribution (Box and Muller)."""
    return math.sqrt(-2 * math.log(1 - draw.random())) * math.cos(2 * math.pi * draw.random())


def _cellular_rates(draw: Random, seconds: int, noise: float, most: float) -> list[int]:
    """Return the rate of each 100 ms in kbit/s. noise, most: in packets/s, of the model's steps of 20 ms."""
    step_s = 0.02
    rate = most / 2
    rates = []
    for _ in range(seconds * 10):
        total = 0.0
        for _ in range(5):
            if rate > 0:
                rate = min(max(rate + noise * math.sqrt(step_s) * _normal(draw), 0.0), most)
            elif draw.random() < step_s:
                rate = most / 4
            total += rate
        rates.append(max(LEAST_KBIT, round(total / 5 * PACKET_KBIT)))
    return rates


def make_lte_drive() -> Iterator[TraceRow]:
    """Yield the rows of the trace of a moving car."""
    draw = Random(SEED)
    seconds = 60
    up, down = (_cellular_rates(draw, seconds, noise, most) for noise, most in ((100.0, 500.0), (200.0, 1000.0)))
    stops = set()
    at_s = 0.0
    while (at_s := at_s + 15 + 15 * draw.random()) < seconds - 1:
        stops.add(round(at_s * 10))
    for n, rates in enumerate(zip(up, down, strict=True)):
        values = _rates(*rates)
        if n in stops:
            yield n * 100, _rates(LEAST_KBIT, LEAST_KBIT)
            yield n * 100 + 50, values
        else:
            yield n * 100, values | ({"delay": "30ms"} if n == 0 else {})
    yield seconds * 1000, {}


def make_leo_handover() -> Iterator[TraceRow]:
    """Yield the rows of the trace of satellites in low orbit."""
    draw = Random(SEED)
    seconds = 120
    slot: tuple[float, float, str] = (0, 0, "")
    for second in range(seconds):
        is_handover = second % 15 == 12
        if is_handover or second == 0:
            up, down = (median * math.exp(0.3 * _normal(draw)) for median in (15.0, 150.0))
            delay_ms = 15 + sum(_slant_km(25 + 65 * draw.random()) for _ in range(2)) / SPEED_OF_LIGHT_KM_PER_MS
            slot = (up, down, f"{round(delay_ms, 1)}ms")
        rates = [round(rate * 1000 * (0.95 + 0.1 * draw.random())) for rate in slot[:2]]
        values = _rates(rates[0], rates[1])
        if is_handover:
            yield second * 1000, {"loss": "100%"}
            yield second * 1000 + 50 + round(200 * draw.random()), values | {"delay": slot[2], "loss": "0%"}
        else:
            yield second * 1000, values | ({"delay": slot[2], "loss": "0%"} if second == 0 else {})
    yield seconds * 1000, {}


def _slant_km(elevation_degrees: float) -> float:
    """Return the distance of a satellite from a place that sees it at this elevation."""
    sine = math.sin(math.radians(elevation_degrees))
    return math.sqrt((EARTH_KM * sine) ** 2 + 2 * EARTH_KM * HEIGHT_KM + HEIGHT_KM**2) - EARTH_KM * sine


def _rates(up_kbit: int, down_kbit: int) -> dict[str, str]:
    return {"rate.forward": f"{up_kbit}kbit", "rate.reverse": f"{down_kbit}kbit"}


def render(rows: Iterator[TraceRow], *names: str) -> str:
    """Return rows as a schedule with these columns. A cell without a value is empty."""
    lines = [",".join(("at", *names))]
    lines += [",".join((f"{at_ms}ms", *(values.get(name, "") for name in names))) for at_ms, values in rows]
    return "\n".join(lines) + "\n"


def make_all() -> dict[str, str]:
    """Return the content of each trace's file, by its name."""
    head = "# Synthetic, made by `python -m mprun.inputs.traces.generate NAME`: change the model there.\n"
    rates = ("rate.forward", "rate.reverse", "delay")
    return {
        "lte-drive": head + render(make_lte_drive(), *rates),
        "leo-handover": head + render(make_leo_handover(), *rates, "loss"),
    }


if __name__ == "__main__":
    print(make_all()[sys.argv[1]], end="")
