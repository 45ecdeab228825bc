# SPDX-License-Identifier: Apache-2.0
"""The properties of a link in few words, for labels of drawings.

The numbers are those of `mprun.model.units`, spelled for people: `20 Mbit/s`, `delay 1.5 ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mprun.model.spec import Chance, Direction, Loss, Queue
from mprun.model.units import DELAY, RATE, TIME, render_queue, render_ratio

MOST_MOMENTS = 3

DirectionPair = tuple[Direction, Direction]

# The fields of Direction in the order of the text. None: the field has no text.
PROPERTIES: Mapping[str, Callable[[Direction], str | None]] = {
    "rate_bit_per_s": lambda d: RATE.render(d.rate_bit_per_s, "people") if d.rate_bit_per_s else None,
    "delay_ns": lambda d: f"delay {DELAY.render(d.delay_ns, 'people')}" if d.delay_ns else None,
    "jitter": lambda d: f"jitter {DELAY.render(d.jitter.amount_ns, 'people')}" if d.jitter else None,
    "loss": lambda d: f"{_loss_noun(d.loss)} {render_ratio(d.loss.mean, 'people')}" if d.loss else None,
    "duplicate": lambda d: f"duplicate {render_ratio(d.duplicate.probability, 'people')}" if d.duplicate else None,
    "corrupt": lambda d: f"corrupt {render_ratio(d.corrupt.probability, 'people')}" if d.corrupt else None,
    "reorder": lambda d: f"reorder {render_ratio(d.reorder.probability, 'people')}" if d.reorder else None,
    "queue": lambda d: f"{_queue_noun(d.queue)} {render_queue(d.queue, 'people')}" if d.queue else None,
}


def _loss_noun(loss: Loss) -> str:
    """Return the noun of a loss. The figure of a model with states is the share lost in the long run."""
    return "loss" if isinstance(loss, Chance) else "loss in bursts"


def _queue_noun(queue: Queue) -> str:
    return "queue" if queue.discipline == "fifo" else queue.discipline.replace("_", "-")


def describe(forward: Direction, reverse: Direction, ahead: str, back: str) -> tuple[str, ...]:
    """Return lines of text: properties of both directions first, then differences after the sign of their direction."""
    one, other = _texts(forward), _texts(reverse)
    shared = [text for key, text in one.items() if other.get(key) == text]
    lines = _wrap("", shared)
    for sign, texts in ((ahead, one), (back, other)):
        lines += _wrap(f"{sign} ", [text for text in texts.values() if text not in shared])
    return tuple(lines)


def say_changes(moments_ns: Sequence[int]) -> list[str]:
    """Return the times of a link's changes, or their number, first and last if they are many."""
    moments = [TIME.render(moment, "people") if moment else "0 s" for moment in sorted(set(moments_ns))]
    if len(moments) > MOST_MOMENTS:
        return [f"{len(moments)} changes, {moments[0]} to {moments[-1]}"]
    return [f"changes at {', '.join(moments)}"] if moments else []


def say_change(before: DirectionPair, after: DirectionPair, is_up: bool, was_up: bool) -> str:
    """Return the changes of a link, given both directions before and after: `loss 100 %`, `down`."""
    if is_up != was_up:
        return "up" if is_up else "down"
    news = [_news(old, new) for old, new in zip(before, after, strict=True)]
    shared = [text for text in news[0] if text in news[1]]
    words = list(shared)
    for name, texts in zip(("forward", "reverse"), news, strict=True):
        words += [f"{name} {text}" for text in texts if text not in shared]
    return ", ".join(words) or "as before"


def _news(before: Direction, after: Direction) -> list[str]:
    """Return the properties that have changed. A removed property is named as removed."""
    old, new = _texts(before), _texts(after)
    changed = [key for key in PROPERTIES if old.get(key) != new.get(key)]
    return [new.get(key) or f"no {key.split('_')[0]}" for key in changed]


def _texts(direction: Direction) -> dict[str, str]:
    return {key: text for key, say in PROPERTIES.items() if (text := say(direction)) is not None}


def _wrap(sign: str, texts: list[str]) -> list[str]:
    """Return texts joined by commas, two on each line."""
    return [sign + ", ".join(texts[n : n + 2]) for n in range(0, len(texts), 2)]
