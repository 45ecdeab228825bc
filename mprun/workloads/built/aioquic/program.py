# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over QUIC on one path, on the library aioquic.

    mprun-aioquic server --listen ADDRESS:PORT --certificate FILE --key FILE [--congestion C] [--qlog FILE]
    mprun-aioquic client --path LOCAL,REMOTE:PORT --requests N --response BYTES [--request BYTES] [--think-ns T]
                         [--streams N] [--congestion C] [--keylog FILE] [--qlog FILE] [--timeout-ms T]
                         [--testcase CASE]

Its requests and its output are those of mprun-quic (`mprun/workloads/built/exchange`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import ssl
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from aioquic import __version__
from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived
from aioquic.quic.logger import QuicLogger
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite, SessionTicket

PROTOCOL, SERVER_NAME = "mprun/1", "mprun"
# The most that an end buffers for a stream, as in mprun-noq.
WINDOW_BYTES = 6 << 20
# The largest UDP payload in an Ethernet frame, with an IPv4 and an IPv6 header.
LARGEST_PAYLOADS = (1472, 1452)
STANDSTILL_NS = 10_000_000
# The time for the last packets to be sent once everything is done.
FAREWELL_S = 0.2
CONTENT = bytes(65_536)


# A version that no server knows (RFC 9000 15).
RESERVED_VERSION = 0x1A2A3A4A
# The data after whose arrival a client updates its keys.
UPDATE_BYTES = 50_000


def tell(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def configure(options: argparse.Namespace, *, is_client: bool, address: str) -> QuicConfiguration:
    configuration = QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[PROTOCOL],
        congestion_control_algorithm=options.congestion,
        idle_timeout=options.idle_timeout_ms / 1000,
        max_data=WINDOW_BYTES,
        max_stream_data=WINDOW_BYTES,
        max_datagram_size=LARGEST_PAYLOADS[":" in address],
        quic_logger=QuicLogger() if options.qlog else None,
        server_name=SERVER_NAME if is_client else None,
        # each run makes its own certificate
        verify_mode=ssl.CERT_NONE if is_client else None,
    )
    first, second = QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
    configuration.supported_versions = [first]
    if options.testcase == "v2":
        configuration.supported_versions = [second, first]
        configuration.original_version = first if is_client else None
    if options.testcase == "versionnegotiation" and is_client:
        configuration.supported_versions = [RESERVED_VERSION, first]
        configuration.original_version = RESERVED_VERSION
    if options.testcase == "chacha20":
        configuration.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    return configuration


def write_qlog(options: argparse.Namespace, configuration: QuicConfiguration) -> None:
    """Write the events of all connections, each as a trace."""
    if configuration.quic_logger is not None:
        Path(options.qlog).write_text(json.dumps(configuration.quic_logger.to_dict()))


def split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Tally:
    """The requests of a client that are not sent yet, and the totals of the others."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.began_ns = self.moved_ns = time.monotonic_ns()
        self.waiting = deque(range(options.requests))
        self.done = self.bytes = self.sent_bytes = self.first_ns = self.end_ns = 0


class Client(QuicConnectionProtocol):  # type: ignore[misc]
    """The client's end of a connection: requests, their answers, and what is printed about them."""

    def __init__(self, quic: QuicConnection, options: argparse.Namespace, progress: Tally) -> None:
        super().__init__(quic)
        self.options, self.progress = options, progress
        self.has_begun = self.has_updated = False
        self.under_way: dict[int, dict[str, Any]] = {}
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def since(self, at_ns: int) -> int:
        return at_ns - self.progress.began_ns

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted) and self.options.requests:
            tell("connected", at_ns=self.since(time.monotonic_ns()))
            self.begin()
        elif isinstance(event, StreamDataReceived) and event.stream_id in self.under_way:
            self.receive(event)
        elif isinstance(event, ConnectionTerminated):
            # aioquic reports its own idle time-out (RFC 9000 10.1) as an internal error with this phrase
            is_idle = not event.error_code or event.reason_phrase == "Idle timeout"
            closed = f"the server closed it with error {event.error_code}"
            self.end("nothing arrived any more on any path" if is_idle else closed)

    def begin(self) -> None:
        """Send the first requests, once."""
        if not self.has_begun:
            self.has_begun = True
            at_a_time = 1 if self.options.testcase == "multiconnect" else self.options.streams
            for _ in range(min(at_a_time, self.options.requests)):
                self.send()

    def send(self) -> None:
        now_ns, progress = time.monotonic_ns(), self.progress
        stream = self._quic.get_next_available_stream_id()
        progress.first_ns = progress.first_ns or now_ns
        if not self.under_way:
            progress.moved_ns = now_ns
        self.under_way[stream] = {"number": progress.waiting.popleft(), "at_ns": now_ns, "bytes": 0}
        content = f"{self.options.response}\n".encode() + bytes(self.options.request)
        progress.sent_bytes += len(content)
        self._quic.send_stream_data(stream, content, end_stream=True)
        self.transmit()

    def receive(self, event: StreamDataReceived) -> None:
        now_ns = time.monotonic_ns()
        self.move(now_ns)
        request = self.under_way[event.stream_id]
        request["bytes"] += len(event.data)
        if self.options.testcase == "keyupdate" and not self.has_updated and request["bytes"] > UPDATE_BYTES:
            self.has_updated = True
            self._quic.request_key_update()
        if not event.end_stream:
            return
        del self.under_way[event.stream_id]
        at_ns, size = request["at_ns"], request["bytes"]
        tell("request", number=request["number"], at_ns=self.since(at_ns), delay_ns=now_ns - at_ns, bytes=size)
        if size != self.options.response:
            self.end(f"request {request['number']}: {size} bytes instead of {self.options.response}")
            return
        progress = self.progress
        progress.done, progress.bytes, progress.end_ns = progress.done + 1, progress.bytes + size, now_ns
        if progress.done == self.options.requests:
            self.end("")
        elif self.options.testcase == "multiconnect":
            self.over.set_result("")
        elif progress.waiting:
            self._loop.call_later(self.options.think_ns / 1e9, self.send)

    def move(self, now_ns: int) -> None:
        """Note that the requests have progressed. Print a standstill before it."""
        if now_ns - self.progress.moved_ns >= STANDSTILL_NS:
            tell("standstill", at_ns=self.since(self.progress.moved_ns), to_ns=self.since(now_ns))
        self.progress.moved_ns = now_ns

    def end(self, cause: str) -> None:
        """Print the totals, and end the client. cause: why it ends early; empty if everything has arrived."""
        if self.over.done() or not self.options.requests:
            return
        if self.under_way:
            self.move(time.monotonic_ns())
        progress = self.progress
        first_ns, end_ns = (self.since(at_ns) if at_ns else 0 for at_ns in (progress.first_ns, progress.end_ns))
        # the library has no figures of a path: a client knows only what has arrived
        received = progress.bytes + sum(one["bytes"] for one in self.under_way.values())
        ends = dict(zip(("local", "remote"), addresses_of(self.options), strict=True))
        path = {**ends, **dict.fromkeys(FIGURES, 0), "validated": True, "state": "active"}
        path |= {"sent_stream_bytes": progress.sent_bytes, "received_stream_bytes": received}
        totals = {"requests": progress.done, "bytes": progress.bytes, "first_request_ns": first_ns, "end_ns": end_ns}
        tell("end", **totals, multipath=False, paths=[path])
        self.over.set_result(cause)


# The figures of a path that mprun-quic prints.
FIGURES = (
    *("sent_bytes", "received_bytes", "sent_packets", "received_packets", "lost_packets", "lost_bytes"),
    *("sent_stream_bytes", "received_stream_bytes", "smoothed_rtt_ns", "least_rtt_ns", "congestion_window_bytes"),
)


class Server(QuicConnectionProtocol):  # type: ignore[misc]
    """The server's end of a connection: answers each request with the wanted number of bytes."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.lines: dict[int, bytes] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            # the line is at most 20 digits long; the body behind it does not matter
            line = self.lines[event.stream_id] = (self.lines.get(event.stream_id, b"") + event.data)[:21]
            if event.end_stream:
                self.answer(event.stream_id, int(line.partition(b"\n")[0]))

    def answer(self, stream: int, size: int) -> None:
        for begin in range(0, size, len(CONTENT)):
            part = CONTENT[: size - begin]
            self._quic.send_stream_data(stream, part, end_stream=begin + len(part) == size)
        if not size:
            self._quic.send_stream_data(stream, b"", end_stream=True)


def addresses_of(options: argparse.Namespace) -> tuple[str, str]:
    """Return the local and the remote address of the client's path."""
    local, _, remote = options.path.partition(",")
    return local, split(remote)[0]


async def fetch(options: argparse.Namespace) -> str:
    """Fetch all answers. Return why the client ended early; empty if it has all."""
    configuration = configure(options, is_client=True, address=addresses_of(options)[0])
    progress = Tally(options)
    tell("begin", monotonic_ns=progress.began_ns)
    with open(options.keylog or "/dev/null", "w") as secrets:
        configuration.secrets_log_file = secrets
        if options.testcase in ("resumption", "zerortt"):
            configuration.session_ticket = await get_ticket(options, configuration)
            if configuration.session_ticket is None:
                return "the server gave no session ticket"
        deadline_s = time.monotonic() + options.timeout_ms / 1000
        cause = ""
        earlier: Client | None = None
        while progress.done < options.requests and not cause:
            client = await open_client(QuicConnection(configuration=configuration), options, progress)
            if options.testcase == "zerortt":
                client.begin()
            await asyncio.wait([client.over], timeout=deadline_s - time.monotonic())
            client.end(f"no end after {options.timeout_ms / 1000:g} s")
            cause = client.over.result()
            client.close()
            # the socket of a connection answers late packets of the server until the next connection has ended
            if earlier:
                earlier._transport.close()
            earlier = client
        await asyncio.sleep(FAREWELL_S)
    write_qlog(options, configuration)
    return f"{progress.done} of {options.requests} requests done when the connection ended: {cause}" if cause else ""


async def open_client(quic: QuicConnection, options: argparse.Namespace, progress: Tally) -> Client:
    local, _, remote = options.path.partition(",")
    _, client = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Client(quic, options, progress), local_addr=(local, 0)
    )
    client.connect(split(remote))
    return client


async def get_ticket(options: argparse.Namespace, configuration: QuicConfiguration) -> SessionTicket | None:
    """Return the first session ticket of a connection without requests; None if none arrives."""
    ticket: asyncio.Future[SessionTicket] = asyncio.get_running_loop().create_future()

    def keep(one: SessionTicket) -> None:
        if not ticket.done():
            ticket.set_result(one)

    quic = QuicConnection(configuration=configuration, session_ticket_handler=keep)
    without = argparse.Namespace(**vars(options) | {"requests": 0})
    client = await open_client(quic, without, Tally(without))
    await asyncio.wait([ticket], timeout=options.idle_timeout_ms / 1000)
    client.close()
    await asyncio.sleep(FAREWELL_S)
    return ticket.result() if ticket.done() else None


async def answer(options: argparse.Namespace) -> str:
    """Answer requests until the signal TERM."""
    host, port = split(options.listen)
    configuration = configure(options, is_client=False, address=host)
    configuration.load_cert_chain(options.certificate, options.key)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    tickets: dict[bytes, SessionTicket] = {}
    await serve(
        *(host, port),
        configuration=configuration,
        create_protocol=Server,
        retry=options.testcase == "retry",
        session_ticket_fetcher=tickets.get,
        session_ticket_handler=lambda one: tickets.update({one.ticket: one}),
    )
    print(f"listening on {options.listen}", file=sys.stderr, flush=True)
    await ended.wait()
    write_qlog(options, configuration)
    return ""


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("mprun-aioquic", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mprun-aioquic 0.1.0 (aioquic {__version__})")
    roles = parser.add_subparsers(dest="role", required=True)
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    shared.add_argument("--congestion", default="cubic")
    shared.add_argument("--idle-timeout-ms", type=int, default=30_000)
    shared.add_argument("--qlog")
    shared.add_argument("--testcase", default="transfer")
    client = roles.add_parser("client", parents=[shared], allow_abbrev=False)
    client.add_argument("--path", required=True)
    for name, default in (("requests", 1), ("response", 0), ("request", 0), ("think-ns", 0), ("streams", 1)):
        client.add_argument(f"--{name}", type=int, default=default)
    client.add_argument("--keylog")
    client.add_argument("--timeout-ms", type=int, default=60_000)
    server = roles.add_parser("server", parents=[shared], allow_abbrev=False)
    for name in ("listen", "certificate", "key"):
        server.add_argument(f"--{name}", required=True)
    return parser.parse_args(words)


def main() -> int:
    options = parse(sys.argv[1:])
    cause = asyncio.run(fetch(options) if options.role == "client" else answer(options))
    if cause:
        print(f"mprun-aioquic: {cause}", file=sys.stderr)
    return 1 if cause else 0


if __name__ == "__main__":
    sys.exit(main())
