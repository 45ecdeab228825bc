# SPDX-License-Identifier: Apache-2.0
"""Pages with step-by-step instructions: the test types their commands and compares the output with the page."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from mprun.kernel.store import find_kernel
from tests.forked import write_program
from tests.pages import BLOCK, NAMED
from tests.system.conftest import ROOT, environment

PAGES = (
    "README",
    "docs/start",
    "docs/labs",
    "docs/own-programs",
)
# Commands replaced here, because the tests' environment has the set-up already.
INSTEAD = {"make lab": "mprun lab run 01"}
# Rates, delays and shares come from simulated time. They are equal to the last digit with the tools and the kernel of
# the pages. With other tools, rates are nearly equal.
RATE = re.compile(r"([0-9.]+) Mbit/s")
FIGURE = re.compile(r"([0-9.]+) (?:ms|%)(?=\s|$)")
MADE_WITH = ("iperf 3.12", "6.12.117-mprun")
TOLERANCE = 0.02


@pytest.mark.parametrize("name", PAGES)
def test_page_can_be_followed(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    write_program(folder)
    env = environment(PATH=f"{folder}:{os.environ['PATH']}")
    place = tmp_path / "place"
    place.mkdir()
    typed = 0
    for language, text in BLOCK.findall((ROOT / f"{name}.md").read_text()):
        named = NAMED.match(text)
        if language in ("yaml", "python", "c") and named:
            with (place / named[2]).open("a" if named[1] else "w") as file:
                file.write(text)
        for command, said in _steps(text) if language == "console" else ():
            if command.startswith("cd "):
                place /= command.removeprefix("cd ")
                continue
            done = subprocess.run(
                INSTEAD.get(command, command),
                shell=True,
                cwd=place,
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
            )
            if done.returncode and "pip install" in command and "Connection" in done.stderr:
                pytest.skip("this machine reaches no registry of Python packages")
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            _compare(command, said, done.stdout)
            typed += 1
    assert typed


def _steps(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block and its expected lines. `...` stands for any lines."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, [line for line in said if line != "..."]) for command, *said in map(str.splitlines, parts)]


def _compare(command: str, said: list[str], output: str) -> None:
    """Check that each line occurs, in this order: the same words and rates, and the same delays and shares.

    Other numbers and digests may differ.
    """
    lines = iter(output.splitlines())
    for wanted in said:
        found = next((line for line in lines if _words(line).startswith(_words(wanted))), None)
        assert found is not None, f"{command} does not say {wanted!r}:\n{output}"
        rates = zip(RATE.findall(wanted), RATE.findall(found), strict=True)
        for one, other in rates:
            allowed = 0.0 if is_made_with() else TOLERANCE
            assert float(other) == pytest.approx(float(one), rel=allowed), f"{command}: {wanted!r}, now {found!r}"
        if is_made_with():
            figures = zip(FIGURE.findall(wanted), FIGURE.findall(found), strict=True)
            assert all(one == other for one, other in figures), f"{command}: {wanted!r}, now {found!r}"


@cache
def is_made_with() -> bool:
    """Return whether the pages' figures were measured with this machine's tools and kernel."""
    said = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=True).stdout
    tool, kernel = MADE_WITH
    return said.startswith(f"{tool} ") and find_kernel().version == kernel


def _words(line: str) -> str:
    return " ".join(re.sub(r"\b[0-9a-f]{8}\b|\d[\d.]*", "#", line).split())
