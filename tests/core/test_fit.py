# SPDX-License-Identifier: Apache-2.0
"""A kernel that was built without an option or a hook of ours is refused, whichever tree it is of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mprun.errors import MachineError
from mprun.kernel.patch import PLACES, check_hooks, read_hooks
from mprun.kernel.recipe import C_SOURCES, LATER_NAMES, check_options, later_names

OPTIONS = ["CONFIG_NET=y", "CONFIG_PROC_SYSCTL=y"]
# The functions of ours that the tree's own files can call, as their headers declare them.
HEADERS = ("mprun.h", "mptcp/mprun_mptcp.h")
# The clock's page calls this function, and no file of the tree does.
BETWEEN_OURS = {"mprun_clock_read"}
FUNCTIONS = {name for header in HEADERS for name in re.findall(r"\b(mprun_\w+)\(", (C_SOURCES / header).read_text())}
FUNCTIONS -= BETWEEN_OURS
CALLS = sorted(
    {(first.file, name) for first, *_ in read_hooks() for name in FUNCTIONS & set(re.findall(r"\w+", first.new))}
)


def object_of(file: str) -> str:
    """Return the object that a file is compiled to; a header is compiled into that of a file which includes it."""
    return "fs/read_write.o" if file == "include/linux/fsnotify.h" else str(Path(file).with_suffix(".o"))


def symbols(*without: tuple[str, str]) -> str:
    """Return what nm prints of a kernel in which every hook is in effect but these."""
    lines = [f"vmlinux.a:arch/um/kernel/mprun.o:0000000000000040 T {name}" for name in sorted(FUNCTIONS)]
    # our own files call these too, which shows nothing of the hooks
    ours = [str(Path(place).with_suffix(".o")) for place in PLACES.values() if place.endswith(".c")]
    lines += [f"vmlinux.a:{ours[0]}:                 U {name}" for name in sorted(FUNCTIONS)]
    lines += [
        f"vmlinux.a:{object_of(file)}:                 U {name}" for file, name in CALLS if (file, name) not in without
    ]
    return "\n".join(lines)


def test_a_kernel_with_all_hooks_is_taken() -> None:
    check_hooks(symbols())


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{call[1]}")
def test_a_hook_that_was_compiled_to_nothing_is_named(call: tuple[str, str]) -> None:
    with pytest.raises(
        MachineError, match=rf"^\S+\.patch: {call[0]}: the hook .* has no effect: {call[1]}\(\) is never called"
    ):
        check_hooks(symbols(call))


def test_there_are_calls_of_every_function_that_hooks_call() -> None:
    """The seal, the limits, time, randomness, links and schedulers: nothing of them is left out above."""
    assert {name for _, name in CALLS} == FUNCTIONS


def test_an_option_counts_under_its_later_name() -> None:
    assert later_names(OPTIONS) == ["CONFIG_SYSCTL=y"]
    for name in ("CONFIG_PROC_SYSCTL=y", "CONFIG_SYSCTL=y"):
        check_options(f"CONFIG_NET=y\n{name}\n", OPTIONS)
    with pytest.raises(MachineError, match=r"this kernel tree has no CONFIG_PROC_SYSCTL=y; mprun needs 6\.12 or later"):
        check_options("CONFIG_NET=y\n", OPTIONS)
    with pytest.raises(MachineError, match="has no CONFIG_NET=y"):
        check_options("# CONFIG_NET is not set\nCONFIG_SYSCTL=y\n", OPTIONS)


def test_later_names_are_those_of_options_that_are_asked_for() -> None:
    asked = (C_SOURCES.parent / "config.fragment").read_text().splitlines()
    assert set(LATER_NAMES) <= set(asked)
