# SPDX-License-Identifier: Apache-2.0
"""`mprun shell`: the network of a topology, with Mininet's prompt on it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator

import click

from mprun.cli import options
from mprun.errors import Interrupted
from mprun.machine.scratch import scratch


@click.command("shell")
@options.files("topology params python outside")
@options.runs("engine kernel")
def command(files: options.FileOptions, runs: options.RunOptions) -> None:
    """Build the network and open Mininet's prompt, in real time.

    Commands are, for example, `client ping server`, `client ip route`, `nodes`, `links`, `dump` and `exit`.
    Nothing remains after `exit`.
    """
    from mprun.runs import runner
    from mprun.runs.place import choose_place

    if not sys.stdin.isatty():
        sys.exit(_from_pipe([sys.executable, "-P", "-m", "mprun", *sys.argv[1:]]))
    loaded = files.load()
    place = choose_place(runs.engine, runs.kernel)
    click.echo(f"engine: {place.name} ({place.reason}), in real time", err=True)
    with scratch("mprun-shell-") as folder, _nothing_kept():
        request = runner.RunRequest(loaded.spec, place, loaded.warnings, shell="only")
        runner.run_request(request, folder, lambda *_: None)


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Leave the directory out of the message of an interruption: it is removed with the prompt."""
    try:
        yield
    except Interrupted:
        raise Interrupted("interrupted") from None


def _from_pipe(argv: list[str]) -> int:
    """Execute the lines of standard input, followed by `exit`. The prompt needs a terminal, so it gets a new one."""
    master, slave = pty.openpty()
    process = subprocess.Popen(argv, stdin=slave, stdout=slave)
    os.close(slave)
    prompt, lines = b"mininet> ", [*sys.stdin.read().splitlines(), "exit"]
    said = b""
    while True:
        select.select([master], [], [])
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        sys.stdout.buffer.write(part)
        sys.stdout.flush()
        said = (said + part)[-len(prompt) :]
        if said == prompt and lines:
            os.write(master, lines.pop(0).encode() + b"\n")
    os.close(master)
    return process.wait()
