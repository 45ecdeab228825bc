# SPDX-License-Identifier: Apache-2.0
"""Play a video in chunks over one connection, as MPEG-DASH does: server and player.

    python3 -m mprun.agent.programs.video server ADDRESS PORT protocol=P congestion=C
    python3 -m mprun.agent.programs.video player ADDRESS PORT protocol=P congestion=C rates=R,R,... chunk_ns=N
        length_ns=N buffer_ns=N startup_ns=N adaptation=rate|buffer
    python3 -m mprun.agent.programs.video quic rates=... chunk_ns=... (as above) -- CLIENT ARGUMENT ...

Over TCP and MPTCP, a request has 8 bytes, the wanted size (little endian). The answer has this size. Over QUIC, the
player starts mprun-quic as its client, and writes a line with the wanted size for each request.

The player asks for the next chunk when the previous one has arrived and the buffer has room. It plays what is in the
buffer (see `Player`).

The player prints:

- over TCP and MPTCP `port N`, its own port, when it is connected
- over QUIC each line of the client (JSON)
- a line for each chunk: size, quality (from 0), the times of request and arrival (ns of CLOCK_MONOTONIC), and the
  content of the buffer after that in ns
- a line for each stall that has ended: `stall`, its beginning, its end
- at the end `startup` and the time when it began to play
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from mprun.agent.programs.reqres import ConnectionEnded, Receiver, be_punctual, run_role, say, wait

REQUEST_BYTES = 8
# The share of the last chunks' rate that a video may use, and the number of chunks that count (harmonic mean).
SAFETY, REMEMBERED = 0.9, 3


class Player:
    """Plays when `startup_ns` is in its buffer, until the buffer is empty. An empty buffer is a stall.

    A stall ends like the startup, when `startup_ns` is in the buffer again. Times are ns of one clock; amounts of video
    are ns of playing time.
    """

    def __init__(self, startup_ns: int, length_ns: int) -> None:
        self._startup_ns = startup_ns
        self._left_ns = length_ns
        self._since_ns = 0
        self._is_playing = False
        self.buffer_ns = 0
        self.began_ns: int | None = None
        self.stalled_ns: int | None = None

    def advance(self, now_ns: int) -> None:
        """Play until now."""
        if self._is_playing:
            played_ns = now_ns - self._since_ns
            if played_ns > self.buffer_ns:
                self._is_playing = False
                self.stalled_ns = self._since_ns + self.buffer_ns
                played_ns = self.buffer_ns
            self.buffer_ns -= played_ns
        self._since_ns = now_ns

    def add(self, amount_ns: int, now_ns: int) -> int | None:
        """Add a chunk to the buffer. Return the beginning of the stall that the chunk ends, if any."""
        self.advance(now_ns)
        self.buffer_ns += amount_ns
        self._left_ns -= amount_ns
        if self._is_playing or (self.buffer_ns < self._startup_ns and self._left_ns > 0):
            return None
        self._is_playing = True
        if self.began_ns is None:
            self.began_ns = now_ns
        stalled_ns, self.stalled_ns = self.stalled_ns, None
        return stalled_ns


def choose_by_rate(rates: Sequence[int], seen: Sequence[float]) -> int:
    """Return the best quality that fits the rate of the last chunks (bit/s); the lowest quality if there are none."""
    last = seen[-REMEMBERED:]
    if not last:
        return 0
    mean = len(last) / sum(1 / rate for rate in last)
    return max([n for n, rate in enumerate(rates) if rate <= SAFETY * mean], default=0)


def choose_by_buffer(rates: Sequence[int], before: int, buffer_ns: int, reservoir_ns: int, full_ns: int) -> int:
    """Return the quality that BBA-0 chooses.

    The rate rises with the buffer from the lowest to the highest. The quality changes when this rate has reached the
    next quality. (Huang et al., A Buffer-Based Approach to Rate Adaptation, SIGCOMM 2014.)

    reservoir_ns: up to here the lowest quality. full_ns: from here on the highest.
    """
    if buffer_ns <= reservoir_ns:
        return 0
    if buffer_ns >= full_ns:
        return len(rates) - 1
    wanted = rates[0] + (rates[-1] - rates[0]) * (buffer_ns - reservoir_ns) / (full_ns - reservoir_ns)
    if before + 1 < len(rates) and wanted >= rates[before + 1]:
        return max(n for n, rate in enumerate(rates) if rate <= wanted)
    if before and wanted <= rates[before - 1]:
        return min(n for n, rate in enumerate(rates) if rate >= wanted)
    return before


def play(fetch: Callable[[int], None], facts: dict[str, str]) -> None:
    """Fetch the whole video. Return when its last chunk has arrived.

    fetch: requests a number of bytes and returns when they have arrived.
    """
    rates = [int(rate) for rate in facts["rates"].split(",")]
    chunk_ns, length_ns, room_ns, startup_ns = (
        int(facts[name]) for name in ("chunk_ns", "length_ns", "buffer_ns", "startup_ns")
    )
    player = Player(startup_ns, length_ns)
    seen: list[float] = []
    quality = 0
    for _ in range(length_ns // chunk_ns):
        player.advance(time.monotonic_ns())
        wait(max(0, player.buffer_ns + chunk_ns - room_ns))
        player.advance(time.monotonic_ns())
        if facts["adaptation"] == "rate":
            quality = choose_by_rate(rates, seen)
        else:
            quality = choose_by_buffer(rates, quality, player.buffer_ns, startup_ns, room_ns - chunk_ns)
        size = -(-rates[quality] * chunk_ns // 8_000_000_000)
        start_ns = time.monotonic_ns()
        fetch(size)
        end_ns = time.monotonic_ns()
        stalled_ns = player.add(chunk_ns, end_ns)
        seen.append(size * 8e9 / (end_ns - start_ns))
        say(f"{size} {quality} {start_ns} {end_ns} {player.buffer_ns}")
        if stalled_ns is not None:
            say(f"stall {stalled_ns} {end_ns}")
    say(f"startup {player.began_ns}")


def play_over_socket(connection: socket.socket, facts: dict[str, str]) -> None:
    """Play over a TCP or MPTCP connection."""

    def fetch(size: int) -> None:
        connection.sendall(size.to_bytes(REQUEST_BYTES, "little"))
        if not Receiver(connection, size).receive():
            raise ConnectionEnded

    say(f"port {connection.getsockname()[1]}")
    play(fetch, facts)
    connection.close()


def play_over_quic(command: Sequence[str], facts: dict[str, str]) -> None:
    """Play over the QUIC connection of a client program. Raises ConnectionEnded if the client ends too early."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as client:
        requests, lines = client.stdin, client.stdout
        assert requests is not None
        assert lines is not None

        def follow(awaited: str) -> None:
            """Print the client's lines up to an event."""
            for line in lines:
                say(line.decode().rstrip())
                if json.loads(line)["event"] == awaited:
                    return
            raise ConnectionEnded

        def fetch(size: int) -> None:
            requests.write(f"{size}\n".encode())
            follow("request")

        follow("connected")
        play(fetch, facts)
        requests.close()
        follow("end")


def serve(listener: socket.socket, _facts: dict[str, str]) -> None:
    """Answer the requests of one connection."""
    listener.listen()
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while request := connection.recv(REQUEST_BYTES, socket.MSG_WAITALL):
        connection.sendall(bytes(int.from_bytes(request, "little")))
    connection.close()


def main(arguments: list[str]) -> None:
    """Serve or play, as the arguments say."""
    if arguments[0] != "quic":
        roles = {"server": serve, "player": play_over_socket}
        run_role(arguments, roles, "the server closed the connection before the end")
        return
    be_punctual()
    end = arguments.index("--")
    try:
        play_over_quic(arguments[end + 1 :], dict(pair.split("=", 1) for pair in arguments[1:end]))
    except (BrokenPipeError, ConnectionEnded):
        # the client has written the reason to standard error
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
