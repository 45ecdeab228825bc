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
from collections.abc import Callable, Sequence
from typing import Any

from mprun.agent import namespace, offload, openvswitch, packet_fault, rtnetlink, ruleset, shaping, sysctl
from mprun.agent.message import attributes
from mprun.agent.mininet_network import NamespaceNode, PlannedNetwork, Talker, run
from mprun.agent.readback import differences_mptcp, differences_tc

ROOT = ""
# Open files: each node has its namespace and its netlink socket. The second number is for all other files.
FILES_PER_NODE, OTHER_FILES = 2, 200
_ROUTE_NAMES = (rtnetlink.RTA_TABLE, rtnetlink.RTA_DST, rtnetlink.RTA_GATEWAY, rtnetlink.RTA_OIF)


class BuildError(Exception):
    """A command failed, or a setting that was read back differs from the plan."""


class _Queue:
    """Messages that wait to be sent, with the command that each message stands for."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int, bytes]] = []
        self.commands: list[Sequence[str]] = []

    def add(self, message: tuple[int, int, bytes], command: Sequence[str]) -> None:
        self.messages.append(message)
        self.commands.append(command)


class _Place:
    """A namespace, with the commands that wait to be sent there."""

    def __init__(self, name: str, node: NamespaceNode | None, netlink: rtnetlink.Netlink) -> None:
        self.name = name
        self.node = node
        self.netlink = netlink
        self.waiting = _Queue()
        self.shaping = _Queue()
        # interfaces with a command that only tc knows; later commands also use tc, which keeps their order
        self.only_tc: set[str] = set()
        self.qdiscs: list[Sequence[str]] = []
        self.offloads: list[Sequence[str]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.tc: list[Sequence[str]] = []
        self.mptcp: list[Sequence[str]] = []
        self.nft: list[Sequence[str]] = []
        self.talker: Talker | None = None


class Builder:
    """Builds a plan's network into a PlannedNetwork."""

    def __init__(self, plan: dict[str, Any], home: int) -> None:
        self._plan = plan
        self._home = home
        self.network = PlannedNetwork(home)
        self._root = _Place(ROOT, None, rtnetlink.Netlink())
        self._places = {ROOT: self._root}
        self._here: _Place | None = None
        self._translators: dict[str, rtnetlink.Translator] = {}
        self._features: offload.Features | None = None
        self.readback: dict[str, Any] = {}

    def build(self) -> None:
        """Run all commands of the plan's `build` part. Raises BuildError at the first command that fails."""
        _allow_files(FILES_PER_NODE * len(self._plan["nodes"]) + OTHER_FILES)
        for node in self._plan["nodes"]:
            made = self.network.add_node(node["name"], node["kind"], node["inside"])
            self._places[node["name"]] = _Place(node["name"], made, made.netlink)
        namespace.enter(self._home)
        for place in self._places.values():
            self._translators[place.name] = self._translator(place)
        for command in self._plan["build"]:
            self._obey(self._places[command["node"]], command["argv"])
        # The wires that were made last come first. The end of a veth pair that is brought up second works at once. The
        # other end works when the kernel gets to it, or when tc gives it a qdisc.
        for place in reversed(self._places.values()):
            self._flush(place)
        self._enter(self._root)
        for place in self._places.values():
            self._run_batches(place)
            self._check_routes(place)
        self._cause_faults()

    def _cause_faults(self) -> None:
        for name in dict.fromkeys(fault["node"] for fault in self._plan["faults"]):
            place = self._places[name]
            mine = [fault for fault in self._plan["faults"] if fault["node"] == name]
            self._enter(place)
            try:
                packet_fault.cause(mine, self._index_in(place))
            except FileNotFoundError:
                raise BuildError("this kernel has no faults of single packets: build it again with mprun") from None
        self._enter(self._root)

    def configure_switches(self) -> None:
        """Run the plan's commands for Open vSwitch, whose programs run already. Raises BuildError."""
        commands = self._plan["switching"]
        node = self._places[commands[0]["node"]].node
        assert node is not None
        try:
            self.readback["switches"] = openvswitch.obey(node, [command["argv"] for command in commands])
        except openvswitch.SwitchError as error:
            raise BuildError(str(error)) from error

    def find_down(self) -> list[str]:
        """Return the interfaces that do not work yet. The kernel brings up a few hundred new links a second."""
        return [
            f"{place.name}.{name}"
            for place in self._places.values()
            if place.node is not None
            for name, works in rtnetlink.read_states(place.netlink)
            if not works and name in place.node.indices
        ]

    def change(self, commands: Sequence[dict[str, Any]]) -> None:
        """Run commands on the running network, and read back what tc set. Raises BuildError."""
        touched = list(dict.fromkeys(command["node"] for command in commands))
        for name in touched:
            place = self._places[name]
            place.tc, place.mptcp = [], []
        for command in commands:
            place = self._places[command["node"]]
            if place.mptcp and command["argv"][:2] != ["ip", "mptcp"]:
                self._run_mptcp(place)
            self._obey(place, command["argv"])
            if command["argv"][0] == "ip":
                self._flush(place)
        for name in touched:
            place = self._places[name]
            self._send(place, place.shaping)
            self._run_mptcp(place)
            if place.tc:
                self._change_tc(place)
        self._enter(self._root)

    def _run_mptcp(self, place: _Place) -> None:
        if place.mptcp:
            self._batch(place, ["ip"], place.mptcp, [])
            place.mptcp = []

    def _change_tc(self, place: _Place) -> None:
        """Run the waiting tc commands. One tc process lives as long as the network; a new process would cost 20 ms."""
        if place.talker is None:
            assert place.node is not None
            place.talker = Talker(place.node)
        for device in dict.fromkeys(argv[4] for argv in place.tc):
            mine = [argv for argv in place.tc if argv[4] == device]
            said = place.talker.ask([*(shlex.join(argv[1:]) for argv in mine), f"qdisc show dev {device}"])
            if "Command failed" in said:
                raise BuildError(f"{place.name}: tc: {said.strip()}")
            shown = [{"dev": device, **qdisc} for qdisc in json.loads(said[said.index("[") :])]
            self._refuse(place, differences_tc(mine, shown))

    def filtered_packets(self) -> dict[str, dict[str, int]]:
        """Return the packet counts of the nft rules so far, for each node that has rules. Raises BuildError."""
        counted = {}
        for place in self._places.values():
            if place.nft and place.node is not None:
                try:
                    counted[place.name] = ruleset.packets(ruleset.show(place.node))
                except ruleset.RulesetError as error:
                    raise BuildError(f"{place.name}: {error}") from error
        return counted

    def faulty_packets(self) -> dict[str, dict[str, int]]:
        """Return how many packets of the plan's faults have come, by node and interface."""
        counted: dict[str, dict[str, int]] = {}
        for name in dict.fromkeys(fault["node"] for fault in self._plan["faults"]):
            self._enter(self._places[name])
            mine = [fault["interface"] for fault in self._plan["faults"] if fault["node"] == name]
            counted[name] = dict.fromkeys(mine, 0)
            for interface, is_done in zip(mine, packet_fault.read_done(), strict=True):
                counted[name][interface] += is_done
        self._enter(self._root)
        return counted

    def release(self, is_switched_off: bool) -> None:
        """End the tc processes. Release all namespaces, unless they end with the kernel."""
        for place in self._places.values():
            if place.talker is not None:
                place.talker.close()
        if not is_switched_off:
            self.network.release()

    def _index_in(self, place: _Place) -> Callable[[str], int]:
        """Return the function that gives the index of an interface in this namespace."""

        def index(interface: str) -> int:
            if place.node is None or interface not in place.node.indices:
                raise BuildError(f"{place.name}: no interface '{interface}'")
            return place.node.indices[interface]

        return index

    def _translator(self, place: _Place) -> rtnetlink.Translator:
        def new_index(where: str, interface: str) -> int:
            node = self._places[where].node if where else place.node
            assert node is not None
            return node.new_index(interface)

        def descriptor(where: str) -> int:
            node = self._places[where].node
            assert node is not None
            return node.namespace

        return rtnetlink.Translator(self._index_in(place), descriptor, new_index)

    def _obey(self, place: _Place, argv: Sequence[str]) -> None:
        program = argv[0]
        if program == "tc":
            self._obey_tc(place, argv)
        elif program == "nft":
            place.nft.append(argv)
        elif program == "ip" and argv[1] == "mptcp":
            place.mptcp.append(argv)
        elif program == "ip":
            place.waiting.add(self._translators[place.name].translate(argv[1:]), argv)
        elif program == "sysctl":
            self._flush(place)
            self._set_sysctl(place, *argv[2].split("=", 1))
        elif program == "ethtool":
            place.offloads.append(argv[2:])
        elif program == "mkdir":
            os.makedirs(argv[2], exist_ok=True)
        elif program == "ovsdb-tool":
            assert place.node is not None
            status, output = run(place.node, list(argv), "")
            if status:
                raise BuildError(f"{shlex.join(argv)}: {output.strip()}")
        else:
            raise BuildError(f"{place.name}: the agent does not know {shlex.join(argv)}")

    def _obey_tc(self, place: _Place, argv: Sequence[str]) -> None:
        place.qdiscs.append(argv)
        device = argv[4]
        message = None if device in place.only_tc else shaping.translate(argv[1:], self._index_in(place))
        if message is None:
            place.only_tc.add(device)
            place.tc.append(argv)
        else:
            place.shaping.add(message, argv)

    def _flush(self, place: _Place) -> None:
        """Send the commands that wait here, after the links that they may use. Set offloads before links come up."""
        self._send(self._root, self._root.waiting)
        for interface, *settings in place.offloads:
            self._set_offloads(place, interface, settings)
        place.offloads = []
        self._send(place, place.waiting)

    def _send(self, place: _Place, queue: _Queue) -> None:
        if not queue.messages:
            return
        try:
            place.netlink.send(queue.messages)
        except rtnetlink.NetlinkError as error:
            command = shlex.join(queue.commands[error.number])
            raise BuildError(f"{place.name or 'build'}: {command}: {error}") from error
        place.sent += [(kind, body) for kind, _, body in queue.messages]
        queue.messages, queue.commands = [], []

    def _enter(self, place: _Place) -> None:
        """Enter a namespace and stay in it until another is entered. Neighbouring commands share the system call."""
        if self._here is not place:
            namespace.enter(place.node.namespace if place.node else self._home)
            self._here = place

    def _set_sysctl(self, place: _Place, name: str, value: str) -> None:
        self._enter(place)
        try:
            try:
                got = sysctl.assign(name, value)
            except PermissionError:
                if name != sysctl.CONGESTION:
                    raise
                self._allow_congestion_controls(place)
                got = sysctl.assign(name, value)
        except OSError as error:
            # a value that the kernel does not know can give the same error
            if not os.path.exists(sysctl.path_of(name)):
                raise BuildError(f"{place.name}: this kernel has no sysctl {name}") from None
            choices = sysctl.choices_of(name)
            is_known = choices is None or value in choices
            why = error.strerror if is_known else f"this kernel has: {', '.join(choices or ())}{_remedy_of(name)}"
            raise BuildError(f"{place.name}: sysctl -w {name}={value}: {why}") from error
        if got.split() != value.split():
            raise BuildError(f"{place.name}: sysctl {name} was set to '{value}' and reads '{got.strip()}'")
        self.readback.setdefault("sysctl", {}).setdefault(place.name, {})[name] = " ".join(got.split())

    def _allow_congestion_controls(self, place: _Place) -> None:
        """Allow all congestion controls of the kernel in all namespaces. This succeeds in the virtual engine only."""
        self._enter(self._root)
        sysctl.assign(sysctl.ALLOWED_CONGESTION, " ".join(sysctl.choices_of(sysctl.CONGESTION) or ()))
        self._enter(place)

    def _set_offloads(self, place: _Place, interface: str, settings: Sequence[str]) -> None:
        words = f"{place.name}: ethtool -K {interface} {' '.join(settings)}"
        descriptor = place.netlink.socket.fileno()
        try:
            if self._features is None:
                self._features = offload.Features(descriptor, interface)
            if not self._features.set(descriptor, interface, settings):
                raise BuildError(f"{words}: not all settings took effect")
        except OSError as error:
            raise BuildError(f"{words}: {error.strerror}") from error

    def _run_batches(self, place: _Place) -> None:
        self._send(place, place.shaping)
        if place.qdiscs:
            shown = self._show_qdiscs(place)
            self.readback.setdefault("tc", {})[place.name] = shown
            self._refuse(place, differences_tc(place.qdiscs, shown))
        if place.mptcp:
            lines = self._batch(place, ["ip"], place.mptcp, ["mptcp endpoint show", "mptcp limits show"]).splitlines()
            self.readback.setdefault("mptcp", {})[place.name] = lines
            self._refuse(place, differences_mptcp(place.mptcp, lines))
        if place.nft:
            assert place.node is not None
            try:
                self.readback.setdefault("nft", {})[place.name] = ruleset.load(place.node, place.nft)
            except ruleset.RulesetError as error:
                raise BuildError(f"{place.name}: {error}") from error

    def _show_qdiscs(self, place: _Place) -> list[dict[str, Any]]:
        """Return the qdiscs of a place.

        tc is used only if it has commands to run, because its start takes as long as building ten links.
        """
        if place.tc:
            return list(json.loads(self._batch(place, ["tc", "-j"], place.tc, ["qdisc show"])))
        assert place.node is not None
        return shaping.read_back(place.netlink, {index: name for name, index in place.node.indices.items()})

    def _batch(self, place: _Place, program: list[str], commands: list[Sequence[str]], shows: list[str]) -> str:
        """Run commands and then `shows` in one process. Return what `shows` print."""
        lines = [shlex.join(argv[1:]) for argv in commands]
        assert place.node is not None
        status, output = run(place.node, [*program, "-batch", "-"], "\n".join(lines + shows) + "\n")
        if status != 0:
            raise BuildError(f"{place.name}: {program[0]} -batch: " + _explain_batch(output, lines))
        return output

    def _refuse(self, place: _Place, differences: list[str]) -> None:
        if differences:
            raise BuildError(f"{place.name}: read back is not what was set: " + "; ".join(differences))

    def _check_routes(self, place: _Place) -> None:
        """Check that every address, route and rule that was sent is found again. Raises BuildError."""
        for kind, request, head, key in (
            (rtnetlink.RTM_NEWADDR, rtnetlink.RTM_GETADDR, 8, _address_key),
            (rtnetlink.RTM_NEWROUTE, rtnetlink.RTM_GETROUTE, 12, _route_key),
            (rtnetlink.RTM_NEWRULE, rtnetlink.RTM_GETRULE, 12, _rule_key),
        ):
            sent = [body for of, body in place.sent if of == kind]
            for family in sorted({body[0] for body in sent}):
                wanted = {key(body) for body in sent if body[0] == family}
                bodies = list(place.netlink.dump(request, bytes([family]) + bytes(head - 1)))
                if missing := wanted - {key(body) for body in bodies}:
                    raise BuildError(f"{place.name}: read back lacks {sorted(map(str, missing))[0]}")
                if kind == rtnetlink.RTM_NEWROUTE:
                    self._note_congestion(place, bodies)

    def _note_congestion(self, place: _Place, routes: Sequence[bytes]) -> None:
        """Keep the congestion control that routes have, by interface, as it was read back."""
        names = {index: name for name, index in place.node.indices.items()} if place.node else {}
        for body in routes:
            found = attributes(body[12:])
            if congestion := rtnetlink.congestion_of(found):
                (index,) = struct.unpack("=I", found[rtnetlink.RTA_OIF])
                self.readback.setdefault("congestion", {}).setdefault(place.name, {})[names[index]] = congestion[0]

    def show_links(self) -> PlannedNetwork:
        """Return the network with its links. Only the interactive prompt needs the links."""
        nodes = self.network.nameToNode
        for link in self._plan["intent"]["links"] if not self.network.links else ():
            a, b = (
                (nodes[end["node"]], end["name"], end["mac"], end["address"] or end.get("ipv6")) for end in link["ends"]
            )
            self.network.add_link(a, b)
        return self.network


def _remedy_of(name: str) -> str:
    """Return how a kernel gets another value of a sysctl; empty if the user cannot add one."""
    kind = {sysctl.CONGESTION: "congestion", sysctl.SCHEDULER: "scheduler"}.get(name)
    return f"; to add your own: mprun kernel build --name mine --with-{kind} FILE.c, then --kernel mine" if kind else ""


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
