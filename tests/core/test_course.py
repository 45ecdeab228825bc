# SPDX-License-Identifier: Apache-2.0
"""A course, as `mprun course export` packs it for a class."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.bundles.installation import digest_of
from mprun.cli.course import command
from mprun.errors import MachineError, SpecError
from mprun.kernel import store
from mprun.kernel.recipe import recipe_digest
from mprun.labs.catalog import open_lab
from mprun.labs.course.contents import Course, export_course
from mprun.labs.course.pages import LETTERS, Facts, LabFacts, break_command, draw_handout, write_readme
from tests.core.test_store import put

ARCHIVE = "mprun-0.1.0-x86_64.mprun-kernel.zip"
AIM = "See what a second path gives."
LAB = LabFacts("01_multipath", "01", "Two paths", AIM, ("mprun -t topo -x xp",), ("Why?",), None)
FACTS = Facts("0.1.0", "6.12.117-mprun", ARCHIVE, "a" * 64, (LAB,))


@pytest.fixture(autouse=True)
def _kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    put(store.store(), "a" * 64, "default", recipe=recipe_digest((6, 12)))


def export(target: Path, *names: str) -> Course:
    return export_course([open_lab(name) for name in names], store.find_kernel(), target)


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_course_has_labs_kernel_schemas_and_hand_out(tmp_path: Path) -> None:
    target = tmp_path / "class"
    course = export(target, "01", "02", "07")
    assert names_in(target) == set(course.files)
    top = {name for name in course.files if "/" not in name}
    assert top == {"README.md", "handout.html", "SHA256SUMS", ARCHIVE}
    assert {name for name in course.files if name.startswith("schemas/")} == {
        f"schemas/{name}.schema.json" for name in ("topology", "experiment", "lab", "config")
    }
    for name in ("01_multipath", "02_scheduler", "07_own_scheduler"):
        assert {f"labs/{name}/lab.yaml", f"labs/{name}/README.md"} <= set(course.files)
    assert not [name for name in course.files if "ANSWERS" in name or "solution" in name or "/runs/" in name]
    assert course.digest == digest_of(target / ARCHIVE)
    assert list(tmp_path.glob("mprun-course-*")) == []


def test_a_link_to_a_folder_of_the_lab_becomes_a_copy(tmp_path: Path) -> None:
    """Lab 02 has two names for one folder, and an archive has no links."""
    course = export(tmp_path / "class", "02")
    folder = tmp_path / "class" / "labs" / "02_scheduler"
    linked = {name.partition("msg/")[2] for name in course.files if "02_scheduler/msg/" in name}
    assert linked == {path.name for path in (folder / "reqres").iterdir()}
    assert not [path for path in folder.rglob("*") if path.is_symlink()]


def test_a_link_out_of_a_lab_is_refused(tmp_path: Path) -> None:
    lab = tmp_path / "own"
    export(tmp_path / "class", "01")
    (tmp_path / "class" / "labs" / "01_multipath").rename(lab)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (lab / "notes").symlink_to(tmp_path / "private")
    with pytest.raises(SpecError, match="notes: leads out of the lab"):
        export(tmp_path / "other", str(lab))
    assert not (tmp_path / "other").exists()


def test_the_checksums_are_those_of_the_files(tmp_path: Path) -> None:
    course = export(tmp_path / "class", "01")
    lines = [line.split("  ") for line in (tmp_path / "class" / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} == set(course.files) - {"SHA256SUMS"}
    for digest, name in lines:
        assert hashlib.sha256((tmp_path / "class" / name).read_bytes()).hexdigest() == digest


def test_an_archive_has_what_the_folder_has(tmp_path: Path) -> None:
    export(tmp_path / "class", "01")
    export(tmp_path / "class.zip", "01")
    (tmp_path / "again").mkdir()
    export(tmp_path / "again" / "class.zip", "01")
    assert (tmp_path / "again" / "class.zip").read_bytes() == (tmp_path / "class.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "class.zip") as archive:
        names = {name.removeprefix("class/") for name in archive.namelist()}
        assert names == names_in(tmp_path / "class")
        for name in names:
            assert archive.read(f"class/{name}") == (tmp_path / "class" / name).read_bytes()


def test_an_archive_that_exists_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "course.zip"
    target.write_text("mine")
    with pytest.raises(SpecError, match="exists already: name another file, or remove it"):
        export(target, "01")
    assert target.read_text() == "mine"


def test_no_page_leads_to_the_teachers_machine(tmp_path: Path) -> None:
    course = export(tmp_path / "class", "06", "07")
    for name in course.files:
        if name.endswith(".md"):
            page = tmp_path / "class" / name
            links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
            assert [one for one in links if "://" not in one and not (page.parent / one).exists()] == []
    first = (tmp_path / "class" / "labs" / "06_multipath_quic" / "topo.yaml").read_text().partition("\n")[0]
    schema = first.partition("$schema=")[2]
    assert (tmp_path / "class" / "labs" / "06_multipath_quic" / schema).resolve().is_file()


def test_the_first_page_has_the_commands_and_the_digest() -> None:
    text = write_readme(FACTS)
    assert f"    mprun kernel import {ARCHIVE} --trust {'a' * 64}\n" in text
    assert "    cd labs/01_multipath\n    mprun -t topo -x xp\n    mprun lab check\n" in text
    assert "    mprun lab check 01 students/* --csv > grades.csv\n" in text
    # a lab for which the student builds a kernel is not the first
    own = replace(LAB, folder="07_own", number="07", build="mprun kernel build --name mine")
    assert "    cd labs/01_multipath\n" in write_readme(replace(FACTS, labs=(own, LAB)))
    assert "    cd labs/07_own\n    mprun kernel build --name mine\n" in write_readme(replace(FACTS, labs=(own,)))


def pages_of(pdf: bytes) -> list[tuple[float, float]]:
    """Return the size of each page in millimetres."""
    boxes = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", pdf)
    return [(round(float(x) / 72 * 25.4, 1), round(float(y) / 72 * 25.4, 1)) for x, y in boxes]


def browse(page: Path, *options: str) -> str:
    """Open a page in chromium without a window. Return what chromium prints. Skip the test without chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    argv = [chromium, "--headless", "--no-sandbox", f"--user-data-dir={page.parent / 'profile'}", *options, str(page)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.parametrize("count", [1, 12, 40])
def test_the_hand_out_has_two_pages_of_a4(count: int, tmp_path: Path) -> None:
    many = replace(LAB, aim="See how long a text may be. " * 12, questions=("Why is this question asked?",) * 4)
    facts = replace(FACTS, labs=(many,) * count)
    text = draw_handout(facts)
    assert draw_handout(facts) == text
    assert re.findall(r'<section class="sheet (\w+)">', text) == ["first", "last"]
    assert "@page { size: A4; margin: 0; }" in text
    (tmp_path / "page.html").write_text(text)
    browse(tmp_path / "page.html", "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'page.pdf'}")
    pages = pages_of((tmp_path / "page.pdf").read_bytes())
    assert [(round(width), round(height)) for width, height in pages] == [(210, 297)] * 2


@pytest.mark.parametrize(("count", "are_shown"), [(3, True), (300, False)])
def test_the_questions_are_in_the_hand_out_if_they_fit(count: int, are_shown: bool, tmp_path: Path) -> None:
    text = draw_handout(replace(FACTS, labs=(replace(LAB, questions=("Why?",) * count),)))
    assert text.count("Why?") == count
    (tmp_path / "page.html").write_text(text)
    assert ("Why?" in browse(tmp_path / "page.html", "--dump-dom")) == are_shown


def test_the_hand_out_has_the_commands_and_the_digest() -> None:
    text = draw_handout(FACTS)
    assert "cd labs/01_multipath\nmprun -t topo -x xp\nmprun lab check</pre>" in text
    assert text.count("a" * 64) == 2
    for part in (LAB.title, AIM, "mprun verify latest", "path manager", "6.12.117-mprun"):
        assert part in text


def test_a_long_line_is_continued_as_a_shell_reads_it() -> None:
    command = f"mprun kernel import {ARCHIVE} --trust {'a' * 64}"
    lines = break_command(command)
    assert len(lines) > 1
    assert " ".join(" ".join(lines).replace("\\ ", "").split()) == command
    assert all(len(line) <= LETTERS for line in lines)


def test_the_command_names_the_digest(tmp_path: Path) -> None:
    target = tmp_path / "class"
    done = CliRunner().invoke(command, ["export", str(target), "01", "1", "04"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert re.fullmatch(rf"{target}: 2 labs, {len(names_in(target))} files, [\d.]+ MB", lines[0])
    assert lines[1] == f"the kernel's archive has SHA-256 {digest_of(target / ARCHIVE)}"
    again = CliRunner().invoke(command, ["export", str(target), "01"])
    assert isinstance(again.exception, SpecError)
    assert "exists already" in str(again.exception)
    nowhere = CliRunner().invoke(command, ["export", str(tmp_path / "no" / "class.zip"), "01"])
    assert isinstance(nowhere.exception, SpecError)


def test_without_a_kernel_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    done = CliRunner().invoke(command, ["export", str(tmp_path / "class"), "01"])
    assert isinstance(done.exception, MachineError)
    assert not (tmp_path / "class").exists()
