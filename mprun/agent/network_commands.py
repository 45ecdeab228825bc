# SPDX-License-Identifier: Apache-2.0
"""Build the network of a plan, command by command, and read back what was set.

- ip commands, and the tc commands that most wires need, are sent as rtnetlink messages in batches.
- sysctl settings are written to files. ethtool settings use an ioctl.
- Other tc commands and `ip mptcp` use one process per node, which sets and then shows.
- nft uses one process per node to set and one to show.

The run stops if the settings that were read back differ from the plan.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mprun.agent import kernel_file, namespace, offload, openvswitch, rtnetlink, ruleset, shaping, sysctl
from mprun.agent.message import attributes
from mprun.agent.mininet_network import BuiltLink, NamespaceNode, PlannedNetwork, Talker, run
from mprun.agent.readback import BuildError, differences_mptcp, differences_tc, refuse

ROOT = ""
# The faults of single packets in the namespace of the thread that opens this file (`kernel/src/mprun_packet.c`).
PACKET_FAULTS = "/proc/thread-self/net/mprun_packets"
# Open files: each node has its namespace and its netlink socket. The second number is for all other files.
FILES_PER_NODE, OTHER_FILES = 2, 200
_ROUTE_NAMES = (rtnetlink.RTA_TABLE, rtnetlink.RTA_DST, rtnetlink.RTA_GATEWAY, rtnetlink.RTA_OIF)


# A message that waits to be sent, with the command that it stands for.
_Waiting = tuple[tuple[int, int, bytes], Sequence[str]]


class _Target:
    """A namespace, with the commands that wait to be sent there. places: all namespaces by name."""

    def __init__(
        self, name: str, node: NamespaceNode | None, netlink: rtnetlink.Netlink, places: Mapping[str, _Target]
    ) -> None:
        self.name = name
        self.node = node
        self.netlink = netlink
        self.translator = rtnetlink.Translator(
            self.index,
            lambda where: places[where].own.namespace,
            lambda where, interface: (places[where] if where else self).own.new_index(interface),
        )
        self.waiting: list[_Waiting] = []
        self.shaping: list[_Waiting] = []
        # interfaces with a command that only tc knows; later commands also use tc, which keeps their order
        self.only_tc: set[str] = set()
        self.qdiscs: list[Sequence[str]] = []
        self.offloads: list[Sequence[str]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.tc: list[Sequence[str]] = []
        self.mptcp: list[Sequence[str]] = []
        self.nft: list[Sequence[str]] = []
        self.talker: Talker | None = None

    @property
    def own(self) -> NamespaceNode:
        """The node, which all targets but the root have."""
        assert self.node is not None
        return self.node

    def index(self, interface: str) -> int:
        """Return the kernel's index of an interface in this namespace. Raises BuildError."""
        if self.node is None or interface not in self.node.indices:
            raise BuildError(f"{self.name}: no interface '{interface}'")
        return self.node.indices[interface]


class Builder:
    """Builds a plan's network into a PlannedNetwork."""

    def __init__(self, plan: dict[str, Any], home: int) -> None:
        self._plan = plan
        self._home = home
        self._network = PlannedNetwork(home)
        self._places: dict[str, _Target] = {}
        self._root = self._places[ROOT] = _Target(ROOT, None, rtnetlink.Netlink(), self._places)
        self._here: _Target | None = None
        self._features: offload.Features | None = None
        self.readback: dict[str, Any] = {}

    def build(self) -> None:
        """Run all commands of the plan's `build` part. Raises BuildError at the first command that fails."""
        _allow_files(FILES_PER_NODE * len(self._plan["nodes"]) + OTHER_FILES)
        for node in self._plan["nodes"]:
            made = self._network.add_node(node["name"], node["kind"], node["inside"])
            self._places[node["name"]] = _Target(node["name"], made, made.netlink, self._places)
        namespace.enter(self._home)
        for command in self._plan["build"]:
            self._obey(self._places[command["node"]], command["argv"])
        # The wires that were made last come first. The end of a veth pair that is brought up second works at once. The
        # other end works when the kernel gets to it, or when tc gives it a qdisc.
        for target in reversed(self._places.values()):
            self._flush(target)
        self._enter(self._root)
        for target in self._places.values():
            self._run_batches(target)
            self._check_routes(target)
        self._cause_faults()

    def _cause_faults(self) -> None:
        for target, faults in self._faulty_places():
            words = [(target.index(one["interface"]), one["packet"], one["action"], one["value"]) for one in faults]
            try:
                # the kernel reads one line at a time
                kernel_file.write(PACKET_FAULTS, *(" ".join(map(str, line)) for line in words))
            except FileNotFoundError:
                raise BuildError("this kernel has no faults of single packets: build it again with mprun") from None

    def _faulty_places(self) -> Iterator[tuple[_Target, list[dict[str, Any]]]]:
        """Enter each namespace for which the plan has faults, and yield it with them. Return to the root."""
        for name in dict.fromkeys(fault["node"] for fault in self._plan["faults"]):
            self._enter(self._places[name])
            yield self._places[name], [fault for fault in self._plan["faults"] if fault["node"] == name]
        self._enter(self._root)

    def configure_switches(self) -> None:
        """Run the plan's commands for Open vSwitch, whose programs run already. Raises BuildError."""
        commands = self._plan["switching"]
        node = self._places[commands[0]["node"]].own
        self.readback["switches"] = openvswitch.obey(node, [command["argv"] for command in commands])

    def find_down(self) -> list[str]:
        """Return the interfaces that do not work yet. The kernel brings up a few hundred new links a second."""
        return [
            f"{target.name}.{name}"
            for target in self._places.values()
            if target.node is not None
            for name, works in rtnetlink.read_states(target.netlink)
            if not works and name in target.node.indices
        ]

    def change(self, commands: Sequence[dict[str, Any]]) -> None:
        """Run commands on the running network, and read back what tc and nft set. Raises BuildError."""
        touched = list(dict.fromkeys(command["node"] for command in commands))
        for name in touched:
            target = self._places[name]
            target.tc, target.mptcp = [], []
        rules: dict[str, list[Sequence[str]]] = {}
        for command in commands:
            target = self._places[command["node"]]
            if command["argv"][0] == "nft":
                rules.setdefault(target.name, []).append(command["argv"])
                continue
            if target.mptcp and command["argv"][:2] != ["ip", "mptcp"]:
                self._run_mptcp(target)
            self._obey(target, command["argv"])
            if command["argv"][0] == "ip":
                self._flush(target)
        for name in touched:
            target = self._places[name]
            self._send(target, target.shaping)
            self._run_mptcp(target)
            if target.tc:
                self._change_tc(target)
            if name in rules:
                ruleset.load(target.own, rules[name])
        self._enter(self._root)

    def _run_mptcp(self, target: _Target) -> None:
        if target.mptcp:
            self._batch(target, ["ip"], target.mptcp, [])
            target.mptcp = []

    def _change_tc(self, target: _Target) -> None:
        """Run the waiting tc commands. One tc process lives as long as the network; a new process would cost 20 ms."""
        if target.talker is None:
            target.talker = Talker(target.own)
        for device in dict.fromkeys(argv[4] for argv in target.tc):
            mine = [argv for argv in target.tc if argv[4] == device]
            said = target.talker.ask([*(shlex.join(argv[1:]) for argv in mine), f"qdisc show dev {device}"])
            if "Command failed" in said:
                raise BuildError(f"{target.name}: tc: {said.strip()}")
            shown = [{"dev": device, **qdisc} for qdisc in json.loads(said[said.index("[") :])]
            refuse(target.name, differences_tc(mine, shown))

    def filtered_packets(self) -> dict[str, dict[str, int]]:
        """Return the packet counts of the nft rules so far, for each node that has rules. Raises BuildError."""
        filtering = (target for target in self._places.values() if target.nft)
        return {target.name: ruleset.packets(ruleset.show(target.own)) for target in filtering}

    def faulty_packets(self) -> dict[str, dict[str, int]]:
        """Return how many packets of the plan's faults have come, by node and interface."""
        counted: dict[str, dict[str, int]] = {}
        for target, faults in self._faulty_places():
            done = counted[target.name] = dict.fromkeys((one["interface"] for one in faults), 0)
            for one, line in zip(faults, kernel_file.read(PACKET_FAULTS).splitlines(), strict=True):
                done[one["interface"]] += line.endswith(" 1")
        return counted

    def release(self, is_switched_off: bool) -> None:
        """End the tc processes, and release all namespaces. The kernel removes everything in them.

        is_switched_off: the kernel ends with the run, so the namespaces are kept until then. To take a large network
        down takes as long as to build it.
        """
        for target in self._places.values():
            if target.talker is not None:
                target.talker.close()
        if not is_switched_off:
            self._network.release()

    def _obey(self, target: _Target, argv: Sequence[str]) -> None:
        program = argv[0]
        if program == "tc":
            self._obey_tc(target, argv)
        elif program == "nft":
            target.nft.append(argv)
        elif program == "ip" and argv[1] == "mptcp":
            target.mptcp.append(argv)
        elif program == "ip":
            target.waiting.append((target.translator.translate(argv[1:]), argv))
        elif program == "sysctl":
            self._flush(target)
            self._set_sysctl(target, *argv[2].split("=", 1))
        elif program == "ethtool":
            target.offloads.append(argv[2:])
        elif program == "mkdir":
            os.makedirs(argv[2], exist_ok=True)
        elif program == "ovsdb-tool":
            status, output = run(target.own, list(argv), "")
            if status:
                raise BuildError(f"{shlex.join(argv)}: {output.strip()}")
        else:
            raise BuildError(f"{target.name}: the agent does not know {shlex.join(argv)}")

    def _obey_tc(self, target: _Target, argv: Sequence[str]) -> None:
        target.qdiscs.append(argv)
        device = argv[4]
        message = None if device in target.only_tc else shaping.translate(argv[1:], target.index)
        if message is None:
            target.only_tc.add(device)
            target.tc.append(argv)
        else:
            target.shaping.append((message, argv))

    def _flush(self, target: _Target) -> None:
        """Send the commands that wait here, after the links that they may use. Set offloads before links come up."""
        self._send(self._root, self._root.waiting)
        for interface, *settings in target.offloads:
            self._set_offloads(target, interface, settings)
        target.offloads = []
        self._send(target, target.waiting)

    def _send(self, target: _Target, waiting: list[_Waiting]) -> None:
        if not waiting:
            return
        messages = [message for message, _ in waiting]
        try:
            target.netlink.send(messages)
        except rtnetlink.NetlinkError as error:
            command = shlex.join(waiting[error.number][1])
            raise BuildError(f"{target.name or 'build'}: {command}: {error}") from error
        target.sent += [(kind, body) for kind, _, body in messages]
        waiting.clear()

    def _enter(self, target: _Target) -> None:
        """Enter a namespace and stay in it until another is entered. Neighbouring commands share the system call."""
        if self._here is not target:
            namespace.enter(target.node.namespace if target.node else self._home)
            self._here = target

    def _set_sysctl(self, target: _Target, name: str, value: str) -> None:
        self._enter(target)
        try:
            try:
                got = sysctl.assign(name, value)
            except PermissionError:
                if name != sysctl.CONGESTION:
                    raise
                self._allow_congestion_controls(target)
                got = sysctl.assign(name, value)
        except OSError as error:
            # a value that the kernel does not know can give the same error
            if not os.path.exists(sysctl.path_of(name)):
                raise BuildError(f"{target.name}: this kernel has no sysctl {name}") from None
            choices = sysctl.choices_of(name)
            is_known = choices is None or value in choices
            why = error.strerror if is_known else f"this kernel has: {', '.join(choices or ())}{sysctl.remedy_of(name)}"
            raise BuildError(f"{target.name or 'build'}: sysctl -w {name}={value}: {why}") from error
        if got.split() != value.split():
            raise BuildError(f"{target.name}: sysctl {name} was set to '{value}' and reads '{got.strip()}'")
        self.readback.setdefault("sysctl", {}).setdefault(target.name, {})[name] = " ".join(got.split())

    def _allow_congestion_controls(self, target: _Target) -> None:
        """Allow all congestion controls of the kernel in all namespaces. This succeeds in the virtual engine only."""
        self._enter(self._root)
        sysctl.assign(sysctl.ALLOWED_CONGESTION, " ".join(sysctl.choices_of(sysctl.CONGESTION) or ()))
        self._enter(target)

    def _set_offloads(self, target: _Target, interface: str, settings: Sequence[str]) -> None:
        words = f"{target.name}: ethtool -K {interface} {' '.join(settings)}"
        descriptor = target.netlink.socket.fileno()
        try:
            if self._features is None:
                self._features = offload.Features(descriptor, interface)
            if not self._features.set(descriptor, interface, settings):
                raise BuildError(f"{words}: not all settings took effect")
        except OSError as error:
            raise BuildError(f"{words}: {error.strerror}") from error

    def _run_batches(self, target: _Target) -> None:
        self._send(target, target.shaping)
        if target.qdiscs:
            shown = self._show_qdiscs(target)
            self.readback.setdefault("tc", {})[target.name] = shown
            refuse(target.name, differences_tc(target.qdiscs, shown))
        if target.mptcp:
            lines = self._batch(target, ["ip"], target.mptcp, ["mptcp endpoint show", "mptcp limits show"]).splitlines()
            self.readback.setdefault("mptcp", {})[target.name] = lines
            refuse(target.name, differences_mptcp(target.mptcp, lines))
        if target.nft:
            self.readback.setdefault("nft", {})[target.name] = ruleset.load(target.own, target.nft)

    def _show_qdiscs(self, target: _Target) -> list[dict[str, Any]]:
        """Return the qdiscs of a place.

        tc is used only if it has commands to run, because its start takes as long as building ten links.
        """
        if target.tc:
            return list(json.loads(self._batch(target, ["tc", "-j"], target.tc, ["qdisc show"])))
        return shaping.read_back(target.netlink, {index: name for name, index in target.own.indices.items()})

    def _batch(self, target: _Target, program: list[str], commands: list[Sequence[str]], shows: list[str]) -> str:
        """Run commands and then `shows` in one process. Return what `shows` print."""
        lines = [shlex.join(argv[1:]) for argv in commands]
        status, output = run(target.own, [*program, "-batch", "-"], "\n".join(lines + shows) + "\n")
        if status != 0:
            raise BuildError(f"{target.name}: {program[0]} -batch: " + _explain_batch(output, lines))
        return output

    def _check_routes(self, target: _Target) -> None:
        """Check that every address, route and rule that was sent is found again. Raises BuildError."""
        for kind, request, head, key in (
            (rtnetlink.RTM_NEWADDR, rtnetlink.RTM_GETADDR, 8, _address_key),
            (rtnetlink.RTM_NEWROUTE, rtnetlink.RTM_GETROUTE, 12, _route_key),
            (rtnetlink.RTM_NEWRULE, rtnetlink.RTM_GETRULE, 12, _rule_key),
        ):
            sent = [body for of, body in target.sent if of == kind]
            for family in sorted({body[0] for body in sent}):
                wanted = {key(body) for body in sent if body[0] == family}
                bodies = list(target.netlink.dump(request, bytes([family]) + bytes(head - 1)))
                if missing := wanted - {key(body) for body in bodies}:
                    raise BuildError(f"{target.name}: read back lacks {sorted(map(str, missing))[0]}")
                if kind == rtnetlink.RTM_NEWROUTE:
                    self._note_congestion(target, bodies)

    def _note_congestion(self, target: _Target, routes: Sequence[bytes]) -> None:
        """Keep the congestion control that routes have, by interface, as it was read back."""
        names = {index: name for name, index in target.node.indices.items()} if target.node else {}
        for body in routes:
            found = attributes(body[12:])
            if congestion := rtnetlink.congestion_of(found):
                (index,) = struct.unpack("=I", found[rtnetlink.RTA_OIF])
                self.readback.setdefault("congestion", {}).setdefault(target.name, {})[names[index]] = congestion[0]

    def network(self) -> PlannedNetwork:
        """Return the network with its links. Only the interactive prompt needs the links."""
        nodes = self._network.nameToNode
        for link in self._plan["intent"]["links"] if not self._network.links else ():
            a, b = (
                (nodes[end["node"]], end["name"], end["mac"], end["address"] or end.get("ipv6")) for end in link["ends"]
            )
            self._network.links.append(BuiltLink(a, b))
        return self._network


def _allow_files(count: int) -> None:
    """Raise this process's limit of open files if it is lower than `count` (getrlimit(2)). Raises BuildError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(count, hard)))
    except (OSError, ValueError):
        raise BuildError(
            f"this network needs {count} open files and the limit is {hard}: raise it (ulimit -Hn {count})"
        ) from None


def _address_key(body: bytes) -> tuple[object, ...]:
    _, prefix, _, _, index = struct.unpack_from("=BBBBI", body)
    found = attributes(body[8:])
    return "address", index, prefix, found.get(rtnetlink.IFA_LOCAL, found.get(rtnetlink.IFA_ADDRESS))


def _route_key(body: bytes) -> tuple[object, ...]:
    found = attributes(body[12:])
    several = rtnetlink.ways(found[rtnetlink.RTA_MULTIPATH]) if rtnetlink.RTA_MULTIPATH in found else None
    return ("route", body[1], *map(found.get, _ROUTE_NAMES), several, rtnetlink.congestion_of(found))


def _rule_key(body: bytes) -> tuple[object, ...]:
    found = attributes(body[12:])
    return "rule", found.get(rtnetlink.FRA_SRC), found.get(rtnetlink.FRA_TABLE)


def _explain_batch(output: str, lines: list[str]) -> str:
    """Return the tool's error message with the command that failed ("Command failed -:3")."""
    marker = "Command failed -:"
    text = output.strip()
    if marker in text:
        number = text.rsplit(marker, 1)[1].split()[0]
        if number.isdigit() and int(number) <= len(lines):
            return f"'{lines[int(number) - 1]}': {text.rsplit(marker, 1)[0].strip()}"
    return text
