# SPDX-License-Identifier: Apache-2.0
"""Completions that a shell offers on the tab key."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mprun.cli import COMMANDS, completion, group
from tests.hostile import make_sweep

ROOT = Path(__file__).parents[2]
RUN_COMMANDS = ("compare", "show", "verify", "packets", "report", "bundle", "export")
LABS = sorted(path.parent.name for path in ROOT.glob("labs/*/lab.yaml"))


def _offered(*words: str) -> list[str]:
    """Return the completions of the last word."""
    shell = ShellComplete(group, {}, "mprun", "_MPRUN_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands() -> None:
    assert _offered("") == list(COMMANDS)
    assert _offered("ru") == ["run", "runs"]
    assert _offered("runs", "") == ["list", "rm"]


def test_options_of_run_need_no_command() -> None:
    assert {"--version", "-t", "--engine", "--help"} <= set(_offered("-"))
    assert len(_offered("-")) == len(set(_offered("-")))
    assert _offered("-t", "topo", "--ker") == ["--kernel"]
    assert _offered("-t", "topo", "--engine", "v") == ["virtual"]


def test_labs_by_number_and_by_name() -> None:
    assert _offered("lab", "run", "") == [name.split("_")[0] for name in LABS]
    assert _offered("lab", "show", LABS[0][:4]) == [LABS[0]]


def test_runs_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _offered("show", "") == []
    names = [f"20261121-12000{n}-topo-xp-0123abcd" for n in range(3)]
    for name in names:
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert _offered("show", "") == ["latest", *reversed(names)]
    assert _offered("verify", "l") == ["latest"]
    assert _offered("show", "-o", "elsewhere", "") == []


def test_steps_of_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _offered("show", "01/") == ["01/xp_tcp", "01/xp_mptcp"]
    assert _offered("compare", "01/xp_tcp", "01/xp_m") == ["01/xp_mptcp"]
    assert _offered("report", "99/") == []
    monkeypatch.chdir(ROOT / "labs" / "01_multipath")
    assert _offered("packets", "-o", str(tmp_path), "xp_t") == ["xp_tcp"]


@pytest.mark.parametrize("words", [(name,) for name in RUN_COMMANDS] + [("runs", "rm")])
def test_every_command_of_a_run_is_offered_them(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "20261121-120000-topo-xp-0123abcd").mkdir(parents=True)
    assert "latest" in _offered(*words, "l")


def test_counters_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _offered("show", "--counters", "Tcp") == []
    for number, name in enumerate(("TcpInSegs", "TcpOutSegs")):
        run = tmp_path / "runs" / f"20261121-12000{number}-topo-xp-0123abcd"
        run.mkdir(parents=True)
        (run / "plan.json").touch()
        report = {"error": None, "complete": True, "counters": {"a": {name: 1}}, "counters_before": {"b": {"IpMTU": 1}}}
        (run / "agent.json").write_text(json.dumps(report))
    (tmp_path / "runs" / "latest").symlink_to("20261121-120001-topo-xp-0123abcd")
    assert _offered("show", "--counters", "") == ["IpMTU", "TcpOutSegs"]
    assert _offered("show", "20261121-120000-topo-xp-0123abcd", "--counters", "T") == ["TcpInSegs"]


def test_parameters_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topo.yaml").write_text("version: 1\nparams: {rate: 20mbit, rtt: 40ms}\ntopology: multi-path\n")
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nparams: {cc: cubic}\nmatrix: {cc: [cubic, reno], path0.rate: [1mbit]}\n"
    )
    assert _offered("-t", "topo", "-x", "xp", "-p", "") == ["rate=", "rtt=", "cc=", "path0.rate="]
    assert _offered("plan", "-t", "topo", "-x", "xp", "-p", "r") == ["rate=", "rtt="]
    (tmp_path / "xp.yaml").write_text("version: [")
    assert _offered("sweep", "-t", "topo", "-x", "xp", "-p", "r") == ["rate=", "rtt="]


def test_metrics_and_axes_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(ROOT / "tests" / "outputs" / "run", tmp_path / "runs" / "20260101-000000-two-fetch-05497f2a")
    assert "asks.delay.max" in _offered("compare", str(run), "--metric", "asks.")
    assert _offered("compare", "missing", "--metric", "") == []
    sweep = make_sweep(tmp_path / "runs")
    assert _offered("compare", str(sweep), "--by", "") == ["cc"]
    assert _offered("compare", str(sweep), "--metric", "") != []


def test_names_of_a_list_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _offered("runs", "list", "--sort", "") == ["name", "status", "engine", "seed"]
    run = shutil.copytree(ROOT / "tests" / "outputs" / "run", tmp_path / "runs" / "20260101-000000-two-fetch-05497f2a")
    (tmp_path / "runs" / "latest").symlink_to(run.name)
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**environment, "parameters": {"scheduler": "default"}}))
    assert _offered("runs", "list", "--where", "sch") == ["scheduler"]
    assert "asks.delay.max" in _offered("runs", "list", "--sort", "asks.")
    assert _offered("runs", "list", "--columns", "asks.delay.max,sched") == ["asks.delay.max,scheduler"]


def test_tools_and_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _offered("tools", "install", "q") == ["quic"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _offered("-t", "topo", "--kernel", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_one_that_the_shell_reads(shell: str) -> None:
    script = CliRunner().invoke(completion.command, [shell], catch_exceptions=False).output
    assert f"_MPRUN_COMPLETE={shell}_complete" in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed: its script is not read")
    done = subprocess.run([program, "-n"], input=script, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_that_runs_experiments_is_imported() -> None:
    """Completion must not import modules that take long to load."""
    program = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom mprun.cli import group\n"
        "ask = ShellComplete(group, {}, 'mprun', '_MPRUN_COMPLETE').get_completions\n"
        "for words in (['lab', 'run'], ['show'], ['-t', 'topo', '--kernel'], ['-t']): ask(words, '')\n"
        "print(*sorted({'pydantic', 'yaml', 'jinja2', 'polars', 'mininet', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
