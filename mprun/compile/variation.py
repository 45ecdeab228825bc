# SPDX-License-Identifier: Apache-2.0
"""Variation between runs with different seeds: the start time of each flow.

In simulated time, runs with different seeds are otherwise equal if the network itself uses no random numbers.
`mprun.compile.wire` varies the timing of packets on wires.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from mprun.model.capabilities import Capabilities
from mprun.model.network import Network
from mprun.model.spec import Flow, Spec


def vary_starts(spec: Spec, network: Network) -> Spec:
    """Return the spec with the start of each flow delayed by a random share of the round-trip time of its slowest path.

    A flow that waits for another flow waits longer by its own share. Flows of one group and host keep starting
    together, because they may be parts of one query and share a process.
    """
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
    """Return a name for the flows that start together: one flow, or the flows of a group on one host."""
    return flow.name if flow.group is None else f"{flow.group} of {flow.source}"


def is_wire_varied(spec: Spec, capabilities: Capabilities) -> bool:
    """Return whether the timing of packets on wires is varied. In real time, the machine itself varies it more."""
    return "wire" in spec.experiment.vary and capabilities.is_simulated


def draw(seed: int, name: str, bound: int) -> int:
    """Return a number below `bound` (0 if `bound` is 0) that depends only on the seed and the name."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:16], "big") % bound if bound else 0


def derive_seed(seed: int, parts: Sequence[object]) -> int:
    """Return the seed of one repetition of a cell, 63 bits."""
    return draw(seed, repr(tuple(map(str, parts))), 2**63)
