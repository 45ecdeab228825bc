# SPDX-License-Identifier: Apache-2.0
"""The work of `mprun kernel test`: run the scripts on each kernel, and show their results."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mprun.cli.output import emit, mark
from mprun.cli.progress import Bar
from mprun.engines.debugger import Debugger, find_gdb
from mprun.errors import MachineError, SpecError, refusing
from mprun.kernel.selftests import packetdrill
from mprun.kernel.selftests.judgement import JudgedScript, find_changes, judge
from mprun.kernel.selftests.known import Known, read_known
from mprun.kernel.selftests.script_run import DEFAULT_SCRIPTS, NOTHING, KeptRecords, check_scheduler, run_scripts
from mprun.kernel.selftests.test_source import Script, list_scripts, list_tc_scripts, prepare
from mprun.kernel.store import Kernel
from mprun.kernel.symbols import find_symbols
from mprun.machine import invoking_user
from mprun.model.frozen import Frozen
from mprun.model.units import TIME, QuantityError
from mprun.reports.test_results import checks_of_scripts, to_junit, to_tap


class TestsToRun(Frozen):
    """The tests to run.

    - only: names of scripts, groups and suites; None for all tests of MPTCP, and those of packetdrill.
    - scheduler: of every new namespace; None for the kernel's default.
    - program: the folder of packetdrill; None for the program in PATH.
    - suite: the folder of packetdrill scripts that are run instead of the kernel's own tests.
    - own: the user's list of known failures.
    - kept: what is kept of each script besides its output.
    - is_silent: print nothing while the scripts run.
    """

    only: Sequence[str] | None
    scheduler: str | None
    seed: int
    jobs: int
    output: Path
    program: Path | None = None
    suite: Path | None = None
    own: Sequence[Known] = ()
    kept: KeptRecords = NOTHING
    is_silent: bool = False


class TestedKernel(Frozen):
    """A kernel with its results. not_run: the reason of each suite that could not run. wall_s: real time."""

    kernel: Kernel
    judged: tuple[JudgedScript, ...]
    not_run: Mapping[str, str]
    wall_s: float

    @property
    def passed(self) -> bool:
        return all(judged.passed for judged in self.judged)


def run(
    kernels: Sequence[Kernel], order: TestsToRun, as_json: bool = False, as_tap: bool = False, junit: Path | None = None
) -> bool:
    """Run scripts of the kernels' tests. Return True if all failures on all kernels are known failures."""
    if junit is not None and not junit.absolute().parent.is_dir():
        raise MachineError(f"{junit} cannot be written: the folder does not exist")
    tested = [_test(kernel, order, order.output / kernel.name if kernels[1:] else order.output) for kernel in kernels]
    invoking_user.give(order.output)
    passed = all(one.passed for one in tested)
    checks = list(checks_of_scripts({one.kernel.name: one.judged for one in tested}))
    if junit is not None:
        try:
            seconds = {
                f"{one.kernel.name}: {script.label}": script.result.wall_s for one in tested for script in one.judged
            }
            junit.write_text(to_junit("mprun kernel test", checks, seconds), encoding="utf-8")
        except OSError as error:
            raise MachineError(f"{junit} cannot be written: {error.strerror}") from error
        invoking_user.give(junit)
    changes = {one.kernel.name: find_changes(tested[0].judged, one.judged) for one in tested[1:]}
    if as_json:
        reports = [_to_json(one, order) for one in tested]
        emit(reports[0] if len(reports) == 1 else {"passed": passed, "kernels": reports, "changes": changes})
    elif as_tap:
        click.echo(to_tap(checks), nl=False)
    else:
        for name, changed in changes.items():
            click.echo(f"\nchanges from {kernels[0].name} to {name}: {len(changed) or 'none'}")
            for change in changed:
                subject = f"{change.script}: {change.subtest}" if change.subtest else change.script
                click.echo(f"  {subject}: {change.before} -> {change.after}")
    return passed


def find_debugger(kernels: Sequence[Kernel], time: str | None, commands: Sequence[str]) -> Debugger | None:
    """Return the gdb that stops a kernel at a time from its boot; None without a time.

    commands: those that gdb executes at the stop; without any, the user types them. Raises SpecError for a time that is
    none, MachineError without gdb or symbols.
    """
    if time is None:
        if commands:
            raise SpecError("--command needs the time of the stop: --at 1.5s")
        return None
    for kernel in kernels:
        find_symbols(kernel)
    with refusing("--at", QuantityError):
        at_ns = TIME.parse(time)
    facts = {"zero_ns": 0, "nodes": {}, "at_ns": at_ns, "reason": "", "packet": None}
    return Debugger(find_gdb(), facts, commands or None)


def _test(kernel: Kernel, order: TestsToRun, output: Path) -> TestedKernel:
    if order.kept.captures and shutil.which("tcpdump") is None:
        raise MachineError("--capture needs tcpdump: apt-get install tcpdump")
    started = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    known = read_known()
    judged_scripts = []
    with Bar() as bar:
        drill = packetdrill.find_program(order.program)
        asks_for_drill = any(name.split("/")[0] == packetdrill.NAME for name in order.only or ())
        if drill is None and (order.suite or asks_for_drill):
            raise MachineError(f"packetdrill's scripts are not run: {packetdrill.NO_PROGRAM}")
        not_run: dict[str, str] = {}
        if order.suite and drill:
            scripts = packetdrill.list_suite(order.suite, drill)
        else:
            selftests, is_same = prepare(kernel, bar.show)
            if not is_same:
                click.echo(f"warning: {kernel.source} has changed since the kernel was built from it", err=True)
            scripts, not_run = _list(selftests, drill)
        scripts = _choose(order.only, scripts)
        if order.kept.debugger is not None and len(scripts) > 1:
            raise SpecError(f"--at: gdb stops one test, and {len(scripts)} would run: name one with --only")
        if order.scheduler:
            check_scheduler(kernel, order.scheduler)

        def show(running: Mapping[str, str], ended: int) -> None:
            if order.kept.debugger is None:
                bar.show(f"testing: {', '.join(running)}", ended / len(scripts), "; ".join(running.values())[:60])

        for result in run_scripts(kernel, scripts, output, order.jobs, order.seed, order.scheduler, show, order.kept):
            judged = judge(result, known, order.own, order.scheduler)
            judged_scripts.append(judged)
            if not order.is_silent:
                _show(judged)
    positions = {script.label: position for position, script in enumerate(scripts)}
    ordered = tuple(sorted(judged_scripts, key=lambda judged: positions[judged.label]))
    tested = TestedKernel(kernel, ordered, {} if order.only else not_run, round(time.monotonic() - started, 1))
    if not order.is_silent:
        _show_total(tested, output)
    return tested


def _to_json(tested: TestedKernel, order: TestsToRun) -> dict[str, Any]:
    return {
        "kernel": tested.kernel.name,
        "version": tested.kernel.version,
        "scheduler": order.scheduler,
        "seed": order.seed,
        "passed": tested.passed,
        "wall_s": tested.wall_s,
        "scripts": [judged.to_json() for judged in tested.judged],
        "not_run": dict(tested.not_run),
    }


def _list(selftests: Path, drill: Path | None) -> tuple[list[Script], dict[str, str]]:
    """Return the kernel's own tests that can run, and the reason of each suite that cannot."""
    scripts = list_scripts(selftests) + list_tc_scripts(selftests)
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
    positions = {name: position for position, name in enumerate(DEFAULT_SCRIPTS)}
    chosen = [script for script in found if any(_is_below(script, name) for name in only or DEFAULT_SCRIPTS)]
    return sorted(chosen, key=lambda script: positions.get(script.name, len(positions)))


def _is_below(script: Script, name: str) -> bool:
    """Return True if a name on the command line selects this script: `mptcp_join`, `packetdrill/tcp/sack`."""
    return f"{script.label}/".startswith(f"{name}/")


def _show(judged: JudgedScript) -> None:
    result = judged.result
    counts = [f"{len(result.names('passed'))} passed"]
    for names, word in (
        (judged.unexpected, "failed"),
        (judged.reasons, "known to fail"),
        (result.names("skipped"), "skipped"),
    ):
        counts += [f"{len(names)} {word}"] if names else []
    simulated = "" if result.simulated_s is None else f"{result.simulated_s:8.1f} s simulated"
    click.echo(f"{mark(judged.passed)} {judged.label:28} {', '.join(counts):32} {simulated} in {result.wall_s:6.1f} s")
    for name in result.names("skipped"):
        click.echo(f"    skipped: {name}")
    for name, reason in judged.reasons.items():
        click.echo(f"    known to fail: {name}: {reason}")
    for name in judged.needless:
        click.echo(f"    passed, although the list of known failures has it: {name}")
    for name in judged.unexpected:
        click.echo(f"    {click.style('failed', fg='red')}: {name}")
    if result.error:
        click.echo(f"    {click.style('error', fg='red')}: {result.error}")
    if not judged.passed:
        click.echo(f"    its whole output: {result.log}")


def _show_total(tested: TestedKernel, output: Path) -> None:
    for name, reason in tested.not_run.items():
        click.echo(f"- {name:28} not run: {reason}")
    subtests = sum(len(judged.result.subtests) for judged in tested.judged)
    good = sum(len(judged.result.names("passed")) for judged in tested.judged)
    is_good = tested.passed
    word = click.style("passed", fg="green", bold=True) if is_good else click.style("FAILED", fg="red", bold=True)
    missing = f"; not run: {', '.join(tested.not_run)}" if tested.not_run else ""
    kernel = f"{tested.kernel.version} ({tested.kernel.name})"
    click.echo(f"{word}  {good} of {subtests} subtests of {kernel} in {tested.wall_s:.0f} s{missing}; {output}")
