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
import functools
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mprun.errors import MprunError
from mprun.machine import invoking_user
from mprun.model.codec import PLAIN
from mprun.model.problem import name_nearest
from mprun.model.run_files import Phase, RunEnvironment, StepRecord, Stops
from mprun.model.run_summary import Summary
from mprun.safety.folder import Folder, parse_json
from mprun.storage.damage import damaged
from mprun.storage.output_directory import INCOMPLETE, OutputDirectory, making_in, point, second_of, take_name
from mprun.storage.table import read_table, stem, writing

if TYPE_CHECKING:
    import polars

    from mprun.machine.changed_files import FileChanges
    from mprun.model.agent_report import AgentReport
    from mprun.model.plan import Plan

LATEST = "latest"
RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT = "resolved-topology.yaml", "resolved-experiment.yaml"
# The beginnings of the names of folders beside the runs: a page of the published figures of a lab, and a comparison.
PAGE_PREFIX, COMPARISON_PREFIX = "figures-", "comparison-"
MOST_STEPS_BYTES = 256 << 20
MOST_OUTPUT_BYTES = 512 << 20
# Smaller than the blocks that malloc(3) takes from the system and gives back each time.
PIECE_BYTES = 64 << 10
# The log of a kernel: the first messages, about the machine, depend on the host.
KERNEL_LOG = "kernel_log"
# Tables that are made from the captures on demand: of what a repetition must reproduce these are no part.
FROM_CAPTURES = ("packets", "connections", "subflows", "one_way_delays")


class RunDirectory(OutputDirectory):
    """The directory of a run. Its readers raise MprunError if their file is missing or damaged."""

    NAME = re.compile(r"^(?P<time>\d{8}-\d{6})-(?P<title>.*)-(?P<digest>[0-9a-f]{8})(\.\d+)?$")
    RECORD = "plan.json"
    LOCK = INCOMPLETE
    IS_NAMED_FIRST = True

    @classmethod
    def create(cls, parent: Path, title: str, digest: str) -> RunDirectory:
        """Make a new directory under `parent` and point `latest` at it. An existing directory is never used.

        title: `TOPOLOGY-EXPERIMENT`, for people. digest: of the run's intent, whose first 8 digits the name gets.
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
        """The run's name. For a run of a sweep, which only has a number: the sweep's time and title, and its digest."""
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
        """Return the engine, the kernel and the programs that made the run."""
        return self.read("environment.json", RunEnvironment)

    def wall_s(self) -> float:
        """Return the real time of the run in s, or 0 if it is not known."""
        phases = self.read("wall.json", tuple[Phase, ...]) if self.has("wall.json") else ()
        return phases[-1].wall_s if phases else 0.0

    def stops(self) -> tuple[Stops, ...]:
        """Return how often the experiment kernel stopped each program."""
        return self.read("stops.json", tuple[Stops, ...])

    def changed_files(self) -> FileChanges:
        """Return the files of this machine that changed during the run."""
        from mprun.machine.changed_files import FileChanges

        has_changes = self.has("changed.json")
        return self.read("changed.json", FileChanges) if has_changes else FileChanges()

    def summary(self) -> Summary:
        return self.read("summary.json", Summary)

    def agent_report(self) -> AgentReport:
        from mprun.model.agent_report import AgentReport

        return self.read("agent.json", AgentReport)

    def plan(self) -> Plan:
        return self._read_plan()[0]

    @property
    def digest(self) -> str:
        """The digest of the run's intent, in hexadecimal."""
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
        """Return the steps with their times, in their order."""

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
        """Make symbolic links in a folder that point to files of this run. Only those of an earlier run are replaced.

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
                hint = name_nearest(pattern, there, "it has") if there else ""
                hint = f": {self._explain_no_captures()}" if above == "pcap" and not there else hint
                refused.append((name, f"this run has no {pattern}{hint}"))
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

        Raises MprunError if one does not exist, and UnsafeError if one is no regular file: the reader follows links.
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
        """Write a table frame by frame, completely or not at all. schema: the type of each column, by name."""
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
        return {stem(name): name for name in self.folder.find("pcap/*.pcap") if name.isprintable()}

    def need_captures(self) -> dict[str, str]:
        """Return the captures. Raises MprunError if there are none."""
        found = self.captures()
        if not found:
            raise MprunError(f"{self.path}: no captures: {self._explain_no_captures()}")
        return found

    def _explain_no_captures(self) -> str:
        lost = f"its captures were removed: `mprun verify --keep {self.name}` makes them again"
        return lost if self.plan().intent.captures else "write `capture: [{host: client}]` in the experiment"

    def tables(self) -> Iterator[tuple[str, polars.LazyFrame]]:
        """Yield the name and the content of every table, read from the file only when it is used."""
        for name in self.folder.find("tables/*.parquet"):
            if name.isprintable():
                yield stem(name), read_table(self.folder, name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table; none if the run has no such table."""
        table = self.find_table(name)
        return [] if table is None else table.collect().to_dicts()

    @property
    def has_tables(self) -> bool:
        """True if the run has tables other than those that are made from captures."""
        return any(stem(name) not in FROM_CAPTURES for name in self.folder.find("tables/*.parquet"))

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
                if not (name.endswith(".parquet") and stem(name) in (*FROM_CAPTURES, KERNEL_LOG)):
                    yield name


def list_runs(parent: Path) -> list[RunDirectory]:
    """Return the runs under `parent`, oldest first."""
    if not parent.is_dir():
        return []
    return [RunDirectory(path) for path in sorted(filter(RunDirectory.is_at, parent.iterdir()), key=age)]


def age(path: Path) -> tuple[str, int, str]:
    """Return the key that sorts run directories, oldest first: second in the name, time of the plan, name."""
    try:
        planned_ns = Folder(path).stat("plan.json").st_mtime_ns
    except OSError:
        planned_ns = 0
    return second_of(path.name, planned_ns), planned_ns, path.name
