# SPDX-License-Identifier: Apache-2.0
"""The work of `mprun kernel test`: run the scripts, and show their results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mprun import invoker
from mprun.cli.output import emit
from mprun.cli.progress import Bar
from mprun.errors import HostError, SpecError
from mprun.kernel.store import Kernel
from mprun.selftests import packetdrill
from mprun.selftests.known import Known, find_known, read_known
from mprun.selftests.run import DEFAULT_SCRIPTS, Result, check_scheduler, run_scripts
from mprun.selftests.source import Script, list_scripts, prepare


def run(
    kernel: Kernel,
    only: Sequence[str] | None,
    scheduler: str | None,
    seed: int,
    jobs: int,
    output: Path,
    program: Path | None,
    suite: Path | None,
    as_json: bool,
) -> bool:
    """Run scripts of a kernel's tests. Return True if all failures are known failures.

    `program`: the folder of packetdrill; None for the program in PATH.
    `suite`: the folder of packetdrill scripts that are run instead of the kernel's own tests.
    """
    started = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    known = read_known()
    verdicts = []
    with Bar() as bar:
        drill = packetdrill.find_program(program)
        if drill is None and (suite or any(name.split("/")[0] == packetdrill.NAME for name in only or ())):
            raise HostError(f"packetdrill's scripts are not run: {packetdrill.NO_PROGRAM}")
        not_run: dict[str, str] = {}
        if suite and drill:
            scripts = packetdrill.list_suite(suite, drill)
        else:
            selftests, is_same = prepare(kernel, bar.show)
            if not is_same:
                click.echo(f"warning: {kernel.source} has changed since the kernel was built from it", err=True)
            scripts, not_run = _list(selftests, drill)
        scripts = _choose(only, scripts)
        if scheduler:
            check_scheduler(kernel, scheduler, output)

        def show(running: Mapping[str, str], ended: int) -> None:
            bar.show(f"testing: {', '.join(running)}", ended / len(scripts), "; ".join(running.values())[:60])

        for result in run_scripts(kernel, scripts, output, jobs, seed, scheduler, show):
            verdict = _judge(result, known, scheduler)
            verdicts.append(verdict)
            if not as_json:
                _show(verdict)
    if only:
        not_run = {}
    invoker.give(output)
    passed = all(verdict["passed"] for verdict in verdicts)
    wall_s = round(time.monotonic() - started, 1)
    total = {"kernel": kernel.name, "version": kernel.version, "scheduler": scheduler, "seed": seed}
    if as_json:
        emit(total | {"passed": passed, "wall_s": wall_s, "scripts": verdicts, "not_run": not_run})
    else:
        for name, reason in not_run.items():
            click.echo(f"- {name:28} not run: {reason}")
        _show_total(kernel, verdicts, passed, not_run, wall_s, output)
    return passed


def _list(selftests: Path, drill: Path | None) -> tuple[list[Script], dict[str, str]]:
    """Return the kernel's own tests that can run, and the reason of each suite that cannot."""
    scripts = list_scripts(selftests)
    if drill is None:
        return scripts, {packetdrill.NAME: packetdrill.NO_PROGRAM}
    drills = packetdrill.list_own(selftests, drill)
    return scripts + drills, {} if drills else {packetdrill.NAME: packetdrill.NO_SCRIPTS}


def _choose(only: Sequence[str] | None, found: Sequence[Script]) -> list[Script]:
    """Return the scripts to run, in the order of their start. A name selects all scripts below it."""
    for name in only or ():
        if not any(_is_below(script, name) for script in found):
            there = ", ".join(sorted({script.name for script in found}))
            raise SpecError(f"--only {name}: the kernel's source has no such script or group; scripts: {there}")
    places = {name: place for place, name in enumerate(DEFAULT_SCRIPTS)}
    chosen = [script for script in found if any(_is_below(script, name) for name in only or DEFAULT_SCRIPTS)]
    return sorted(chosen, key=lambda script: places.get(script.name, len(places)))


def _is_below(script: Script, name: str) -> bool:
    """Return True if a name on the command line selects this script: `mptcp_join`, `packetdrill/tcp/sack`."""
    return f"{script.label}/".startswith(f"{name}/")


def _judge(result: Result, known: Sequence[Known], scheduler: str | None) -> dict[str, Any]:
    """Return a result as JSON: names of failed and skipped subtests, and the reasons of known failures."""
    failed = result.names("failed")
    reasons = {}
    for name in failed:
        if entry := find_known(known, result.script.name, name, scheduler):
            reasons[name] = entry.reason
    unexpected = [name for name in failed if name not in reasons]
    return {
        "script": result.script.label,
        "passed": not unexpected and not result.fault,
        "status": result.status,
        "fault": result.fault,
        "subtests": len(result.subtests),
        "subtests_passed": len(result.names("passed")),
        "failed": unexpected,
        "known_to_fail": reasons,
        "skipped": result.names("skipped"),
        "simulated_s": result.simulated_s,
        "wall_s": result.wall_s,
        "log": str(result.log),
    }


def _show(verdict: Mapping[str, Any]) -> None:
    counts = [f"{verdict['subtests_passed']} passed"]
    for key, word in (("failed", "failed"), ("known_to_fail", "known to fail"), ("skipped", "skipped")):
        counts += [f"{len(verdict[key])} {word}"] if verdict[key] else []
    simulated = "" if verdict["simulated_s"] is None else f"{verdict['simulated_s']:8.1f} s simulated"
    mark = click.style("✓", fg="green") if verdict["passed"] else click.style("✗", fg="red")
    click.echo(f"{mark} {verdict['script']:28} {', '.join(counts):32} {simulated} in {verdict['wall_s']:6.1f} s")
    for name in verdict["skipped"]:
        click.echo(f"    skipped: {name}")
    for name, reason in verdict["known_to_fail"].items():
        click.echo(f"    known to fail: {name}: {reason}")
    for name in verdict["failed"]:
        click.echo(f"    {click.style('failed', fg='red')}: {name}")
    if verdict["fault"]:
        click.echo(f"    {click.style('error', fg='red')}: {verdict['fault']}")
    if not verdict["passed"]:
        click.echo(f"    its whole output: {verdict['log']}")


def _show_total(
    kernel: Kernel,
    verdicts: Sequence[Mapping[str, Any]],
    passed: bool,
    not_run: Mapping[str, str],
    wall_s: float,
    output: Path,
) -> None:
    subtests = sum(verdict["subtests"] for verdict in verdicts)
    good = sum(verdict["subtests_passed"] for verdict in verdicts)
    word = click.style("passed", fg="green", bold=True) if passed else click.style("FAILED", fg="red", bold=True)
    missing = f"; not run: {', '.join(not_run)}" if not_run else ""
    click.echo(f"{word}  {good} of {subtests} subtests of {kernel.version} in {wall_s:.0f} s{missing}; {output}")
