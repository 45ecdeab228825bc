# SPDX-License-Identifier: Apache-2.0
"""Run the programs that an entry brings: the values for their words and environment, their files, and their build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mprun.model import engine_paths
from mprun.model.plan import Process
from mprun.model.spec import Flow, place_of_attachment
from mprun.workloads.tool import PYTHON, Endpoints, kept

FILES_PROGRAM = f"{engine_paths.PROGRAMS}/files.py"
# The limit of a program's log, so that a program that never stops does not fill the disk.
MOST_LOG_BYTES = 16 << 20
# The folder of the run with what builds have made, in a folder for each flow.
PRODUCTS = "products"
# The CPU time that a build may take, and that copying the files may take.
BUILD_COMPUTE_S, COPY_COMPUTE_S = 600, 60


def known_values(flow: Flow, ends: Endpoints) -> dict[str, str]:
    """Return the values of the placeholders, by name."""
    addresses = {"source": ends.source_address, "destination": ends.destination_address}
    known = {**addresses, "port": str(ends.port), "files": f"{engine_paths.RUN}/{kept(flow, '')}".rstrip("/")}
    return {**known, "inputs": f"{engine_paths.INPUTS}/{flow.name}"} if "attachments" in flow.options else known


def own_environment(flow: Flow, known: Mapping[str, str], key_log: str) -> dict[str, str]:
    """Return the variables that each program gets. key_log: the name of the file for TLS session secrets."""
    told = {f"MPRUN_{name.upper()}": value for name, value in known.items()}
    told |= {"MPRUN_SOURCE_HOST": flow.source, "MPRUN_DESTINATION_HOST": flow.destination}
    # TLS libraries write their session secrets to this file, for Wireshark
    return {**told, "SSLKEYLOGFILE": f"{known['files']}/{key_log}"}


def fill(words: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Return words with their placeholders replaced."""
    filled = []
    for word in words:
        for name, value in known.items():
            word = word.replace(f"{{{name}}}", value)
        filled.append(word)
    return tuple(filled)


def started_in(folder: str | None, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run a command in a folder (env(1)); in the run's directory without one."""
    return tuple(words) if folder is None else ("env", f"--chdir={folder}", *words)


def prepare(
    flow: Flow, build: Sequence[str], known: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Process]:
    """Yield the processes that copy the entry's files, build them, and keep what was built."""
    if "inputs" not in known:
        return
    attached: Any = flow.options["attachments"]
    archives = tuple(f"{engine_paths.RUN}/inputs/{place_of_attachment(one['sha256'])}" for one in attached)

    def ours(name: str, *words: str) -> Process:
        argv = (*PYTHON, FILES_PROGRAM, *words, *archives)
        # A stranger may have made the archives, and a build may have changed the folder.
        return Process(
            f"{flow.name}.{name}", flow.source, argv, "preparation", compute_s=COPY_COMPUTE_S, is_foreign=True
        )

    yield ours("files", "unpack", known["inputs"])
    if words := fill(build, known):
        yield Process(
            name=f"{flow.name}.build",
            node=flow.source,
            argv=started_in(known["inputs"], words),
            role="preparation",
            env=environment,
            most_log_bytes=MOST_LOG_BYTES,
            timeout_ns=BUILD_COMPUTE_S * 1_000_000_000,
            compute_s=BUILD_COMPUTE_S,
            is_foreign=True,
        )
        yield ours("products", "keep", known["inputs"], f"{engine_paths.RUN}/{PRODUCTS}/{flow.name}")
