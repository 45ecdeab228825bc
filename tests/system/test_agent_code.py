# SPDX-License-Identifier: Apache-2.0
"""The agent's modules in one file: all come from there, and a changed source is compiled again."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.engines import agent_code
from mprun.engines.agent_process import Library, find_library, interpreter
from mprun.safety.folder import Folder

# Prints each module that has a source, with True if it came from the file.
REPORT = """
import mprun.agent.main, json
specs = [module.__spec__ for module in sys.modules.values() if getattr(module, "__spec__", None)]
sources = [spec for spec in specs if (spec.origin or "").endswith(".py")]
print(json.dumps({spec.name: type(spec.loader).__name__ == "_PackedLoader" for spec in sources}))
"""
# Python imports these before it reads its first line, or for the file itself.
BEFORE = ("encodings", "importlib", "warnings")


def start(tmp_path: Path, library: Library) -> str:
    (tmp_path / "orders").mkdir()
    return agent_code.prepare(library, Folder(tmp_path / "orders"), str(tmp_path / "orders"))


def run(text: str) -> subprocess.CompletedProcess[str]:
    words = [str(interpreter()), "-I", "-S", "-B", "-c", text]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_agent_imports_every_module_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = find_library()
    place = tmp_path / "lib"
    place.mkdir()
    (place / "mprun").symlink_to(library.package)
    (place / "mininet").symlink_to(library.mininet)
    monkeypatch.setattr("mprun.model.engine_paths.LIBRARY", str(place))
    done = run(f"{start(tmp_path, library)}sys.path.insert(0, '{place}')\n{REPORT}")
    assert done.returncode == 0, done.stderr
    packed = json.loads(done.stdout)
    assert packed["mprun.agent.main"]
    others = [name for name, is_packed in packed.items() if not is_packed and name.partition(".")[0] not in BEFORE]
    assert others == []


def test_a_changed_source_is_compiled_again(tmp_path: Path) -> None:
    library = find_library()
    package = tmp_path / "own/mprun"
    for name in ("__init__.py", "agent/__init__.py", "agent/packed_code.py", "model/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text((library.package / name).read_text())
    (package / "agent/main.py").write_text("print('first')\n")
    mine = replace(library, package=package)
    text = "import mprun.agent.main"
    assert run(start(tmp_path, mine) + text).stdout == "first\n"
    (tmp_path / "orders/code").unlink()
    (tmp_path / "orders").rmdir()
    (package / "agent/main.py").write_text("print('second, with another length')\n")
    os.utime(package / "agent/main.py", (2e9, 2e9))
    assert run(start(tmp_path, mine) + text).stdout == "second, with another length\n"
