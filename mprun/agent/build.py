# SPDX-License-Identifier: Apache-2.0
"""Build the network of a plan, command by command, and read back what was set.

ip commands go through rtnetlink in batches, sysctl and ethtool through files and an ioctl, tc and
`ip mptcp` through one process per node that sets and then shows, nft through one of each. What was read
back and differs from what was asked stops the run.
"""

from __future__ import annotations

import ctypes as _ctypes
import fcntl
import json
import os
import shlex
import socket
import struct
from collections.abc import Sequence
from typing import Any

from mprun.agent import namespace, openvswitch, rtnetlink, ruleset, sysctl
from mprun.agent.network import NamespaceNode, PlannedNetwork, Talker, run
from mprun.agent.readback import differences_mptcp, differences_tc

ROOT = ""
SIOCETHTOOL = 0x8946
# Legacy "set" commands of ethtool(8)'s three offloads (include/uapi/linux/ethtool.h).
OFFLOADS = {"tso": 0x1F, "gso": 0x24, "gro": 0x2C}


class BuildError(Exception):
    """A command failed, or what was read back is not what was set."""


class _Place:
    """A namespace that commands are for, with those that wait to be sent there."""

    def __init__(self, name: str, node: NamespaceNode | None, netlink: rtnetlink.Netlink) -> None:
        self.name = name
        self.node = node
        self.netlink = netlink
        self.waiting: list[tuple[int, int, bytes]] = []
        self.commands: list[Sequence[str]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.control: socket.socket | None = None
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
        self.readback: dict[str, Any] = {}

    def build(self) -> PlannedNetwork:
        """Do all of the plan's `build` part. Raises BuildError at the first that fails."""
        for node in self._plan["nodes"]:
            made = self.network.add_node(node["name"], node["kind"], node["inside"])
            self._places[node["name"]] = _Place(node["name"], made, made.netlink)
        namespace.enter(self._home)
        for place in self._places.values():
            self._translators[place.name] = self._translator(place)
        for command in self._plan["build"]:
            self._obey(self._places[command["node"]], command["argv"])
        # the wires last made come first: of a veth pair the end that is brought up second works at once, the
        # other when the kernel gets round to it, or when tc gives it a qdisc
        for place in reversed(self._places.values()):
            self._flush(place)
        self._enter(self._root)
        for place in self._places.values():
            self._run_batches(place)
            self._check_routes(place)
        self._register_links()
        return self.network

    def configure_switches(self) -> None:
        """Obey the plan's commands to Open vSwitch, which runs. Raises BuildError."""
        commands = self._plan["switching"]
        node = self._places[commands[0]["node"]].node
        assert node is not None
        try:
            self.readback["switches"] = openvswitch.obey(node, [command["argv"] for command in commands])
        except openvswitch.SwitchError as error:
            raise BuildError(str(error)) from error

    def find_down(self) -> list[str]:
        """Interfaces that do not work yet. The kernel takes up a few hundred new links a second."""
        return [
            f"{place.name}.{name}"
            for place in self._places.values()
            if place.node is not None
            for name, can_send in rtnetlink.read_states(place.netlink)
            if not can_send and name in place.node.indices
        ]

    def change(self, commands: Sequence[dict[str, Any]]) -> None:
        """Obey commands on the running network, and read back what tc set. Raises BuildError."""
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
            self._run_mptcp(place)
            if place.tc:
                self._change_tc(place)
        self._enter(self._root)

    def _run_mptcp(self, place: _Place) -> None:
        if place.mptcp:
            self._batch(place, ["ip"], place.mptcp, [])
            place.mptcp = []

    def _change_tc(self, place: _Place) -> None:
        """Through one tc that lives as long as the network: a process each would cost 20 ms."""
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
        """What the rules of each node that has any have counted so far. Raises BuildError."""
        counted = {}
        for place in self._places.values():
            if place.nft and place.node is not None:
                try:
                    counted[place.name] = ruleset.packets(ruleset.show(place.node))
                except ruleset.RulesetError as error:
                    raise BuildError(f"{place.name}: {error}") from error
        return counted

    def release(self) -> None:
        """End what talks, and let all namespaces go."""
        for place in self._places.values():
            if place.talker is not None:
                place.talker.close()
        self.network.release()

    def _translator(self, place: _Place) -> rtnetlink.Translator:
        def index(interface: str) -> int:
            if place.node is None or interface not in place.node.indices:
                raise BuildError(f"{place.name}: no interface '{interface}'")
            return place.node.indices[interface]

        def new_index(where: str, interface: str) -> int:
            node = self._places[where].node if where else place.node
            assert node is not None
            return node.new_index(interface)

        def descriptor(where: str) -> int:
            node = self._places[where].node
            assert node is not None
            return node.namespace

        return rtnetlink.Translator(index, descriptor, new_index)

    def _obey(self, place: _Place, argv: Sequence[str]) -> None:
        program = argv[0]
        if program == "tc":
            place.tc.append(argv)
        elif program == "nft":
            place.nft.append(argv)
        elif program == "ip" and argv[1] == "mptcp":
            place.mptcp.append(argv)
        elif program == "ip":
            kind, flags, body = self._translators[place.name].translate(argv[1:])
            place.waiting.append((kind, flags, body))
            place.commands.append(argv)
            if place is self._root:
                self._flush(place)
        elif program == "sysctl":
            self._flush(place)
            self._set_sysctl(place, *argv[2].split("=", 1))
        elif program == "ethtool":
            self._flush(place)
            self._set_offloads(place, argv[2], argv[3:])
        elif program == "mkdir":
            os.makedirs(argv[2], exist_ok=True)
        elif program == "ovsdb-tool":
            assert place.node is not None
            status, output = run(place.node, list(argv), "")
            if status:
                raise BuildError(f"{shlex.join(argv)}: {output.strip()}")
        else:
            raise BuildError(f"{place.name}: the agent does not know {shlex.join(argv)}")

    def _flush(self, place: _Place) -> None:
        if not place.waiting:
            return
        try:
            place.netlink.send(place.waiting)
        except rtnetlink.NetlinkError as error:
            command = shlex.join(place.commands[error.number])
            raise BuildError(f"{place.name or 'build'}: {command}: {error}") from error
        place.sent += [(kind, body) for kind, _, body in place.waiting]
        place.waiting, place.commands = [], []

    def _enter(self, place: _Place) -> None:
        """Be in a place until another one is entered: neighbouring commands share the call."""
        if self._here is not place:
            namespace.enter(place.node.namespace if place.node else self._home)
            self._here = place

    def _set_sysctl(self, place: _Place, name: str, value: str) -> None:
        self._enter(place)
        try:
            got = sysctl.read(name)
        except OSError:
            raise BuildError(f"{place.name}: this kernel has no sysctl {name}") from None
        try:
            if got.split() != value.split():
                sysctl.write(name, value)
                got = sysctl.read(name)
        except OSError as error:
            choices = sysctl.choices_of(name)
            why = error.strerror if choices is None else f"this kernel has: {', '.join(choices)}"
            raise BuildError(f"{place.name}: sysctl -w {name}={value}: {why}") from error
        if got.split() != value.split():
            raise BuildError(f"{place.name}: sysctl {name} was set to '{value}' and reads '{got.strip()}'")

    def _set_offloads(self, place: _Place, interface: str, settings: Sequence[str]) -> None:
        self._enter(place)
        if place.control is None:
            place.control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for name, state in zip(settings[::2], settings[1::2], strict=True):
            value = bytearray(struct.pack("=II", OFFLOADS[name], state == "on"))
            try:
                fcntl.ioctl(place.control, SIOCETHTOOL, _ioctl_request(interface, value))
            except OSError as error:
                raise BuildError(f"{place.name}: ethtool -K {interface} {name} {state}: {error.strerror}") from error

    def _run_batches(self, place: _Place) -> None:
        if place.tc:
            shown = json.loads(self._batch(place, ["tc", "-j"], place.tc, ["qdisc show"]))
            self.readback.setdefault("tc", {})[place.name] = shown
            self._refuse(place, differences_tc(place.tc, shown))
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

    def _batch(self, place: _Place, program: list[str], commands: list[Sequence[str]], shows: list[str]) -> str:
        """Run commands and then `shows` in one process; returns what the latter print."""
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
        """Every address, route and rule that was sent must be found again."""
        for kind, request, head, key in (
            (rtnetlink.RTM_NEWADDR, rtnetlink.RTM_GETADDR, 8, _address_key),
            (rtnetlink.RTM_NEWROUTE, rtnetlink.RTM_GETROUTE, 12, _route_key),
            (rtnetlink.RTM_NEWRULE, rtnetlink.RTM_GETRULE, 12, _rule_key),
        ):
            sent = [body for of, body in place.sent if of == kind]
            for family in sorted({body[0] for body in sent}):
                wanted = {key(body) for body in sent if body[0] == family}
                found = {key(body) for body in place.netlink.dump(request, bytes([family]) + bytes(head - 1))}
                if missing := wanted - found:
                    raise BuildError(f"{place.name}: read back lacks {sorted(map(str, missing))[0]}")

    def _register_links(self) -> None:
        nodes = self.network.nameToNode
        for link in self._plan["intent"]["links"]:
            a, b = (
                (nodes[end["node"]], end["name"], end["mac"], end["address"] or end.get("ipv6")) for end in link["ends"]
            )
            self.network.add_link(a, b)


def _ioctl_request(interface: str, value: bytearray) -> bytes:
    """A struct ifreq whose data points at `value`, which must stay alive until the call is done."""
    buffer = (_ctypes.c_char * len(value)).from_buffer(value)
    return struct.pack("16sP", interface.encode(), _ctypes.addressof(buffer)) + bytes(16)


def _address_key(body: bytes) -> tuple[object, ...]:
    _, prefix, _, _, index = struct.unpack_from("=BBBBI", body)
    found = rtnetlink.attributes(body[8:])
    return "address", index, prefix, found.get(rtnetlink.IFA_LOCAL, found.get(rtnetlink.IFA_ADDRESS))


def _route_key(body: bytes) -> tuple[object, ...]:
    found = rtnetlink.attributes(body[12:])
    names = (rtnetlink.RTA_TABLE, rtnetlink.RTA_DST, rtnetlink.RTA_GATEWAY, rtnetlink.RTA_OIF)
    several = rtnetlink.ways(found.get(rtnetlink.RTA_MULTIPATH, b""))
    return ("route", body[1], *(found.get(name) for name in names), several)


def _rule_key(body: bytes) -> tuple[object, ...]:
    found = rtnetlink.attributes(body[12:])
    return "rule", found.get(rtnetlink.FRA_SRC), found.get(rtnetlink.FRA_TABLE)


def _explain_batch(output: str, lines: list[str]) -> str:
    """The tool's own words with the command that it refused ("Command failed -:3")."""
    marker = "Command failed -:"
    text = output.strip()
    if marker in text:
        number = text.rsplit(marker, 1)[1].split()[0]
        if number.isdigit() and int(number) <= len(lines):
            return f"'{lines[int(number) - 1]}': {text.rsplit(marker, 1)[0].strip()}"
    return text
