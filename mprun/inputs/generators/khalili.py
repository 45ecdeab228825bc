# SPDX-License-Identifier: Apache-2.0
"""`khalili`: a client and a server joined by switches, one of which a TCP pair also uses.

           +--path0--[s0]--server0--+
client ----|                        |---- server
           +--path1--[s1]--server1--+
                     /  \\
            tcp-client   tcp-server

This is the testbed of Khalili et al. (CoNEXT 2012) as a later study built it on one machine. The
switch s1 is shared; s0 and further switches s2, s3 ... are private. There is no router, so packets
that leave over path<i> arrive over server<i>, on a subnet of its own. Each link has its own shaping.
The pairs meet in s1 but share no rate unless `bottleneck` is given. With `bottleneck`, s1 becomes two
switches, s1 and s1-far, which the bottleneck joins.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mprun.inputs.generators.multi_path import MOST_PATHS
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import LinkSpec, NodeKind

SHARED = 1


class Parameters(GeneratedTopology, LinkProperties):
    """A client and a server joined by switches, one of which a TCP pair also uses. Link properties apply to each link
    of a host. Forward is from the clients to the servers.
    """

    topology: Literal["khalili"]
    paths: Annotated[
        int, Whole(2, MOST_PATHS, "one switch is private, one shared, and each has a subnet numbered by one byte")
    ] = 2
    """The number of switches between client and server."""
    bottleneck: LinkProperties | None = None
    """The properties of a link inside the shared switch, for which the pairs compete. Default: none."""


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later.

    Switch i has a subnet: the client first, the server second.
    """
    switches = [f"s{n}" for n in range(parameters.paths)]
    far = switches.copy()
    nodes: dict[str, NodeKind] = {"client": "host", "tcp-client": "host", **dict.fromkeys(switches, "switch")}
    links: list[LinkSpec] = []
    if parameters.bottleneck is not None:
        far[SHARED] = f"{switches[SHARED]}-far"
        nodes[far[SHARED]] = "switch"
    for n, (near_switch, far_switch) in enumerate(zip(switches, far, strict=True)):
        links.append(parameters.join(f"path{n}", ("client", near_switch)))
        links.append(parameters.join(f"server{n}", (far_switch, "server")))
    if parameters.bottleneck is not None:
        links.append(parameters.bottleneck.join("bottleneck", (switches[SHARED], far[SHARED])))
    links.append(parameters.join("tcp-client", ("tcp-client", switches[SHARED])))
    links.append(parameters.join("tcp-server", (far[SHARED], "tcp-server")))
    return {**nodes, "server": "host", "tcp-server": "host"}, tuple(links)
