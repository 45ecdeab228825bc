# SPDX-License-Identifier: Apache-2.0
"""Generators of installed packages, and `mprun topology`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mprun.cli import topology
from mprun.compile import allocate, compile_plan
from mprun.errors import SpecError
from mprun.inputs.generators import GENERATORS
from mprun.inputs.loading import load, load_topology

ROOT = Path(__file__).parents[2]
LAB = ROOT / "labs" / "01_multipath" / "topo.yaml"
PLANS = ROOT / "tests" / "golden" / "plans"
RING = '''\
"""`ring`: hosts, each on a router of a ring."""

from typing import Literal

from pydantic import Field

from mprun.inputs.keys.link import LinkProperties, UNSHAPED
from mprun.inputs.keys.topology import GeneratedTopology


class Parameters(GeneratedTopology, LinkProperties):
    topology: Literal["ring"] = Field(description="The generator.")
    size: int = Field(description="How many routers there are.", examples=[4])


def expand(parameters):
    size = parameters.size
    nodes = {f"h{n}": "host" for n in range(size)} | {f"r{n}": "router" for n in range(size)}
    links = [parameters.join(f"r{n}-r{(n + 1) % size}", (f"r{n}", f"r{(n + 1) % size}")) for n in range(size)]
    return nodes, (*links, *(UNSHAPED.join(f"h{n}", (f"h{n}", f"r{n}")) for n in range(size)))
'''


def install(folder: Path, package: str, source: str, *names: str, group: str = "mprun.topologies") -> None:
    """Install a distribution as pip does: a module, and metadata with its entry points."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(source)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {package}\n" for name in names)
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{lines}")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for packages that is on the path."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("ring_one", "ring_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def ask(directory: Path, text: str) -> Path:
    path = directory / "topo.yaml"
    path.write_text(f"version: 1\n{text}")
    return path


def fault_of(directory: Path, text: str) -> str:
    with pytest.raises(SpecError) as error:
        load_topology(ask(directory, text))
    assert len(error.value.problems) == 1
    return error.value.problems[0].removeprefix(f"{directory}/")


def test_a_package_brings_a_generator(tmp_path: Path, packages: Path) -> None:
    install(packages, "ring_one", RING, "ring")
    file = ask(tmp_path, "topology: ring\nsize: 4\nrate: 10mbit\n")
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: h0, to: h2, count: 1}]\n")
    spec = load(file, tmp_path / "xp.yaml", strict=True).spec
    assert len(spec.topology.nodes) == 8
    assert compile_plan(spec, allocate(spec)).flows
    listed = json.loads(run("list", "--json"))
    assert listed[-1] == {"name": "ring", "summary": "hosts, each on a router of a ring", "package": "ring_one"}


def test_the_example_in_the_docs_works(tmp_path: Path, packages: Path) -> None:
    source = (ROOT / "docs" / "reference" / "extensions.md").read_text().split("```python\n")[1].split("```")[0]
    install(packages, "ring_one", source, "ring")
    assert len(load_topology(ask(tmp_path, "topology: ring\nsize: 5\nrate: 10mbit\n")).links) == 10


def test_every_generator_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "topologies.md").read_text()
    assert [name for name in GENERATORS if f"\n## {name}\n" not in page or f"topology: {name}\n" not in page] == []


def test_faults_of_its_keys_are_shown_like_any_other(tmp_path: Path, packages: Path) -> None:
    install(packages, "ring_one", RING, "ring")
    assert fault_of(tmp_path, "topology: ring\nsise: 4\nsize: 4\n") == (
        "topo.yaml:3: sise: unknown key 'sise': did you mean 'size'?"
    )


def test_a_wrong_name_is_compared_with_those_of_packages(tmp_path: Path, packages: Path) -> None:
    install(packages, "ring_one", RING, "ring")
    assert fault_of(tmp_path, "topology: rign\n") == "topo.yaml:2: topology: no generator 'rign': did you mean 'ring'?"


def test_two_packages_with_one_name(tmp_path: Path, packages: Path) -> None:
    install(packages, "ring_one", RING, "ring")
    install(packages, "ring_two", RING, "ring")
    assert fault_of(tmp_path, "topology: ring\nsize: 3\n") == (
        "topo.yaml:2: topology: generator 'ring' is in the packages ring_one and ring_two: uninstall all but one"
    )


def test_ours_cannot_be_replaced(tmp_path: Path, packages: Path) -> None:
    install(packages, "ring_one", "raise SystemError('imported')", "line")
    assert len(load_topology(ask(tmp_path, "topology: line\nrouters: 1\n")).nodes) == 3
    assert [one["name"] for one in json.loads(run("list", "--json"))] == list(GENERATORS)


EXPAND = "def expand(parameters):\n"
TAIL = RING.split(EXPAND)[1]
MISFITS = {
    "import nowhere": "cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
    "": "has no class Parameters derived from mprun.inputs.keys.topology.GeneratedTopology",
    "Parameters = 1": "has no class Parameters derived from mprun.inputs.keys.topology.GeneratedTopology",
    RING.replace("def expand", "def widen"): "has no function expand, which takes its Parameters",
    RING.replace(TAIL, "    return 1 / 0\n"): "failed in expand: ZeroDivisionError: division by zero",
    RING.replace(TAIL, "    return []\n"): ": expand gives no pair of nodes (a mapping of name to kind) and links",
    RING.replace(TAIL, "    return {}, [1]\n"): ": expand gives links that are no tuple of LinkSpec",
    RING.replace('"router"', '"hub"'): ": expand gives node 'r0' the kind 'hub': use host, router, switch",
    RING.replace('f"h{n}", (f"h{n}", f"r{n}")', '"up", (f"h{n}", f"r{n}")'): ": expand gives two links the name 'up'",
    RING.replace('f"h{n}", (f"h{n}", f"r{n}")', 'f"h{n}", (f"h{n}", "x")'): ": expand joins link 'h0' to 'x', which",
    RING.replace('f"h{n}", (f"h{n}", f"r{n}")', 'f"h{n}", (f"r{n}", f"r{n}")'): ": expand joins 'r0' to itself by link",
    RING.replace('f"h{n}", (f"h{n}", f"r{n}")', 'f"h {n}", (f"h{n}", f"r{n}")'): ": expand gives a name that no",
}


@pytest.mark.parametrize("source", MISFITS, ids=[f"misfit{n}" for n in range(len(MISFITS))])
def test_what_does_not_fit_is_said(tmp_path: Path, packages: Path, source: str) -> None:
    install(packages, "ring_one", source, "ring")
    fault = fault_of(tmp_path, "topology: ring\nsize: 3\n")
    start = "topo.yaml:2: topology: generator 'ring' of package 'ring_one' (ring_one)"
    assert fault.startswith(start)
    assert MISFITS[source] in fault


def test_its_addresses_are_looked_at(tmp_path: Path, packages: Path) -> None:
    source = RING.replace('(f"h{n}", f"r{n}")) for', '(f"h{n}", f"r{n}"), ("10.9.9.1/24", "10.9.9.2/24")) for')
    install(packages, "ring_one", source, "ring")
    with pytest.raises(SpecError, match=r"address 10\.9\.9\.1 is taken by"):
        load_topology(ask(tmp_path, "topology: ring\nsize: 3\n"))


def test_packages_are_not_searched_for_our_own() -> None:
    code = "import sys; from mprun.inputs.loading import load; load(sys.argv[1], None)"
    code += "; sys.exit('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(LAB)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# mprun topology


def run(*arguments: str | Path) -> str:
    """Return the standard output of `mprun topology`. Its errors are raised."""
    command: click.Command = topology.command
    result = CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False, standalone_mode=False)
    return result.stdout


def test_list_says_what_each_is() -> None:
    lines = run("list").splitlines()
    assert [line.split()[0] for line in lines] == list(GENERATORS)
    assert all(len(line.split()) > 5 for line in lines)


def test_expand_writes_what_builds_the_same(tmp_path: Path) -> None:
    text = run("expand", "-t", LAB)
    assert text.startswith("# topo, expanded by mprun.\nversion: 1\n")
    assert "\n  router: {kind: router}\n" in text
    assert "\n  - {name: path0, between: [client, router], rate: 20mbit, delay: 20ms, queue: 80packets, " in text
    assert run("expand", "-t", LAB, "--to", tmp_path / "graph.yaml") == f"{tmp_path}/graph.yaml\n"
    assert (tmp_path / "graph.yaml").read_text() == text
    again = load(tmp_path / "graph.yaml", LAB.parent / "xp_mptcp").spec
    spec = load(LAB, LAB.parent / "xp_mptcp").spec
    assert compile_plan(again, allocate(again)).digest == compile_plan(spec, allocate(spec)).digest


@pytest.mark.parametrize("generator", GENERATORS)
def test_every_generator_expands_to_what_it_builds(generator: str, tmp_path: Path) -> None:
    case = PLANS / ("two-paths" if generator == "multi-path" else generator)
    run("expand", "-t", case / "topo", "--to", tmp_path / "graph.yaml")
    again, spec = (load(topology, case / "xp").spec for topology in (tmp_path / "graph.yaml", case / "topo"))
    assert compile_plan(again, allocate(again)).digest == compile_plan(spec, allocate(spec)).digest


def test_expand_fills_in_parameters_and_overwrites_nothing(tmp_path: Path) -> None:
    file = ask(tmp_path, 'params: {n: 2}\ntopology: line\nrouters: "{{ n }}"\n')
    assert "r5:" in run("expand", "-t", file, "-p", "n=5")
    with pytest.raises(
        click.BadParameter, match=r"topo\.yaml' exists, and is no file of the kind to be written: name another file"
    ):
        run("expand", "-t", file, "--to", file)
    run("expand", "-t", file, "--to", tmp_path / "new" / "x.yaml")
    assert (tmp_path / "new" / "x.yaml").read_text() == run("expand", "-t", file)
