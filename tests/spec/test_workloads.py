# SPDX-License-Identifier: Apache-2.0
"""Workloads of installed packages, workloads in the docs, and the programs that `make setup` installs for mprun's."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from mprun.compile import allocate, compile_plan
from mprun.errors import SpecError
from mprun.inputs.keys.pairing import gather_hosts, pair_hosts
from mprun.inputs.loading import load
from mprun.inputs.writer import write_experiment
from mprun.model.spec import Spec
from mprun.workloads import TOOLS
from mprun.workloads.tool import Tool
from mprun.workloads.tool import load as load_tool
from tests.spec.test_generators import ROOT, install

LAB = ROOT / "labs" / "01_multipath" / "topo.yaml"
PAGE = (ROOT / "docs" / "workloads.md").read_text()
EXAMPLE = (ROOT / "docs" / "reference" / "extensions.md").read_text().split("```python\n")[2].split("```")[0]
FLOW = "{tool: greeting, from: client, to: server, length: 7bytes}"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for packages that is on the path."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "greeting", raising=False)
    load_tool.cache_clear()
    return folder


def read(directory: Path, *flows: str, more: str = "") -> Spec:
    lines = "".join(f"  - {flow}\n" for flow in flows)
    (directory / "xp.yaml").write_text(f"version: 1\ntraffic:\n{lines}{more}")
    return load(LAB, directory / "xp.yaml").spec


def fault_of(directory: Path, flow: str) -> str:
    with pytest.raises(SpecError) as error:
        read(directory, flow)
    assert len(error.value.problems) == 1
    return error.value.problems[0].removeprefix(f"{directory}/")


def own(name: str) -> Tool:
    tool = load_tool(name)
    assert tool is not None
    return tool


def test_the_example_in_the_docs_works(tmp_path: Path, packages: Path) -> None:
    install(packages, "greeting", EXAMPLE, "greeting", group="mprun.tools")
    spec = read(tmp_path, FLOW, more="expect: [{metric: greeting.bytes, equals: 7bytes}]\n")
    plan = compile_plan(spec, allocate(spec))
    assert plan.daemons[-1].files[0].text == "xxxxxxx"
    assert plan.flows[0].flows == ("greeting",)
    (tmp_path / "again.yaml").write_text(write_experiment(spec.experiment))
    assert load(LAB, tmp_path / "again.yaml").spec.experiment.traffic == spec.experiment.traffic


def test_faults_of_its_keys_are_shown_like_any_other(tmp_path: Path, packages: Path) -> None:
    install(packages, "greeting", EXAMPLE, "greeting", group="mprun.tools")
    flow = FLOW.replace("length: 7bytes", "lenght: 7bytes")
    assert fault_of(tmp_path, flow) == "xp.yaml:3: traffic[0].lenght: unknown key 'lenght': did you mean 'length'?"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            ("class Entry(ServedEntry)", "class Entry(dict)"),
            "has no class Entry derived from mprun.inputs.keys.traffic_entry.FlowEntry",
        ),
        (("PORTS = 1", ""), "has no number PORTS, of its server"),
        (("METRICS = {", "METRIC = {"), "has no mapping METRICS of metrics to mprun.model.metric.Metric"),
        (("def work(", "def works("), "has no function work, which takes a Flow, Endpoints and Capabilities"),
        (("from typing import Literal", "import nosuch"), "cannot be imported: ModuleNotFoundError: No module named"),
    ],
)
def test_a_module_that_lacks_something(change: tuple[str, str], fault: str, tmp_path: Path, packages: Path) -> None:
    install(packages, "greeting", EXAMPLE.replace(*change), "greeting", group="mprun.tools")
    where = "xp.yaml:3: traffic[0].tool: tool 'greeting' of package 'greeting' (greeting) "
    assert fault_of(tmp_path, FLOW).startswith(where + fault)


def test_two_packages_with_one_name(tmp_path: Path, packages: Path) -> None:
    install(packages, "greeting", EXAMPLE, "greeting", group="mprun.tools")
    install(packages, "salute", EXAMPLE, "greeting", group="mprun.tools")
    assert fault_of(tmp_path, FLOW) == (
        "xp.yaml:3: traffic[0].tool: tool 'greeting' is in the packages greeting and salute: uninstall all but one"
    )


@pytest.mark.parametrize("name", TOOLS)
def test_each_of_ours_is_whole(name: str) -> None:
    tool = own(name)
    assert get_args(tool.Entry.model_fields["tool"].annotation) == (name,)
    assert f"| `{name}` |" in PAGE
    packages = re.sub(r"#.*", "", (ROOT / "packages.txt").read_text()).split()
    assert [p.package for p in tool.PROGRAMS.values() if p.package not in packages and not p.remedy] == []
    for metric in tool.METRICS.values():
        assert metric.meaning


@pytest.mark.parametrize("name", ["workloads", "groups"])
def test_the_resolved_file_means_the_same(name: str, tmp_path: Path) -> None:
    case = ROOT / "tests" / "golden" / "plans" / name
    spec = load(case / "topo.yaml", case / "xp.yaml").spec
    (tmp_path / "xp.yaml").write_text(write_experiment(spec.experiment))
    again = load(case / "topo.yaml", tmp_path / "xp.yaml").spec
    assert again.experiment.traffic == spec.experiment.traffic
    assert again.experiment.expectations == spec.experiment.expectations
    assert compile_plan(again, allocate(again)).digest == compile_plan(spec, allocate(spec)).digest


def test_the_resolved_file_of_a_command_without_a_server_means_the_same(tmp_path: Path) -> None:
    spec = read(tmp_path, "{tool: exec, from: client, to: server, command: [sleep, 1s]}")
    (tmp_path / "again.yaml").write_text(write_experiment(spec.experiment))
    assert load(LAB, tmp_path / "again.yaml").spec.experiment.traffic == spec.experiment.traffic


def test_a_file_imports_the_tools_that_it_names_alone(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    code = "import sys, json; from mprun.inputs.loading import load; "
    code += f"load({str(LAB)!r}, {str(tmp_path / 'xp.yaml')!r}); "
    code += "print(json.dumps([name for name in sys.modules if name.startswith('mprun.workloads.')]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    names = [f"mprun.workloads.{name}" for name in ("ping", "probe", "tool")]
    assert sorted(json.loads(done.stdout)) == names


def test_what_files_say_is_in_the_resolved_file(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("size,share\n0b,0%\n1kb,12.5%\n1mb,100%\n")
    (tmp_path / "begins.csv").write_text("at,size\n2s,70kb\n1s,8bytes\n")
    ends = "tool: flows, from: client, to: server"
    spec = read(
        tmp_path,
        f"{{name: drawn, {ends}, interval: 1ms, duration: 1s, size: {{file: sizes.csv}}}}",
        f"{{name: said, {ends}, schedule: begins.csv}}",
    )
    drawn, said = spec.experiment.traffic
    assert drawn.options["size"] == {"sizes_bytes": [0, 1024, 1 << 20], "shares_share": [0, 0.125, 1]}
    assert said.options == {"starts_ns": [10**9, 2 * 10**9], "sizes_bytes": [8, 70 << 10]}
    (tmp_path / "again.yaml").write_text(write_experiment(spec.experiment))
    again = load(LAB, tmp_path / "again.yaml").spec
    assert again.experiment.traffic == spec.experiment.traffic
    assert len(load(LAB, tmp_path / "xp.yaml").sources) == 4


@pytest.mark.parametrize(
    ("sources", "destinations"), [("h0..h3", "h*"), ("h*", "h*"), ("h1", "h*"), ("h[12]", "h1..h2")]
)
def test_a_permutation_sends_nobody_to_itself_and_no_two_to_one(sources: str, destinations: str) -> None:
    hosts = [f"h{n}" for n in range(6)]
    ends = gather_hosts((sources,), hosts), gather_hosts((destinations,), hosts)
    drawn = [list(pair_hosts(*ends, "permutation", f"{seed} short")[1]) for seed in range(50)]
    for pairs in drawn:
        assert tuple(source for source, _ in pairs) == ends[0]
        assert len({destination for _, destination in pairs}) == len(pairs)
        assert all(source != destination for source, destination in pairs)
    # two hosts have only one possible order
    assert len(set(map(tuple, drawn))) > 1 or len(ends[1]) == 2
