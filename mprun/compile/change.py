# SPDX-License-Identifier: Apache-2.0
"""Turn the changes of a network over time into commands at their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from mprun.compile.addressing import address_commands, congestion_of, loss_commands
from mprun.compile.endpoint import endpoint_commands
from mprun.compile.middlebox import rebinding_commands
from mprun.compile.variation import is_wire_varied
from mprun.compile.wire import change_commands
from mprun.model.capabilities import Capabilities
from mprun.model.intent.intent_file import CODEC
from mprun.model.network import Network
from mprun.model.plan import Command, PlannedChange
from mprun.model.spec import AddressChange, Direction, LinkChange, Rebinding, Spec


def plan_changes(spec: Spec, network: Network, capabilities: Capabilities) -> Iterator[PlannedChange]:
    """Yield the commands of each change of the network, in the order of time.

    A change that needs no command is left out.
    """
    links = {link.name: link for link in network.links}
    is_varied = is_wire_varied(spec, capabilities)
    now = {name: LinkChange(0, name, link.forward, link.reverse) for name, link in links.items()}
    rebound: dict[tuple[str, str], list[Rebinding]] = {}
    for change in network.changes:
        if isinstance(change, Rebinding):
            name = f"{change.host}.{change.link}"
            known = rebound.setdefault((change.host, change.link), [])
            known.append(change)
            commands = tuple(rebinding_commands(network, known))
            yield PlannedChange(change.at_ns, name, {"rebound": change.rebound}, commands)
            continue
        if isinstance(change, AddressChange):
            yield _change_address(spec, network, change)
            continue
        before = now[change.link]
        now[change.link] = change
        commands = tuple(change_commands(links[change.link], before, change, capabilities.timer_slack_ns, is_varied))
        if commands:
            yield PlannedChange(change.at_ns, change.link, _values(before, change), commands)


def _change_address(spec: Spec, network: Network, change: AddressChange) -> PlannedChange:
    """Return the commands that remove or add an address of a host with its MPTCP endpoint.

    The endpoint is removed before its address and added after it, as connection managers do.
    """
    node = network.nodes[change.host]
    interface = next(i for i in node.interfaces if i.link == change.link)
    known = endpoint_commands(network, spec.experiment, node)
    endpoints = [command for address, command in known if address in interface.addresses]
    commands: list[Command] = []
    if change.is_there:
        congestion = congestion_of(spec.experiment.hosts.get(node.name), node)
        commands += [*address_commands(node, congestion, interface), *endpoints]
    else:
        for command in endpoints:
            number = command.argv[command.argv.index("id") + 1]
            commands.append(Command(node.name, ("ip", "mptcp", "endpoint", "delete", "id", number)))
        commands += loss_commands(node, interface)
    name = f"{change.host}.{change.link}"
    return PlannedChange(change.at_ns, name, {"address": "added" if change.is_there else "removed"}, tuple(commands))


def _values(before: LinkChange, after: LinkChange) -> dict[str, object]:
    """Return the state and the properties that differ, by direction, in base units."""
    values: dict[str, object] = {}
    if before.is_up != after.is_up:
        values["state"] = "up" if after.is_up else "down"
    for name, old, new in (("forward", before.forward, after.forward), ("reverse", before.reverse, after.reverse)):
        if old != new:
            names = (one.name for one in fields(Direction) if getattr(old, one.name) != getattr(new, one.name))
            values[name] = {field: CODEC.encode(getattr(new, field)) for field in names}
    return values
