# SPDX-License-Identifier: Apache-2.0
"""Spec and Network -> Spec: the same meaning with every derived value written out.

What comes out compiles to the same network, whatever a later version would derive.
"""

from __future__ import annotations

from dataclasses import replace

from mprun.compile.network import Impairment, Interface, Network
from mprun.spec.spec import Direction, Queue, Spec


def resolve(spec: Spec, network: Network) -> Spec:
    """Addresses of all links and queues of all rates as `allocate` decided them."""
    links = tuple(
        replace(
            link,
            forward=_direction(built.forward),
            reverse=_direction(built.reverse),
            addresses=(_address(built.ends[0]), _address(built.ends[1])),
        )
        for link, built in zip(spec.topology.links, network.links, strict=True)
    )
    return replace(spec, topology=replace(spec.topology, links=links))


def _direction(impairment: Impairment) -> Direction:
    queue = None
    if impairment.queue_packets is not None:
        queue = Queue(float(impairment.queue_packets), "packets")
    elif impairment.queue_bytes is not None:
        queue = Queue(float(impairment.queue_bytes), "bytes")
    return Direction(impairment.rate_bit_per_s, impairment.delay_ns, impairment.loss, queue)


def _address(end: Interface) -> str | None:
    return None if end.address is None else str(end.address)
