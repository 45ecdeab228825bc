# SPDX-License-Identifier: Apache-2.0
"""Run directories and sweeps that a stranger made, and mprun as a user calls it on them."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import click

from mprun.cli import group
from mprun.errors import MprunError
from mprun.sweep.study import name_folder

# A run of the virtual engine: two flows over two paths, with a capture and all samples.
RUN = Path(__file__).parent / "outputs" / "run"
NAME = "20260101-000000-two-fetch-05497f2a"
# What reads a run, with the arguments around its directory.
VERBS: dict[str, tuple[str, ...]] = {
    "report": ("report", "RUN"),
    "show": ("show", "RUN"),
    "runs list": ("runs", "list", "-o", "PARENT"),
    "compare": ("compare", "RUN", "RUN"),
    "export": ("export", "--csv", "RUN"),
    "plan --diff": ("plan", "--diff", "RUN", "RUN"),
    "packets": ("packets", "RUN"),
    "bundle": ("bundle", "RUN", "--to", "PARENT/bundle.zip"),
}


@dataclass(frozen=True)
class Called:
    """How a call ended. error: of mprun's own, which a user sees as one line."""

    status: int
    text: str
    error: MprunError | None = None


def call(*words: str) -> Called:
    """Call mprun in this process. What is neither an answer nor an error of its own is raised."""
    said = io.StringIO()
    error = None
    with redirect_stdout(said), redirect_stderr(said):
        try:
            status = group.main(list(words), standalone_mode=False) or 0
        except MprunError as found:
            status, error = found.exit_code, found
        except click.ClickException as refused:
            status = refused.exit_code
            said.write(refused.format_message())
        except SystemExit as end:
            status = int(end.code or 0)
    return Called(status, said.getvalue() + (f"{error}\n" if error else ""), error)


def call_verb(verb: str, run: Path) -> Called:
    """One of VERBS on a run."""
    return call(*(word.replace("RUN", str(run)).replace("PARENT", str(run.parent)) for word in VERBS[verb]))


def copy_run(parent: Path, name: str = NAME) -> Path:
    """A copy of the run, which may be changed."""
    shutil.copytree(RUN, parent / name)
    return parent / name


def make_sweep(parent: Path) -> Path:
    """A sweep of two cells, each with the run."""
    sweep = parent / "20260101-000000-two-fetch-0a1b2c3d-sweep"
    cells = []
    for value in ("cubic", "reno"):
        folder = name_folder((("cc", value),))
        copy_run(sweep / "runs" / folder, "1")
        repeat = {"seed": 1, "least": 1, "most": 1, "vary": [], "until": None}
        place = {"engine": "virtual", "kernel": "default"}
        cells.append({"values": {"cc": value}, "folder": folder, "repeat": repeat, **place})
    shutil.copytree(RUN / "inputs", sweep / "inputs")
    record = {
        **{"format": 1, "title": "two-fetch", "digest": "0" * 64, "cells": cells, "axes": ["cc"], "across": []},
        **{"kernels": {"default": {"version": "6.12", "digest": "0" * 64}}, "plots": []},
    }
    (sweep / "sweep.json").write_text(json.dumps(record))
    return sweep


def files_of(folder: Path) -> Iterator[Path]:
    """All that is below a folder, links not followed."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path
