# SPDX-License-Identifier: Apache-2.0
"""Runs and sweeps in one file, and their repetition from it."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.bundles.archive import Content, write_archive
from tests.hostile import archives
from tests.system.conftest import LAB, SHORT, Result


def changed(source: Path, target: Path, **members: Callable[[bytes], bytes]) -> None:
    """Write the same archive with some members changed by functions."""
    with zipfile.ZipFile(source) as archive:
        files: dict[str, Content] = {name: archive.read(name) for name in archive.namelist()}
    for name, change in members.items():
        content = files[name]
        assert isinstance(content, bytes)
        files[name] = change(content)
    write_archive(target, files)


def test_a_run_from_its_bundle(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT)
    ran = mprun("-t", LAB / "topo", "-x", "xp", "--json")
    packed = mprun("bundle", "--to", "run.zip", "--license", "cc-by-4.0")
    assert packed.status == 0, packed.err
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        names = set(archive.namelist())
        crate = json.loads(archive.read("ro-crate-metadata.json"))
    assert {"plan.json", "environment.json", "summary.json", "report.html", "figures/topology.svg"} <= names
    assert {"inputs/xp.yaml", "inputs/resolved-experiment.yaml"} <= names
    assert any(name.endswith("/recipe/config.fragment") for name in names)
    assert not any(name.startswith("pcap/") for name in names)
    files = {entity["@id"] for entity in crate["@graph"] if entity["@type"] == "File"}
    assert files == names - {"ro-crate-metadata.json"}
    (root,) = (entity for entity in crate["@graph"] if entity["@id"] == "./")
    assert root["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    refused = mprun("bundle", "--to", "other.zip", "--license", "foo")
    assert (refused.status, "no SPDX identifier" in refused.err) == (2, True)

    # captures are compared by their digests although the bundle does not contain them
    again = mprun("verify", "run.zip", "-o", "again", "--json")
    assert again.status == 0, again.err
    told = json.loads(again.out)
    assert (told["verdict"], told["facts"]) == ("identical", {})
    copy = tmp_path / told["directory"]
    assert (copy / "summary.json").read_bytes() == (ran.run / "summary.json").read_bytes()

    def slower(summary: bytes) -> bytes:
        value = json.loads(summary)
        value["metrics"]["bulk.goodput"]["value"] *= 2
        return json.dumps(value).encode()

    def seal(artifacts: bytes) -> bytes:
        with zipfile.ZipFile(tmp_path / "run.zip") as archive:
            forged = slower(archive.read("summary.json"))
        value = json.loads(artifacts)
        value["runs"]["."]["summary.json"] = hashlib.sha256(forged).hexdigest()
        return json.dumps(value).encode()

    def recode(environment: bytes) -> bytes:
        return environment.replace(b'"mprun": "', b'"mprun": "other-')

    changes = {"summary.json": slower, "artifacts.json": seal, "environment.json": recode}
    changed(tmp_path / "run.zip", tmp_path / "other.zip", **changes)
    other = mprun("verify", "other.zip", "-o", "again")
    assert other.status == 1
    assert "summary.json differs" in other.out
    assert "bulk.goodput" in other.out
    assert "mprun: other-" in other.out
    # without its digest a forged summary is refused before any run starts
    changed(tmp_path / "run.zip", tmp_path / "forged.zip", **{"summary.json": slower})
    forged = mprun("verify", "forged.zip", "-o", "again")
    assert forged.status == 2
    assert "summary.json is not what artifacts.json says" in forged.err
    assert {"report.html", "ro-crate-metadata.json"} <= set(told["unproven"])
    assert not {"inputs/xp.yaml", "inputs/topo.yaml"} & set(told["unproven"])


def test_inputs_that_were_changed_after_the_run_are_named(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT)
    run = mprun("-t", LAB / "topo", "-x", "xp", "--json").run
    resolved = run / "inputs" / "resolved-experiment.yaml"
    text = resolved.read_text()
    resolved.write_text(text.replace("duration: 1s", "duration: 2s"))
    assert resolved.read_text() != text
    for words in (("verify",), ("bundle", "--to", "run.zip")):
        done = mprun(words[0], run, *words[1:])
        assert done.status == 1
        assert done.err.strip().endswith(f"{run.name}: its inputs were changed after the run; run them again")


def test_a_stored_plan_is_not_obeyed(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT)
    assert mprun("-t", LAB / "topo", "-x", "xp").status == 0
    assert mprun("bundle", "--to", "run.zip").status == 0
    changed(
        tmp_path / "run.zip",
        tmp_path / "evil.zip",
        **{"plan.json": lambda text: text.replace(b'"argv": ["iperf3"', b'"argv": ["reboot"')},
    )
    # the digest covers the inputs, so a plan with another text changes nothing
    assert mprun("verify", "evil.zip", "-o", "again").status == 0
    command = "- {name: odd, tool: exec, from: client, to: server, command: [touch, /tmp/odd]}\n"
    added = {
        "inputs/resolved-experiment.yaml": lambda text: text.replace(b"capture:\n", command.encode() + b"capture:\n")
    }
    changed(tmp_path / "run.zip", tmp_path / "exec.zip", **added)
    refused = mprun("verify", "exec.zip", "-o", "again")
    assert refused.status == 2
    assert "--allow-exec" in refused.err


def test_a_sweep_from_its_bundle(mprun: Callable[..., Result], tmp_path: Path) -> None:
    # not in alphabetical order, which JSON has
    matrix = "matrix: {path0.rate: [5mbit, 20mbit], path0.delay: [20ms]}\n"
    (tmp_path / "xp.yaml").write_text(SHORT + matrix + "repeat: {runs: 2}\n")
    with (tmp_path / "xp.yaml").open("a") as file:
        file.write("show: [bulk.goodput]\n")
    assert mprun("sweep", "-t", LAB / "topo", "-x", "xp", "--keep", "none").status == 0
    packed = mprun("bundle", "latest-sweep", "--to", "sweep.zip")
    assert packed.status == 0, packed.err
    again = mprun("verify", "sweep.zip", "-o", "again", "--json")
    assert again.status == 0, again.err
    told = json.loads(again.out)
    assert (told["verdict"], told["identical"], told["runs"]) == ("identical", 4, 4)
    rows = [
        (one["values"]["path0.rate"], one["metric"], one["verdict"], one["first"] == one["second"])
        for one in told["main"]
    ]
    assert rows == [(rate, "bulk.goodput", "same", True) for rate in ("5mbit", "20mbit")]
    assert (tmp_path / told["directory"] / "tables" / "cells.parquet").exists()
    before, now = (
        json.loads((folder / "sweep.json").read_text())
        for folder in (tmp_path / "runs" / "latest-sweep", tmp_path / told["directory"])
    )
    assert (now["kernels"], now["cells"]) == (before["kernels"], before["cells"])
    # the reproduced sweep is not the sweep of these files, so other commands do not resume it
    assert now["digest"] != before["digest"]


def test_other_seeds_are_within_intervals_and_another_network_is_not(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """The original ran with other seeds: it differs in every byte, and in no metric by more than chance."""
    topology = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 5ms, loss: 1%}]\n"
    (tmp_path / "topo.yaml").write_text(topology)
    flow = "{name: bulk, tool: iperf3, from: client, to: server, duration: 1s}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{flow}]\nrepeat: {{runs: 4}}\n")
    assert mprun("sweep", "-t", "topo", "-x", "xp").status == 0
    assert mprun("bundle", "latest-sweep", "--to", "sweep.zip").status == 0
    with zipfile.ZipFile(tmp_path / "sweep.zip") as archive:
        names = archive.namelist()
    experiments = [name for name in names if name.endswith("resolved-experiment.yaml")]
    assert len(experiments) == 4

    def reseed(text: bytes) -> bytes:
        return re.sub(rb"seed: (\d+)", lambda found: b"seed: %d" % (int(found[1]) + 1), text)

    # the files as written give the first seeds
    changes = {**dict.fromkeys(experiments, reseed), "inputs/xp.yaml": lambda text: text + b"include: gone.yaml\n"}
    changed(tmp_path / "sweep.zip", tmp_path / "seeds.zip", **changes)
    within = mprun("verify", "seeds.zip", "-o", "again", "--json")
    told = json.loads(within.out)
    assert within.status == 0
    assert (told["verdict"], told["identical"], told["runs"]) == ("within", 0, 4)
    assert "gone.yaml" in told["written"]["notes"][0]
    # the text for people names the differences too
    topologies = [name for name in names if name.endswith("resolved-topology.yaml")]
    slower_links = dict.fromkeys(topologies, lambda text: text.replace(b"20mbit", b"4mbit"))
    changed(tmp_path / "sweep.zip", tmp_path / "slow.zip", **slower_links)
    slow = mprun("verify", "slow.zip", "-o", "again")
    assert slow.status == 1
    assert "DIFFERENT" in slow.out
    assert "bulk.goodput" in slow.out


@pytest.mark.parametrize("case", archives.WITH_KERNEL)
def test_inputs_of_a_bundle_that_are_refused(case: str, tmp_path: Path) -> None:
    assert archives.attempt(case, tmp_path).harm == ""


def test_files_of_a_bundle_that_give_another_run_are_told(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """`verify` said `identical`, and the files that a reader opens first asked for another transfer."""
    asked = "params: {most: 40mbit}\nexpect: [{metric: bulk.goodput, max: '{{ most }}'}]\n"
    (tmp_path / "xp.yaml").write_text(SHORT + asked)
    assert mprun("-t", LAB / "topo", "-x", "xp", "-p", "most=45mbit").status == 0
    assert mprun("bundle", "--to", "run.zip").status == 0
    again = mprun("verify", "run.zip", "-o", "again")
    assert again.status == 0, again.err
    assert "note: most is 40mbit in inputs/, and was 45mbit in the run\n" in again.out
    member = {"inputs/xp.yaml": lambda text: text.replace(b"duration: 1s", b"duration: 2s")}
    changed(tmp_path / "run.zip", tmp_path / "other.zip", **member)
    other = mprun("verify", "other.zip", "-o", "again")
    assert other.status == 1
    assert "    -  duration: 1s\n    +  duration: 2s\n" in other.out
    assert "DIFFERENT  the files in inputs/ give other runs, though the run is repeated" in other.out
