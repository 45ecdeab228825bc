# SPDX-License-Identifier: Apache-2.0
"""The layout of a run directory; the only reader and writer of it.

runs/<time>-<topology>-<experiment>-<digest8>/
    inputs/            the files as they were, and resolved-{topology,experiment}.yaml: as understood
    plan.json          what was to be done, with the digest of the intent
    environment.json   where: engine, kernel, versions, which mprun
    steps.jsonl        each step: asked time, actual time, exit status
    wall.json          real time at which each phase began: the one file that never repeats
    agent.json         what the agent saw: read-back, how processes ended, counters
    record.gz          what the kernel said of connections and in samples, as it said it (mprun.agent.record)
    logs/  pcap/       output of each process, and what it saw as text for people (.log); captures
    links/             what several files hold together, where the experiment asks for them under one name
    files/<flow>/      what the programs of a flow left beside their output
    tables/*.parquet   a row for each thing observed: requests, intervals; one unit a column, in its name; those of
                       captures (FROM_CAPTURES) only once somebody has asked for them
    summary.json       metrics, expectations, warnings
    report.html        made when somebody asks; figures/<name>.{svg,pdf,png,csv} beside it
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mprun import invoker
from mprun.errors import HostError, MprunError, SpecError
from mprun.text import make_printable

if TYPE_CHECKING:
    import polars

LATEST = "latest"
RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT = "resolved-topology.yaml", "resolved-experiment.yaml"
FIGURES = "figures"
INCOMPLETE = "incomplete"
# Tables that are made from the captures on demand: of what a repetition must reproduce these are no part.
FROM_CAPTURES = ("packets", "connections", "subflows")
_NAME = re.compile(r"^(\d{8}-\d{6})-(.*)-([0-9a-f]{8})(\.\d+)?$")


class RunDirectory:
    """One run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: Path, title: str, digest: str) -> RunDirectory:
        """Make a new one under `parent` and point `latest` at it; never one that exists.

        title: "<topology>-<experiment>", for people.
        """
        return cls.lay_out(cls.reserve(parent, title, digest))

    @classmethod
    def reserve(cls, parent: Path, title: str, digest: str) -> Path:
        """An empty directory with the name of a new run, for `lay_out`. Raises HostError where there can be none."""
        try:
            invoker.make_folder(parent)
        except (FileExistsError, FileNotFoundError) as error:
            raise HostError(f"no directory '{parent}' can be made there: give another with -o") from error
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{title}-{digest[:8]}"
        number = 0
        while True:
            path = parent / (stem if number == 0 else f"{stem}.{number}")
            try:
                path.mkdir()
                break
            except FileExistsError:
                number += 1
        _point_latest(parent, path.name)
        invoker.give_at_exit(path)
        return path

    @classmethod
    def lay_out(cls, path: Path) -> RunDirectory:
        """One in a directory that exists and is empty."""
        for name in ("inputs", "logs", "pcap"):
            (path / name).mkdir()
        (path / INCOMPLETE).touch()
        return cls(path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def title(self) -> str:
        """What `create` was given; of a run of a sweep, what the sweep was given."""
        match = self._match_name()
        return match[2] if match else self.name

    @property
    def long_name(self) -> str:
        """Its name; of a run of a sweep, whose name is its number, one that tells of when and of which plan it is."""
        match = self._match_name()
        if match is None or match.string == self.name:
            return self.name
        return f"{match[1]}-{match[2]}-{self.read('plan.json')['digest'][:8]}"

    def _match_name(self) -> re.Match[str] | None:
        """That of its own directory, else of the sweep's that holds it as `runs/CELL/NUMBER`."""
        path = self.path.resolve()
        above = path.parents[2].name if len(path.parents) > 2 and path.parents[1].name == "runs" else ""
        return _NAME.match(self.name) or _NAME.match(above.removesuffix("-sweep"))

    @property
    def is_complete(self) -> bool:
        return not (self.path / INCOMPLETE).exists()

    def mark_complete(self) -> None:
        (self.path / INCOMPLETE).unlink(missing_ok=True)

    def keep_inputs(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.path / "inputs" / name).write_text(text, encoding="utf-8")

    def write(self, name: str, value: object) -> None:
        """Write a JSON file of the layout, whole or not at all."""
        write_json(self.path / name, value)

    def write_text(self, name: str, text: str) -> None:
        """The same of a text that is made already."""
        with whole(self.path / name) as partial:
            partial.write_text(text)

    def read(self, name: str) -> Any:
        """A JSON file of the layout, its text printable. Raises MprunError where it is missing or not whole."""
        try:
            return make_printable(json.loads((self.path / name).read_text()))
        except FileNotFoundError:
            raise MprunError(f"{self.path}: no {name}: the run did not come so far") from None
        except ValueError as error:
            raise MprunError(f"{self.path / name}: not whole: {error}") from error

    def record(self) -> Iterator[bytes]:
        """What the kernel said during the run, piece by piece; nothing if the run did not come so far."""
        try:
            with (self.path / "record.gz").open("rb") as file:
                yield from iter(functools.partial(file.read, 1 << 20), b"")
        except FileNotFoundError:
            return

    def steps(self) -> list[dict[str, Any]]:
        """What was done and when, in the order in which it was."""
        return [json.loads(line) for line in (self.path / "steps.jsonl").read_text().splitlines()]

    def log(self, process: str, stream: str = "out") -> str:
        """What a process printed; empty if it never started."""
        try:
            return (self.path / "logs" / f"{process}.{stream}").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def flow_file(self, flow: str, name: str) -> bytes | None:
        """A file that a flow left; None if it did not."""
        try:
            return (self.path / "files" / flow / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_tables(self, tables: Mapping[str, Mapping[str, list[Any]] | polars.DataFrame]) -> None:
        """Each as `tables/<name>.parquet`, whole or not at all. Columns as those of `make_frame`."""
        if not tables:
            return
        import polars

        (self.path / "tables").mkdir(exist_ok=True)
        for name, table in tables.items():
            frame = table if isinstance(table, polars.DataFrame) else make_frame(table)
            with whole(self.path / "tables" / f"{name}.parquet") as partial:
                frame.write_parquet(partial)

    def write_accounts(self, accounts: Mapping[str, str]) -> None:
        """What processes saw, as text for people, by their names."""
        for name, text in accounts.items():
            (self.path / "logs" / f"{name}.log").write_text(text, encoding="utf-8")

    def link_into(self, folder: Path, links: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Let names in a folder stand for files of this run: (the names that do, why others do not).

        links: by name, a pattern of files relative to the run; where several fit, they are put one behind the other in
        `links/`. A link of an earlier run is replaced, and nothing else.
        """
        made, refused = [], []
        for name, pattern in links.items():
            found = sorted(path for path in self.path.glob(pattern) if path.is_file())
            if not found:
                refused.append(f"link {name}: this run has no {pattern}")
            elif (folder / name).exists() and not (folder / name).is_symlink():
                refused.append(f"link {name}: a file of this name is there, and stays")
            else:
                target = found[0] if len(found) == 1 else self._join(name, found)
                point(folder / name, os.path.relpath(target, folder))
                made.append(name)
        return made, refused

    def _join(self, name: str, files: Sequence[Path]) -> Path:
        joined = self.path / "links" / name
        joined.parent.mkdir(exist_ok=True)
        joined.write_bytes(b"".join(path.read_bytes() for path in files))
        return joined

    def write_report(self, page: str, figures: Mapping[str, bytes]) -> Path:
        """The page, and figures by their file names in place of earlier ones. The path of the page."""
        return write_page(self.path, page, figures)

    @property
    def resolved_inputs(self) -> tuple[Path, Path]:
        """The topology and the experiment as they were understood."""
        return self.path / "inputs" / RESOLVED_TOPOLOGY, self.path / "inputs" / RESOLVED_EXPERIMENT

    def inputs(self) -> dict[str, str]:
        """The files under `inputs`, by name."""
        return read_texts(self.path / "inputs")

    def write_frames(self, name: str, schema: Mapping[str, Any], frames: Iterable[polars.DataFrame]) -> None:
        """One table from frames that come one after the other, of which few are in memory at a time; whole or not
        at all."""
        from polars.io.plugins import register_io_source

        (self.path / "tables").mkdir(exist_ok=True)

        def source(*_: object) -> Iterator[polars.DataFrame]:
            yield from frames

        with whole(self.path / "tables" / f"{name}.parquet") as partial:
            register_io_source(source, schema=dict(schema)).sink_parquet(partial)

    def captures(self) -> dict[str, Path]:
        """The files of its captures by name."""
        return {path.stem: path for path in sorted(self.path.glob("pcap/*.pcap"))}

    def tables(self) -> Iterator[tuple[str, polars.LazyFrame]]:
        """Every table with its name, not yet read. Raises MprunError for one that is damaged."""
        paths = sorted(self.path.glob("tables/*.parquet"))
        if paths:
            import polars
        for path in paths:
            table = polars.scan_parquet(path)
            try:
                table.collect_schema()
            except polars.exceptions.PolarsError as error:
                mend = f"remove {path.parent}: `mprun show` makes what it held again"
                raise MprunError(f"{path}: not whole: {error}; {mend}") from error
            yield path.stem, table

    @property
    def has_tables(self) -> bool:
        """Whether it has any but those of its captures."""
        return any(path.stem not in FROM_CAPTURES for path in self.path.glob("tables/*.parquet"))

    def addresses(self) -> Iterator[tuple[str, str]]:
        """(address, node) of every interface."""
        for node in self.read("plan.json")["intent"]["nodes"]:
            for interface in node["interfaces"]:
                for address in (interface["address"], interface.get("ipv6")):
                    if address:
                        yield address.split("/")[0], node["name"]

    def drop_captures(self) -> None:
        """Without its captures a run takes little room; they come again by running it again."""
        shutil.rmtree(self.path / "pcap", ignore_errors=True)

    def artifacts(self) -> Iterator[tuple[str, Path]]:
        """The files that a repetition must reproduce byte for byte, by name."""
        files = ("logs/*.out", "files/*/*", "tables/*.parquet")
        for pattern in ("pcap/*.pcap", "summary.json", "calibration.json", "steps.jsonl", *files):
            for path in sorted(self.path.glob(pattern)):
                if path.suffix == ".parquet" and path.stem in FROM_CAPTURES:
                    continue
                yield str(path.relative_to(self.path)), path


def find(parent: Path, name: str) -> RunDirectory:
    """A run by path, by name, by the beginning of its name or digest, or `latest`."""
    for candidate in (Path(name), parent / name):
        if (candidate / "plan.json").is_file():
            return RunDirectory(candidate.resolve())
    matches = [run for run in list_runs(parent) if run.name.startswith(name) or _digest_of(run.name) == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(f"'{name}' means several runs: {', '.join(run.name for run in matches[:5])}")
    raise SpecError(f"no run '{name}' here or in {parent}; `mprun runs list` shows what there is")


def write_page(folder: Path, page: str, figures: Mapping[str, bytes]) -> Path:
    """`report.html` in a folder, and figures by their file names below it in place of earlier ones."""
    shutil.rmtree(folder / FIGURES, ignore_errors=True)
    (folder / FIGURES).mkdir()
    for name, content in figures.items():
        (folder / FIGURES / name).write_bytes(content)
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def read_texts(folder: Path) -> dict[str, str]:
    """The files in a folder, by name."""
    paths = sorted(folder.iterdir())
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()}


def list_runs(parent: Path) -> list[RunDirectory]:
    """The runs under `parent`, oldest first."""
    if not parent.is_dir():
        return []
    paths = [path for path in parent.iterdir() if _NAME.match(path.name) and not path.is_symlink()]
    return [RunDirectory(path) for path in sorted(paths, key=age)]


def make_frame(columns: Mapping[str, list[Any]]) -> polars.DataFrame:
    """Columns of equal length, None where there is no value, each of one type."""
    import polars

    return polars.DataFrame({name: _of_one_type(values) for name, values in columns.items()})


def _of_one_type(values: list[Any]) -> list[Any]:
    """Whole numbers among fractions become fractions, and anything among text becomes text."""
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there) or len({isinstance(value, bool) for value in there}) > 1:
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in there):
        return [None if value is None else float(value) for value in values]
    return values


@contextlib.contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A file to write in place of `target`, which it becomes at the end if nothing went wrong."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def age(path: Path) -> tuple[str, int, str]:
    """What sorts runs, oldest first: the second in its name, then when its plan was written."""
    try:
        planned_ns = (path / "plan.json").stat().st_mtime_ns
    except OSError:
        planned_ns = 0
    return path.name.split("-", 2)[0] + path.name.split("-", 2)[1], planned_ns, path.name


def remove(run: RunDirectory) -> None:
    """Delete a run directory; `latest` moves to the newest that is left."""
    parent = run.path.parent
    shutil.rmtree(run.path)
    link = parent / LATEST
    if link.is_symlink() and os.readlink(link) == run.name:
        link.unlink()
        left = list_runs(parent)
        if left:
            _point_latest(parent, left[-1].name)


def _digest_of(name: str) -> str:
    match = _NAME.match(name)
    return match[3] if match else ""


def _point_latest(parent: Path, name: str) -> None:
    point(parent / LATEST, name)


def write_json(target: Path, value: object) -> None:
    """Whole or not at all."""
    with whole(target) as partial:
        partial.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def point(link: Path, target: str) -> None:
    """Change a link in one step: a reader always finds something."""
    temporary = link.with_name(f".{link.name}-{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(link)
