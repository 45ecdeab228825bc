# SPDX-License-Identifier: Apache-2.0
"""Archives from strangers, and the metadata of an archive."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.bundles.archive import _check, unpack, write_archive
from mprun.bundles.crate import Description, describe
from mprun.bundles.licence import find_licence
from mprun.bundles.pack import digest_of, pack
from mprun.bundles.reproduction import Original, Reproduction, choose_engine, open_bundle, open_original, reproduce
from mprun.bundles.reproduction import _record as reproduced_record
from mprun.bundles.reproduction import _Task as Task
from mprun.bundles.written import OTHER_VALUES, WrittenFiles, compare_written
from mprun.cli.bundle import command
from mprun.compile import allocate, resolve
from mprun.errors import RunError, SpecError
from mprun.inputs.loading import load_cells
from mprun.inputs.writer import write_experiment, write_topology
from mprun.kernel.store import Kernel
from mprun.machine.version import code_digest
from mprun.model.permission import NO_COMMANDS
from mprun.model.run_files import Build, RunEnvironment
from mprun.runs.place import Place
from mprun.runs.runner import _keep_attachments, read_inputs
from mprun.safety.folder import Folder
from mprun.storage.run_directory import RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.execution import PlacedCells, find_or_create
from mprun.sweeps.study import make_cells, make_task
from tests.hostile import RUN, archives, copy_run, make_sweep
from tests.hostile.archives import ENVIRONMENT, SUMMARY, run_files, sealed, sweep_files
from tests.pages import ROOT

LAB = Path(__file__).parents[2] / "labs" / "01_multipath"


def test_equal_contents_are_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for name in ("a", "b"):
        write_archive(tmp_path / name, {"inputs/x": partial(Folder(tmp_path).open, "x"), "a.json": b"{}"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    (tmp_path / "out").mkdir()
    unpack(tmp_path / "a", tmp_path / "out")
    assert (tmp_path / "out" / "inputs" / "x").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "out", "x"]


@pytest.mark.parametrize("case", archives.MEMBERS)
def test_unsafe_members_are_refused(case: str, tmp_path: Path) -> None:
    reason = archives.write(case, tmp_path / "bundle")
    (tmp_path / "out").mkdir()
    with pytest.raises(SpecError, match=reason):
        unpack(tmp_path / "bundle", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out"]


@pytest.mark.parametrize("case", [case for case in archives.CASES if case not in archives.WITH_KERNEL])
def test_bundles_that_are_not_to_be_trusted(case: str, tmp_path: Path) -> None:
    assert archives.attempt(case, tmp_path).harm == ""


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bundle", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(64 << 20))
    with pytest.raises(SpecError, match="compressed too much"):
        unpack(tmp_path / "bundle", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("artifacts.json", 65 << 20, r"'artifacts\.json' has more than 64 MB"),
        ("inputs/topo.yaml", 5 << 20, r"'inputs/topo\.yaml' has more than 4 MB"),
        ("runs/cc=reno/1/inputs/xp.yaml", 5 << 20, "has more than 4 MB"),
        ("figures/goodput.svg", 65 << 20, "has more than 64 MB"),
        ("plan.json", 40 << 20, "'plan.json' is compressed too much"),
    ],
)
def test_each_kind_of_member_has_a_bound(name: str, size: int, reason: str, tmp_path: Path) -> None:
    """A list of zeros: 412 kB expanded to 1.5 GB and took 40 s to read."""
    with zipfile.ZipFile(tmp_path / "bundle", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"[" + b"0," * (size // 2) + b"0]")
    with pytest.raises(SpecError, match=reason):
        unpack(tmp_path / "bundle", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_many_members_that_expand_a_little_too_much_are_refused(tmp_path: Path) -> None:
    """Each member is smaller than the size from which its ratio is checked."""
    with zipfile.ZipFile(tmp_path / "bundle", "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(4):
            archive.writestr(f"figures/{n}.svg", bytes(8 << 20))
    with pytest.raises(SpecError, match="it is compressed too much: nothing was unpacked"):
        unpack(tmp_path / "bundle", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_room_is_asked_for_before_anything_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bundle", "w") as archive:
        archive.writestr("plan.json", bytes(1 << 20))
        _check(tmp_path / "bundle", archive.infolist(), 65 << 20)
        with pytest.raises(SpecError, match=r"unpacking needs 65 MB, and 64 MB are free: set TMPDIR to a larger fold"):
            _check(tmp_path / "bundle", archive.infolist(), (65 << 20) - 1)


def test_what_strangers_wrote_is_obeyed_by_no_terminal(tmp_path: Path) -> None:
    told = {**SUMMARY, "warnings": ["\x1b[2Jgood\nnews"]}
    write_archive(tmp_path / "bundle", sealed(run_files(**{"summary.json": told})))
    bundle = open_bundle(tmp_path / "bundle", tmp_path)
    assert isinstance(bundle.source, RunDirectory)
    assert bundle.source.summary().warnings == ("\ufffd[2Jgood\nnews",)
    with pytest.raises(SpecError, match="is an unpacked bundle, which lacks parts of its runs: name the zip file"):
        open_original(bundle.source)


ERROR = {**SUMMARY, "status": "error"}


def test_a_run_in_error_keeps_no_other_from_being_repeated(tmp_path: Path) -> None:
    """A run whose worker was killed has a summary and no other file."""
    runs = {f"runs/cc=reno/1/{name}": content for name, content in run_files().items()}
    files = {**sweep_files("cc=reno"), **runs, "runs/cc=reno/2/summary.json": json.dumps(ERROR).encode()}
    write_archive(tmp_path / "bundle", sealed(files))
    bundle = open_bundle(tmp_path / "bundle", tmp_path)
    assert isinstance(bundle.source, SweepDirectory)
    assert [kept.number for kept in bundle.source.runs()] == [1, 2]

    alone = {**sweep_files("cc=reno"), "runs/cc=reno/1/summary.json": json.dumps(ERROR).encode()}
    write_archive(tmp_path / "alone", sealed(alone))
    (tmp_path / "scratch").mkdir()
    with pytest.raises(SpecError, match="all its runs ended with an error"):
        open_bundle(tmp_path / "alone", tmp_path / "scratch")


def test_no_sweep_goes_on_with_a_reproduced_one(tmp_path: Path) -> None:
    """Otherwise the sweep would mix kernels and remove runs in progress."""
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    cells = make_cells(load_cells(LAB / "topo", tmp_path / "xp"), "virtual", "default")
    kernels = {"default": Build("6", "d")}
    original, _ = find_or_create(tmp_path / "runs", PlacedCells(cells, kernels), {}, False)
    environment = RunEnvironment("virtual", Build("6", "d"), {}, (), "3.11")
    other = Kernel("other", "", "7", "e", "", 0, "", 0.0)
    task = Task(0, cells[0].spec, environment, Place("virtual", "", other), "other")
    record = reproduced_record(original, {"only/1": task})
    assert record.kernels == {"other": Build("7", "e")}
    assert [(cell.engine, cell.kernel) for cell in record.cells] == [("virtual", "other")]
    again = SweepDirectory.create(tmp_path / "again", record, {})
    for known in (kernels, record.kernels):
        found, is_new = find_or_create(tmp_path / "again", PlacedCells(cells, known), {}, False)
        assert is_new
        assert found.path != again.path


def test_no_bundle_decides_that_it_runs_on_this_machines_kernel(tmp_path: Path) -> None:
    environment = {"engine": "real", "kernel": {"version": "6"}, "versions": {}, "warnings": [], "python": "3"}
    for name, files in {"virtual": run_files(), "real": run_files(**{"environment.json": environment})}.items():
        (tmp_path / name).mkdir()
        write_archive(tmp_path / f"{name}.zip", sealed(files))
    virtual = open_bundle(tmp_path / "virtual.zip", tmp_path / "virtual")
    assert choose_engine(virtual, None) == ("virtual", "as it ran then")
    real = open_bundle(tmp_path / "real.zip", tmp_path / "real")
    with pytest.raises(SpecError, match="--engine real"):
        choose_engine(real, None)
    assert choose_engine(real, "real") == ("real", "as asked")


def test_a_bundle_is_opened(tmp_path: Path) -> None:
    write_archive(tmp_path / "bundle", sealed(run_files()))
    bundle = open_bundle(tmp_path / "bundle", tmp_path)
    assert bundle.source.name == "20260101-000000-topo-xp-0a1b2c3d"


def test_crate_describes_every_member_once() -> None:
    about = Description("r", "what it shows", "2026-01-31", "", "0.1.0", {"default": "6.12"}, {"tc": "tc 6"})
    crate = describe(about, {"inputs/topo.yaml": 10, "summary.json": 20})
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert crate["@context"] == "https://w3id.org/ro/crate/1.1/context"
    assert len(entities) == len(crate["@graph"])
    assert entities["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert entities["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    root = entities["./"]
    # the properties that RO-Crate 1.1 requires of the root
    assert {"@type", "name", "description", "datePublished", "license"} <= root.keys()
    assert str(root["license"]).startswith("No licence was given")
    assert [part["@id"] for part in root["hasPart"]] == ["inputs/topo.yaml", "summary.json"]
    # every reference has a target
    assert _references(crate["@graph"], entities.get) == []


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("CC-BY-4.0", "https://spdx.org/licenses/CC-BY-4.0"),
        ("apache-2.0", "https://spdx.org/licenses/Apache-2.0"),
        ("https://example.org/terms?of=use", "https://example.org/terms?of=use"),
    ],
)
def test_licences(text: str, url: str) -> None:
    assert find_licence(text) == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("foo", "--license foo: no SPDX identifier, and no URL; usual ones: CC-BY-4.0, "),
        ("", "no SPDX identifier"),
        ("cc-by-4", "did you mean 'CC-BY-4.0'?"),
        ("gpl3", "did you mean 'GPL-3.0-only'?"),
        ("MIT License", "did you mean 'MIT'?"),
        ("unlicence", "did you mean 'Unlicense'?"),
        ("MIT OR Apache-2.0", "not one licence of SPDX's list"),
        ("LicenseRef-ours", "not one licence of SPDX's list"),
        ("Apache-2.0+", "not one licence of SPDX's list"),
        ("ftp://example.org/terms", "no URL of a licence: write as in https://spdx.org/licenses/CC-BY-4.0"),
        ("example.org/terms", "no URL of a licence"),
        ("https://", "no URL of a licence"),
        ("https://[", "no URL of a licence"),
    ],
)
def test_licences_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=re.escape(reason)):
        find_licence(text)


def test_crate_names_its_licence_and_writes_names_as_uris() -> None:
    licence = "https://spdx.org/licenses/CC-BY-4.0"
    about = Description("r", "what it shows", "2026-01-31", licence, "0.1.0", {}, {})
    crate = describe(about, {"runs/path0.loss=1%,cc=reno/1/summary.json": 20, "kernel/ab/recipe/mprun.c": 1})
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert entities["./"]["license"] == {"@id": licence}
    assert {"name", "description"} <= entities[licence].keys()
    named = {identifier: entity["name"] for identifier, entity in entities.items() if entity["@type"] == "File"}
    assert named == {
        "runs/path0.loss=1%25,cc=reno/1/summary.json": "runs/path0.loss=1%,cc=reno/1/summary.json",
        "kernel/ab/recipe/mprun.c": "kernel/ab/recipe/mprun.c",
    }
    assert entities["kernel/ab/recipe/mprun.c"]["encodingFormat"] == "text/plain"


def _references(value: object, find: Callable[[str], object]) -> list[str]:
    if isinstance(value, dict):
        if value.keys() == {"@id"}:
            target = str(value["@id"])
            return [] if target.startswith("https://") or find(target) else [target]
        return [one for inner in value.values() for one in _references(inner, find)]
    return [one for inner in value for one in _references(inner, find)] if isinstance(value, list) else []


def test_a_run_whose_inputs_were_changed_is_not_packed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(RUN, tmp_path / RUN.name))
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**environment, "mprun": code_digest()}))
    pack(RunDirectory(run), tmp_path / "one.zip", "", False)
    resolved = run / "inputs" / "resolved-experiment.yaml"
    text = resolved.read_text()
    resolved.write_text(text.replace("204800bytes", "204801bytes"))
    assert resolved.read_text() != text
    with pytest.raises(RunError, match="its inputs were changed after the run; run them again"):
        pack(RunDirectory(run), tmp_path / "two.zip", "", False)
    # another version may make another plan of the same inputs
    (run / "environment.json").write_text(json.dumps({**environment, "mprun": "0" * 64}))
    pack(RunDirectory(run), tmp_path / "two.zip", "", False)


def test_tables_that_were_removed_are_made_again_for_a_bundle(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / RUN.name)
    run = RunDirectory(tmp_path / RUN.name)
    shutil.rmtree(run.path / "tables")
    with zipfile.ZipFile(pack(run, tmp_path / "b.zip", "", False)) as bundle:
        assert "tables/goodput.parquet" in bundle.namelist()
        assert "tables/goodput.parquet" in bundle.read("artifacts.json").decode()


@pytest.mark.parametrize("make", [copy_run, make_sweep])
def test_the_page_names_what_a_repetition_does_not_prove(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mprun.bundles.pack.describe_recipe", lambda _: {"kernel/0/config": b""})
    path = make(tmp_path)
    (path / "figures").mkdir()
    for name in ("report.html", "figures/a.svg"):
        (path / name).touch()
    source = RunDirectory(path) if make is copy_run else SweepDirectory(path)
    (tmp_path / "scratch").mkdir()
    original = open_bundle(pack(source, tmp_path / "b.zip", "", False), tmp_path / "scratch")
    made = {place: RunDirectory(path / place) for place in original.artifacts or ()}
    members = {re.sub("/.*", "/", name) for name in original.find_unproven(made)}
    text = (ROOT / "docs" / "bundles.md").read_text()
    told = text[text.index("cannot prove some members") : text.index("lists these members")]
    alone, _, of_sweep = told.partition("For a sweep")
    named = set(re.findall("`(.*?)`", alone if make is copy_run else alone + of_sweep))
    assert members == named


def test_a_run_without_its_logs_is_not_bundled(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / RUN.name)
    run = RunDirectory(tmp_path / RUN.name)
    shutil.rmtree(run.path / "logs")
    with pytest.raises(RunError, match=r"has no logs/.*\.err and \d+ more, which its processes wrote: run its files"):
        pack(run, tmp_path / "b.zip", "", False)
    assert not (tmp_path / "b.zip").exists()


@pytest.mark.parametrize("name", ["r-v1.2", "noext", "r.ZIP", "r.mprun.zip", "r.tar", "r.tar.GZ", "r.7z"])
def test_a_bundle_does_not_get_the_name_of_another_archive(name: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    called = CliRunner().invoke(command, [str(run), "--to", str(tmp_path / name)])
    is_other = name.lower().endswith((".tar", ".gz", ".7z"))
    assert ("a bundle is a zip file: end the name in .zip" in called.output) == is_other
    assert zipfile.is_zipfile(tmp_path / name) != is_other


def test_written_files_that_give_another_run_are_found(tmp_path: Path) -> None:
    run = RunDirectory(copy_run(tmp_path))
    assert compare_written(run) == WrittenFiles(proven=frozenset({"inputs/two.yaml", "inputs/fetch.yaml"}))
    for name, old, new, lines in (
        ("fetch.yaml", "requests: 3", "requests: 4", ("fetch.yaml: -  requests: 3", "fetch.yaml: +  requests: 4")),
        (
            "two.yaml",
            "20mbit, delay: 10ms",
            "20mbit, delay: 15ms",
            ("two.yaml: -  delay: 10ms", "two.yaml: +  delay: 15ms"),
        ),
    ):
        file = run.path / "inputs" / name
        text = file.read_text()
        file.write_text(text.replace(old, new))
        found = compare_written(run)
        assert {*lines} <= {*found.lines}
        assert found.proven == frozenset()
        # `verify` said of a file at once that it gives other runs, and that nothing is known of it
        assert [found.says_of(one) for one in (f"inputs/{name}", "figures/a.svg")] == [True, False]
        file.write_text(text + "# another comment\n")
    assert compare_written(run).lines == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda inputs: (inputs / "two.yaml").rename(inputs / "one.yaml"),
            "no pairs of them are named after the run, ",
        ),
        (lambda inputs: (inputs / "fetch.yaml").write_text("version: 1\ninclude: b/c.yaml\n"), "inputs/fetch.yaml:2: "),
        (lambda inputs: (inputs / "two.yaml").rename(inputs / "two.py"), "inputs/two.py: is a Python program"),
    ],
)
def test_written_files_that_cannot_be_compiled_are_told(
    change: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    run = RunDirectory(copy_run(tmp_path))
    change(run.path / "inputs")
    found = compare_written(run)
    assert (found.lines, found.proven) == ((), frozenset())
    assert not found.says_of("inputs/two.yaml")
    assert found.notes[0].startswith(f"the files in inputs/ were not compared with what ran: {reason}")


OWN = """version: 1
traffic:
  - {name: own, tool: exec, from: client, to: server, protocol: mptcp, files: [src/own.py], timeout: "{{ wait }}",
     command: [python3, own.py, "{destination}", "{{ bytes }}"]}
params: {bytes: 100, wait: 5s}
matrix: {wait: [5s, 6s], path0.loss: [0%, 1%]}
repeat: {runs: 2}
"""


def write_own_sweep(folder: Path, **parameters: str) -> SweepDirectory:
    """Return a sweep of a program of one's own, with the files that a bundle has."""
    (folder / "src").mkdir()
    (folder / "src" / "own.py").write_text("print(1)\n")
    (folder / "xp.yaml").write_text(OWN)
    loaded = load_cells(LAB / "topo.yaml", folder / "xp.yaml", parameters)
    cells = make_cells(loaded, "virtual", "default")
    placed = PlacedCells(cells, {"default": Build("6", "d")})
    sweep, _ = find_or_create(folder / "runs", placed, read_inputs(loaded[0].sources), False)
    for cell in cells:
        for number in (1, 2):
            spec = make_task(cell, number).spec
            run = RunDirectory.lay_out(sweep.folder.make(f"runs/{cell.folder}/{number}").path)
            resolved = resolve(spec, allocate(spec))
            texts = (write_topology(resolved.topology), write_experiment(resolved.experiment))
            run.keep_inputs(dict(zip((RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT), texts, strict=True)))
            _keep_attachments(run, spec)
            run.folder.write_json("environment.json", {**ENVIRONMENT, "parameters": dict(cell.parameters)})
            run.folder.write_json("summary.json", {**SUMMARY, "seed": spec.experiment.seed})
    return sweep


def test_a_bundle_of_an_earlier_version_has_the_digest_of_a_summary_with_sorted_keys(tmp_path: Path) -> None:
    old, again = (RunDirectory(copy_run(tmp_path, name)) for name in ("old", "again"))
    again.write_summary(again.summary())
    original = Original(old, {".": {name: digest_of(old, name) for name in old.artifacts()}})
    assert original.find_difference(".", again) is None
    again.write_summary(again.summary()._replace(seed=2))
    assert original.find_difference(".", again) == "summary.json differs"


def test_the_written_files_of_a_sweep_are_compared_in_each_run(tmp_path: Path) -> None:
    sweep = write_own_sweep(tmp_path)
    shutil.rmtree(tmp_path / "src")
    assert len(list(sweep.runs())) == 8
    assert compare_written(sweep) == WrittenFiles(proven=frozenset({"inputs/topo.yaml", "inputs/xp.yaml"}))
    file = sweep.path / "inputs" / "xp.yaml"
    text = file.read_text()
    for old, new, note in (
        ("bytes: 100", "bytes: 200", "bytes is 200 in inputs/, and was 100 in the run"),
        ("[5s, 6s]", "[5s, 7s]", "wait is 5s, 7s in inputs/, and was 6s in the run"),
        ("{runs: 2}", "{runs: 2, seed: 4}", "--seed is 4 in inputs/, and was 1 in the run"),
    ):
        file.write_text(text.replace(old, new))
        assert compare_written(sweep) == WrittenFiles(notes=(note, OTHER_VALUES))
    file.write_text(text.replace("[python3, own.py,", "[python3, own.py, again,"))
    assert compare_written(sweep).lines == ("xp.yaml: +  - again",)
    file.write_text(text.replace("path0.loss", "path0.duplicate"))
    assert "the sweep has other axes" in compare_written(sweep).notes[0]


def test_a_parameter_of_the_command_line_is_no_change_of_the_files(tmp_path: Path) -> None:
    sweep = write_own_sweep(tmp_path, bytes="300")
    note = "bytes is 100 in inputs/, and was 300 in the run"
    assert compare_written(sweep) == WrittenFiles(notes=(note, OTHER_VALUES))


def test_consent_is_asked_before_all_runs_are_read(tmp_path: Path) -> None:
    """The message on --allow-exec came after 17 s, when 20 runs had been read."""
    sweep = write_own_sweep(tmp_path)
    for kept in sweep.runs():
        if kept.number == 2:
            kept.run.keep_inputs({RESOLVED_EXPERIMENT: "version: 0\n"})
    shown: list[tuple[str, str]] = []
    how = Reproduction(tmp_path, "virtual", None, NO_COMMANDS, lambda text, _, note: shown.append((text, note)))
    with pytest.raises(SpecError, match="this experiment runs commands of its own"):
        reproduce(Original(sweep, {}), how)
    assert shown == [("reading", f"{n} of 8 runs") for n in range(4)]
