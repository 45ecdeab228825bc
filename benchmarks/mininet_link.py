# SPDX-License-Identifier: Apache-2.0
"""Measure a link that Mininet's own TCLink makes: rate, one-way delay, loss, queue, as JSON in a file.

    python mininet_link.py RATE_MBIT RTT_MS LOSS_PERCENT UDP_SECONDS OUTPUT

It runs inside the experiment kernel, which has the necessary qdiscs and exact timers.
"""

from __future__ import annotations

import json
import re
import sys

sys.path.insert(0, "/usr/lib/python3/dist-packages")
from mininet.link import TCLink
from mininet.net import Mininet

WIRE_BYTES, PAYLOAD_BYTES = 1514, 1472


def main(rate_mbit: float, rtt_ms: float, loss_percent: float, seconds: int, output: str) -> None:
    """Measure the link.

    Mininet shapes on the hosts, each in its own direction, with netem above HTB and 1000 packets.
    """
    net = Mininet(link=TCLink, controller=None, build=False)
    first, second = net.addHost("h1", ip="10.0.0.1/24"), net.addHost("h2", ip="10.0.0.2/24")
    net.addLink(first, second, bw=rate_mbit, delay=f"{rtt_ms / 2}ms", loss=loss_percent, use_htb=True)
    net.build()
    net.start()
    found: dict[str, float | None] = {}
    said = first.cmd("ping -c 12 -i 0.5 -q 10.0.0.2")
    match = re.search(r"= [0-9.]+/([0-9.]+)/", said)
    found["rtt_ms"] = float(match[1]) if match else None
    server = second.popen(["iperf3", "-s", "-1", "-J"])
    first.cmd("sleep 1")
    offered = f"{rate_mbit * 1.1}M"
    said = first.cmd(f"iperf3 -c 10.0.0.2 -u -b {offered} -l {PAYLOAD_BYTES} -t {seconds} -J --get-server-output")
    server.wait()
    try:
        # the shell may print something too
        intervals = json.loads(said[said.index("{") : said.rindex("}") + 1])["server_output_json"]["intervals"]
        intervals = [i for i in intervals[1:] if i["sum"]["end"] <= seconds + 0.01]
        span = sum(i["sum"]["seconds"] for i in intervals)
        payload = sum(i["sum"]["bytes"] for i in intervals)
        found["rate_bit_per_s"] = payload * 8 / span * WIRE_BYTES / PAYLOAD_BYTES
    except (ValueError, KeyError, ZeroDivisionError):
        found["rate_bit_per_s"] = None
    with open(output, "w") as file:
        json.dump(found, file)
    net.stop()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
