# SPDX-License-Identifier: Apache-2.0
"""Files from a stranger, and calls of mprun on these files as a user makes them.

The cases are lists in the modules of this package, one for each kind of file. The tests run them, and
`benchmarks/hostile.py` prints the result of each for the stranger.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import polars

from mprun.cli import group
from mprun.errors import MprunError
from mprun.safety.text import printable
from mprun.sweeps.study import name_folder

# A run of the virtual engine: two flows over two paths, with a capture and all samples.
RUN = Path(__file__).parents[1] / "outputs" / "run"
NAME = "20260101-000000-two-fetch-05497f2a"
# Commands that read a run, with the arguments around its directory.
VERBS: dict[str, tuple[str, ...]] = {
    "report": ("report", "RUN"),
    "show": ("show", "RUN"),
    "runs list": ("runs", "list", "-o", "PARENT"),
    "runs list as a page": ("runs", "list", "-o", "PARENT", "--html", "PARENT/list.html"),
    "compare": ("compare", "RUN", "RUN"),
    "export": ("export", "--csv", "RUN"),
    "plan --diff": ("plan", "--diff", "RUN", "RUN"),
    "packets": ("packets", "RUN"),
    "bundle": ("bundle", "RUN", "--to", "PARENT/bundle.zip"),
}
# The commands that draw figures, which takes two seconds.
DRAWING = ("report", "bundle")


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set variables of the environment during the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@dataclass(frozen=True)
class Called:
    """The end of a call. error: an error of mprun, which a user sees as one line. cpu_s:

    CPU time, programs included.
    """

    status: int
    text: str
    error: MprunError | None = None
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Finding:
    """The end of an attempt.

    - gets: the stranger's result, in words
    - harm: the damage; empty if none
    - cpu_s: CPU time of mprun
    """

    gets: str
    harm: str = ""
    cpu_s: float = 0.0


def first_line(called: Called) -> str:
    """Return the first line of an answer, or the error."""
    text = str(called.error) if called.error else called.text
    return text.strip().partition("\n")[0][:160] or "no output"


def call(*words: str) -> Called:
    """Call mprun in this process. Any exception that is no error of mprun is raised."""
    # some commands print bytes
    printed = io.BytesIO()
    said = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    error = None
    before_s = used_s()
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
    answer = printed.getvalue().decode(errors="replace")
    # as `mprun.cli.main` prints it
    return Called(status, answer + (f"{printable(str(error))}\n" if error else ""), error, used_s() - before_s)


def used_s() -> float:
    """Return the CPU time of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def call_verb(verb: str, run: Path) -> Called:
    """Call a command of VERBS on a run."""
    return call(*(word.replace("RUN", str(run)).replace("PARENT", str(run.parent)) for word in VERBS[verb]))


def copy_run(parent: Path, name: str = NAME) -> Path:
    """Return a copy of the run, which may be changed."""
    shutil.copytree(RUN, parent / name)
    return parent / name


def make_sweep(parent: Path) -> Path:
    """Return a sweep of two cells, each with the run."""
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
    """Yield all files below a folder, without following links."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path


def damage(run: Path, draw: random.Random) -> str:
    """Change one file of a run: its bytes, its length, or its kind. Return a description of the change.

    Some runs lose their tables first, so that commands read the record and the outputs again.
    """
    if draw.random() < 0.3:
        shutil.rmtree(run / "tables")
    name = draw.choice(sorted(str(path.relative_to(run)) for path in files_of(run)))
    path = run / name
    data = bytearray(path.read_bytes())
    how = draw.choice(("bytes", "bytes", "value", "value", "truncate", "empty", "remove", "folder", "twice"))
    if how == "remove":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "value" and path.suffix in VALUES:
        path.write_bytes(VALUES[path.suffix](bytes(data), draw))
    elif how == "truncate":
        path.write_bytes(data[: draw.randrange(len(data) + 1)])
    elif how == "twice":
        path.write_bytes(data * 2)
    elif how == "empty" or not data:
        path.write_bytes(b"")
    else:
        for _ in range(draw.choice((1, 4, 30))):
            data[draw.randrange(len(data))] = draw.choice((0, 0xFF, draw.randrange(256), ord(draw.choice('0{}[],":-'))))
        path.write_bytes(data)
    return f"{name}: {how}"


def _damage_json(data: bytes, draw: random.Random) -> bytes:
    return json.dumps(_damage_value(json.loads(data), draw)).encode()


def _damage_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines()
    n = draw.randrange(len(lines))
    return b"\n".join([*lines[:n], _damage_json(lines[n], draw), *lines[n + 1 :]])


def _damage_output(data: bytes, draw: random.Random) -> bytes:
    """Damage the output of a program: a JSON text, or lines of words."""
    if data.startswith(b"{"):
        return _damage_json(data, draw)
    words = data.split(b" ")
    words[draw.randrange(len(words))] = str(draw.choice(ODD)).encode()
    return b" ".join(words)


def _damage_record(data: bytes, draw: random.Random) -> bytes:
    """Damage the entries before they are compressed, so that the compression stays valid."""
    made = bytearray(gzip.decompress(data))
    for _ in range(draw.choice((1, 4, 30))):
        at = draw.randrange(len(made))
        made[at : at + draw.choice((0, 1, 4))] = draw.choice((b"\0", b"\xff", b"\xff\xff\xff\x7f", draw.randbytes(4)))
    return gzip.compress(made)


def _damage_table(data: bytes, draw: random.Random) -> bytes:
    """Return a valid table with odd values in a column, without the column, or with another type."""
    frame = polars.read_parquet(data)
    column = draw.choice(frame.columns)
    odd = draw.choice((None, True, -1, 0, 1 << 62, -(1 << 63), 1e308, float("nan"), float("inf"), "", "x\x1b[2J", [1]))
    if draw.random() < 0.1:
        made = frame.drop(column)
    elif draw.random() < 0.3:
        made = frame.with_columns(polars.lit(odd, allow_object=False).alias(column))
    else:
        where = polars.int_range(polars.len()) == draw.randrange(max(frame.height, 1))
        kept = polars.col(column)
        value = (
            polars.lit(odd).cast(frame.schema[column], strict=False) if not isinstance(odd, list) else polars.lit(None)
        )
        made = frame.with_columns(polars.when(where).then(value).otherwise(kept).alias(column))
    if draw.random() < 0.1:
        made = made.clear()
    packed = io.BytesIO()
    made.write_parquet(packed)
    return packed.getvalue()


# by the ends of file names: functions that change values and keep the form of files
VALUES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _damage_json,
    ".jsonl": _damage_lines,
    ".out": _damage_output,
    ".gz": _damage_record,
    ".parquet": _damage_table,
}
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1e308, 10**30, "", "x", [], {}, [[]], {"a": 1}, [None], "\x1b[2J"),
    *("../../x", "NaN", float("nan"), "a" * 5000, -0.5),
)


def _damage_value(value: Any, draw: random.Random) -> Any:
    """Return the value with an odd value somewhere in it, or without a key."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        if draw.random() < 0.1:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: _damage_value(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        n = draw.randrange(len(value))
        return [*value[:n], _damage_value(value[n], draw), *value[n + 1 :]]
    return draw.choice(ODD)
