# SPDX-License-Identifier: Apache-2.0
"""`access-points`: multipath users on two access points, single-path users on one of them.

user0 ---+-----+
    \\    | ap0 |--ap0--+--------+
     \\   +-----+       | router |---- server
      +--+-----+       |        |
single0 -| ap1 |--ap1--+--------+
         +-----+

The nodes are the multipath users user0, user1 ..., the single-path users single0, single1 ..., the
access points ap0 and ap1 (two routers), router and server. All users of an access point share its
link ap0 or ap1. The other links are `user0-ap0`, `user0-ap1` ..., `single0` ... and `server`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.generators.end_hosts import MOST_HOSTS, WHY_HOSTS, Access
from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import LinkProperties
from mprun.inputs.keys.topology import Expansion, GeneratedTopology
from mprun.model.spec import LinkSpec, NodeKind

POINTS = ("ap0", "ap1")


class Parameters(GeneratedTopology):
    """Multipath users on two access points, single-path users on one of them. Forward is from the users to the
    server.
    """

    topology: Literal["access-points"]
    multipath_users: Annotated[int, Whole(1, MOST_HOSTS, WHY_HOSTS)] = Field(examples=[2])
    """The number of users with a link to both access points."""
    single_path_users: Annotated[int, Whole(0, MOST_HOSTS, WHY_HOSTS)] = Field(examples=[2])
    """The number of users with a link only to the second access point."""
    points: list[LinkProperties] = Field(
        examples=[[{"rate": "20mbit", "delay": "10ms"}, {"rate": "20mbit", "delay": "10ms"}]],
        min_length=2,
        max_length=2,
    )
    """The links of the two access points, ap0 and ap1, to the router."""
    access: Access
    """The properties of each link between a user and an access point. Default: unshaped."""
    server: Access
    """The properties of the link between the router and the server. Default: unshaped."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        total = self.multipath_users + self.single_path_users
        if total > MOST_HOSTS:
            yield "multipath_users", f"make {total} users with the single-path ones: {WHY_HOSTS}"


def expand(parameters: Parameters) -> Expansion:
    """Return nodes and links; addresses are derived later."""
    users = [f"user{n}" for n in range(parameters.multipath_users)]
    single = [f"single{n}" for n in range(parameters.single_path_users)]
    nodes: dict[str, NodeKind] = {**dict.fromkeys(users + single, "host"), **dict.fromkeys(POINTS, "router")}
    links: list[LinkSpec] = [
        *(parameters.access.join(f"{user}-{point}", (user, point)) for user in users for point in POINTS),
        *(parameters.access.join(user, (user, POINTS[1])) for user in single),
        *(link.join(point, (point, "router")) for point, link in zip(POINTS, parameters.points, strict=True)),
        parameters.server.join("server", ("router", "server")),
    ]
    return {**nodes, "router": "router", "server": "host"}, tuple(links)
