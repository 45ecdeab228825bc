# SPDX-License-Identifier: Apache-2.0
"""Every mprun command on a page is run, except for the listed commands, each with the reason.

Pages that are followed step by step (test_pages) and the scripts in the labs' pages (test_lab_pages) are run there. The
other commands run here, those of a page one after the other. Their folder has the files and runs that a reader of the
page would have. In a sentence, `mprun verify` alone is the name of a command; with arguments it is a command to type.
"make lab" of the README is typed by test_pages as `mprun lab run 01`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, commands_in_blocks, commands_in_sentences
from tests.system.conftest import LAB, SHORT, call, environment, needs_tool
from tests.system.test_findings import ROWS
from tests.system.test_pages import PAGES as FOLLOWED

NOT_RUN = {
    "mprun -t topo -x xp --kernel mine": "the kernel is the reader's own; test_kernel runs one of another name",
    "mprun -t topo -x xp --kernel debug": "the kernel is the reader's own",
    "mprun compare latest-sweep --by kernel --within 2%": "needs two kernels; test_sweep compares two",
    "mprun kernel build --source ~/linux --name mine": "builds a kernel: minutes",
    "mprun kernel build --source ~/src/linux --name mine": "builds a kernel: minutes",
    "mprun kernel build --source": "builds a kernel: minutes",
    "mprun kernel build --symbols": "builds a kernel: minutes",
    "mprun kernel build --symbols --source ~/linux --name mine": "builds a kernel: minutes",
    "mprun kernel build --source ~/linux --name mine --symbols": "builds a kernel: minutes",
    "mprun debug latest --at 1.5s": "gdb waits for commands; test_debug gives it some",
    "mprun debug latest --fail-if 'max(sockets[host=client, path=path1].retransmits_packets) > 0'": "test_debug takes "
    "another statement",
    "mprun debug latest --packet client.pcap:120 --command 'mp-skb skb' --command 'bt 4'": "test_debug takes another",
    "mprun kernel build --source linux-source-7.3.tar.xz --name later": "builds a kernel: minutes",
    "mprun kernel build --source ~/linux --name mine --watch -- mprun -t topo -x xp --kernel mine": "waits for edits",
    "mprun kernel build --source ~/linux --name mine --config my.config": "builds a kernel: minutes",
    "mprun kernel build --source ~/linux --name debug --profile debug": "builds a kernel: minutes",
    "mprun kernel build --source ~/linux --name lines --profile coverage": "builds a kernel: minutes",
    "mprun kernel build --source TREE --name lines --profile coverage": "builds a kernel: minutes",
    "mprun kernel build --profile coverage": "builds a kernel: minutes",
    **{
        f"mprun {words}": "needs a kernel that counts lines; test_own_kernel builds one"
        for words in (
            "-t topo -x xp_mptcp --kernel lines",
            "-t topo -x xp_tcp --kernel lines",
            "coverage --file 'net/mptcp/*'",
            "coverage xp_tcp xp_mptcp --text",
            "coverage --missed",
            "coverage A B",
        )
    },
    "mprun kernel build --name mine --with-scheduler most_room.c": "builds a kernel: minutes",
    **{
        f"mprun bisect -t topo -x xp --tree {rest}": "takes the reader's own repository; test_bisect makes one"
        for rest in (
            "~/linux --good v6.12.1 --bad v6.12.9 --fail-if 'bulk.goodput < 36.9mbit'",
            "~/program --good v1 --bad v2 --build make --allow-exec --allow-outside",
        )
    },
    "mprun faults -t topo -x xp_mptcp": "200 runs; test_lost_packets makes a shorter study",
    "mprun faults -t topo -x mptcp --metric bulk.goodput": "200 runs; test_findings repeats what it found",
    **{f"mprun {words}": "test_findings runs it with the files of its page" for _, words, _ in ROWS},
    **{
        f"mprun {words}": "hundreds of runs; test_findings repeats what it found"
        for words in (
            "faults -t slow -x file --first 40",
            "faults -t topo -x quic --first 30",
            "faults -t topo -x sctp --first 30",
            "search -t dying -x megabyte --budget 40",
            "search -t six -x window --budget 48",
            "search -t topo -x any --budget 96",
        )
    },
    "mprun kernel import": "replaces the kernel; test_installation imports one",
    "mprun kernel import ours.mprun-kernel.zip --trust DIGEST": "replaces the kernel; test_installation imports one",
    "mprun why latest": "needs a run that failed; test_why makes one",
    "mprun why RUN": "needs a run that failed; test_why makes one",
    "mprun history": "needs a git repository; test_past makes one",
    "mprun history DIRECTORY": "needs a git repository; test_past makes one",
    "mprun -t topo -x get": "test_findings runs it with the files of its page",
    "mprun -t topo -x get -p packet=2": "test_findings runs it with the files of its page",
    "mprun faults -t topo -x get --first 40 --action strip": "40 runs; test_findings repeats what it found",
    **{
        f"mprun faults -t topo -x xp_mptcp {rest}": "200 runs; test_lost_packets makes a shorter study"
        for rest in ("--action delay --by 200ms", "--action strip", "--pairs")
    },
    "mprun search -t topo -x xp": "hundreds of runs; test_search makes a shorter search",
    "mprun minimise RUN": "needs a run that failed; test_minimise makes one",
    "mprun minimise latest": "needs a run that failed; test_minimise makes one",
    "mprun kernel rm bisect": "the kernel is the reader's own; test_store removes some",
    "mprun kernel template": "needs operands; test_addition writes the files",
    "mprun kernel template scheduler most_room.c": "test_addition writes the files",
    "mprun kernel rm mine": "the kernel is the reader's own; test_store removes some",
    "mprun kernel build --name mine --with-scheduler labs/07_own_scheduler/solution/own.c": "test_own_scheduler does",
    "mprun kernel build --name mine --with-scheduler own.c": "builds a kernel; test_own_scheduler does",
    "mprun kernel build --source linux-source-6.12 --name mine --with-scheduler own.c --watch -- mprun lab run": (
        "waits for edits"
    ),
    "mprun kernel build --watch": "waits for edits",
    "mprun kernel build --profile debug": "builds a kernel: minutes",
    "mprun kernel test --kernel default --kernel mine --only tc-testing/qdiscs/hfsc,tc-testing/qdiscs/htb": (
        "the kernel is the reader's own; test_selftests compares two"
    ),
    "mprun kernel test --kernel A --kernel B": "test_selftests compares two",
    "mprun kernel test": "ten minutes; test_selftests runs parts",
    "mprun kernel test --kernel mine --only simult_flows,mptcp_join/fastclose": "the kernel is the reader's own",
    "mprun kernel test --scheduler roundrobin --json": "ten minutes; test_selftests runs parts",
    **{
        f"mprun kernel test --packetdrill ~/packetdrill/gtests/net/packetdrill {rest}": "needs the program packetdrill"
        for rest in ("--only packetdrill", "--suite ~/packetdrill/gtests/net --only packetdrill/tcp")
    },
    "mprun lab check": "grades the copy of a lab; test_lab_commands and test_lab_pages do",
    "mprun packets latest --delay client router --delay router server": "needs captures of three nodes; test_packets "
    "measures such delays",
    "mprun lab run --all": "all labs: twenty minutes",
    "mprun sweep -t topo -x xp --cluster tcp://SCHEDULER:8786": "needs a cluster; test_cluster makes one",
    "mprun export --qlog": "the reader's runs have no qlog; test_quic exports some",
    "mprun tools install quic": "compiles for minutes, with packages of its own",
    "mprun reproduce FILE": "docs/bundles.md shows it with the file that it made there",
    "mprun lab run FOLDER": "test_pages runs the first lab by its number",
    "mprun lab run 01 --engine real -p rate=5mbit": "needs a kernel with netem; make vm runs it",
    "mprun lab run -p stack=noq": "the whole lab: a minute; test_quic runs parts",
    "mprun sweep -t topo -x cpu --engine real": "an example of a value in lab.yaml, with files of the reader's lab",
    **{f"mprun lab run {number}": "the whole lab: up to minutes" for number in "06 08 10 11 12 13".split()},
    **{f"mprun lab check {number}": "grades the runs of the whole lab" for number in "10 11 12 13".split()},
}
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
    "mprun kernel export FILE": "mprun kernel export ours2.mprun-kernel.zip",
    "mprun baseline write": "mprun baseline write -t topo -x xp",
    "mprun trace import FILE": "mprun trace import drive.csv --format csv --column time=t:s --column rate=dl:kbit",
    # the page makes figure3.zip in the sentence after this command
    "mprun reproduce figure3.zip": "mprun reproduce paper.zip",
    # xp.yaml exists already, from the command before
    "mprun convert topo xp": "mprun convert topo xp --force",
    # for a sweep, because the folder has no run
    "mprun compare A B": "mprun compare latest-sweep latest-sweep",
    "mprun compare": "mprun compare latest-sweep latest-sweep",
    "mprun plan --diff A B": "mprun plan --diff latest latest",
}
# Pages with the commands of a lab, which take seconds to hours: in the lab's folder, cells are counted and runs
# validated.
OF_LABS = {
    "docs/studies/classroom.md": "11_classroom",
    "docs/studies/figures-13_sctp_vs_mptcp/README.md": "13_sctp_vs_mptcp",
    "docs/studies/openflow_topologies.md": "10_openflow_topologies",
    "docs/studies/sctp_and_mptcp.md": "13_sctp_vs_mptcp",
    "docs/studies/short_flows.md": "12_datacentre_short_flows",
    "labs/10_openflow_topologies/ANSWERS.md": "10_openflow_topologies",
    "labs/10_openflow_topologies/README.md": "10_openflow_topologies",
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
SWEPT = """\
version: 1
params: {cc: cubic}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s, congestion: "{{ cc }}"}]
matrix: {cc: [cubic, reno]}
"""
OLD_TOPOLOGY = "leftSubnet:10.0.\nrightSubnet:10.1.\npath_c2r_0:20,80,20\npath_c2r_1:20,80,20\ntopoType:MultiIf\n"
OLD_EXPERIMENT = "xpType:iperf\niperfTime:1\n"
# Files of a page that does not use the folder of the first lab.
FILES: dict[str, dict[str, str]] = {
    # the page copies each lab
    "docs/gallery.md": {},
    "docs/older-files.md": {
        "topo": OLD_TOPOLOGY,
        "xp": OLD_EXPERIMENT,
        "xp_tcp": OLD_EXPERIMENT,
        "xp_mptcp": OLD_EXPERIMENT,
        "xp.yaml": SHORT,
    },
    "docs/sweeps.md": {"topo.yaml": (LAB / "topo.yaml").read_text(), "xp.yaml": SWEPT},
}


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
    if line.startswith("mprun sweep"):
        line += " --dry-run"
    return f"cd {ROOT}/labs/{lab} && {line.replace('mprun -t', 'mprun validate -t')}"


def _assigned() -> dict[str, list[str]]:
    """Return the commands to run here: in each folder a command once, for the first page that shows it."""
    elsewhere = {line for page in PAGES for line in commands_in_blocks(page, "sh", "console")}
    elsewhere -= {line for page in PAGES for line in _blocks(page)}
    done = elsewhere | {"mprun lab run 01", *NOT_RUN}
    found = {}
    for page in PAGES:
        own = _blocks(page) if _name(page) in FILES else []
        found[_name(page)] = [line for line in dict.fromkeys(own) if line not in NOT_RUN]
        shared = dict.fromkeys([*([] if own else _blocks(page)), *_sentences(page)])
        found["sentences of " * bool(own) + _name(page)] = [line for line in shared if line not in done]
        done |= set(shared)
    return {name: lines for name, lines in found.items() if lines}


ASSIGNED = _assigned()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with mprun on the path, its own home, and stand-ins for programs that show files."""
    home = tmp_path_factory.mktemp("home")
    programs = home / "bin"
    programs.mkdir()
    (programs / "mprun").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mprun "$@"\n')
    for name in ("wireshark", "xdg-open"):
        (programs / name).write_text("#!/bin/sh\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    (home / ".config" / "fish" / "completions").mkdir(parents=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return environment(PATH=f"{programs}:{os.environ['PATH']}", HOME=str(home), XDG_CACHE_HOME=cache)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working copy of the first lab with runs, a short experiment, a sweep and its bundle, and a class."""
    folder = tmp_path_factory.mktemp("reader") / "lab"
    assert call("lab", "start", "01", folder, cwd=folder.parent).status == 0
    (folder / "swept.yaml").write_text(SWEPT)
    (folder / "xp.yaml").write_text(SHORT + "tracepoints: ['tcp:tcp_probe', 'mptcp:*']\n")
    (folder / "drive.csv").write_text("t,dl\n0,1000\n1,2000\n2,500\n")
    for words in ("-t topo -x xp_tcp", "-t topo -x xp_mptcp", "sweep -t topo -x swept", "-t topo -x xp"):
        done = call(*words.split(), cwd=folder)
        assert done.status == 0, done.err
    shutil.copytree(folder, folder.parent / "anna", symlinks=True)
    (folder / "students").mkdir()
    (folder.parent / "anna").rename(folder / "students" / "anna")
    return folder


# Pages whose commands need a tool.
TOOLS = {"docs/gallery.md": ["quic"], "docs/quic.md": ["noq"]}


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_tool(*TOOLS.get(name, ()))) for name in ASSIGNED])
def test_commands_of_the_page_work(name: str, reader: Path, env: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "place"
    if name in FILES:
        place.mkdir()
        for file, text in FILES[name].items():
            (place / file).write_text(text)
    else:
        shutil.copytree(reader, place, symlinks=True)
    for shown in ASSIGNED[name]:
        line = _briefly(shown, OF_LABS[name]) if name in OF_LABS else _without_long_runs(shown)
        words = re.sub(r"\b[A-Z]+\b", lambda word: MEANS.get(word[0], word[0]), INSTEAD.get(line, line))
        done = subprocess.run(
            words,
            shell=True,
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def test_what_is_listed_is_shown() -> None:
    shown = {line for page in PAGES for line in [*_blocks(page), *_sentences(page)]}
    assert {*NOT_RUN, *INSTEAD} - shown == set()
