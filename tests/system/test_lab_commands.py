# SPDX-License-Identifier: Apache-2.0
"""Work in a lab's folder: names for files of the newest run, a working copy, grades."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.system.conftest import LAB, Result, call, interrupt_when


def test_names_in_the_folder_stand_for_files_of_the_newest_run(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert call("lab", "start", "01", folder, cwd=tmp_path).status == 0
    assert not (folder / "ANSWERS.md").exists()
    (folder / "server.log").write_text("mine\n")
    first = call("-t", "topo", "-x", "xp_tcp", "--engine", "virtual", cwd=folder)
    assert first.status == 0, first.err
    assert first.out.splitlines()[-1] == "here: iperf.log, ping.log, client-xp_tcp.pcap, server-xp_tcp.pcap"
    assert ": link server.log: a file with this name exists, and is kept" in first.err
    assert (folder / "server.log").read_text() == "mine\n"
    (folder / "server.log").unlink()
    assert (folder / "iperf.log").read_text().rstrip().endswith("receiver")
    # five for each of the two paths
    assert (folder / "ping.log").read_text().count("time=40.1 ms") == 10
    old = os.readlink(folder / "iperf.log")
    second = call("-t", "topo", "-x", "xp_mptcp", "--engine", "virtual", cwd=folder)
    assert second.status == 0, second.err
    assert os.readlink(folder / "iperf.log") != old
    assert (folder / "server.log").is_symlink()
    # the second experiment keeps the captures of the first
    captures = [(folder / f"client-{name}.pcap").resolve() for name in ("xp_tcp", "xp_mptcp")]
    assert captures[0] != captures[1]
    assert [capture.parts[-3].split("-")[3] for capture in captures] == ["xp_tcp", "xp_mptcp"]
    assert_grades(folder, tmp_path)


def leads(folder: Path) -> set[str]:
    """Return the run to which each link of an experiment in a lab's folder leads."""
    return {link.readlink().parts[1] for link in folder.iterdir() if link.is_symlink() and not link.is_dir()}


def test_no_link_leads_to_an_older_run_than_the_newest(tmp_path: Path) -> None:
    assert call("lab", "start", "01", "lab", cwd=tmp_path).status == 0
    folder = tmp_path / "lab"
    files = ("-t", "topo", "-x", "xp_mptcp", "--engine", "virtual")
    assert call(*files, "-p", "rate=5mbit", cwd=folder).status == 0
    (slow,) = leads(folder)
    assert call("lab", "run", "--engine", "virtual", cwd=folder).status == 0
    runs = leads(folder)
    assert len(runs) == 2
    assert slow not in runs
    assert "xp_mptcp" in os.readlink(folder / "iperf.log")
    # a run that existed before replaces no link, and is linked again where there is none
    (folder / "ping.log").unlink()
    assert call("lab", "run", "--engine", "virtual", cwd=folder).status == 0
    assert leads(folder) == runs
    assert (folder / "ping.log").exists()
    status, _ = interrupt_when("bulk", signal.SIGINT, *files, cwd=folder)
    assert status == 130
    assert not (folder / "iperf.log").is_symlink()
    assert {run.split("-")[3] for run in leads(folder)} == {"xp_tcp"}


def test_a_fault_of_a_parameter_is_named_once(tmp_path: Path) -> None:
    refused = call("lab", "run", "01", "-p", "rate=5", cwd=tmp_path)
    assert refused.status == 2
    lines = refused.err.splitlines()
    assert len(lines) < 6
    assert all(line.endswith("(given by -p rate=5)") for line in lines)


def test_a_fault_of_a_file_is_said_once(tmp_path: Path) -> None:
    assert call("lab", "start", "01", "mine", cwd=tmp_path).status == 0
    for name, old, new in (("topo", "delay: 20ms", "delay: 20mss"), ("xp_mptcp", "iperf3", "ipref3")):
        file = tmp_path / "mine" / f"{name}.yaml"
        file.write_text(file.read_text().replace(old, new))
    broken = call("lab", "run", cwd=tmp_path / "mine")
    assert broken.status == 1
    said = " ".join(broken.out.split())
    assert [said.count(fault) for fault in ("paths[0].delay", "paths[1].delay", "traffic[0].tool")] == [1, 1, 1]
    assert "✗ xp_tcp, xp_mptcp /" in said
    assert "✗ xp_mptcp /" in said
    (made,) = json.loads(call("lab", "run", "--json", cwd=tmp_path / "mine").out)
    assert {"xp_tcp", "xp_mptcp"} == set(made["missing"])
    assert "xp_tcp: has no result" in {claim["reason"] for claim in made["claims"]}


def test_files_in_a_folder_below_or_above_are_named(tmp_path: Path) -> None:
    assert call("lab", "start", "02", "mine", cwd=tmp_path).status == 0
    refused = call("validate", "-t", "topo", "-x", "reqres_rtt", cwd=tmp_path / "mine")
    assert refused.status == 2
    topology, experiment = refused.err.splitlines()
    assert topology.startswith("topo: no such file: tried topo, topo.yaml, topo.yml: one folder below: http/topo.yaml,")
    assert experiment.endswith(" reqres/reqres_rtt.yaml")
    refused = call("validate", "-t", "http/topo", "-x", "http/lab", cwd=tmp_path / "mine")
    assert (
        refused.err
        == "http/lab: no such file: tried http/lab, http/lab.yaml, http/lab.yml: one folder above: lab.yaml\n"
    )


def test_a_copy_of_another_lab_is_not_graded(tmp_path: Path) -> None:
    assert call("lab", "start", "01", "mine", cwd=tmp_path).status == 0
    refused = call("lab", "check", "02", "mine", cwd=tmp_path)
    assert refused.status == 2
    assert "mine is a copy of lab 01_multipath, not of 02_scheduler: to grade it, write mprun lab check" in refused.err


def test_a_copy_has_no_marks_of_generated_numbers(tmp_path: Path) -> None:
    assert call("lab", "start", "06", "mine", cwd=tmp_path).status == 0
    page = (tmp_path / "mine" / "README.md").read_text()
    assert page.count("<!--") == 1
    assert "| one path | 4.46 | 2.34 | about 4.5 |" in page


def test_runs_in_a_folder_below_are_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    assert call("lab", "start", "01", "mine", cwd=tmp_path).status == 0
    assert call("-t", "topo", "-x", "xp_tcp", "--engine", "virtual", cwd=tmp_path / "mine").status == 0
    for command in ("packets", "wireshark", "show"):
        refused = mprun(command)
        assert refused.status == 2
        assert "no run 'latest' here or in runs; there are runs in mine/runs: add -o mine/runs" in refused.err


def assert_grades(folder: Path, class_: Path) -> None:
    """Check that both runs support all claims, and that a folder without runs supports none."""
    (class_ / "idle").mkdir()
    (class_ / "idle" / "runs").mkdir()
    graded = call("lab", "check", "01", folder, class_ / "idle", "--csv", cwd=class_)
    head, one, none = csv.reader(io.StringIO(graded.out))
    assert graded.status == 1
    assert head[:4] == ["directory", "lab", "held", "of"]
    assert one[1:4] == ["01_multipath", str(len(head) - 4), str(len(head) - 4)]
    assert none[2] == "0"
    assert set(none[4:]) == {"open"}
    here = call("lab", "check", "01", "--json", cwd=folder)
    assert here.status == 0, here.out
    (grade,) = json.loads(here.out)
    assert grade["held"] == grade["of"]
    assert sorted(grade["runs"]) == ["xp_mptcp", "xp_tcp"]
    assert all(claim["comparisons"] for claim in grade["claims"])
    assert call("-t", "topo", "-x", "xp_tcp", "-p", "rate=10mbit", "--engine", "virtual", cwd=folder).status == 0
    shown = call("show", "xp_tcp", cwd=folder)
    assert "note: xp_tcp is runs/" in shown.err
    assert "which is newer, has changed files or other parameters" in shown.err
    assert "note" not in call("show", "xp_mptcp", cwd=folder).err
    topology = folder / "topo.yaml"
    topology.write_text(topology.read_text().replace("delay: 20ms", "delay: 30ms"))
    assert call("-t", "topo", "-x", "xp_tcp", "--engine", "virtual", cwd=folder).status == 1
    said = " ".join(call("lab", "check", "01", cwd=folder).out.split())
    assert "5 of 5 claims hold xp_tcp: a newer run does not count: it was run with a changed topo.yaml" in said


def test_a_changed_experiment_is_no_step_of_the_lab(mprun: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    call("lab", "start", "01", folder, cwd=tmp_path)
    topology = folder / "topo.yaml"
    topology.write_text(topology.read_text().replace("rate: 20mbit", "rate: 30mbit"))
    experiment = folder / "xp_tcp.yaml"
    experiment.write_text(experiment.read_text().replace("duration: 10s", "duration: 1s").split("expect:")[0])
    assert call("-t", "topo", "-x", "xp_tcp", "--engine", "virtual", cwd=folder).status == 0
    graded = call("lab", "check", "01", cwd=folder)
    assert graded.status == 1
    assert "xp_tcp: was run with a changed topo.yaml and xp_tcp.yaml: undo the changes first" in " ".join(
        graded.out.split()
    )
    lines = graded.out.splitlines()
    left = lines[lines.index("  2 steps left; type:") + 1 :]
    assert left[0] == "    mprun -t topo -x xp_tcp"
    # the width of the terminal breaks the reason
    assert " ".join(" ".join(left[1:]).split()).startswith(
        "xp_tcp was run with a changed topo.yaml and xp_tcp.yaml: undo the changes first, or copy the lab again with "
        "`mprun lab start` mprun -t topo -x xp_mptcp"
    )


def test_a_copy_knows_its_lab(tmp_path: Path) -> None:
    """The name of the lab is the default in a copy and in its subfolders."""
    made = call("lab", "start", "2", cwd=tmp_path)
    assert made.status == 0, made.err
    assert made.out.startswith("created 02_scheduler, a copy of lab 02_scheduler: The scheduler decides which")
    assert "  topologies   reqres/topo, http/topo" in made.out
    assert "more files" not in made.out
    assert "  cd 02_scheduler\n" in made.out
    # the page names files that no step has
    assert "  more files   cpu, cpu_technologies, " in call("lab", "start", "13", cwd=tmp_path).out
    copy = tmp_path / "02_scheduler"
    again = call("lab", "start", "2", cwd=tmp_path)
    assert again.status == 2
    assert "02_scheduler exists already: name another directory, as in `mprun lab start 02 mine`" in again.err
    # a copy is checked against mprun's own files
    lab = copy / "lab.yaml"
    lab.write_text(lab.read_text().replace("title: The scheduler", "title: My scheduler"))
    topology = copy / "reqres" / "topo.yaml"
    topology.write_text(topology.read_text().replace("100mbit", "90mbit"))
    assert call("-t", "topo", "-x", "reqres_rtt", "--engine", "virtual", cwd=copy / "reqres").status == 0
    for folder in (copy, copy / "reqres"):
        graded = call("lab", "check", "--json", cwd=folder)
        (grade,) = json.loads(graded.out)
        assert (grade["lab"], grade["directory"], grade["held"]) == ("02_scheduler", str(copy), 0)
        assert grade["left"][0] == {
            "step": "reqres_rtt",
            "reason": "was run with a changed topo.yaml: undo the changes first, or copy the lab again with "
            "`mprun lab start`",
            "command": "mprun -t reqres/topo -x reqres/reqres_rtt",
        }
    assert call("lab", "show", cwd=copy).out.startswith("My scheduler")
    for command in ("show", "run", "check"):
        outside = call("lab", command, cwd=tmp_path)
        assert outside.status == 2
        assert "no lab here: name a lab, or change into a copy that `mprun lab start` made" in outside.err


def test_a_run_of_a_lab_says_whose_files_it_ran(tmp_path: Path) -> None:
    assert call("lab", "start", "01", "mine", cwd=tmp_path).status == 0
    copy = tmp_path / "mine"
    topology = copy / "topo.yaml"
    topology.write_text(topology.read_text().replace("params: {rate: 20mbit}", "params: {rate: 10mbit}"))
    shipped = call("lab", "run", "01", "--engine", "virtual", cwd=copy)
    assert shipped.status == 0
    assert shipped.out.splitlines()[2:4] == [
        f"  mprun's own files in {LAB}",
        "  not the files of this directory; to run those: mprun lab run",
    ]
    for words in ((), (".",)):
        own = call("lab", "run", *words, "--engine", "virtual", cwd=copy)
        assert own.out.splitlines()[1:3] == ["mine: Two paths, twice the rate", f"  your files in {copy}"]
    elsewhere = call("lab", "run", "01", "--engine", "virtual", cwd=tmp_path)
    assert elsewhere.out.splitlines()[2:4] == [f"  mprun's own files in {LAB}", ""]


def test_names_of_labs_have_a_suggestion(tmp_path: Path) -> None:
    for name, hint in (
        ("multipath", ": did you mean '01_multipath'?"),
        ("1_multpath", ": did you mean '01_multipath'?"),
        ("04_bakup", ": did you mean '04_backup'?"),
        ("99", "; labs: 01_multipath, "),
    ):
        for words in (("show", name), ("start", name), ("run", name), ("check", name)):
            refused = call("lab", *words, cwd=tmp_path)
            assert refused.status == 2
            assert f"no lab '{name}'{hint}" in refused.err
    assert list(tmp_path.iterdir()) == []


def test_a_lab_with_commands_of_its_own_needs_leave(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "topo.yaml").write_text("version: 1\ntopology: star\nclients: 1\n")
    flow = "{tool: exec, from: client0, to: server, command: [sleep, 1s]}"
    (folder / "xp.yaml").write_text(f"version: 1\nprobe: {{pings: 0}}\ntraffic: [{flow}]\n")
    (folder / "lab.yaml").write_text(
        "version: 1\ntitle: Own\naim: Own\nsteps: [{topology: topo, experiment: xp}]\n"
        "claims: [{says: it sleeps, holds: 990ms <= xp.exec.time <= 1.1s, why: it is told to}]\n"
    )
    refused = call("lab", "run", folder, "--engine", "virtual", cwd=tmp_path)
    assert refused.status == 1
    assert "add --allow-exec" in refused.out
    allowed = call("lab", "run", folder, "--engine", "virtual", "--allow-exec", cwd=tmp_path)
    assert allowed.status == 0, allowed.out + allowed.err


def test_a_seed_of_the_command_is_that_of_every_step(tmp_path: Path) -> None:
    """The draw decides which of 200 pings a link loses."""
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks: [{between: [a, b], rate: 10mbit, loss: 30%}]\n"
    )
    flow = "{name: asked, tool: ping, from: a, to: b, interval: 10ms, count: 200}"
    (folder / "xp.yaml").write_text(f"version: 1\nprobe: {{pings: 0}}\ntraffic: [{flow}]\n")
    (folder / "lab.yaml").write_text(
        "version: 1\ntitle: Own\naim: Own\nsteps: [{topology: topo, experiment: xp}]\n"
        "claims: [{says: it loses, holds: xp.asked.loss > 0%, why: three tenths each way}]\n"
    )
    losses: list[dict[str, object]] = []
    for seed in ((), ("--seed", "7"), ("--seed", "7")):
        done = call("lab", "run", folder, "--engine", "virtual", "--json", *seed, cwd=tmp_path)
        assert done.status == 0, done.out + done.err
        (step,) = json.loads(done.out)[0]["steps"]
        assert step["summary"]["seed"] == (7 if seed else 1)
        # the third call takes the run of the second one
        assert step["is_earlier"] == (len(losses) == 2)
        losses.append(step["summary"]["metrics"]["asked.loss"])
    assert losses[0] != losses[1] == losses[2]


def test_an_earlier_run_counts_only_with_the_same_expectations_and_kernel(tmp_path: Path) -> None:
    """A plan has neither. A run was taken for that of changed expectations, with the verdict on the earlier ones."""
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks: [{between: [a, b], rate: 10mbit, delay: 5ms}]\n"
    )
    experiment = "version: 1\nprobe: {pings: 0}\ntraffic: [{name: asked, tool: ping, from: a, to: b, count: 2}]\n"
    lab = (
        "version: 1\ntitle: Own\naim: Own\nsteps: [{topology: topo, experiment: xp}]\n"
        "claims: [{says: it answers, holds: xp.asked.rtt < 1s, why: the delay}]\n"
    )
    (folder / "lab.yaml").write_text(lab)
    told = []
    for bound in ("1s", "1s", "1ms"):
        (folder / "xp.yaml").write_text(experiment + f"expect: [{{metric: asked.rtt, max: {bound}}}]\n")
        done = call("lab", "run", folder, "--engine", "virtual", "--json", cwd=tmp_path)
        (step,) = json.loads(done.out)[0]["steps"]
        told.append((step["is_earlier"], step["summary"]["status"], done.status))
    assert told == [(False, "passed", 0), (True, "passed", 0), (False, "failed", 1)]
    # the kernel of an axis, which the run had not
    (folder / "xp.yaml").write_text(experiment + "matrix: {kernel: [default, nosuch]}\n")
    (folder / "lab.yaml").write_text(lab.replace("xp}", "xp, params: {kernel: nosuch}}"))
    refused = call("lab", "run", folder, "--engine", "virtual", cwd=tmp_path)
    assert refused.status == 3
    assert "no experiment kernel 'nosuch' is built" in " ".join(refused.out.split())


FIGURES = """\
version: 1
title: Own
aim: Own
steps:
  - {topology: topo, experiment: xp}
  - {name: other, topology: topo, experiment: xp, params: {count: 11}}
sweeps: [{name: swept, topology: topo, experiment: swept}]
figures:
  - name: rtt
    published: Figure 1
    title: Round trips
    quantity: round trip
    values: [{name: asked, label: mean, series: ping, here: xp.asked.rtt}]
    checks: [{says: The mean is 20 ms, holds: abs(here.asked - published.asked) <= 1ms, why: packets take time}]
  - name: both
    published: Figure 1
    title: Round trips of two runs
    together: {figure: delay-by-run, runs: {ten pings: xp, eleven pings: other}}
    checks: [{says: Both are alike, holds: abs(xp.asked.rtt - other.asked.rtt) <= 1ms, why: packets take time}]
  - {name: cpu, published: text, title: CPU time, says: It is high, not_measured: No CPU time., command: mprun sweep}
  - name: swept
    published: Figure 1
    title: Round trips of cells
    quantity: round trip
    values: [{name: slow, here: "swept[delay=10ms].asked.rtt"}, {name: fast, here: "swept[delay=5ms].asked.rtt"}]
    checks: [{says: Half the delay takes longer, holds: here.fast > here.slow, why: an order DIFFERS}]
"""


def test_published_figures_are_measured_and_resumed(tmp_path: Path) -> None:
    """A figure runs its steps only, earlier runs are not repeated, and a difference without a reason fails."""
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "topo.yaml").write_text(
        "version: 1\nparams: {delay: 10ms}\nnodes: {a: {kind: host}, b: {kind: host}}\n"
        'links: [{between: [a, b], rate: 10mbit, delay: "{{ delay }}"}]\n'
    )
    flow = "{name: asked, tool: ping, from: a, to: b, interval: 10ms, count: '{{ count }}'}"
    (folder / "xp.yaml").write_text(f"version: 1\nparams: {{count: 10}}\nprobe: {{pings: 0}}\ntraffic: [{flow}]\n")
    (folder / "swept.yaml").write_text("version: 1\nextends: xp.yaml\nmatrix: {delay: [5ms, 10ms]}\n")
    (folder / "published.csv").write_text(
        "figure,series,x,x_unit,y,y_unit,kind,source\nFigure 1,ping,rtt,metric,20,ms,value,a study\n"
        "text,CPU,,,It is high,,statement,a study\n"
    )
    (folder / "lab.yaml").write_text(FIGURES.replace(" DIFFERS", ""))
    command = ("lab", "run", folder, "--engine", "virtual", "--profile", "published", "--json")
    listed = call(*command, "--dry-run", cwd=tmp_path)
    (work,) = json.loads(listed.out)
    assert [(one["name"], one["runs"]) for one in work["steps"]] == [("xp", 1), ("other", 1), ("swept", 2)]
    told = call(*command[:-1], "--figure", "swept", "--dry-run", cwd=tmp_path)
    assert told.out.splitlines() == ["lab", "  swept    2 runs  mprun sweep -t topo -x swept", "  2 runs in all"]
    assert not (tmp_path / "runs").exists()
    one = call(*command, "--figure", "rtt", cwd=tmp_path)
    assert one.status == 0, one.out + one.err
    (made,) = json.loads(one.out)
    assert [step["step"] for step in made["steps"]] == ["xp"]
    assert [(one["figure"], one["verdict"], one["reason"]) for one in made["figures"]] == [
        ("rtt", "agrees", "packets take time")
    ]
    page = tmp_path / "runs" / "figures-lab" / "README.md"
    assert "| Figure 1: Round trips (a study) | The mean is 20 ms | mean: 20." in page.read_text()
    assert (page.parent / "rtt.svg").exists()
    whole = call(*command, cwd=tmp_path)
    assert whole.status == 1
    (made,) = json.loads(whole.out)
    assert {step["step"]: step["is_earlier"] for step in made["steps"]} == {"xp": True, "other": False}
    assert [(one["figure"], one["verdict"], one["is_explained"]) for one in made["figures"]] == [
        ("rtt", "agrees", True),
        ("both", "agrees", True),
        ("cpu", "not measured here", True),
        ("swept", "differs", False),
    ]
    assert "both-runs.svg" in page.read_text()
    curves = (page.parent / "both-runs.csv").read_text()
    assert {"ten pings", "eleven pings"} <= {line.split(",")[0] for line in curves.splitlines()}, curves
    # a reason for the difference; nothing is run again
    (folder / "lab.yaml").write_text(FIGURES.replace(" DIFFERS", ", differs: It is a round trip."))
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    known = call(*command[:-1], cwd=tmp_path)
    assert known.status == 0, known.out + known.err
    assert "2 of 2 runs existed already; to run all steps again: add --new" in known.out
    assert "  ≠ Figure 1: Half the delay takes longer\n      differs: It is a round trip.\n" in known.out
    cpu = "  ? CPU time: It is high\n      not measured here: No CPU time.\n      command: mprun sweep\n"
    assert cpu in known.out
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == runs
    # a sweep of another version of mprun is used, with a note
    (file, *_) = (tmp_path / "runs").glob("*-sweep/runs/*/1/environment.json")
    environment = file.read_text()
    file.write_text(environment.replace('"mprun": "', '"mprun": "other'))
    noted = call(*command[:-1], "--figure", "swept", cwd=tmp_path)
    assert "note: another version of mprun made " in noted.err
    file.write_text(environment)
    # a run that somebody changed is repeated
    (run,) = (tmp_path / "runs").glob(f"*-{made['steps'][0]['directory'][-8:]}")
    summary = run / "summary.json"
    summary.write_text(summary.read_text().replace('"value": 0.02', '"value": 0.03'))
    again = call(*command, "--figure", "rtt", cwd=tmp_path)
    assert again.status == 0, again.out + again.err
    assert json.loads(again.out)[0]["steps"][0]["is_earlier"] is False
    anew = call(*command, "--figure", "rtt", "--new", cwd=tmp_path)
    assert json.loads(anew.out)[0]["steps"][0]["is_earlier"] is False
    for words, fault in (
        (("--figure", "rt"), "no figure 'rt': did you mean 'rtt'?"),
        (("--figure", "rtt", "--profile", "quick"), "add --profile published to --figure"),
    ):
        refused = call(*command, *words, cwd=tmp_path)
        assert refused.status == 2
        assert fault in refused.err
