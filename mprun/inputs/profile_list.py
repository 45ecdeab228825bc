# SPDX-License-Identifier: Apache-2.0
"""The profiles of links, with their values as a topology file spells them: for the command line and the docs."""

from __future__ import annotations

from collections.abc import Mapping

from mprun.inputs.keys.link import DirectionProperties
from mprun.inputs.keys.profile import PROFILES
from mprun.inputs.writer import spell_properties
from mprun.model.frozen import Frozen


class DescribedProfile(Frozen):
    """A profile. forward, reverse: the value of each property, by its key in a file."""

    name: str
    meaning: str
    forward: Mapping[str, object]
    reverse: Mapping[str, object]

    @property
    def rows(self) -> list[tuple[str, Mapping[str, object]]]:
        """The directions and their values. Directions with equal values share a row."""
        if self.forward == self.reverse:
            return [("both", self.forward)]
        return [("forward", self.forward), ("reverse", self.reverse)]


def describe_profiles() -> tuple[DescribedProfile, ...]:
    return tuple(
        DescribedProfile(name, one.meaning, *(spell_properties((way, way)) for way in one.directions))
        for name, one in PROFILES.items()
    )


def columns(profiles: tuple[DescribedProfile, ...]) -> list[str]:
    """Return the properties that any of the profiles sets, in the order of a file."""
    used = {name for one in profiles for _, values in one.rows for name in values}
    return [name for name in DirectionProperties.model_fields if name in used]
