# SPDX-License-Identifier: Apache-2.0
"""The kernel's tests as programs that can run: taken from a kernel's source, compiled with its headers.

They are kept in `~/.cache/mprun/selftests/<digest>/`. The digest is that of the source and of our additions, so nothing
is compiled twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from mprun.errors import MachineError, RunError
from mprun.kernel import build, store
from mprun.machine.cache import Progress, cache, locked
from mprun.machine.scratch import scratch
from mprun.model import engine_paths
from mprun.model.frozen import Frozen

GUEST = Path(__file__).parent / "guest"
SELFTESTS = Path("tools/testing/selftests")
SCRIPTS = SELFTESTS / "net" / "mptcp"
LIBRARY = "mptcp_lib.sh"
TC_TESTS = "tc-testing"
BUILD_TOOLS = {"make": "make", "gcc": "gcc", "xz": "xz-utils"}
# The programs that the scripts call, apart from those that every Debian system has.
TOOLS = {
    "iptables": "iptables",
    "ip6tables": "iptables",
    "ethtool": "ethtool",
    "sysctl": "procps",
    "ps": "procps",
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "ping": "iputils-ping",
}
# The tests, and the files that `make headers` reads.
_PARTS = (
    "Makefile",
    "Kbuild",
    "scripts",
    "usr/include",
    "usr/Makefile",
    "include/uapi",
    "include/asm-generic",
    "arch/x86/Makefile*",
    "arch/x86/include/uapi",
    "arch/x86/entry/syscalls",
    "arch/x86/tools",
    "tools/include",
    f"{SELFTESTS}/*.*",
    f"{SELFTESTS}/kselftest",
    f"{SELFTESTS}/net/*.sh",
    f"{SELFTESTS}/net/lib",
    f"{SCRIPTS}",
    f"{SELFTESTS}/net/packetdrill",
    f"{SELFTESTS}/{TC_TESTS}",
)


# An entry of `all_tests_sorted` in mptcp_join.sh: a letter (an option) and a function.
_GROUP = re.compile(r"^\s+(\w)@(\w+)_tests$", re.MULTILINE)


class Script(Frozen):
    """A test that runs alone: a script, a group of a script, or a script of a suite.

    - name: the file's name without `.sh`, or the suite's name.
    - group: the group, or the script in the suite.
    - folder: where `command` starts, a path inside the experiment kernel.
    - shown: the folders of the host that the test sees, and their paths inside.
    """

    name: str
    group: str
    folder: str
    command: tuple[str, ...]
    shown: Mapping[Path, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.name}/{self.group}" if self.group else self.name


def prepare(kernel: store.Kernel, progress: Progress) -> tuple[Path, bool]:
    """Return the compiled folder `selftests` of a kernel's source, and True if the source is unchanged since the build.

    Raises MachineError for what is missing on this machine, RunError if the tests do not compile.
    """
    source = Path(kernel.source)
    _check_machine(source)
    progress("reading the source", 0)
    source_digest = build.digest_source(source)
    added = (GUEST / "symbols.sh").read_bytes()
    key = hashlib.sha256(b"\0".join([source_digest.encode(), added, *map(str.encode, _PARTS)])).hexdigest()[:16]
    target = cache("selftests") / key
    with locked(target.parent, lambda: progress("waiting for another build of this user", 0)):
        if not target.is_dir():
            _compile_into(target, source, added, progress)
    return target, store.is_built_from(kernel, source_digest)


def shown_tests(selftests: Path) -> dict[Path, str]:
    """Return the folders of the host that each test sees."""
    return {selftests: f"{engine_paths.ROOT}/selftests"}


def list_scripts(selftests: Path) -> list[Script]:
    """Return the tests of MPTCP in a prepared folder, sorted by name. Each group of a script is a test."""
    found = []
    shown = shown_tests(selftests)
    directory = f"{engine_paths.ROOT}/selftests/net/mptcp"
    for path in sorted((selftests / "net" / "mptcp").glob("*.sh")):
        if path.name == LIBRARY:
            continue
        groups = [(match[2], [f"-{match[1]}"]) for match in _GROUP.finditer(path.read_text())]
        for group, options in groups or [("", [])]:
            found.append(Script(path.stem, group, directory, (f"./{path.name}", *options), shown))
    return found


def list_tc_scripts(selftests: Path) -> list[Script]:
    """Return the tests of traffic control in a prepared folder, a script for each file, as `tc-testing/qdiscs/netem`.

    Each test sets up a queueing discipline, a filter or an action with tc(8), and compares what tc then prints.
    """
    folder = selftests / TC_TESTS / "tc-tests"
    directory = f"{engine_paths.ROOT}/selftests/{TC_TESTS}"
    command = ("/usr/bin/python3", "./tdc.py", "--outfile", "/tmp/results", "-f")
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*.json"))]
    return [
        Script(TC_TESTS, str(name.with_suffix("")), directory, (*command, f"tc-tests/{name}"), shown_tests(selftests))
        for name in names
    ]


def _check_machine(source: Path) -> None:
    if not source.exists():
        raise MachineError(f"the source that the kernel was built from is gone: {source}; run `mprun kernel build`")
    needed = BUILD_TOOLS | TOOLS
    search = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = dict.fromkeys(package for tool, package in needed.items() if not shutil.which(tool, path=search))
    if missing:
        raise MachineError(f"the kernel's tests need {', '.join(missing)}: apt-get install {' '.join(missing)}")


def _compile_into(target: Path, source: Path, added: bytes, progress: Progress) -> None:
    with scratch(".build-", target.parent) as work:
        progress("unpacking the tests", 0)
        tree = _take_parts(source, work)
        if not (tree / SCRIPTS / LIBRARY).is_file():
            raise MachineError(f"{source} has no {SCRIPTS / LIBRARY}: it is no kernel source with tests of MPTCP")
        progress("installing the kernel's headers", 0)
        _make(tree, ["ARCH=x86", "headers"])
        progress("compiling the tests", 0)
        _make(tree / SCRIPTS, [])
        if not (tree / SCRIPTS / "mptcp_connect").is_file():
            raise RunError("the kernel's tests do not compile: make left no program beside them")
        with (tree / SCRIPTS / LIBRARY).open("ab") as library:
            library.write(added)
        try:
            (tree / SELFTESTS).rename(target)
        except OSError:
            # another process was faster
            if not target.is_dir():
                raise


def _take_parts(source: Path, work: Path) -> Path:
    if source.is_file():
        return build.unpack(source, work, ["--wildcards", "--no-wildcards-match-slash", *(f"*/{p}" for p in _PARTS)])
    tree = work / "tree"
    for part in _PARTS:
        for path in source.glob(part):
            copy = tree / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, copy, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(path, copy)
    return tree


def _make(folder: Path, words: list[str]) -> None:
    argv = ["make", f"-j{len(os.sched_getaffinity(0))}", *words]
    # with the variables of a parent make, as in `make test`, the tests would put their programs elsewhere
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(argv, cwd=folder, env=ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RunError(f"the kernel's tests do not compile: {' '.join(argv)}:\n{done.stdout[-2000:]}")
