# SPDX-License-Identifier: Apache-2.0
"""`mprun new`: a commented topology and experiment to start from."""

from __future__ import annotations

from pathlib import Path

import click

_EXPERIMENT = """\
# The experiment on the topology. Run it: mprun -t topo -x xp
version: 1
description: one MPTCP connection over all paths

# Parameters: {{ cc }} below stands for the value. The option -p cc=reno overrides it for one run.
params: {cc: cubic}

hosts:
  # fullmesh opens a subflow for each pair of addresses. default opens no additional subflow.
  client:
    mptcp: {path_manager: fullmesh}
    sysctl: {net.ipv4.tcp_congestion_control: "{{ cc }}"}
  server:
    mptcp: {path_manager: fullmesh}

# Times count from time zero, the moment when everything is ready.
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, duration: 10s}

# Captures on all interfaces of a host. snaplen: the number of bytes to keep of each packet.
capture:
  - {host: client, snaplen: 100}

# Samples of windows, round-trip times, queues and interfaces over time, in tables/ of the run (optional).
sample: {sockets: 100ms, queues: 100ms, interfaces: 100ms}

# Expectations: the run fails if one does not hold. The pings of `path0.rtt` precede the traffic.
expect:
@EXPECT@
"""

_TOPOLOGIES = {
    "multi-path": (
        """\
# The network: a client with several paths to a server. Check it: mprun validate -t topo -x xp
version: 1
description: two disjoint paths between a client and a server

# client ==path0, path1== router --server0-- server
topology: multi-path
paths:
  # rate: bits per second. delay: one-way, in both directions (or rtt: 40ms).
  # queue: packets, bytes (64kb), time (50ms) or bandwidth-delay products (1bdp, the default).
  # Other properties: loss: 0.1%, backup: true. Values by direction: {forward: 5mbit, reverse: 20mbit}.
  - {rate: 20mbit, delay: 20ms, queue: 80packets}
  - {rate: 20mbit, delay: 20ms, queue: 80packets}

# More than one link between router and server:
# server_paths:
#   - {rate: 50mbit, delay: 5ms}
#   - {rate: 50mbit, delay: 5ms}
""",
        """\
  - {metric: bulk.goodput, min: 36mbit}
  - {metric: bulk.subflows, equals: 2}
  - {metric: bulk.share.path0, min: 45%, max: 55%}
  - {metric: path0.rtt, min: 39.9ms, max: 40.1ms}""",
    ),
    "line": (
        """\
# The network: a chain of routers. Check it: mprun validate -t topo -x xp
version: 1
description: a client and a server with two routers between them

# client -- r1 -- r2 -- server. The properties below apply to each of the three links.
topology: line
routers: 2
rate: 20mbit
delay: 5ms
queue: 1bdp
""",
        """\
  - {metric: bulk.goodput, min: 18mbit}
  - {metric: bulk.subflows, equals: 1}
  # 30 ms, plus 0.04 ms for a ping of 98 bytes on each of three links in each direction
  - {metric: client-r1.rtt, min: 30ms, max: 30.3ms}""",
    ),
    "graph": (
        """\
# The network as nodes and links. Check it: mprun validate -t topo -x xp
version: 1
description: a client with two access links and a server behind one router

# kind: host (runs traffic), router (forwards packets), switch (forwards frames)
nodes:
  client: {kind: host}
  router: {kind: router}
  server: {kind: host}

# Forward is from the first to the second of `between`. A link without rate and delay is a plain cable.
links:
  - {name: path0, between: [client, router], rate: 20mbit, delay: 20ms, queue: 80packets}
  - {name: path1, between: [client, router], rate: {forward: 20mbit, reverse: 50mbit}, delay: 20ms}
  - {name: access, between: [router, server]}
""",
        """\
  - {metric: bulk.goodput, min: 36mbit}
  - {metric: bulk.subflows, equals: 2}
  - {metric: path0.rtt, min: 39.9ms, max: 40.1ms}""",
    ),
}


@click.command()
@click.argument("directory", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--topology",
    "kind",
    type=click.Choice(list(_TOPOLOGIES)),
    default="multi-path",
    show_default=True,
    help="Choose the network to start from. `graph` lists nodes and links.",
)
def command(directory: Path, kind: str) -> None:
    """Write topo.yaml and xp.yaml, with comments, to DIRECTORY. Default: the current directory."""
    from mprun.errors import MachineError, SpecError

    topology, expectations = _TOPOLOGIES[kind]
    files = {
        directory / "topo.yaml": topology,
        directory / "xp.yaml": _EXPERIMENT.replace("@EXPECT@", expectations),
    }
    present = [str(path) for path in files if path.exists() or path.is_symlink()]
    if present:
        raise SpecError(f"{' and '.join(present)} would be overwritten: name another directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MachineError(f"{error.filename or directory}: cannot be written: {reason}") from None
    click.echo(f"wrote {' and '.join(map(str, files))}")
    folder = "" if directory == Path() else f"{directory}/"
    click.echo(f"next: mprun -t {folder}topo -x {folder}xp")
