# SPDX-License-Identifier: Apache-2.0
"""Workloads: the programs of a flow, by the name under `tool` in its entry.

Each workload is a module with these parts (`tool.Tool` has the types):

    Entry      the model of its entry in `traffic`, derived from a model of `mprun.schema.flow`: its keys
               with units, bounds and examples; schema and error messages follow from the model
    PROGRAMS   the programs that it starts, and their packages
    PORTS      the number of its server's ports, one after the other; 0 without a server
    METRICS    its metrics by name, with unit, meaning and protocols
    work       flow, endpoints, capabilities -> `Work`: preparations, servers and clients
    parse      flow, outputs -> `Result`: values and tables from the outputs of the programs

A workload that depends on the paths between its hosts also has:

    check_paths  flow, the paths that it may use -> (key of its entry, fault) of each

`work` and `parse` are pure: they return values, and `Capabilities` has all that they need to know of the machine.
A module is imported when a file names it. Installed packages add modules in the entry-point group
`mprun.tools`. Our own programs for workloads are in `mprun.agent`, where they need only Python, or in
`mprun.programs`, and `mprun tools install` builds them.
"""

from __future__ import annotations

TOOLS = {
    "iperf3": "mprun.tools.iperf3",
    "netperfmeter": "mprun.tools.netperfmeter",
    "ping": "mprun.tools.ping",
    "reqres": "mprun.tools.reqres",
    "http": "mprun.tools.http",
    "https": "mprun.tools.https",
    "udp": "mprun.tools.udp",
    "quic": "mprun.tools.quic",
    "sctp": "mprun.tools.sctp",
    "flows": "mprun.tools.flows",
    "video": "mprun.tools.video",
    "exec": "mprun.tools.exec",
}
