# SPDX-License-Identifier: Apache-2.0
"""The phases of `make test`: none hides the other, and tests in real time have the machine to themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.part import is_chosen
from tests.phases import ROOT

pytestmark = pytest.mark.slow
# Each test starts what the counter takes for an engine. Those of the second file see whether the first phase has ended.
SHARED = """\
import pathlib, subprocess, time
def test_good():
    subprocess.run(["true", "MPRUN_BOOT=it", "time-travel=inf-cpu"])
    time.sleep(0.5)
    pathlib.Path("ended").touch()
def test_bad():
    assert False, "bad beside others"
"""
ALONE = """\
import pathlib, pytest, subprocess
pytestmark = pytest.mark.alone
def test_good():
    subprocess.run(["true", "MPRUN_BOOT=it"])
    assert pathlib.Path("ended").exists()
def test_bad():
    assert False, "bad alone"
@pytest.mark.long
def test_long():
    assert False, "not asked for"
"""
# What stands for make(1).
LINT = """\
#!/bin/sh
echo "$*" >{folder}/begun
sleep 5
touch {folder}/ended
echo line 1
echo line 2
exit 3
"""


# Workers count the runs, and each takes half a second of CPU time. A test that counts nothing has none.
WITHOUT_WORKERS = ("-n", "0")


def run(folder: Path, *words: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run the phases on these files in a folder, which has the cache too, and programs that replace others."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    argv = [
        sys.executable,
        "-m",
        "tests.phases",
        "-c",
        str(ROOT / "setup.cfg"),
        "-p",
        "no:cacheprovider",
        str(folder),
        *words,
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    env["PATH"] = f"{folder}:{env['PATH']}"
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=100)


def test_a_failure_in_one_phase_does_not_hide_the_other(tmp_path: Path) -> None:
    done = run(tmp_path, one=SHARED, two=ALONE, three="import nosuch\n")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"^E +AssertionError: (bad.*)$", done.stdout, re.MULTILINE) == ["bad beside others", "bad alone"]
    assert re.findall(r"(\d) passed", done.stdout) == ["1", "1"]
    assert "not asked for" not in done.stdout
    assert done.stdout.endswith("1 runs in simulated time, 1 in real time\n")
    assert "slowest of 4 tests" in done.stdout
    (kept,) = (tmp_path / "cache").rglob("tests.json")
    known = {name.rpartition("/")[2]: test for name, test in json.loads(kept.read_text()).items()}
    assert {name: test["runs"] for name, test in known.items()} == {
        "test_one.py::test_good": 1,
        "test_one.py::test_bad": 0,
        "test_two.py::test_good": 1,
        "test_two.py::test_bad": 0,
    }
    assert known["test_one.py::test_good"]["seconds"] >= 0.5


def test_the_second_phase_alone_can_fail_and_all_can_pass(tmp_path: Path) -> None:
    good = ALONE.replace('assert False, "bad alone"', "pass")
    (tmp_path / "ended").touch()
    assert run(tmp_path, *WITHOUT_WORKERS, two=good).returncode == 0
    done = run(tmp_path, *WITHOUT_WORKERS, one=SHARED.split("def test_bad")[0], two=ALONE)
    assert done.returncode == 1
    assert "bad alone" in done.stdout


def test_a_run_in_real_time_beside_others_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder: durations cannot be kept, which is no fault\n")
    done = run(tmp_path, one=SHARED.split("def test_bad")[0].replace(', "time-travel=inf-cpu"', ""))
    assert done.returncode == 1
    assert re.search(
        r"test_one\.py::test_good: runs in real time \(\.\.\. .*\): mark it with pytest\.mark\.alone\n$", done.stdout
    )


def test_a_difference_in_the_store_is_a_fault_and_empties_it(tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "mprun" / "tests" / "runs" / "entry"
    kept.mkdir(parents=True)
    good = "import os\ndef test_good():\n    open(os.environ['MPRUN_TESTS_RUNS'], 'a').write('{}')\n"
    done = run(tmp_path, *WITHOUT_WORKERS, one=good.format("taken t.py::test_good (call)\\tkey\\n"))
    assert done.returncode == 0, done.stdout
    assert "1 runs taken from the store, 0 kept there; 0 in the store made again (seed " in done.stdout
    assert kept.exists()
    done = run(tmp_path, *WITHOUT_WORKERS, one=good.format("differs t.py::test_good (call)\\tkey agent.json\\n"))
    assert done.returncode == 1
    assert done.stdout.endswith("t.py::test_good: a run in the store differs: key agent.json; the store is emptied\n")
    assert not kept.exists()


def test_each_long_test_is_chosen_by_some_digest_and_not_by_all(tmp_path: Path) -> None:
    chosen = [n for n in range(100) if is_chosen("test_two.py::test_long", str(n))]
    assert 4 < len(chosen) < 30
    another = next(n for n in range(100) if n not in chosen)
    good = ALONE.split("def test_bad")[0] + ALONE[ALONE.index("@pytest.mark.long") :]
    (tmp_path / "ended").touch()
    told = [run(tmp_path, *WITHOUT_WORKERS, "--part", str(n), two=good).stdout for n in (chosen[0], another)]
    assert ["not asked for" in one for one in told] == [True, False]


def test_linters_run_beside_the_first_phase_only_and_their_output_comes_last(tmp_path: Path) -> None:
    """The first phase sees the linters begin, and the second phase finds that they have ended."""
    lint = tmp_path / "make"
    lint.write_text(LINT.format(folder=tmp_path))
    lint.chmod(0o755)
    first = "import pathlib\ndef test_it():\n    assert 'lint' in pathlib.Path('begun').read_text()\n"
    second = ALONE.split("def test_bad")[0]
    done = run(tmp_path, *WITHOUT_WORKERS, "--lint", one=first, two=second)
    assert re.findall(r"(\d) passed", done.stdout) == ["1", "1"]
    assert done.stdout.endswith("in real time\nline 1\nline 2\n")
    assert done.returncode == 1


def test_the_second_phase_reads_only_files_with_tests_of_its_own(tmp_path: Path) -> None:
    for name, text in {"one": SHARED.split("def test_bad")[0], "two": ALONE, "three": "def test_it(): pass\n"}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    words = ["-c", str(ROOT / "setup.cfg"), "-p", "no:cacheprovider", "-q", str(tmp_path)]
    program = (
        f"from tests.phases import *\ntimes = Times()\nrun_phase(SHARED, False, {words}, times)\nprint(times.files)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith(f"\n{ {str(tmp_path / 'test_two.py')} }\n")


def test_nothing_to_run_is_no_success(tmp_path: Path) -> None:
    assert run(tmp_path, *WITHOUT_WORKERS).returncode == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tests",), "no target 'tests': did you mean 'make test'?"),
        (("labs",), "no target 'labs': did you mean 'make lab'?"),
        (("lab", "02"), "'make lab' runs lab 01; for others: . .venv/bin/activate; mprun lab run 02"),
    ],
)
def test_a_folder_is_no_target(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
