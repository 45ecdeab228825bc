# SPDX-License-Identifier: Apache-2.0
"""`mprun shell`: the network of a topology, with Mininet's prompt on it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.errors import Interrupted
from mprun.machine.scratch import scratch
from mprun.safety.text import printable


@click.command("shell")
@click.argument("name", metavar="[RUN]", default="", shell_complete=complete_runs)
@click.option("--at", "time", metavar="TIME", help="Repeat RUN, and stop at this simulated time, such as 3.2s.")
@options.files("topology.optional params outside")
@options.runs("engine kernel parent consent")
def command(name: str, time: str | None, files: options.FileOptions, runs: options.RunOptions) -> None:
    """Build the network and open Mininet's prompt, in real time.

    Commands are, for example, `client ping server`, `client ip route`, `nodes`, `links`, `dump` and `exit`.
    Nothing remains after `exit`.

    With --at, RUN is repeated in simulated time and stops there. Each line, such as `client ss -tin`, runs on its node
    while the flows of the run continue. Simulated time stands still while you type.
    """
    from mprun.runs import runner
    from mprun.runs.place import choose_place

    if bool(name or time) == bool(files.topology):
        raise click.UsageError("give -t TOPOLOGY, or RUN with --at TIME, such as `mprun shell latest --at 3s`")
    if not files.topology:
        _stop_at(name or "latest", time, runs)
        return
    if not sys.stdin.isatty():
        sys.exit(_from_pipe([sys.executable, "-P", "-m", "mprun", *sys.argv[1:]]))
    loaded = files.load(runs.consent)
    place = choose_place(runs.engine, runs.kernel)
    click.echo(f"engine: {place.name} ({place.reason}), in real time", err=True)
    with scratch("mprun-shell-") as folder:
        request = runner.RunRequest(loaded.spec, place, loaded.warnings, shell="only")
        try:
            runner.run_request(request, folder, lambda *_: None)
        except Interrupted:
            # without the directory, which is removed with the prompt
            raise Interrupted("interrupted") from None


def _stop_at(name: str, time: str | None, runs: options.RunOptions) -> None:
    """Repeat a run up to a time, and execute the lines of standard input on its nodes. Nothing is kept."""
    from mprun.cli.operand import find_run
    from mprun.engines.held_prompt import HeldPrompt
    from mprun.questions.debugging import parse_time
    from mprun.runs import runner
    from mprun.runs.place import choose_place, find_kernel

    if time is None:
        raise click.UsageError(f"'{name}': RUN needs --at TIME, such as --at 3s, and a topology stands after -t")
    original = find_run(runs.parent, name)
    moment = parse_time(original, time)
    place = choose_place("virtual", runs.kernel if runs.kernel != "default" else find_kernel(original.environment()))
    prompt = f"{original.name} at {time}> " if sys.stdin.isatty() else ""

    def ask(output: str) -> str | None:
        click.echo("".join(f"{printable(text)}\n" for text in output.splitlines()), nl=False)
        while True:
            click.echo(prompt, nl=False)
            line = sys.stdin.readline()
            if not line or line.strip() in ("exit", "quit"):
                return None
            if line.strip():
                return line.strip()

    with scratch("mprun-shell-") as folder, contextlib.suppress(Interrupted):
        held = HeldPrompt(moment.at_ns, ask)
        runner.run_again(original, folder, place, lambda *_: None, runs.consent, prompt=held)


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
