# SPDX-License-Identifier: Apache-2.0
"""Readable reports of a flow's programs, kept with a run as `logs/<process>.log`.

They are made from the same structured output as the metrics, so both agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_KIB = 1024
_RULE = "- " * 25


def tell_iperf3(report: Mapping[str, Any], source: str, is_mptcp: bool) -> str:
    """Return iperf3's JSON in the format that iperf3 prints without --json. source: the file that holds the JSON."""
    lines = [f"# told as iperf3 prints it, from {source}"]
    if is_mptcp:
        lines.append("# Retr, Cwnd: of the connection's first subflow")
    lines += _tell_start(report.get("start", {}))
    intervals = report.get("intervals", [])
    streams = [stream for interval in intervals for stream in interval["streams"]]
    if streams:
        lines.append(_title(streams[0]))
        for interval in intervals:
            lines += [_line(f"{stream['socket']:3}", stream) for stream in interval["streams"]]
            if len(interval["streams"]) > 1 and "sum" in interval:
                lines.append(_line("SUM", interval["sum"]))
    lines += _tell_end(report.get("end", {}))
    if report.get("error"):
        lines.append(f"iperf3: {report['error']}")
    return "\n".join(lines) + "\n"


def tell_requests(table: Mapping[str, Sequence[Any]]) -> str:
    """Return a line for each request: its number, its start, the size of its answer if known, and its delay."""
    sizes = table.get("received_bytes")
    title = "" if sizes is None else f"{'bytes':>10} "
    lines = [f"{'request':>7} {'start':>12} {title}{'delay':>12}"]
    for row, number in enumerate(table["sequence"]):
        start_ns = table["start_ns"][row]
        start = "" if start_ns is None else f"{start_ns / 1e9:.6f} s"
        size = "" if sizes is None else f"{sizes[row]:>10} "
        delay_ns = table["delay_ns"][row]
        delay = "no answer" if delay_ns is None else f"{delay_ns / 1e6:9.3f} ms"
        lines.append(f"{number:7} {start:>12} {size}{delay:>12}")
    return "\n".join(lines) + "\n"


def _tell_start(start: Mapping[str, Any]) -> Iterator[str]:
    if "connecting_to" in start:
        yield f"Connecting to host {start['connecting_to']['host']}, port {start['connecting_to']['port']}"
    if "accepted_connection" in start:
        accepted = start["accepted_connection"]
        yield f"Accepted connection from {accepted['host']}, port {accepted['port']}"
    for one in start.get("connected", []):
        yield (
            f"[{one['socket']:3}] local {one['local_host']} port {one['local_port']} "
            f"connected to {one['remote_host']} port {one['remote_port']}"
        )


def _tell_end(end: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (f"{part['socket']:3}", part, who)
        for stream in end.get("streams", [])
        for who, part in _sides(stream)
        if part.get("bytes")
    ]
    if not rows:
        return
    yield _RULE
    yield _title(rows[0][1])
    for name, part, who in rows:
        yield f"{_line(name, part):62} {who}".rstrip()


def _sides(stream: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (role, part) of a stream: sender and receiver for TCP, one sum for UDP."""
    for who in ("sender", "receiver"):
        if isinstance(stream.get(who), Mapping):
            yield who, stream[who]
    if "udp" in stream:
        yield "", stream["udp"]


def _title(part: Mapping[str, Any]) -> str:
    more = "Retr" if "retransmits" in part else "Jitter    Lost/Total Datagrams" if "jitter_ms" in part else ""
    more += "  Cwnd" if "snd_cwnd" in part else ""
    return f"[ ID] Interval           Transfer     Bitrate         {more}".rstrip()


def _line(name: str, part: Mapping[str, Any]) -> str:
    span = f"{part['start']:6.2f}-{part['end']:<6.2f} sec"
    text = f"[{name}] {span}  {_scale(part['bytes'])}Bytes  {_scale(part['bits_per_second'], 1000)}bits/sec"
    if "retransmits" in part:
        cwnd = f"   {_scale(part['snd_cwnd'])}Bytes" if "snd_cwnd" in part else ""
        text += f"  {part['retransmits']:3}{cwnd}"
    elif "jitter_ms" in part:
        text += f"  {part['jitter_ms']:.3f} ms  {part['lost_packets']}/{part['packets']} ({part['lost_percent']:.2g}%)"
    elif "packets" in part:
        text += f"  {part['packets']}"
    return text


def _scale(value: float, base: int = _KIB) -> str:
    """Return three digits and a prefix, in iperf3's format."""
    prefixes = ("", "K", "M", "G", "T")
    power = 0
    while value >= base and power < len(prefixes) - 1:
        value /= base
        power += 1
    digits = 0 if value >= 99.995 else 1 if value >= 9.9995 else 2
    return f"{value:4.{digits}f} {prefixes[power]}"
