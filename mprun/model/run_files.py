# SPDX-License-Identifier: Apache-2.0
"""The content of smaller files of a run: `environment.json`, `wall.json`, `stops.json` and the lines of `steps.jsonl`.

The files have more keys, which are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mprun.model.engine_name import EngineName
from mprun.model.frozen import Frozen
from mprun.model.scalar import Scalar

# The parameter that holds the label of a run.
LABEL = "label"


class Build(NamedTuple):
    """A kernel. Only a kernel that mprun built has a digest, a name and a source."""

    version: str
    digest: str = ""
    name: str = ""
    source: str = ""

    @property
    def label(self) -> str:
        """The version and the digest. Kernels of one name or version may be different builds or source trees."""
        return f"{self.version} {self.digest[:12]}".strip()


class OlderVersion(NamedTuple):
    """The version of an mprun that did not record the digest of its code."""

    version: str


class RunEnvironment(NamedTuple):
    """The engine, the kernel and the programs that made a run.

    `real_time`: the run was not in simulated time. `engine_reason`: why this engine was chosen.
    `versions`: by program. `warnings`: those of the input files.
    `mprun`: the digest of its code. `parameters`: the values of the files' parameters and axes,
    and the label of the run under `label`.
    """

    engine: EngineName
    kernel: Build
    versions: Mapping[str, str]
    warnings: tuple[str, ...]
    python: str
    real_time: bool = False
    engine_reason: str = ""
    mprun: str | OlderVersion = "not recorded"
    parameters: Mapping[str, Scalar] = {}

    @property
    def code(self) -> str:
        """The digest of the mprun that made the run. Older runs do not record it."""
        return self.mprun if isinstance(self.mprun, str) else self.mprun.version


class Phase(NamedTuple):
    """A phase of a run in real time. `wall_s`: the time from the start of the run to the beginning of the phase."""

    wall_s: float


class Stops(Frozen):
    """The number of times that a program stopped for one kind of system call or fault."""

    program: str
    call: str
    count: int


class StepRecord(NamedTuple):
    """A step of a run. `actual_ns`: its time from time zero. `name`, `values`: of what a change changes."""

    step: str
    actual_ns: int | None = None
    name: str | None = None
    values: Mapping[str, Any] | None = None
