# SPDX-License-Identifier: Apache-2.0
"""`mprun validate`, `new` and `schema`, and the schemas in the tree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from mprun.cli import baseline, lab, new, schema, sweep, validate
from mprun.errors import SpecError
from mprun.inputs.json_schema import SCHEMAS, render
from mprun.inputs.loading import load

ROOT = Path(__file__).parent.parent.parent
LAB = ROOT / "labs" / "01_multipath"
KINDS = ("multi-path", "line", "graph")


def _run(command: click.Command, *arguments: str | Path) -> str:
    """Return the standard output of a command. Its errors are raised."""
    return CliRunner().invoke(command, list(map(str, arguments)), catch_exceptions=False, standalone_mode=False).stdout


def test_validate_says_what_there_is() -> None:
    assert _run(validate.command, "-t", LAB / "topo") == "ok: 3 nodes, 3 links\n"
    full = _run(validate.command, "-t", LAB / "topo", "-x", LAB / "xp_tcp")
    assert full == "ok: 3 nodes, 3 links, 1 flow, 2 captures, 3 expectations\n"


def test_validate_counts_statements_about_cells(tmp_path: Path) -> None:
    text = (LAB / "xp_tcp.yaml").read_text()
    (tmp_path / "xp.yaml").write_text(text.replace("expect:\n", "expect:\n  - {holds: cells.bulk.goodput > 1mbit}\n"))
    assert _run(validate.command, "-t", LAB / "topo", "-x", tmp_path / "xp").endswith(", 4 expectations\n")


def test_validate_prints_warnings_beside_its_answer(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text("version: 1\nnodes: {a: {kind: host}}\n")
    result = CliRunner().invoke(validate.command, ["-t", str(tmp_path / "topo")])
    assert result.stdout == "ok: 1 node\n"
    assert result.stderr == f"warning: {tmp_path}/topo.yaml:2: nodes.a: has no link: join it or remove it\n"


def test_validate_json() -> None:
    assert json.loads(_run(validate.command, "--json", "-t", LAB / "topo")) == []
    case = ROOT / "tests" / "golden" / "faults" / "unknown-host"
    result = CliRunner().invoke(validate.command, ["--json", "-t", str(case / "topo"), "-x", str(case / "xp")])
    assert isinstance(result.exception, SpecError)
    faults = json.loads(result.stdout)
    assert len(faults) == 5
    assert faults[2] == {
        "file": str(case / "xp.yaml"),
        "line": 7,
        "path": "traffic[0].to",
        "message": "no host 'srv' in topology 'topo'; hosts: client, server",
    }


def test_a_list_of_cells_needs_no_consent(tmp_path: Path) -> None:
    flow = "{tool: exec, from: client, to: server, command: [sleep, '{{ s }}']}"
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 5ms}]\n")
    (tmp_path / "xp.yaml").write_text(f"version: 1\nparams: {{s: 1s}}\ntraffic: [{flow}]\nmatrix: {{s: [1s, 2s]}}\n")
    files = ("-t", tmp_path / "topo", "-x", tmp_path / "xp", "-o", tmp_path)
    assert "2 cells of 1 run" in _run(sweep.command, *files, "--dry-run")
    refused = CliRunner().invoke(sweep.command, list(map(str, files)))
    assert "add --allow-exec" in str(refused.exception)


def test_new_quotes_a_name_with_a_space(tmp_path: Path) -> None:
    output = _run(new.command, tmp_path / "my lab")
    assert output.endswith(f"next: mprun -t '{tmp_path}/my lab/topo' -x '{tmp_path}/my lab/xp'\n")


@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_pair_that_is_clean(tmp_path: Path, kind: str) -> None:
    output = _run(new.command, tmp_path / "lab", "--topology", kind)
    assert output.endswith(f"next: mprun -t {tmp_path}/lab/topo -x {tmp_path}/lab/xp\n")
    loaded = load(tmp_path / "lab" / "topo", tmp_path / "lab" / "xp", strict=True)
    assert loaded.spec.experiment.hosts["client"].sysctl == (("net.ipv4.tcp_congestion_control", "cubic"),)
    assert len(loaded.spec.experiment.expectations) >= 3


def test_new_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text("mine")
    with pytest.raises(SpecError, match=r"xp\.yaml would be overwritten"):
        _run(new.command, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["xp.yaml"]
    assert (tmp_path / "xp.yaml").read_text() == "mine"


def test_new_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(click.BadParameter, match=r"takes no new files \(is a file\)"):
        _run(new.command, tmp_path / "file" / "lab")


def test_a_lab_without_a_directory_says_where_it_cannot_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    with pytest.raises(click.BadParameter, match="takes no new files"):
        _run(lab.start, "01")


def test_a_baseline_with_a_licence_may_be_written_again(tmp_path: Path) -> None:
    file = tmp_path / "values.baseline"
    file.write_text("# SPDX-License-Identifier: MIT\n# Values of a run.\n")
    (target,) = (one for one in baseline.write.params if one.name == "target")
    assert target.type(str(file)) == file
    file.write_text("notes")
    with pytest.raises(click.BadParameter, match="no file of the kind"):
        target.type(str(file))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_in_the_tree_is_current(name: str) -> None:
    current = (ROOT / "schemas" / f"{name}.schema.json").read_text()
    assert current == render(name), "run: mprun schema --write schemas"
    assert _run(schema.command, name) == current


def test_schema_writes_all(tmp_path: Path) -> None:
    _run(schema.command, "--write", tmp_path / "schemas")
    assert sorted(path.name for path in (tmp_path / "schemas").iterdir()) == [
        "config.schema.json",
        "experiment.schema.json",
        "lab.schema.json",
        "topology.schema.json",
    ]
    with pytest.raises(click.UsageError):
        _run(schema.command)


def test_every_key_is_described() -> None:
    def undescribed(value: object, path: str) -> list[str]:
        if not isinstance(value, dict):
            return []
        found = [
            f"{path}.{key}"
            for key, inner in value.get("properties", {}).items()
            if not {"description", "const", "$ref"} & inner.keys()
        ]
        for key, inner in value.items():
            if key not in ("if", "not"):
                found += undescribed(inner, f"{path}.{key}")
        return found

    for name in SCHEMAS:
        assert undescribed(json.loads(render(name)), name) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_defaults_and_examples_are_what_a_schema_admits(name: str) -> None:
    """An editor offers defaults and examples, so a default is spelled as in a file: `100ms`, not nanoseconds."""
    whole = json.loads(render(name))
    Draft202012Validator.check_schema(whole)

    def refused(value: object, path: str) -> list[str]:
        if isinstance(value, list):
            return [fault for n, inner in enumerate(value) for fault in refused(inner, f"{path}[{n}]")]
        if not isinstance(value, dict):
            return []
        found = []
        if not path.endswith((".properties", ".patternProperties", ".$defs")):
            validator = Draft202012Validator({**value, "$defs": whole["$defs"]})
            offered = [*value.get("examples", ()), *([value["default"]] if "default" in value else [])]
            found = [f"{path}: {one}" for one in offered if not validator.is_valid(one)]
        return found + [fault for key, inner in value.items() for fault in refused(inner, f"{path}.{key}")]

    assert refused(whole, name) == []


class _Yaml(yaml.SafeLoader):
    """A loader that reads YAML 1.2, as editors do: `on` is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ROOT.glob("labs/*/**/*.yaml")) if path.name != "lab.yaml" and "runs" not in path.parts],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_the_schemas_admit_the_labs(path: Path) -> None:
    """An editor reports no fault in files that mprun accepts."""
    file = yaml.load(path.read_text(), _Yaml)
    name = "experiment" if "traffic" in file or "extends" in file else "topology"
    schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
    faults = [f"{fault.json_path}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(file)]
    assert faults == []
