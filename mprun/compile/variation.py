# SPDX-License-Identifier: Apache-2.0
"""What the seed of a run varies beside what the kernel draws: when each flow starts.

In simulated time nothing else does: without it, runs with different seeds are equal wherever the network itself
draws nothing. What varies on wires is in `wire`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mprun.capabilities import Capabilities
from mprun.compile.network import Network
from mprun.spec.spec import Flow, Spec


def vary_starts(spec: Spec, network: Network) -> Spec:
    """Each flow later by a share of the round-trip time of its slowest path; a flow that waits for another waits
    longer."""
    if "start" not in spec.experiment.vary:
        return spec
    flows = tuple(_vary(flow, network, spec.experiment.seed) for flow in spec.experiment.traffic)
    return replace(spec, experiment=replace(spec.experiment, traffic=flows))


def is_wire_varied(spec: Spec, capabilities: Capabilities) -> bool:
    """In real time the machine varies it, and more."""
    return "wire" in spec.experiment.vary and capabilities.is_simulated


def _vary(flow: Flow, network: Network, seed: int) -> Flow:
    longest_ns = max((path.rtt_ns for path in network.paths[flow.source, flow.destination]), default=0)
    return replace(flow, start_ns=flow.start_ns + draw(seed, f"start of {flow.name}", longest_ns))


def draw(seed: int, name: str, bound: int) -> int:
    """A number below `bound` (0 where that is 0) that follows from the seed and a name, and from no order."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:16], "big") % bound if bound else 0


def derive_seed(seed: int, parts: Sequence[object]) -> int:
    """The seed of one repetition of one cell, 63 bits."""
    return draw(seed, repr(tuple(map(str, parts))), 2**63)
