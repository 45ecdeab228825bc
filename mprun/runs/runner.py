# SPDX-License-Identifier: Apache-2.0
"""Run an experiment from a Spec to a finished run directory.

This module compiles for a place, makes the directory, runs the plan and reads the artifacts. It prints nothing.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from mprun.captures.finish import finish_captures
from mprun.compile import allocate, compile_plan, resolve
from mprun.compile.packet_trains import compile_calibration, silence
from mprun.compile.planner import kernel_wide_warnings, queue_warnings, sampling_warnings
from mprun.engines.agent_process import RunProgress, Shell
from mprun.engines.capability import find_capabilities
from mprun.engines.debugger import Attended, Debugger
from mprun.engines.held_prompt import HeldPrompt
from mprun.errors import MachineError, MprunError, RunError
from mprun.inputs.attachment import keep
from mprun.inputs.keys.experiment import name_link
from mprun.inputs.loading import Loaded, load
from mprun.inputs.named_file import read_text
from mprun.inputs.writer import write_experiment, write_topology
from mprun.kernel.store import DEFAULT_NAME
from mprun.machine.scratch import scratch
from mprun.machine.version import code_digest
from mprun.metrics.calibration import Calibration, judge
from mprun.metrics.evidence import Evidence
from mprun.metrics.observation import observe
from mprun.metrics.series import tabulate_changes
from mprun.metrics.summary import Measured, measure
from mprun.model.agent_report import AgentReport
from mprun.model.capabilities import Capabilities
from mprun.model.engine_paths import LINE_COUNTS
from mprun.model.frozen import Frozen
from mprun.model.intent import Intent
from mprun.model.network import Network
from mprun.model.permission import NO_COMMANDS, Consent
from mprun.model.plan import Plan
from mprun.model.problem import InputProblem, ValuePath
from mprun.model.run_summary import Summary
from mprun.model.scalar import Scalar
from mprun.model.spec import Spec
from mprun.runs.place import Place, refuse_commands
from mprun.safety.text import name_some
from mprun.storage.damage import DAMAGE, name_error, reading
from mprun.storage.run_directory import RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory

CALIBRATION = "calibration.json"
CHANGED_INPUTS = "its inputs were changed after the run"

Tables = Mapping[str, Mapping[str, list[Any]]]
NO_TABLES: Tables = {}
Compiler = Callable[[Spec, Network, Capabilities], Plan]


class RunRequest(Frozen):
    """A request for a run.

    - warnings: warnings about the files of the request.
    - inputs: the texts of the files, by the names under which the run keeps them.
    - shell: the time at which the run stops at a prompt; None: it does not stop.
    - consent: the user's consent to commands in the files.
    - parameters: the values of the files' parameters and axes, which the run records.
    - places: the places of names that only a kernel or a program knows, by the beginning of their errors in a run. The
      message of a place is the end of such an error.
    - debugger: gdb, which stops the kernel of the run.
    - prompt: a prompt at a simulated time, which ends the run.
    """

    spec: Spec
    place: Place
    warnings: Sequence[str] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    shell: Shell | None = None
    consent: Consent = NO_COMMANDS
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    places: Mapping[str, InputProblem] = field(default_factory=dict)
    debugger: Debugger | None = None
    prompt: HeldPrompt | None = None


def make_request(loaded: Loaded, place: Place, consent: Consent, shell: Shell | None = None) -> RunRequest:
    """Return the request for a run of files that have been read. Statements about cells are judged by a sweep only."""
    inputs = read_inputs(loaded.sources)
    places = {begin: loaded.problem(path, "") for begin, path in _find_places(loaded.spec)}
    kernel = ["--kernel", place.kernel.name] if place.kernel and place.kernel.name != DEFAULT_NAME else []
    remedy = f"run `{shlex.join(('mprun', 'sweep', *loaded.words, *kernel))}`"
    unjudged = (f"expect: '{one}' compares cells and was not judged: {remedy}" for one in loaded.spec.experiment.across)
    warnings = [*loaded.warnings, *unjudged]
    return RunRequest(loaded.spec, place, warnings, inputs, shell, consent, loaded.parameters, places)


def _find_places(spec: Spec) -> Iterator[tuple[str, ValuePath]]:
    """Yield how an error in a run begins, and the path of the value that is its cause."""
    for n, capture in enumerate(spec.experiment.captures):
        if capture.filter:
            yield f"capture.{capture.name}: ended with status 1 before", ("capture", n, "filter")
    for n, one in enumerate(spec.experiment.tracepoints):
        yield f"tracepoints: this kernel has no event '{one}'", ("tracepoints", n)
    for host, settings in spec.experiment.hosts.items():
        for name, value in settings.sysctl:
            # a setting that all hosts share is made outside of them
            for where in (host, "build"):
                yield f"{where}: sysctl -w {name}={value}:", ("hosts", host, "sysctl", name)
        scheduler = settings.mptcp.scheduler
        yield f"{host}: sysctl -w net.mptcp.scheduler={scheduler}:", ("hosts", host, "mptcp", "scheduler")
    for n, flow in enumerate(spec.experiment.traffic):
        if flow.congestion:
            yield f"{flow.name}: no congestion control '{flow.congestion}'", ("traffic", n, "congestion")


class Prepared(Frozen):
    """A request that is compiled for its place. warnings: warnings about the files and about this machine."""

    request: RunRequest
    network: Network
    plan: Plan
    capabilities: Capabilities
    warnings: tuple[str, ...]


def compile_for(
    spec: Spec, network: Network, place: Place, compiler: Compiler = compile_plan
) -> tuple[Plan, Capabilities]:
    """Compile an experiment for the engine and the kernel of a place.

    Return the plan, and the capabilities of this machine that the plan uses. Raises SpecError or MachineError before
    anything exists on disk.
    """
    capabilities = find_capabilities(spec, place.engine.IS_SIMULATED)
    plan = compiler(spec, network, capabilities)
    if reason := place.engine.missing(plan, capabilities):
        raise MachineError(reason)
    return plan, capabilities


def prepare(request: RunRequest) -> Prepared:
    """Compile the experiment of a request for its place.

    Raises SpecError or MachineError before anything exists on disk.
    """
    spec, place = request.spec, request.place
    refuse_commands([spec], request.consent, place.name)
    network = allocate(spec)
    plan, capabilities = compile_for(spec, network, place)
    found = (
        *kernel_wide_warnings(spec, capabilities),
        *sampling_warnings(spec, capabilities),
        *queue_warnings(spec, network),
    )
    return Prepared(request, network, plan, capabilities, (*request.warnings, *found))


def find_links(spec: Spec, folder: Path) -> dict[str, str]:
    """Return the links of an experiment, name -> pattern of files. None are made outside its folder.

    folder: of the experiment.
    """
    if folder.resolve() != Path.cwd():
        return {}
    return {name_link(key, spec.topology.name, spec.experiment.name): file for key, file in spec.experiment.links}


def run_request(request: RunRequest, parent: Path, progress: RunProgress) -> tuple[RunDirectory, Summary]:
    """Run an experiment into a new directory below `parent`; return the directory and the summary.

    Raises SpecError or MachineError before the directory exists, and RunError or Interrupted later. The results
    gathered until then are kept and marked incomplete.
    """
    title = title_of(request.spec)
    return run_into(lambda digest: RunDirectory.create(parent, title, digest), request, progress)


def run_into(
    create: Callable[[str], RunDirectory], request: RunRequest, progress: RunProgress
) -> tuple[RunDirectory, Summary]:
    """Run an experiment into a directory that `create` makes. Return the directory and the summary.

    create: gets the digest of the run's intent.
    """
    prepared = prepare(request)
    run = create(prepared.plan.digest)
    resolved = resolve(request.spec, prepared.network)
    texts = {RESOLVED_TOPOLOGY: write_topology(resolved.topology)}
    texts[RESOLVED_EXPERIMENT] = write_experiment(resolved.experiment)
    with run.held():
        run.keep_inputs({**request.inputs, **texts})
        _keep_attachments(run, request.spec)
        return run, _carry_out(prepared, run, progress)


def _keep_attachments(run: RunDirectory, spec: Spec) -> None:
    """Write the user's files into the run's inputs. Raises RunError if one has changed since it was read."""
    for attachment in {one.sha256: one for one in spec.experiment.attachments}.values():
        folder = run.folder.make("inputs").make(attachment.path.rpartition("/")[0])
        with folder.whole(attachment.path.rpartition("/")[2]) as file:
            keep(attachment, file)


def title_of(spec: Spec) -> str:
    """Return the title of a run directory, `TOPOLOGY-EXPERIMENT`, for people."""
    return f"{spec.topology.name}-{spec.experiment.name}"


def read_inputs(paths: Sequence[Path]) -> dict[str, str]:
    """Return the texts of a user's files by the names under which a run keeps them."""
    files: dict[str, str] = {}
    for number, path in enumerate(paths):
        taken = path.name in (*files, RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT)
        files[f"{number}-{path.name}" if taken else path.name] = read_text(path)
    return files


def calibrate(spec: Spec, network: Network, place: Place, progress: RunProgress) -> Calibration:
    """Measure each link of a network, on a network of its own that carries nothing else.

    Raises SpecError, MachineError or RunError.
    """
    plan, capabilities = compile_for(silence(spec), network, place, compile_calibration)
    with scratch("mprun-calibration-") as folder:
        run = RunDirectory.create(folder, "calibration", plan.digest)
        run.folder.write_text("plan.json", plan.to_text())
        place.engine.run_plan(plan, run, place.kernel, progress)
        agent = run.agent_report()
    if agent.error:
        raise RunError(f"calibration: {agent.error}")
    return judge(network, plan.trains, agent.trains, capabilities.is_simulated)


def _carry_out(prepared: Prepared, run: RunDirectory, progress: RunProgress) -> Summary:
    """Run into an existing directory, and return the summary. If the spec asks for it, measure the links first."""
    request, plan, network = prepared.request, prepared.plan, prepared.network
    spec, place = request.spec, request.place
    calibration = calibrate(spec, network, place, progress) if spec.experiment.calibrate else None
    if calibration is not None:
        run.folder.write_json(CALIBRATION, calibration.to_json())
    run.folder.write_text("plan.json", plan.to_text())
    environment = _environment(prepared)
    run.folder.write_json("environment.json", environment)
    attended = Attended(shell=request.shell, debugger=request.debugger, prompt=request.prompt)
    place.engine.run_plan(plan, run, place.kernel, progress, **attended)
    agent = run.agent_report()
    if where := next((one for begin, one in request.places.items() if (agent.error or "").startswith(begin)), None):
        agent = agent._replace(error=f"{replace(where, message='')}: {agent.error}{where.message}")
    if agent.sysctls is not None:
        # a namespace of Linux 6.1 does not show those of the whole kernel
        sysctls = {**(prepared.capabilities.kernel_wide or {}), **agent.sysctls}
        run.folder.write_json("environment.json", environment | {"sysctls": dict(sorted(sysctls.items()))})
    if request.shell == "only":
        if agent.error:
            raise RunError(agent.error)
        return Summary("passed", agent.complete, plan.seed, {}, (), (), (), ())
    evidence = replace(
        _evidence_in(run, plan.intent, agent),
        engine=place.name,
        is_simulated=place.engine.IS_SIMULATED,
        expectations=spec.experiment.expectations,
        warnings=(*prepared.warnings, *tell_changes(run)),
        calibration=calibration,
        captured=finish_captures(run, plan, network, agent),
        parameters=request.parameters,
    )
    measured = _measure(run, evidence, _count_lines(run, place))
    run.write_accounts(measured.accounts)
    run.write_summary(measured.summary)
    if agent.complete:
        run.mark_complete()
    return measured.summary


# The number of times that a run is made again because files of this machine changed meanwhile.
MOST_DISTURBED = 2


def tell_changes(run: RunDirectory) -> tuple[str, ...]:
    """Return a warning if files of this machine changed during a run, which may then not repeat byte by byte."""
    changed, problem = run.changed_files()
    if problem:
        return (f"changes of this machine's files during the run could not be seen: {problem}",)
    if not changed:
        return ()
    what = name_some(changed, 1)
    return (f"{what} of this machine changed during the run, so another run may differ: run it again",)


def restore_tables(run: RunDirectory) -> None:
    """Make the tables of a run again from its raw output.

    Do nothing if the run ended before its raw output was complete. Raises RunError if raw output was removed, and
    MprunError if no tables can be made of it.
    """
    if lost := run.lost_files():
        raise RunError(f"{run.path}: has no {name_some(lost, 1)}, from which its tables are made")
    if run.has("agent.json"):
        evidence = _evidence_in(run, run.plan().intent, run.agent_report())
        try:
            _measure(run, evidence)
        except DAMAGE as error:
            reason = f"its tables cannot be made: {name_error(error)}"
            doubt = "a file of it is damaged, or, if a new run has no tables either, mprun has a defect"
            raise MprunError(f"{run.path}: {reason}: {doubt}") from error


def _evidence_in(run: RunDirectory, intent: Intent, agent: AgentReport) -> Evidence:
    with reading(run.path / "record.gz"):
        observation = observe(run.record(), agent.zero_ns or 0, intent.links)
    return Evidence(intent, agent, observation, run.log, run.flow_file)


def _measure(run: RunDirectory, evidence: Evidence, more: Tables = NO_TABLES) -> Measured:
    """Measure a run, and write its tables and more tables."""
    measured = measure(evidence)
    changes = tabulate_changes(run.steps())
    run.write_tables({**measured.tables, **({"changes": changes} if len(changes) else {}), **more})
    return measured


def _count_lines(run: RunDirectory, place: Place) -> Tables:
    """Return the table of executed lines if the kernel counts them, and remove the file with its counters."""
    if place.kernel is None or not run.has(LINE_COUNTS):
        return NO_TABLES
    # few kernels count lines
    from mprun.kernel.line_coverage import TABLE, tabulate_coverage

    counts = run.folder.read_bytes(LINE_COUNTS)
    run.folder.remove(LINE_COUNTS)
    return {TABLE: tabulate_coverage(place.kernel, counts)}


def refuse_changes(run: RunDirectory) -> None:
    """Raise RunError if a run lacks output of its processes, or if the inputs are no longer those of its plan.

    Inputs are checked if this version of mprun made the run.
    """
    if lacking := run.lost_files():
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise RunError(f"{run.path}: has no {lacking[0]}{more}, which its processes wrote: run its files again")
    if not run.has("environment.json"):
        return
    if run.environment().code == code_digest():
        spec = load(*run.resolved_inputs).spec
        if compile_plan(spec, allocate(spec)).digest != run.digest:
            raise RunError(f"{run.name}: {CHANGED_INPUTS}; run them again")


def run_again(
    original: RunDirectory,
    parent: Path,
    place: Place,
    progress: RunProgress,
    consent: Consent = NO_COMMANDS,
    debugger: Debugger | None = None,
    prompt: HeldPrompt | None = None,
) -> tuple[RunDirectory, Summary]:
    """Repeat the run `original` in a new directory below `parent`. Return the directory and the summary.

    The run's resolved inputs are compiled again. A plan is a list of commands, so the plan of a stranger is not
    executed. debugger, prompt: as for a request. Raises RunError if this version of mprun derives another intent from
    the inputs.
    """
    before = original.environment()
    spec = load(*original.resolved_inputs).spec
    parameters = before.parameters
    prepared = prepare(
        RunRequest(spec, place, debugger=debugger, prompt=prompt, consent=consent, parameters=parameters)
    )
    if prepared.plan.digest != original.digest:
        is_same = before.code == code_digest()
        reason = CHANGED_INPUTS if is_same else "this version of mprun makes another plan of its inputs"
        raise RunError(f"{original.name}: {reason}; run them again")
    run = RunDirectory.create(parent, original.title, prepared.plan.digest)
    with run.held():
        run.keep_inputs(original.inputs())
        _keep_attachments(run, prepared.request.spec)
        return run, _carry_out(replace(prepared, warnings=before.warnings), run, progress)


def _environment(prepared: Prepared) -> dict[str, Any]:
    request = prepared.request
    place = request.place
    return {
        "warnings": list(prepared.warnings),
        "parameters": dict(request.parameters),
        "versions": dict(prepared.capabilities.versions),
        "engine": place.name,
        "real_time": not place.engine.IS_SIMULATED or request.shell is not None,
        "engine_reason": place.reason,
        "kernel": asdict(place.kernel) if place.kernel else {"version": os.uname().release},
        "python": platform.python_version(),
        "mprun": code_digest(),
    }
