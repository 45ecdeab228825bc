# SPDX-License-Identifier: Apache-2.0
"""The second disk of a machine: the kernel's modules, this checkout with its local changes, and the orders.

The disk has the programs for multipath QUIC and SCTP too, if they are built and fit its processor.
"""

from __future__ import annotations

import configparser
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mprun.workloads.built.program_store import find
from tests.vm.image import make_disk
from tests.vm.kernel import Kernel
from tests.vm.release import ROOT

HERE = Path(__file__).parent
TOOLS = ("quic", "cmtsctp")
# After each order, so that a machine that is ended later keeps its results.
HAND_OVER = "tar -C /results -cf /dev/vdc . && sync"


@dataclass(frozen=True)
class Order:
    """A call of pytest in the machine. user: "root" or "user"; words: the arguments of pytest."""

    name: str
    user: str
    words: tuple[str, ...]


def make_payload(kernel: Kernel, orders: Sequence[Order], folder: Path) -> Path:
    """Make the disk in `folder`. Return its file."""
    tree = folder / "payload"
    (tree / "source").mkdir(parents=True)
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in sorted(filter(None, map(os.fsdecode, listed))):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (tree / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / "source" / name)
    _describe(tree / "source")
    shutil.copy(HERE / "init.sh", tree / "init.sh")
    (tree / "orders.sh").write_text("".join(map(_spell, orders)))
    for name in TOOLS if kernel.architecture.linux == platform.machine() else ():
        if (program := find(name, as_user=True)) is not None:
            shutil.copytree(program.directory, tree / "tools" / program.directory.name)
    shutil.copytree(kernel.modules, tree / "modules", symlinks=True, copy_function=os.link)
    used = subprocess.run(["du", "-sm", tree], capture_output=True, text=True, check=True).stdout
    make_disk(tree, folder / "payload.img", int(used.split()[0]) * 5 // 4 + 64)
    shutil.rmtree(tree)
    return folder / "payload.img"


def _describe(source: Path) -> None:
    """Write the metadata of an installed package, so that the checkout counts as installed."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    name, version = (settings["metadata"][key] for key in ("name", "version"))
    folder = source / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def _spell(order: Order) -> str:
    """Return an order as lines of a shell."""
    place = "/results" if order.user == "root" else "/results/user"
    argv = [
        "python3",
        "-u",
        "-m",
        "pytest",
        "-v",
        "-rP",
        "-p",
        "no:cacheprovider",
        f"--junitxml={place}/{order.name}.xml",
    ]
    words = [*argv, f"--basetemp=/tmp/{order.name}", *order.words]
    become = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "env", "HOME=/home/user", "USER=user"]
    line = shlex.join([*(become if order.user != "root" else []), *words])
    shown = "grep --line-buffered -E ' (PASSED|FAILED|ERROR|SKIPPED) '| sed -u 's/^/vm: /'"
    return (
        f"echo 'vm: {order.name}, as {order.user}'\n{line} 2>&1 | tee {place}/{order.name}.log | {shown}\n{HAND_OVER}\n"
    )
