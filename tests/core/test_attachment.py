# SPDX-License-Identifier: Apache-2.0
"""Files that entries take with them: what goes into the archive, its digest, and what is refused."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.programs import unpack
from mprun.compile import allocate, compile_plan
from mprun.errors import RunError, SpecError
from mprun.inputs import attachment, document
from mprun.inputs.attachment import examine, is_hidden, keep
from mprun.inputs.loading import load, load_cells
from mprun.inputs.writer import write_experiment
from mprun.metrics.comparison import differing_lines
from mprun.model.spec import Attachment
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps import operands
from tests.core.test_own_result import LAB


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with a program, a link to it, an interpreter of the machine, and what is left out."""
    root = tmp_path / "tree"
    for name in ("bin", "lib", "__pycache__"):
        (root / name).mkdir(parents=True)
    (root / "bin" / "run").write_text("#!/bin/sh\necho done\n")
    (root / "bin" / "run").chmod(0o700)
    (root / "lib" / "data").write_bytes(b"\0" * 3000)
    (root / "lib64").symlink_to("lib")
    (root / "bin" / "again").symlink_to(root / "bin" / "run")
    (root / "bin" / "sh").symlink_to("/bin/sh")
    (root / "__pycache__" / "x.pyc").write_text("x")
    return root


def archive_of(path: Path) -> bytes:
    written = io.BytesIO()
    keep(examine(path), written)
    return written.getvalue()


def test_the_same_files_have_the_same_digest(tree: Path, tmp_path: Path) -> None:
    first = examine(tree)
    for path in sorted(tree.rglob("*"), reverse=True):
        os.utime(path, (1, 1), follow_symlinks=False)
    (tree / "lib" / "data").chmod(0o600)
    assert examine(tree) == first
    (tree / "lib" / "data").chmod(0o755)
    assert examine(tree).sha256 != first.sha256
    # the archive is its own attachment
    (tmp_path / "kept.tar").write_bytes(archive_of(tree))
    now = examine(tree)
    again = examine(tmp_path / "kept.tar", "tree")
    assert (again.sha256, again.size_bytes, again.name) == (now.sha256, now.size_bytes, "tree")
    copied = io.BytesIO()
    keep(again, copied)
    assert copied.getvalue() == archive_of(tree)


def test_members_are_in_order_and_links_stay_links(tree: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive_of(tree))) as archive:
        told = {member.name: (member.type, member.mode, member.linkname) for member in archive}
    assert list(told) == [
        "tree",
        "tree/bin",
        "tree/lib",
        "tree/lib64",
        "tree/bin/again",
        "tree/bin/run",
        "tree/bin/sh",
        "tree/lib/data",
    ]
    assert told["tree/bin/run"][1:] == (0o755, "")
    assert told["tree/lib/data"][1:] == (0o644, "")
    assert told["tree/bin/again"][2] == "run"
    assert told["tree/bin/sh"][2] == "/bin/sh"
    assert told["tree/lib64"][2] == "lib"


def test_unpacking_and_keeping_what_a_build_made(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "kept.tar").write_bytes(archive_of(tree))
    folder, kept = tmp_path / "copy", tmp_path / "products"
    unpack.unpack(str(folder), [str(tmp_path / "kept.tar")])
    assert (folder / "tree" / "lib64" / "data").read_bytes() == b"\0" * 3000
    assert os.access(folder / "tree" / "bin" / "again", os.X_OK)
    assert {path.lstat().st_mtime for path in folder.rglob("*")} == {float(unpack.TIME_S)}
    (folder / "tree" / "new").mkdir()
    (folder / "tree" / "new" / "made").write_text("made")
    (folder / "tree" / "bin" / "run").write_text("changed")
    unpack.keep(str(folder), str(kept), [str(tmp_path / "kept.tar")])
    found = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert found == {"tree/new/made", "tree/bin/run"}


@pytest.mark.parametrize("name", ["../out", "/etc/out", "a/../../out", "a//b", "./a", "."])
def test_a_member_that_leads_out_is_not_unpacked(name: str, tmp_path: Path) -> None:
    member = tarfile.TarInfo(name)
    with pytest.raises(ValueError, match="leads out of its folder"):
        unpack.path_of(str(tmp_path), member)


@pytest.mark.parametrize("count", [1, 2])
def test_no_member_is_written_through_a_link(count: int, tmp_path: Path) -> None:
    """The link may be in the same archive or in an earlier one."""
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, str(outside)
    members = [link, tarfile.TarInfo("link/file")]
    archives = [members] if count == 1 else [[one] for one in members]
    for n, some in enumerate(archives):
        with tarfile.open(tmp_path / f"{n}.tar", "w") as archive:
            for member in some:
                archive.addfile(member, io.BytesIO())
    with pytest.raises(OSError, match="No such file"):
        unpack.unpack(str(tmp_path / "copy"), [str(tmp_path / f"{n}.tar") for n in range(len(archives))])
    assert not list(outside.iterdir())


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE, tarfile.GNUTYPE_SPARSE])
def test_only_files_folders_and_symbolic_links_are_unpacked(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("odd")
    member.type, member.linkname = kind, "/etc/passwd"
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises((ValueError, tarfile.TarError)):
        unpack.unpack(str(tmp_path / "copy"), [str(tmp_path / "bad.tar")])
    assert not list((tmp_path / "copy").iterdir())


def test_a_compressed_archive_is_not_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("file"))
    with pytest.raises(tarfile.ReadError):
        unpack.unpack(str(tmp_path / "copy"), [str(tmp_path / "bad.tar")])


def test_a_script_of_another_system_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"#!/bin/sh\r\necho done\r\n")
    examine(path)
    path.chmod(0o755)
    with pytest.raises(SpecError, match="lines that end in CR LF"):
        examine(path)


def test_what_cannot_go_into_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(path: Path) -> str:
        with pytest.raises(SpecError) as refused:
            examine(path)
        return str(refused.value)

    folder = tmp_path / "d"
    folder.mkdir()
    assert fault(tmp_path / "none") == "does not exist"
    os.mkfifo(tmp_path / "fifo")
    assert fault(tmp_path / "fifo") == "is neither a file nor a folder: remove it"
    assert "neither a file" in fault(Path("/dev/null"))
    for target in ("/etc/passwd", "/nowhere", "../fifo", "/root"):
        (folder / "link").symlink_to(target)
        assert fault(folder).startswith("holds the link 'link' to /")
        (folder / "link").unlink()
    (tmp_path / "circle").symlink_to("circle")
    assert "circle" in fault(tmp_path / "circle") or "levels" in fault(tmp_path / "circle")
    (folder / "a").write_bytes(b"\0" * 2000)
    monkeypatch.setattr(attachment, "MOST_BYTES", 1000)
    assert "MB, the most that a run takes" in fault(folder)
    monkeypatch.setattr(attachment, "MOST_BYTES", 10_000)
    monkeypatch.setattr(attachment, "MOST_MEMBERS", 1)
    assert "holds more than 1 files and folders" in fault(folder)


def test_a_file_that_changes_meanwhile_ends_the_run(tree: Path) -> None:
    known = examine(tree)
    (tree / "lib" / "data").write_text("other")
    with pytest.raises(RunError, match="changed while the run began"):
        keep(known, io.BytesIO())


def test_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/bin/sh")
    assert is_hidden(tmp_path)
    assert is_hidden(tmp_path / "link")
    assert not is_hidden(tmp_path / "none")
    for seen in ("/usr/bin/env", "/bin/sh", "/etc/passwd", "/tmp", "/dev/null", "/"):
        assert not is_hidden(Path(seen))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as shared:
        assert is_hidden(Path(shared.name))


def load_files(folder: Path, entry: str, command: str = "[sleep, 1s]") -> Any:
    ends = "tool: exec, from: client, to: server"
    (folder / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {{{ends}, command: {command}, {entry}}}\n")
    return load(LAB, folder / "xp.yaml")


def test_the_resolved_file_names_the_archives(tree: Path, tmp_path: Path) -> None:
    spec = load_files(tmp_path, "files: [tree], build: [make], environment: {A: b}").spec
    (told,) = spec.experiment.attachments
    (flow,) = spec.experiment.traffic
    assert flow.options["attachments"] == [{"name": "tree", "sha256": told.sha256, "size_bytes": told.size_bytes}]
    kept = tmp_path / "kept"
    (kept / "files").mkdir(parents=True)
    (kept / told.path).write_bytes(archive_of(tree))
    (kept / "xp.yaml").write_text(write_experiment(spec.experiment))
    again = load(LAB, kept / "xp.yaml").spec.experiment
    assert again.traffic == spec.experiment.traffic
    assert again.attachments[0].is_archive


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("files: [/etc/passwd]", "'/etc/passwd' lies outside the folder of"),
        ("files: [link]", "'link' lies outside the folder of"),
        ("files: [none]", "files[0]: 'none' does not exist"),
        ("files: [tree, tree/bin/../../tree]", "files[1]: 'tree' is there already"),
        ("files: ['.']", "files[0]: is no name of a file or folder"),
        ("files: ['tree/..']", "files[0]: is no name of a file or folder"),
        ("files: [{name: a/b, archive: x.tar}]", "files[0]: is no name of a file or folder"),
        ("build: [make]", "build: needs files to build"),
        ("environment: {A: 3}", "environment.A"),
        ("environment: {a-b: c}", "environment"),
    ],
)
def test_faults_of_files(tree: Path, tmp_path: Path, entry: str, fault: str) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(SpecError) as refused:
        load_files(tmp_path, entry)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("command", "entry", "warning"),
    [
        ("[tree/bin/run]", "timeout: 9s", "'tree/bin/run' is a file that programs of a run do not see: write"),
        ("[cat, ./tree]", "timeout: 9s", "write 'files: [tree]'"),
        ("[tree/bin/run]", "files: [tree]", ""),
        ("[ls, /tmp, /usr/bin, none.py]", "timeout: 9s", ""),
    ],
)
def test_a_command_that_names_a_hidden_file(tree: Path, tmp_path: Path, command: str, entry: str, warning: str) -> None:
    warnings = load_files(tmp_path, entry, command).warnings
    assert bool(warnings) == bool(warning)
    assert all(warning in one for one in warnings)


def test_a_script_for_an_interpreter_that_is_not_there_may_be_run_by_another(tree: Path, tmp_path: Path) -> None:
    (tree / "bin" / "run").write_text("#!/usr/bin/no-such-python\n")
    (tree / "bin" / "run").chmod(0o755)
    assert load_files(tmp_path, "files: [tree]", "[python3, tree/bin/run]").warnings == ()


def test_a_program_below_a_folder_of_runs_is_hidden_if_this_machine_has_it(tree: Path, tmp_path: Path) -> None:
    """A run has a /tmp of its own, in which a build may make programs."""
    (said,) = load_files(tmp_path, "timeout: 9s", f"[{tree}/bin/run]").warnings
    assert "is a file that programs of a run do not see: copy it beside this file" in said
    (tree / "pyvenv.cfg").touch()
    (said,) = load_files(tmp_path, "timeout: 9s", f"[{tree}/bin/run]").warnings
    assert said.endswith(
        "make its virtual environment beside this file, write 'files: [tree]', and here 'tree/bin/run'"
    )
    assert load_files(tmp_path, "timeout: 9s", "[/tmp/made/by/a/build]").warnings == ()


def test_every_program_that_touches_the_files_is_confined(tree: Path, tmp_path: Path) -> None:
    """A stranger may have made the archives, and the build may have left links where its products are kept."""
    spec = load_files(tmp_path, "files: [tree], build: [make]").spec
    plan = compile_plan(spec, allocate(spec))
    assert [one.name for one in plan.preparations] == ["exec.files", "exec.build", "exec.products"]
    assert all(one.is_foreign for one in (*plan.preparations, *plan.flows))


def test_cells_of_a_matrix_examine_the_files_once(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[Path] = []

    def count(path: Path, archived: str | None) -> Attachment:
        examined.append(path)
        return examine(path, archived)

    monkeypatch.setattr(document, "examine", count)
    entry = "{tool: exec, from: client, to: server, command: [sleep, 1s], files: [tree]}"
    axis = "path0.rate: [5mbit, 6mbit, 7mbit]"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{entry}]\nmatrix: {{{axis}}}\n")
    cells = load_cells(LAB, tmp_path / "xp.yaml")
    assert [len(cell.spec.experiment.attachments) for cell in cells] == [1, 1, 1]
    assert len(examined) == 1
    # the files may have changed when they are read again
    load_cells(LAB, tmp_path / "xp.yaml")
    assert len(examined) == 2


def test_runs_of_a_sweep_store_their_files_once(tmp_path: Path) -> None:
    """Only a file with the content that the experiment names is shared, as programs of a run can change their own."""
    sha256 = hashlib.sha256(b"the files").hexdigest()
    attachment = Attachment("tree", sha256, 9, "tree", False)
    sweep = SweepDirectory(tmp_path)
    for number, content in ((1, b"the files"), (2, b"the files"), (3, b"others"), (4, b"the files")):
        made = tmp_path / f".run{number}"
        (made / "inputs" / "files").mkdir(parents=True)
        (made / "inputs" / attachment.path).write_bytes(content)
        (made / "summary.json").write_text("{}")
        sweep.finish(made, f"only/{number}", [attachment])
    kept = [tmp_path / "runs" / "only" / str(number) / "inputs" / attachment.path for number in range(1, 5)]
    assert [path.read_bytes() for path in kept] == [b"the files", b"the files", b"others", b"the files"]
    first, second, other, last = (path.stat().st_ino for path in kept)
    assert first == second == last != other
    assert not list(tmp_path.rglob("*.partial"))


def test_a_comparison_names_an_attached_file_that_differs(tmp_path: Path) -> None:
    """A changed program did not appear between two sweeps, and only as a digest between two runs."""
    runs: list[list[RunDirectory]] = []
    for n, content in enumerate(("one", "two")):
        (tmp_path / "client.py").write_text(content)
        (tmp_path / "same.py").write_text("same")
        spec = load_files(tmp_path, "files: [client.py, same.py]").spec
        made = RunDirectory.create(tmp_path / "runs", "t", f"{n}" * 8)
        texts = {"resolved-topology.yaml": "", "resolved-experiment.yaml": write_experiment(spec.experiment)}
        made.keep_inputs(texts)
        made.folder.make("inputs/files")
        for one in spec.experiment.attachments:
            with made.folder.whole(f"inputs/{one.path}") as file:
                keep(one, file)
        made.folder.write_text("plan.json", compile_plan(spec, allocate(spec)).to_text())
        runs.append([made])
    assert operands._name_attached(*runs) == ["exec: client.py differs"]
    assert operands._name_attached(runs[0], runs[0]) == []
    # the digest of its archive is no difference of its own
    assert differing_lines(*(operands._resolved(run) for (run,) in runs)) == []


def test_the_inputs_of_a_sweep_have_the_files_of_all_cells(tmp_path: Path) -> None:
    """Files of the first cell alone were kept, so that a change of another file was no difference."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.rates").write_text("10mbit\n")
    event = "{link: path0, trace: '{{ t }}.rates', format: rates, interval: 1s}"
    path = "{rate: 9mbit}"
    (tmp_path / "topo.yaml").write_text(
        f"version: 1\nparams: {{t: a}}\ntopology: multi-path\npaths: [{path}]\nevents: [{event}]\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nmatrix: {t: [a, b]}\ntraffic: [{tool: ping, from: client, to: server}]\n"
    )
    first, _ = load_cells(tmp_path / "topo", tmp_path / "xp")
    assert [one.name for one in first.sources] == ["topo.yaml", "a.rates", "xp.yaml", "b.rates"]
