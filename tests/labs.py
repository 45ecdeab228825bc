# SPDX-License-Identifier: Apache-2.0
"""The labs: each experiment with the topology that its lab runs it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def _find_labs() -> list[Any]:
    found: list[Any] = []
    for file in sorted(ROOT.glob("labs/*/lab.yaml")):
        lab = yaml.safe_load(file.read_text())
        for part in lab.get("parts", [lab]):
            for name in part["experiments"]:
                pair = (file.parent / f"{part['topology']}.yaml", file.parent / f"{name}.yaml")
                found.append(pytest.param(*pair, id=f"{file.parent.name}-{pair[1].stem}"))
    return found


LABS = _find_labs()
