# SPDX-License-Identifier: Apache-2.0
"""Build the network of a plan, command by command, and read back what was set.

ip commands go through rtnetlink in batches, sysctl and ethtool through files and an ioctl, tc and
`ip mptcp` through one process per node that sets and then shows. What was read back and differs
from what was asked stops the run.
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

from mprun.agent import namespace, rtnetlink
from mprun.agent.network import NamespaceNode, PlannedNetwork, run
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
            made = self.network.add_node(node["name"], node["kind"])
            self._places[node["name"]] = _Place(node["name"], made, made.netlink)
        namespace.enter(self._home)
        for place in self._places.values():
            self._translators[place.name] = self._translator(place)
        for command in self._plan["build"]:
            self._obey(self._places[command["node"]], command["argv"])
        for place in self._places.values():
            self._flush(place)
        self._enter(self._root)
        for place in self._places.values():
            self._run_batches(place)
            self._check_routes(place)
        self._register_links()
        return self.network

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
        path = "/proc/sys/" + name.replace(".", "/")
        self._enter(place)
        try:
            got = _read_small(path)
        except OSError:
            raise BuildError(f"{place.name}: this kernel has no sysctl {name}") from None
        try:
            if got.split() != value.split():
                _write_small(path, value)
                got = _read_small(path)
        except OSError as error:
            raise BuildError(f"{place.name}: sysctl -w {name}={value}: {_refused(path, error)}") from error
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
            wanted = {key(body) for sent, body in place.sent if sent == kind}
            if not wanted:
                continue
            found = {key(body) for body in place.netlink.dump(request, bytes([socket.AF_INET]) + bytes(head - 1))}
            if missing := wanted - found:
                raise BuildError(f"{place.name}: read back lacks {sorted(map(str, missing))[0]}")

    def _register_links(self) -> None:
        nodes = self.network.nameToNode
        for link in self._plan["intent"]["links"]:
            a, b = ((nodes[end["node"]], end["name"], end["mac"], end["address"]) for end in link["ends"])
            self.network.add_link(a, b)


def _read_small(path: str) -> str:
    """A file of /proc, without the five further system calls of open()."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


# The sysctl that lists what another may be set to.
CHOICES = {
    "net/ipv4/tcp_congestion_control": "net/ipv4/tcp_available_congestion_control",
    "net/mptcp/scheduler": "net/mptcp/available_schedulers",
}


def _refused(path: str, error: OSError) -> str:
    """Why a value was not taken; of a choice, what there is."""
    choices = CHOICES.get(path.removeprefix("/proc/sys/"))
    if choices is None:
        return error.strerror or str(error)
    try:
        return f"this kernel has: {', '.join(_read_small('/proc/sys/' + choices).split())}"
    except OSError:
        return "this kernel does not have it"


def _write_small(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _ioctl_request(interface: str, value: bytearray) -> bytes:
    """A struct ifreq whose data points at `value`, which must stay alive until the call is done."""
    buffer = (_ctypes.c_char * len(value)).from_buffer(value)
    return struct.pack("16sP", interface.encode(), _ctypes.addressof(buffer)) + bytes(16)


def _address_key(body: bytes) -> tuple[object, ...]:
    _, prefix, _, _, index = struct.unpack_from("=BBBBI", body)
    found = rtnetlink.attributes(body[8:])
    return "address", index, prefix, found.get(rtnetlink.IFA_LOCAL)


def _route_key(body: bytes) -> tuple[object, ...]:
    found = rtnetlink.attributes(body[12:])
    names = (rtnetlink.RTA_TABLE, rtnetlink.RTA_DST, rtnetlink.RTA_GATEWAY, rtnetlink.RTA_OIF)
    return ("route", body[1], *(found.get(name) for name in names))


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
