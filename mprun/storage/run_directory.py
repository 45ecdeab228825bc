# SPDX-License-Identifier: Apache-2.0
"""The layout of a run directory, and its only reader and writer.

```
runs/<time>-<topology>-<experiment>-<digest8>/
    inputs/            the user's files, and resolved-{topology,experiment}.yaml with all defaults
    inputs/files/      archives of files that entries take with them (`mprun.inputs.attachment`)
    plan.json          the plan, with the digest of the intent
    environment.json   engine, kernel, versions of programs, version of mprun
    steps.jsonl        each step: planned time, actual time, exit status
    wall.json          real time at which each phase began: never repeats
    stops.json         system calls and faults of each program in a virtual run: differ by host
    changed.json       only if files of this machine changed during a virtual run: their paths
    agent.json         the agent's report: read-back, ends of processes, counters
    record.gz          the kernel's messages on connections, and samples (mprun.agent.record)
    logs/  pcap/       output of each process, and its account for people (.log); captures
    links/             concatenated files, if the experiment gives several files one name
    files/<flow>/      files that the programs of a flow left
    products/<flow>/   files that the `build` of a flow made
    tables/*.parquet   a row for each observation; units are in the names of columns; tables of captures
                       (FROM_CAPTURES) are made on demand, with their origin in packets.json
    summary.json       metrics, expectations, warnings
    report.html        made on demand, with figures/<name>.{svg,pdf,png,csv}
```
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mprun.errors import MachineError, MprunError, RunError, SpecError, explain_machine
from mprun.machine import invoking_user
from mprun.model.codec import PLAIN, JsonProblem
from mprun.model.problem import find_nearest, name_nearest
from mprun.model.run_files import Phase, RunEnvironment, StepRecord, Stops
from mprun.model.run_summary import Summary
from mprun.safety.folder import Folder, UnsafeError, parse_json
from mprun.safety.text import make_printable, name_some, plain, printable
from mprun.storage.table import is_of_polars, open_table, pack, writing

if TYPE_CHECKING:
    import polars

    from mprun.machine.changed_files import FileChanges
    from mprun.model.agent_report import AgentReport
    from mprun.model.plan import Plan
    from mprun.model.sweep_files import SweepSummary

T = TypeVar("T")
OutputT = TypeVar("OutputT", bound="OutputDirectory")

LATEST = "latest"
# Fewer names than this are listed in a message.
FEW = 6
RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT = "resolved-topology.yaml", "resolved-experiment.yaml"
FIGURES = "figures"
# The beginnings of the names of folders beside the runs: a page of the published figures of a lab, and a comparison.
PAGE_PREFIX, COMPARISON_PREFIX = "figures-", "comparison-"
INCOMPLETE = "incomplete"
MOST_STEPS_BYTES = 256 << 20
MOST_OUTPUT_BYTES = 512 << 20
# Smaller than the blocks that malloc(3) takes from the system and gives back each time.
PIECE_BYTES = 64 << 10
# The log of a kernel: the first messages, about the machine, depend on the host.
KERNEL_LOG = "kernel_log"
# Tables that are made from the captures on demand: of what a repetition must reproduce these are no part.
FROM_CAPTURES = ("packets", "connections", "subflows", "one_way_delays")


# The errors of flock(2) on a file system that has no locks.
_WITHOUT_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# The beginning of the name of a run or a sweep.
_SECOND = re.compile(r"\d{8}-\d{6}(?=-)")


class OutputDirectory:
    """The directory of a run or a sweep. Only `folder` opens its files: a stranger or a program may have made them.

    - NAME: the form of the name that it is made with, with the title and the beginning of the digest.
    - RECORD: a file that each has.
    - IS_NAMED_FIRST: it gets its name before its record.
    - LOCK: a file that is locked as long as a process works on it.
    """

    NAME: ClassVar[re.Pattern[str]]
    RECORD: ClassVar[str]
    LOCK: ClassVar[str]
    IS_NAMED_FIRST: ClassVar[bool] = False

    def __init__(self, folder: Path | Folder) -> None:
        self.folder = folder if isinstance(folder, Folder) else Folder(folder)
        self.path = self.folder.path

    @classmethod
    def is_at(cls, path: Path) -> bool:
        """Return whether a path is listed: a directory with a record, whatever its name, or one that will get it."""
        name = path.name
        # a name with other characters cannot be typed, and a terminal may obey it
        is_foreign = path.is_symlink() or name.startswith(".") or not name.isprintable()
        is_begun = cls.IS_NAMED_FIRST and cls.NAME.match(name)
        return not is_foreign and (bool(is_begun) or has_record(cls, path))

    @property
    def name(self) -> str:
        """The name of the directory. Of a run in a sweep, it is only the number of the repetition."""
        return self.path.name

    @property
    def short_digest(self) -> str:
        """The first 8 digits of the digest, from the name; empty if the name has none."""
        match = self.NAME.match(self.name)
        return match["digest"] if match else ""

    @property
    def is_held(self) -> bool:
        """True if a process is working on it."""
        try:
            with self.folder.locked(self.LOCK, fcntl.LOCK_SH | fcntl.LOCK_NB, create=False):
                return False
        except BlockingIOError:
            return True
        except (OSError, UnsafeError):
            return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block, if the file system has locks. Raises RunError if another process holds it."""
        with contextlib.ExitStack() as holding:
            try:
                holding.enter_context(self.folder.locked(self.LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise RunError(f"{self.path}: another mprun is running this {self._kind()}") from None
            except OSError as error:
                if error.errno not in _WITHOUT_LOCKS:
                    raise
            yield

    @classmethod
    def _kind(cls) -> str:
        return cls.__name__.removesuffix("Directory").lower()

    def has(self, name: str) -> bool:
        """Return whether a regular file of this name exists, such as `plan.json`."""
        return self.folder.has(name)

    def read(self, name: str, form: type[T]) -> T:
        """Return a JSON file as a value of the type `form`. Raises MprunError if the file is missing or damaged."""
        return self._decode(name, lambda: self.folder.read_json(name), lambda value: PLAIN.decode(form, value))

    def _decode(self, name: str, read: Callable[[], Any], decode: Callable[[Any], T]) -> T:
        """Return a file as `decode` converts what is read. The file's texts are made printable first."""
        try:
            value = make_printable(read())
        except (FileNotFoundError, NotADirectoryError):
            raise self.tell_missing(name) from None
        except ValueError as error:
            raise damaged(self.path / name, str(error)) from None
        try:
            return decode(value)
        except JsonProblem as problem:
            raise damaged(self.path / name, f"{plain(problem)[:200]} is not of its form") from None

    def tell_missing(self, name: str) -> MprunError:
        """Return the error for a file that does not exist: the run or sweep ended before it, or it was removed."""
        kind = self._kind()
        is_lost = self.has("summary.json") or (kind == "run" and not self.has(INCOMPLETE))
        why = "the file is missing" if is_lost else f"the {kind} did not get so far"
        return MprunError(f"{self.path}: no {name}: {why}")

    def inputs(self) -> dict[str, str]:
        """Return the text of each file in `inputs`, by name."""
        names = [one for one in self.folder.find("inputs/*") if one.isprintable()]
        return {one.partition("/")[2]: printable(self.folder.read_text(one)) for one in names}

    def write_summary(self, summary: Summary | SweepSummary) -> None:
        """Write `summary.json`, completely or not at all."""
        self.folder.write_json("summary.json", summary.to_json())

    def write_tables(self, tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame]) -> None:
        """Write each table as `tables/<name>.parquet`, completely or not at all.

        A table is a frame, or its columns as for `make_frame`.
        """
        if not tables:
            return
        import polars

        self.folder.make("tables")
        for name, table in tables.items():
            frame = table if isinstance(table, polars.DataFrame) else make_frame(table)
            self.folder.write_bytes(f"tables/{name}.parquet", pack(frame))

    def find_table(self, name: str) -> polars.LazyFrame | None:
        """Return a table by its name; None if it does not exist. Its content is read only when it is used.

        Raises MprunError if the table is damaged.
        """
        file = f"tables/{name}.parquet"
        return read_table(self.folder, file) if self.has(file) else None

    def write_report(self, page: str, figures: Mapping[str, bytes]) -> Path:
        """Write the page of the report, and replace its figures. Return the path of the page.

        figures: the content of each figure by its file name.
        """
        return write_page(self.folder, page, figures)

    def _remove(self, name: str, list_left: Callable[[Path], Sequence[OutputDirectory]]) -> None:
        """Delete the directory. A link of this name that pointed at it then points at the newest that is left."""
        shutil.rmtree(self.path)
        parent = self.path.parent
        link = parent / name
        if link.is_symlink() and os.readlink(link) == self.name:
            link.unlink()
            if left := list_left(parent):
                point(link, left[-1].name)


class RunDirectory(OutputDirectory):
    """The directory of a run."""

    NAME = re.compile(r"^(?P<time>\d{8}-\d{6})-(?P<title>.*)-(?P<digest>[0-9a-f]{8})(\.\d+)?$")
    RECORD = "plan.json"
    LOCK = INCOMPLETE
    IS_NAMED_FIRST = True

    @classmethod
    def create(cls, parent: Path, title: str, digest: str) -> RunDirectory:
        """Make a new directory under `parent` and point `latest` at it. An existing directory is never used.

        - title: `TOPOLOGY-EXPERIMENT`, for people.
        - digest: the digest of the run's intent, of which the name gets the first 8 digits.

        Raises MachineError if the directory cannot be made.
        """
        return cls.lay_out(cls.reserve(parent, title, digest))

    @classmethod
    def reserve(cls, parent: Path, title: str, digest: str) -> Path:
        """Return an empty directory with the name of a new run. Raises MachineError if it cannot be made."""
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{title}-{digest[:8]}"
        with making_in(parent, LATEST):
            path = take_name(parent, stem, "", lambda path: path.mkdir())
        point(parent / LATEST, path.name)
        invoking_user.give_at_exit(path)
        return path

    @classmethod
    def lay_out(cls, path: Path) -> RunDirectory:
        """Prepare an existing empty directory for a run, marked as incomplete, and return it."""
        run = cls(path)
        for name in ("inputs", "logs", "pcap"):
            run.folder.make(name)
        run.folder.write_bytes(INCOMPLETE, b"")
        return run

    @property
    def title(self) -> str:
        """The title that `create` got. For a run of a sweep: the sweep's title."""
        match = self._match_name()
        return match[2] if match else self.name

    @property
    def long_name(self) -> str:
        """The run's name.

        For a run of a sweep, which only has a number: the sweep's time and title, and the run's digest.
        """
        match = self._match_name()
        if match is None or match.string == self.name:
            return self.name
        return f"{match[1]}-{match[2]}-{self.digest[:8]}"

    def _match_name(self) -> re.Match[str] | None:
        """The match of its own directory's name, or of the sweep's that has it as `runs/CELL/NUMBER`."""
        path = self.path.resolve()
        above = path.parents[2].name if len(path.parents) > 2 and path.parents[1].name == "runs" else ""
        return self.NAME.match(self.name) or self.NAME.match(above.removesuffix("-sweep"))

    @property
    def is_complete(self) -> bool:
        """True if the run has ended and its results are complete."""
        return not self.folder.has(INCOMPLETE)

    def mark_complete(self) -> None:
        """Remove the mark that the run is incomplete. Call this when all results are written."""
        self.folder.remove(INCOMPLETE)

    def keep_inputs(self, files: Mapping[str, str]) -> None:
        """Write the user's files into `inputs`. files: the text of each file by its name."""
        for name, text in files.items():
            self.folder.write_text(f"inputs/{name}", text)

    def environment(self) -> RunEnvironment:
        """Return the engine, the kernel and the programs that made the run (`environment.json`).

        Raises MprunError if the file is missing or damaged.
        """
        return self.read("environment.json", RunEnvironment)

    def wall_s(self) -> float:
        """Return the real time of the run in s, or 0 if it is not known. Raises MprunError if the file is damaged."""
        phases = self.read("wall.json", tuple[Phase, ...]) if self.has("wall.json") else ()
        return phases[-1].wall_s if phases else 0.0

    def stops(self) -> tuple[Stops, ...]:
        """Return how often the experiment kernel stopped each program (`stops.json`).

        Raises MprunError if the file is missing or damaged.
        """
        return self.read("stops.json", tuple[Stops, ...])

    def changed_files(self) -> FileChanges:
        """Return the files of this machine that changed during the run. Raises MprunError if the file is damaged."""
        from mprun.machine.changed_files import FileChanges

        has_changes = self.has("changed.json")
        return self.read("changed.json", FileChanges) if has_changes else FileChanges()

    def summary(self) -> Summary:
        """Return the summary of the run. Raises MprunError if it is missing or damaged."""
        return self.read("summary.json", Summary)

    def agent_report(self) -> AgentReport:
        """Return the report of the agent (`agent.json`). Raises MprunError if it is missing or damaged."""
        from mprun.model.agent_report import AgentReport

        return self.read("agent.json", AgentReport)

    def plan(self) -> Plan:
        """Return the plan of the run. Raises MprunError if it is missing or damaged."""
        return self._read_plan()[0]

    @property
    def digest(self) -> str:
        """The digest of the run's intent, in hexadecimal. Raises MprunError if the plan is missing or damaged."""
        return self._read_plan()[1]

    def _read_plan(self) -> tuple[Plan, str]:
        # a command that reads no plan does not wait for the values of one
        from mprun.model.intent.intent_file import digest_of
        from mprun.model.plan import Plan

        def decode(value: Any) -> tuple[Plan, str]:
            try:
                plan = Plan.from_json(value)
            except MprunError as error:
                raise MprunError(f"{self.path / 'plan.json'}: {error}") from None
            if digest_of(value["intent"]) != value.get("digest"):
                raise damaged(self.path / "plan.json", "its digest is not that of its intent")
            return plan, value["digest"]

        return self._decode("plan.json", lambda: self.folder.read_json("plan.json"), decode)

    def record(self) -> Iterator[bytes]:
        """Yield the content of `record.gz` in pieces; nothing if the run ended before the file was written."""
        with contextlib.suppress(FileNotFoundError):
            yield from self.pieces("record.gz")

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in pieces, such as that of a capture, which may be large."""
        with self.folder.open(name) as file:
            yield from iter(functools.partial(file.read, PIECE_BYTES), b"")

    def steps(self) -> tuple[StepRecord, ...]:
        """Return the steps with their times, in their order (`steps.jsonl`).

        Raises MprunError if the file is missing or damaged.
        """

        def read() -> list[Any]:
            lines = self.folder.read_bytes("steps.jsonl", MOST_STEPS_BYTES).splitlines()
            return [parse_json(line) for line in lines]

        return self._decode("steps.jsonl", read, lambda value: PLAIN.decode(tuple[StepRecord, ...], value))

    def lost_files(self) -> list[str]:
        """Return the names of the files that the run wrote before its results, and that no longer exist."""
        ended = self.agent_report().processes if self.has("agent.json") else ()
        raw = ("agent.json", "record.gz", "steps.jsonl") if self.is_complete and self.has("summary.json") else ()
        return [name for name in (*(f"logs/{one}.err" for one in ended), *raw) if not self.has(name)]

    def log(self, process: str, stream: str = "out") -> str:
        """Return the output of a process as text; empty if the process never started. stream: `out` or `err`."""
        try:
            return self.folder.read_text(f"logs/{process}.{stream}", MOST_OUTPUT_BYTES)
        except FileNotFoundError:
            return ""

    def flow_file(self, flow: str, name: str) -> bytes | None:
        """Return the content of a file that the programs of a flow left; None if it does not exist."""
        file = f"files/{flow}/{name}"
        return self.folder.read_bytes(file, MOST_OUTPUT_BYTES) if self.folder.has(file) else None

    def write_accounts(self, accounts: Mapping[str, str]) -> None:
        """Write `logs/<name>.log`: the output of processes in a form that is easy to read, by the processes' names."""
        for name, text in accounts.items():
            self.folder.write_text(f"logs/{name}.log", text)

    def link_into(self, folder: Path, links: Mapping[str, str]) -> tuple[list[str], list[tuple[str, str]]]:
        """Make symbolic links in a folder that point to files of this run.

        Only links of an earlier run are removed or replaced.

        links: for each name, a pattern of files relative to the run. If several files match, they are concatenated
        into a file of `links/`. Return the names that were linked, and each other name with the reason.
        """
        self.clear_links(folder, links)
        made, refused = [], []
        for name, pattern in links.items():
            found = self.folder.find(pattern)
            if not found:
                above = pattern.rpartition("/")[0]
                there = self.folder.find(f"{above}/*" if above else "*")
                refused.append((name, f"this run has no {pattern}{name_nearest(pattern, there, 'it has')}"))
            elif (folder / name).exists() and not (folder / name).is_symlink():
                refused.append((name, "a file with this name exists, and is kept"))
            else:
                target = found[0] if len(found) == 1 else self._join(name, found)
                point(folder / name, os.path.relpath(self.path / target, folder))
                made.append(name)
        return made, refused

    @classmethod
    def clear_links(cls, folder: Path, names: Iterable[str]) -> None:
        """Remove links that `link_into` made for earlier runs, so that none leads to an older run than the newest."""
        for link in (folder / name for name in names):
            if link.is_symlink() and any(cls.NAME.match(part) for part in link.readlink().parts):
                link.unlink()

    def _join(self, name: str, files: Sequence[str]) -> str:
        self.folder.make("links")
        with self.folder.whole(f"links/{name}") as joined:
            for one in files:
                with self.folder.open(one) as part:
                    shutil.copyfileobj(part, joined)
        return f"links/{name}"

    @property
    def resolved_inputs(self) -> tuple[Path, Path]:
        """The paths of the resolved topology and the resolved experiment, which have all defaults.

        Raises MprunError if one of them does not exist. Raises UnsafeError if one of them is no regular file of this
        run, because the reader of inputs follows links.
        """
        names = (f"inputs/{RESOLVED_TOPOLOGY}", f"inputs/{RESOLVED_EXPERIMENT}")
        for name in names:
            try:
                self.folder.open(name).close()
            except FileNotFoundError:
                raise self.tell_missing(name) from None
        return self.path / names[0], self.path / names[1]

    @property
    def has_resolved_inputs(self) -> bool:
        """True if both resolved files exist."""
        return all(self.folder.has(f"inputs/{name}") for name in (RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT))

    def write_frames(self, name: str, schema: Mapping[str, type], frames: Iterable[polars.DataFrame]) -> None:
        """Write a table from a sequence of frames, completely or not at all.

        Few of the frames are in memory at a time. schema: the type of each column, by name.
        """
        import polars
        from polars.io.plugins import register_io_source

        self.folder.make("tables")

        def source(*_: object) -> Iterator[polars.DataFrame]:
            yield from frames

        file_name = f"tables/{name}.parquet"
        with writing(self.path / file_name), self.folder.whole(file_name) as file:
            register_io_source(source, schema=polars.Schema(schema)).sink_parquet(file)

    def captures(self) -> dict[str, str]:
        """Return the file of each capture, relative to the run, by the capture's name."""
        return {_stem(name): name for name in self.folder.find("pcap/*.pcap") if name.isprintable()}

    def need_captures(self) -> dict[str, str]:
        """Return the captures. Raises MprunError if there are none."""
        found = self.captures()
        if not found:
            lost = f"its captures were removed: `mprun verify --keep {self.name}` makes them again"
            why = lost if self.plan().intent.captures else "write `capture: [{host: client}]` in the experiment"
            raise MprunError(f"{self.path}: no captures: {why}")
        return found

    def tables(self) -> Iterator[tuple[str, polars.LazyFrame]]:
        """Yield the name and the content of every table. The content is read from the file only when it is used.

        Raises MprunError if a table is damaged.
        """
        for name in self.folder.find("tables/*.parquet"):
            if name.isprintable():
                yield _stem(name), read_table(self.folder, name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table; none if the run has no such table. Raises MprunError if a table is damaged."""
        table = self.find_table(name)
        return [] if table is None else table.collect().to_dicts()

    @property
    def has_tables(self) -> bool:
        """True if the run has tables other than those that are made from captures."""
        return any(_stem(name) not in FROM_CAPTURES for name in self.folder.find("tables/*.parquet"))

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Yield the address and the node of every address of an interface."""
        for node in self.plan().intent.nodes:
            for interface in node.interfaces:
                for address in interface.addresses:
                    yield str(address.ip), node.name

    def left_files(self) -> list[str]:
        """Return the names of captures, of files that programs of flows wrote, and of products of builds."""
        return [name for pattern in ("pcap/*", "files/**/*", "products/**/*") for name in self.folder.find(pattern)]

    def remove(self) -> None:
        """Delete the run. If `latest` pointed at it, it then points at the newest remaining run."""
        self._remove(LATEST, list_runs)

    def drop_captures(self) -> None:
        """Remove the captures, which take most of the room. A repetition of the run makes them again."""
        self.folder.remove_tree("pcap")

    def artifacts(self) -> Iterator[str]:
        """Yield the names of the files that a repetition must reproduce byte by byte."""
        files = ("logs/*.out", "files/*/*", "products/**/*", "tables/*.parquet")
        for pattern in ("pcap/*.pcap", "summary.json", "calibration.json", "steps.jsonl", *files):
            for name in self.folder.find(pattern):
                if not (name.endswith(".parquet") and _stem(name) in (*FROM_CAPTURES, KERNEL_LOG)):
                    yield name


def find(parent: Path, name: str) -> RunDirectory:
    """Return a run by its path, its name, the beginning of its name, its digest, or `latest`.

    parent: the folder of runs. Raises SpecError if no run or several runs match.
    """
    if found := find_named((RunDirectory,), parent, name, list_runs):
        return found
    for candidate in (Path(name), parent / name):
        if (candidate / "sweep.json").is_file():
            raise SpecError(f"{name} is a sweep: name one of its runs, as in {candidate}/runs/CELL/1")
        if (candidate / "inputs").is_dir():
            record = "sweep.json" if (candidate / "runs").is_dir() else "plan.json"
            raise damaged(candidate / record, "the file is missing")
        if candidate.exists():
            # few operands are no result, and the import is expensive
            import zipfile

            if candidate.is_file() and zipfile.is_zipfile(candidate):
                raise SpecError(f"{name} is a bundle: `mprun verify {name}` makes its runs again")
            is_named_so = candidate.suffix == ".zip"
            what = "has no plan.json" if candidate.is_dir() else "is no bundle" if is_named_so else "is a file"
            inside = [str(candidate / one) for one in _list_inside(candidate, "plan.json")]
            remedy = f"name a run in it: {name_some(inside, 5)}" if inside else "name the directory of a run or a sweep"
            raise SpecError(f"{name} {what}: {remedy}")
    if "/" in name or name.endswith(".zip"):
        above = Path(name).parent
        there = _list_inside(above, "*.json") if "/" in name else []
        archives = Folder(above).find("*.zip") if above.is_dir() else []
        bundles = {one.partition(".")[0]: one for one in archives}
        near = find_nearest(Path(name).name, there) or bundles.get(find_nearest(Path(name).stem, [*bundles]) or "")
        few = f"{above} has {', '.join(there)}" if 0 < len(there) < FEW else "no file or directory has this path"
        hint = f"did you mean '{above / near}'?" if near else few
        raise SpecError(f"no run '{name}' here or in {parent}; {hint}")
    if Path(f"{name}.zip").is_file():
        raise SpecError(f"no run '{name}' here or in {parent}: did you mean '{name}.zip'?")
    if runs := list_runs(parent):
        links = [LATEST] if (parent / LATEST).exists() else []
        near = find_nearest(name, [*links, *(run.name for run in runs)])
        advice = f"did you mean '{near}'?" if near else "`mprun runs list` lists the runs"
        if name == LATEST:
            advice = f"this link is missing or leads to no run; the newest run is {runs[-1].name}"
        elif name == "latest-sweep":
            advice = "there is no sweep: `mprun sweep` makes one"
    elif sweeps := Folder(parent).find("*-sweep/sweep.json"):
        count = f"{len(sweeps)} sweep{'' if len(sweeps) == 1 else 's'}"
        advice = f"{parent} has {count}: {name_some([one.partition('/')[0] for one in sweeps], 4)}"
    elif below := _list_below(Path()):
        advice = f"there are runs in {', '.join(map(str, below[:4]))}: add -o {below[0]}"
    elif not parent.exists() and parent != Path("runs"):
        advice = f"there is no folder {parent}: name the folder of the runs with -o"
    else:
        advice = "there are no runs: make one with `mprun -t TOPOLOGY -x EXPERIMENT`, or use -o"
    raise SpecError(f"no run '{name}' here or in {parent}; {advice}")


def find_named(
    kinds: Sequence[type[OutputT]], parent: Path, name: str, list_known: Callable[[Path], Sequence[OutputT]]
) -> OutputT | None:
    """Return a run or a sweep by its path, its name, the beginning of its name, or its digest; None if none matches.

    list_known: lists those in `parent`. Raises SpecError if several match.
    """
    for candidate in (Path(name), parent / name):
        for kind in kinds:
            if has_record(kind, candidate):
                return kind(candidate.resolve())
    matches = [one for one in list_known(parent) if one.name.startswith(name) or one.short_digest == name]
    if len(matches) > 1:
        what = " or ".join(dict.fromkeys(one._kind() for one in matches))
        listed = name_some([one.name for one in matches], 5)
        raise SpecError(f"'{name}' means more than one {what}: write one of {listed}")
    return matches[0] if matches else None


def has_record(kind: type[OutputDirectory], path: Path) -> bool:
    """Return whether a path is the directory of a run or of a sweep."""
    try:
        return Folder(path).has(kind.RECORD)
    except (OSError, ValueError):
        return False


def _list_inside(folder: Path, record: str) -> list[str]:
    """Return the names of the runs and sweeps in a folder, in order. record: the pattern of their files."""
    records = Folder(folder).find(f"*/{record}") if folder.is_dir() else []
    kept = [one.split("/") for one in records if not one.startswith(".")]
    return list(dict.fromkeys(name for name, file in kept if file in ("plan.json", "sweep.json")))


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]


def damaged(
    path: Path, reason: str, mend: str = "run it again, or take the directory from where it came"
) -> MprunError:
    """Return the error for a file that is damaged. Its last part, `mend`, is the remedy for the user."""
    return MprunError(f"{path}: damaged: {reason.splitlines()[0] if reason else 'not whole'}: {mend}")


# What a reader ends in whose file is damaged.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error that a damaged file causes in its reader into an MprunError that names the file."""
    try:
        yield
    except DAMAGE as error:
        raise damaged(path, name_error(error)) from error


def name_error(error: Exception) -> str:
    """Return an error that a damaged file may have caused in its reader, for a message."""
    return plain(f"{type(error).__name__}: {error}")[:200]


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an error of polars in the block into an MprunError that names the run's tables.

    Polars reads the content of a table only when the table is used. So damage may show as late as in a drawing.

    path: the directory of the run.
    """
    try:
        yield
    except BaseException as error:
        if not is_of_polars(error) or explain_machine(error):
            raise
        remedy = f"remove {path / 'tables'}: `mprun show` makes again what it held"
        raise damaged(path / "tables", plain(error)[:200], remedy) from error


def write_page(folder: Folder, page: str, figures: Mapping[str, bytes]) -> Path:
    """Write `report.html` in a folder, and replace its figures. Return the path of the page.

    figures: the content of each figure by its file name.
    """
    folder.remove_tree(FIGURES)
    folder.make(FIGURES)
    for name, content in figures.items():
        folder.write_bytes(f"{FIGURES}/{name}", content)
    folder.write_text("report.html", page)
    return folder.path / "report.html"


def read_table(folder: Folder, name: str) -> polars.LazyFrame:
    """Return a table, checked against its form. The content is read from the file only when it is used.

    Raises FileNotFoundError, or MprunError if the table is damaged.
    """
    try:
        with folder.open(name) as file:
            return open_table(file, _stem(name), folder.size(name))
    except ValueError as error:
        remedy = f"remove {folder.path / 'tables'}: `mprun show` makes again what it held"
        raise damaged(folder.path / name, plain(error)[:200], remedy) from None


def list_runs(parent: Path) -> list[RunDirectory]:
    """Return the runs under `parent`, oldest first."""
    if not parent.is_dir():
        return []
    return [RunDirectory(path) for path in sorted(filter(RunDirectory.is_at, parent.iterdir()), key=age)]


def make_frame(columns: Mapping[str, list[Any]]) -> polars.DataFrame:
    """Return a frame of columns of equal length, each of one type. None stands for a missing value."""
    import polars

    return polars.DataFrame({name: _of_one_type(values) for name, values in columns.items()})


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return values of one type: whole numbers become fractions beside fractions, and all values text beside text."""
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there) or len({isinstance(value, bool) for value in there}) > 1:
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in there):
        return [None if value is None else float(value) for value in values]
    return values


def age(path: Path) -> tuple[str, int, str]:
    """Return the key that sorts run directories, oldest first.

    The key is the second in the directory's name, then the time of the plan's file, then the name.
    """
    try:
        planned_ns = Folder(path).stat("plan.json").st_mtime_ns
    except OSError:
        planned_ns = 0
    return second_of(path.name, planned_ns), planned_ns, path.name


def second_of(name: str, recorded_ns: int) -> str:
    """Return the second in which a run or a sweep began. A name that the user gave has none: then it is the record's.

    recorded_ns: the time of the record.
    """
    match = _SECOND.match(name)
    return match[0] if match else time.strftime("%Y%m%d-%H%M%S", time.localtime(recorded_ns / 1e9))


def _list_below(parent: Path) -> list[Path]:
    """Return the folders of runs of the folders in `parent`, such as those of the parts of a lab."""
    found = []
    for one in sorted(parent.iterdir()):
        with contextlib.suppress(OSError):
            found += [one / "runs"] if list_runs(one / "runs") else []
    return found


@contextlib.contextmanager
def making_in(parent: Path, latest: str) -> Iterator[None]:
    """Make the folder of results, in which the block makes another. Raises MachineError if one cannot be made.

    latest: the link to the newest result.
    """
    try:
        invoking_user.make_folder(parent)
        refuse_taken(parent / latest)
        yield
    except (FileExistsError, FileNotFoundError) as error:
        raise MachineError(f"no directory '{parent}' can be made there: give another with -o") from error
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        reason = os.strerror(error.errno).lower()
        raise MachineError(f"{parent}: cannot be written: {reason}: give another with -o") from error


def take_name(parent: Path, stem: str, suffix: str, take: Callable[[Path], object]) -> Path:
    """Take the first free name of STEM, STEM.1 and so on. Return its path. take: raises OSError if the path exists."""
    number = 0
    while True:
        path = parent / f"{stem}{f'.{number}' if number else ''}{suffix}"
        try:
            take(path)
        except OSError:
            if not path.exists():
                raise
            number += 1
        else:
            return path


def refuse_taken(link: Path) -> None:
    """Raise MachineError if a folder or a file, such as a copy of a link's target, has the name of a link."""
    if link.exists() and not link.is_symlink():
        what = "folder" if link.is_dir() else "file"
        raise MachineError(f"{link}: is a {what}, and mprun makes a link of this name: rename or remove it")


def point(link: Path, target: str) -> None:
    """Point a symbolic link at another target in one step, so that a reader always finds a target."""
    refuse_taken(link)
    temporary = link.with_name(f".{link.name}-{os.urandom(8).hex()}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    finally:
        temporary.unlink(missing_ok=True)
