# SPDX-License-Identifier: Apache-2.0
"""The encrypted facts of a flow of QUIC in a capture of its server: cipher suites and key phases. tshark decrypts them.

The ServerHello is in Initial packets, whose keys follow from the client's first packet (RFC 9001 5.2). The key phase is
in the header of 1-RTT packets, and needs the session secrets of the client (RFC 9001 5.4).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import BinaryIO

from mprun.captures import tshark
from mprun.errors import MachineError
from mprun.machine import invoking_user
from mprun.model.intent import AddressedFlow
from mprun.storage.run_directory import RunDirectory
from mprun.workloads.quic_connection import KEY_LOG

_FIELDS = ("udp.srcport", "quic.key_phase", "tls.handshake.type", "tls.handshake.ciphersuite")
_SERVER_HELLO, _CHACHA20 = "2", 0x1303
# tshark 4.0 prints a true value as 1, and later versions as True.
_TRUE = ("1", "True")
# The wall time that tshark may take. A capture of a test case takes a second.
_MOST_S = 120


class DecryptionError(Exception):
    """tshark is missing, or has failed. The message says which."""


def decrypt(run: RunDirectory, capture: str, flow: AddressedFlow) -> dict[str, float]:
    """Return the facts of a flow by their names, as `mprun.workloads.quic_connection.METRICS` has them after `seen.`.

    capture: the name of the file in the run directory. Raises DecryptionError.
    """
    port, keys = flow.endpoints.port, f"files/{flow.name}/{KEY_LOG}"
    with ExitStack() as files:
        packets = files.enter_context(run.folder.open(capture))
        secrets = files.enter_context(run.folder.open(keys)) if run.folder.has(keys) else None
        lines = _read(packets, secrets, str(port))
    return count(lines, str(port))


def _read(packets: BinaryIO, secrets: BinaryIO | None, port: str) -> Sequence[str]:
    """Return a line of fields for each packet of QUIC. Raises DecryptionError.

    tshark does not have the rights that sudo gave to mprun, as it dissects packets that a stranger may have made.
    """
    argv = ["-n", "-r", "-", "-d", f"udp.port=={port},quic", "-Y", f"quic && udp.port=={port}"]
    argv += ["-T", "fields", *(word for field in _FIELDS for word in ("-e", field))]
    handed = []
    try:
        program = tshark.need()
        with os.fdopen(os.memfd_create("keys"), "wb") as copy:
            if secrets is not None:
                # a user may open the copy by its number, but not root's file
                shutil.copyfileobj(secrets, copy)
                copy.flush()
                handed.append(copy.fileno())
                argv += ["-o", f"tls.keylog_file:/dev/fd/{copy.fileno()}"]
            done = subprocess.run(
                [program, *argv],
                stdin=packets,
                capture_output=True,
                pass_fds=handed,
                preexec_fn=invoking_user.become,
                # where tshark looks for settings, and may fail without the right to read them
                env=os.environ | {"HOME": str(invoking_user.home() or "/nonexistent")},
                timeout=_MOST_S,
                check=True,
            )
    except (MachineError, OSError, subprocess.SubprocessError) as error:
        raise DecryptionError(f"the cipher suite and key updates are not known: {error}") from error
    return done.stdout.decode(errors="replace").splitlines()


def count(lines: Iterable[str], port: str) -> dict[str, float]:
    """Return the facts in tshark's lines. A fact without any packet is left out. port: of the server."""
    suites: list[bool] = []
    phases: dict[str, list[bool]] = {"forward": [], "reverse": []}
    for line in lines:
        source, phase, types, suite = (line.split("\t") + [""] * len(_FIELDS))[: len(_FIELDS)]
        phases["reverse" if source == port else "forward"] += [one in _TRUE for one in phase.split(",") if one]
        if source == port and suite and _SERVER_HELLO in types.split(","):
            suites.append(int(suite.split(",")[0], 0) == _CHACHA20)
    found = {"chacha20": suites, **{f"updated.{way}": marks for way, marks in phases.items()}}
    return {name: sum(marks) / len(marks) for name, marks in found.items() if marks}
