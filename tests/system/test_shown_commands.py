# SPDX-License-Identifier: Apache-2.0
"""Every mprun command on a page is run, except for the listed commands, each with the reason.

Pages that are followed step by step (test_pages) and the scripts in the labs' pages (test_lab_pages) are run there. The
other commands run here, those of a page one after the other. Their folder has the files and runs that a reader of the
page would have, and their cache has kernels of the reader's names. The rows of docs/measured/findings.md run in
test_findings.

In a sentence, `mprun verify` alone is the name of a command; with arguments it is a command to type. "make lab" of the
README is typed by test_pages as `mprun lab run 01`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from mprun.kernel.store import find_kernel
from mprun.machine.cache import cache
from tests.forked import write_program
from tests.pages import NAMED, PAGES, ROOT, blocks_of, commands_in_blocks, commands_in_sentences
from tests.stored_runs import TEST, command_of
from tests.system.conftest import LAB, SHORT, call, environment, needs_tool
from tests.system.test_findings import ROWS
from tests.system.test_pages import PAGES as FOLLOWED

BISECTED = "--good 268ba01 --bad 045a00b --fail-if 'bulk.goodput > 18.893mbit'"
BUILDS = "builds a kernel: minutes"
COUNTS = "needs a kernel that counts lines; test_own_kernel builds one"
DRILL = "needs the program packetdrill, which no distribution has; test_selftests has a stand-in"
NOT_RUN = {
    "mprun kernel build --source ~/linux --name mine": BUILDS,
    "mprun kernel build --source": BUILDS,
    "mprun kernel build --symbols": BUILDS,
    "mprun kernel build --symbols --source ~/linux --name mine": BUILDS,
    "mprun kernel build --source linux-source-7.3.tar.xz --name later": BUILDS,
    "mprun kernel build --source ~/linux --name mine --config my.config": BUILDS,
    "mprun kernel build --source ~/linux --name debug --profile debug": BUILDS,
    "mprun kernel build --source ~/linux --name lines --profile coverage": BUILDS,
    "mprun kernel build --source TREE --name lines --profile coverage": BUILDS,
    "mprun kernel build --profile debug": BUILDS,
    "mprun kernel build --profile coverage": BUILDS,
    "mprun kernel build --name mine --with-scheduler most_room.c": BUILDS,
    "mprun kernel build --name mine --with-scheduler own.c": "builds a kernel; test_own_scheduler does",
    "mprun kernel build --name mine --with-scheduler labs/07_own_scheduler/solution/own.c": "test_own_scheduler does",
    f"mprun bisect -t topo -x xp_tcp --tree ~/linux {BISECTED}": "builds a kernel for each commit",
    "mprun kernel build": BUILDS,
    "mprun kernel build --watch": "waits for edits",
    "mprun kernel build --source ~/linux --name mine --watch -- mprun -t topo -x xp --kernel mine": "waits for edits",
    "mprun kernel build --source linux-source-6.12 --name mine --with-scheduler own.c --watch -- mprun lab run": (
        "waits for edits"
    ),
    "mprun coverage --file 'net/mptcp/*'": COUNTS,
    "mprun coverage xp_tcp xp_mptcp --text": COUNTS,
    "mprun coverage --missed": COUNTS,
    "mprun coverage A B": COUNTS,
    "mprun debug latest --at 1.5s": "needs a kernel with symbols, which takes minutes to build; test_debug builds one",
    "mprun debug latest --fail-if 'max(sockets[host=client, path=path1].retransmits_packets) > 0'": "test_debug takes "
    "another statement",
    "mprun kernel test --only mptcp_join/fastclose --at 1.5s": "needs symbols too; test_selftests stops another test",
    "mprun debug latest --packet client.pcap:120 --command 'mp-skb skb' --command 'bt 4'": "test_debug takes another",
    "mprun kernel test --packetdrill ~/packetdrill/gtests/net/packetdrill --only packetdrill": DRILL,
    "mprun kernel test --packetdrill ~/packetdrill/gtests/net/packetdrill --suite ~/packetdrill/gtests/net --only "
    "packetdrill/tcp": DRILL,
    "mprun sweep -t topo -x xp --cluster tcp://SCHEDULER:8786": "needs a cluster; test_cluster makes one",
}
# A run that fails.
FAIL = "mprun -t small -x failing"
# Commands typed instead, for placeholders and for commands that take long.
INSTEAD = {
    # in sentences that describe an option
    "mprun report --ci 99%": "mprun report latest-sweep --ci 99%",
    "mprun show --ci 99%": "mprun show latest-sweep --ci 99%",
    "mprun graph --addresses": "mprun graph -t topo --addresses",
    "mprun run --json": "mprun run -t topo -x xp --json",
    "mprun lab show": "mprun lab show 01",
    "mprun lab start": "mprun lab start 01 started",
    "mprun runs rm": "mprun runs rm latest --yes",
    "mprun kernel rm": "mprun kernel rm --help",
    "mprun kernel export": "mprun kernel export --help",
    "mprun baseline write": "mprun baseline write -t topo -x xp",
    "mprun trace import FILE": "mprun trace import drive.csv --format csv --column time=t:s --column rate=dl:kbit",
    # the page makes figure3.zip in the sentence after this command
    "mprun verify figure3.zip": "mprun verify paper.zip",
    # xp.yaml exists already, from the command before
    "mprun convert topo xp": "mprun convert topo xp --force",
    # for a sweep, because the folder has no run
    "mprun compare A B": "mprun compare latest-sweep latest-sweep",
    # the other kernel is one of the reader
    **{
        f"mprun verify {name}": "mprun -t topo -x xp && mprun verify latest --kernel default"
        for name in ("RUN --kernel NAME", "latest --kernel planted", "latest --kernel mine")
    },
    "mprun compare": "mprun compare latest-sweep latest-sweep",
    "mprun plan --diff A B": "mprun plan --diff latest latest",
    # what the reader has at this place: an archive, a failed run, a run with these captures, a repository, a sweep
    "mprun kernel import": "mprun kernel export own.zip && mprun kernel import own.zip --trust "
    "$(sha256sum own.zip | cut -c-64)",
    "mprun kernel import ours.mprun-kernel.zip --trust DIGEST": "mprun kernel import ours.mprun-kernel.zip --trust "
    "$(sha256sum ours.mprun-kernel.zip | cut -c-64)",
    "mprun minimise latest": f"{FAIL}; mprun minimise latest",
    "mprun minimise RUN": f"{FAIL}; mprun minimise latest --to smaller --budget 6",
    "mprun why latest": f"{FAIL}; mprun why latest --runs 2 --steps 1",
    "mprun why RUN": f"{FAIL}; mprun why latest --runs 2 --steps 1",
    "mprun history": "mprun baseline write -t topo -x xp && git init -q && git add '*.baseline' && "
    "git commit -q -m values && mprun history",
    "mprun history DIRECTORY": "mprun history .",
    "mprun compare latest-sweep --by kernel --within 2%": "mprun sweep -t topo -x kernels && "
    "mprun compare latest-sweep --by kernel --within 2%",
    "mprun packets latest --delay client router --delay router server": "mprun -t topo -x xp && "
    "mprun packets latest --delay client router --delay router server",
    "mprun export --qlog": "mprun -t topo -x qlog && mprun export --qlog",
    "mprun verify FILE": "mprun bundle --to mine.mprun.zip && mprun verify mine.mprun.zip",
    "mprun verify BUNDLE": "mprun bundle --to mine.mprun.zip && mprun verify mine.mprun.zip",
    "mprun lab run FOLDER": "mprun lab run .",
    # 30 runs of 520 s
    "mprun sweep -t topo_cong -x iperf_scenario_seeds": f"cd {ROOT}/labs/05_congestion_control && "
    "mprun sweep -t topo_cong -x iperf_scenario_seeds --dry-run",
    # 166 runs
    "mprun sweep -t topo_interop -x interop": f"cd {ROOT}/labs/08_multipath_scenarios && "
    "mprun sweep -t topo_interop -x interop --dry-run",
    "mprun lab run -p stack=noq": "mprun lab run 06 -p stack=noq --dry-run",
    "mprun tools install": "mprun tools install quic",
    "mprun kernel template": "mprun kernel template congestion slow.c",
    "mprun kernel rm mine": "yes | mprun kernel rm mine",
    "mprun kernel rm bisect": "yes | mprun kernel rm bisect",
    "mprun kernel prune": "yes | mprun kernel prune",
    # the control is a run without the effect
    "mprun faults -t topo -x xp_mptcp --kernel mine --control default": "mprun faults -t topo -x xp_mptcp --first 4 "
    "--kernel mine --control default",
    "mprun minimise latest --kernel mine --control default": "mprun minimise --help",
    "mprun export latest --upstream --to report": "mprun -t topo -x xp && mprun export latest --upstream --to report",
    "mprun faults --control KERNEL": "mprun faults --help",
    "mprun minimise --control KERNEL": "mprun minimise --help",
    "mprun -t control/topo -x control/xp": "mprun -t topo -x xp",
    "mprun export --upstream": "mprun -t topo -x xp && mprun export --upstream",
    # later commands of the page use the newest run in `runs`
    **{
        line: f"{line} -o lines"
        for line in ("mprun -t topo -x xp_mptcp --kernel lines", "mprun -t topo -x xp_tcp --kernel lines")
    },
    # parts of the kernel's own tests, which take ten minutes
    "mprun kernel test": "mprun kernel test --only tc-testing/qdiscs/tbf",
    "mprun kernel test --kernel A --kernel B": "mprun kernel test --kernel default --kernel mine "
    "--only tc-testing/qdiscs/tbf",
    "mprun kernel test --kernel mine --only simult_flows,mptcp_join/fastclose": "mprun kernel test --kernel mine "
    "--only mptcp_join/fastclose",
    "mprun kernel test --scheduler roundrobin --json": "mprun kernel test --scheduler roundrobin --json --only "
    "tc-testing/qdiscs/tbf",
    # some of hundreds of runs; the last of two equal options counts
    **{
        line: f"{line} --first 2"
        for line in (
            "mprun faults -t topo -x xp_mptcp",
            "mprun faults -t topo -x xp_mptcp --action delay --by 200ms",
            "mprun faults -t topo -x xp_mptcp --action strip",
            "mprun faults -t topo -x xp_mptcp --pairs",
            "mprun faults -t topo -x mptcp --metric bulk.goodput",
            "mprun faults -t pair -x first --metric bulk.goodput",
            "mprun faults -t topo -x get --first 40 --action strip",
            "mprun faults -t slow -x file --first 40",
            "mprun faults -t topo -x quic --first 30",
            "mprun faults -t topo -x sctp --first 30",
        )
    },
    **{
        line: f"{line} --budget 4 --to worst-{line.split()[5]}"
        for line in (
            "mprun search -t topo -x slower --budget 32",
            "mprun search -t dying -x megabyte --budget 40",
            "mprun search -t six -x window --budget 48",
            "mprun search -t topo -x any --budget 96",
        )
    },
    # in real time, which needs a kernel with netem; make vm runs the lab
    "mprun lab run 01 --engine real -p rate=5mbit": "mprun lab run 01 --engine real -p rate=5mbit --dry-run",
    # an example of a value in lab.yaml, with files of the reader's lab
    "mprun sweep -t topo -x cpu --engine real": "cp swept.yaml cpu.yaml && "
    "mprun sweep -t topo -x cpu --engine real --dry-run",
    # minutes of runs
    **{f"mprun lab run {which}": f"mprun lab run {which} --dry-run" for which in "--all 06 08 10 11 12 13".split()},
}
# Commands whose exit status is 1, with a part of their output that says why.
FAILING = {
    # ends at its budget; the command before it on the page ends with the smallest files
    "mprun minimise RUN": "12 lines became 11, 6 runs for ",
    "mprun -t topo -x get -p packet=2": "get: did not end in time and was stopped",
    "mprun faults -t topo -x get --first 40 --action strip": "0 runs passed, 2 did not",
    "mprun search -t topo -x slower --budget 32": "worst point for: bulk.goodput >= ",
    "mprun search -t dying -x megabyte --budget 40": "worst point for: get.delay.max <= 5s",
    # without CONFIG_NET_SCH_HFSC=y
    "mprun kernel test --kernel default --kernel mine --only tc-testing/qdiscs/hfsc,tc-testing/qdiscs/htb": (
        "failed: 3254 - Create HFSC with default setting"
    ),
    # no step of these labs has been run
    **{f"mprun lab check {number}": " steps left; type:" for number in (10, 11, 12, 13)},
}
# A command in real time, which may disturb other tests and be disturbed by them.
IN_REAL_TIME = {"mprun shell -t topo"}
# Pages with the commands of a lab, which take seconds to hours: in the lab's folder, cells are counted and runs
# validated.
OF_LABS = {
    "docs/measured/studies/classroom.md": "11_classroom",
    "docs/measured/studies/figures-13_sctp_vs_mptcp/README.md": "13_sctp_vs_mptcp",
    "docs/measured/studies/openflow_topologies.md": "10_openflow_topologies",
    "docs/measured/studies/sctp_and_mptcp.md": "13_sctp_vs_mptcp",
    "docs/measured/studies/short_flows.md": "12_datacentre_short_flows",
    "labs/10_openflow_topologies/ANSWERS.md": "10_openflow_topologies",
    "labs/10_openflow_topologies/README.md": "10_openflow_topologies",
    "labs/12_datacentre_short_flows/README.md": "12_datacentre_short_flows",
    "labs/13_sctp_vs_mptcp/README.md": "13_sctp_vs_mptcp",
}
# Names that stand for the reader's own files.
MEANS = {
    "RUN": "latest",
    "DIRECTORY": "latest",
    "TOPOLOGY": "topo",
    "EXPERIMENT": "xp",
    "COMMAND": "run",
    "A": "latest",
    "B": "latest",
    "C": "latest",
    "SWEEP": "latest-sweep",
}
# The line of a page's program that sends its data.
SENDS = "    connection.sendall("
# Pages whose commands grade runs of the first lab. On the other pages experiments run for 2 s instead of 10 s, so the
# start of a connection lowers the goodput more.
OF_FIRST_LAB = {"docs/labs.md", "docs/reference/own-lab.md", "docs/reports.md", "labs/01_multipath/README.md"}
SHORTER = {"duration: 10s": "duration: 2s", "times(0.91)": "times(0.9)", "times(1.8)": "times(1.7)"}
SWEPT = """\
version: 1
params: {cc: cubic}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s, congestion: "{{ cc }}"}]
matrix: {cc: [cubic, reno]}
"""
# A network with losses, a file that no run can send as fast as expected, and other files of the reader.
SMALL = """\
version: 1
nodes: {client: {kind: host}, server: {kind: host}}
links: [{between: [client, server], rate: 10mbit, delay: 10ms, loss: 5%}]
"""
FAILED = """\
version: 1
traffic: [{name: get, tool: http, from: client, to: server, sizes: [50kb]}]
probe: {pings: 0}
expect: [{metric: get.delay.max, max: 1ms}]
"""
WITH_QLOG = """\
version: 1
traffic: [{name: get, tool: quic, from: client, to: server, response: 1mb, multipath: true, qlog: true}]
"""
KERNELS = """\
version: 1
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s}]
matrix: {kernel: [default, mine]}
"""
OLD_TOPOLOGY = "leftSubnet:10.0.\nrightSubnet:10.1.\npath_c2r_0:20,80,20\npath_c2r_1:20,80,20\ntopoType:MultiIf\n"
OLD_EXPERIMENT = "xpType:iperf\niperfTime:1\n"
# Files of a page that does not use the folder of the first lab.
FILES: dict[str, dict[str, str]] = {
    # the page copies each lab
    "docs/gallery/index.md": {},
    "docs/reference/older-files.md": {
        "topo": OLD_TOPOLOGY,
        "xp": OLD_EXPERIMENT,
        "xp_tcp": OLD_EXPERIMENT,
        "xp_mptcp": OLD_EXPERIMENT,
        "xp.yaml": SHORT,
    },
    "docs/sweeps.md": {"topo.yaml": (LAB / "topo.yaml").read_text(), "xp.yaml": SWEPT, "kernels.yaml": KERNELS},
}
# Pages whose own files take the place of the reader's.
WITH_FILES = frozenset(
    {
        "docs/measurements.md",
        "docs/measured/findings.md",
        "docs/own-programs.md",
        "docs/reference/questions/faults.md",
        "docs/reference/questions/search.md",
    }
)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _blocks(page: Path) -> list[str]:
    """Return the commands in blocks, without commands that run elsewhere, usage lines, and incomplete commands."""
    followed = _name(page).removesuffix(".md") in FOLLOWED
    script = page.is_relative_to(ROOT / "labs")
    languages = ["", "indented", *([] if script else ["sh"]), *([] if followed else ["console"])]
    return [line for line in commands_in_blocks(page, *languages) if "[OPTIONS]" not in line]


def _sentences(page: Path) -> list[str]:
    return [line for line in commands_in_sentences(page) if len(line.split()) > 2 and "..." not in line]


def _without_long_runs(line: str) -> str:
    """Return the command that only lists the runs of a publication, which take up to hours."""
    return f"{line} --dry-run" if "--profile published" in line and "lab run" in line else line


def _briefly(line: str, lab: str) -> str:
    line = _without_long_runs(line)
    if line.startswith("mprun lab"):
        return line
    if line.startswith("mprun sweep"):
        line += " --dry-run"
    return f"cd {ROOT}/labs/{lab} && {line.replace('mprun -t', 'mprun validate -t')}"


def _assigned() -> dict[str, list[str]]:
    """Return the commands to run here: in each folder a command once, for the first page that shows it."""
    elsewhere = {line for page in PAGES for line in commands_in_blocks(page, "sh", "console")}
    elsewhere -= {line for page in PAGES for line in _blocks(page)}
    done = elsewhere | {"mprun lab run 01", *NOT_RUN, *(f"mprun {words}" for _, words, _ in ROWS)}
    found = {}
    for page in PAGES:
        own = _blocks(page) if _name(page) in FILES else []
        found[_name(page)] = [line for line in dict.fromkeys(own) if line not in NOT_RUN]
        shared = dict.fromkeys([*([] if own else _blocks(page)), *_sentences(page)])
        new = [line for line in shared if line not in done]
        found["sentences of " * bool(own) + _name(page)] = [line for line in new if line not in IN_REAL_TIME]
        found["real time of " + _name(page)] = [line for line in new if line in IN_REAL_TIME]
        done |= set(shared)
    return {name: lines for name, lines in found.items() if lines}


ASSIGNED = _assigned()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with mprun on the path, and a home with a cache of kernels and a program in a repository.

    Programs that show files have stand-ins.
    """
    home = tmp_path_factory.mktemp("home")
    programs = home / "bin"
    write_program(programs)
    for name in ("wireshark", "xdg-open"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (home / ".config" / "fish" / "completions").mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\nname = Reader\nemail = reader@example.org\n")
    _make_cache(home / ".cache" / "mprun")
    made = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    _make_program(home / "program", made)
    return made


def _make_cache(own: Path) -> None:
    """Make a cache whose kernels commands may name and remove. The tools are those of the user."""
    (own / "kernels").mkdir(parents=True)
    for name in ("cpus", "selftests", "tools"):
        if cache(name).exists():
            (own / name).symlink_to(cache(name))


def _name_kernels(kernels: Path) -> None:
    """Give the user's kernel the names that the reader's kernels have.

    It stays in its folder, because the length of a kernel's command line changes its free memory, which its log has. No
    command removes all names, which would remove the kernel.
    """
    for name in ("bisect", "debug", "default", "lines", "mine"):
        (kernels / name).unlink(missing_ok=True)
        (kernels / name).symlink_to(find_kernel().directory)


def _make_program(folder: Path, env: Mapping[str, str]) -> None:
    """Make a repository with two versions of the program of a page. The second version waits before it sends."""
    folder.mkdir()
    programs = _files_of(ROOT / "docs" / "own-programs.md", "python")
    assert programs["client.py"].count(SENDS) == 1
    (folder / "Makefile").write_text("all:\n")
    for version, before in (("v1", ""), ("v2", "    time.sleep(1)\n")):
        (folder / "client.py").write_text(programs["client.py"].replace(SENDS, before + SENDS))
        (folder / "server.py").write_text(programs["server.py"])
        for words in ("init -q", "add .", f"commit -q -m {version}", f"tag {version}"):
            subprocess.run(["git", *words.split()], cwd=folder, env=environment(**env), check=True)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working copy of the first lab with runs, short experiments, a sweep and its bundle, and a class."""
    folder = tmp_path_factory.mktemp("reader") / "lab"
    assert call("lab", "start", "01", folder, cwd=folder.parent).status == 0
    (folder / "swept.yaml").write_text(SWEPT)
    (folder / "small.yaml").write_text(SMALL)
    (folder / "failing.yaml").write_text(FAILED)
    (folder / "qlog.yaml").write_text(WITH_QLOG)
    (folder / "xp.yaml").write_text(SHORT + "tracepoints: ['tcp:tcp_probe', 'mptcp:*']\n")
    (folder / "drive.csv").write_text("t,dl\n0,1000\n1,2000\n2,500\n")
    for words in ("-t topo -x xp_tcp", "-t topo -x xp_mptcp", "sweep -t topo -x swept", "-t topo -x xp"):
        done = call(*words.split(), cwd=folder)
        assert done.status == 0, done.err
    shutil.copytree(folder, folder.parent / "anna", symlinks=True)
    (folder / "students").mkdir()
    (folder.parent / "anna").rename(folder / "students" / "anna")
    return folder


def _files_of(page: Path, language: str) -> dict[str, str]:
    """Return the files that stand on a page by name, the first of each name."""
    found: dict[str, str] = {}
    for text in blocks_of(page, language):
        if named := NAMED.match(text):
            found.setdefault(named[2], text)
    return found


# Pages whose commands need a tool.
TOOLS = {
    "docs/measured/findings.md": ["noq"],
    "docs/gallery/index.md": ["quic"],
    "docs/quic.md": ["quic", "noq"],
    "docs/security.md": ["quic"],
}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [needs_tool(*TOOLS.get(name, ())), *([pytest.mark.alone] if name.startswith("real time of ") else [])]


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in ASSIGNED])
def test_commands_of_the_page_work(name: str, reader: Path, env: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "place"
    if name in FILES:
        place.mkdir()
        for file, text in FILES[name].items():
            (place / file).write_text(text)
    else:
        shutil.copytree(reader, place, symlinks=True)
    if name in WITH_FILES:
        for file, text in _files_of(ROOT / name, "yaml").items():
            (place / file).write_text(text)
    for experiment in () if name in OF_FIRST_LAB else place.glob("xp*.yaml"):
        text = experiment.read_text()
        for old, new in SHORTER.items():
            text = text.replace(old, new)
        experiment.write_text(text)
    for number, shown in enumerate(ASSIGNED[name]):
        _name_kernels(Path(env["XDG_CACHE_HOME"]) / "mprun" / "kernels")
        line = _briefly(shown, OF_LABS[name]) if name in OF_LABS else _without_long_runs(shown)
        words = re.sub(r"\b[A-Z]+\b", lambda word: MEANS.get(word[0], word[0]), INSTEAD.get(line, line))
        done = subprocess.run(
            words,
            shell=True,
            cwd=place,
            env=environment(**env, **{TEST: command_of(number)}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == int(shown in FAILING), said
        assert FAILING.get(shown, "") in done.stdout, said


def test_what_is_listed_is_shown() -> None:
    shown = {line for page in PAGES for line in [*_blocks(page), *_sentences(page)]}
    assert {*NOT_RUN, *INSTEAD, *FAILING, *IN_REAL_TIME} - shown == set()
