# SPDX-License-Identifier: Apache-2.0
"""The topology file: what may be written in it, and what it comes to.

A topology is written out (`nodes` and `links`) or made by a generator (`topology` and the keys of
that generator, see `mprun.topologies`). Whether names and addresses agree is for `agreement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Any, Protocol, cast

from pydantic import Field

from mprun.spec.agreement import check_links
from mprun.spec.document import Document
from mprun.spec.fault import list_names, name_nearest
from mprun.spec.field import Name, Version
from mprun.spec.link import LinkProperties
from mprun.spec.model import FileModel, check, known_keys, salvage
from mprun.spec.spec import LinkSpec, NodeKind, TopologySpec
from mprun.topologies import GENERATORS


class TopologyFile(FileModel):
    """What every topology file holds."""

    version: Version = Field(description="The version of this format.", examples=[1])
    description: str = Field("", description="What the topology is, for people.")


class NodeEntry(FileModel):
    """A node."""

    kind: NodeKind = Field(
        description="A host runs traffic, a router forwards packets, a switch forwards frames.", examples=["host"]
    )


class LinkEntry(LinkProperties):
    """A link between two nodes."""

    name: Name | None = Field(None, description="Default: both ends, as in client-router.")
    between: list[Name] = Field(
        description="The two ends; forward is from the first to the second.",
        examples=[["client", "router"]],
        min_length=2,
        max_length=2,
    )
    addresses: list[str | None] | None = Field(
        None,
        description="Addresses of the two ends with prefix length, null at a switch. Default: derived.",
        examples=[["10.0.0.1/24", "10.0.0.2/24"]],
        min_length=2,
        max_length=2,
    )


class WrittenTopology(TopologyFile):
    """A topology written out as nodes and links."""

    nodes: dict[Name, NodeEntry] = Field(
        description="Nodes by name.", examples=[{"client": {"kind": "host"}, "server": {"kind": "host"}}], min_length=1
    )
    links: list[LinkEntry] = Field(default=[], description="Links between the nodes.")


class GeneratedTopology(TopologyFile):
    """A topology made by a generator, whose module adds its own keys."""

    topology: str = Field(description="The generator.", examples=["multi-path"])


Expansion = tuple[Mapping[str, NodeKind], tuple[LinkSpec, ...]]


class Generator(Protocol):
    """What a module of `mprun.topologies` has: what may be written, and what that comes to."""

    @property
    def Parameters(self) -> type[GeneratedTopology]: ...

    @property
    def expand(self) -> Callable[[Any], Expansion]: ...


@dataclass(frozen=True)
class Topology:
    """What a topology file came to: spec None where it has faults.

    nodes: those it surely has, so that an experiment can be held against a faulty topology too;
    None where that cannot be told.
    """

    spec: TopologySpec | None
    nodes: Mapping[str, NodeKind] | None


def read_topology(values: Mapping[str, object], document: Document) -> Topology:
    """The topology that plain values stand for; faults go to the document."""
    if "topology" in values:
        return _generate(values, document)
    if "nodes" not in values and "links" not in values:
        names = list_names(list(GENERATORS), "generators")
        document.fault((), f"describes no network: write 'topology: multi-path', or 'nodes' and 'links'{names}")
        check(TopologyFile, {k: v for k, v in values.items() if k in known_keys(TopologyFile)}, document)
        return Topology(None, None)
    written = check(WrittenTopology, values, document)
    nodes = _written_nodes(values)
    check_links(values, nodes, document)
    if written is None or document.faults:
        return Topology(None, nodes)
    links = _name_links(written.links)
    return Topology(_spec(document, written, (nodes, links)), nodes)


def _generate(values: Mapping[str, object], document: Document) -> Topology:
    name = values["topology"]
    if not isinstance(name, str) or name not in GENERATORS:
        document.fault(("topology",), f"no generator '{name}'{name_nearest(str(name), GENERATORS, 'generators')}")
        return Topology(None, None)
    generator = load_generator(name)
    parameters = check(generator.Parameters, values, document)
    if parameters is None:
        partial = salvage(generator.Parameters, values)
        return Topology(None, None if partial is None else generator.expand(partial)[0])
    expansion = generator.expand(parameters)
    return Topology(_spec(document, parameters, expansion), expansion[0])


def load_generator(name: str) -> Generator:
    return cast(Generator, import_module(GENERATORS[name]))


def _spec(document: Document, file: TopologyFile, expansion: Expansion) -> TopologySpec:
    nodes, links = expansion
    return TopologySpec(PurePath(document.name).stem, file.description, nodes, links)


def _written_nodes(values: Mapping[str, object]) -> dict[str, NodeKind]:
    """Names and kinds as far as they are well written; a host where the kind is not."""
    nodes = values.get("nodes")
    if not isinstance(nodes, dict):
        return {}
    kinds: dict[str, NodeKind] = {"host": "host", "router": "router", "switch": "switch"}
    return {
        name: kinds.get(str(entry.get("kind")) if isinstance(entry, dict) else "", "host")
        for name, entry in nodes.items()
    }


def _name_links(entries: list[LinkEntry]) -> tuple[LinkSpec, ...]:
    """Links with a name each: the user's, or the ends' with a number from the second one on."""
    taken = {entry.name for entry in entries}
    links = []
    counts: dict[str, int] = {}
    for entry in entries:
        a, b = entry.between
        name = entry.name
        if name is None:
            base = name = f"{a}-{b}"
            while name in taken:
                counts[base] = counts.get(base, 1) + 1
                name = f"{base}-{counts[base]}"
            taken.add(name)
        forward, reverse = entry.directions()
        addresses = entry.addresses or (None, None)
        links.append(LinkSpec(name, (a, b), forward, reverse, entry.backup, (addresses[0], addresses[1])))
    return tuple(links)
