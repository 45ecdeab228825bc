# SPDX-License-Identifier: Apache-2.0
"""`mprun history`: the values of baselines over the commits of a repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli.history import command
from mprun.errors import RunError, SpecError
from mprun.questions.history import read_past
from mprun.reports.history_page import HistoryLine, make_page
from tests import scenes

BASELINE = scenes.BASELINE + "value bulk.subflows = 2 1\n"


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", ".")
    (tmp_path / "labs").mkdir()
    for goodput, subject in (("36921000.0", "first"), ("36921000.0", "no change"), ("36884000.0", "slower <b>")):
        (tmp_path / "labs" / "topo-xp.baseline").write_text(BASELINE.format(goodput=goodput))
        (tmp_path / "other").write_text(subject)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", subject)
    return tmp_path


def test_each_commit_that_changed_a_baseline_is_a_version(repository: Path) -> None:
    (found,) = read_past(repository)
    assert found.name == "labs/topo-xp.baseline"
    assert [one.subject for one in found.versions] == ["first", "slower <b>"]
    assert found.values()["bulk.goodput"] == [(36921000.0, "bit/s"), (36884000.0, "bit/s")]
    ((version, differences),) = found.changes()
    assert version.subject == "slower <b>"
    assert [one.name for one in differences] == ["value bulk.goodput"]


def test_a_change_that_is_not_committed_is_the_last_version(repository: Path) -> None:
    (repository / "labs" / "topo-xp.baseline").write_text(BASELINE.format(goodput="1.0"))
    (found,) = read_past(repository / "labs")
    assert [one.name for one in found.versions][2:] == ["now"]
    assert found.values()["bulk.goodput"][-1] == (1.0, "bit/s")


def test_a_version_that_cannot_be_read_is_left_out(repository: Path) -> None:
    (repository / "labs" / "topo-xp.baseline").write_text("<<<<<<<\n")
    git(repository, "commit", "--quiet", "-am", "damaged")
    (repository / "labs" / "topo-xp.baseline").write_text(BASELINE.format(goodput="2.0"))
    git(repository, "commit", "--quiet", "-am", "repaired")
    (found,) = read_past(repository)
    assert [one.subject for one in found.versions] == ["first", "slower <b>", "repaired"]
    done = CliRunner().invoke(command, [str(repository), "--json"])
    assert done.stderr == "note: versions of baselines that cannot be read, and are left out: 1\n"


def test_a_baseline_that_was_removed_for_a_time_has_its_other_versions(repository: Path) -> None:
    git(repository, "rm", "--quiet", "labs/topo-xp.baseline")
    git(repository, "commit", "--quiet", "-m", "removed")
    (repository / "labs").mkdir()
    (repository / "labs" / "topo-xp.baseline").write_text(BASELINE.format(goodput="2.0"))
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "restored")
    (found,) = read_past(repository)
    assert [one.subject for one in found.versions] == ["first", "slower <b>", "restored"]


def test_a_page_says_that_its_figures_have_the_newest_commits() -> None:
    commits = [str(n) for n in range(61)]
    text = make_page("a", [HistoryLine("b", "c.d", "1", commits, [0.0, *[1.0] * 60])], [])
    assert "A figure has the newest 60 commits of its baseline, of up to 61." in text


def test_a_version_whose_content_is_missing_is_an_error(repository: Path) -> None:
    """A partial clone lacks the content of old versions. Before, such a version was left out without a word."""
    argv = ["git", "rev-parse", "HEAD~2:labs/topo-xp.baseline"]
    blob = subprocess.run(argv, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RunError, match="an object is missing or damaged; mprun fetches none, so make a whole clone"):
        read_past(repository)


@pytest.mark.parametrize("subject", ["a\u2028b", "a\x0cb", "a\rb"])
def test_a_subject_with_other_line_breaks_is_one_line(repository: Path, subject: str) -> None:
    """Before, the command ended with a traceback."""
    (repository / "labs" / "topo-xp.baseline").write_text(BASELINE.format(goodput="2.0"))
    git(repository, "commit", "--quiet", "-am", subject)
    (found,) = read_past(repository)
    assert len(found.versions) == 3


def test_sha256_shallow_and_further_work_trees(tmp_path: Path, repository: Path) -> None:
    shallow, tree, other = tmp_path / "shallow", tmp_path / "tree", tmp_path / "sha256"
    git(repository, "clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))
    assert [one.subject for one in read_past(shallow)[0].versions] == ["slower <b>"]
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD~1")
    assert [one.subject for one in read_past(tree)[0].versions] == ["first"]
    git(tmp_path, "init", "--quiet", "--object-format=sha256", str(other))
    (other / "a.baseline").write_text(BASELINE.format(goodput="1.0"))
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "only")
    git(other, "pack-refs", "--all")
    assert [one.subject for one in read_past(other)[0].versions] == ["only"]


def test_without_baselines_or_repository_the_command_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no baseline below"):
        read_past(tmp_path)
    (tmp_path / "a.baseline").write_text(BASELINE.format(goodput="1.0"))
    with pytest.raises(SpecError, match="not a git repository"):
        read_past(tmp_path)


def test_the_page_draws_what_changed(repository: Path) -> None:
    page = repository / "history.html"
    done = CliRunner().invoke(command, [str(repository), "--to", str(page)])
    assert done.exit_code == 0, done.output
    assert "1 baseline, 2 commits, 1 of 2 values changed" in done.output
    text = page.read_text()
    assert "36.92 Mbit/s" in text
    assert "-0.100%" in text
    assert "slower &lt;b&gt;" in text
    assert text.count("<figure") == 1
    assert page.read_text() == text
    printed = CliRunner().invoke(command, [str(repository), "--json"])
    assert [one["subject"] for one in json.loads(printed.output)["labs/topo-xp.baseline"]] == ["first", "slower <b>"]
