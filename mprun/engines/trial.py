# SPDX-License-Identifier: Apache-2.0
"""Ask an experiment kernel before a run what the run would refuse.

These are sysctls, congestion controls, schedulers, trace events and filters of captures.

The kernel is booted once, without a network. Filters are compiled inside it too, since they are from files of
strangers. The other answers are those of the kernel alone. They are kept in the user's cache, by the digest of the
kernel, so that a run can ask at each start.
"""

from __future__ import annotations

import contextlib
import fnmatch
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mprun.agent import sysctl, trace_event
from mprun.errors import MachineError, MprunError
from mprun.inputs.loading import Loaded, tell_cell
from mprun.inputs.user_configuration import configured_engine
from mprun.kernel import store
from mprun.kernel.store import DEFAULT_NAME, Kernel, find_kernel
from mprun.machine.cache import cache, locked
from mprun.machine.scratch import scratch, temporary
from mprun.model import engine_paths
from mprun.model.capabilities import DEFAULT_SCHEDULER, KERNEL_WIDE
from mprun.model.discipline import DISCIPLINES, Discipline
from mprun.model.engine_name import DEFAULT_ENGINE, EngineChoice
from mprun.model.grouping import gather
from mprun.model.problem import InputError, InputProblem, ValuePath, find_nearest
from mprun.model.spec import LinkChange, Spec
from mprun.safety.folder import Folder
from mprun.safety.text import printable

# Answer each question with a line: the names beside a sysctl that does not exist; the allowed values of a sysctl, or
# the trace events; the error of setting a sysctl; the error of a filter. `new` goes on in another network namespace.
_SCRIPT = """\
[ "$1" ] || exec < questions
while IFS= read -r question; do
    kind=${question%%:*} what=${question#*:}
    case $kind in
        name) [ -e "$what" ] || printf 'no %s' "$(ls "${what%/*}" | tr '\\n' ' ')"; echo ;;
        list) [ -e "$what" ] && tr '\\n' ' ' < "$what"; echo ;;
        new) echo; exec /usr/bin/unshare --net /bin/sh script more ;;
        sysctl) printf %s "${what#*=}" | tee "${what%%=*}" 2>&1 >/dev/null | tr '\\n' ' '; echo ;;
        *) tcpdump -y "$kind" -d -- "$what" 2>&1 >/dev/null | grep '^tcpdump: ' | tail -n 1 | tr '\\n' ' '; echo ;;
    esac
done
"""
# Only the first program inside may read the trace events, and not its children.
_EVENTS = "events"
_READ_EVENTS = f"""\
import ctypes, os
ctypes.CDLL(None).mount(b"tracefs", b"{trace_event.FOLDER}", b"tracefs", 0, None)
with open("{trace_event.FOLDER}/available_events") as events, open("{_EVENTS}", "w") as copy:
    copy.write(events.read())
os.execv("/bin/sh", ["sh", "script"])
"""
# The link types of a capture of one interface, and of all interfaces of a node.
ONE, ALL = "EN10MB", "LINUX_SLL2"
_TCPDUMP = "tcpdump: "
# The end of tee's error for a value that a sysctl refuses. Another error may have causes that a run does not have.
_REFUSED = "Invalid argument"
# The longest time in which the kernel may answer.
MOST_S = 60
# The most answers that are kept, and the most hosts with other sysctls whose values are tried.
MOST_KEPT, MOST_HOSTS = 1000, 100


def refuse_unknown(
    cells: Sequence[Loaded], engine: EngineChoice, name: str, strict: bool = False, for_run: bool = True
) -> list[str]:
    """Raise InputError for what a run on an experiment kernel would refuse, and for filters that tcpdump refuses.

    - engine, name: of the cells whose values name no engine and no kernel.
    - strict: also what the kernel of the machine may have is a problem.
    - for_run: ask no kernel for runs in the real engine, and only what a kernel has. Whether it takes a value of a
      sysctl depends on the other values, and a filter on tcpdump, so a kernel must be booted each time for them.

    Return warnings of what the kernel of a run may lack in the real engine. Raises MachineError for a kernel that does
    not start.
    """
    usual = (configured_engine() or DEFAULT_ENGINE) if engine == "auto" else engine

    def place_of(cell: Loaded) -> tuple[str, bool]:
        values = dict(cell.values)
        return str(values.get("kernel", name)), values.get("engine", usual) == "virtual"

    places = gather((place_of(cell), cell) for cell in cells)
    problems: dict[InputProblem, None] = {}
    warnings: dict[str, None] = {}
    for (kernel, is_virtual), own in places.items():
        if for_run and not is_virtual:
            continue
        try:
            refused, lacking = find_refusals(own, kernel, for_run)
        except MachineError as error:
            if kernel == name != DEFAULT_NAME:
                raise
            warnings[f"names that only a kernel knows were not checked: {error}"] = None
            continue
        found = [(position, text, True) for position, text in refused.items()]
        found += [(position, text, strict or is_virtual) for position, text in lacking.items()]
        for position, text, is_certain in found:
            shown = position[1:] if position[0] == "topology" else position
            problem = replace(own[0].problem(position, text), path=shown)
            if is_certain:
                problems[problem] = None
            else:
                warnings[str(problem)] = None
    if problems:
        raise InputError(list(problems))
    return list(warnings)


def find_refusals(
    cells: Sequence[Loaded], name: str, for_run: bool
) -> tuple[dict[ValuePath, str], dict[ValuePath, str]]:
    """Return the reasons why a kernel refuses values of an experiment, each by the value's place in the experiment.

    The first mapping has what no kernel accepts (filters), the second what this kernel lacks. Both are empty if no
    default kernel is built: then only a run can tell.

    cells: of one experiment. name: of the kernel. for_run: see `refuse_unknown`. Raises MachineError if the
    kernel does not start, or if no other kernel has this name.
    """
    specs = [cell.spec for cell in cells]
    # the same place may have another value in another cell
    filters: dict[tuple[ValuePath, str], None] = {
        (("capture", n, "filter"), f"{ALL if one.link is None else ONE}:{one.filter}"): None
        for spec in specs
        for n, one in enumerate(spec.experiment.captures)
        if not for_run and one.filter
    }
    if filters:
        from mprun.engines.agent_process import find_program

        filters = filters if find_program("tcpdump") else {}
    # each value with the first cell that has it
    hosts = {entry: cell for cell in cells[::-1] for entry in _find_sysctls(cell.spec)}
    chosen = {entry: cell for cell in cells[::-1] for entry in _find_choices(cell.spec)}
    traced = {one: ("tracepoints", n) for spec in specs for n, one in enumerate(spec.experiment.tracepoints)}
    # a run is refused before its kernel boots
    newer = {} if for_run else {place: known for spec in specs for place, known in _find_newer_disciplines(spec)}
    try:
        kernel = find_kernel(name)
    except MachineError:
        if name == DEFAULT_NAME:
            return {}, {}
        raise
    if not (filters or hosts or chosen or traced or newer):
        return {}, {}
    told = {place: store.find_lacking_discipline(kernel, known) for place, known in newer.items()}
    lacking = {place: text for place, text in told.items() if text is not None}
    names = list(dict.fromkeys(name for _, settings in hosts for name, _ in settings))
    # hosts with equal settings need one namespace
    tried = [] if for_run else list(dict.fromkeys(settings for _, settings in hosts))[:MOST_HOSTS]
    values = [[f"sysctl:{sysctl.path_of(name)}={value}" for name, value in settings] for settings in tried]
    constant, others = ask(
        kernel,
        [
            *map(_list_of, (sysctl.CONGESTION, sysctl.SCHEDULER)),
            *([f"list:{_EVENTS}"] * bool(traced)),
            *(f"name:{sysctl.path_of(name)}" for name in names),
        ],
        [*(question for one in values for question in ("new:", *one)), *(question for _, question in filters)],
    )
    answers = iter(constant)
    has = {name: next(answers).split() for name in (sysctl.CONGESTION, sysctl.SCHEDULER)}
    # a kernel without any event is refused before a run
    if events := next(answers).split() if traced else []:
        events.append(trace_event.PRINT)
        lacking |= {
            position: trace_event.explain_missing(one, events).replace("this kernel", f"kernel '{kernel.name}'")
            for one, position in traced.items()
            if not fnmatch.filter(events, one)
        }
    missing = {name: words[1:] for name in names if (words := next(answers).split())[:1] == ["no"]}
    answers = iter(others)
    # the first answer is that of the new namespace
    said = {one: [next(answers).strip() for _ in ("new", *one)][1:] for one in tried}
    for (host, settings), cell in hosts.items():
        for (name, value), error in zip(settings, said.get(settings, [""] * len(settings)), strict=True):
            place = ("hosts", host, "sysctl", name)
            folder, _, word = name.rpartition(".")
            if name in missing:
                near = find_nearest(word, missing[name])
                hint = f": did you mean '{folder}.{near}'?" if near else ""
                lacking[place] = f"kernel '{kernel.name}' has no sysctl {name}{hint}{tell_cell(cell.values)}"
            elif error.endswith(_REFUSED) and name not in sysctl.CHOICES:
                text = f"'{value}' is no value of this sysctl for kernel '{kernel.name}'"
                lacking[place] = text + tell_cell(cell.values)
    for (position, name, value), cell in chosen.items():
        if value not in has[name]:
            noun = name.rsplit(".", 1)[1].removeprefix("tcp_").replace("_", " ")
            near = find_nearest(value, has[name])
            hint = f": did you mean '{near}'?" if near else f"; it has: {', '.join(has[name])}{sysctl.remedy_of(name)}"
            lacking[position] = f"kernel '{kernel.name}' has no {noun} '{value}'{hint}{tell_cell(cell.values)}"
    errors = [(position, next(answers).strip().removeprefix(_TCPDUMP)) for position, _ in filters]
    return {position: f"is no filter for tcpdump: {text}" for position, text in errors if text}, lacking


def _find_sysctls(spec: Spec) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Yield the hosts of an experiment that have sysctls, each with their names and values in order.

    Sysctls of interfaces are left out, as they exist only in a run, and those of the whole kernel, which no other
    network namespace has.
    """
    for host, settings in spec.experiment.hosts.items():
        own = [one for one in settings.sysctl if not _is_of_interface(one[0]) and one[0] not in KERNEL_WIDE]
        if own:
            yield host, tuple(own)


def _find_newer_disciplines(spec: Spec) -> Iterator[tuple[ValuePath, Discipline]]:
    """Yield the link and the discipline of each queue whose discipline the default kernel does not have."""
    changes = [change for change in spec.topology.changes if isinstance(change, LinkChange)]
    ways = [(link.name, (link.forward, link.reverse)) for link in spec.topology.links]
    ways += [(change.link, (change.forward, change.reverse)) for change in changes]
    for name, both in ways:
        for way in both:
            if way.queue is not None and (known := DISCIPLINES[way.queue.discipline]).since is not None:
                yield ("topology", name, "queue"), known


def _is_of_interface(name: str) -> bool:
    words = {*name.split(".")}
    return bool({"conf", "neigh"} & words) and not {"all", "default"} & words


def _find_choices(spec: Spec) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield place, sysctl and value of the congestion controls and schedulers that a file names."""
    for n, flow in enumerate(spec.experiment.traffic):
        if flow.congestion and flow.protocol in sysctl.CONTROLLED:
            yield ("traffic", n, "congestion"), sysctl.CONGESTION, flow.congestion
    for host, settings in spec.experiment.hosts.items():
        for link, value in settings.congestion:
            yield ("hosts", host, "congestion", link), sysctl.CONGESTION, value
        for name, value in settings.sysctl:
            if name in sysctl.CHOICES:
                yield ("hosts", host, "sysctl", name), name, value
        if settings.mptcp.scheduler != DEFAULT_SCHEDULER:
            yield ("hosts", host, "mptcp", "scheduler"), sysctl.SCHEDULER, settings.mptcp.scheduler


def find_schedulers(kernel: Kernel) -> list[str]:
    """Return the MPTCP schedulers of an experiment kernel. Raises MachineError if the kernel does not start."""
    [[names], _] = ask(kernel, [_list_of(sysctl.SCHEDULER)], [])
    return names.split()


def _list_of(name: str) -> str:
    """Return the question for the allowed values of a sysctl."""
    return f"list:{sysctl.path_of(sysctl.CHOICES[name])}"


def boot_and_ask(kernel: Kernel, questions: Sequence[str]) -> list[str]:
    """Boot a kernel, and return its answer to each question."""
    # the answers about most files are in the cache
    from mprun.engines.guest import Guest, booted

    with scratch("mprun-trial-", temporary()) as path:
        folder = Folder(path)
        folder.write_text("script", _SCRIPT)
        folder.write_text("first.py", _READ_EVENTS)
        folder.write_text("questions", "".join(f"{' '.join(question.split())}\n" for question in questions))
        first = ("/usr/bin/python3", "-IS", "first.py") if f"list:{_EVENTS}" in questions else ("/bin/sh", "script")
        argv = ("/usr/bin/unshare", "--net", *first)
        guest = Guest(
            argv=argv, cwd=engine_paths.RUN, log=f"{engine_paths.RUN}/answers", opened={path: engine_paths.RUN}
        )
        # a filter may keep its compiler busy
        is_patient = contextlib.suppress(subprocess.TimeoutExpired)
        with folder.create("console.log") as console, booted(kernel, guest, console) as process, is_patient:
            process.wait(MOST_S)
        answers = folder.read_text("answers").splitlines() if folder.has("answers") else []
        last = answers or folder.read_text("console.log").split("\n")
    if len(answers) != len(questions):
        said = printable(" ".join(" ".join(last).split())[-300:])
        raise MachineError(f"the experiment kernel '{kernel.name}' gave no answers: {said}")
    return answers


def ask(kernel: Kernel, constant: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return an answer to each question, from a namespace of the kernel as a run's hosts have.

    constant: questions whose answers are those of the kernel alone. They may come from the cache. others: in order.
    """
    # another script may have other answers
    name = f"{kernel.digest}-{zlib.crc32(_SCRIPT.encode()):08x}.json"
    folder = None
    known: dict[str, str] = {}
    # without a cache, each question is asked
    with contextlib.suppress(MprunError, OSError, ValueError, TypeError):
        folder = cache("trials")
        known = {str(question): str(answer) for question, answer in dict(Folder(folder).read_json(name)).items()}
    asked = [question for question in dict.fromkeys(constant) if question not in known]
    answers = boot_and_ask(kernel, [*asked, *others]) if asked or others else []
    known |= zip(asked, answers, strict=False)
    if asked and folder is not None:
        with contextlib.suppress(MprunError, OSError), locked(folder):
            Folder(folder).write_json(name, dict([*known.items()][-MOST_KEPT:]))
    return [known[question] for question in constant], answers[len(asked) :]
