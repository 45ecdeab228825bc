# SPDX-License-Identifier: Apache-2.0
"""Obey the plan's ovs-vsctl and ovs-ofctl commands, many in one process, and read back ports, flows and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mprun.agent.network import NamespaceNode, run
from mprun.agent.readback import differences_groups, differences_ports

# Open vSwitch counts processors anew each 10 s from boot on, and before the first time it has none
# (count_cpu_cores() in lib/ovs-thread.c): a daemon that starts earlier gets no thread that answers
# the datapath, and no packet ever finds its way.
EARLIEST_NS = 10_100_000_000
# A file it must be, for ovs-ofctl to know it from a bridge; the experiment kernel has no /dev/stdin.
STANDARD_INPUT = "/proc/self/fd/0"


class SwitchError(Exception):
    """Open vSwitch refused a command, or has other flows than were asked for."""


def obey(node: NamespaceNode, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Carry the commands out; what was read back: rows of ports, flows and groups by bridge. Raises SwitchError."""
    ports = _plug(node, [argv for argv in commands if argv[0] == "ovs-vsctl"])
    numbers = {name: str(number) for name, number, _ in ports}
    bridges = {}
    filling = [argv for argv in commands if argv[0] == "ovs-ofctl"]
    for bridge in dict.fromkeys(argv[4] for argv in filling):
        bridges[bridge] = _fill(node, bridge, [argv for argv in filling if argv[4] == bridge], numbers)
    return {"ports": ports, "bridges": bridges}


def _plug(node: NamespaceNode, commands: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Make all bridges in one transaction. ovs-vsctl counts as success what the daemon then fails at,
    so that each port's number is read back."""
    argv = ["ovs-vsctl", *(word for command in commands for word in ("--", *command[1:]))]
    said = _call(node, argv, "ovs-vsctl")
    listed = _call(
        node, ["ovs-vsctl", "--format=json", "--columns=name,ofport,error", "list", "interface"], "ovs-vsctl"
    )
    shown: list[list[Any]] = json.loads(listed)["data"]
    if differences := differences_ports(commands, shown):
        raise SwitchError(f"{'; '.join(differences)}{': ' if said else ''}{said.strip()}")
    return sorted(shown)


def _fill(
    node: NamespaceNode, bridge: str, commands: Sequence[Sequence[str]], numbers: Mapping[str, str]
) -> dict[str, list[str]]:
    """Add flows and groups in one bundle, and compare with what the bridge then has.

    In numbers of ports: for names ovs-ofctl asks the switch for all of its ports, which takes as long
    as all the rest.
    """
    program = [*commands[0][:3], "--no-names"]
    flows, groups = (
        [_number_ports(argv[5], numbers) for argv in commands if argv[3] == verb] for verb in ("add-flow", "add-group")
    )
    lines = [*(f"group add {text}" for text in groups), *(f"flow add {text}" for text in flows)]
    typed = [argv[5] for verb in ("add-group", "add-flow") for argv in commands if argv[3] == verb]
    _call(node, [*program, "bundle", bridge, "-"], bridge, lines, typed)
    status, said = run(node, [*program, "diff-flows", bridge, STANDARD_INPUT], "\n".join(flows) + "\n")
    differing = [line for line in said.splitlines() if not _is_standalone(line)]
    shown = _call(node, [*program, "dump-groups", bridge], bridge).splitlines() if groups else []
    if status in (0, 2):
        differing += differences_groups(groups, shown)
    if differing:
        raise SwitchError(f"{bridge}: read back is not what was set: {'; '.join(differing)}")
    return {"flows": flows, "groups": [line.strip() for line in shown[1:]]}


def _number_ports(text: str, numbers: Mapping[str, str]) -> str:
    """Interfaces by their numbers; a name is not part of a longer one."""
    return re.sub(r"[\w-]+-eth\d+", lambda match: numbers.get(match[0], match[0]), text)


def _is_standalone(line: str) -> bool:
    """The flow that a bridge has by itself."""
    return line.startswith("-") and line[1:].split() == ["priority=0", "actions=NORMAL"]


def _call(node: NamespaceNode, argv: list[str], name: str, lines: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
    """What a program prints. typed: the lines as the plan has them, to show that which was refused."""
    status, said = run(node, argv, "".join(f"{line}\n" for line in lines))
    if status:
        number = re.search(r"-:(\d+):", said)
        line = f"'{typed[int(number[1]) - 1]}': " if number and 0 < int(number[1]) <= len(typed) else ""
        raise SwitchError(f"{name}: {line}{said.strip()}")
    return said
