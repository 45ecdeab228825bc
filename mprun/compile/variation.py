# SPDX-License-Identifier: Apache-2.0
"""Variation by the seed of a run, in addition to what the kernel draws: the start of each flow.

In simulated time nothing else varies. Without it, runs with different seeds are equal if the network itself
draws nothing. The variation of wires is in `wire`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mprun.capabilities import Capabilities
from mprun.model.network import Network
from mprun.model.spec import Flow, Spec


def vary_starts(spec: Spec, network: Network) -> Spec:
    """Each flow later by a share of the round-trip time of its slowest path; a flow that waits for another waits
    longer. Those of one group and host stay together: they may be parts of one query, and share a process."""
    if "start" not in spec.experiment.vary:
        return spec
    bounds: dict[str, int] = {}
    for flow in spec.experiment.traffic:
        longest_ns = max((path.rtt_ns for path in network.paths[flow.source, flow.destination]), default=0)
        bounds[_starter(flow)] = max(bounds.get(_starter(flow), 0), longest_ns)
    later = {name: draw(spec.experiment.seed, f"start of {name}", bound) for name, bound in bounds.items()}
    flows = tuple(replace(flow, start_ns=flow.start_ns + later[_starter(flow)]) for flow in spec.experiment.traffic)
    return replace(spec, experiment=replace(spec.experiment, traffic=flows))


def _starter(flow: Flow) -> str:
    """Return the name of what starts by itself: a flow, or those of a group on one host."""
    return flow.name if flow.group is None else f"{flow.group} of {flow.source}"


def is_wire_varied(spec: Spec, capabilities: Capabilities) -> bool:
    """In real time the machine varies it, and more."""
    return "wire" in spec.experiment.vary and capabilities.is_simulated


def draw(seed: int, name: str, bound: int) -> int:
    """A number below `bound` (0 where that is 0) that follows from the seed and a name, and from no order."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:16], "big") % bound if bound else 0


def derive_seed(seed: int, parts: Sequence[object]) -> int:
    """The seed of one repetition of one cell, 63 bits."""
    return draw(seed, repr(tuple(map(str, parts))), 2**63)
