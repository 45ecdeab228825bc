# SPDX-License-Identifier: Apache-2.0
"""Limits on programs of a run inside the experiment kernel: a program that exceeds a limit is ended and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mprun.engines.agent_process import channel, watch
from mprun.engines.guest import Guest, GuestLimits, booted
from mprun.kernel.store import find_kernel
from mprun.storage.run_directory import RunDirectory
from tests.scenes import ONE_PATH
from tests.system.conftest import Result

pytestmark = pytest.mark.fresh

# Four nodes (client, router, server, the wires) and two processes: the ping, which needs no server, and the command.
TASKS = 1000 + 4 * (4 + 2)
BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
# Memory that is allocated at once: 128 MiB a call. A page that is only touched would stop the program each time.
HOG = """\
import mmap
held = []
while True:
    held.append(mmap.mmap(-1, 1 << 27, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))
"""


def run(mprun: Callable[..., Result], folder: Path, *command: str, **options: object) -> Result:
    """Run a command together with a ping, which must not be affected."""
    flows = [
        {"name": "alive", "tool": "ping", "from": "client", "to": "server", "count": 5},
        {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": list(command), **options},
    ]
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(yaml.safe_dump({"version": 1, "probe": {"pings": 0}, "traffic": flows}))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")
    assert result.summary["metrics"]["alive.loss"]["value"] == 0
    return result


def test_a_fork_bomb_is_ended_and_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "python3", "-c", BOMB)
    assert result.status == 1
    assert result.summary["errors"] == [
        f"it: exec ended with status -9 (SIGKILL): had most of the {TASKS} processes and threads that a run may have "
        "at one time, and wanted more"
    ]


def test_a_fork_bomb_of_root_that_hides_is_ended_too(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The first process of the bomb has ended. The bomb has a session of its own, and may set all limits of root."""
    raised = "echo 100000 >/proc/sys/kernel/threads-max; echo 100000 >/proc/sys/kernel/pid_max; ulimit -u unlimited"
    result = run(mprun, tmp_path, "sh", "-c", f"{raised}; setsid setsid python3 -c '{BOMB}' >/dev/null 2>&1 & exit 0")
    assert result.status == 1
    assert [error.split(",")[0] for error in result.summary["errors"]] == [
        f"it: had most of the {TASKS} processes and threads that a run may have at one time"
    ]


def test_a_loop_that_starts_programs_is_ended_in_time(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """No process of the loop lives long, and no clock reading lets time pass."""
    result = run(mprun, tmp_path, "sh", "-c", "while :; do /bin/true; done", timeout="2s")
    assert result.status == 1
    assert result.summary["errors"] == ["it: did not end in time and was stopped after 2s, its 'timeout'"]


def test_tasks_start_at_once_and_then_in_turn(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """2,048 threads start in no time, and then one starts every 10 ms. To start and join costs some microseconds."""
    script = """\
import threading, time
def start(count):
    began = time.monotonic()
    for _ in range(count):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    return time.monotonic() - began
print(start(2048), start(100))
"""
    result = run(mprun, tmp_path, "python3", "-c", script)
    assert result.status == 0, result.err
    at_once_s, late_s = map(float, (result.run / "logs" / "it.out").read_text().split())
    assert at_once_s < 0.1
    assert late_s == pytest.approx(1, abs=0.1)


def test_who_takes_all_memory_is_ended_and_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "python3", "-c", HOG)
    assert result.status == 1
    (error,) = result.summary["errors"]
    assert error.startswith("it: exec ended with status -9 (SIGKILL): needed more than what was left of the 10")
    assert "MB of memory that all programs of a run have together" in error


def test_who_fills_memory_with_files_has_no_room(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """All folders together leave room for programs: /tmp half, /dev/shm a fifth, /run a tenth, others a hundredth."""
    folders = "/tmp /dev/shm /run /dev"
    fill = f"for folder in {folders}; do head -c 1G /dev/zero >$folder/big && exit 7; done; python3 -c 'print(1)'"
    result = run(mprun, tmp_path, "sh", "-c", fill)
    assert (result.status, result.summary["errors"]) == (0, [])
    assert (result.run / "logs" / "it.err").read_text().count("No space left on device") == len(folders.split())


def test_who_writes_too_much_is_ended_and_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The program truncates files to 17 GiB and writes no data. The limit counts the size of a file."""
    script = "head -c 1M /dev/zero >small; truncate -s 15G big; truncate -s 0 big; truncate -s 15G big; echo well; "
    result = run(mprun, tmp_path, "sh", "-c", f"cd /run/mprun/run; {script} truncate -s 17G big; echo still here")
    assert result.status == 1
    assert (result.run / "logs" / "it.out").read_text() == "well\n"
    (error,) = result.summary["errors"]
    assert "it: exec ended with status -9 (SIGKILL): wrote more than what was left of the 17.2 GB" in error
    assert "'snaplen' or 'size'" in error
    (result.run / "big").unlink()


def test_who_prints_without_end_is_ended(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "yes", "x" * 8000)
    assert result.status == 1
    assert result.summary["errors"] == [
        "it: exec ended with status -13 (SIGPIPE): printed more than 4.3 GB, and was ended"
    ]
    assert (result.run / "logs" / "it.out").stat().st_size == 16 << 20


@pytest.fixture
def inside(tmp_path: Path) -> Callable[[str, GuestLimits], str]:
    """Return a function that runs a script in a guest with limits and returns its output.

    The script is the agent, so each of its commands is an entry.
    """
    run = RunDirectory.create(tmp_path, "guest", "0123456789")

    def call(script: str, bounds: GuestLimits) -> str:
        (run.path / "script").write_text(script)
        guest = Guest(
            argv=["/bin/sh", "/run/mprun/run/script"],
            cwd="/run/mprun/run",
            log="/run/mprun/run/logs/said.log",
            opened={run.path: "/run/mprun/run"},
            bounds=bounds,
        )
        with (
            channel() as talk,
            (run.path / "console").open("wb") as console,
            booted(find_kernel(), guest, console) as process,
        ):
            watch(process, run, lambda *_: None, interactive=False, talk=talk)
        return (run.path / "logs" / "said.log").read_text()

    return call


def test_the_bound_on_files_counts_all_kinds_of_them(inside: Callable[[str, GuestLimits], str]) -> None:
    """The log is one of the five files, and belongs to the agent.

    The sixth file ends the entry, and the next entry makes none.
    """
    script = """\
sh -c 'mkdir a; : >a/b; ln -s b a/c; ln a/b a/d; echo four; mkfifo e; echo five'
sh -c ': >f; echo another'
ls -d a a/* e f 2>/dev/null
awk '{print $2, $3}' /proc/mprun_limits
"""
    said = inside(script, GuestLimits(tasks=100, written_bytes=1 << 20, files=5))
    lines = [line for line in said.splitlines() if "Killed" not in line]
    assert lines == ["four", "a", "a/b", "a/c", "a/d", "files 5", "files 5"]


def test_the_agent_may_write_when_nobody_else_may(inside: Callable[[str, GuestLimits], str], tmp_path: Path) -> None:
    """The shell is the agent here. It writes its 4 kB itself after an entry has reached the limit of 6 kB."""
    script = """\
sh -c 'head -c 4096 /dev/zero >a; head -c 4096 /dev/zero >b; echo not'
for i in 1 2 3 4 5 6 7 8; do printf '%0512d' 0; done >c
"""
    said = inside(script, GuestLimits(tasks=100, written_bytes=6000, files=100))
    assert "not" not in said
    folder = tmp_path / "latest"
    assert [(folder / name).stat().st_size for name in "abc"] == [4096, 0, 4096]
