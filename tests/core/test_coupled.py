# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the coupled congestion controls against their formulas in floating point."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable, Sequence

import pytest

from mprun.kernel.recipe import C_SOURCES

ONE = 1 << 24
MOST = 16

SOURCE = """
#include <stdint.h>
typedef uint32_t u32; typedef uint64_t u64; typedef int64_t s64;
#include "mprun_coupled_math.h"
s64 lia(const struct mprun_path *paths, int number, int r) { return mprun_lia(paths, number, r); }
s64 olia(const struct mprun_path *paths, int number, int r) { return mprun_olia(paths, number, r); }
s64 balia(const struct mprun_path *paths, int number, int r) { return mprun_balia(paths, number, r); }
u32 balia_after_loss(const struct mprun_path *paths, int number, int r)
{ return mprun_balia_after_loss(paths, number, r); }
"""


class CPath(ctypes.Structure):
    _fields_ = [("window", ctypes.c_uint32), ("rtt_us", ctypes.c_uint32), ("between_losses", ctypes.c_uint64)]


Paths = Sequence[tuple[int, int, int]]


@pytest.fixture(scope="module")
def math(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("coupled")
    (folder / "coupled.c").write_text(SOURCE)
    include = C_SOURCES / "mptcp"
    argv = ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}", "-o", "coupled.so", "coupled.c"]
    subprocess.run(argv, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "coupled.so"))
    for name in ("lia", "olia", "balia"):
        getattr(library, name).restype = ctypes.c_int64
    return library


def call(function: Callable[..., int], paths: Paths, r: int) -> int:
    values = (CPath * len(paths))(*[CPath(*path) for path in paths])
    return int(function(values, len(paths), r))


def some_paths(count: int, seed: int) -> list[Paths]:
    dice = random.Random(seed)
    return [
        [
            (dice.randint(2, 2000), round(10 ** dice.uniform(2.5, 6)), dice.randint(0, 10**7))
            for _ in range(dice.randint(1, 8))
        ]
        for _ in range(count)
    ]


def total_rate(paths: Paths) -> float:
    return sum(window / rtt for window, rtt, _ in paths)


def lia(paths: Paths, r: int) -> float:
    """RFC 6356 section 3, for a segment acknowledged: min(alpha / total, 1 / cwnd_i)."""
    total = sum(window for window, *_ in paths)
    alpha = total * max(window / rtt**2 for window, rtt, _ in paths) / total_rate(paths) ** 2
    return min(alpha / total, 1 / paths[r][0])


def olia(paths: Paths, r: int) -> float:
    """draft-khalili-mptcp-congestion-control-05, section 3."""
    window, rtt, _ = paths[r]
    quality = [between / rtt**2 for _, rtt, between in paths]
    best = quality.index(max(quality))
    largest = max(window for window, *_ in paths)
    wide = [p for p, path in enumerate(paths) if path[0] == largest]
    wanting = [best] if best not in wide else []
    alpha = 0.0
    if wanting and r in wanting:
        alpha = 1 / len(paths) / len(wanting)
    elif wanting and r in wide:
        alpha = -1 / len(paths) / len(wide)
    return window / rtt**2 / total_rate(paths) ** 2 + alpha / window


def balia(paths: Paths, r: int) -> float:
    """draft-walid-mptcp-congestion-control-04, section 3."""
    window, rtt, _ = paths[r]
    alpha = max(w / t for w, t, _ in paths) / (window / rtt)
    return min(1.0, window / rtt**2 / total_rate(paths) ** 2 * (1 + alpha) / 2 * (4 + alpha) / 5)


@pytest.mark.parametrize("formula", [lia, olia, balia])
def test_increase(math: ctypes.CDLL, formula: Callable[[Paths, int], float]) -> None:
    function = getattr(math, formula.__name__)
    for paths in some_paths(500, 1):
        for r in range(len(paths)):
            expected = formula(paths, r)
            # differences below a millionth of a segment are negligible; above that, half a percent is allowed
            assert call(function, paths, r) / ONE == pytest.approx(expected, rel=5e-3, abs=1e-6), (paths, r)


@pytest.mark.parametrize("name", ["lia", "olia", "balia"])
def test_alone_it_is_reno(math: ctypes.CDLL, name: str) -> None:
    for window in (2, 10, 333, 2000):
        assert call(getattr(math, name), [(window, 40_000, 0)], 0) == pytest.approx(ONE / window, rel=1e-3)


def test_balia_after_a_loss(math: ctypes.CDLL) -> None:
    for paths in some_paths(200, 2):
        for r, (window, rtt, _) in enumerate(paths):
            alpha = max(w / t for w, t, _ in paths) / (window / rtt)
            expected = window - window / 2 * min(alpha, 1.5)
            assert call(math.balia_after_loss, paths, r) == pytest.approx(expected, abs=1 + window * 1e-3)


def test_olia_moves_window_to_the_better_path(math: ctypes.CDLL) -> None:
    paths = [(40, 40_000, 1_000), (10, 40_000, 5_000)]
    assert call(math.olia, paths, 0) < call(math.olia, [(40, 40_000, 5_000), (10, 40_000, 1_000)], 0)
    assert call(math.olia, paths, 1) > ONE / 50
