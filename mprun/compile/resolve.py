# SPDX-License-Identifier: Apache-2.0
"""Write every derived value of a Network into its Spec, without a change of meaning.

The resulting Spec compiles to the same network, even if a later version derives other values.
"""

from __future__ import annotations

from dataclasses import replace

from mprun.model.network import Interface, Network
from mprun.model.spec import Spec


def resolve(spec: Spec, network: Network) -> Spec:
    """Return the spec with the addresses of all links and the queues of all rates, as `allocate` decided them."""
    links = tuple(
        replace(
            link,
            forward=built.forward,
            reverse=built.reverse,
            addresses=(_addresses(built.ends[0]), _addresses(built.ends[1])),
        )
        for link, built in zip(spec.topology.links, network.links, strict=True)
    )
    return replace(spec, topology=replace(spec.topology, links=links, changes=network.changes))


def _addresses(end: Interface) -> tuple[str, ...]:
    return tuple(map(str, end.addresses))
