# SPDX-License-Identifier: Apache-2.0
"""An intent as JSON: the only writer and the only reader. The reader checks files of strangers too.

A key that a feature adds is written only where the feature is used. So the digests of other files stay the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from mprun.model.codec import PLAIN, Codec, JsonProblem, canonical_json
from mprun.model.discipline import OPTIONS, TYPES
from mprun.model.intent.values import AddressedFlow, FlowEnds, FlowPath, Intent
from mprun.model.network import Interface
from mprun.model.spec import Capture, HostSpec, Middlebox, Mptcp, PacketFault, Queue

Plain = dict[str, Any]
_Pairs = tuple[tuple[str, float], ...]

# Keys that are written only if their value is not the default.
_OPTIONAL: Mapping[type, tuple[str, ...]] = {
    Intent: ("vary", "samples", "switches", "middleboxes", "faults", "reseed", "tracepoints"),
    AddressedFlow: ("family", "after", "timeout_ns", "port", "congestion", "background", "group", "repetition"),
    FlowEnds: ("port", "ports"),
    FlowPath: ("middleboxes", "source_seen"),
    Middlebox: ("alter",),
    HostSpec: ("congestion",),
    PacketFault: ("by_ns", "option"),
}


def _drop_empty(value: object, plain: Plain) -> Plain:
    optional = _OPTIONAL[type(value)]
    return {name: one for name, one in plain.items() if one or name not in optional}


def _write_path(path: FlowPath, plain: Plain) -> Plain:
    single = ("ways", "least_rtt_ns") if path.ways <= 1 else ()
    return {name: one for name, one in _drop_empty(path, plain).items() if name not in single}


def _write_mptcp(mptcp: Mptcp, plain: Plain) -> Plain:
    """Write out how a path manager in user space is set, and endpoints, only where there are any."""
    unsaid = set() if mptcp.is_in_user_space else {"subflows_per_pair"}
    unsaid |= set() if mptcp.endpoints else {"endpoints"}
    return {name: one for name, one in plain.items() if name not in unsaid}


def _write_interface(interface: Interface, plain: Plain) -> Plain:
    """Write the addresses by family: `address` is the IPv4 one or null, `ipv6` exists only with a value."""
    of_ipv4, of_ipv6 = interface.address("ipv4"), interface.address("ipv6")
    rest = {name: one for name, one in plain.items() if name != "addresses"}
    rest["address"] = None if of_ipv4 is None else str(of_ipv4)
    return rest if of_ipv6 is None else rest | {"ipv6": str(of_ipv6)}


def _parse_interface(value: Plain) -> Plain:
    return {**value, "addresses": [one for one in (value["address"], value.get("ipv6")) if one is not None]}


def _write_capture(capture: Capture, plain: Plain) -> Plain:
    """Write the node as `host`, whatever its kind."""
    unsaid = {"node"} | (set() if capture.link is not None else {"link"})
    unsaid |= set() if capture.size_bytes is not None else {"size_bytes", "keep"}
    return {"host": capture.node} | {name: one for name, one in plain.items() if name not in unsaid}


def _parse_capture(value: Plain) -> Plain:
    return {**value, "node": value["host"]}


def _write_queue(queue: Queue, plain: Plain) -> Plain:
    """Write every number as a float, and the options as pairs: digests of earlier versions contain them so."""
    options = [[name, float(value)] for name, value in sorted(queue.options.items())]
    return {**plain, "amount": float(queue.amount), "options": options}


def _parse_queue(value: Plain) -> Plain:
    """Return the numbers with the types that `_write_queue` met."""
    amount = value["amount"]
    try:
        options = dict(PLAIN.decode(_Pairs, value.get("options", [])))
    except JsonProblem as fault:
        raise fault.inside(".options") from None
    whole = int(amount) if isinstance(amount, float) and amount.is_integer() else amount
    typed = {name: TYPES.get(OPTIONS[name].kind, int)(one) if name in OPTIONS else one for name, one in options.items()}
    return {**value, "amount": whole, "options": typed}


_SPELLED: Mapping[type, Callable[[Any, Plain], Plain]] = {
    **dict.fromkeys(_OPTIONAL, _drop_empty),
    **{FlowPath: _write_path, Mptcp: _write_mptcp, Interface: _write_interface},
    **{Capture: _write_capture, Queue: _write_queue},
}
CODEC = Codec(_SPELLED, {Interface: _parse_interface, Capture: _parse_capture, Queue: _parse_queue})


def write_intent(intent: Intent) -> Plain:
    """Return an intent as JSON values."""
    return CODEC.write(intent)


def digest_of(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an intent as JSON values, hexadecimal."""
    return hashlib.sha256(canonical_json(plain).encode()).hexdigest()
