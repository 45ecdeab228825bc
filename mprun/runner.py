# SPDX-License-Identifier: Apache-2.0
"""One run from a Spec or a Plan to a finished run directory: the pipeline's last arrows.

Chooses the engine, makes the directory, runs the plan, reads the artifacts. Prints nothing.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from mprun import landlock
from mprun.analysis.calibration import judge, to_json
from mprun.analysis.change import tabulate_changes
from mprun.analysis.observation import observe
from mprun.analysis.summary import Captured, Measured, measure
from mprun.capabilities import Capabilities
from mprun.capture import finish_captures
from mprun.compile import allocate, compile_plan, resolve
from mprun.compile.calibration import compile_calibration, silence
from mprun.compile.network import Network
from mprun.compile.planner import kernel_wide_warnings, sampling_warnings
from mprun.engines import real, virtual
from mprun.engines.capability import find_capabilities
from mprun.engines.engine import Progress, Shell
from mprun.errors import HostError, RunError, SpecError
from mprun.input import load
from mprun.input.reader import read_text
from mprun.input.writer import write_experiment, write_topology
from mprun.kernel.store import DEFAULT_NAME, Kernel, find_kernel, is_current
from mprun.model.permission import NO_COMMANDS, Consent
from mprun.model.spec import Expectation, Spec
from mprun.plan import Plan
from mprun.rundir import RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory, reading
from mprun.scratch import scratch
from mprun.settings import configuration_path, configured_engine
from mprun.tools.tool import tool_of
from mprun.version import code_digest

CALIBRATION = "calibration.json"
BLOCK_BYTES = 1 << 20
UNCONFINED = "no Landlock: programs of a run can read files of this machine"

Compiler = Callable[[Spec, Network, Capabilities], Plan]
EngineName = Literal["auto", "virtual", "real"]


@dataclass(frozen=True)
class Place:
    """Where a run takes place, and why there."""

    engine: str
    reason: str
    kernel: Kernel | None


def choose_place(wanted: EngineName, kernel_name: str) -> Place:
    """The engine for a run; `auto` is the user's configuration, else the virtual one, and never another because that
    one cannot be used. Raises HostError that says what is missing and what mends it, SpecError for a faulty
    configuration.
    """
    engine, why = wanted, "as asked"
    # to name a kernel is to ask for the engine that boots it
    if wanted == "auto":
        configured = configured_engine() if kernel_name == DEFAULT_NAME else None
        engine = configured or "virtual"
        why = f"as {configuration_path()} says" if configured else "the default: simulated time, repeatable"
    if engine == real.NAME:
        return Place(real.NAME, why, None)
    if (reason := virtual.lacks_kernel(kernel_name)) and wanted == "auto" and kernel_name == DEFAULT_NAME:
        raise HostError(f"{reason}; or run on this machine's own kernel, in real time: add `--engine real`")
    if reason := reason or virtual.missing():
        raise HostError(reason)
    kernel = find_kernel(kernel_name)
    if kernel_name != DEFAULT_NAME:
        why = f"kernel {kernel_name}, {kernel.version} {kernel.digest[:12]}"
        # a developer's own may be kept on purpose, as what another one is compared with
        if not is_current(kernel):
            why += ", built by another version of mprun: build it again for what has changed"
    elif not is_current(kernel):
        raise HostError("the experiment kernel is of another version of mprun; run `mprun kernel build`")
    if note := tell_unconfined():
        why += f"; {note}"
    return Place(virtual.NAME, why, kernel)


def tell_unconfined() -> str | None:
    """Return what to say of a machine that cannot keep programs of a run from its files; None of one that can."""
    return None if landlock.abi() else f"this machine has {UNCONFINED}"


def refuse_real(named: str, asked: EngineName) -> None:
    """Raise SpecError where a file names the real engine, and neither the command line nor the configuration does.

    asked: what the command line says. Files are shared between strangers, and this engine runs on the user's kernel.
    """
    if named == real.NAME and (configured_engine() if asked == "auto" else asked) != real.NAME:
        raise SpecError(
            "these files ask for the real engine, which runs them on this machine's own kernel: if you want that, add "
            "--engine real"
        )


def make_plan(
    spec: Spec, network: Network, place: Place, compiler: Compiler = compile_plan
) -> tuple[Plan, Capabilities]:
    """Compile for a place. Raises SpecError or HostError before anything exists on disk."""
    capabilities = find_capabilities(spec, virtual=place.engine == virtual.NAME)
    plan = compiler(spec, network, capabilities)
    if capabilities.schedulers is not None and (reason := real.missing(plan, capabilities.schedulers)):
        raise HostError(reason)
    return plan, capabilities


def run_spec(
    spec: Spec,
    place: Place,
    parent: Path,
    inputs: Sequence[Path],
    warnings: Sequence[str],
    progress: Progress,
    shell: Shell | None = None,
    consent: Consent = NO_COMMANDS,
) -> tuple[RunDirectory, dict[str, Any]]:
    """Run an experiment; its directory and its summary. consent: whether commands of the file's own may run.

    Raises SpecError or HostError before the directory exists; RunError or Interrupted after, with what was
    gathered kept and marked incomplete.
    """
    title = title_of(spec)
    return run_into(
        lambda digest: RunDirectory.create(parent, title, digest),
        *(spec, place, read_inputs(inputs), warnings, progress, shell, consent),
    )


def title_of(spec: Spec) -> str:
    """What the directory of its runs is called, for people."""
    return f"{spec.topology.name}-{spec.experiment.name}"


def read_inputs(paths: Sequence[Path]) -> dict[str, str]:
    """The files of a user by names under which a run keeps them."""
    files: dict[str, str] = {}
    for number, path in enumerate(paths):
        taken = path.name in (*files, RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT)
        files[f"{number}-{path.name}" if taken else path.name] = read_text(path)
    return files


def run_into(
    create: Callable[[str], RunDirectory],
    spec: Spec,
    place: Place,
    inputs: Mapping[str, str],
    warnings: Sequence[str],
    progress: Progress,
    shell: Shell | None = None,
    consent: Consent = NO_COMMANDS,
) -> tuple[RunDirectory, dict[str, Any]]:
    """As `run_spec`, into the directory that `create` makes for the digest of the intent. inputs: text by name."""
    refuse_commands(spec, consent, place.engine)
    network = allocate(spec)
    plan, capabilities = make_plan(spec, network, place)
    run = create(plan.digest)
    resolved = resolve(spec, network)
    files = {RESOLVED_TOPOLOGY: write_topology(resolved.topology)}
    files[RESOLVED_EXPERIMENT] = write_experiment(resolved.experiment)
    run.keep_inputs({**inputs, **files})
    all_warnings = [*warnings, *kernel_wide_warnings(spec, capabilities), *sampling_warnings(spec, capabilities)]
    facts = {"warnings": all_warnings, "versions": dict(capabilities.versions)}
    return run, _run_calibrated(spec, network, plan, run, place, facts, progress, shell)


def refuse_commands(spec: Spec, consent: Consent, engine: str) -> None:
    """Raise SpecError that shows the commands of a file's own, unless the user consents to what they can do: files are
    shared between strangers."""
    found = [
        f"{flow.name}: {line}"
        for flow in spec.experiment.traffic
        for line in getattr(tool_of(flow), "commands", lambda _: ())(flow)
    ]
    if found and (lacking := _lacking_consent(consent, engine)):
        raise SpecError([f"this experiment runs commands of its own{lacking}", *found])


def _lacking_consent(consent: Consent, engine: str) -> str | None:
    if not consent.commands:
        return "; if you want them, add --allow-exec"
    if not consent.unconfined and not landlock.abi():
        return ", and this machine has no Landlock that keeps them from your files; if you trust them, add --unconfined"
    if engine == real.NAME and os.geteuid() == 0 and not consent.as_root:
        return (
            ", as root on this machine's own kernel; if you want that, add --allow-exec-as-root, else run it without "
            "root's rights or with --engine virtual"
        )
    return None


def _run_calibrated(
    spec: Spec,
    network: Network,
    plan: Plan,
    run: RunDirectory,
    place: Place,
    facts: Mapping[str, Any],
    progress: Progress,
    shell: Shell | None = None,
) -> dict[str, Any]:
    """Run a plan into a directory that exists, after its links were measured if that was asked for."""
    if spec.experiment.calibrate:
        run.write(CALIBRATION, calibrate(spec, network, place, progress))
    return run_plan(plan, network, run, place, spec.experiment.expectations, facts, progress, shell)


def calibrate(spec: Spec, network: Network, place: Place, progress: Progress) -> dict[str, Any]:
    """Measure each link of a network, on one of its own that carries nothing else: {passed, rows}.

    Raises HostError or RunError.
    """
    plan, capabilities = make_plan(silence(spec), network, place, compile_calibration)
    with scratch("mprun-calibration-") as folder:
        run = RunDirectory.create(folder, "calibration", plan.digest)
        run.write_text("plan.json", plan.to_text())
        _carry_out(plan, run, place, progress)
        agent = run.read("agent.json")
    if agent["error"]:
        raise RunError(f"calibration: {agent['error']}")
    return to_json(judge(network, plan.trains, agent["trains"], capabilities.is_simulated))


def run_plan(
    plan: Plan,
    network: Network,
    run: RunDirectory,
    place: Place,
    expectations: Sequence[Expectation],
    facts: Mapping[str, Any],
    progress: Progress,
    shell: Shell | None = None,
) -> dict[str, Any]:
    """Run a plan into a directory that exists; the summary, also written there."""
    run.write_text("plan.json", plan.to_text())
    environment = _environment(place, shell, facts)
    run.write("environment.json", environment)
    _carry_out(plan, run, place, progress, shell)
    agent = run.read("agent.json")
    if "sysctls" in agent:
        run.write("environment.json", environment | {"sysctls": agent["sysctls"]})
    if shell == "only":
        if agent["error"]:
            raise RunError(agent["error"])
        return {"status": "passed", "metrics": {}, "expectations": []}
    calibration = run.read(CALIBRATION) if run.has(CALIBRATION) else None
    captured = finish_captures(run, plan, network, agent)
    told = (expectations, place.engine, facts["warnings"], calibration)
    measured = _measure(run, plan.intent, agent, *told, captured)
    run.write_accounts(measured.accounts)
    run.write("summary.json", measured.summary)
    if agent["complete"]:
        run.mark_complete()
    return measured.summary


def restore_tables(run: RunDirectory) -> None:
    """Make the tables of a run again from what the agent, the kernel and the programs left; none if it did not come so
    far."""
    if run.has("agent.json"):
        _measure(run, run.read("plan.json")["intent"], run.read("agent.json"), (), "", ())


def _measure(
    run: RunDirectory,
    intent: Mapping[str, Any],
    agent: Mapping[str, Any],
    expectations: Sequence[Expectation],
    engine: str,
    warnings: Sequence[str],
    calibration: Mapping[str, Any] | None = None,
    captured: Mapping[str, Captured] | None = None,
) -> Measured:
    """What a run came to; its tables are written."""
    with reading(run.path / "record.gz"):
        observation = observe(run.record(), agent["zero_ns"] or 0, intent["links"])
    told = (expectations, engine, warnings, calibration)
    measured = measure(intent, agent, observation, run.log, *told, run.flow_file, captured)
    changes = tabulate_changes(run.steps())
    run.write_tables({**measured.tables, **({"changes": changes} if len(changes) else {})})
    return measured


def _carry_out(plan: Plan, run: RunDirectory, place: Place, progress: Progress, shell: Shell | None = None) -> None:
    if place.engine == virtual.NAME:
        assert place.kernel is not None
        # The tables of the run want it afterwards, and in simulated time nobody minds what another CPU does until then.
        threading.Thread(target=import_module, args=("polars",), daemon=True).start()
        virtual.run_plan(plan, run, place.kernel, progress, shell)
    else:
        real.run_plan(plan, run, progress, shell)


def repeat(
    original: RunDirectory, parent: Path, place: Place, progress: Progress, consent: Consent = NO_COMMANDS
) -> tuple[RunDirectory, dict[str, Any]]:
    """Run again what `original` was asked for, into a new directory under `parent`.

    Its resolved inputs are compiled anew: a plan is a list of commands, and that of a stranger is not
    obeyed. Raises RunError if this mprun makes another intent of them.
    """
    spec = load(*original.resolved_inputs).spec
    refuse_commands(spec, consent, place.engine)
    network = allocate(spec)
    plan, capabilities = make_plan(spec, network, place)
    if plan.digest != original.read("plan.json")["digest"]:
        raise RunError(f"{original.name}: this version of mprun makes another plan of its inputs; run them anew")
    run = RunDirectory.create(parent, original.title, plan.digest)
    run.keep_inputs(original.inputs())
    facts = {"warnings": original.read("environment.json")["warnings"], "versions": dict(capabilities.versions)}
    return run, _run_calibrated(spec, network, plan, run, place, facts, progress)


def first_difference(one: RunDirectory, other: RunDirectory) -> str | None:
    """The first artifact and byte in which two runs differ; None if they are identical."""
    ours, theirs = set(one.artifacts()), set(other.artifacts())
    for name in sorted(ours | theirs):
        if name not in theirs or name not in ours:
            return f"{name} is only in {one.path if name in ours else other.path}"
        at = _first_differing_byte(one, other, name)
        if at is not None:
            sizes = f"{one.folder.size(name)} and {other.folder.size(name)}"
            return f"{name} differs from byte {at} on (sizes {sizes})"
    return None


def _first_differing_byte(one: RunDirectory, other: RunDirectory, name: str) -> int | None:
    at = 0
    with one.open(name) as ours, other.open(name) as theirs:
        while True:
            a, b = ours.read(BLOCK_BYTES), theirs.read(BLOCK_BYTES)
            if a != b:
                return at + next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            if not a:
                return None
            at += len(a)


def _environment(place: Place, shell: Shell | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **facts,
        "engine": place.engine,
        "real_time": place.engine == real.NAME or shell is not None,
        "engine_reason": place.reason,
        "kernel": asdict(place.kernel) if place.kernel else {"version": os.uname().release},
        "python": platform.python_version(),
        "mprun": code_digest(),
    }
