# SPDX-License-Identifier: Apache-2.0
"""The files of labs: the labs of mprun, and errors in bad files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.lab.file import check_claims, read_lab
from mprun.model.fault import InputError
from mprun.schema.lab import PROFILES
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
    return [fault.removeprefix(f"{folder}/lab.yaml:") for fault in error.value.faults]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_claims_ask_for_what_the_steps_measure(folder: Path) -> None:
    lab = read_lab(folder)
    check_claims(lab)
    assert all(lab.steps_of(profile) for profile in PROFILES)


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


def test_profiles_and_commands(tmp_path: Path) -> None:
    text = HEAD + STEPS + "claims: [{says: a, holds: xp_mptcp.bulk.goodput >= 1mbit, why: b}]\n"
    lab = read_lab(write(tmp_path, text))
    assert [step.name for step in lab.steps_of("quick")] == ["xp_tcp"]
    assert lab.claims_of("quick") == ()
    assert lab.claims_of("published") == lab.claims
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
