# SPDX-License-Identifier: Apache-2.0
"""Find links with the same values, which share an entry of the key instead of having a label each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mprun.model.spec import Addressing, Direction, LinkSpec, TopologySpec
from mprun.reports.layout import Layout

# If more links than this have the same values, they share an entry. There are as many entries as line styles.
MOST_LABELS = 4
STYLES = 5


@dataclass(frozen=True)
class CommonValues:
    """The common values of links. `ahead` is the direction from the first to the second end as drawn.

    is_sideways: the directions differ, and the arrows of other links do not fit. addressing: None if it is the
    topology's.
    """

    ahead: Direction
    back: Direction
    is_backup: bool
    is_sideways: bool
    addressing: Addressing | None

    @property
    def is_shaped(self) -> bool:
        return self.ahead.is_shaped or self.back.is_shaped


@dataclass(frozen=True)
class LegendEntry:
    """An entry of the key: `links` links have these values and are drawn in this style."""

    style: int
    values: CommonValues
    links: int


def values_of(link: LinkSpec, layout: Layout) -> CommonValues:
    ahead, back = (link.reverse, link.forward) if link.name in layout.turned else (link.forward, link.reverse)
    is_sideways = link.name in layout.level and ahead != back
    return CommonValues(ahead, back, link.backup, is_sideways, link.addressing)


def make_legend(topology: TopologySpec, layout: Layout) -> Mapping[CommonValues, LegendEntry]:
    """Return the values that many shaped links share, in the order of the file."""
    counts: dict[CommonValues, int] = {}
    for link in topology.links:
        values = values_of(link, layout)
        if values.is_shaped and not values.is_sideways:
            counts[values] = counts.get(values, 0) + 1
    common = [values for values, count in counts.items() if count > MOST_LABELS]
    chosen = sorted(common, key=lambda values: -counts[values])[:STYLES]
    return {
        values: LegendEntry(style, values, counts[values])
        for style, values in enumerate(filter(chosen.__contains__, common))
    }
