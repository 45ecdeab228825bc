# SPDX-License-Identifier: Apache-2.0
"""A problem in a run ends with a clear message, the right status, and no leftovers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.engines.agent_process import uninterrupted
from mprun.kernel.store import find_kernel
from mprun.workloads import tcpdump
from tests.scenes import RATES_ONLY
from tests.system.conftest import (
    COMMAND,
    LAB,
    Result,
    call,
    environment,
    interrupt_when,
    leftovers,
    wait_until,
)

pytestmark = pytest.mark.fresh

ENGINES = ("virtual", "real")
XP = """\
version: 1
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, start: 0s, duration: DURATION}
capture:
  - {host: client, snaplen: 100}
probe: {pings: 1}
"""
# In a mount namespace of its own, a program of this machine is replaced for this run only.
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="replacing a program for one run needs root")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(XP.replace("DURATION", "2s"))
    (tmp_path / "long.yaml").write_text(XP.replace("DURATION", "3000s"))
    return tmp_path


def replacing(program: str, script: str, folder: Path) -> list[str]:
    """Return a command prefix under which `program` is `script`. An empty script means that the program is missing."""
    if script:
        instead = folder / "instead"
        instead.write_text("#!/bin/sh\n" + script)
        instead.chmod(0o755)
        source = str(instead)
    else:
        source = "/dev/null"
    shell = f'mount --bind {source} {program} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", shell, "sh"]


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ENGINES)
def test_interrupted_run_is_kept_and_marked(files: Path, engine: str) -> None:
    words = ("-t", "topo", "-x", "long", "--engine", engine)
    removals: list[Result] = []
    status, said = interrupt_when(
        "bulk",
        signal.SIGINT,
        *words,
        cwd=files,
        before=lambda: removals.append(call("runs", "rm", "--yes", "latest", cwd=files)),
    )
    assert ["is running now: end it first" in removal.err for removal in removals] == [True]
    assert status == 130
    assert "interrupted; the results so far are in runs/" in said
    run = files / "runs" / "latest"
    assert (run / "incomplete").exists()
    assert "stopped by the user" in (run / "agent.json").read_text()
    assert (run / "pcap" / "client.pcap").stat().st_size > 24
    said = (run / "logs" / "capture.client.err").read_text()
    assert (tcpdump.passed(said) or 0) > 0
    # all packets that had passed when the user stopped the run
    assert tcpdump.lost(said) == 0
    shown = call("show", cwd=files).err
    command = re.search(r"; to repeat it: mprun (-t \S+/inputs/resolved-topology.yaml -x \S+)$", shown)
    assert command, shown
    assert call("validate", *command[1].split(), cwd=files).status == 0
    # without results, a run is neither repeated in order to compare it nor one of the last two
    verified, compared = (call(name, cwd=files) for name in ("verify", "compare"))
    assert (verified.status, compared.status) == (2, 2)
    assert "has not ended, so it has no results to compare" in verified.err
    assert "runs has 0 runs with results: make another" in compared.err


@pytest.mark.usefixtures("leaves_nothing")
def test_a_run_beyond_the_limit_of_cpu_time_is_kept_and_marked(files: Path) -> None:
    """At its limit of CPU time, a process gets SIGXCPU. Before, this ended mprun without a word."""
    words = ("-t", "topo", "-x", "long", "--engine", "virtual")
    status, said = interrupt_when("bulk", signal.SIGXCPU, *words, cwd=files)
    assert status == 3
    assert "interrupted; the results so far are in runs/" in said
    assert "mprun has used the CPU time that is allowed: see `ulimit -t`" in said
    assert (files / "runs" / "latest" / "incomplete").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("leaves_nothing")
def test_the_kernel_of_a_run_beyond_the_limit_of_cpu_time(files: Path) -> None:
    prefix = ["sh", "-c", 'ulimit -t 20; exec "$@"', "sh"]
    status, said = interrupt_when("no such text", signal.SIGINT, "-t", "topo", "-x", "long", cwd=files, prefix=prefix)
    assert status == 1
    assert "the experiment kernel ended before the run did" in said
    assert "it may use 15 s of CPU time: see `ulimit -t`" in said
    assert (files / "runs" / "latest" / "incomplete").exists()


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_left_when_mprun_is_killed(files: Path, engine: str) -> None:
    status, _ = interrupt_when("bulk", signal.SIGKILL, "-t", "topo", "-x", "long", "--engine", engine, cwd=files)
    assert status == -signal.SIGKILL
    # the next run removes the files in the temporary directory
    assert call("-t", "topo", "-x", "xp", "--engine", engine, cwd=files).status == 0


@needs_root
@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ENGINES)
def test_missing_tool_is_named_before_anything_exists(files: Path, mprun: Callable[..., Result], engine: str) -> None:
    prefix = replacing("/usr/bin/tcpdump", "", files)
    result = mprun("-t", "topo", "-x", "xp", "--engine", engine, prefix=prefix)
    assert result.status == 3
    assert "this run needs tcpdump: apt-get install tcpdump" in result.err
    assert not (files / "runs").exists()


@needs_root
@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ENGINES)
def test_server_that_exits_at_once(files: Path, mprun: Callable[..., Result], engine: str) -> None:
    script = 'case "$*" in *--server*) echo "no server today" >&2; exit 7;; *--version*) echo iperf 3.12;; esac\n'
    result = mprun("-t", "topo", "-x", "xp", "--engine", engine, prefix=replacing("/usr/bin/iperf3", script, files))
    assert result.status == 1
    assert "bulk.server: ended with status 7 before it was ready: no server today" in result.out
    assert (files / "runs" / "latest" / "incomplete").exists()


# the program's copy is in a folder of the machine, where another run would say that it changed
@pytest.mark.alone
@needs_root
@pytest.mark.usefixtures("leaves_nothing")
def test_client_that_hangs(files: Path, mprun: Callable[..., Result]) -> None:
    """In simulated time, a time-out of 32 s costs nothing."""
    (files / "real-iperf3").write_bytes(Path("/usr/bin/iperf3").read_bytes())
    (files / "real-iperf3").chmod(0o755)
    script = f'case "$*" in *--client*) exec sleep 100000;; esac\nexec {files}/real-iperf3 "$@"\n'
    prefix = replacing("/usr/bin/iperf3", script, files)
    # the test's folder is below /tmp, which a run does not see: copy the program to a visible place
    visible = Path("/usr/local/lib/mprun-test-iperf3")
    try:
        visible.write_bytes(Path("/usr/bin/iperf3").read_bytes())
        visible.chmod(0o755)
        instead = files / "instead"
        instead.write_text(instead.read_text().replace(f"{files}/real-iperf3", str(visible)))
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", prefix=prefix)
    finally:
        visible.unlink(missing_ok=True)
    assert result.status == 1
    assert "bulk: did not end in time and was stopped after " in result.out


def test_a_hangup_that_is_not_heeded(files: Path) -> None:
    """A run under nohup(1) continues when its terminal is closed."""
    arguments = ("-t", "topo", "-x", "xp", "--engine", "virtual")
    status, said = interrupt_when("building", signal.SIGHUP, *arguments, cwd=files, prefix=["nohup"])
    assert (status, "interrupted" in said) == (0, False)


def test_what_is_being_started_is_not_interrupted() -> None:
    before = signal.getsignal(signal.SIGINT)
    steps = []

    def start() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["started"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        (">&-", (0, "")),
        ("<&- >&- 2>&-", (0, "")),
        (">/dev/full", (1, "what is printed cannot be written: No space left on device\n")),
        ("| :", (141, "")),
    ],
)
def test_output_that_goes_nowhere(tmp_path: Path, streams: str, expected: tuple[int, str]) -> None:
    """The output is closed (the next opened file would take its place), full, or not read."""
    command = f"set -o pipefail; {shlex.join(COMMAND)} graph -t {LAB}/topo {streams}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize("words", ["show", "runs list", f"-t {LAB}/topo -x {LAB}/xp_tcp"])
def test_the_current_folder_was_removed(tmp_path: Path, words: str) -> None:
    command = f"mkdir gone; cd gone; rmdir ../gone; {shlex.join(COMMAND)} {words}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    told = "the current folder was removed: change to another one, as in `cd ..`\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize("name", ["file", "file/below", "a\tb", "a\nb", "bad\udcff", "/proc/none"])
def test_results_that_have_no_place(files: Path, mprun: Callable[..., Result], name: str) -> None:
    (files / "file").touch()
    before = sorted(files.rglob("*"))
    result = mprun("-t", "topo", "-x", "xp", "-o", name)
    assert result.status == (3 if name == "/proc/none" else 2)
    assert "Traceback" not in result.err
    assert "name another" in result.err or "is a file" in result.err or "give another with -o" in result.err
    assert sorted(files.rglob("*")) == before


@needs_root
def test_a_folder_that_is_read_only(files: Path, mprun: Callable[..., Result]) -> None:
    (files / "runs").mkdir()
    shell = 'mount --bind runs runs && mount -o remount,ro,bind runs && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", shell, "sh"]
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", prefix=prefix)
    assert result.status == 3
    assert "runs: cannot be written: read-only file system: give another with -o" in result.err
    writing = (
        "from pathlib import Path; from mprun.safety.folder import Folder; Folder(Path('runs')).write_text('mine', '')"
    )
    written = subprocess.run([*prefix, sys.executable, "-c", writing], cwd=files, capture_output=True, text=True)
    assert written.stderr.rstrip().endswith("Read-only file system: 'runs/mine'")


def test_a_kernel_that_was_damaged(files: Path, mprun: Callable[..., Result]) -> None:
    """The damage is named before anything is created.

    A run without the kernel's library for bulk receivers would pass with other figures.
    """
    copy = files / "cache" / "mprun" / "kernels" / "copy"
    copy.parent.mkdir(parents=True)
    shutil.copytree(find_kernel().directory, copy)
    (copy.parent / "default").symlink_to(copy.name)
    run = ("-t", "topo", "-x", "xp", "--engine", "virtual")
    env = environment(XDG_CACHE_HOME=str(files / "cache"))
    for name, content, fault in (
        ("bulk.so", b"", f"{copy}/bulk.so is not the file that was built"),
        ("init", b"\x7fELF", f"{copy}/init is not the file that was built"),
        ("kernel.json", b"{}", "kernel.json has no 'version'"),
        ("kernel.json", b"", "kernel.json cannot be read"),
        ("linux", b"#!/bin/sh", f"{copy}/linux is not the file that was built"),
    ):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(content)
        result = mprun(*run, env=env)
        remedy = f"the experiment kernel is damaged ({fault}); run `mprun kernel build`\n"
        assert (result.status, result.err) == (3, remedy)
        assert not (files / "runs").exists()
        (copy / name).write_bytes(whole)
    (copy / "linux").chmod(0o644)
    result = mprun(*run, env=env)
    assert (result.status, f"({copy}/linux is no program)" in result.err) == (3, True)
    (copy / "linux").chmod(0o755)
    assert mprun(*run, env=env).status == 0


@needs_root
def test_a_cache_that_cannot_be_written_to(files: Path, mprun: Callable[..., Result]) -> None:
    shell = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", shell, str(find_kernel().directory.parents[1])]
    assert mprun("-t", "topo", "-x", "xp", "--engine", "virtual", prefix=prefix).status == 0


@needs_root
def test_no_room_for_the_kernels_memory(files: Path, on_disk: Path) -> None:
    shutil.copytree(files, on_disk, dirs_exist_ok=True)
    (on_disk / "small").mkdir()
    shell = 'mount -t tmpfs -o size=SIZE none small && mount -t tmpfs -o size=1m none /dev/shm && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", shell.replace("SIZE", "30m"), "sh"]
    env = environment(TMPDIR=str(on_disk / "small"))
    result = call("-t", "topo", "-x", "xp", "--engine", "virtual", cwd=on_disk, prefix=prefix, env=env)
    assert result.status == 1
    assert f"its memory is a file in {on_disk}/small, of 10" in result.err
    prefix[4] = shell.replace("SIZE", "5m")
    told = call("doctor", "--json", cwd=on_disk, prefix=prefix, env=env)
    kernel = next(check for check in json.loads(told.out) if check["name"] == "experiment kernel")
    assert (kernel["ok"], "gave no answers" in kernel["says"]) == (False, True)


@needs_root
def test_a_user_without_a_home(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    """The user is a number without an entry in the list of users, as in containers."""
    nameless = [
        "setpriv",
        "--reuid=64999",
        "--regid=64999",
        "--clear-groups",
        "env",
        "-u",
        "HOME",
        "-u",
        "XDG_CACHE_HOME",
    ]
    told = mprun("kernel", "list", prefix=nameless)
    assert (told.status, told.err) == (3, "this user has no home directory: set HOME or XDG_CACHE_HOME\n")
    found = [*nameless, "XDG_CACHE_HOME=/nonexistent"]
    assert mprun("kernel", "list", prefix=found).status == 0


@needs_root
@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("engine", ENGINES)
def test_full_disk(files: Path, mprun: Callable[..., Result], engine: str) -> None:
    (files / "small").mkdir()
    shell = 'mount -t tmpfs -o size=60k none small && "$@"; status=$?; ls small/latest/ >&2; exit $status'
    prefix = ["unshare", "--mount", "sh", "-c", shell, "sh"]
    result = mprun("-t", "topo", "-x", "xp", "--engine", engine, "-o", "small", prefix=prefix)
    assert result.status == 1
    assert "No space left on device" in result.out + result.err
    assert "Traceback" not in result.err
    assert "incomplete" in result.err
    assert "steps.jsonl" in result.err


@pytest.mark.alone
def test_wrong_netem_is_refused_before_anything_exists(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    """On a kernel without netem, the real engine names netem. On a kernel with netem, this test shows nothing."""
    from mprun.engines.capability import missing_qdiscs

    if not missing_qdiscs(["netem"]):
        pytest.skip("this kernel has netem")
    result = mprun("-t", LAB / "topo", "-x", LAB / "xp_tcp", "--engine", "real")
    assert result.status == 3
    assert "has no netem, which the topology needs" in result.err
    assert not (tmp_path / "runs").exists()


def test_bad_input_creates_nothing(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20}]\n")
    result = mprun("-t", "topo", "-x", LAB / "xp_tcp")
    assert result.status == 2
    assert result.err.startswith("topo.yaml:3: paths[0].rate: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["topo.yaml"]


def test_command_that_is_no_command(mprun: Callable[..., Result]) -> None:
    result = mprun("validat")
    assert result.status == 2
    assert "did you mean 'validate'?" in result.err


def test_leftovers_sees_what_it_should() -> None:
    """The check that the other tests rely on can fail."""
    marked = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "mprun.agent.main"])
    try:
        # a program that has just started has no command line for a moment
        wait_until(lambda: any(str(marked.pid) in line for line in leftovers()), 5)
    finally:
        marked.kill()
        marked.wait()


# Limits of an experiment's own commands and files


PING = "  - {name: alive, tool: ping, from: client, to: server, count: 5}\n"


def run_beside_ping(mprun: Callable[..., Result], folder: Path, traffic: str, more: str = "") -> Result:
    """Run a ping, whose result must not be lost, together with the flows in `traffic`."""
    (folder / "topo.yaml").write_text(RATES_ONLY + more)
    (folder / "xp.yaml").write_text(f"version: 1\nprobe: {{pings: 0}}\ntraffic:\n{PING}{traffic}")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec")
    assert result.summary["metrics"]["alive.loss"]["value"] == 0
    return result


def test_programs_that_are_not_there_or_fail_end_no_other_flow(mprun: Callable[..., Result], tmp_path: Path) -> None:
    ends = "tool: exec, from: client, to: server"
    flows = f"""\
  - {{name: missing, {ends}, command: [no-such-program]}}
  - {{name: folder, {ends}, command: [/usr]}}
  - {{name: failing, {ends}, command: ["false"]}}
  - {{name: rude, {ends}, command: [sh, -c, "printf '\\\\033[2J\\\\377no' >&2; printf '\\\\377\\\\0'; exit 3"]}}
  - {{name: last, tool: ping, from: client, to: server, count: 1, start: {{after: missing}}}}
"""
    result = run_beside_ping(mprun, tmp_path, flows)
    assert result.status == 1
    assert result.summary["complete"]
    assert result.summary["errors"] == [
        "missing: exec ended with status 127: missing: no program 'no-such-program' on this machine",
        "folder: exec ended with status 127: folder: '/usr' cannot be started: Permission denied",
        "failing: exec ended with status 1: it printed nothing",
        "rude: exec ended with status 3: \ufffd[2J\ufffdno",
    ]
    assert (result.run / "logs" / "rude.out").read_bytes() == b"\xff\0"
    assert result.metric("last.loss") == 0


def test_a_log_of_a_gigabyte_is_cut_off(mprun: Callable[..., Result], tmp_path: Path) -> None:
    command = '[sh, -c, "echo first; head -c 1G /dev/zero; echo last >&2"]'
    result = run_beside_ping(mprun, tmp_path, f"  - {{tool: exec, from: client, to: server, command: {command}}}\n")
    assert result.status == 0, result.out + result.err
    log = result.run / "logs" / "exec.out"
    assert log.stat().st_size == 16 << 20
    assert log.read_bytes()[:6] == b"first\n"
    assert (result.run / "logs" / "exec.err").read_bytes() == b"last\n"
    assert result.summary["warnings"] == ["logs/exec.out is cut off: its program printed 1074 MB"]


def test_a_port_that_another_program_has(mprun: Callable[..., Result], tmp_path: Path) -> None:
    listen = "import socket; a = socket.create_server(('', 5201)), socket.create_server(('', 5202)); input()"
    listen = listen.replace("input()", "__import__('time').sleep(1000)")
    flows = f"""\
  - {{tool: exec, from: client, to: server, command: ["true"], server: [python3, -c, "{listen}"], port: 5201}}
  - {{tool: flows, from: client, to: server, interval: 100ms, duration: 1s, size: 1kb, port: 5202}}
"""
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flows}")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec")
    assert result.status == 1
    assert result.summary["errors"] == ["flows.server: port 5202 of server is taken already"]


def test_flows_that_nobody_can_reach(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The link goes down after the ping. The packets that arrived before are recorded."""
    events = "events:\n  - {at: 1500ms, link: path0, state: down}\n"
    flow = "{tool: flows, from: client, to: server, arrivals: constant, interval: 600ms, duration: 2s, size: 1kb}"
    result = run_beside_ping(mprun, tmp_path, f"  - {flow}\n", events)
    assert result.status == 1
    assert result.metric("flows.flows") == 3
    limit = "after 62.0 s, the time limit of flows for this work"
    path = "'path0', its only path, has not carried packets since 1500ms: let the flow end before, or restore it by an "
    assert result.summary["errors"] == [f"flows: did not end in time and was stopped {limit}; {path}event"]
    assert result.summary["metrics"]["flows.bytes"]["value"] == 2048
