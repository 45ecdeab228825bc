# SPDX-License-Identifier: Apache-2.0
"""The conditions of a search: the axes that vary, the statement, the controls and the floors."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from mprun.model.frozen import Frozen
from mprun.model.scalar import Scalar, interpolate, round_digits, spell_number

# The least queue in packets and buffer in bytes, and the least time of a flow: smaller ones are faults of the files.
LEAST_QUEUE = 10
LEAST_BUFFER = 65_536
LEAST_DURATION_NS = 1_000_000_000
# Units without a smaller one, and a number without a unit.
WHOLE_UNITS = ("", "packets", "bytes", "ns", "bit")


class NumberAxis(Frozen):
    """An axis of numbers between two ends. The ends of a logarithmic axis are positive."""

    name: str
    first: Decimal
    last: Decimal
    unit: str
    is_log: bool

    def value_at(self, share: float) -> Scalar:
        """Return the value at a share of the axis, 0 to 1, with three digits. The ends are exact."""
        if share <= 0 or share >= 1:
            return spell_number(self.first if share <= 0 else self.last, self.unit)
        number = interpolate(self.first, self.last, Decimal(share), self.is_log)
        number = round_digits(number) if number > 0 else number.quantize(Decimal("1e-3"))
        if self._is_whole:
            number = number.to_integral()
        low, high = sorted((self.first, self.last))
        return spell_number(min(max(number, low), high), self.unit)

    @property
    def _is_whole(self) -> bool:
        """True if values between two whole ends are whole too."""
        return self.unit in WHOLE_UNITS and all(end == end.to_integral() for end in (self.first, self.last))


class Choice(Frozen):
    """An axis of values without an order, such as names."""

    name: str
    values: tuple[Scalar, ...]

    def value_at(self, share: float) -> Scalar:
        """Return the value at a share of the axis, 0 to 1."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


SearchAxis = NumberAxis | Choice


class Floors(Frozen):
    """The conditions below which a violation says nothing: bounds of queues, buffers and durations."""

    queue_packets: int = LEAST_QUEUE
    buffer_bytes: int = LEAST_BUFFER
    duration_ns: int = LEAST_DURATION_NS


class Search(Frozen):
    """The axes of a search, and the statement that it tries to violate.

    controls: of each control run its name, and the parameters and properties of links that it changes. A value that is
    the name of an axis stands for the value of this axis.
    """

    axes: tuple[SearchAxis, ...]
    violate: str
    controls: Mapping[str, Mapping[str, Scalar]]
    floors: Floors
