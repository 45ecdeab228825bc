# SPDX-License-Identifier: Apache-2.0
"""Every lab has its pages: a README with a drawing of each topology, separate answers, and no broken links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from mprun.cli.graph import command as graph
from mprun.cli.show_lab import _group_complaints, _group_steps, show_lab, show_left, show_total
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load_cells
from mprun.labs.catalog import ORIGIN, copy_lab, find_original, open_lab
from mprun.labs.definition import read_lab
from mprun.labs.grade import NOT_RUN, Grade, digests_of, grade
from mprun.labs.steps import Done, LabRun
from mprun.metrics.claim_check import JudgedClaim
from mprun.model.run_summary import Summary
from mprun.runs.runner import read_inputs
from mprun.storage.run_directory import RunDirectory
from tests.hostile import RUN
from tests.labs import FOLDERS

SVG = "{http://www.w3.org/2000/svg}"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#]+)\)")
PAGES = [path for folder in FOLDERS for path in sorted(folder.glob("*.md"))]
# `pictures` has figures of runs, which tests/system/test_pictures.py compares.
NOT_DRAWN_HERE = {"pictures", "runs"}
DRAWINGS = [
    path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.svg"))
    if not NOT_DRAWN_HERE & set(path.relative_to(folder).parts)
]


def texts(svg: str) -> list[str]:
    """Return the texts in a picture, sorted, independent of graphviz's layout."""
    return sorted("".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text"))


def _links(page: Path) -> Iterator[str]:
    return (link for link in LINK.findall(page.read_text()) if "://" not in link)


def test_the_newest_run_counts_wherever_it_lies(tmp_path: Path) -> None:
    lab = read_lab(FOLDERS[0]).in_profile("quick")
    step = lab.steps[0]
    for name in ("runs/20260102-000000-topo-xp-0a1b2c3d", "attempt/runs/20260101-000000-topo-xp-0a1b2c3d"):
        run = tmp_path / name
        run.mkdir(parents=True)
        (run / "plan.json").write_text((RUN / "plan.json").read_text())
        (run / "summary.json").write_text((RUN / "summary.json").read_text())
    digest = json.loads((RUN / "plan.json").read_text())["digest"]
    found = grade(lab, {step.name: digest}, tmp_path).runs[step.name]
    assert found.path == tmp_path / "runs" / "20260102-000000-topo-xp-0a1b2c3d"


def test_steps_on_two_kernels_have_each_a_run_of_its_own(tmp_path: Path) -> None:
    """A plan has no kernel, so that the newest run counted for both steps, and a claim compared it with itself."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 1mbit}]\n")
    flow = "{name: asked, tool: ping, from: client, to: server, count: 2}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\nmatrix: {{kernel: [default, mine]}}\ntraffic: [{flow}]\n")
    steps = [
        f"{{name: {name}, topology: topo, experiment: xp, params: {{kernel: {name}}}}}" for name in ("default", "mine")
    ]
    claim = "{says: a, holds: default.asked.rtt <= mine.asked.rtt, why: b}"
    (tmp_path / "lab.yaml").write_text(
        f"version: 1\ntitle: a\naim: b\nsteps: [{', '.join(steps)}]\nclaims: [{claim}]\n"
    )
    lab = read_lab(tmp_path)
    digests = digests_of(lab)
    spec = lab.steps[0].load().spec
    plan = compile_plan(spec, allocate(spec))
    environment = json.loads((RUN / "environment.json").read_text())
    for n, kernel in enumerate(("default", "mine")):
        run = tmp_path / "runs" / f"2026010{n + 1}-000000-topo-xp-{plan.digest[:8]}"
        run.mkdir(parents=True)
        (run / "summary.json").write_text((RUN / "summary.json").read_text())
        (run / "plan.json").write_text(plan.to_text())
        (run / "environment.json").write_text(json.dumps(environment | {"parameters": {"kernel": kernel}}))
    found = grade(lab, digests, tmp_path).runs
    assert {name: run.environment().parameters["kernel"] for name, run in found.items()} == {
        "default": "default", "mine": "mine",
    }  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_lab_has_its_pages(folder: Path) -> None:
    lab = read_lab(folder)
    readme = (folder / "README.md").read_text()
    assert lab.file.title in readme
    assert lab.file.questions
    answers = (folder / "ANSWERS.md").read_text()
    assert answers.count("\n**") == len(lab.file.questions)
    for step in lab.steps:
        assert step.topology.name in readme
        assert step.experiment.name in readme


@pytest.mark.parametrize(
    "folder", [one for one in FOLDERS if one.name[:2] not in ("02", "10", "11", "13")], ids=lambda one: one.name
)
def test_the_commands_of_a_page_are_the_steps_of_its_claims(folder: Path) -> None:
    """Whoever types them has a run for each claim of the quick profile. Pages of other labs have loops or examples."""
    typed = [set(line.split()) for line in (folder / "README.md").read_text().splitlines()]
    for step in read_lab(folder).in_profile("quick").steps:
        command = step.command(folder)
        assert set(command.split()) in typed, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in _links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_drawings_are_current(drawing: Path, update_golden: bool) -> None:
    """Only the texts are compared. The layout depends on the version of graphviz."""
    made = CliRunner().invoke(graph, ["-t", str(drawing.with_suffix("")), "--format", "svg"])
    assert made.exit_code == 0, made.output
    if update_golden:
        drawing.write_text(made.stdout)
    assert texts(drawing.read_text()) == texts(made.stdout), "run: make golden"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_page_asks_what_the_lab_asks(folder: Path) -> None:
    section = (folder / "README.md").read_text().split("\n## Questions\n")[1].split("\n## ")[0]
    asked = [" ".join(item.split()) for item in section.split("\n- ")[1:]]
    assert asked == [
        f"{' '.join(one.ask.split())} *{' '.join(one.hint.split())}*" for one in read_lab(folder).file.questions
    ]


@pytest.mark.parametrize(
    ("topology", "sweep", "first_ns"),
    [("topo_unlike", "delays_published", 5_000_000), ("topo_paths", "rates_published", 20_000_000)],
)
def test_published_sweeps_are_those_of_the_study(topology: str, sweep: str, first_ns: int) -> None:
    """60 s each. Figure 12 keeps the first path at 10 ms there and back; a path of topology A is two links of 10 ms."""
    folder = next(folder for folder in FOLDERS if folder.name == "10_openflow_topologies")
    cell = load_cells(folder / topology, folder / sweep, {"rate": "20mbit"})[0].spec
    assert [flow.duration_ns for flow in cell.experiment.traffic] == [60_000_000_000]
    links = cell.topology.links
    client = [link for link in links if "client" in link.ends]
    onward = {end for end in client[0].ends if end != "client"}
    first = [client[0], *(link for link in links if onward & set(link.ends) and "server" in link.ends)]
    assert sum(link.forward.delay_ns for link in first) == first_ns


def test_a_copy_has_both_names_of_a_folder_and_no_link_of_a_run(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    copy_lab(read_lab(next(folder for folder in FOLDERS if folder.name == "02_scheduler")), mine)
    (mine / "reqres" / "msg_client.log").symlink_to("runs/latest/logs/msg.log")
    copy_lab(read_lab(mine), tmp_path / "copy")
    folder = tmp_path / "copy" / "msg"
    assert folder.readlink() == Path("reqres")
    assert (folder / "topo.yaml").exists()
    assert not (folder / "msg_client.log").is_symlink()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_links_of_a_copy_lead_somewhere(folder: Path, tmp_path: Path) -> None:
    """Also in a copy of a copy. A copy has no answers, and no link to answers."""
    copies = [tmp_path / "deep" / "mine", tmp_path / "other"]
    copy_lab(read_lab(folder), copies[0])
    copy_lab(read_lab(copies[0]), copies[1])
    for copy in copies:
        page = copy / "README.md"
        assert [link for link in _links(page) if not (page.parent / link).exists()] == []
        assert "ANSWERS.md" not in page.read_text()
        assert not (copy / "solution").exists()
        assert find_original(read_lab(copy)).folder.resolve() == folder
    # pictures and links to other places stay
    links = [list(_links(page)) for page in (folder / "README.md", copies[0] / "README.md")]
    left_out = [link for link in links[0] if link == "ANSWERS.md" or link.startswith("solution/")]
    assert len(links[1]) == len(links[0]) - len(left_out)
    targets = {(copies[0] / link).resolve() for link in links[1] if link.startswith("../")}
    assert targets == {(folder / link).resolve() for link in links[0] if link.startswith("../")}


def test_links_of_a_copy_without_the_documentation_become_text(tmp_path: Path) -> None:
    """An installed package has labs and no documentation."""
    copy_lab(read_lab(FOLDERS[0]), tmp_path / "shipped")
    page = tmp_path / "shipped" / "README.md"
    page.write_text(
        "See [the page](../../docs/quic.md#keys), [rfc](https://rfc-editor.org/a) and [topo](topo.yaml#L3)."
    )
    copy_lab(read_lab(tmp_path / "shipped"), tmp_path / "copy")
    text = (tmp_path / "copy" / "README.md").read_text()
    assert text == "See the page, [rfc](https://rfc-editor.org/a) and [topo](topo.yaml#L3)."


@pytest.mark.parametrize("kind", ["unknown", "link", "folder"])
def test_a_copy_whose_mark_cannot_be_read_is_a_lab_of_its_own(kind: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy_lab(read_lab(FOLDERS[0]), copy)
    (copy / ORIGIN).unlink()
    if kind == "unknown":
        (copy / ORIGIN).write_text("99_none\n")
    elif kind == "link":
        (copy / ORIGIN).symlink_to("/dev/zero")
    else:
        (copy / ORIGIN).mkdir()
    assert find_original(read_lab(copy)).folder == copy


def test_steps_with_other_flows_have_a_table_of_their_own() -> None:
    """No step stands in a table in which it has no value. A step without a result stays with the step before it."""

    def step(name: str, *metrics: str) -> Any:
        return SimpleNamespace(name=name, summary=SimpleNamespace(metrics=dict.fromkeys(metrics)) if metrics else None)

    shown = ["msg.delay", "http.delay", "http.share"]
    done = [step("broken"), step("a", "msg.delay"), step("b"), step("c", "http.delay"), step("d", "http.share")]
    result: Any = SimpleNamespace(lab=SimpleNamespace(file=SimpleNamespace(show=shown)), done=done)
    shared: Any = _group_steps(result)
    tables = [(names, [one.name for one in steps]) for names, steps in shared]
    assert tables == [(["msg.delay"], ["broken", "a", "b"]), (["http.delay", "http.share"], ["c", "d"])]
    nothing: Any = SimpleNamespace(lab=SimpleNamespace(file=SimpleNamespace(show=shown)), done=[step("broken")])
    assert [names for names, _ in _group_steps(nothing)] == [shown]


def test_one_empty_line_is_between_the_values_of_a_lab_and_its_claims(capsys: pytest.CaptureFixture[str]) -> None:
    lab = open_lab("01")
    done = tuple(
        Done(step, "ran", 1.0, Path("runs/x"), Summary("passed", True, 1, {}, (), (), (), ()))
        for step in lab.in_profile("quick").steps
    )
    judgements = tuple(JudgedClaim(claim, "held") for claim in lab.claims)
    show_lab(LabRun(lab, done, judgements, (), {}, {}, {}))
    printed = capsys.readouterr().out
    assert judgements
    assert "\n\n\n" not in printed


def test_a_step_that_was_run_with_another_seed_is_named(tmp_path: Path) -> None:
    lab = open_lab("01").in_profile("quick")
    step = lab.steps[0]
    run = RunDirectory(tmp_path / "runs" / f"20260101-000000-{step.topology.name}-{step.experiment.name}-00000000")
    run.path.mkdir(parents=True)
    run.folder.make("inputs")
    run.keep_inputs(read_inputs(step.load().sources))
    run.write_summary(Summary("passed", True, 2, {}, (), (), (), ()))
    graded = grade(lab, {}, tmp_path)
    assert graded.left[0] == (step, "was run with seed 2: run it again without --seed")


def test_changes_that_are_undone_ask_for_another_run(tmp_path: Path) -> None:
    """The advice to undo the changes stayed until the step was run again."""
    lab = open_lab("01").in_profile("quick")
    step = lab.steps[0]
    texts = read_inputs(step.load().sources)
    name = step.topology.with_suffix(".yaml").name
    run = RunDirectory(tmp_path / "runs" / f"20260101-000000-{step.topology.name}-{step.experiment.name}-00000000")
    run.path.mkdir(parents=True)
    run.folder.make("inputs")
    run.keep_inputs({**texts, name: texts[name] + "ecmp: true\n"})
    run.write_summary(Summary("passed", True, 1, {}, (), (), (), ()))
    told = [grade(lab, {}, tmp_path).left[0][1]]
    (tmp_path / name).write_text(texts[name])
    told.append(grade(lab, {}, tmp_path).left[0][1])
    assert told == [
        f"was run with a changed {name}: undo the changes first, or copy the lab again with `mprun lab start`",
        f"was run with a changed {name}, and the changes are undone: run it again",
    ]


def test_the_total_of_a_lab_counts_the_runs_that_were_made(capsys: pytest.CaptureFixture[str]) -> None:
    done: Any = [SimpleNamespace(summary=one) for one in (object(), None)]
    judged: Any = [SimpleNamespace(verdict=verdict) for verdict in ("held", "failed", "open")]
    result: Any = SimpleNamespace(done=done, judgements=judged, figures=())
    show_total([result], 3)
    assert capsys.readouterr().out == "\n1 of 3 claims hold, 1 does not, 1 is open; 1 run in 3.0 s\n"


def test_an_error_of_several_lines_stays_whole() -> None:
    """Lines that a colon announces stand under it, also if another step has some of them too."""
    one, other = open_lab("01").steps[:2]
    over = (
        Done(one, "broken", 1.0, error="a.yaml:1: rate: is empty\nthe kernel ended; its last lines:\nfirst\npanic"),
        Done(other, "broken", 1.0, error="a.yaml:1: rate: is empty\nthe kernel ended; its last lines:\nsecond\npanic"),
    )
    assert _group_complaints(over) == {
        ("broken", (one.name, other.name)): ["a.yaml:1: rate: is empty"],
        ("broken", (one.name,)): ["the kernel ended; its last lines:\nfirst\npanic"],
        ("broken", (other.name,)): ["the kernel ended; its last lines:\nsecond\npanic"],
    }


def test_each_step_that_is_left_has_a_reason_if_one_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab = open_lab("01")
    one, other = lab.steps[:2]
    held = JudgedClaim(lab.claims[0], "held")
    show_left(lab, Grade(tmp_path, {}, ((one, "was run with other parameters"), (other, NOT_RUN)), (), (held,)))
    text = capsys.readouterr().out
    assert "2 steps left, which no claim needs; type:" in text
    assert f"{one.name} was run with other parameters" in text
    assert f"{other.name} was not run" in text
    show_left(lab, Grade(tmp_path, {}, ((one, NOT_RUN), (other, NOT_RUN)), (), ()))
    assert "was not run" not in capsys.readouterr().out
