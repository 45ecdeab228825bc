# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as JSON, and JSON of strangers that fits no dataclass."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mprun.errors import MprunError
from mprun.model.codec import JsonProblem
from mprun.model.plan import FORMAT, Plan

PLAN = json.loads((Path(__file__).parents[1] / "outputs" / "run" / "plan.json").read_text())


def changed(value: Any, *keys: str | int) -> dict[str, Any]:
    """Return the plan with another value at a place."""
    plan: dict[str, Any] = copy.deepcopy(PLAN)
    at: Any = plan
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return plan


@pytest.mark.parametrize(
    ("value", "keys", "place"),
    [
        ({}, ("intent", "links", 0, "ends"), ".intent.links[0].ends"),
        ([], ("intent", "links", 0, "ends"), ".intent.links[0].ends"),
        (True, ("intent", "seed"), ".intent.seed"),
        (1 << 63, ("intent", "seed"), ".intent.seed"),
        ("fast", ("intent", "links", 0, "forward", "rate_bit_per_s"), ".intent.links[0].forward.rate_bit_per_s"),
        (float("inf"), ("intent", "changes", 0, "forward", "loss", "probability"), ".intent.changes[0].forward.loss."),
        ({"likely": 1}, ("intent", "changes", 0, "forward", "loss"), ".intent.changes[0].forward.loss"),
        ("10.0.0", ("intent", "nodes", 0, "interfaces", 0, "address"), ".intent.nodes[0].interfaces[0].addresses[0]"),
        ("telnet", ("intent", "traffic", 0, "protocol"), ".intent.traffic[0].protocol"),
        ([1], ("watches",), ".watches[0]"),
        ([[1, 2, 3]], ("watches",), ".watches[0]"),
        ({"sockets": None}, ("samples",), ".samples.sockets"),
    ],
)
def test_a_fault_is_told_by_its_place(value: object, keys: tuple[str | int, ...], place: str) -> None:
    with pytest.raises(JsonProblem) as raised:
        Plan.from_json(changed(value, *keys))
    assert str(raised.value).startswith(place)


@pytest.mark.parametrize("keys", [("intent",), ("intent", "captures", 0, "host"), ("flows", 0, "argv")])
def test_a_key_that_is_needed_is_told(keys: tuple[str | int, ...]) -> None:
    plan = changed(None, *keys)
    at: Any = plan
    for key in keys[:-1]:
        at = at[key]
    del at[keys[-1]]
    with pytest.raises(JsonProblem):
        Plan.from_json(plan)


def test_a_key_of_a_newer_version_is_ignored() -> None:
    assert Plan.from_json(changed(1, "intent", "links", 0, "novelty")) == Plan.from_json(PLAN)


def test_a_plan_of_another_format_says_so() -> None:
    with pytest.raises(MprunError, match=f"a plan of format 4; this mprun reads format {FORMAT}"):
        Plan.from_json({"format": 4})


def test_a_plan_of_a_newer_mprun_is_not_read() -> None:
    """Its keys may have another meaning, even if this mprun knows all of them."""
    with pytest.raises(MprunError, match=f"a plan of format {FORMAT + 1}; this mprun reads format {FORMAT}"):
        Plan.from_json(changed(FORMAT + 1, "format"))
