# SPDX-License-Identifier: Apache-2.0
"""Workloads: what a flow of an experiment runs, by the name that its entry gives under `tool`.

Each is a module that says everything about its workload (`tool.Tool` has the types):

    Entry      the model of its entry in `traffic`, derived from one of `mprun.schema.flow`: what may be
               written, with units, bounds and examples; schema and error messages follow from it
    PROGRAMS   the programs that it starts, and the packages that hold them
    PORTS      how many ports its server has, one after the other; 0 where it has none
    METRICS    its metrics by name, with unit, meaning, and the protocols that have them
    work       flow, endpoints, capabilities -> `Work`: what is prepared, what must listen, what runs
    parse      flow, outputs -> `Result`: values and tables out of all that the programs left

and, where the paths between its hosts matter to it:

    check_paths  flow, the paths that it may use -> (key of its entry, fault) of each

`work` and `parse` are pure; what they need of the machine is in `Capabilities`, what they make are values.
A module is imported when a file names it. Installed packages bring others in the entry-point group
`mprun.tools`. Programs of ours that a workload runs are in `mprun.agent` and need nothing but Python, or in
`mprun.programs`, whose `mprun tools install` builds them.
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
