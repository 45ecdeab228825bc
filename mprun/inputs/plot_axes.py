# SPDX-License-Identifier: Apache-2.0
"""The axes of plots, and whether the matrix of the experiment varies them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mprun.inputs.document import Document
from mprun.model.axis import read_axis, read_number
from mprun.model.problem import name_nearest
from mprun.model.scalar import Scalar, name_value
from mprun.model.spec import Plot


def check_axes(plots: Collection[Plot], axes: Mapping[str, Sequence[Scalar]], document: Document) -> None:
    """Record problems of plots over an axis that the matrix does not have, or whose values do not fit.

    `axes`: the axes of the experiment's matrix, with their values.
    """
    for n, plot in enumerate(plots):
        named = {key: getattr(plot, key) for key in ("over", "by", "facet")}
        for key, axis in named.items():
            if axis is None:
                continue
            if axis not in axes:
                hint = name_nearest(axis, axes, "axes") if axes else ": write one, as in 'matrix: {cc: [cubic, reno]}'"
                document.refuse(("plots", n, key), f"the matrix has no axis '{axis}'{hint}")
            elif list(named.values()).count(axis) > 1:
                document.refuse(("plots", n, key), f"'{axis}' is used twice in this figure: remove one")
        if plot.over is not None and plot.over in axes and "x" in plot.log:
            reason = _refuse_log(plot.over, axes[plot.over])
            if reason is not None:
                document.refuse(("plots", n, "log"), f"{reason}: remove 'x'")


def _refuse_log(axis: str, values: Sequence[Scalar]) -> str | None:
    """The reason why a logarithmic axis cannot show these values. None if it can."""
    numbers = read_axis(values)
    if numbers is None:
        name = next((value for value in values if read_number(value) is None), None)
        what = "has numbers of several kinds" if name is None else f"has {name_value(name)}, which is no number"
        return f"axis '{axis}' {what}"
    low = next((text for text, number in numbers[0].items() if number <= 0), None)
    return None if low is None else f"axis '{axis}' has '{low}', which a logarithmic axis has no place for"
