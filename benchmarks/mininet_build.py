# SPDX-License-Identifier: Apache-2.0
"""Build a network by Mininet's own classes and take it down, without routes and tc; says when each is done.

    python mininet_build.py < edges.json

Must run as root in namespaces of its own (unshare --net --mount --pid --fork --mount-proc).
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, "/usr/lib/python3/dist-packages")
from mininet.net import Mininet


def main(edges: list[tuple[str, str]]) -> None:
    print("begin", flush=True)
    net = Mininet(controller=None, build=False)
    names = dict.fromkeys(name for edge in edges for name in edge)
    # names of interfaces have 15 characters, and Mininet makes h12-eth3 of h12
    nodes = {name: net.addHost(f"h{n}") for n, name in enumerate(names)}
    for a, b in edges:
        net.addLink(nodes[a], nodes[b])
    net.build()
    net.start()
    print("built", flush=True)
    net.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
