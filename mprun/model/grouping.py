# SPDX-License-Identifier: Apache-2.0
"""Items by a key that several of them share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")


def gather(pairs: Iterable[tuple[KeyT, ItemT]]) -> dict[KeyT, list[ItemT]]:
    """Return the items of each key, in their order. pairs: each item with its key."""
    gathered: dict[KeyT, list[ItemT]] = {}
    for key, item in pairs:
        gathered.setdefault(key, []).append(item)
    return gathered
