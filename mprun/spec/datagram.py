# SPDX-License-Identifier: Apache-2.0
"""Lengths of UDP packets that nobody gave one: what fills an IP packet of 1500 bytes, by family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mprun.spec.path import name_paths, usable_paths
from mprun.spec.spec import DEFAULT_MTU, ExperimentSpec, Family, Flow, TopologySpec
from mprun.tools.tool import tool_of

_UDP_HEADER_BYTES = 8
# RFC 791, RFC 8200.
_IP_HEADER_BYTES: Mapping[Family, int] = {"ipv4": 20, "ipv6": 40}
LENGTH = "length_bytes"


def fill_lengths(topology: TopologySpec, experiment: ExperimentSpec) -> ExperimentSpec:
    """The experiment with a length for every flow of UDP. Its hosts are joined."""
    if not any(_lacks(flow) for flow in experiment.traffic):
        return experiment
    return replace(experiment, traffic=tuple(_fill(topology, flow) for flow in experiment.traffic))


def _lacks(flow: Flow) -> bool:
    """Whether it has no length, and its tool has one to give."""
    return flow.protocol == "udp" and LENGTH in tool_of(flow).Entry.model_fields and LENGTH not in flow.options


def _fill(topology: TopologySpec, flow: Flow) -> Flow:
    if not _lacks(flow):
        return flow
    pair = (flow.source, flow.destination)
    family = usable_paths(flow, name_paths(topology, [pair])[pair])[0].family
    length = DEFAULT_MTU - _IP_HEADER_BYTES[family] - _UDP_HEADER_BYTES
    return replace(flow, options={**flow.options, LENGTH: length})
