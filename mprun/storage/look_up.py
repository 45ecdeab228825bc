# SPDX-License-Identifier: Apache-2.0
"""Find a run or a sweep by its path, its name, the beginning of its name, its digest, or `latest`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from mprun.errors import SpecError
from mprun.model.problem import find_nearest
from mprun.safety.folder import Folder
from mprun.safety.text import name_some
from mprun.storage import sweep_directory
from mprun.storage.damage import damaged
from mprun.storage.output_directory import OutputDirectory, has_record
from mprun.storage.run_directory import LATEST, RunDirectory, list_runs
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory, list_sweeps

OutputT = TypeVar("OutputT", bound=OutputDirectory)

# Fewer names than this are listed in a message.
FEW = 6


def find_run(parent: Path, name: str) -> RunDirectory:
    """Return a run by any of its names. parent: the folder of runs. Raises SpecError if no run or several match."""
    if found := find_named((RunDirectory,), parent, name, list_runs):
        return found
    for candidate in (Path(name), parent / name):
        if (candidate / "sweep.json").is_file():
            raise SpecError(f"{name} is a sweep: name one of its runs, as in {candidate}/runs/CELL/1")
        if (candidate / "inputs").is_dir():
            record = "sweep.json" if (candidate / "runs").is_dir() else "plan.json"
            raise damaged(candidate / record, "the file is missing")
        if candidate.exists():
            if message := say_bundle(str(candidate)):
                raise SpecError(message)
            is_named_so = candidate.suffix == ".zip"
            what = "has no plan.json" if candidate.is_dir() else "is no bundle" if is_named_so else "is a file"
            inside = [str(candidate / one) for one in _list_inside(candidate, "plan.json")]
            remedy = f"name a run in it: {name_some(inside, 5)}" if inside else "name the directory of a run or a sweep"
            raise SpecError(f"{name} {what}: {remedy}")
    if "/" in name or name.endswith(".zip"):
        above = Path(name).parent
        there = _list_inside(above, "*.json") if "/" in name else []
        archives = Folder(above).find("*.zip") if above.is_dir() else []
        bundles = {one.partition(".")[0]: one for one in archives}
        near = find_nearest(Path(name).name, there) or bundles.get(find_nearest(Path(name).stem, [*bundles]) or "")
        few = f"{above} has {', '.join(there)}" if 0 < len(there) < FEW else "no file or directory has this path"
        hint = f"did you mean '{above / near}'?" if near else few
        raise SpecError(f"no run '{name}' here or in {parent}; {hint}")
    for bundle in (f"{name}.zip", f"{Path(name).stem}.zip"):
        if Path(bundle).is_file():
            raise SpecError(f"no run '{name}' here or in {parent}: did you mean '{bundle}'?")
    if runs := list_runs(parent):
        links = [link for link in (LATEST, sweep_directory.LATEST) if (parent / link).exists()]
        near = find_nearest(name, [*links, *(run.name for run in runs)])
        advice = f"did you mean '{near}'?" if near else "`mprun runs list` lists the runs"
        if name == LATEST:
            advice = f"this link is missing or leads to no run; the newest run is {runs[-1].name}"
        elif name == "latest-sweep":
            advice = "there is no sweep: `mprun sweep` makes one"
    elif sweeps := Folder(parent).find("*-sweep/sweep.json"):
        count = f"{len(sweeps)} sweep{'' if len(sweeps) == 1 else 's'}"
        advice = f"{parent} has {count}: {name_some([one.partition('/')[0] for one in sweeps], 4)}"
    elif below := _list_below(Path()):
        advice = f"there are runs in {', '.join(map(str, below[:4]))}: add -o {below[0]}"
    elif not parent.exists() and parent != Path("runs"):
        advice = f"there is no folder {parent}: name the folder of the runs with -o"
    else:
        advice = "there are no runs: make one with `mprun -t TOPOLOGY -x EXPERIMENT`, or use -o"
    raise SpecError(f"no run '{name}' here or in {parent}; {advice}")


def find_sweep(parent: Path, name: str) -> SweepDirectory:
    """Return a sweep by any of its names, or by `latest-sweep`. Raises SpecError."""
    if found := find_named((SweepDirectory,), parent, name, list_sweeps):
        return found
    raise SpecError(f"no sweep '{name}' here or in {parent}")


def find_either(parent: Path, name: str) -> ResultDirectory:
    """Return a sweep or a run, by any of their names. `latest` is the one with the newest results. Raises SpecError."""
    newest: list[ResultDirectory] = []
    if name == LATEST:
        for look, word in ((find_run, name), (find_sweep, sweep_directory.LATEST)):
            try:
                newest.append(look(parent, word))
            except SpecError:
                # a link to a run that was removed: an older result is not the newest one
                if word == name and os.path.lexists(parent / word):
                    raise
    if newest:
        return max(newest, key=_find_age)
    kinds: Sequence[type[ResultDirectory]] = (SweepDirectory, RunDirectory)
    found = find_named(kinds, parent, name, lambda parent: [*list_runs(parent), *list_sweeps(parent)])
    return found or find_run(parent, name)


def find_named(
    kinds: Sequence[type[OutputT]], parent: Path, name: str, list_known: Callable[[Path], Sequence[OutputT]]
) -> OutputT | None:
    """Return a run or a sweep by any of its names; None if none matches. Raises SpecError if several match."""
    for candidate in (Path(name), parent / name):
        for kind in kinds:
            if has_record(kind, candidate):
                return kind(candidate.resolve())
    matches = [one for one in list_known(parent) if one.name.startswith(name) or one.short_digest == name]
    if len(matches) > 1:
        what = " or ".join(dict.fromkeys(one._kind() for one in matches))
        listed = name_some([one.name for one in matches], 5)
        raise SpecError(f"'{name}' means more than one {what}: write one of {listed}")
    return matches[0] if matches else None


def _find_age(found: ResultDirectory) -> int:
    """Return the time at which a run or a sweep wrote its results, in ns; until then, the time of its record."""
    names = ("summary.json", "plan.json", "sweep.json")
    return found.folder.stat(next(name for name in names if found.has(name))).st_mtime_ns


def _list_inside(folder: Path, record: str) -> list[str]:
    """Return the names of the runs and sweeps in a folder, in order. record: the pattern of their files."""
    records = Folder(folder).find(f"*/{record}") if folder.is_dir() else []
    kept = [one.split("/") for one in records if not one.startswith(".")]
    return list(dict.fromkeys(name for name, file in kept if file in ("plan.json", "sweep.json")))


def _list_below(parent: Path) -> list[Path]:
    """Return the folders of runs of the folders in `parent`, such as those of the parts of a lab."""
    found = []
    for one in sorted(parent.iterdir()):
        with contextlib.suppress(OSError):
            found += [one / "runs"] if list_runs(one / "runs") else []
    return found


def say_bundle(name: str) -> str:
    """Return the message that a file is a bundle, which is no run; empty for any other name."""
    # few operands are no result, and the import is expensive
    import zipfile

    is_bundle = Path(name).is_file() and zipfile.is_zipfile(name)
    return f"{name} is a bundle: `mprun verify {name}` makes its runs again" if is_bundle else ""
