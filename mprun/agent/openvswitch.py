# SPDX-License-Identifier: Apache-2.0
"""Run the plan's ovs-vsctl and ovs-ofctl commands, many in one process. Read back ports, flows and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mprun.agent.mininet_network import NamespaceNode, run
from mprun.agent.readback import BuildError, differences_groups, differences_ports, refuse

# Open vSwitch counts the processors every 10 s from boot on, and has none before the first count (count_cpu_cores() in
# lib/ovs-thread.c). A daemon that starts earlier gets no thread that answers the datapath, and then no packet is
# forwarded.
EARLIEST_NS = 10_100_000_000
# A path, so that ovs-ofctl does not take it for the name of a bridge. The experiment kernel has no /dev/stdin.
STANDARD_INPUT = "/proc/self/fd/0"


def obey(node: NamespaceNode, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Carry out the plan's commands of ovs-vsctl and ovs-ofctl in a node.

    Return the rows of ports, and flows and groups by bridge, as read back. Raises BuildError.
    """
    ports = _plug(node, [argv for argv in commands if argv[0] == "ovs-vsctl"])
    numbers = {name: str(number) for name, number, _ in ports}
    bridges = {}
    filling = [argv for argv in commands if argv[0] == "ovs-ofctl"]
    for bridge in dict.fromkeys(argv[4] for argv in filling):
        bridges[bridge] = _fill(node, bridge, [argv for argv in filling if argv[4] == bridge], numbers)
    return {"ports": ports, "bridges": bridges}


def _plug(node: NamespaceNode, commands: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Make all bridges in one transaction and return the rows of their ports. Raises BuildError.

    ovs-vsctl reports success even if the daemon then fails. Each port's number is therefore read back.
    """
    argv = ["ovs-vsctl", *(word for command in commands for word in ("--", *command[1:]))]
    said = _call(node, argv, "ovs-vsctl")
    listed = _call(
        node, ["ovs-vsctl", "--format=json", "--columns=name,ofport,error", "list", "interface"], "ovs-vsctl"
    )
    shown: list[list[Any]] = json.loads(listed)["data"]
    if differences := differences_ports(commands, shown):
        raise BuildError(f"{'; '.join(differences)}{': ' if said else ''}{said.strip()}")
    return sorted(shown)


def _fill(
    node: NamespaceNode, bridge: str, commands: Sequence[Sequence[str]], numbers: Mapping[str, str]
) -> dict[str, list[str]]:
    """Add flows and groups in one bundle, and compare them with those of the bridge. Raises BuildError.

    Ports are given by number. For names, ovs-ofctl asks the switch for all of its ports, which takes as long as all
    other work.
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
    refuse(bridge, differing)
    return {"flows": flows, "groups": [line.strip() for line in shown[1:]]}


def _number_ports(text: str, numbers: Mapping[str, str]) -> str:
    """Replace the names of interfaces by their numbers. Only whole names are replaced."""
    return re.sub(r"[\w-]+-eth\d+", lambda match: numbers.get(match[0], match[0]), text)


def _is_standalone(line: str) -> bool:
    """Return True for the flow that a bridge has by default."""
    return line.startswith("-") and line[1:].split() == ["priority=0", "actions=NORMAL"]


def _call(node: NamespaceNode, argv: list[str], name: str, lines: Sequence[str] = (), typed: Sequence[str] = ()) -> str:
    """Return the output of a program. Raises BuildError, with the line of `typed` that was refused.

    typed: the lines as the plan has them.
    """
    status, said = run(node, argv, "".join(f"{line}\n" for line in lines))
    if status:
        number = re.search(r"-:(\d+):", said)
        line = f"'{typed[int(number[1]) - 1]}': " if number and 0 < int(number[1]) <= len(typed) else ""
        raise BuildError(f"{name}: {line}{said.strip()}")
    return said
