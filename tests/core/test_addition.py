# SPDX-License-Identifier: Apache-2.0
"""A user's options, schedulers and congestion controls: read, refused, and built in."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli.kernel import command
from mprun.errors import MachineError, SpecError
from mprun.kernel.addition import (
    NOTHING,
    Addition,
    OwnFile,
    parse_options,
    read_additions,
    write_template,
)
from mprun.kernel.recipe import asked_options
from mprun.kernel.store import kernel_digest

SCHEDULER = OwnFile("scheduler", "mine", "int it;\n")
CONGESTION = OwnFile("congestion", "slow", "int it;\n")
MAKEFILE = {"net/mptcp/Makefile": b"mptcp-y := protocol.o\n", "kernel/fork.c": b"fork\n"}


def symbols(*lines: str) -> str:
    return "\n".join(f"vmlinux.a:{line}" for line in lines)


def test_without_additions_a_kernel_keeps_its_digest() -> None:
    assert NOTHING.digest == ""
    assert kernel_digest("source", "recipe", NOTHING.digest) == kernel_digest("source", "recipe")
    assert NOTHING.add_files(MAKEFILE) == MAKEFILE


@pytest.mark.parametrize(
    "other",
    [
        Addition(("CONFIG_NET_SCH_HFSC=y",)),
        Addition(files=(SCHEDULER,)),
        Addition(files=(OwnFile("scheduler", "mine", "int other;\n"),)),
        Addition(files=(OwnFile("scheduler", "yours", "int it;\n"),)),
        Addition(files=(OwnFile("congestion", "mine", "int it;\n"),)),
    ],
)
def test_each_addition_makes_another_kernel(other: Addition) -> None:
    assert other.digest
    assert other.digest != Addition(files=(SCHEDULER, CONGESTION)).digest
    assert kernel_digest("s", "r", other.digest) != kernel_digest("s", "r")


def test_own_files_are_part_of_mptcp() -> None:
    made = Addition(files=(SCHEDULER, CONGESTION)).add_files(MAKEFILE)
    assert made.pop("net/mptcp/own_mine.c") == b"int it;\n"
    assert made.pop("net/mptcp/own_slow.c") == b"int it;\n"
    lines = made["net/mptcp/Makefile"].decode().splitlines()
    assert lines == ["mptcp-y := protocol.o", "", "mptcp-y += own_mine.o", "mptcp-y += own_slow.o"]
    assert made["kernel/fork.c"] == MAKEFILE["kernel/fork.c"]


def test_a_file_registers_what_it_is_for() -> None:
    added = Addition(files=(SCHEDULER, CONGESTION))
    mine = "net/mptcp/own_mine.o:                 U mptcp_register_scheduler"
    slow = "net/mptcp/own_slow.o:                 U tcp_register_congestion_control"
    added.check_files(symbols(mine, slow))
    with pytest.raises(SpecError, match=r"mine\.c: does not call mptcp_register_scheduler\(\); `mprun kernel te"):
        added.check_files(symbols(slow, mine.replace("own_mine", "sched")))
    with pytest.raises(SpecError, match=r"slow\.c: does not call tcp_register_congestion_control\(\)"):
        added.check_files(symbols(mine, slow.replace(" U ", " T ")))


def test_options_are_lines_of_a_configuration() -> None:
    text = "# a comment\n\nCONFIG_NET_SCH_HFSC=y\nCONFIG_LOG_BUF_SHIFT=20\n# CONFIG_TCP_CONG_BBR2 is not set\n"
    assert parse_options("my.config", text) == [
        "CONFIG_NET_SCH_HFSC=y",
        "CONFIG_LOG_BUF_SHIFT=20",
        "# CONFIG_TCP_CONG_BBR2 is not set",
    ]
    # options that the engine has anyway
    assert parse_options("my.config", "\n".join(asked_options())) == asked_options()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("NET_SCH_HFSC=y", "'NET_SCH_HFSC=y' is no option: write CONFIG_NAME=y or # CONFIG_NAME is not set"),
        ("CONFIG_NET_SCH_HFSC=m", "CONFIG_NET_SCH_HFSC=m: this kernel has no modules: write CONFIG_NET_SCH_HFSC=y"),
        ("# CONFIG_HOSTFS is not set", "the engine needs CONFIG_HOSTFS=y: remove this line"),
        ("CONFIG_UML_TIME_TRAVEL_SUPPORT=n", "the engine needs CONFIG_UML_TIME_TRAVEL_SUPPORT=y: remove this line"),
        ("CONFIG_MODULES=y", "CONFIG_MODULES=y: programs of a run could load code into the kernel: remove this line"),
        ("CONFIG_MCONSOLE=y", "programs of a run could reach the host"),
        ("CONFIG_UML_NET_VECTOR=y", "programs of a run could reach the host's network"),
        ("CONFIG_XTERM_CHAN=y", "the consoles of the kernel would open files of the host"),
        ("CONFIG_DEVMEM=y", "could read or replace the kernel"),
        ("CONFIG_UML_RTC=y", "the host's time would enter the run"),
        ("CONFIG_UML_RANDOM=y", "the host's randomness would enter the run"),
        ("CONFIG_SMP=y", "simulated time has one CPU"),
    ],
)
def test_options_that_break_the_engine_are_refused(line: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_options("my.config", f"# mine\n{line}\n")
    assert str(caught.value).startswith("my.config:2: ")
    assert str(caught.value).endswith(message) or message in str(caught.value)


def test_options_that_break_the_engine_may_be_off() -> None:
    assert parse_options("f", "# CONFIG_MODULES is not set\n") == ["# CONFIG_MODULES is not set"]


def test_an_option_that_a_tree_does_not_take_is_named() -> None:
    added = Addition(("CONFIG_A=y", "CONFIG_SIZE=20", "# CONFIG_B is not set"))
    added.check_options("CONFIG_A=y\nCONFIG_SIZE=20\n# CONFIG_B is not set\n")
    added.check_options("CONFIG_A=y\nCONFIG_SIZE=20\n")
    with pytest.raises(SpecError, match=r"CONFIG_A=y: the tree does not take this option; see A in its Kconfig files"):
        added.check_options("CONFIG_SIZE=20\n")
    with pytest.raises(SpecError, match="CONFIG_SIZE=20: the tree's other options require CONFIG_SIZE=17"):
        added.check_options("CONFIG_A=y\nCONFIG_SIZE=17\n")
    with pytest.raises(SpecError, match="CONFIG_B is not set: the tree's other options require CONFIG_B=y"):
        added.check_options("CONFIG_A=y\nCONFIG_SIZE=20\nCONFIG_B=y\n")


@pytest.mark.parametrize("kind", ["scheduler", "congestion"])
def test_a_template_is_named_after_its_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.c"
    done = CliRunner().invoke(command, ["template", kind, str(path)])
    assert done.output == f"next: mprun kernel build --name mine --with-{kind} {path}\n"
    text = path.read_text()
    assert '.name\t\t= "mine"' in text
    assert f"--with-{kind} mine.c" in text
    assert "@" not in text
    assert max(len(line.expandtabs(8)) for line in text.splitlines()) <= 120
    with pytest.raises(SpecError, match=r"mine\.c would be overwritten: choose another name"):
        CliRunner().invoke(command, ["template", kind, str(path)], catch_exceptions=False, standalone_mode=False)
    assert path.read_text() == text
    read = read_additions(None, [path], []) if kind == "scheduler" else read_additions(None, [], [path])
    assert read.files == (OwnFile(kind, "mine", text),)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["my-scheduler.c", "Mine.c", "mine.txt", "1st.c"])
def test_a_name_that_make_or_c_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="name the file with small letters, digits and _, and the ending"):
        write_template("scheduler", tmp_path / name)
    (tmp_path / name).write_text("int it;\n")
    with pytest.raises(SpecError, match="name the file with small letters"):
        read_additions(None, [tmp_path / name], [])


def test_files_that_cannot_be_taken(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the kernel allows names of 15 characters"):
        write_template("congestion", tmp_path / "a_very_long_name.c")
    with pytest.raises(MachineError, match=r"none\.c cannot be read: No such file"):
        read_additions(None, [tmp_path / "none.c"], [])
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "mine.c", tmp_path / "other" / "mine.c"):
        path.write_text("int it;\n")
    with pytest.raises(SpecError, match=r"two files have the name mine\.c: rename one"):
        read_additions(None, [tmp_path / "mine.c"], [tmp_path / "other" / "mine.c"])
    with pytest.raises(MachineError, match=r"my\.config cannot be read"):
        read_additions(tmp_path / "my.config", [], [])


def test_the_debug_profile_adds_checks_that_a_user_can_switch_off(tmp_path: Path) -> None:
    profile = read_additions(None, [], [], "debug")
    checks = {"PROVE_LOCKING", "DEBUG_NET", "KASAN", "DEBUG_KMEMLEAK"}
    assert {f"CONFIG_{name}=y" for name in checks} <= set(profile.options)
    # the profile keeps to the rules for the options of users
    assert parse_options("debug.config", "\n".join(profile.options)) == list(profile.options)
    config = tmp_path / "my.config"
    config.write_text("# CONFIG_PROVE_LOCKING is not set\nCONFIG_NET_SCH_HFSC=y\n")
    mine = read_additions(config, [], [], "debug").options
    assert set(mine) - set(profile.options) == {"# CONFIG_PROVE_LOCKING is not set", "CONFIG_NET_SCH_HFSC=y"}
    assert set(profile.options) - set(mine) == {"CONFIG_PROVE_LOCKING=y"}
    assert read_additions(None, [], []).digest == ""
