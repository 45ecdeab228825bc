# SPDX-License-Identifier: Apache-2.0
"""Older key:value files: their meaning, warnings about them, and `convert`, which keeps the meaning."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli import convert, group, validate
from mprun.compile import allocate, compile_plan
from mprun.errors import MachineError, SpecError
from mprun.inputs.document import Document
from mprun.inputs.loading import load, load_trees
from mprun.inputs.older import netem
from mprun.inputs.older.conversion import convert as convert_text
from mprun.inputs.older.lines import FileRole, is_older
from mprun.inputs.older.older_file import OlderFile
from mprun.inputs.parameter import FileParameters
from mprun.inputs.reader import FileTree, read
from mprun.inputs.rendering import render
from mprun.inputs.yaml_tree import parse

ROOT = Path(__file__).parent.parent.parent
PLANS = ROOT / "tests" / "golden" / "plans"
GOLDEN = sorted(path.name for path in PLANS.glob("legacy-*"))

_SUBNETS = "leftSubnet:10.0.\nrightSubnet:10.1.\n"


def _topology(*links: str, kind: str = "MultiIf", more: str = "") -> str:
    paths = "".join(f"path_c2r_{n}:{link}\n" for n, link in enumerate(links))
    return f"{_SUBNETS}{paths}{more}topoType:{kind}\n"


def _experiment(kind: str, *more: str) -> str:
    return "\n".join((f"xpType:{kind}", "clientPcap:yes", "serverPcap:yes", "snaplenPcap:100", *more, ""))


_TWO_BY_TWO = _topology("10,50,25", "10,50,25", more="path_r2s_0:5,50,50\npath_r2s_1:5,50,50\n")
_LOSS_AT_3 = "changeNetem:yes\nnetemAt_c2r_0:3,delay 20ms loss 100%\n"

# The tutorial of 2020, by lab: its topologies, and their experiments.
TOPOLOGIES = {
    "01": _topology("20,80,20", "20,80,20"),
    "02_msg": _topology("20,400,100", "40,800,100"),
    "02_http": _topology("15,60,20", "50,200,20"),
    "03_single_path": _topology("20,80,20"),
    "03_two_client_paths": _topology("10,50,25", "10,50,25"),
    "03_two_client_paths_two_server_paths": _TWO_BY_TWO,
    "04": _topology("20,400,100", "15,800,100"),
    "04_bk": _topology("20,400,100", "15,300,100,0,1"),
    "04_events": _topology("20,400,100", "15,800,100", more=_LOSS_AT_3),
    "05": _topology("10,40,20", "40,160,20", kind="MultiIfMultiClient"),
    "06": _topology("20,40,10", "20,40,10"),
    "06_three_paths": _topology("20,40,10", "40,80,10", "20,40,10"),
}
EXPERIMENTS = {
    "xp_tcp": _experiment("iperf", "mptcpEnabled:0", "iperfTime:10"),
    "xp_mptcp": _experiment("iperf", "mptcpEnabled:1", "iperfTime:10"),
    "iperf_default": _experiment("iperf", "kpm:default", "kpmc:default", "kpms:default", "iperfTime:10"),
    "msg": _experiment("msg", "msgClientSleep:0.25", "msgServerSleep:0", "msgNbRequests:20", "msgBytes:10000"),
    "http": _experiment("http", "mptcpEnabled:0", "file:random", "file_size:10240"),
    "https": _experiment("https", "file_size:300"),
    "pquic": _experiment("pquic", "mptcpEnabled:0", "pquicSize:5120000"),
    "pquic_rr": _experiment("pquic", "mptcpEnabled:0", "pquicPlugins:~/plugins/multipath/multipath_rr.plugin"),
    "iperf_fullmesh": _experiment("iperf", "kpm:fullmesh", "kpmc:fullmesh", "kpms:fullmesh", "iperfTime:10"),
}
# These experiments need further clients, which lab 05 has.
SCENARIOS = {
    f"iperf_scenario_{control}_{number}sf": _experiment(
        "iperfScenario", f"congctrl:{control}", f"iperfScenarioFMSublows:{number}"
    )
    for control in ("reno", "olia")
    for number in (1, 4)
}


def _digest(folder: Path, legacy_queue: bool = False) -> str:
    trees = read(folder / "topo", "topology", legacy_queue=legacy_queue), read(folder / "xp", "experiment")
    spec = load_trees(*trees).spec
    return compile_plan(spec, allocate(spec)).digest


def _plain(tree: FileTree) -> dict[str, object]:
    values = Document(tree).plain(FileParameters({}))
    assert values is not None
    return values


def _converted(text: str, role: FileRole, legacy_queue: bool = False) -> OlderFile:
    assert is_older(text)
    converted = convert_text(text, "older", role, legacy_queue)
    assert converted.problems == []
    return converted


def _values(text: str, role: FileRole, legacy_queue: bool = False) -> dict[str, object]:
    return _plain(FileTree("older", _converted(text, role, legacy_queue).root, ("older",), ()))


def _convert(*arguments: str | Path) -> str:
    return (
        CliRunner()
        .invoke(convert.command, list(map(str, arguments)), catch_exceptions=False, standalone_mode=False)
        .stdout
    )


def _write_pair(folder: Path, topology: str, experiment: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "topo").write_text(topology)
    (folder / "xp").write_text(experiment)


# meaning of files


@pytest.mark.parametrize(
    ("topology", "experiment"),
    [*product(TOPOLOGIES, EXPERIMENTS), *product(["05"], SCENARIOS)],
)
@pytest.mark.parametrize("options", [(), ("--legacy-queue",)], ids=["as-written", "legacy-queue"])
def test_tutorial_converts_to_the_same_plan(
    topology: str, experiment: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    _write_pair(tmp_path / "older", TOPOLOGIES[topology], (EXPERIMENTS | SCENARIOS)[experiment])
    _convert(tmp_path / "older" / "topo", tmp_path / "older" / "xp", "--to", tmp_path / "new", *options)
    assert _digest(tmp_path / "new") == _digest(tmp_path / "older", bool(options))


def test_legacy_queues_of_yaml_are_refused() -> None:
    with pytest.raises(SpecError, match="is not of the older format: its queues mean what they say"):
        _convert(ROOT / "labs" / "01_multipath" / "topo", "--legacy-queue")


def test_legacy_queues_that_hold_no_frame_are_refused(tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("topoType:MultiIf\npath_c2r_0:0,1,1\n")
    with pytest.raises(SpecError, match="topo:2: path_c2r_0: '1375bytes' is below 1514bytes, the smallest queue"):
        _convert(tmp_path / "topo", "--legacy-queue")


@pytest.mark.parametrize("command", ["run", "validate", "plan", "sweep", "shell", "calibrate"])
def test_other_commands_say_who_has_the_option(command: str) -> None:
    done = CliRunner().invoke(group, [command, "-t", "topo", "--legacy-queue"])
    assert done.exit_code == 2
    assert "'--legacy-queue' is no longer an option here" in done.stderr
    assert "`mprun convert --legacy-queue TOPOLOGY EXPERIMENT`" in done.stderr


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_case_converts_to_the_same_plan(case: str, tmp_path: Path) -> None:
    _convert(PLANS / case / "topo", PLANS / case / "xp", "--to", tmp_path)
    assert _digest(tmp_path) == _digest(PLANS / case)


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_case_says_what_it_warns_of(case: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLANS / case)
    text = "".join(f"{warning}\n" for warning in load("topo", "xp").warnings)
    if update_golden:
        Path("warnings.txt").write_text(text)
    assert text == Path("warnings.txt").read_text()


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_case_reads_well(case: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLANS / case)
    text = _convert("topo", "xp", "--to", "-")
    if update_golden:
        Path("converted.yaml").write_text(text)
    assert text == Path("converted.yaml").read_text()


@pytest.mark.parametrize(
    ("role", "text"),
    [
        *(pytest.param("topology", text, id=name) for name, text in TOPOLOGIES.items()),
        *(pytest.param("experiment", text, id=name) for name, text in SCENARIOS.items()),
    ],
)
def test_rendering_keeps_the_values(role: FileRole, text: str) -> None:
    converted = _converted(text, role)
    assert converted.root is not None
    node = parse(render(converted.root, converted.comments), "new")
    assert _plain(FileTree("new", node, ("new",), ())) == _values(text, role)  # type: ignore[arg-type]


def test_lab_01_is_that_of_the_labs(tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["01"], EXPERIMENTS["xp_mptcp"])
    ours, theirs = load(ROOT / "labs" / "01_multipath" / "topo", None).spec, load(tmp_path / "topo", None).spec
    assert theirs.topology.links == ours.topology.links
    assert theirs.topology.nodes == ours.topology.nodes


@pytest.mark.parametrize(("older", "newer"), [("topo", "xp"), ("xp", "topo")])
def test_older_and_yaml_file_go_together(older: str, newer: str, tmp_path: Path) -> None:
    source = PLANS / "legacy-tcp"
    _convert(source / "topo", source / "xp", "--to", tmp_path)
    (tmp_path / f"{older}.yaml").unlink()
    (tmp_path / older).write_bytes((source / older).read_bytes())
    assert _digest(tmp_path) == _digest(source)
    output = _convert(tmp_path / "topo", tmp_path / "xp", "--to", "-")
    assert ("topology: multi-path" in output) == (older == "topo")
    assert ("traffic:" in output) == (older == "xp")


def test_a_file_without_suffix_comes_first(tmp_path: Path) -> None:
    (tmp_path / "topo").write_text(_topology("20,80,20"))
    (tmp_path / "topo.yaml").write_text("version: 1\n")
    assert load(tmp_path / "topo", None).sources == (tmp_path / "topo",)


def test_yaml_extends_an_older_file(tmp_path: Path) -> None:
    (tmp_path / "topo").write_text(_topology("20,80,20"))
    (tmp_path / "mine.yaml").write_text("version: 1\nextends: topo\nserver_paths: [{rate: 50mbit}]\n")
    links = load(tmp_path / "mine", None).spec.topology.links
    assert [link.forward.rate_bit_per_s for link in links] == [20_000_000, 50_000_000]


def test_subnets_are_those_of_the_older_tool(tmp_path: Path) -> None:
    (tmp_path / "topo").write_text("topoType:MultiIf\npath_c2r_0:20,20\npath_c2r_1:20,20\n")
    assert [link.addresses for link in load(tmp_path / "topo", None).spec.topology.links] == [
        (("10.1.0.1/24",), ("10.1.0.2/24",)),
        (("10.1.1.1/24",), ("10.1.1.2/24",)),
        (("10.2.0.2/24",), ("10.2.0.1/24",)),
    ]


@pytest.mark.parametrize(
    ("link", "written", "legacy"),
    [
        ("20,80,20", "80packets", "213000bytes"),
        ("20,20", "67packets", "195500bytes"),
        ("10,50,25", "50packets", f"{1500 * 42 + 22 * 25000 // 8}bytes"),
        ("0,1,100", "1packets", "12500bytes"),
        ("0,100", "1packets", "12500bytes"),
    ],
)
def test_queue(link: str, written: str, legacy: str) -> None:
    for legacy_queue, expected in ((False, written), (True, legacy)):
        paths = _values(_topology(link), "topology", legacy_queue)["paths"]
        assert isinstance(paths, list)
        assert paths[0]["queue"] == expected


def test_events_in_the_order_of_time() -> None:
    more = "changeNetem:yes\nnetemAt_c2r_0:5.5,loss random 100% limit 50000\nnetemAt_r2s_0:3,delay 20ms 2ms loss 1\n"
    converted = _converted(_topology("20,80,20,1", more=f"{more}path_r2s_0:5,50\n"), "topology")
    assert _plain(FileTree("older", converted.root, ("older",), ()))["events"] == [
        {"at": "3s", "link": "server0", "set": {"delay": "20ms", "jitter": "2ms", "loss": "1%"}},
        {"at": "5.5s", "link": "path0", "set": {"loss": "100%"}},
    ]
    assert [str(warning) for warning in converted.warnings] == [
        "older:5: netemAt_c2r_0: 'limit 50000' has no effect: the delay stage here is never too short",
        "older:5: netemAt_c2r_0: names no delay, which stays as it is; the older tool's change took it away:"
        " add 'delay 0ms' if that is meant",
        "older:5: netemAt_c2r_0: times count from the first flow here; in the older tool from 2 to 3 s before it",
    ]


@pytest.mark.parametrize("switch", ["", "changeNetem:no\n"])
def test_events_only_when_switched_on(switch: str) -> None:
    converted = _converted(_topology("20,80,20", more=f"{switch}netemAt_c2r_0:5,loss 100%\n"), "topology")
    assert "events" not in _plain(FileTree("older", converted.root, ("older",), ()))
    assert [warning.message for warning in converted.warnings] == [
        "has no effect: only with 'changeNetem:yes' do links change"
    ]


@pytest.mark.parametrize(
    ("command", "properties"),
    [
        ("loss 100%", {"loss": "100%"}),
        ("loss random 0.5", {"loss": "0.5%"}),
        ("delay 100", {"delay": "100us"}),
        ("delay 20msec 1ms", {"delay": "20ms", "jitter": "1ms"}),
        (
            "rate 5Mbit duplicate 1% corrupt 2% reorder 3%",
            {"rate": "5mbit", "duplicate": "1%", "corrupt": "2%", "reorder": "3%"},
        ),
    ],
)
def test_netem(command: str, properties: dict[str, str]) -> None:
    assert netem.parse(command) == (properties, [])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "changes nothing"),
        ("limit 10", "changes nothing"),
        ("loss 1% 25%", "'25%' after 'loss', a correlation"),
        ("loss gemodel 1% 10%", "'gemodel' stands after 'loss'"),
        ("delay 10ms 1ms distribution normal", "'distribution' after 'delay'"),
        ("rate 5mbps", "'5mbps' after 'rate' has a unit that is not read here: write 'rate 20mbit'"),
    ],
)
def test_netem_refuses(command: str, message: str) -> None:
    with pytest.raises(netem.NetemError, match=message):
        netem.parse(command)


FULL_MESH = {"path_manager": "fullmesh", "scheduler": "lowest-rtt"}


def test_scenario_with_several_subflows_for_each_pair() -> None:
    older = SCENARIOS["iperf_scenario_olia_1sf"].replace("FMSublows:1", "FMSublows:4")
    values = _values(older, "experiment")
    hosts = values["hosts"]
    assert isinstance(hosts, dict)
    assert hosts["client"]["mptcp"] == FULL_MESH | {"subflows_per_pair": 4}
    assert hosts["server"]["mptcp"] == FULL_MESH


def test_scenario() -> None:
    values = _values(SCENARIOS["iperf_scenario_olia_1sf"], "experiment")
    assert values["traffic"] == [
        {"name": f"iperf{n}", "tool": "iperf3", "from": f"client{n or ''}", "to": f"server{n or ''}"}
        | {"protocol": protocol, "start": start, "duration": duration}
        for n, protocol, start, duration in (
            (0, "mptcp", "0s", "50s"),
            (1, "tcp", "10s", "20s"),
            (2, "tcp", "20s", "20s"),
        )
    ]
    olia, reno = ({"sysctl": {"net.ipv4.tcp_congestion_control": name}} for name in ("olia", "reno"))
    assert values["hosts"] == {
        "client": {"mptcp": FULL_MESH, **olia},
        "server": {"mptcp": FULL_MESH, **olia},
        **dict.fromkeys(("client1", "server1", "client2", "server2"), reno),
    }


def test_multi_client_has_the_paths_of_multi_path() -> None:
    assert _values(TOPOLOGIES["05"], "topology") == {
        "version": 1,
        "topology": "multi-client",
        "paths": [
            {"rate": "20mbit", "delay": "10ms", "queue": "40packets"},
            {"rate": "20mbit", "delay": "40ms", "queue": "160packets"},
        ],
    }


@pytest.mark.parametrize(
    ("kind", "nearest"),
    [
        ("quic", "'xpType:pquic'"),
        ("quicsiri", "'xpType:msg'"),
        ("sirihttp", "'xpType:msg'"),
        ("netperf", "'tool: netperfmeter'"),
        ("ditg", "'tool: udp'"),
        ("nc", "'xpType:iperf'"),
        ("epload", "'tool: http'"),
        ("vlc", "'tool: video'"),
    ],
)
def test_type_without_tool_names_the_nearest(kind: str, nearest: str, tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["01"], f"msgBytes:1200\nanything:1\nxpType:{kind}\n")
    with pytest.raises(SpecError, match=rf"xp:3: xpType: '{kind}' is not supported: nearest (is|are) {nearest}"):
        load(tmp_path / "topo", tmp_path / "xp")


def test_plugins_of_quic_are_schedulers() -> None:
    text = (
        "xpType:pquic\nmptcpEnabled:0\npquicPlugins:a/multipath_rtt.plugin\npquicServerPlugins:a/multipath_rr.plugin\n"
    )
    assert _values(text, "experiment")["traffic"] == [
        {
            "name": "pquic",
            "tool": "quic",
            "from": "client",
            "to": "server",
            "response": "10240000bytes",
            "multipath": True,
            "scheduler": {"client": "lowest-rtt", "server": "roundrobin"},
        }
    ]
    single = _values("xpType:pquic\nmptcpEnabled:0\npquicSize:5120000\n", "experiment")["traffic"]
    assert single == [
        {"name": "pquic", "tool": "quic", "from": "client", "to": "server", "response": "5120000bytes"},
    ]


def test_another_plugin_of_quic_is_a_fault(tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["06"], "xpType:pquic\nmptcpEnabled:0\npquicPlugins:a/fec.plugin\n")
    with pytest.raises(SpecError) as error:
        load(tmp_path / "topo", tmp_path / "xp")
    assert len(error.value.problems) == 1
    assert ":3: pquicPlugins: 'a/fec.plugin' is none of the plugins" in error.value.problems[0]


def test_no_traffic_at_all(tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["01"], "xpType:none\npingCount:5\n")
    loaded = load(tmp_path / "topo", tmp_path / "xp")
    assert loaded.spec.experiment.traffic == ()
    assert [warning.split(": ", 2)[1] for warning in loaded.warnings] == ["xpType", "pingCount"]


def test_messages_are_requests_and_answers_of_one_size() -> None:
    flow = _values("xpType:msg\nmsgBytes:10000\nmsgServerSleep:0\nmptcpEnabled:0\n", "experiment")["traffic"]
    assert flow == [
        {
            "name": "msg",
            "tool": "reqres",
            "from": "client",
            "to": "server",
            "protocol": "tcp",
            "requests": 5,
            "request": "10000bytes",
            "response": "10000bytes",
            "think": "5s",
            "server_think": "0s",
        }
    ]


@pytest.mark.parametrize("kind", ["http", "https"])
def test_files_are_of_the_size_in_kib(kind: str) -> None:
    flow = {"name": kind, "tool": kind, "from": "client", "to": "server", "protocol": "mptcp", "sizes": ["300kb"]}
    assert _values(f"xpType:{kind}\nfile_size:300\n", "experiment")["traffic"] == [flow]


# recognition


@pytest.mark.parametrize("text", ["topoType:MultiIf\n", "\n# x\n\nfoo:1\nxpType: iperf\n", "path_c2r_0:20,80,20\n"])
def test_older_text(text: str) -> None:
    assert is_older(text)


@pytest.mark.parametrize(
    "text", ["version: 1\nxpType: iperf\n", "version:1\n", "{xpType: iperf}\n", "a:\n  topoType:x\n"]
)
def test_other_text(text: str) -> None:
    assert not is_older(text)


def test_every_line_ending_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = TOPOLOGIES["01"]
    (tmp_path / "a").write_text(text)
    for name, changed in (("b", text.replace("\n", "\r\n")), ("c", text.replace("\n", "  \r")), ("d", text[:-1])):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + changed.encode())
        assert _plain(read(tmp_path / name, "topology")) == _plain(read(tmp_path / "a", "topology"))


# the command


def test_convert_overwrites_nothing_unless_forced(tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["01"], EXPERIMENTS["xp_tcp"])
    (tmp_path / "xp.yaml").write_text("mine")
    arguments = (tmp_path / "topo", tmp_path / "xp", "--to", tmp_path)
    with pytest.raises(SpecError, match=r"/xp\.yaml would be overwritten: name another directory, or add --force"):
        _convert(*arguments)
    assert not (tmp_path / "topo.yaml").exists()
    assert (tmp_path / "xp.yaml").read_text() == "mine"
    assert _convert(*arguments, "--force") == f"wrote {tmp_path}/topo.yaml, {tmp_path}/xp.yaml\n"
    assert (tmp_path / "xp.yaml").read_text().startswith("version: 1\n")


def test_convert_takes_several_experiments(tmp_path: Path) -> None:
    for name, text in {"topo": TOPOLOGIES["01"], **EXPERIMENTS}.items():
        (tmp_path / name).write_text(text)
    _convert(tmp_path / "topo", *(tmp_path / name for name in EXPERIMENTS), "--to", tmp_path / "new")
    assert sorted(path.stem for path in (tmp_path / "new").iterdir()) == sorted(["topo", *EXPERIMENTS])


def test_convert_refuses_what_is_faulty_or_yaml_or_twice(tmp_path: Path) -> None:
    _write_pair(tmp_path, _topology("20"), EXPERIMENTS["xp_tcp"])
    with pytest.raises(SpecError, match="path_c2r_0: has 1 value"):
        _convert(tmp_path / "topo", "--to", tmp_path)
    lab = ROOT / "labs" / "01_multipath"
    with pytest.raises(SpecError, match="YAML already, there is nothing to convert"):
        _convert(lab / "topo", lab / "xp_tcp", "--to", tmp_path)
    (tmp_path / "topo").write_text(TOPOLOGIES["01"])
    (tmp_path / "topo.txt").write_text(EXPERIMENTS["xp_tcp"])
    with pytest.raises(SpecError, match="two of them would be one file"):
        _convert(tmp_path / "topo", tmp_path / "topo.txt", "--to", tmp_path)
    with pytest.raises(SpecError, match="colour: unknown key"):
        _convert(PLANS / "legacy-tcp" / "topo", PLANS / "legacy-tcp" / "xp", "--to", tmp_path, "--strict")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["topo", "topo.txt", "xp"]


def test_convert_says_where_it_cannot_write(tmp_path: Path) -> None:
    _write_pair(tmp_path, TOPOLOGIES["01"], EXPERIMENTS["xp_tcp"])
    with pytest.raises(MachineError, match="cannot be written: not a directory"):
        _convert(tmp_path / "topo", "--to", tmp_path / "xp" / "new")


def test_schema_is_named_inside_the_source_tree_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "$schema" not in _convert(PLANS / "legacy-tcp" / "topo", "--to", tmp_path)
    assert "$schema" not in (tmp_path / "topo.yaml").read_text()
    monkeypatch.chdir(ROOT / "labs" / "01_multipath")
    assert (
        _convert(PLANS / "legacy-tcp" / "topo", "--to", "-").split("\n")[0]
        == "# yaml-language-server: $schema=../../schemas/topology.schema.json"
    )


def test_validate_warns_of_an_older_pair() -> None:
    case = PLANS / "legacy-ping"
    result = CliRunner().invoke(validate.command, ["-t", str(case / "topo"), "-x", str(case / "xp")])
    assert result.stdout == "ok: 3 nodes, 2 links, 1 flow\n"
    assert result.stderr.count("warning: ") == len((case / "warnings.txt").read_text().splitlines())
