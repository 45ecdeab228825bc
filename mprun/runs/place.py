# SPDX-License-Identifier: Apache-2.0
"""The place of a run: its engine, the kernel that the engine boots, and the consent that commands in files need."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import cast

from mprun.engines.registry import ENGINES, Engine
from mprun.errors import MachineError, SpecError
from mprun.inputs.user_configuration import configuration_path, configured_engine
from mprun.kernel.store import DEFAULT_NAME, Kernel, find_update, is_current, list_kernels
from mprun.machine.machine_kind import identify, refuse_other_systems
from mprun.model.engine_name import DEFAULT_ENGINE, EngineChoice, EngineName
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.run_files import RunEnvironment
from mprun.model.scalar import Scalar
from mprun.model.spec import Spec
from mprun.safety import landlock
from mprun.workloads.tool import tool_of

# The commands of files that are listed before a user consents.
MOST_TOLD = 20

UNCONFINED = "no Landlock: programs of a run can read files of this machine"


class Place(Frozen):
    """The place of a run: an engine, with the reason for its choice. kernel: the kernel that it boots; None if none."""

    name: EngineName
    reason: str
    kernel: Kernel | None

    @property
    def engine(self) -> Engine:
        return ENGINES[self.name]

    @property
    def kernel_name(self) -> str:
        """The name of the kernel that the engine boots; `default` if it boots none."""
        return self.kernel.name if self.kernel else DEFAULT_NAME


def choose_place(wanted: EngineChoice, kernel_name: str) -> Place:
    """Return the place of a run.

    - wanted: the engine on the command line. `auto` selects the engine of the user's configuration, or the default
      engine. If this engine cannot be used, no other engine is tried.
    - kernel_name: the name or the digest of the kernel for an engine that boots one.

    Raises MachineError with what is missing and a remedy; on a system other than Linux, before anything is read. Raises
    SpecError for a faulty configuration, and for the name of a kernel if the engine boots none.
    """
    refuse_other_systems(identify())
    name, reason = DEFAULT_ENGINE, "the default: simulated time, repeatable"
    # naming a kernel selects the engine that boots it
    is_open = wanted == "auto" and kernel_name == DEFAULT_NAME
    if wanted != "auto":
        name, reason = wanted, "as asked"
    elif kernel_name == DEFAULT_NAME and (configured := configured_engine()):
        name, reason = configured, f"as {configuration_path()} says"
    try:
        kernel = ENGINES[name].find_kernel(kernel_name)
    except MachineError as error:
        advice = "; or run on this machine's own kernel, in real time: add `--engine real`" if is_open else ""
        raise MachineError(f"{error}{advice}") from None
    if kernel is None:
        if kernel_name != DEFAULT_NAME:
            told = f"the {name} engine runs on this machine's own kernel and does not boot kernel '{kernel_name}'"
            raise SpecError(f"{told}: leave out the kernel, or use --engine virtual")
        return Place(name, reason, None)
    if kernel_name != DEFAULT_NAME:
        reason = f"kernel {kernel_name}, {kernel.version} {kernel.digest[:12]}"
        # a developer may keep an older kernel on purpose, to compare another kernel with it
        if not is_current(kernel):
            reason += ", built by another version of mprun: build it again for what has changed"
    elif not is_current(kernel):
        raise MachineError(f"the experiment kernel is of another version of mprun; {find_update(kernel)}")
    if note := tell_unconfined():
        reason += f"; {note}"
    return Place(name, reason, kernel)


def choose_place_of(values: Iterable[tuple[str, Scalar]], engine: EngineChoice, kernel_name: str) -> Place:
    """Return the place of a cell: the engine and the kernel among its values, or else those that were asked for.

    values: of the axes of the matrix. Raises as `choose_place` and `refuse_machine_kernel`.
    """
    chosen = {"engine": engine, "kernel": kernel_name} | dict(values)
    named = cast(EngineChoice, chosen["engine"])
    refuse_machine_kernel(named, engine)
    return choose_place(named, str(chosen["kernel"]))


def choose_control(name: str, kernel: str, option: str = "--control") -> Place:
    """Return the place of control runs.

    - kernel: the kernel of the other runs, which must have another name. Its digest may be the same, to test a study.
    - option: the place in the command or in the file that names the control.

    Raises SpecError for the name of the kernel itself, and as `choose_place`.
    """
    if name == kernel:
        raise SpecError(f"{option}: {name} is the kernel of the other runs too: name another, or give --kernel")
    return choose_place("virtual", name)


def tell_unconfined() -> str | None:
    """Return a warning if this machine cannot keep programs of a run from its files; None if it can."""
    return None if landlock.abi() else f"this machine has {UNCONFINED}"


def refuse_machine_kernel(named: EngineChoice, asked: EngineChoice) -> None:
    """Raise SpecError if a file names an engine on the host's kernel that the user did not ask for.

    The file may come from a stranger, and such an engine runs it on the user's own kernel.

    - named: the engine that the file names.
    - asked: the engine on the command line; `auto` stands for the user's configuration.
    """
    if named == "auto" or not ENGINES[named].IS_ON_MACHINE_KERNEL:
        return
    if (configured_engine() if asked == "auto" else asked) != named:
        raise SpecError(
            f"these files ask for the {named} engine, which runs them on this machine's own kernel: if you want that, "
            f"add --engine {named}"
        )


def refuse_commands(specs: Iterable[Spec], consent: Consent, engine: EngineName) -> None:
    """Raise SpecError with the commands in files, unless the user consents to all that they can do.

    specs: of all cells, which may have other commands.
    """
    found = dict.fromkeys(
        f"{flow.name}: {line}"
        for spec in specs
        for flow in spec.experiment.traffic
        for line in getattr(tool_of(flow), "commands", lambda _: ())(flow)
    )
    if found and (lacking := _lacking_consent(consent, ENGINES[engine])):
        more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
        raise SpecError([f"this experiment runs commands of its own{lacking}", *[*found][:MOST_TOLD], *more])


def _lacking_consent(consent: Consent, engine: Engine) -> str | None:
    if not consent.commands:
        return "; if you want them, add --allow-exec"
    if not consent.unconfined and not landlock.abi():
        return ", and this machine has no Landlock that keeps them from your files; if you trust them, add --unconfined"
    if engine.IS_ON_MACHINE_KERNEL and os.geteuid() == 0 and not consent.as_root:
        return (
            ", as root on this machine's own kernel; if you want that, add --allow-exec-as-root, else run it without "
            "root's rights or with --engine virtual"
        )
    return None


def find_kernel(environment: RunEnvironment, engine: EngineName = DEFAULT_ENGINE) -> str:
    """Return the name of the kernel on this machine that a run used; `default` if it is not here.

    engine: that of a repetition. For an engine that boots no kernel, the name is `default`.
    """
    if ENGINES[engine].IS_ON_MACHINE_KERNEL:
        return DEFAULT_NAME
    names = [kernel.name for kernel in list_kernels() if kernel.digest == environment.kernel.digest]
    return names[0] if names and DEFAULT_NAME not in names else DEFAULT_NAME
