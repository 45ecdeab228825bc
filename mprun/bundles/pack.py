# SPDX-License-Identifier: Apache-2.0
"""Write the bundle of a run or a sweep: collect its content, and put it into one archive."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, NamedTuple

from mprun.bundles.archive import SUFFIX, Content, write_archive
from mprun.bundles.crate import METADATA, Description, describe
from mprun.engines.agent_process import RunProgress
from mprun.errors import MprunError
from mprun.inputs.loading import load
from mprun.kernel.store import describe_recipe
from mprun.metrics.cells import INCOMPLETE
from mprun.model.codec import PLAIN
from mprun.model.run_files import RunEnvironment
from mprun.runs.runner import refuse_changes, restore_tables
from mprun.safety.folder import Folder
from mprun.storage import table
from mprun.storage.run_directory import FROM_CAPTURES, RunDirectory
from mprun.storage.sweep_directory import ALONE, ResultDirectory, SweepDirectory, runs_by_place
from mprun.sweeps.sweep_summary import read_summary, read_table, tell_progress

ARTIFACTS = "artifacts.json"
# The members of a single run, and of each run of a sweep.
_OF_RUN = (
    *("plan.json", "environment.json", "summary.json", "calibration.json", "steps.jsonl", "report.html"),
    *("inputs/*", "inputs/files/*", "products/**/*", "tables/*.parquet", "figures/*"),
)
_OF_MANY = ("plan.json", "environment.json", "summary.json", "inputs/resolved-*.yaml", "inputs/files/*")
_OF_SWEEP = ("sweep.json", "summary.json", "report.html", "inputs/*", "tables/*.parquet", "figures/*")
_STAMP = re.compile(r"^(\d{4})(\d{2})(\d{2})-")


class Artifacts(NamedTuple):
    """The content of `artifacts.json`. runs: for each run, by its path in the bundle, the SHA-256 of each artifact."""

    kind: Literal["run", "sweep"]
    name: str
    runs: Mapping[str, Mapping[str, str]]


def pack(
    source: ResultDirectory,
    target: Path | None,
    licence: str,
    with_pcaps: bool,
    progress: RunProgress = lambda *_: None,
) -> Path:
    """Write the bundle of a run or a sweep and return its path.

    - target: the path of the bundle. None: a file in the current folder that is named after the directory.
    - licence: the URL of the licence, or empty.
    - with_pcaps: include captures, and tables that are made from captures.

    Raises MprunError if the run is incomplete, or if its inputs were changed.
    """
    runs = runs_by_place(source)
    for done, run in enumerate(runs.values()):
        progress("checking", done / len(runs), f"{done} of {len(runs)} runs")
        refuse_changes(run)
        if not run.has_tables:
            restore_tables(run)
    progress("packing", 1.0, "")
    files: dict[str, Content] = {}
    note = ""
    if isinstance(source, SweepDirectory):
        if not runs:
            raise MprunError(f"{source.path}: none of its runs has ended: there is nothing to bundle")
        files |= _files(source.folder, _OF_SWEEP)
        summary = read_summary(source)
        if not source.has("summary.json"):
            files |= {
                "summary.json": _to_json(summary.to_json()),
                "tables/cells.parquet": table.pack(read_table(source)),
            }
        if summary.status == INCOMPLETE:
            note = f"Incomplete: {tell_progress(summary)}"
    for place, run in runs.items():
        patterns = (*(_OF_RUN if place == ALONE else _OF_MANY), *(("pcap/*.pcap",) if with_pcaps else ()))
        found = _files(run.folder, patterns)
        if not with_pcaps:
            # these tables are as large as the captures from which they are made
            left_out = {f"tables/{name}.parquet" for name in FROM_CAPTURES}
            found = {name: content for name, content in found.items() if name not in left_out}
        files |= {str(PurePosixPath(place, name)): content for name, content in found.items()}
    artifacts = {place: {name: digest_of(run, name) for name in run.artifacts()} for place, run in runs.items()}
    is_sweep = isinstance(source, SweepDirectory)
    name = source.name if isinstance(source, SweepDirectory) else source.long_name
    files[ARTIFACTS] = _to_json(PLAIN.write(Artifacts("sweep" if is_sweep else "run", name, artifacts)))
    environments = [run.environment() for run in runs.values() if run.has("environment.json")]
    for environment in environments:
        files |= describe_recipe(environment.kernel.digest)
    about = _about(name, note, runs, environments, licence)
    sizes = {name: len(one) if isinstance(one, bytes) else _size(one) for name, one in files.items()}
    files[METADATA] = _to_json(describe(about, sizes))
    path = target or Path(f"{name}{SUFFIX}")
    write_archive(path, files)
    return path


def _files(folder: Folder, patterns: tuple[str, ...]) -> dict[str, Content]:
    return {name: partial(folder.open, name) for pattern in patterns for name in folder.find(pattern)}


def _size(content: Callable[[], BinaryIO]) -> int:
    with content() as file:
        return os.fstat(file.fileno()).st_size


def _about(
    name: str,
    note: str,
    runs: dict[str, RunDirectory],
    environments: list[RunEnvironment],
    licence: str,
) -> Description:
    texts: list[str] = []
    for run in list(runs.values())[:1]:
        if run.has_resolved_inputs:
            spec = load(*run.resolved_inputs).spec
            texts = [text for text in (spec.experiment.description, spec.topology.description) if text]
    stamp = _STAMP.match(name)
    kernels: dict[str, str] = {}
    tools: dict[str, str] = {}
    for environment in environments:
        kernel = environment.kernel
        words = f"{kernel.version}, digest {kernel.digest}" if kernel.digest else kernel.version
        kernels[kernel.name or "of the machine"] = words
        tools |= {name: text.splitlines()[0] if text else "" for name, text in environment.versions.items()}
    return Description(
        name=name,
        text=". ".join(filter(None, [*texts, note])) or f"An experiment of mprun with {len(runs)} runs",
        date="-".join(stamp.groups()) if stamp else "1970-01-01",
        licence=licence,
        version=version("mprun"),
        kernels=kernels,
        tools=tools,
    )


def digest_of(run: RunDirectory, name: str) -> str:
    """Return the SHA-256 of an artifact of a run, as a bundle lists it."""
    with run.folder.open(name) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
