# SPDX-License-Identifier: Apache-2.0
"""The files of labs: the labs of mprun, and errors in bad files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.errors import SpecError
from mprun.inputs.keys.lab_definition import PROFILES
from mprun.labs.definition import read_lab
from mprun.model.problem import InputError
from tests.lab_claims import check_claims
from tests.labs import FOLDERS

LAB = FOLDERS[0]
HEAD = """\
version: 1
title: a lab
aim: to see
"""
STEPS = """\
steps:
  - {topology: topo, experiment: xp_tcp}
  - {topology: topo, experiment: xp_mptcp, params: {cc: reno, on: true, n: 2}, profile: published}
"""


def write(folder: Path, text: str) -> Path:
    (folder / "lab.yaml").write_text(text)
    for path in LAB.glob("*.yaml"):
        if path.name != "lab.yaml":
            (folder / path.name).write_text(path.read_text())
    return folder


def faults(folder: Path, text: str, whole: bool = False) -> list[str]:
    def read() -> None:
        lab = read_lab(write(folder, text))
        if whole:
            check_claims(lab)

    with pytest.raises(InputError) as error:
        read()
    return [fault.removeprefix(f"{folder}/lab.yaml:") for fault in error.value.problems]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_claims_ask_for_what_the_steps_measure(folder: Path) -> None:
    lab = read_lab(folder)
    check_claims(lab)
    assert all(lab.in_profile(profile).steps for profile in PROFILES)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (STEPS + "x: 1\n", "7: x: unknown key 'x'*"),
        (STEPS + "aims: {}\n", "7: aims: unknown key 'aims': did you mean 'aim'?"),
        ("steps: []\n", "4: steps: has 0 entries: write 'steps: [{topology: topo, experiment: xp_tcp}]'"),
        (STEPS + "  - {topology: topo, experiment: xp_tcp}\n",
         "7: steps[2]: a second step 'xp_tcp', first on line 5: give it a 'name'"),
        (STEPS + "claims: [{says: a, holds: xp_tpc.bulk.goodput >= 1mbit, why: b}]\n",
         "7: claims[0].holds: no step 'xp_tpc': did you mean 'xp_tcp'?"),
        (STEPS + "claims: [{says: a, holds: 1 < 2, why: b}]\n",
         "7: claims[0].holds: is about no step: name one, as in 'xp_tcp.bulk.goodput >= 18mbit'"),
        (STEPS + "claims: [{says: a, holds: xp_tcp.bulk.goodput >= , why: b}]\n",
         "7: claims[0].holds: 'xp_tcp.bulk.goodput >=': at the end (character 23): a value is missing: *"),
        (STEPS + "claims: [{says: a, holds: xp_tcp.bulk.goodput >= 1mbit}]\n",
         "7: claims[0].why: is missing: write 'why: two equal paths'"),
        (STEPS.replace("experiment: xp_tcp}", "experiment: xp_tcp, profile: quick}")
         + "claims: [{says: a, holds: xp_tcp.a.b > xp_mptcp.a.b, why: b}]\n",
         "7: claims[0].holds: is about steps that no profile runs together: split it"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_lab(tmp_path: Path, text: str, fault: str) -> None:
    (said,) = faults(tmp_path, HEAD + text)
    assert said.startswith(fault[:-1]) if fault.endswith("*") else said == fault


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("claims: [{says: a, holds: xp_tcp.bulk.goodput >= 1ms, why: b}]",
         "'xp_tcp.bulk.goodput >= 1ms': at '1ms' (character 24): a rate cannot be compared with a time"),
        ("claims: [{says: a, holds: xp_tcp.bulk.godput >= 1mbit, why: b}]",
         "'xp_tcp.bulk.godput >= 1mbit': at 'xp_tcp.bulk.godput' (character 1): step 'xp_tcp' has no metric "
         "'bulk.godput': did you mean 'bulk.goodput'?"),
        ("claims: [{says: a, holds: 'xp_tcp[a=b].bulk.goodput >= 1mbit', why: b}]",
         "'xp_tcp[a=b].bulk.goodput >= 1mbit': at 'xp_tcp[a=b].bulk.goodput' (character 1): conditions are for the "
         "rows of a table: write 'RUN.TABLE[flow=NAME].COLUMN'"),
        ("show: [bulk.good]", "no step has a metric 'bulk.good'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_its_claims(tmp_path: Path, lines: str, fault: str) -> None:
    text = HEAD + "steps: [{topology: topo, experiment: xp_tcp}]\n" + lines + "\n"
    (said,) = faults(tmp_path, text, whole=True)
    assert said.split(": ", 2)[2] == fault


PUBLISHED = """\
figure,series,x,x_unit,y,y_unit,kind,source
Figure 1,TCP,rate,metric,19,Mbit/s,value,"a study, sec 1"
Figure 1,TCP,time,metric,2,s,value,"a study, sec 1"
"""
SWEPT = "steps: [{topology: topo, experiment: xp_tcp}]\nsweeps: [{name: swept, topology: topo, experiment: xp_mptcp}]\n"


def figure(keys: str) -> str:
    return f"{SWEPT}figures: [{{name: one, published: Figure 1, title: a, {keys}}}]\n"


CHECK = "checks: [{says: a, holds: here.v > 1mbit, why: b}]"
VALUE = "quantity: q, values: [{name: v, series: TCP, x: rate, here: xp_tcp.bulk.goodput}]"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (figure(VALUE), "6: figures[0]: has no verdict: write 'checks', 'not_comparable' or both, or else "
         "'not_measured'"),
        (figure(f"{CHECK}, not_measured: b"), "6: figures[0]: is both compared and not measured: *"),
        (figure("values: [{name: v, here: xp_tcp.bulk.goodput}], not_measured: b"),
         "6: figures[0]: has values of no quantity: write 'quantity', as in 'quantity: goodput'"),
        (figure("quantity: q, values: [{name: v}], not_measured: b"),
         "6: figures[0].values[0]: has no value: write 'series' (of published.csv), 'here' (measured) or both"),
        (figure("quantity: q, values: [{name: v, x: rate, here: xp_tcp.bulk.goodput}], not_measured: b"),
         "6: figures[0].values[0]: has 'x' and no 'series': write both"),
        (figure("quantity: q, values: [{name: v, here: xp_tcp.bulk.goodput > 1mbit}], not_measured: b"),
         "6: figures[0].values[0].here: *"),
        (figure(f"{VALUE}, {CHECK}").replace("Figure 1", "Figure 7"),
         "6: figures[0].published: no 'Figure 7' in published.csv: did you mean 'Figure 1'?"),
        (figure(f"{VALUE}, {CHECK}").replace("x: rate", "x: rat"),
         "6: figures[0].values[0].series: no row of Figure 1 in published.csv: write 'series' and 'x' of one"),
        (figure(f"{VALUE}, {CHECK}").replace("x: rate, ", ""),
         "6: figures[0].values[0].series: 2 rows of Figure 1 in published.csv: write 'series' and 'x' of one"),
        (figure(f"{VALUE}, {CHECK}").replace("xp_tcp.bulk", "xp_tpc.bulk"),
         "6: figures[0]: no step 'xp_tpc': did you mean 'xp_tcp'?"),
        (figure(f"{VALUE}, {CHECK}").replace("experiment: xp_tcp}", "experiment: xp_tcp, profile: quick}"),
         "6: figures[0]: the profile 'published' does not run step 'xp_tcp': remove its 'profile'"),
        (figure(f"{VALUE}, {CHECK}, picture: xp_tcp"),
         "6: figures[0].picture: names no figure of a run: write STEP.FIGURE"),
        (figure(f"{VALUE}, {CHECK}, together: {{figure: rate-by-run, runs: {{a: xp_tcp, b: swept}}}}"),
         "6: figures[0]: 'b: swept' names a sweep, not a run: write the name of a step"),
        (figure(f"{VALUE}, {CHECK}, binned: {{table: flows, over: a, of: b, runs: {{c: swept}}}}"),
         "6: figures[0]: 'c: swept' names a sweep, not a run: write the name of a step"),
        (figure(f"{VALUE}, {CHECK}, binned: {{table: flows, over: a, of: b, bins: 1, runs: {{c: xp_tcp}}}}"),
         "6: figures[0].binned.bins: *"),
        (figure(f"{VALUE}, {CHECK}, together: {{figure: rate-by-run, runs: {{a: xp_tcp}}}}"),
         "6: figures[0].together.runs: *"),
        (figure(f"{VALUE}, {CHECK}, command: mprun -t topo -x xp"),
         "6: figures[0]: has 'command' and no 'not_measured': remove 'command'"),
        (figure(f"{VALUE}, {CHECK}") + "claims: [{says: a, holds: swept.bulk.goodput > 1mbit, why: b}]\nshow: [1]\n",
         "8: show[0]: *"),
        (figure("not_measured: b").replace("name: swept", "name: xp_tcp"),
         "5: sweeps[0]: a second step 'xp_tcp', first on line 4: give it a 'name'"),
        (figure("not_measured: b").replace("name: swept", "name: here"),
         "5: sweeps[0]: 'here' names the values of figures: give it another name"),
        (SWEPT + "figures: [{name: one, published: Figure 1, title: a, not_measured: b}, "
         "{name: one, published: Figure 1, title: a, not_measured: b}]\n",
         "6: figures[1].name: a second figure 'one': give it another name"),
        (SWEPT.replace("experiment: xp_mptcp", "experiment: ../xp_mptcp"),
         "5: sweeps[0].experiment: lies outside the folder of the lab: copy the file there"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_its_figures(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "published.csv").write_text(PUBLISHED)
    (said,) = faults(tmp_path, HEAD + text)
    assert said.startswith(fault[:-1]) if fault.endswith("*") else said == fault


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (f"{VALUE}, checks: [{{says: a, holds: here.w > 1mbit, why: b}}]",
         "the figure has no value 'here.w': did you mean 'here.v'?"),
        (f"{VALUE}, checks: [{{says: a, holds: here.v > published.v + 1ms, why: b}}]",
         "a rate cannot be added to a time"),
        (f"{VALUE.replace('x: rate', 'x: time')}, {CHECK}", "have several kinds of unit (rate, time): draw them in "
         "figures of their own"),
        (f"{VALUE.replace('bulk.goodput', 'bulk.godput')}, not_measured: b", "did you mean 'bulk.goodput'?"),
        (f"{VALUE.replace('bulk.goodput', 'bulk.goodput * xp_tcp.bulk.goodput')}, not_measured: b",
         "which no unit has: write a rate, a time, a size or a number"),
        ("checks: [{says: a, holds: 'swept[a=b].bulk.subflows >= 1mbit', why: b}]",
         "cannot be compared with a rate"),
        ("checks: [{says: a, holds: 'xp_tcp[a=b].bulk.goodput >= 1mbit', why: b}]", "conditions are for the rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_values_of_figures(tmp_path: Path, keys: str, fault: str) -> None:
    (tmp_path / "published.csv").write_text(PUBLISHED)
    found = faults(tmp_path, HEAD + figure(keys), whole=True)
    assert [one for one in found if fault in one] != [], found


def test_figures_belong_to_the_published_profile(tmp_path: Path) -> None:
    (tmp_path / "published.csv").write_text(PUBLISHED)
    lab = read_lab(write(tmp_path, HEAD + figure(f"{VALUE}, {CHECK}, not_comparable: c, picture: swept.goodput")))
    check_claims(lab)
    assert lab.figures[0].steps == ("xp_tcp", "swept")
    assert lab.in_profile("quick").sweeps == ()
    sweeps = lab.in_profile("published").sweeps
    assert [sweep.command(tmp_path) for sweep in sweeps] == ["mprun sweep -t topo -x xp_mptcp"]
    (tmp_path / "published.csv").unlink()
    with pytest.raises(SpecError, match=r"published\.csv is missing: 'figures' needs the published values"):
        read_lab(tmp_path)


def test_profiles_and_commands(tmp_path: Path) -> None:
    text = HEAD + STEPS + "claims: [{says: a, holds: xp_mptcp.bulk.goodput >= 1mbit, why: b}]\n"
    lab = read_lab(write(tmp_path, text))
    assert [step.name for step in lab.in_profile("quick").steps] == ["xp_tcp"]
    assert lab.in_profile("quick").claims == ()
    assert lab.in_profile("published").claims == lab.claims
    assert lab.steps[1].command(tmp_path) == "mprun -t topo -x xp_mptcp -p cc=reno -p on=true -p n=2"


SCALED = """\
params: {rate: 20mbit}
steps: [{topology: topo, experiment: xp_tcp}]
claims: [{says: a, holds: "xp_tcp.bulk.goodput >= {{ rate | times(0.9) }}", why: b}]
"""


def scaled(folder: Path, default: str) -> Path:
    """Write a lab with a parameter that has this default in its steps' files."""
    write(folder, HEAD + SCALED)
    for name in ("topo.yaml", "xp_tcp.yaml"):
        text = (folder / name).read_text()
        assert text.count("params: {rate: 20mbit}") == 1
        (folder / name).write_text(text.replace("params: {rate: 20mbit}", f"params: {{rate: {default}}}"))
    return folder


def test_a_parameter_of_the_lab_reaches_claims_and_steps(tmp_path: Path) -> None:
    folder = scaled(tmp_path, "20mbit")
    for given, bound, rate in (({}, "18mbit", 20_000_000), ({"rate": "5mbit"}, "4.5mbit", 5_000_000)):
        lab = read_lab(folder, given)
        assert lab.claims[0].holds.text == f"xp_tcp.bulk.goodput >= {bound}"
        shaped = [link for link in lab.steps[0].load().spec.topology.links if link.name.startswith("path")]
        assert [link.forward.rate_bit_per_s for link in shaped] == [rate, rate]
    assert read_lab(folder).steps[0].command(folder) == "mprun -t topo -x xp_tcp"
    assert read_lab(folder, {"rate": "5mbit"}).steps[0].command(folder).endswith(" -p rate=5mbit")
    check_claims(read_lab(folder))


def test_parameters_that_a_lab_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"-p rote: no parameter 'rote' in .*: did you mean 'rate'\?"):
        read_lab(scaled(tmp_path, "20mbit"), {"rote": "5mbit"})


def test_a_lab_and_its_steps_agree_on_defaults(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has another default for a parameter of the lab"):
        check_claims(read_lab(scaled(tmp_path, "10mbit")))
