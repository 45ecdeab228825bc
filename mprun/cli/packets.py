# SPDX-License-Identifier: Apache-2.0
"""`mprun packets`: connections, subflows and one-way delays in the captures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mprun.cli import options, prose
from mprun.cli.completion import complete_runs
from mprun.cli.operand import find_run
from mprun.cli.output import emit
from mprun.cli.progress import Bar
from mprun.machine import invoking_user
from mprun.model.units import format_measured
from mprun.safety.text import printable
from mprun.storage.table import readable

# The number of connections of a capture that are shown: the ones with the most payload.
MOST_SHOWN = 10
_SIGNS = {"forward": "→", "reverse": "←"}


@click.command("packets")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option(
    "--delay",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="FROM TO",
    help="Measure one-way delays from capture FROM to capture TO. Can be repeated. Default: between the captures of "
    "the two hosts of each flow, in both directions.",
)
@click.option("--json", "as_json", is_flag=True, help="Print connections, subflows and one-way delays as JSON.")
def command(name: str, parent: Path, pairs: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Analyse the captures of a run: packets, connections, subflows and one-way delays.

    The tables `packets`, `connections`, `subflows` and `one_way_delays` are added to the run. tshark reads each capture
    once, and a second call takes these tables. FROM and TO are names of captures. `mprun export` writes the tables as
    CSV. docs/reference/tables.md describes them.
    """
    from mprun.captures.dissection import dissect

    run = find_run(parent, name)
    with readable(run.path), Bar() as bar:
        found = dissect(
            run, bar.show, [(one.removesuffix(".pcap"), other.removesuffix(".pcap")) for one, other in pairs]
        )
    invoking_user.give(run.path)
    if as_json:
        value = {"packets": found.packets, "connections": found.connections, "subflows": found.subflows}
        emit({"directory": str(run.path), **value, "one_way_delays": found.delays, "warnings": found.warnings})
        return
    spoken = {flow.protocol for flow in run.plan().intent.traffic} - {"tcp", "mptcp", "sctp"}
    for capture in run.captures():
        connections = [one for one in found.connections if one["capture"] == capture]
        if spoken and not connections:
            said = f": no connection of TCP, MPTCP or SCTP; the run has flows over {', '.join(sorted(spoken)).upper()}"
            click.echo(f"{click.style(capture, bold=True)}{said}")
            continue
        _show(capture, connections, [one for one in found.subflows if one["capture"] == capture])
        if spoken:
            click.echo(f"  not listed: flows over {', '.join(sorted(spoken)).upper()}, which are in the table packets")
    _show_delays(found.delays)
    for text in found.warnings:
        click.echo(f"  {click.style('warning', fg='yellow')}: {printable(text)}")
    tables = f"{prose.spell_path(run.path)}/tables: packets, connections, subflows, one_way_delays"
    click.echo(prose.wrap(f"{found.packets} packets in {tables}", "", "  "))


def _show(capture: str, connections: Sequence[Mapping[str, Any]], subflows: Sequence[Mapping[str, Any]]) -> None:
    click.echo(f"{click.style(capture, bold=True)}: {len(connections)} connection{'s' * (len(connections) != 1)}")
    shown = sorted(connections, key=lambda one: -(one["forward_bytes"] + one["reverse_bytes"]))[:MOST_SHOWN]
    for one in sorted(shown, key=lambda one: one["connection"]):
        _echo_parts(f"  {one['connection']}  ", _say_connection(one))
        members = [subflow for subflow in subflows if subflow["connection"] == one["connection"]]
        if one["protocol"] in ("mptcp", "sctp"):
            for line in _say_subflows(members, one):
                click.echo(prose.wrap(line, "       ", "         "))
    if len(connections) > len(shown):
        click.echo(f"  and {len(connections) - len(shown)} more, in the table")


def _echo_parts(first: str, parts: Sequence[str]) -> None:
    """Print parts on one line, or each on a line of its own if they are too long for the terminal."""
    line = first + "  ".join(parts)
    if len(line) > prose.terminal_width():
        line = first + f"\n{' ' * len(first)}".join(parts)
    click.echo(line)


def _say_connection(one: Mapping[str, Any]) -> list[str]:
    """Return the ends and the protocol, and then the payload of each direction."""
    ends = f"{_say_end(one, 'source')} > {_say_end(one, 'destination')}"
    protocol = one["protocol"].upper()
    if one["token"] is not None:
        protocol += f" {one['token']:08x}"
    parts = [f"{ends}  {protocol}, fell back: {one['fallback']}" if one["fallback"] else f"{ends}  {protocol}"]
    for way, sign in _SIGNS.items():
        if one[f"{way}_bytes"]:
            rate = one[f"{way}_bit_per_s"]
            at = f" at {format_measured(rate, 'bit/s')}" if rate else ""
            again = one[f"{way}_retransmissions"] + one[f"{way}_reinjections"]
            said = f"{sign} {format_measured(one[f'{way}_bytes'], 'byte')}{at}"
            if again:
                said += f", {one[f'{way}_retransmissions']} retransmitted, {one[f'{way}_reinjections']} reinjected"
            parts.append(said)
    return parts


def _say_subflows(members: Sequence[Mapping[str, Any]], connection: Mapping[str, Any]) -> list[str]:
    """Return a line for each subflow, in the direction that carried more."""
    from mprun.captures.stream import LATE

    way = "forward" if connection["forward_bytes"] >= connection["reverse_bytes"] else "reverse"
    total = sum(one[f"{way}_new_bytes"] for one in members)
    names = [one["path"] or f"{_say_end(one, 'source')} > {_say_end(one, 'destination')}" for one in members]
    # subflows of one path differ in their ports
    names = [
        f"{name}, port {one['source_port']}" if names.count(name) > 1 and one["path"] else name
        for name, one in zip(names, members, strict=True)
    ]
    width = max(len(name) for name in names)
    lines = []
    for name, one in zip(names, members, strict=True):
        share = format_measured(one[f"{way}_new_bytes"] / total, "share") if total else "-"
        words = [one["kind"], *(["backup"] if one["backup"] else [])]
        if one["established_ns"] is None and one["kind"] != LATE and (total or connection["protocol"] != "sctp"):
            words.append("never established")
        again = f"{one[f'{way}_retransmissions']} retransmitted, {one[f'{way}_reinjections']} reinjected"
        at = f"from {one['opened_ns'] / 1e9:.3f} s"
        lines.append(f"{name:{width}} {_SIGNS[way]} {share:>7}  {at:>12}  {again}  {', '.join(words)}")
    return lines


def _show_delays(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the one-way delays of each pair of captures, a line for each path."""
    if not rows:
        return
    click.echo(click.style("one-way delays", bold=True))
    names = [f"{row['from']} → {row['to']}  {row['path'] or 'other'}" for row in rows]
    width = max(len(name) for name in names)
    for name, row in zip(names, rows, strict=True):
        parts = [f"{row['packets']} packets"]
        if row["received"]:
            values = [(what, row[f"{what}_delay_ns"] / 1e9) for what in ("min", "median", "p95", "max")]
            parts += [f"{what} {format_measured(value, 's')}" for what, value in values]
        parts += [f"{row[state]} {state}" for state in ("lost", "duplicate", "unknown") if row[state]]
        click.echo(prose.wrap(f"{name:{width}}  {', '.join(parts)}", "  ", "      "))


def _say_end(one: Mapping[str, Any], end: str) -> str:
    address = one[end]
    return f"[{address}]:{one[f'{end}_port']}" if ":" in address else f"{address}:{one[f'{end}_port']}"
