# SPDX-License-Identifier: Apache-2.0
"""A stranger's file runs no program and names no file outside its folder, unless the command line allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.errors import SpecError
from mprun.inputs.loading import load, load_topology
from mprun.labs.definition import FILE, read_lab
from mprun.model.permission import Permissions

TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}]\n"
EXPERIMENT = "version: 1\ntraffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s}]\n"
SIZES = (
    "traffic: [{name: f, tool: flows, from: client, to: server, duration: 1s, interval: 100ms, size: {file: SECRET}}]\n"
)
SECRET = "at,rate\n0s,1mbit\n"
PROGRAM = """\
import pathlib
from mininet.topo import Topo
pathlib.Path(__file__).with_name("it_ran").touch()
class Mine(Topo):
    def build(self):
        self.addLink(self.addHost("a"), self.addHost("b"))
"""
LAB = "version: 1\ntitle: t\naim: a\nsteps: [{topology: TOPOLOGY, experiment: xp}]\n"
NAMING = {
    "include": (f"{TOPOLOGY}include: SECRET\n", EXPERIMENT),
    "extends": (f"{TOPOLOGY}extends: SECRET\n", EXPERIMENT),
    "include-of-experiment": (TOPOLOGY, f"{EXPERIMENT}include: [SECRET]\n"),
    "schedule": (f"{TOPOLOGY}events: [{{at: 0s, link: path0, schedule: SECRET}}]\n", EXPERIMENT),
    "trace": (f"{TOPOLOGY}events: [{{link: path0, trace: SECRET}}]\n", EXPERIMENT),
    "size": (TOPOLOGY, f"version: 1\n{SIZES}"),
}
# absolute, relative, and through a link inside the folder
WAYS = ("{secret}", "../secret.csv", "link.csv", "folder/secret.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "stranger"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text(SECRET)
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "folder").symlink_to(tmp_path)
    return folder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", NAMING)
def test_no_file_outside_the_folder_is_read(folder: Path, key: str, way: str) -> None:
    """The message is the same whether the file exists or not."""
    said = []
    for exists in (True, False):
        name = way.format(secret=folder.parent / "secret.csv")
        for file, text in zip(("topo.yaml", "xp.yaml"), NAMING[key], strict=True):
            (folder / file).write_text(text.replace("SECRET", name))
        if not exists:
            (folder.parent / "secret.csv").unlink()
        with pytest.raises(
            SpecError, match=r"lies outside the folder of .*: copy it there, or add --allow-outside"
        ) as e:
            load(folder / "topo", folder / "xp")
        said.append(str(e.value))
    assert said[0] == said[1]


def test_the_command_line_may_allow_it(folder: Path) -> None:
    (folder / "topo.yaml").write_text(NAMING["schedule"][0].replace("SECRET", "link.csv").replace("at: 0s, ", ""))
    loaded = load(folder / "topo", None, allowed=Permissions(outside=True))
    assert folder / "link.csv" in loaded.sources


def test_files_below_the_folder_need_no_permission(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "base.yaml").write_text(TOPOLOGY)
    (folder / "alias.yaml").symlink_to("parts/base.yaml")
    (folder / "topo.yaml").write_text("include: parts/../alias.yaml\n")
    assert load_topology(folder / "topo").nodes


def test_a_python_topology_does_not_run_unasked(folder: Path) -> None:
    (folder / "topo.py").write_text(PROGRAM)
    with pytest.raises(SpecError, match=r"topo\.py: is a Python program, which runs on this machine with all your ri"):
        load_topology(folder / "topo.py")
    assert not (folder / "it_ran").exists()
    assert load_topology(folder / "topo.py", allowed=Permissions(python=True)).nodes
    assert (folder / "it_ran").exists()


def test_a_lab_runs_no_python(folder: Path) -> None:
    (folder / "topo.py").write_text(PROGRAM)
    (folder / "xp.yaml").write_text(EXPERIMENT)
    (folder / FILE).write_text(LAB.replace("TOPOLOGY", "topo.py"))
    with pytest.raises(SpecError, match="is a Python program"):
        read_lab(folder).steps[0].load()
    assert not (folder / "it_ran").exists()


@pytest.mark.parametrize("name", ["../topo", "linked", "folder/topo"])
def test_steps_of_a_lab_are_in_its_folder(folder: Path, name: str) -> None:
    (folder.parent / "topo.yaml").write_text(TOPOLOGY)
    (folder / "linked.yaml").symlink_to("../topo.yaml")
    (folder / "xp.yaml").write_text(EXPERIMENT)
    (folder / FILE).write_text(LAB.replace("TOPOLOGY", name))
    with pytest.raises(SpecError, match=r"steps\[0\]\.topology: lies outside the folder of the lab"):
        read_lab(folder)
