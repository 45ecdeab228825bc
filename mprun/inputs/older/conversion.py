# SPDX-License-Identifier: Apache-2.0
"""Convert the text of an older file into a node tree, and list its problems."""

from __future__ import annotations

from collections.abc import Mapping

from yaml.nodes import MappingNode

from mprun.inputs.older import experiment, topology
from mprun.inputs.older.lines import FileRole, split
from mprun.inputs.older.older_file import OlderFile
from mprun.model.frozen import dataclass
from mprun.model.problem import InputProblem


@dataclass(frozen=True)
class OlderConversion:
    """root: None if the file has problems that prevent a tree. keys: the key on each line, for messages."""

    root: MappingNode | None
    problems: tuple[InputProblem, ...]
    warnings: tuple[InputProblem, ...]
    keys: Mapping[int, str]
    comments: Mapping[int, tuple[str, ...]]


def convert(text: str, name: str, role: FileRole, legacy_queue: bool = False) -> OlderConversion:
    """Convert the text. legacy_queue: queues have the size that the older tool gave them, not the size in the file."""
    lines = split(text, name)
    source = OlderFile(name, lines)
    root = topology.build(source, legacy_queue) if role == "topology" else experiment.build(source)
    keys = {entry.line: entry.key for entry in lines.entries.values()}
    return OlderConversion(root, tuple(source.problems), tuple(source.warnings), keys, lines.comments)
