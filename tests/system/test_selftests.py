# SPDX-License-Identifier: Apache-2.0
"""The kernel's own tests of MPTCP, and the results of failing scripts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mprun.cli import selftests
from mprun.engines.guest import START_NS
from mprun.kernel.selftests.script_run import NOTHING, KeptRecords, ScriptResult, run_scripts
from mprun.kernel.selftests.test_source import list_scripts
from mprun.kernel.store import find_kernel
from tests.system.conftest import Result as Called
from tests.system.conftest import call, environment

pytestmark = pytest.mark.fresh

TAP = "echo TAP version 13; echo 1..2; echo ok 1 - first"
FAILING = {
    "fails": f"{TAP}; echo not ok 2 - second; exit 1",
    "breaks_off": f"{TAP}; exit 0",
    "stumbles": f"{TAP}; echo ok 2 - second; exit 1",
    "cannot": "echo no such feature; exit 4",
    "dies": "poweroff -f",
    # more operations on semaphores than a kernel can hold in one piece of memory
    "warns": f"""{TAP}; echo ok 2 - second; echo 250 32000 2147483647 128 >/proc/sys/kernel/sem
python3 -c 'import ctypes; ctypes.CDLL(None).semop(0, None, 400000000)'""",
}


@pytest.mark.usefixtures("leaves_nothing")
def test_the_path_manager_passes(mprun: Callable[..., Called]) -> None:
    done = mprun("kernel", "test", "--only", "pm_netlink", "--json")
    assert done.status == 0, done.err
    total = json.loads(done.out)
    assert total["passed"]
    (script,) = total["scripts"]
    assert script["script"] == "pm_netlink"
    assert script["subtests"] == script["subtests_passed"] >= 20
    assert Path(script["log"]).name == "said.txt"


def test_what_does_not_exist_is_refused(mprun: Callable[..., Called]) -> None:
    done = mprun("kernel", "test", "--only", "pm_nelink")
    assert done.status == 2
    assert "--only pm_nelink: the kernel's source has no such script or group; scripts: diag, " in done.err
    done = mprun("kernel", "test", "--only", "pm_netlink", "--scheduler", "fastest")
    assert done.status == 3
    assert "the kernel 'default' has no scheduler 'fastest' (it has: default" in done.err


def run(
    folder: Path, scripts: dict[str, str], scheduler: str | None = None, kept: KeptRecords = NOTHING
) -> dict[str, ScriptResult]:
    """Run the test's scripts in place of the kernel's, and return their results."""
    (folder / "tests" / "net" / "mptcp").mkdir(parents=True)
    for name, text in scripts.items():
        path = folder / "tests" / "net" / "mptcp" / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    results = run_scripts(
        find_kernel(),
        list_scripts(folder / "tests"),
        folder / "out",
        1,
        1,
        scheduler,
        lambda *_: None,
        kept,
    )
    return {result.script.name: result for result in results}


def test_a_failure_of_any_kind_is_told(tmp_path: Path) -> None:
    found = run(tmp_path, FAILING)
    assert found["fails"].names("failed") == ["second"]
    assert found["fails"].status == 1
    warning = found.pop("warns").error
    assert warning.startswith('the kernel reported "WARNING: CPU: 0 PID: ')
    assert "mm/util.c:" in warning
    assert {name: result.error for name, result in found.items()} == {
        "fails": "",
        "breaks_off": "ended with status 0 and 1 of 2 results",
        "stumbles": "ended with status 1 though no subtest failed",
        "cannot": "cannot run: no such feature",
        "dies": "the experiment kernel ended before the script did",
    }


def test_a_scheduler_is_set_in_new_namespaces(tmp_path: Path) -> None:
    """The kernel of these tests may have only one scheduler. A scheduler that it lacks must be refused."""
    text = "ip netns add a; echo $?; ip netns exec a sysctl -n net.mptcp.scheduler"
    for folder, scheduler, status in (("none", None, "0"), ("its", "default", "0"), ("other", "fastest", "1")):
        found = run(tmp_path / folder, {"asks": text}, scheduler)
        said = found["asks"].log.read_text().split("\n")
        assert said[-3:] == [status, "default", ""]


PING = """\
for ns in a b; do ip netns add $ns; done
ip link add x netns a type veth peer name y netns b
ip -n a address add 10.9.0.1/24 dev x; ip -n a link set x up
ip -n b address add 10.9.0.2/24 dev y; ip -n b link set y up
ip netns exec a ping -c 3 -i 0.1 10.9.0.2 >/dev/null
for ns in a b; do ip netns del $ns; done
echo TAP version 13; echo 1..1; echo ok 1 - ping
"""


@pytest.mark.usefixtures("leaves_nothing")
def test_packets_and_trace_events_are_kept(tmp_path: Path) -> None:
    found = run(tmp_path, {"ping": PING}, kept=KeptRecords(True, ("net:net_dev_queue",)))["ping"]
    assert (found.status, found.error, found.names("passed")) == (0, "", ["ping"])
    folder = found.log.parent
    assert sorted(path.name for path in (folder / "pcap").iterdir()) == ["001-a.pcap", "002-b.pcap"]
    for path in (folder / "pcap").iterdir():
        argv = ["tshark", "-r", str(path), "-Y", "icmp", "-T", "fields", "-e", "frame.time_epoch"]
        times = [float(time) for time in subprocess.run(argv, capture_output=True, check=True).stdout.split()]
        assert len(times) == 6
        # a simulated kernel boots at this time
        assert 0 < times[0] - START_NS / 1e9 < 10
    assert (folder / "trace.txt").read_text().count("net_dev_queue: dev=x") >= 3


def test_an_unknown_trace_event_is_told(tmp_path: Path) -> None:
    found = run(tmp_path, {"ping": PING}, kept=KeptRecords(tracepoints=("tcp:nothing",)))["ping"]
    said = "trace events tcp:nothing: Invalid argument: --tracepoint needs names of this kernel's events"
    assert found.error == f"cannot run: {said}"


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_gdb_stops_the_kernel_of_a_test(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    debugger = selftests.find_debugger([find_kernel()], "1s", ["mp-time", "mp-hosts"])
    script = f"sleep 3; {TAP}; echo ok 2 - second"
    found = run(tmp_path, {"sleeps": script}, kept=KeptRecords(debugger=debugger))["sleeps"]
    assert (found.status, found.error, len(found.names("passed"))) == (0, "", 2)
    out = capfd.readouterr().out
    assert "stopped at 1.0" in out
    assert " lo " in out


@pytest.mark.long
@pytest.mark.usefixtures("symbols")
def test_gdb_stops_only_one_test(mprun: Callable[..., Called]) -> None:
    several = mprun("kernel", "test", "--only", "pm_netlink,diag", "--at", "1s")
    assert several.status == 2
    assert "--at: gdb stops one test, and 2 would run: name one with --only" in several.err
    without = mprun("kernel", "test", "--only", "pm_netlink", "--command", "bt")
    assert without.status == 2
    assert "--command needs the time of the stop: --at 1.5s" in without.err


# A stand-in for packetdrill, which no distribution packages. It fails if the script contains the word for failure, and
# opens the device that packetdrill's own network uses.
STAND_IN = """#!/bin/sh
for file; do :; done
exec 3<>/dev/net/tun || exit 2
if grep -q "fails over $(echo "$*" | sed "s/.*--ip_version=\\([^ ]*\\).*/\\1/")$" "$file"; then
    echo "$file:7: error handling packet: not as expected" >&2
    exit 1
fi
"""


def put_stand_in(folder: Path) -> Path:
    folder.mkdir()
    (folder / "packetdrill").write_text(STAND_IN)
    (folder / "packetdrill").chmod(0o755)
    return folder


def without_program() -> str:
    """Return PATH of a user who does not have the program."""
    return ":".join(path for path in os.environ["PATH"].split(":") if not (Path(path) / "packetdrill").exists())


def test_packetdrill_scripts_of_a_suite_fail_where_the_program_does(
    mprun: Callable[..., Called], tmp_path: Path
) -> None:
    program = put_stand_in(tmp_path / "program")
    suite = tmp_path / "suite"
    for name, text in {
        "tcp/good.pkt": "",
        "tcp/old.pkt": "fails over ipv4\n",
        "tcp/new.pkt": "fails over ipv6\n",
        "only-v4.pkt": "",
        "only-v6.pkt": "fails over ipv6\n",
    }.items():
        (suite / name).parent.mkdir(parents=True, exist_ok=True)
        (suite / name).write_text(text)
    done = mprun("kernel", "test", "--packetdrill", program, "--suite", suite, "--json", "--to", tmp_path / "out")
    assert done.status == 1, done.err
    total = json.loads(done.out)
    assert not total["passed"]
    assert total["not_run"] == {}
    found = {script["script"].removeprefix("packetdrill/"): script for script in total["scripts"]}
    assert {name: (script["subtests"], script["failed"]) for name, script in found.items()} == {
        "tcp/good": (3, []),
        "tcp/old": (3, ["ipv4"]),
        "tcp/new": (3, ["ipv6"]),
        "only-v4": (2, []),
        "only-v6": (1, ["ipv6"]),
    }
    assert "new.pkt:7: error handling packet" in Path(found["tcp/new"]["log"]).read_text()
    part = ("--suite", suite, "--only", "packetdrill/tcp/good", "--to", tmp_path / "part")
    assert mprun("kernel", "test", "--packetdrill", program, *part).status == 0


def test_packetdrill_scripts_of_the_kernel_are_run_with_the_program(
    mprun: Callable[..., Called], tmp_path: Path
) -> None:
    program = put_stand_in(tmp_path / "program")
    only = ("--only", "packetdrill/tcp_inq_client", "--to", tmp_path / "out")
    done = mprun("kernel", "test", "--packetdrill", program, *only, "--json")
    assert done.status == 0, done.err
    (script,) = json.loads(done.out)["scripts"]
    assert (script["subtests"], script["subtests_passed"]) == (2, 2)
    (program / "packetdrill").write_text("#!/bin/sh\nexit 1\n")
    done = mprun("kernel", "test", "--packetdrill", program, *only, "--json")
    assert done.status == 1
    assert json.loads(done.out)["scripts"][0]["failed"] == ["ipv4", "ipv6"]


def test_packetdrill_is_refused_without_the_program(tmp_path: Path) -> None:
    without_packetdrill = environment(PATH=without_program())
    done = call("kernel", "test", "--only", "packetdrill", cwd=tmp_path, env=without_packetdrill)
    assert done.status == 3
    assert "packetdrill's scripts are not run: no program 'packetdrill' in PATH: build it as" in done.err
    done = call("kernel", "test", "--suite", tmp_path, cwd=tmp_path, env=without_packetdrill)
    assert done.status == 3


@pytest.mark.parametrize("program", [True, False])
def test_packetdrill_is_reported_as_not_run_beside_other_tests(
    tmp_path: Path, program: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source has two tests: one of MPTCP and one of packetdrill. The success of the first is no success of both."""
    tree = tmp_path / "tree"
    net = tree / "tools" / "testing" / "selftests" / "net"
    files = {
        tree / "Makefile": "headers:\n",
        net / "mptcp" / "Makefile": "all:\n\ttouch mptcp_connect\n",
        net / "mptcp" / "mptcp_lib.sh": "",
        net / "mptcp" / "diag.sh": f"#!/bin/sh\n{TAP}; echo ok 2 - second\n",
        net / "packetdrill" / "first.pkt": "",
        net / "packetdrill" / "ksft_runner.sh": "#!/bin/sh\necho TAP version 13; echo 1..1; packetdrill $1 || exit\n"
        "echo ok 1 ipv4\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", without_program())
    drill = put_stand_in(tmp_path / "program") if program else None
    kernel = replace(find_kernel(), source=str(tree))
    for as_json in (True, False):
        order = selftests.TestsToRun(None, None, 1, 1, tmp_path / "out", drill, is_silent=as_json)
        assert selftests.run([kernel], order, as_json)
    said = capsys.readouterr().out
    total = json.loads(said.splitlines()[0])
    ran = [script["script"] for script in total["scripts"]]
    assert ran == ["diag", "packetdrill/first"] if program else ran == ["diag"]
    assert list(total["not_run"]) == ([] if program else ["packetdrill"])
    assert ("- packetdrill                  not run: no program 'packetdrill' in PATH: build it as" in said) != program
    assert ("; not run: packetdrill; " in said) != program


def test_tests_of_traffic_control_pass_on_each_named_kernel(mprun: Callable[..., Called], tmp_path: Path) -> None:
    """The digest is a second name of the same kernel, so that nothing differs between the kernels."""
    kernels = ("--kernel", "default", "--kernel", find_kernel().digest[:16])
    only = ("--only", "tc-testing/qdiscs/netem,tc-testing/qdiscs/tbf", "--to", tmp_path / "out")
    done = mprun("kernel", "test", *kernels, *only, "--json", "--junit", tmp_path / "junit.xml")
    assert done.status == 0, done.err
    total = json.loads(done.out)
    assert list(total["changes"].values()) == [[]]
    counts = [[script["subtests_passed"] for script in kernel["scripts"]] for kernel in total["kernels"]]
    assert counts == [[16, 9], [16, 9]]
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("tests") == "50"
    refused = mprun("kernel", "test", *only, "--junit", tmp_path / "none" / "junit.xml")
    assert refused.status == 3
    assert "junit.xml cannot be written: the folder does not exist" in " ".join(refused.err.split())


def test_tap_has_a_known_failure_of_the_users_list(mprun: Callable[..., Called], tmp_path: Path) -> None:
    """The kernel does not have the queueing discipline hfsc."""
    (tmp_path / "known.yaml").write_text("- {script: tc-testing, subtest: '3254 *', reason: not built in}\n")
    only = ("--only", "tc-testing/qdiscs/hfsc", "--to", tmp_path / "out", "--tap")
    failed = mprun("kernel", "test", *only)
    assert failed.status == 1
    assert "not ok 1 - default: tc-testing/qdiscs/hfsc: 3254 - Create HFSC with default setting\n" in failed.out
    known = mprun("kernel", "test", *only, "--known", tmp_path / "known.yaml")
    assert known.status == 0, known.out
    assert "Create HFSC with default setting # TODO known to fail: not built in\n" in known.out
