# SPDX-License-Identifier: Apache-2.0
"""The models of the topology file.

A topology is written out (`nodes` and `links`), or made by a generator (`topology` and the keys of that generator, see
`mprun.inputs.generators`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from mprun.inputs.keys.event import EventEntry
from mprun.inputs.keys.field import EndAddresses, FileVersion, Name
from mprun.inputs.keys.file_model import PREPARED, FileModel
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.middlebox import MiddleboxEntry
from mprun.inputs.keys.openflow import OpenFlowEntry
from mprun.model.problem import ValuePath
from mprun.model.spec import Addressing, LinkSpec, NodeKind


class TopologyFile(FileModel):
    """The common keys of all topology files."""

    ELSEWHERE = dict.fromkeys(
        ("hosts", "traffic", "capture", "probe", "sample", "expect", "calibrate", "matrix", "repeat"),
        "is a key of experiments: write it in the file that -x names",
    )
    READ_BEFORE = PREPARED
    version: FileVersion = Field(examples=[1])
    """The version of this format."""
    description: str = ""
    """A text for people: the purpose of the topology."""
    addressing: Addressing | None = Field(None, examples=["both"])
    """The addresses of all interfaces: IPv4, IPv6 or both. Default: ipv4."""
    ecmp: bool = False
    """Let routers choose among equally short paths for each flow, not for each subnet."""
    events: list[EventEntry] = Field([], examples=[[{"at": "5s", "link": "path0", "set": {"loss": "100%"}}]])
    """The changes of the network over time."""
    middleboxes: dict[Name, MiddleboxEntry] = Field({}, examples=[{"router": {"strip": ["mp_join"]}}])
    """The middleboxes, by the name of their router."""

    def place_links(self, names: Sequence[str]) -> Mapping[str, ValuePath]:
        """Return the path of each link in the file, by its name, as far as an entry of the file is the link.

        names: of all links of the topology, in their order.
        """
        return {}


class NodeEntry(FileModel):
    """A host, a router or a switch."""

    kind: NodeKind = Field(examples=["host"])
    """The kind of the node. A host runs traffic, a router forwards packets, and a switch forwards frames."""
    openflow: OpenFlowEntry | None = None
    """Make the switch an Open vSwitch. Without this key the switch is a Linux bridge."""


class LinkEntry(LinkProperties):
    """A link between two nodes."""

    ELSEWHERE = LinkProperties.ELSEWHERE | dict.fromkeys(
        ("from", "to"), "is no key: write both ends, as in 'between: [client, router]'"
    )
    name: Name | None = None
    """The name of the link in events, paths and metrics. Default: both ends, as in client-router."""
    between: list[Name] = Field(examples=[["client", "router"]], min_length=2, max_length=2)
    """The two ends of the link. Forward is from the first to the second."""
    addresses: list[EndAddresses] | None = Field(
        None, examples=[["10.0.0.1/24", "10.0.0.2/24"]], min_length=2, max_length=2
    )
    """The addresses of the two ends with prefix length. Write null for a switch, and a list for an end with both
    families. Default: derived."""


class WrittenTopology(TopologyFile):
    """A topology as a list of nodes and links."""

    nodes: dict[Name, NodeEntry] = Field(
        examples=[{"client": {"kind": "host"}, "server": {"kind": "host"}}], min_length=1
    )
    """The nodes, by name."""
    links: list[LinkEntry] = Field(default=[])
    """The links between the nodes."""

    def place_links(self, names: Sequence[str]) -> Mapping[str, ValuePath]:
        return {name: ("links", n) for n, name in enumerate(names)}


class GeneratedTopology(TopologyFile):
    """A topology made by a generator, whose module adds its own keys."""

    # keys of one generator, each near a key of another
    ELSEWHERE = TopologyFile.ELSEWHERE | {
        key: f"is a key of 'topology: {name}': remove it, or write that generator"
        for key, name in (("pairs", "dumbbell"), ("routers", "line"), ("hops", "parking-lot"), ("clients", "star"))
    }
    topology: str = Field(examples=["multi-path"])
    """The generator."""
    openflow: dict[Name, OpenFlowEntry] = Field({})
    """The switches that are an Open vSwitch and not a Linux bridge, by name."""


Expansion = tuple[Mapping[str, NodeKind], tuple[LinkSpec, ...]]
