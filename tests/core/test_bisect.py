# SPDX-License-Identifier: Apache-2.0
"""`mprun bisect`: the search over histories, the reading of git repositories, and the judging of runs."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli.bisect import STATUS, command
from mprun.errors import MachineError, RunError, SpecError
from mprun.inputs.loading import Loaded, load
from mprun.kernel.patch import UnfitTree
from mprun.model.permission import NO_COMMANDS
from mprun.questions.bisect import (
    Answer,
    BisectTerm,
    CommitSearch,
    Experiment,
    attempt,
    bisect,
    read_statement,
    search,
)
from mprun.questions.bisect import test as judge_tree
from mprun.questions.built_version import KernelTree, OwnProgram
from mprun.questions.repository import History, Repository, read_history
from mprun.statements.expression import Value

COMMITS = [f"c{number:02}" for number in range(64)]
LINE = {commit: (COMMITS[number - 1] if number else "good",) for number, commit in enumerate(COMMITS)}


def judge_by(first_bad: int, skipped: set[str]) -> Callable[[str], BisectTerm]:
    """Return the verdict on each commit of the line. The search never asks twice, nor for the end that is known."""
    asked: set[str] = set()

    def test(commit: str) -> BisectTerm:
        assert commit not in asked
        assert commit != COMMITS[-1]
        asked.add(commit)
        return "skip" if commit in skipped else "bad" if COMMITS.index(commit) >= first_bad else "good"

    return test


def builds(found: CommitSearch) -> int:
    return sum(verdict != "skip" for _, verdict in found.tested)


@pytest.mark.parametrize("seed", range(20))
def test_one_of_64_commits_is_found_in_6_builds_whatever_is_skipped(seed: int) -> None:
    """Twenty histories: the first bad commit is at different places, and up to a third cannot be tested."""
    drawn = random.Random(seed)
    first_bad = drawn.randrange(64)
    ends = {COMMITS[first_bad], COMMITS[max(0, first_bad - 1)], COMMITS[-1]}
    skipped = set(drawn.sample(sorted(set(COMMITS) - ends), drawn.randrange(1, 22)))
    found = search(COMMITS, LINE, judge_by(first_bad, skipped))
    assert found.suspects == (COMMITS[first_bad],)
    assert builds(found) <= 6


@pytest.mark.parametrize("first_bad", range(64))
def test_each_place_is_found_in_6_builds(first_bad: int) -> None:
    found = search(COMMITS, LINE, judge_by(first_bad, set()))
    assert found.suspects == (COMMITS[first_bad],)
    assert len(found.tested) == builds(found) == 6


def test_skipped_commits_beside_the_first_bad_one_stay_suspects() -> None:
    found = search(COMMITS, LINE, judge_by(20, {"c18", "c19", "c20", "c40"}))
    assert found.suspects == ("c18", "c19", "c20", "c21")
    assert builds(found) <= 6


def test_nothing_is_tested_if_there_is_one_commit() -> None:
    assert search(["only"], {"only": ("good",)}, pytest.fail) == CommitSearch(("only",), ())


def test_nothing_can_be_tested() -> None:
    found = search(COMMITS, LINE, lambda _: "skip")
    assert found.suspects == tuple(COMMITS)
    assert builds(found) == 0


@pytest.mark.parametrize("seed", range(20))
def test_histories_with_merges(seed: int) -> None:
    """A commit is bad if the first bad commit is an ancestor of it, as after a fault on a branch."""
    drawn = random.Random(seed)
    parents: dict[str, tuple[str, ...]] = {}
    for number, commit in enumerate(COMMITS):
        before = COMMITS[max(0, number - 5) : number]
        parents[commit] = tuple(drawn.sample(before, min(len(before), drawn.choice((1, 1, 2))))) or ("good",)
    above: dict[str, set[str]] = {}
    for commit in COMMITS:
        above[commit] = {commit}.union(*(above.get(parent, set()) for parent in parents[commit]))
    history = [commit for commit in COMMITS if commit in above[COMMITS[-1]]]
    culprit = drawn.choice(history)
    found = search(history, parents, lambda commit: "bad" if culprit in above[commit] else "good")
    assert found.suspects == (culprit,)
    assert len(found.tested) <= 10


# -- git


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of ten commits, with tags v0 to v9. The user has changed a file since."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "program"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for number in range(10):
        (root / "value").write_text(f"{number}\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"Set the value to {number}")
        git(root, "tag", f"v{number}")
    (root / "value").write_text("not committed\n")
    (root / "built").write_text("of the user\n")
    return root


def state(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("is_worktree", [False, True])
def test_the_users_repository_is_only_read(repository: Path, tmp_path: Path, is_worktree: bool) -> None:
    tree = repository
    if is_worktree:
        tree = tmp_path / "second"
        git(repository, "worktree", "add", "-q", "--detach", str(tree), "v5")
    before = state(repository), state(tree)
    history = read_history(tree, "v2", "v8")
    assert len(history.commits) == 6
    assert history.describe(history.commits[0]).endswith(" Set the value to 3")
    checkout = history.repository
    for commit in (history.good, history.bad, history.commits[1]):
        checkout.take(commit)
        (checkout.own / "product").write_text("of a build")
    assert (checkout.own / "value").read_text() == "4\n"
    checkout.take(history.good)
    assert not (checkout.own / "product").exists()
    assert read_history(tree / ".", "v2", "v8").repository == checkout
    assert (state(repository), state(tree)) == before


def test_revisions_that_do_not_fit_are_named(repository: Path, tmp_path: Path) -> None:
    git(repository, "branch", "side", "v3")
    git(repository, "checkout", "-q", "-f", "side")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Beside")
    for good, bad, message in (
        ("v8", "v2", "there is no commit from v8 to v2: exchange --good and --bad"),
        ("v2", "nosuch", "program has no commit 'nosuch'"),
        ("--all", "v2", "program has no commit '--all'"),
        ("side", "v8", "side is no ancestor of v8: name a good commit from which v8 descends"),
    ):
        with pytest.raises(SpecError, match=message):
            read_history(repository, good, bad)
    with pytest.raises(SpecError, match="is not a git repository: name a folder of a clone"):
        read_history(tmp_path, "v1", "v2")


def test_git_must_be_installed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MachineError, match="git is not installed: apt-get install git"):
        read_history(repository, "v1", "v2")


# -- a whole search


def at(amount: float) -> Value:
    return Value((amount,), "rate")


def test_the_end_has_the_figures_of_both_sides(repository: Path) -> None:
    history = read_history(repository, "v0", "v9")
    checkout = history.repository
    told: list[str] = []

    def test(commit: str) -> Answer:
        checkout.take(commit)
        value = int((checkout.own / "value").read_text())
        if value == 4:
            return Answer("skip", reason="does not build")
        return Answer("bad" if value >= 6 else "good", {"rate": at(36.80 if value >= 6 else 36.92)})

    done = bisect(history, test, lambda commit, answer: told.append(f"{history.describe(commit)[8:]} {answer.term}"))
    assert [history.describe(one)[8:] for one in done.found.suspects] == ["Set the value to 6"]
    assert done.answers[done.before].figures["rate"].amount == 36.92
    assert done.answers[done.after].figures["rate"].amount == 36.80
    assert history.describe(done.before)[8:] == "Set the value to 5"
    assert told[:2] == ["Set the value to 0 good", "Set the value to 9 bad"]
    assert done.builds + done.skipped + 2 == len(told)


def test_the_side_before_is_the_nearest_good_commit_although_its_neighbour_was_skipped() -> None:
    history = History(Repository(Path(), Path()), "good", "c63", tuple(COMMITS), LINE)

    def test(commit: str) -> Answer:
        number = COMMITS.index(commit) if commit in COMMITS else -1
        return Answer("skip" if number in (30, 31) else "bad" if number >= 31 else "good")

    done = bisect(history, test, lambda *_: None)
    assert done.found.suspects == ("c30", "c31", "c32")
    assert done.before == "c29"
    assert done.after == "c32"


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [
        ({"v0": "bad"}, r"the good commit \w+ Set the value to 0 is bad: rate = 1"),
        ({"v0": "good", "v9": "good"}, r"the bad commit \w+ Set the value to 9 is good"),
        ({"v0": "skip"}, r"the good commit \w+ Set the value to 0 cannot be tested: does not build"),
    ],
)
def test_ends_that_are_not_what_they_should_be(repository: Path, verdicts: dict[str, BisectTerm], message: str) -> None:
    history = read_history(repository, "v0", "v9")
    names = {history.good: "v0", history.bad: "v9"}

    def test(commit: str) -> Answer:
        verdict = verdicts[names[commit]]
        return Answer(verdict, {"rate": at(1)}, reason="does not build" if verdict == "skip" else "")

    with pytest.raises(SpecError, match=message):
        bisect(history, test, lambda *_: None)


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_what_does_not_build_is_skipped_and_a_fault_of_the_machine_ends_the_search() -> None:
    good = Answer("good")
    statement = read_statement("bulk.goodput < 36mbit")
    assert attempt(lambda: None, lambda: good, statement) == good
    for error in (RunError("the kernel does not build:\nlines"), UnfitTree("a.c: the hook fits 0 times")):
        answer = attempt(failing(error), lambda: good, statement)
        assert answer == Answer("skip", reason=str(error).split("\n")[0])
    for fault in (MachineError("no space"), SpecError("wrong")):
        with pytest.raises(type(fault)):
            attempt(failing(fault), lambda: good, statement)


def test_a_kernel_that_dies_is_bad_only_if_the_run_itself_is_judged() -> None:
    def die() -> Answer:
        raise RunError("the experiment kernel ended before the run did")

    assert attempt(lambda: None, die, None).term == "bad"
    assert attempt(lambda: None, die, read_statement("bulk.goodput < 36mbit")).term == "skip"


def test_a_wrong_statement_is_found_before_anything_is_built() -> None:
    with pytest.raises(SpecError, match=r"--fail-if: 'bulk\.goodput <': at the end"):
        read_statement("bulk.goodput <")


def test_a_program_that_does_not_build_has_its_last_lines(tmp_path: Path) -> None:
    program = OwnProgram("echo built > product; echo wrong >&2; exit 3")
    with pytest.raises(RunError, match="ended with status 3\nwrong"):
        program.build(tmp_path, lambda *_: None)
    OwnProgram("true").build(tmp_path, lambda *_: None)
    assert (tmp_path / "product").read_text() == "built\n"


def test_a_tree_runs_on_the_kernel_that_was_built_also_with_an_axis_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of -p for this axis decided the kernel of each tree, so that no build was tested."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 1mbit}]\n")
    (tmp_path / "xp.yaml").write_text("version: 1\nmatrix: {kernel: [earlier, later]}\n")

    def read(more: Mapping[str, str]) -> Loaded:
        return load(tmp_path / "topo", tmp_path / "xp", {"kernel": "earlier", **more})

    subject = KernelTree(1, kernel="built")
    monkeypatch.setattr(subject, "build", lambda tree, progress: None)
    with pytest.raises(MachineError, match="no experiment kernel 'built' is built"):
        judge_tree(Experiment(read, "auto", tmp_path, NO_COMMANDS), subject, tmp_path, None, lambda *_: None)


def test_a_tree_alone_has_the_statuses_of_git_bisect_run(tmp_path: Path) -> None:
    assert STATUS == {"good": 0, "bad": 1, "skip": 125}
    words = ["-t", "topo", "-x", "xp", "--tree", str(tmp_path)]
    # git would count status 2 or 3 as bad
    done = CliRunner().invoke(command, [*words, "--build", "true"])
    assert done.exit_code == 128
    assert "topo" in done.output
    assert CliRunner().invoke(command, [*words, "--build", "exit 1"]).exit_code == 125
    done = CliRunner().invoke(command, [*words, "--good", "v1"])
    assert done.exit_code == 2
    assert "name both --good and --bad, or neither" in done.output
    done = CliRunner().invoke(command, [*words, "--engine", "real"])
    assert done.exit_code == 2
    assert "--engine real does not boot the kernels of the tree" in done.output
