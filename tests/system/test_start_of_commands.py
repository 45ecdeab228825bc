# SPDX-License-Identifier: Apache-2.0
"""The heavy modules that a command may import: each is a large part of the time from Enter to the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import COMMAND, LAB, SHORT, environment

OWN = ("mprun.inputs.loading", "mprun.engines.guest")
HEAVY = ("matplotlib", "numpy", "polars", "scipy", "pydantic", "jinja2", "rich", "mininet", "importlib.metadata", *OWN)
# Calls the entry point as the command does, and prints the heavy modules at the end.
PROGRAM = f"""
import atexit, json, sys
import mprun.__main__
atexit.register(lambda: print("\\n" + json.dumps([name for name in {HEAVY!r} if name in sys.modules])))
mprun.__main__.main()
"""
FILES = ("-t", str(LAB / "topo"), "-x", "xp")
# The inputs need pydantic, templates in them Jinja2, and tables polars, which imports importlib.metadata.
INPUTS = {"pydantic", "jinja2", "mprun.inputs.loading"}
TABLES = {"polars", "importlib.metadata"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs."""
    from tests.system.conftest import call

    folder = tmp_path_factory.mktemp("made")
    (folder / "xp.yaml").write_text(SHORT)
    for _ in range(2):
        assert call(*FILES, cwd=folder).status == 0
    return folder


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        # that of the installed package
        (("--version",), {"importlib.metadata"}),
        (("--help",), set()),
        (("show", "--help"), set()),
        (("runs", "list"), set()),
        (("show", "--json"), set()),
        (("show",), TABLES),
        (("compare",), {"pydantic"}),
        (("plan", *FILES), INPUTS),
        (("validate", *FILES), INPUTS),
        # those of other packages are looked for
        (("topology", "list"), {"pydantic", "importlib.metadata"}),
        (("run", *FILES), {*INPUTS, *TABLES, "mprun.engines.guest"}),
        (("verify", "latest"), {*INPUTS, *TABLES, "mprun.engines.guest"}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_command_imports_no_other_heavy_module(made: Path, words: tuple[str, ...], allowed: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, cwd=made, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.splitlines()[-1])) <= allowed


@pytest.mark.parametrize("words", [("run",), ("sweep", "--dry-run"), ("validate",), ("plan",)], ids=lambda w: w[0])
def test_a_terminal_shows_the_files_before_a_heavy_module(made: Path, words: tuple[str, ...]) -> None:
    """The first line is there before anything heavy is imported."""
    program = (
        "import json, sys\n"
        "import mprun.cli.progress as progress\n"
        "sys.stderr.isatty = lambda: True\n"
        "def look(text):\n"
        f"    print(json.dumps([text, [name for name in {(*HEAVY, 'yaml')!r} if name in sys.modules]]))\n"
        "    sys.exit()\n"
        "progress.printable = look\n"
        "from mprun.cli import main\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", program, *words, *FILES]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=made, env=environment())
    assert json.loads(done.stdout) == [f"reading {LAB / 'topo'} and xp", []], done.stderr


def test_the_end_does_not_take_modules_apart() -> None:
    """Python does so at its end by default, and finalizers of what modules have are called."""
    kept = "class Kept:\n  def __del__(self):\n    print('taken apart')\nkept = Kept()\n"

    def call(line: str) -> str:
        words = [sys.executable, "-c", f"{kept}{line}\nit.main()", "--version"]
        return subprocess.run(words, capture_output=True, text=True).stdout

    assert "taken apart" in call("import mprun.cli as it")
    assert call("import mprun.__main__ as it").startswith("mprun ")
    assert "taken apart" not in call("import mprun.__main__ as it")


def test_a_module_of_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise RuntimeError\n")
    called = subprocess.run([*COMMAND, "--version"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert called.returncode == 0, called.stderr
