# SPDX-License-Identifier: Apache-2.0
"""Readable names that distinguish the runs or sweeps of a comparison: experiment, cell, or a setting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mprun.errors import MprunError
from mprun.inputs.loading import read_plain
from mprun.model.scalar import Scalar, spell_scalar
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory, title_of

_TIME = re.compile(r"^\d{8}-(\d\d)(\d\d)(\d\d)-")
# The end of the name of a setting that is a parameter.
_PARAMETER = "="
# The most settings in a name.
MOST_SETTINGS = 2


def name_sides(sources: Sequence[ResultDirectory], given: Sequence[str]) -> list[str]:
    """Return a name for each side. All names differ. given: names that are known already, or empty."""
    titles = [source.record.title if isinstance(source, SweepDirectory) else title_of(source) for source in sources]
    short = _shorten(titles)
    names = [name or title for name, title in zip(given, short, strict=True)]
    if len(set(names)) < len(names) and not any(isinstance(source, SweepDirectory) for source in sources):
        names = _add_settings(names, [source for source in sources if isinstance(source, RunDirectory)])
    began = [_TIME.match(source.name) for source in sources]
    names = [
        f"{name}, {':'.join(time.groups())}" if names.count(name) > 1 and time else name
        for name, time in zip(names, began, strict=True)
    ]
    # numbers for those that are still equal
    return [f"{name} ({names[:n].count(name) + 1})" if names.count(name) > 1 else name for n, name in enumerate(names)]


def _shorten(titles: Sequence[str]) -> list[str]:
    """Return titles without the words with which all of them begin, such as the name of the topology."""
    first, last = min(titles), max(titles)
    common = first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)]
    # a common beginning ends before a word, not within one
    start = max((common.rfind(sign) + len(sign) for sign in ("-", ": ", ", ", " ") if sign in common), default=0)
    same = titles[0].partition("-")[2] if len(set(titles)) == 1 and ": " not in titles[0] else ""
    return [same or title[start:] or title for title in titles]


def _add_settings(names: Sequence[str], runs: Sequence[RunDirectory]) -> list[str]:
    """Return the names with the settings in which runs of one name differ, such as `scheduler roundrobin`."""
    settings = [_settings_of(run) for run in runs]
    result = list(names)
    for name, count in Counter(names).items():
        if count > 1:
            alike = [n for n, other in enumerate(names) if other == name]
            for n, words in zip(alike, _tell_apart([settings[n] for n in alike]), strict=True):
                result[n] = ", ".join([name, *words])
    return result


def _tell_apart(settings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return for each run the parameters that change its files, and the first settings that it needs besides.

    A parameter without an equal value in the files, such as a bound, is one of these settings.
    """
    names = list(dict.fromkeys(name for one in settings for name in one))
    differing = [name for name in names if len({str(one.get(name)) for one in settings}) > 1]
    keys = [name for name in differing if not name.endswith(_PARAMETER)]
    used = [
        name
        for name in differing
        if name not in keys and any(all(str(one.get(name)) in str(one.get(key)) for one in settings) for key in keys)
    ]
    chosen: list[str] = []
    groups = 1
    for name in dict.fromkeys([*used, *differing]):
        found = len({tuple(str(one.get(each)) for each in (*chosen, name)) for one in settings})
        if (found > groups or name in used) and len(chosen) < MOST_SETTINGS:
            chosen, groups = [*chosen, name], found
    return [[_spell(name, one.get(name, "-")) for name in chosen] for one in settings]


def _spell(name: str, value: Scalar) -> str:
    """Return a setting as text, such as `cc=cubic` for a parameter and `delay 10ms` for a key of a file."""
    if name.endswith(_PARAMETER):
        return f"{name}{spell_scalar(value)}"
    return f"{name.rpartition('.')[2].replace('_', ' ')} {spell_scalar(value)}"


def _settings_of(run: RunDirectory) -> dict[str, Any]:
    """Return the parameters of a run, and then the values of its files as people write them."""
    try:
        parameters = run.environment().parameters
        return {f"{name}{_PARAMETER}": value for name, value in parameters.items()} | dict(
            _flatten(read_plain(*run.resolved_inputs), "")
        )
    except MprunError:
        return {}


def _flatten(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the plain values of a tree with the names on the way. Descriptions and bounds are no settings."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ("description", "expect", "expectations", "plots", "name"):
                yield from _flatten(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for n, inner in enumerate(value):
            yield from _flatten(inner, f"{name}[{n}]")
    elif isinstance(value, str | int | float | bool):
        yield name, value
