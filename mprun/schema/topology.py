# SPDX-License-Identifier: Apache-2.0
"""The models of the topology file.

A topology is written out (`nodes` and `links`), or made by a generator (`topology` and the keys of that generator, see
`mprun.topologies`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from mprun.model.spec import Addressing, LinkSpec, NodeKind
from mprun.schema.event import EventEntry
from mprun.schema.field import EndAddresses, Name, Version
from mprun.schema.file_model import FileModel
from mprun.schema.link import LinkProperties
from mprun.schema.middlebox import MiddleboxEntry
from mprun.schema.openflow import OpenFlowEntry


class TopologyFile(FileModel):
    """What every topology file holds."""

    ELSEWHERE = dict.fromkeys(
        ("hosts", "traffic", "capture", "probe", "sample", "expect", "calibrate", "matrix", "repeat"),
        "is a key of experiments: write it in the file that -x names",
    )
    version: Version = Field(description="The version of this format.", examples=[1])
    description: str = Field("", description="What the topology is, for people.")
    addressing: Addressing | None = Field(
        None, description="Addresses of all interfaces: IPv4, IPv6 or both. Default: ipv4.", examples=["both"]
    )
    ecmp: bool = Field(
        False, description="Routers with several equally short ways choose one for each flow, not for each subnet."
    )
    events: list[EventEntry] = Field(
        [], description="Changes over time.", examples=[[{"at": "5s", "link": "path0", "set": {"loss": "100%"}}]]
    )
    middleboxes: dict[Name, MiddleboxEntry] = Field(
        {},
        description="Routers that do more than forward, by name.",
        examples=[{"router": {"strip": ["mp_join"]}}],
    )


class NodeEntry(FileModel):
    """A node."""

    kind: NodeKind = Field(
        description="A host runs traffic, a router forwards packets, a switch forwards frames.", examples=["host"]
    )
    openflow: OpenFlowEntry | None = Field(
        None, description="Makes the switch an Open vSwitch; without it, it is a Linux bridge."
    )


class LinkEntry(LinkProperties):
    """A link between two nodes."""

    name: Name | None = Field(
        None, description="What events, paths and metrics call it. Default: both ends, as in client-router."
    )
    between: list[Name] = Field(
        description="The two ends; forward is from the first to the second.",
        examples=[["client", "router"]],
        min_length=2,
        max_length=2,
    )
    addresses: list[EndAddresses] | None = Field(
        None,
        description=(
            "Addresses of the two ends with prefix length, null at a switch; of both families: a list for each end."
            " Default: derived."
        ),
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
    openflow: dict[Name, OpenFlowEntry] = Field(
        {}, description="Switches by name that are an Open vSwitch instead of a Linux bridge."
    )


Expansion = tuple[Mapping[str, NodeKind], tuple[LinkSpec, ...]]
