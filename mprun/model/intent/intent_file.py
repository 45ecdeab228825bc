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
    Mptcp: ("endpoints",),
    Capture: ("link", "size_bytes"),
    HostSpec: ("congestion",),
    PacketFault: ("by_ns", "option"),
}


def _leave_out(value: object, plain: Plain, *unsaid: str) -> Plain:
    """Return the keys of a value that are written. unsaid: keys that are not, whatever their value."""
    optional = _OPTIONAL.get(type(value), ())
    return {name: one for name, one in plain.items() if name not in unsaid and (one or name not in optional)}


def _write_path(path: FlowPath, plain: Plain) -> Plain:
    return _leave_out(path, plain, *(("ways", "least_rtt_ns") if path.ways <= 1 else ()))


def _write_mptcp(mptcp: Mptcp, plain: Plain) -> Plain:
    return _leave_out(mptcp, plain, *(() if mptcp.is_in_user_space else ("subflows_per_pair",)))


def _write_interface(interface: Interface, plain: Plain) -> Plain:
    """Write the addresses by family: `address` is the IPv4 one or null, `ipv6` exists only with a value."""
    of_ipv4, of_ipv6 = interface.address("ipv4"), interface.address("ipv6")
    rest = _leave_out(interface, plain, "addresses")
    rest["address"] = None if of_ipv4 is None else str(of_ipv4)
    return rest if of_ipv6 is None else rest | {"ipv6": str(of_ipv6)}


def _parse_interface(value: Plain) -> Plain:
    return {**value, "addresses": [one for one in (value["address"], value.get("ipv6")) if one is not None]}


def _write_capture(capture: Capture, plain: Plain) -> Plain:
    """Write the node as `host`, whatever its kind."""
    return {"host": capture.node} | _leave_out(capture, plain, "node", *(() if capture.size_bytes else ("keep",)))


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
    **dict.fromkeys(_OPTIONAL, _leave_out),
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
