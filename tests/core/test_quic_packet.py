# SPDX-License-Identifier: Apache-2.0
"""The packets of QUIC in datagrams, and what a capture of the server shows of a flow."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.captures.finish import find_observers
from mprun.captures.quic_decryption import DecryptionError, count, decrypt
from mprun.captures.quic_observation import QuicObserver
from mprun.captures.quic_packet import VERSION_2, Datagram, find_kinds, read_datagram, read_quic
from mprun.model.intent import FlowEnds
from mprun.model.spec import Capture
from mprun.storage.run_directory import RunDirectory
from mprun.workloads.quic_connection import KEY_LOG
from tests.intents import flow, intent

CLIENT, SERVER = ("10.0.0.1", 4000), ("10.1.0.1", 5201)
INITIAL, EARLY, HANDSHAKE, RETRY = range(4)
OWN, PEER = b"ownown01", b"peerpe02"


def packet(kind: int, size: int = 40, version: int = 1, token: bytes = b"", source: bytes = OWN) -> bytes:
    """Return a packet with a long header and encrypted bytes behind it (RFC 9000 17.2)."""
    number = {VERSION_2: (kind + 1) % 4}.get(version, kind)
    head = bytes([0xC0 | number << 4]) + version.to_bytes(4, "big")
    head += bytes([len(PEER)]) + PEER + bytes([len(source)]) + source
    if kind == RETRY:
        return head + token + bytes(16)
    if kind == INITIAL:
        head += (0x4000 | len(token)).to_bytes(2, "big") + token
    return head + (0x4000 | size).to_bytes(2, "big") + b"\x01" * size


NEGOTIATION = b"\xc0" + bytes(4) + b"\x08" + PEER + b"\x08" + OWN + (1).to_bytes(4, "big")
SHORT = b"\x41" + PEER + b"\x01" * 30


@pytest.mark.parametrize(
    ("payload", "kinds"),
    [
        (packet(INITIAL), "Initial"),
        (packet(INITIAL) + packet(HANDSHAKE) + SHORT, "Initial,Handshake,1-RTT"),
        (packet(INITIAL) + packet(EARLY), "Initial,0-RTT"),
        (packet(INITIAL) + packet(INITIAL, token=b"t" * 70), "Initial"),
        (packet(RETRY, token=b"t" * 70), "Retry"),
        (NEGOTIATION, "Version Negotiation"),
        (packet(INITIAL, version=VERSION_2) + packet(HANDSHAKE, version=VERSION_2), "Initial,Handshake"),
        (packet(RETRY, version=VERSION_2), "Retry"),
        (SHORT, "1-RTT"),
        # zeros after the packets
        (packet(HANDSHAKE) + bytes(100), "Handshake"),
        # the capture has a part of the datagram only
        (packet(INITIAL) + packet(HANDSHAKE)[:12], "Initial"),
        (packet(INITIAL)[:9], ""),
        (b"", ""),
    ],
)
def test_a_datagram_has_the_kinds_of_its_packets(payload: bytes, kinds: str) -> None:
    datagram = Datagram(*CLIENT, *SERVER, 0, payload, len(payload))
    assert find_kinds(datagram) == (kinds, False)


@pytest.mark.parametrize(
    ("payload", "is_cut"),
    [
        (packet(INITIAL) + packet(HANDSHAKE)[:12], True),
        (packet(INITIAL), True),
        (packet(INITIAL)[:9], True),
        # a packet to the end of the datagram, and kinds behind which none follows
        (packet(INITIAL, 200)[:60], False),
        (packet(INITIAL) + SHORT[:9], False),
        (NEGOTIATION[:25], False),
    ],
)
def test_packets_that_a_capture_has_cut_off_are_known_as_missing(payload: bytes, is_cut: bool) -> None:
    assert find_kinds(Datagram(*CLIENT, *SERVER, 0, payload, 200))[1] == is_cut


def test_a_packet_has_its_identifiers_token_and_size() -> None:
    first = packet(INITIAL, 50, token=b"abc")
    found, second = read_quic(first + SHORT)
    assert (found.destination, found.source, found.token, found.size_bytes) == (PEER, OWN, b"abc", len(first))
    assert (second.version, second.size_bytes) == (None, len(SHORT))


def test_a_datagram_is_found_in_packets_of_both_families() -> None:
    udp = bytes.fromhex("0fa01451000b0000") + b"abc"
    ipv4 = bytes.fromhex("4502001f00000000401100000a0000010a010001") + udp
    ipv6 = bytes.fromhex("60200000000b1140") + bytes(15) + b"\x01" + bytes(15) + b"\x02" + udp
    for content, source in ((ipv4, "10.0.0.1"), (ipv6, "::1")):
        found = read_datagram(content)
        assert found is not None
        assert (found.source, found.source_port, found.destination_port) == (source, 4000, 5201)
        assert (found.ecn, found.payload, found.payload_bytes) == (2, b"abc", 3)
    # a length without its own header
    empty = read_datagram(ipv4[:24] + bytes(2) + ipv4[26:])
    assert empty is not None
    assert (empty.payload, empty.payload_bytes) == (b"", 0)
    assert read_datagram(ipv4[:25]) is None
    assert read_datagram(ipv4[:9] + b"\x06" + ipv4[10:]) is None


def test_only_whole_captures_count() -> None:
    """A capture that may lack a packet, or the end of one, says nothing."""
    get = flow(name="get", protocol="quic", endpoints=FlowEnds(CLIENT[0], *SERVER))
    whole = Capture("server")
    assert list(find_observers(whole, intent(traffic=(get,)))) == ["get"]
    for cut in (
        replace(whole, snaplen=100),
        replace(whole, filter="udp"),
        replace(whole, link="path0"),
        replace(whole, size_bytes=10**6),
        Capture("client"),
    ):
        assert find_observers(cut, intent(traffic=(get,))) == {}


def observe(*datagrams: tuple[str, bytes]) -> dict[str, float]:
    """Return the facts of datagrams with a direction each. `>`: to the server; `>>`: also with another port."""
    observer = QuicObserver(SERVER[1], {SERVER[0]})
    for way, payload in datagrams:
        client = (CLIENT[0], CLIENT[1] + (len(way) > 1))
        source, destination = (client, SERVER) if way[0] == ">" else (SERVER, client)
        observer.add(Datagram(*source, *destination, len(way) - 1, payload, len(payload)))
    return observer.tell()


def test_a_server_sends_three_times_the_bytes_until_the_address_is_validated() -> None:
    initial = packet(INITIAL, 1000)
    flight = packet(INITIAL, 500, source=PEER) + packet(HANDSHAKE, 500, source=PEER)
    seen = observe((">", initial), ("<", flight), ("<", flight), ("<", flight), ("<", flight))
    assert seen["amplification"] == pytest.approx(4 * len(flight) / len(initial))
    assert seen["handshakes"] == 1
    # the client's Handshake packet validates its address
    finished = packet(HANDSHAKE)
    seen = observe((">", initial), ("<", flight), (">", finished), *[("<", SHORT * 100)] * 9)
    assert seen["amplification"] == pytest.approx(len(flight) / len(initial))


def test_a_retry_counts_when_its_token_comes_back() -> None:
    retry = ("<", packet(RETRY, token=b"token"))
    assert observe((">", packet(INITIAL)), retry)["retries"] == 0
    assert observe((">", packet(INITIAL)), retry, (">", packet(INITIAL, token=b"other")))["retries"] == 0
    seen = observe((">", packet(INITIAL)), retry, (">", packet(INITIAL, token=b"token")), ("<", SHORT * 9))
    assert seen["retries"] == 1
    # the token validates the address
    assert seen["amplification"] == pytest.approx(len(retry[1]) / len(packet(INITIAL)))


def test_connections_versions_and_early_data_are_counted() -> None:
    first, second = (packet(HANDSHAKE, source=name, version=VERSION_2) for name in (b"server01", b"server02"))
    early = packet(EARLY, 300)
    seen = observe((">", packet(INITIAL) + early), ("<", first), ("<", first), ("<", second), (">", packet(HANDSHAKE)))
    assert seen["handshakes"] == 2
    assert seen["flight"] == len(second)
    assert seen["early"] == len(early)
    assert seen["version2"] == pytest.approx(3 / 4)
    assert observe((">", packet(INITIAL)), ("<", NEGOTIATION))["negotiations"] == 1


def test_a_rebinding_shows_two_sources_and_the_server_follows_to_the_second() -> None:
    seen = observe((">", SHORT), ("<", SHORT), (">>", SHORT))
    assert (seen["sources"], seen["destinations"]) == (2, 1)
    seen = observe((">", SHORT), ("<", SHORT), (">>", SHORT), ("<<", SHORT))
    assert (seen["sources"], seen["destinations"]) == (2, 2)
    assert (seen["ecn.forward"], seen["ecn.reverse"]) == (0.5, 0.5)
    assert observe()["ecn.forward"] == 0


def test_cipher_suites_and_key_phases_are_counted_by_direction() -> None:
    """The fields of a line: source port, key phases, types of handshake messages, cipher suite."""
    lines = [
        "4000\t\t1\t",
        # tshark 4.0 prints the suite as a hexadecimal number, and names each message of a datagram
        "5201\t\t2,8\t0x1303",
        "4000\t0\t\t",
        "5201\t0,1\t\t",
        "4000\tTrue\t\t",
        "4000\tFalse\t\t",
        "5201\t1\t4\t",
    ]
    found = count(lines, "5201")
    assert found == {"chacha20": 1, "updated.forward": 1 / 3, "updated.reverse": 2 / 3}
    assert count([*lines, "5201\t\t2\t4865"], "5201")["chacha20"] == 0.5
    # without keys, the key phase is not known
    assert count(lines[:2], "5201") == {"chacha20": 1}


def test_a_machine_without_tshark_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "pcap").mkdir()
    (tmp_path / "pcap" / "server.pcap").touch()
    get = flow(name="get", protocol="quic", endpoints=FlowEnds(CLIENT[0], *SERVER), options={"testcase": "chacha20"})
    with pytest.raises(DecryptionError, match="apt-get install tshark"):
        decrypt(RunDirectory(tmp_path), "pcap/server.pcap", get)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_under_sudo_tshark_reads_the_packets_and_keys_as_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files of the run are root's, and tshark finds a key update with their content only."""
    get = flow(name="get", protocol="quic", endpoints=FlowEnds(CLIENT[0], *SERVER), options={"testcase": "keyupdate"})
    for name, content in (("pcap/server.pcap", "packets"), (f"files/get/{KEY_LOG}", "keys")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    fake = tmp_path / "tshark"
    fake.write_text(
        '#!/bin/sh\n[ "$(id -u)" = 65534 ] && [ "$(cat)" = packets ] && [ "$HOME" != /root ] || exit\n'
        'for word; do case $word in tls.keylog_file:*) cat "${word#*:}"; esac; done |\n'
        "grep -q keys && printf '5201\\t1\\t\\t\\n'\n"
    )
    of_tests = [one for one in tmp_path.parents if one.name.startswith(("pytest-", "popen-"))]
    for path in (fake, tmp_path, *of_tests):
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    assert decrypt(RunDirectory(tmp_path), "pcap/server.pcap", get) == {"updated.reverse": 1}
