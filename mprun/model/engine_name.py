# SPDX-License-Identifier: Apache-2.0
"""The names of engines, as files and the command line have them."""

from __future__ import annotations

from typing import Literal, get_args

EngineName = Literal["virtual", "real"]
# `auto` means the engine in the user's configuration.
EngineChoice = Literal["auto", "virtual", "real"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
ENGINE_CHOICES: tuple[EngineChoice, ...] = get_args(EngineChoice)
DEFAULT_ENGINE: EngineName = "virtual"
