# SPDX-License-Identifier: Apache-2.0
"""The subflow that carries most data, second by second."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mprun.metrics.cause import tell_headers
from mprun.metrics.preference import Carried, carry, find_flapping, share_deviations
from mprun.metrics.shortfall import find_usual

S = 10**9
A, B = (0, "path0", ("a",)), (0, "path1", ("b",))


def test_what_was_carried_in_each_second() -> None:
    samples = [
        (S, A, 10),
        (S, B, 1),
        (3 * S // 2, A, 14),
        (2 * S, A, 20),
        (2 * S, B, 5),
        (3 * S, A, 21),
        (3 * S, B, 25),
    ]
    assert [(one.path, one.by_second) for one in carry(samples, 0, 3 * S)] == [
        ("path0", [10, 10, 1]),
        ("path1", [1, 4, 20]),
    ]


def test_seconds_are_whole_and_within_the_flow() -> None:
    samples = [(n * S // 2, A, n) for n in range(1, 20)]
    (one,) = carry(samples, 3 * S // 2, 11 * S // 2)
    assert one.by_second == [2, 2, 2]
    assert carry(samples, 3 * S // 2, 7 * S // 2) == []


def test_a_subflow_that_comes_and_goes_carries_nothing_before_and_after() -> None:
    samples = sorted([(n * S, A, 10 * n) for n in range(1, 7)] + [(3 * S, B, 4), (4 * S, B, 6)])
    assert [one.by_second for one in carry(samples, 0, 6 * S)] == [[10] * 6, [0, 0, 4, 2, 0, 0]]


def test_samples_may_be_a_little_late_and_not_a_second() -> None:
    late = [(n * S + 10_000_000, A, 10 * n) for n in range(1, 5)]
    assert [one.by_second for one in carry(late, 0, 4 * S)] == [[10] * 4]
    assert carry([(2 * n * S, A, 10 * n) for n in range(1, 5)], 0, 8 * S) == []
    assert carry([], 0, 8 * S) == []


def carried(*subflows: Sequence[int], connection: int = 0) -> list[Carried]:
    return [Carried(connection, f"path{n}", values) for n, values in enumerate(subflows)]


@pytest.mark.parametrize(
    ("subflows", "flapping"),
    [
        ([[9, 9, 9], [1, 1, 1]], 0),
        ([[9, 1, 9, 1], [1, 9, 1, 9]], 1),
        ([[9, 9, 1, 1, 1], [1, 1, 9, 9, 9]], 0.25),
        # of two equals the subflow of the previous second counts; a second without data does not count
        ([[9, 5, 5], [1, 5, 5]], 0),
        ([[9, 0, 1], [1, 0, 9]], 1),
        ([[9], [1]], None),
        ([[0, 0], [0, 0]], None),
    ],
)
def test_flapping(subflows: list[list[int]], flapping: float | None) -> None:
    assert find_flapping(carried(*subflows)) == flapping


def test_flapping_is_of_each_connection() -> None:
    steady, unsteady = carried([9, 9, 9], [1, 1, 1]), carried([9, 1, 9], [1, 9, 1], connection=1)
    assert find_flapping(steady + unsteady) == 0.5


def test_deviation_of_shares() -> None:
    found = share_deviations(carried([6, 4, 0], [4, 6, 0]), ["path0", "path1", "path2"])
    assert found == {"path0": pytest.approx(0.02**0.5), "path1": pytest.approx(0.02**0.5), "path2": 0}
    assert share_deviations(carried([6, 0], [4, 0]), ["path0"]) == {}


def test_headers_and_slow_start_are_usual() -> None:
    """20 Mbit/s and 40 ms for 2 s: a packet has 1428 bytes of payload, and four round trips pass before the rate."""
    assert find_usual(1500, 100_000, 0.02) == pytest.approx(1428 / 1514 * (1 - 0.0756), abs=1e-3)
    assert find_usual(1500, 1_000, 0.0) == pytest.approx(1428 / 1514)
    assert find_usual(1500, 100_000, 1.0) == 0
    assert tell_headers(1500) == ""
    assert tell_headers(100) == "; headers take 75 % of each frame, as the MTU is 100 bytes"
