# SPDX-License-Identifier: Apache-2.0
"""Files of this machine that change during a run: the run does not change, says so, and a sweep makes it again."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mprun.engines import agent_code
from mprun.machine.changed_files import watched
from tests.scenes import ONE_PATH, copy_kernel
from tests.stored_runs import PACKAGE, _imported
from tests.system.conftest import call, digests_of, environment

pytestmark = pytest.mark.fresh
EXPERIMENT = """\
version: 1
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s}]
capture: [{host: client}]
"""
Change = Callable[[Path], object]


def touch(path: Path) -> None:
    os.utime(path)


def replace(path: Path) -> None:
    """Write the file again under another name, and give it this one, as ldconfig(8) and dpkg(1) do."""
    new = path.with_name(f".{path.name}.new")
    shutil.copy2(path, new)
    new.replace(path)


CHANGES: dict[str, Change] = {"touched": touch, "replaced": replace, "removed": Path.unlink}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_a_folder_is_seen(name: str, tmp_path: Path) -> None:
    (tmp_path / "libc.so.6").write_text("libc")
    with watched([tmp_path, tmp_path / "no-such-folder"]) as watch:
        (tmp_path / "libc.so.6").read_text()
        assert watch.take() is None
        CHANGES[name](tmp_path / "libc.so.6")
        changed = watch.take()
        assert changed is not None
        assert str(tmp_path / "libc.so.6") in changed.paths
        assert watch.take() is None


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_file_is_seen_and_no_file_beside_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "linux"
    path.write_text("kernel")
    with watched([path, tmp_path / "no-such-file"]) as watch:
        (tmp_path / "symbols").write_text("new")
        assert watch.take() is None
        CHANGES[name](path)
        changed = watch.take()
        assert changed is not None
        assert changed.paths == (str(path),)


def test_the_folders_of_the_agent_are_watched() -> None:
    own = list((PACKAGE / "agent").rglob("*.py"))
    read = {str(path.relative_to(PACKAGE).parent) for path in _imported(own, PACKAGE)}
    assert read <= set(agent_code.FOLDERS)


@pytest.fixture
def scene(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Return an environment with a kernel of its own, and a file in the kernel's folder, which runs read."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    copy_kernel(tmp_path / "cache")
    return environment(XDG_CACHE_HOME=str(tmp_path / "cache")), tmp_path / "cache/mprun/kernels/it/bulk.so"


@contextmanager
def changing(path: Path, change: Change, runs: Path) -> Iterator[None]:
    """Change a file while the agent of the next run below `runs` works. The run is made in the block."""
    begun, has_ended = set(runs.rglob("logs/agent.log")), threading.Event()

    def wait() -> None:
        while not has_ended.wait(0.01):
            if set(runs.rglob("logs/agent.log")) - begun:
                change(path)
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@pytest.mark.parametrize("name", ["touched", "replaced"])
def test_a_run_says_that_a_file_changed(name: str, scene: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    env, path = scene
    files = ("-t", "topo", "-x", "xp", "-o", tmp_path / "runs", "--json")
    beside = path.with_name("not-read")
    beside.write_text("")
    with changing(beside, CHANGES[name], tmp_path / "runs"):
        calm = call(*files, cwd=tmp_path, env=env)
    assert calm.status == 0, calm.out + calm.err
    assert not (calm.run / "changed.json").exists()
    with changing(path, CHANGES[name], tmp_path / "runs"):
        disturbed = call(*files, cwd=tmp_path, env=env)
    assert str(path) in json.loads((disturbed.run / "changed.json").read_text())["paths"]
    assert any("of this machine changed during the run" in text for text in disturbed.summary["warnings"])
    assert disturbed.summary["metrics"] == calm.summary["metrics"]
    assert {k: v for k, v in digests_of(disturbed.run).items() if k != "summary.json"} == {
        k: v for k, v in digests_of(calm.run).items() if k != "summary.json"
    }


def test_a_sweep_makes_a_disturbed_run_again(scene: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    env, path = scene
    (tmp_path / "xp.yaml").write_text(EXPERIMENT + "repeat: {runs: 3}\n")
    words = ("sweep", "-t", "topo", "-x", "xp", "-o", tmp_path / "runs", "-j", "1")
    with changing(path, replace, tmp_path / "runs"):
        done = call(*words, cwd=tmp_path, env=env)
    assert done.status == 0, done.out + done.err
    assert "changed meanwhile; making it again" in done.out + done.err
    assert not list((tmp_path / "runs").rglob("changed.json"))
