# SPDX-License-Identifier: Apache-2.0
"""`mprun debug`: repeat a run, and stop its kernel at a simulated time, in gdb."""

from __future__ import annotations

import sys

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_runs


@click.command("debug")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@click.option("--at", "time", metavar="TIME", help="Run until this simulated time, such as 3.2s.")
@click.option(
    "--packet",
    metavar="CAPTURE:N",
    help="Run until a capture of the run gets its packet N, such as client.pcap:120. Wireshark shows the numbers.",
)
@options.fail_if(
    help="Run until this is first true of the rows of tables so far: 'max(queues[link=path0].backlog_packets) > 50'."
)
@options.gdb_commands
@options.runs("kernel.original parent consent")
def command(
    name: str,
    time: str | None,
    packet: str | None,
    fail_if: str | None,
    commands: tuple[str, ...],
    runs: options.RunOptions,
) -> None:
    """Repeat RUN in the virtual engine, and stop its kernel at a simulated time, in gdb.

    gdb also has the commands mp-time (the simulated time), mp-hosts (network namespaces, interfaces and addresses),
    mp-subflows (MPTCP connections and their subflows) and mp-skb ADDRESS (the headers of a packet).

    `continue` lets the run continue, and so does the end of gdb. Simulated time stands still while gdb holds the
    kernel. At the end, the results are compared with RUN byte by byte.

    The kernel needs symbols: `mprun kernel build --symbols`.
    """
    from mprun.cli.operand import find_run
    from mprun.questions.debugging import debug, parse_packet, parse_statement, parse_time

    given = [
        (parse, text)
        for parse, text in ((parse_time, time), (parse_packet, packet), (parse_statement, fail_if))
        if text is not None
    ]
    if len(given) != 1:
        raise click.UsageError("give one of --at TIME, --packet CAPTURE:N and --fail-if STATEMENT")
    original = find_run(runs.parent, name)
    (parse, text) = given[0]
    moment = parse(original, text)
    prose.note_unconfined()
    difference = debug(original, moment, commands or None, runs.kernel, runs.consent)
    if difference is None:
        click.echo(f"identical: {len(list(original.artifacts()))} artifacts of {original.name}, byte by byte")
    else:
        click.echo(f"different: {difference}")
    sys.exit(0 if difference is None else 1)
