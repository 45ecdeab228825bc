# SPDX-License-Identifier: Apache-2.0
"""Links of switches that lie on circles."""

from __future__ import annotations

import pytest

from mprun.inputs.switch import _on_circles
from mprun.model.spec import LinkSpec


@pytest.mark.parametrize(
    ("pairs", "on_circles"),
    [
        ("ab bc cd", ""),
        ("ab ab bc", "ab ab"),
        ("ab bc ca cd de", "ab bc ca"),
        ("ab bc ca cd de ef fd", "ab bc ca de ef fd"),
        ("ab cd dc", "cd dc"),
        ("ab bc cd da ac", "ab bc cd da ac"),
    ],
)
def test_circles(pairs: str, on_circles: str) -> None:
    links = [LinkSpec(f"{n}", (pair[0], pair[1])) for n, pair in enumerate(pairs.split())]
    assert " ".join("".join(link.ends) for link in _on_circles(links)) == on_circles
