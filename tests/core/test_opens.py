# SPDX-License-Identifier: Apache-2.0
"""Files that a stranger may have made are opened only by mprun.safety.folder.

Modules that open files in another way are listed here, each with the reason why a stranger cannot have made the file.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mprun"

# Calls that open, make, remove or rename files, and paths that are read.
NAMES = {"open"}
METHODS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"),
    *("unlink", "mkdir", "rmdir", "makedirs", "rmtree", "copytree", "copyfile", "rglob", "glob"),
    *("iterdir", "scandir", "listdir", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory"),
    *("scan_parquet", "read_parquet", "read_csv", "scan_csv", "memory_map", "mmap"),
}
# Names of variables that hold a Folder, a directory of a run, or an open file. A Path with one of these names is a
# folder and has no text.
FOLDERS = {"folder", "_folder", "run", "sweep", "one", "other", "self", "_found", "bundle"}
TEXTS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
FILES_OPENED = {"file", "BytesIO"}


def is_harmless(call: ast.Call, method: str) -> bool:
    """Return whether a call belongs to mprun.safety.folder or to a file that it opened."""
    assert isinstance(call.func, ast.Attribute)
    receiver = ast.unparse(call.func.value).rpartition(".")[2]
    if method in TEXTS:
        return receiver in FOLDERS
    if method.endswith("_parquet") or method.endswith("_csv"):
        return bool(call.args) and ast.unparse(call.args[0]).rpartition(".")[2].partition("(")[0] in FILES_OPENED
    return False


# The room or the module, and what it opens.
OPENED_ELSEWHERE = {
    "safety/folder.py": "the one module",
    "agent": "inside the engine: what its guest may see",
    "kernel": "the user's cache; of the kernel's own tests also the folder for their output",
    "workloads/built": "the user's cache",
    "bundles/installation.py": "the user's cache, mprun's own list, and a folder that it has unpacked",
    "machine/cache.py": "the user's cache",
    "safety/unchanged_program.py": "the user's cache, and programs in it",
    "machine/scratch.py": "a folder that it makes itself",
    "machine/invoking_user.py": "folders on the command line",
    "machine/version.py": "mprun's own code",
    "machine/packaged.py": "what comes with mprun",
    "machine/machine_kind.py": "/proc",
    "safety/landlock.py": "names files of this machine in rules, and reads none",
    "engines/agent_code.py": "mprun's own code, Mininet's and Python's, compiled",
    "engines/guest.py": "a folder that it makes itself, and /proc",
    "engines/standstill.py": "/proc",
    "engines/debugger.py": "a folder that it makes itself, and /proc",
    "engines/capability.py": "/proc and /sys",
    "engines/virtual.py": "the names of this machine's folders of libraries",
    "inputs/attachment.py": "the user's own files, of which it lists and opens regular ones and follows no link",
    "inputs/named_file.py": "the folder of the file that a user named, to list what is in it",
    "labs/catalog.py": "a lab's folder for a copy, links as they are",
    "labs/grade.py": "lists folders of runs",
    "labs/course/contents.py": "lists the links of a copy that it has made",
    "storage/sweep_directory.py": "the user's folder for results; a new folder in it",
    "storage/run_directory.py": "the user's folder for results; a new folder in it",
    "storage/output_directory.py": "the user's folder for results, and a link in it",
    "storage/look_up.py": "lists folders of runs",
    "storage/index/database.py": "the user's cache",
    "storage/index/listed.py": "lists the user's folder for results",
    "questions/repository.py": "names of files in a user's git directory; mprun.safety.folder opens them",
    "sweeps/cluster.py": "a folder that it makes itself",
    "storage/signature.py": "the user's cache",
    "cli": "files that the command line names",
    "api.py": "the text of a figure, as CSV",
    "bundles/archive.py": "members of an archive that mprun.safety.folder has opened",
}
# Rooms that may use only the calls named here.
ONLY = {
    "storage/run_directory.py": {"path.mkdir", "parent.iterdir", "link.unlink"},
    "storage/output_directory.py": {"shutil.rmtree", "temporary.symlink_to", "temporary.unlink", "link.unlink"},
    "storage/look_up.py": {"parent.iterdir"},
    "storage/sweep_directory.py": {"parent.glob", "shutil.rmtree", "made.mkdir", "parent.iterdir"},
    "sweeps/cluster.py": {"directory.mkdir"},
    "bundles/archive.py": {"archive.open"},
    "api.py": {"polars.read_csv"},
    "storage/index/listed.py": {"os.scandir"},
    "inputs/named_file.py": {"folder.iterdir"},
    "labs/grade.py": {"folder.glob"},
    "questions/baseline.py": {"path.rglob"},
    "labs/course/contents.py": {"copy.rglob"},
    "engines/virtual.py": {"Path(place).glob", "standard.glob"},
}


def opens(path: Path) -> list[str]:
    """Return the calls in a module that may open a file, as they are written, with their line numbers."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if text in NAMES or (method in METHODS and not is_harmless(node, method)):
            found.append(f"{text}:{node.lineno}")
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_opened_by_one_module(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    found = opens(path)
    if name in ONLY:
        assert [one for one in found if one.rpartition(":")[0] not in ONLY[name]] == []
    elif not any(name == listed or name.startswith(f"{listed}/") for listed in OPENED_ELSEWHERE):
        assert found == []


def test_every_exception_is_needed() -> None:
    for name in OPENED_ELSEWHERE:
        part = PACKAGE / name
        files = [part] if part.is_file() else [file for file in FILES if part in file.parents]
        assert any(opens(file) for file in files), f"{name} opens nothing: take it off the list"


def test_commands_open_no_file_of_a_run() -> None:
    """Files that the command line names are opened as they are. Files of a run or a sweep are not."""
    for path in (file for file in FILES if file.parent.name == "cli"):
        for call in opens(path):
            assert not any(word in call for word in ("run.path", "found.path", "sweep.path", "source.path")), call
