# SPDX-License-Identifier: Apache-2.0
"""The engine of a run. The real engine is chosen only by the command line or the user's own configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mprun.cli import group
from mprun.errors import MachineError, MprunError, SpecError
from mprun.inputs import user_configuration
from mprun.inputs.loading import load
from mprun.kernel.store import store
from mprun.model.engine_name import EngineChoice, EngineName
from mprun.model.permission import Consent
from mprun.runs.place import choose_place, refuse_commands

RUN = Path(__file__).parents[1] / "outputs" / "run"
TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}]\n"
EXPERIMENT = "version: 1\ntraffic: [{name: bulk, tool: iperf3, from: client, to: server, duration: 1s}]\n"
COMMANDS = "version: 1\ntraffic: [{name: it, tool: exec, from: client, to: server, command: [id]}]\n"
ASKED = (
    "these files ask for the real engine, which runs them on this machine's own kernel: if you want that, add "
    "--engine real"
)
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)


@pytest.fixture
def configure(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "config" / "mprun" / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def call(*arguments: object) -> Result:
    return CliRunner().invoke(group, [*map(str, arguments)])


def test_without_a_kernel_nothing_is_taken_in_its_place() -> None:
    """Before, the real engine was used with only a printed line, and without a question."""
    with pytest.raises(MachineError) as refused:
        choose_place("auto", "default")
    assert refused.value.exit_code == 3
    assert str(refused.value) == (
        f"no experiment kernel is built for this user (built: none in {store()}); run `mprun kernel build`; or run on "
        "this machine's own kernel, in real time: add `--engine real`"
    )
    with pytest.raises(MachineError, match=r"run `mprun kernel build`$"):
        choose_place("virtual", "default")
    assert choose_place("real", "default").name == "real"
    with pytest.raises(SpecError, match="runs on this machine's own kernel and does not boot kernel 'mine'"):
        choose_place("real", "mine")


def test_the_configuration_is_what_auto_means(configure: Write) -> None:
    path = configure("version: 1\nengine: real\n")
    place = choose_place("auto", "default")
    assert (place.name, place.reason) == ("real", f"as {path} says")
    # the command line has priority, and a named kernel implies the virtual engine
    asked: tuple[tuple[EngineChoice, str], ...] = (("virtual", "default"), ("auto", "mine"))
    for wanted, kernel in asked:
        with pytest.raises(MachineError, match="no experiment kernel"):
            choose_place(wanted, kernel)
    configure("version: 1\n")
    assert user_configuration.configured_engine() == "virtual"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("version: 1\nengine: reel\n", "2: engine: 'reel' is not known here: did you mean 'real'?"),
        ("version: 1\nengin: real\n", "2: engin: unknown key 'engin': did you mean 'engine'"),
        ("version: 1\nparam: 3\n", "2: param: unknown key 'param'; keys here: version, engine"),
        ("engine: real\n", "1: version"),
        ("version: 1\nengine: auto\n", "2: engine: 'auto' is not known here"),
        ("version: 1\nengine: [real]\n", "2: engine: "),
        ("engine: {{\n", ":1: is not YAML"),
        ("", "is empty"),
    ],
)
def test_a_faulty_configuration_is_one_line(text: str, fault: str, configure: Write) -> None:
    path = configure(text)
    with pytest.raises(SpecError) as refused:
        choose_place("auto", "default")
    assert len(refused.value.problems) == 1
    assert refused.value.problems[0].startswith(f"{path}:")
    assert fault in refused.value.problems[0]
    checks = {check["name"]: check for check in json.loads(call("doctor", "--json").output)}
    assert not checks["configuration"]["ok"]
    assert checks["configuration"]["mend"] == f"correct or remove {path}"


def test_a_matrix_does_not_choose_the_real_engine(configure: Write, tmp_path: Path) -> None:
    """Before, a matrix chose the real engine without a question."""
    (tmp_path / "xp.yaml").write_text(f"{EXPERIMENT}matrix: {{engine: [real]}}\n")
    sweep = ("sweep", "-t", "topo", "-x", "xp", "--dry-run")
    for asked in ((), ("--engine", "virtual")):
        refused = call(*sweep, *asked)
        assert isinstance(refused.exception, SpecError)
        assert str(refused.exception) == ASKED
        one = call("run", "-t", "topo", "-x", "xp", "-p", "engine=real", *asked)
        assert str(one.exception) == ASKED
    assert call(*sweep, "--engine", "real").exit_code == 0
    configure("version: 1\nengine: real\n")
    assert call(*sweep).exit_code == 0
    assert str(call(*sweep, "--engine", "virtual").exception) == ASKED


def test_a_run_directory_does_not_choose_the_real_engine(tmp_path: Path) -> None:
    """Before, a repetition obeyed a stranger's environment.json."""
    shutil.copytree(RUN, tmp_path / "run")
    environment = json.loads((RUN / "environment.json").read_text())
    (tmp_path / "run" / "environment.json").write_text(json.dumps(environment | {"engine": "real"}))
    assert str(call("verify", "--keep", tmp_path / "run").exception) == ASKED
    with pytest.raises(MachineError, match="no experiment kernel"):
        raise call("verify", "--keep", tmp_path / "run", "--engine", "virtual").exception or AssertionError


@pytest.mark.parametrize("engine", ["reel", "auto", ""])
def test_an_engine_that_does_not_exist_is_a_fault_of_its_file(engine: str, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    environment = json.loads((RUN / "environment.json").read_text())
    (tmp_path / "run" / "environment.json").write_text(json.dumps(environment | {"engine": engine}))
    with pytest.raises(MprunError, match=r"environment\.json") as refused:
        raise call("verify", "--keep", tmp_path / "run").exception or AssertionError
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.usefixtures("painted_once")
def test_a_report_does_not_need_the_key_real_time(tmp_path: Path) -> None:
    """The key is optional, and verify reads it as such."""
    shutil.copytree(RUN, tmp_path / "run")
    environment = json.loads((RUN / "environment.json").read_text())
    del environment["real_time"]
    (tmp_path / "run" / "environment.json").write_text(json.dumps(environment))
    assert call("report", tmp_path / "run").exception is None


def test_commands_need_consent_and_root_needs_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(COMMANDS)
    spec = load("topo", "xp").spec
    allowed = Consent(commands=True, unconfined=True)
    cases: list[tuple[Consent, EngineName, int, str | None]] = [
        (Consent(), "virtual", 0, "; if you want them, add --allow-exec"),
        (Consent(unconfined=True, as_root=True), "virtual", 0, "; if you want them, add --allow-exec"),
        (allowed, "virtual", 0, None),
        (allowed, "real", 1000, None),
        (allowed, "real", 0, ", as root on this machine's own kernel; if you want that, add --allow-exec-as-root"),
        (Consent(commands=True, unconfined=True, as_root=True), "real", 0, None),
    ]
    for consent, engine, user, lacking in cases:
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        if lacking is None:
            refuse_commands([spec], consent, engine)
            continue
        with pytest.raises(SpecError) as refused:
            refuse_commands([spec], consent, engine)
        assert refused.value.problems[0].startswith(f"this experiment runs commands of its own{lacking}")
        assert refused.value.problems[1:] == ("it: client: id",)
    others = []
    for number in range(22):
        (tmp_path / "xp.yaml").write_text(COMMANDS.replace("id", f"id, '{number}'"))
        others.append(load("topo", "xp").spec)
    with pytest.raises(SpecError) as refused:
        refuse_commands([spec, spec, *others], Consent(), "virtual")
    told = refused.value.problems[1:]
    assert (told[:2], told[20:]) == (("it: client: id", "it: client: id 0"), ("and 3 more",))
