# SPDX-License-Identifier: Apache-2.0
"""Workloads: the tools that a flow of an experiment can run, by the name under `tool` in its entry.

Each tool is a module with these parts (`tool.Tool` has their types):

    Entry      the model of its entry in `traffic`, derived from one of `mprun.inputs.keys.traffic_entry`: the allowed
               keys, with units, bounds and examples; schema and error messages follow from it
    PROGRAMS   the programs that it starts, and the packages that contain them
    PORTS      the number of consecutive ports of its server; 0 without a server
    METRICS    its metrics by name, with unit, meaning, and the protocols that have them
    work       flow, endpoints, capabilities -> `Work`: preparations, servers and clients
    parse      flow, outputs -> `Result`: values and tables from the output of the programs

A tool may also have:

    TIME_LIMIT   the longest duration of a flow without a `timeout`
    is_download  Flow -> True if all data goes to the client, False if all data goes to the server
    check_paths  flow, the paths that it may use -> (key of its entry, problem) of each problem

`work` and `parse` are pure: their knowledge of the machine is in `Capabilities`, and their results are values.

A module is imported when a file names it. Installed packages can add tools in the entry-point group `mprun.tools`. Our
own programs of a workload are in `mprun.agent.programs` and need only Python, or are in `mprun.workloads.built`, and
`mprun tools install` builds them.
"""

TOOLS = ("iperf3", "netperfmeter", "ping", "reqres", "http", "https", "udp", "quic", "sctp", "flows", "video", "exec")
