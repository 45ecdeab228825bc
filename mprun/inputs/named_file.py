# SPDX-License-Identifier: Apache-2.0
"""Find a file that a user or another file names, and read its text. The errors name files with like names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mprun.model.permission import NONE, Permissions
from mprun.model.problem import InputError, InputProblem, find_nearest
from mprun.safety.folder import UnsafeError, open_regular

SUFFIXES = (".yaml", ".yml")
MOST_BYTES = 4 << 20
# Files that mprun writes in the directory of a run or a sweep.
_OF_RUN = ("plan.json", "sweep.json", "summary.json", "environment.json", "agent.json", "calibration.json", "wall.json")


def spell(given: Path | str) -> list[str]:
    """Return the names that a file may have whose name on the command line needs no ending."""
    return [str(given), *(f"{given}{suffix}" for suffix in SUFFIXES)]


def find(given: Path | str) -> str:
    """Return the file of a name on the command line: the name itself, or with .yaml or .yml. Raises InputError."""
    if not str(given):
        raise refusal("''", "names no file: write its name")
    tried = spell(given)
    try:
        for name, path in zip(tried, map(Path, tried), strict=True):
            if path.name in _OF_RUN and path.is_file() and (inputs := path.parent / "inputs").is_dir():
                raise refusal(name, f"is written by mprun in a run: {inputs} has the run's files")
            if path.exists() and not path.is_dir():
                return name
        if folder := next((name for name in tried if Path(name).is_dir()), None):
            inside = _list_yaml_files(Path(folder))
            hint = f"name one of its files: {', '.join(inside[:8])}" if inside else "name a YAML file"
            if (Path(folder) / "plan.json").is_file():
                hint = f"mprun verify --keep {folder} repeats this run, and {folder}/inputs has its files"
            raise refusal(folder, f"is a directory: {hint}")
        raise refusal(str(given), f"no such file: tried {', '.join(tried)}{_name_nearest_file(Path(given))}")
    except (OSError, ValueError) as error:
        raise unreadable(str(given), error) from None


def warn_of_others(given: Path | str, name: str) -> Iterator[InputProblem]:
    """Yield a warning for each other file that the name on the command line could mean, as after `mprun convert`."""
    for other in spell(given)[1:]:
        if other != name and Path(other).is_file():
            message = (
                f"is read, and {Path(other).name} beside it is not: write the whole name, or remove one of the two"
            )
            yield InputProblem(name, None, (), message)


def name_near(origin: Path, name: str) -> str:
    """Return the end of a message about a missing file, which names the file that may be meant.

    This is a file of the same name beside `origin`, the file with the name. Otherwise it has a like name in the missing
    file's folder, or the same name in a folder below.
    """
    beside = origin.parent / name
    folder = beside.parent
    if os.path.lexists(beside):
        return ""
    if os.path.isfile(origin.parent / beside.name):
        return f": did you mean '{beside.name}'?"
    if not folder.is_dir():
        return ""
    there = sorted(one.name for one in folder.iterdir())
    below = [f"{one}/{beside.name}" for one in there if os.path.isfile(folder / one / beside.name)]
    # with its suffix, each name of the same kind would be near
    stems = {Path(one).stem: one for one in there if Path(one).suffix == beside.suffix or not beside.suffix}
    kinds = {Path(one).suffix: one for one in there if Path(one).stem == beside.stem}
    near = stems.get(find_nearest(beside.stem, [*stems]) or "") or next(iter(below), None)
    near = near or kinds.get(find_nearest(beside.suffix, [*kinds]) or "")
    return f": did you mean '{Path(name).with_name('-').parent / near}'?" if near else ""


def _name_nearest_file(given: Path) -> str:
    """The end of a message about a missing file: the nearest name of a YAML file in the same folder, or the file in a
    folder below or above; empty if none.

    The name has a suffix only if the given name has one.
    """
    folder = given.parent
    try:
        there = _list_yaml_files(folder)
    except OSError:
        return _name_nearest_folder(given)
    longer = [one.name for one in sorted(folder.iterdir()) if _is_longer(one.name, given) and one.is_file()]
    if longer:
        return f": '{given.with_name(longer[0])}' is here: rename it to '{given.with_suffix('.yaml')}'"
    stems = [name.rpartition(".")[0] for name in there]
    near = find_nearest(given.name, there if given.suffix in SUFFIXES else [*stems, *there])
    near = near or next((one for one in there if Path(one).stem == given.stem), None)
    if near:
        return f": did you mean '{given.with_name(near)}'?"
    for where, others in (("below", sorted(folder.iterdir())), ("above", [folder / ".."])):
        files = (os.path.normpath(one / name) for one in others for name in spell(given.name))
        if found := [one for one in files if os.path.isfile(one)]:
            return f": one folder {where}: {', '.join(found[:4])}"
    return f"; YAML files here: {', '.join(there[:8])}" if there else ""


def _is_longer(name: str, given: Path) -> bool:
    """Return True for a file that an editor gave a further ending, such as topo.yaml.txt for `topo`."""
    stem = given.stem if given.suffix in SUFFIXES else given.name
    return name.startswith(tuple(f"{stem}{suffix}." for suffix in SUFFIXES)) or name == f"{stem}.txt"


def _name_nearest_folder(given: Path) -> str:
    """The end of a message about a file in a missing folder: the file here, or in a folder that begins so."""
    folder = Path()
    folders = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name.startswith(str(given.parent)))
    files = (folder / inner / name for inner in ("", *folders) for name in spell(given.name))
    near = next((f": did you mean '{file}'?" for file in files if file.is_file()), "")
    return f": no folder '{given.parent}'{near}"


def _list_yaml_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def read_text(path: Path) -> str:
    """The text of a file, at most MOST_BYTES of it. Raises InputError."""
    try:
        with open_regular(path, path, follow=True) as file:
            data = file.read(MOST_BYTES + 1)
    except UnsafeError:
        # a pipe might never end, and the inputs that a run keeps are read a second time
        reason = "is no regular file: write what it gives to one, and name that"
        raise refusal(str(path), "is a directory: name a file" if path.is_dir() else reason) from None
    except (OSError, ValueError) as error:
        raise unreadable(str(path), error) from None
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES >> 20} MB, the most that is read: use a generator for a large topology"
        raise refusal(str(path), message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(str(path), "is not UTF-8 text: save it as UTF-8", line) from None
    if "\0" in text:
        raise refusal(str(path), "is not text: name a text file", text.count("\n", 0, text.index("\0")) + 1)
    return text


def tell_outside(path: Path, given: str, allowed: Permissions = NONE) -> str | None:
    """Return the problem of a named file outside the folder of the file that the user gave; None if it may be named.

    Links that lead out of the folder count. The result does not reveal if the file exists.
    """
    remedy = "copy it there"
    with suppress(OSError, RuntimeError, ValueError):
        folder = Path(given).parent.resolve()
        if allowed.outside or path.resolve().is_relative_to(folder):
            return None
        beside = (folder / path.name).resolve()
        if beside.is_relative_to(folder) and beside.is_file() and beside != Path(given).resolve():
            remedy = f"write '{path.name}', which is there"
    return f"lies outside the folder of {given}: {remedy}, or add --allow-outside"


def unreadable(file: str, error: Exception) -> InputError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return refusal(file, f"cannot be read: {reason.lower()}")


def refusal(file: str, message: str, line: int | None = None) -> InputError:
    return InputError([InputProblem(file, line, (), message)])
