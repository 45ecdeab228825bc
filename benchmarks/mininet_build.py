# SPDX-License-Identifier: Apache-2.0
"""Seconds that Mininet's own classes take to build and to take down a network, without routes and tc.

    python mininet_build.py < edges.json

Must run as root in namespaces of its own (unshare --net --mount --pid --fork --mount-proc).
"""

from __future__ import annotations

import json
import sys
import time

sys.path.insert(0, "/usr/lib/python3/dist-packages")
from mininet.net import Mininet


def main(edges: list[tuple[str, str]]) -> None:
    started = time.monotonic()
    net = Mininet(controller=None, build=False)
    names = dict.fromkeys(name for edge in edges for name in edge)
    # names of interfaces have 15 characters, and Mininet makes h12-eth3 of h12
    nodes = {name: net.addHost(f"h{n}") for n, name in enumerate(names)}
    for a, b in edges:
        net.addLink(nodes[a], nodes[b])
    net.build()
    net.start()
    built = time.monotonic()
    net.stop()
    print(json.dumps({"build_s": built - started, "stop_s": time.monotonic() - built}))


if __name__ == "__main__":
    main(json.load(sys.stdin))
