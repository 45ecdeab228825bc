# SPDX-License-Identifier: Apache-2.0
"""Good input: labs, parameters, joined files, limits on size, and independence of chance."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from mprun.compile import allocate
from mprun.compile.planner import queue_warnings
from mprun.errors import SpecError
from mprun.inputs.document import Document
from mprun.inputs.generator import load_own
from mprun.inputs.generators import GENERATORS
from mprun.inputs.keys.experiment import name_link
from mprun.inputs.loading import Loaded, load, load_cells, load_topology
from mprun.inputs.parameter import FileParameters
from mprun.inputs.reader import read
from mprun.inputs.template import TemplateProblem, multiply
from mprun.inputs.writer import write_experiment
from mprun.labs.definition import Step
from mprun.model.scalar import Scalar, read_scalar
from mprun.model.spec import (
    AddressChange,
    Capture,
    Chance,
    Direction,
    Expectation,
    Flow,
    HostSpec,
    LinkChange,
    LinkSpec,
    Mptcp,
    Queue,
    Reseed,
)
from tests.labs import PAIRS

ROOT = Path(__file__).parent.parent.parent
LAB = ROOT / "labs" / "01_multipath"

TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}]\n"


def _write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)


def _load(directory: Path, topology: str, experiment: str = "version: 1\n", **parameters: str) -> Loaded:
    _write(directory, topo=topology, xp=experiment)
    return load(directory / "topo", directory / "xp", parameters)


def _faults(directory: Path, topology: str, experiment: str = "version: 1\n", **parameters: str) -> list[str]:
    with pytest.raises(SpecError) as error:
        _load(directory, topology, experiment, **parameters)
    return [fault.removeprefix(f"{directory}/") for fault in error.value.problems]


def test_lab_01() -> None:
    loaded = load(LAB / "topo", LAB / "xp_mptcp.yaml")
    spec = loaded.spec
    shaped = Direction(20_000_000, 20_000_000, queue=Queue(80, "packets"))
    assert spec.topology.nodes == {"client": "host", "router": "router", "server": "host"}
    assert spec.topology.links == (
        LinkSpec("path0", ("client", "router"), shaped, shaped, False, (("10.0.0.1/24",), ("10.0.0.2/24",))),
        LinkSpec("path1", ("client", "router"), shaped, shaped, False, (("10.0.1.1/24",), ("10.0.1.2/24",))),
        LinkSpec("server0", ("router", "server"), addresses=(("10.1.0.2/24",), ("10.1.0.1/24",))),
    )
    options = {"reverse": False, "parallel": 1}
    assert spec.experiment.traffic == (Flow("bulk", "iperf3", "client", "server", "mptcp", 0, 10**10, options),)
    assert spec.experiment.captures == (Capture("client", 100), Capture("server", 100))
    assert spec.experiment.hosts["client"].mptcp == Mptcp("fullmesh")
    assert spec.experiment.expectations[1:3] == (
        Expectation("bulk.subflows", equals=2.0),
        Expectation("bulk.share.path0", 0.47, 0.53),
    )
    assert spec.experiment.expectations[3] == Expectation("path0.rtt", 0.0399, 0.0401)
    assert (spec.experiment.probe_pings, spec.experiment.seed) == (5, 1)
    assert loaded.warnings == ()
    assert loaded.sources == (LAB / "topo.yaml", LAB / "xp_mptcp.yaml")


@pytest.mark.parametrize("step", PAIRS)
def test_labs_are_clean_and_name_their_schema(step: Step) -> None:
    loaded = load(step.topology, step.experiment, step.parameters, strict=True)
    assert loaded.spec.experiment.name == step.experiment.name
    for source in loaded.sources:
        kind = "topology" if source.name.startswith("topo") else "experiment"
        up = "../" * len(source.relative_to(ROOT).parent.parts)
        first, second = source.read_text().split("\n")[:2]
        assert first == f"# yaml-language-server: $schema={up}schemas/{kind}.schema.json"
        assert second == "# SPDX-License-Identifier: Apache-2.0"


def test_written_out_equals_generated(tmp_path: Path) -> None:
    generated = _load(tmp_path, "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, rtt: 40ms, backup: true}]\n")
    written = _load(
        tmp_path,
        """
version: 1
nodes: {client: {kind: host}, router: {kind: router}, server: {kind: host}}
links:
  - name: path0
    between: [client, router]
    rate: {forward: 20mbit, reverse: 20mbit}
    delay: 0.02s
    backup: true
    addresses: [10.0.0.1/24, 10.0.0.2/24]
  - {name: server0, between: [router, server], addresses: [10.1.0.2/24, 10.1.0.1/24]}
""",
    )
    assert written.spec == generated.spec


def test_each_direction_has_its_own(tmp_path: Path) -> None:
    text = (
        "{rate: {forward: 5mbit}, queue: {forward: 10packets}, delay: {reverse: 3ms}, loss: {forward: 1%, reverse: 2%}}"
    )
    link = _load(tmp_path, f"version: 1\ntopology: multi-path\npaths: [{text}]\n").spec.topology.links[0]
    assert link.forward == Direction(5_000_000, 0, loss=Chance(0.01), queue=Queue(10, "packets"))
    assert link.reverse == Direction(None, 3_000_000, loss=Chance(0.02))


def test_server_paths(tmp_path: Path) -> None:
    spec = _load(
        tmp_path,
        "version: 1\ntopology: multi-path\npaths: [{}, {name: lte}]\nserver_paths: [{rate: 5mbit}, {}]\n",
        "version: 1\ntraffic: [{tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
        "expect: [{metric: iperf3.share.lte-server1, min: 1%}, {metric: path0-server0.rtt, max: 1ms}]\n",
    ).spec
    assert [link.name for link in spec.topology.links] == ["path0", "lte", "server0", "server1"]
    assert spec.topology.links[3].addresses == (("10.1.1.2/24",), ("10.1.1.1/24",))
    assert spec.topology.links[2].forward.rate_bit_per_s == 5_000_000


def test_settings_of_many_hosts(tmp_path: Path) -> None:
    """A name comes before patterns and ranges, and a later pattern before an earlier one."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: star\nclients: 4\n")
    settings = {
        "client1": "{mptcp: {path_manager: default}}",
        "'client*'": "{mptcp: {subflows_per_pair: 2, path_manager: ndiffports}}",
        "client2..client3": "{mptcp: {subflows_per_pair: 3, path_manager: ndiffports}}",
    }
    written = ", ".join(f"{key}: {value}" for key, value in settings.items())
    (tmp_path / "xp.yaml").write_text(f"version: 1\nhosts: {{{written}}}\n")
    hosts = load(tmp_path / "topo", tmp_path / "xp").spec.experiment.hosts
    assert {host: one.mptcp.subflows_per_pair for host, one in hosts.items()} == {
        "client0": 2,
        "client1": HostSpec().mptcp.subflows_per_pair,
        "client2": 3,
        "client3": 3,
    }


def test_subnets(tmp_path: Path) -> None:
    spec = _load(
        tmp_path,
        "version: 1\ntopology: multi-path\npaths: [{}, {}]\n"
        "client_subnets: 10.1.0.0/16\nserver_subnets: 192.168.0.0/16\n",
    ).spec
    assert [link.addresses for link in spec.topology.links] == [
        (("10.1.0.1/24",), ("10.1.0.2/24",)),
        (("10.1.1.1/24",), ("10.1.1.2/24",)),
        (("192.168.0.2/24",), ("192.168.0.1/24",)),
    ]


def test_line(tmp_path: Path) -> None:
    spec = _load(tmp_path, "version: 1\ntopology: line\nrouters: 2\ndelay: 1ms\n").spec
    assert spec.topology.nodes == {"client": "host", "r1": "router", "r2": "router", "server": "host"}
    assert [link.ends for link in spec.topology.links] == [("client", "r1"), ("r1", "r2"), ("r2", "server")]
    assert {link.reverse.delay_ns for link in spec.topology.links} == {1_000_000}
    assert {link.addresses for link in spec.topology.links} == {((), ())}


def test_every_generator_has_the_name_of_its_module() -> None:
    for name in GENERATORS:
        assert get_args(load_own(name).Parameters.model_fields["topology"].annotation) == (name,)


def test_default_names(tmp_path: Path) -> None:
    spec = _load(
        tmp_path,
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks:\n"
        + "  - {between: [a, b]}\n" * 2
        + "  - {between: [a, b], name: a-b-2}\n",
        "version: 1\ntraffic:\n"
        + "  - {tool: ping, from: a, to: b}\n" * 2
        + "  - {tool: ping, from: a, to: b, name: ping}\n",
    ).spec
    assert [link.name for link in spec.topology.links] == ["a-b", "a-b-3", "a-b-2"]
    assert [flow.name for flow in spec.experiment.traffic] == ["ping-2", "ping-3", "ping"]


def test_ping_options(tmp_path: Path) -> None:
    traffic = "version: 1\ntraffic:\n  - {tool: ping, from: client, to: server, start: 1s, interval: 10ms, size: 1kb, "
    counted = _load(tmp_path, TOPOLOGY, traffic + "count: 7}\n").spec.experiment.traffic[0]
    assert (counted.start_ns, counted.duration_ns) == (10**9, None)
    assert counted.options == {"interval_ns": 10_000_000, "size_bytes": 1024, "count": 7}
    timed = _load(tmp_path, TOPOLOGY, traffic + "duration: 2s}\n").spec.experiment.traffic[0]
    assert timed.duration_ns == 2 * 10**9
    assert timed.options == {"interval_ns": 10_000_000, "size_bytes": 1024}


def test_without_an_experiment_nothing_happens() -> None:
    loaded = load(LAB / "topo", None, seed=7)
    experiment = loaded.spec.experiment
    assert (experiment.traffic, experiment.captures, experiment.probe_pings, experiment.seed) == ((), (), 0, 7)
    assert load_topology(str(LAB / "topo")) == loaded.spec.topology


def test_of_two_files_of_one_name_the_other_is_named(tmp_path: Path) -> None:
    """After `mprun convert topo`, `-t topo` still reads the older file, and changes of topo.yaml had no effect."""
    paths = "version: 1\ntopology: multi-path\npaths: [{rate: 1mbit}]\n"
    for name in ("topo", "topo.yaml", "other.yaml", "other.yml"):
        (tmp_path / name).write_text(paths)
    told = f"{tmp_path}/topo: is read, and topo.yaml beside it is not: write the whole name, or remove one of the two"
    assert load(tmp_path / "topo", None).warnings == (told,)
    assert load(tmp_path / "topo.yaml", None).warnings == ()
    (warning,) = load(tmp_path / "other", None).warnings
    assert "other.yaml: is read, and other.yml beside it is not" in warning


def test_seed_on_the_command_line_replaces_that_of_the_file(tmp_path: Path) -> None:
    _write(tmp_path, topo=TOPOLOGY, xp="version: 1\nrepeat: {seed: 5}\n")
    assert load(tmp_path / "topo", tmp_path / "xp").spec.experiment.seed == 5
    assert load(tmp_path / "topo", tmp_path / "xp", seed=0).spec.experiment.seed == 0
    with pytest.raises(SpecError, match="--seed: -1 is negative"):
        load(tmp_path / "topo", tmp_path / "xp", seed=-1)


# Parameters


def test_parameters_of_either_file_hold_in_both_and_keep_their_type(tmp_path: Path) -> None:
    topology = TOPOLOGY.replace("20mbit", '"{{ speed }}mbit"') + "params: {pings: 7, up: 3}\n"
    experiment = (
        'version: 1\ncalibrate: true\nparams: {speed: 5}\nprobe: {pings: "{{ pings }}"}\n'
        'repeat: {seed: "{{ up * 2 + 1 }}"}\n'
    )
    loaded = _load(tmp_path, topology, experiment)
    assert loaded.spec.topology.links[0].forward.rate_bit_per_s == 5_000_000
    assert (loaded.spec.experiment.probe_pings, loaded.spec.experiment.seed) == (7, 7)
    assert loaded.warnings == ()
    assert _load(tmp_path, topology, experiment, speed="8").spec.topology.links[0].forward.rate_bit_per_s == 8_000_000
    assert _load(tmp_path, topology, experiment, pings="0").spec.experiment.probe_pings == 0


def test_override_has_the_type_that_yaml_gives_it(tmp_path: Path) -> None:
    experiment = 'version: 1\nparams: {x: 1}\nprobe: {pings: "{{ x }}"}\n'
    assert "probe.pings: 'many' is not a whole number" in _faults(tmp_path, TOPOLOGY, experiment, x="many")[0]
    assert _faults(tmp_path, TOPOLOGY, experiment, x="{{ 7 }}")[0].startswith("xp.yaml:3: probe.pings: '{{ 7 }}'")


def test_problems_are_listed_in_order_up_to_a_number(tmp_path: Path) -> None:
    experiment = "version: 1\n" + "".join(f"key{n}: 1\n" for n in range(600)) + "traffic: [{tool: nothing}]\n"
    *listed, last = _faults(tmp_path, TOPOLOGY, experiment)
    assert len(listed) == 500
    assert [fault.split(":")[1] for fault in listed[:3]] == ["2", "3", "4"]
    assert last == "xp.yaml: has more than 500 problems: correct these first"


def test_a_repeated_event_without_effect_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: line\nrouters: 1\nrate: 10mbit\nevents:\n"
        "  - {at: 1s, every: 100ms, until: 8s, link: client-r1, set: {rate: 10mbit}}\n"
        "  - {at: 2s, every: 1s, until: 8s, link: r1-server, set: {rate: 5mbit}}\n"
        "  - {at: 5s, link: r1-server, set: {rate: 5mbit}}\n"
    )
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    warnings = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").warnings
    assert [warning.removeprefix(f"{tmp_path}/") for warning in warnings] == [
        "topo.yaml:6: events[0].set: has no effect: link 'client-r1' has these values already at 1s",
        "topo.yaml:7: events[1].every: has no effect: a repetition sets what holds already; write 'for' for a change "
        "that ends",
        "topo.yaml:8: events[2].set: has no effect: link 'r1-server' has these values already at 5s",
    ]


def test_what_changes_after_the_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "delays.csv").write_text("at,delay\n1s,10ms\n5s,20ms\n6s,30ms\n")
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: line\nrouters: 1\nrate: 10mbit\nevents:\n"
        "  - {at: 4s, over: 6s, link: client-r1, set: {rate: 5mbit}}\n"
        "  - {at: 4s, over: 6s, link: r1-server, set: {rate: 5mbit}}\n"
        "  - {at: 5s, link: r1-server, schedule: delays.csv}\n"
    )
    flow = "tool: iperf3, from: client, to: server"
    for duration, said in (
        ("12s", []),
        (
            "10s",
            ["delays.csv:3: is not before the end of the experiment, 10s: this row and all later rows have no effect"],
        ),
        (
            "8s",
            [
                "topo.yaml:6: events[0].over: its values are reached only at 10s, after the end of the experiment, 8s",
                "topo.yaml:7: events[1].over: its values are reached only at 10s, after the end of the experiment, 8s",
                "delays.csv:3: is not before the end of the experiment, 8s: this row and all later rows have no effect",
            ],
        ),
    ):
        (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{{{flow}, duration: {duration}}}]\n")
        warnings = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").warnings
        assert [warning.removeprefix(f"{tmp_path}/") for warning in warnings] == said


def test_a_link_may_have_the_names_of_the_files(tmp_path: Path) -> None:
    """The resolved experiment keeps the names' placeholders, so that runs of two experiments do not differ in them."""
    names = '{"client-{topology}-{experiment}.pcap": pcap/client.pcap, "{experiment}": logs/a.log, b.log: logs/b.log}'
    experiment = _load(tmp_path, TOPOLOGY, f"version: 1\nlinks: {names}\n").spec.experiment
    assert [name_link(key, "topo", "xp") for key, _ in experiment.links] == ["client-topo-xp.pcap", "xp", "b.log"]
    (tmp_path / "resolved-experiment.yaml").write_text(write_experiment(experiment))
    assert load(tmp_path / "topo", tmp_path / "resolved-experiment").spec.experiment.links == experiment.links
    (tmp_path / "xp.yaml").rename(tmp_path / "my own.yaml")
    with pytest.raises(SpecError, match="'my own' cannot be a link's name: rename the link or the file"):
        load(tmp_path / "topo", tmp_path / "my own")


def test_experiment_wins_over_topology_and_warns(tmp_path: Path) -> None:
    topology = TOPOLOGY.replace("20mbit", '"{{ rate }}"') + "params: {rate: 1mbit}\n"
    loaded = _load(tmp_path, topology, "version: 1\nparams: {rate: 2mbit, other: 1}\ncalibrate: true\n")
    assert loaded.spec.topology.links[0].forward.rate_bit_per_s == 2_000_000
    assert [warning.removeprefix(f"{tmp_path}/").split(": ")[:2] for warning in loaded.warnings] == [
        ["xp.yaml:2", "params.rate"],
        ["xp.yaml:2", "params.other"],
    ]


@pytest.mark.parametrize(
    "text", ["{{ lipsum() }}", "{{ [1, 2]|random }}", "{{ ''.__class__.__mro__ }}", "{{ cycler }}"]
)
def test_templates_reach_neither_chance_nor_the_interpreter(tmp_path: Path, text: str) -> None:
    faults = _faults(tmp_path, f'version: 1\ntopology: line\nrouters: 1\ndescription: "{text}"\n')
    assert len(faults) == 1
    assert faults[0].startswith("topo.yaml:4: description: ")


# Joined files


def test_extends_and_include(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    _write(
        tmp_path / "parts",
        base="version: 1\ntopology: multi-path\npaths: [{rate: 1mbit}]\ndescription: base\n",
        first="description: first\nx-anything: {at: all}\n",
        second="extends: base.yaml\ndescription: second\nserver_paths: [{}, {}]\n",
    )
    loaded = _load(
        tmp_path, "extends: parts/base.yaml\ninclude: [parts/second.yaml, parts/first.yaml]\npaths: [{}, {}]\n"
    )
    topology = loaded.spec.topology
    assert topology.description == "first"
    assert [link.name for link in topology.links] == ["path0", "path1", "server0", "server1"]
    assert topology.links[0].forward == Direction()
    names = [str(source.relative_to(tmp_path)) for source in loaded.sources]
    assert names == ["topo.yaml", "parts/base.yaml", "parts/second.yaml", "parts/first.yaml", "xp.yaml"]


def test_mappings_are_merged_at_every_level(tmp_path: Path) -> None:
    _write(
        tmp_path,
        base="version: 1\nhosts:\n  client:\n    mptcp: {path_manager: fullmesh, limits: {subflows: 2}}\n"
        "    sysctl: {net.ipv4.a: 1}\n",
    )
    experiment = "extends: base.yaml\nhosts: {client: {mptcp: {limits: {subflows: 3}}, sysctl: {net.ipv4.b: 4 5 6}}}\n"
    host = _load(tmp_path, TOPOLOGY, experiment).spec.experiment.hosts["client"]
    assert host.mptcp == Mptcp("fullmesh", subflows=3)
    assert host.sysctl == (("net.ipv4.a", "1"), ("net.ipv4.b", "4 5 6"))


def test_a_file_included_many_times_is_read_once(tmp_path: Path) -> None:
    _write(tmp_path, f0=TOPOLOGY)
    for n in range(1, 60):
        _write(tmp_path, **{f"f{n}": f"include: [f{n - 1}.yaml, f{n - 1}.yaml]\n"})
    assert len(load(tmp_path / "f59", None).sources) == 60


def test_a_missing_part_is_the_only_fault(tmp_path: Path) -> None:
    experiment = "include: parts.yaml\nprobe: {pings: '{{ pings }}'}\n"
    assert _faults(tmp_path, TOPOLOGY.replace("20mbit", "20"), experiment) == [
        "topo.yaml:3: paths[0].rate: a bare number has no unit: write '20mbit' or '20kbit'",
        f"xp.yaml:1: include: {tmp_path}/parts.yaml: cannot be read: no such file or directory",
    ]


@pytest.mark.parametrize("name", ["x" * 5000, "loop/x", "a\0b"])
def test_names_that_no_file_has(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SpecError):
        load(tmp_path / name, None)
    quoted = name.replace("\0", "\\0")
    (tmp_path / "topo.yaml").write_text(f'include: ["{quoted}"]\n')
    with pytest.raises(SpecError, match=r"topo\.yaml:1: include: "):
        load(tmp_path / "topo", None)


def test_private_keys_are_ignored_and_may_hold_anchors(tmp_path: Path) -> None:
    text = "version: 1\nx-common: &c {rate: 3mbit, x-why: {{ not rendered }}}\ntopology: multi-path\npaths: [*c, *c]\n"
    links = _load(tmp_path, text.replace("{{ not rendered }}", '"{{ not rendered }}"')).spec.topology.links
    assert [link.forward.rate_bit_per_s for link in links] == [3_000_000, 3_000_000, None]


def test_lines_survive_templates_and_blocks(tmp_path: Path) -> None:
    topology = """\
version: 1
params:
  n: 5
description: |
  {{ n }} lines
  of text

topology: multi-path
paths:
  -
    rate: >-
      20mbit
    delay:
      "{{ n }}"
  - rate: 5mbit
    delay: {forward: 5ms,
            reverse: 6}
"""
    assert [fault.split(": ")[:2] for fault in _faults(tmp_path, topology)] == [
        ["topo.yaml:13", "paths[0].delay"],
        ["topo.yaml:17", "paths[1].delay.reverse"],
    ]


# Scalars


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False),
        ("0", 0), ("-7", -7), ("+7", 7), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000), ("-1.5E-3", -0.0015),
        ("1.0", 1.0), ("2.5e1", 25), ("-2e5", -200_000), ("1e30", 1e30),
        ("yes", "yes"), ("on", "on"), ("Off", "Off"), ("n", "n"), ("1:30", "1:30"), ("010", "010"), ("0x1f", "0x1f"),
        ("1_000", "1_000"), (".inf", ".inf"), (".nan", ".nan"), ("2026-01-01", "2026-01-01"), ("=", "="), ("<<", "<<"),
        ("1.2.3.4", "1.2.3.4"), ("9" * 30, "9" * 30), ("-", "-"), (".", "."), ("e5", "e5"), ("1e", "1e"),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: Scalar) -> None:
    found = read_scalar(text)
    assert (found, type(found)) == (value, type(value))


# Limits

BOMBS = {
    "lists": "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)),
    "mappings": "a0: &a0 {k: v}\n"
    + "".join(f"a{n}: &a{n} {{{', '.join(f'k{m}: *a{n - 1}' for m in range(10))}}}\n" for n in range(1, 30)),
    "keys": "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} {{? [*a{n - 1}, *a{n - 1}] : v}}\n" for n in range(1, 60)),
    "itself": "a: &a [*a, *a]\n",
    "ten megabytes": "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 350_000)),
    "deep": "a: " + "[" * 1_000_000 + "\n",
    "deep mappings": "a: " + "{b: " * 500_000 + "\n",
    "wide": "a: [" + "x, " * 1_000_000 + "]\n",
}


BASES = {
    "merge of what contains itself": "a: &a {b: *a}\n",
    "merge of mappings": BOMBS["mappings"],
}


def _bound_resources() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BOMBS, *BASES])
def test_bombs_are_refused_in_bounded_time_and_memory(tmp_path: Path, name: str) -> None:
    topology = "version: 1\ntopology: line\nrouters: 1\n" + (BOMBS | BASES)[name]
    (tmp_path / "topo.yaml").write_text(topology)
    if name in BASES:
        _write(tmp_path, base=topology, topo="extends: base.yaml\n" + topology)
    code = "import sys; from mprun.inputs.loading import load\n"
    code += "try: load('topo', None)\nexcept Exception as e: sys.exit(str(e))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=_bound_resources,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert done.stderr.startswith("topo.yaml")
    assert len(done.stderr) < 20_000


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY + "#" * ((4 << 20) - len(TOPOLOGY)))
    assert load_topology(tmp_path / "topo").nodes
    with (tmp_path / "topo.yaml").open("a") as file:
        file.write("#")
    with pytest.raises(SpecError, match="is larger than 4 MB"):
        load_topology(tmp_path / "topo")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """mprun does not wait for a pipe, whether the command line or a file names the pipe."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "topo.yaml").write_text(f"include: [pipe.yaml, /dev/zero]\n{TOPOLOGY}")
    (tmp_path / "kernel.yaml").write_text(f"include: [/proc/version]\n{TOPOLOGY}")
    said = "is no regular file: write what it gives to one, and name that\n"
    for name, expected in (
        ("pipe", f"pipe.yaml: {said}"),
        ("topo", f"topo.yaml:1: include: pipe.yaml: {said}topo.yaml:1: include: /dev/zero: {said}"),
        # a file of /proc counts as regular, and reading it may block for ever (/proc/kmsg)
        ("kernel", f"kernel.yaml:1: include: /proc/version: {said}"),
    ):
        command = [sys.executable, "-m", "mprun", "validate", "--allow-outside", "-t", name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=20, check=False
        )
        assert (done.returncode, done.stderr) == (2, expected)


def test_the_name_on_the_command_line_comes_before_its_suffixes(tmp_path: Path) -> None:
    for name, description in (("topo", "none"), ("topo.yaml", "yaml"), ("topo.yml", "yml")):
        (tmp_path / name).write_text(f"{TOPOLOGY}description: {description}\n")
    for description, name in (("none", "topo"), ("yaml", "topo.yaml"), ("yml", "topo.yml")):
        assert load_topology(tmp_path / "topo").description == description
        (tmp_path / name).unlink()


def test_neither_values_nor_faults_depend_on_the_hash_seed() -> None:
    code = """
import sys; from mprun.inputs.loading import load
print(load('labs/01_multipath/topo', 'labs/01_multipath/xp_mptcp'))
try: load(*sys.argv[1:])
except Exception as e: print(e)
"""
    case = ROOT / "tests" / "golden" / "faults" / "everything-at-once"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, case / "topo", case / "xp"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(outputs) == 1
    assert "xp.yaml:4" in outputs.pop()


def test_a_rate_that_is_no_whole_number_of_bytes_is_told(tmp_path: Path) -> None:
    """The rate of a link is rounded with a warning, and the rate of a flow stays."""
    (tmp_path / "rows.csv").write_text("at,rate.forward\n0s,8mbit\n1s,1000003bit\n2s,1000005bit\n")
    (tmp_path / "rates.txt").write_text("1mbit\n777777bit\n")
    topology = (
        "version: 1\ntopology: multi-path\npaths:\n  - {rate: 100bit}\n"
        "  - {rate: {forward: 1001bit, reverse: 1mbit}}\nevents:\n"
        "  - {at: 1s, link: path0, set: {rate: 9mbit}}\n"
        "  - {at: 2s, link: path0, set: {rate: 4777777bit}}\n"
        "  - {at: 3s, over: 1s, link: path0, set: {rate: 4777kbit}}\n"
        "  - {at: 5s, link: path0, schedule: rows.csv}\n"
        "  - {at: 5s, link: path1, trace: rates.txt, format: rates}\n"
    )
    experiment = (
        "version: 1\ntraffic:\n"
        "  - {tool: iperf3, from: client, to: server, protocol: udp, rate: 100001bit, duration: 60s}\n"
        "matrix: {path1.rate: [2mbit, 2000003bit]}\n"
    )
    loaded = _load(tmp_path, topology, experiment, **{"path1.rate": "2000003bit"})
    told = "cannot be set exactly, as tc counts whole bytes per second:"
    assert [warning.removeprefix(f"{tmp_path}/") for warning in loaded.warnings if "tc counts" in warning] == [
        f"topo.yaml:4: paths[0].rate: '100bit' {told} 104bit is used",
        f"topo.yaml:5: paths[1].rate.forward: '1001bit' {told} 1kbit is used",
        f"topo.yaml:8: events[1].set.rate: '4777777bit' {told} 4777776bit is used",
        f"rows.csv:3: rate: '1000003bit' {told} 1mbit is used; rounded rates in this file: 2",
        f"rates.txt:2: rate: '777777bit' {told} 777776bit is used",
        f"xp.yaml:4: matrix.path1.rate: '2000003bit' {told} 2mbit is used",
    ]
    path0, path1 = loaded.spec.topology.links[:2]
    assert (path0.forward.rate_bit_per_s, path1.forward.rate_bit_per_s) == (104, 2_000_000)
    assert loaded.spec.experiment.traffic[0].options["rate_bit_per_s"] == 100_001
    rates = {
        way.rate_bit_per_s or 0
        for change in loaded.spec.topology.changes
        if isinstance(change, LinkChange)
        for way in (change.forward, change.reverse)
    }
    assert len(rates) > 14
    assert not [rate for rate in rates if rate % 8]


def test_a_queue_of_more_bytes_than_the_kernel_counts_is_refused(tmp_path: Path) -> None:
    """A second at 100 Gbit/s is 12.5 GB, and the kernel holds a limit in bytes in 32 bits."""
    link = "version: 1\ntopology: multi-path\npaths:\n  - {rate: 100gbit, delay: 500ms, queue: %s}\n"
    said = "topo.yaml:4: paths[0].queue: holds 12500000000 bytes, and Linux counts 4 GB at most: write it in packets"
    assert _faults(tmp_path, link % "1s") == [said]
    _load(tmp_path, link % "1000000packets")


def test_a_quantity_times_a_number_keeps_its_unit() -> None:
    """The product is exact: 20 times 0.9565 is 19.13, without the rounding error of a float."""
    for quantity, factor, product in (
        ("20mbit", 1.8, "36mbit"),
        ("20mbit", 0.9565, "19.13mbit"),
        ("1ms", 100, "100ms"),
    ):
        assert FileParameters({"it": quantity}).render(f"{{{{ it | times({factor}) }}}}") == product
    for wrong in ("fast", "-3mbit", "{{"):
        with pytest.raises(TemplateProblem, match="write a quantity and a number"):
            multiply(wrong, 2)
    with pytest.raises(TemplateProblem, match="write a quantity and a number"):
        multiply("20mbit", "2")


def test_a_change_for_a_time_is_undone(tmp_path: Path) -> None:
    head = "version: 1\ntopology: line\nrouters: 1\nrate: 10mbit\ndelay: 5ms\nevents:\n"
    (tmp_path / "topo.yaml").write_text(
        head + "  - {at: 1s, for: 200ms, link: client-r1, set: {loss: {forward: 100%}}}\n"
        "  - {at: 1100ms, link: client-r1, set: {delay: 9ms}}\n"
        "  - {at: 3s, for: 500ms, every: 2s, until: 6s, link: r1-server, state: down}\n"
        "  - {at: 7s, for: 1s, host: client, address: client-r1, state: removed}\n"
    )
    changes = load(tmp_path / "topo.yaml", None).spec.topology.changes
    links = [change for change in changes if isinstance(change, LinkChange)]
    told = [
        (one.at_ns // 10**6, one.forward.loss is not None, one.reverse.loss is not None, one.forward.delay_ns)
        for one in links
        if one.link == "client-r1"
    ]
    # what changed meanwhile stays
    assert told == [(1000, True, False, 5 * 10**6), (1100, True, False, 9 * 10**6), (1200, False, False, 9 * 10**6)]
    states = [(change.at_ns // 10**6, change.is_up) for change in links if change.link == "r1-server"]
    assert states == [(3000, False), (3500, True), (5000, False), (5500, True)]
    addresses = [(one.at_ns // 10**9, one.is_there) for one in changes if isinstance(one, AddressChange)]
    assert addresses == [(7, False), (8, True)]


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ("{at: 1s, for: 0s, link: client-r1, state: down}", "events[0].for: is zero"),
        ("{at: 1s, for: 1s, over: 1s, link: client-r1, set: {delay: 1ms}}", "events[0].for: is for 'set' at once"),
        ("{at: 1s, for: 2s, every: 2s, until: 9s, link: client-r1, state: down}", "is not shorter than 'every'"),
    ],
)
def test_faults_of_a_change_for_a_time(tmp_path: Path, event: str, fault: str) -> None:
    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: line\nrouters: 1\ndelay: 5ms\nevents: [{event}]\n")
    with pytest.raises(SpecError) as refused:
        load(tmp_path / "topo.yaml", None)
    assert fault in str(refused.value)


def test_a_resolved_experiment_may_change_the_seed_after_its_end(tmp_path: Path) -> None:
    """`mprun why` changes it at times until the failure, which may be after the known end."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 20ms}]\n")
    traffic = "traffic: [{tool: iperf3, from: client, to: server, duration: 1s}]\n"
    (tmp_path / "xp.yaml").write_text(f"version: 1\n{traffic}")
    made = load(tmp_path / "topo", tmp_path / "xp").spec.experiment
    late = replace(made, reseed=Reseed(5_000_000_000, 2))
    (tmp_path / "resolved-experiment.yaml").write_text(write_experiment(late))
    assert load(tmp_path / "topo", tmp_path / "resolved-experiment").spec.experiment.reseed == late.reseed


def test_metrics_to_show_are_known_and_resolved(tmp_path: Path) -> None:
    flow = "{tool: iperf3, from: client, to: server, duration: 1s}"
    experiment = f"version: 1\ntraffic: [{flow}]\nshow: [iperf3.goodput]\n"
    spec = _load(tmp_path, TOPOLOGY, experiment).spec
    assert spec.experiment.show == ("iperf3.goodput",)
    assert "show:\n- iperf3.goodput\n" in write_experiment(spec.experiment)
    assert "show[0]" in _faults(tmp_path, TOPOLOGY, experiment.replace("goodput", "godput"))[0]


def test_json_inputs_beside_files_of_mprun_are_read(tmp_path: Path) -> None:
    """Only a file that mprun wrote in a run is refused, not one that has its name or lies in its folder."""
    (tmp_path / "plan.json").write_text('{"version": 1, "topology": "multi-path", "paths": [{"rate": "20mbit"}]}')
    (tmp_path / "topo.json").write_text((tmp_path / "plan.json").read_text())
    assert load_topology(tmp_path / "plan.json") is not None
    (tmp_path / "inputs").mkdir()
    assert load_topology(tmp_path / "topo.json") is not None
    with pytest.raises(SpecError, match=r"plan\.json: is written by mprun in a run: .*inputs has the run's files"):
        load_topology(tmp_path / "plan.json")


def test_an_axis_without_effect_gets_a_warning(tmp_path: Path) -> None:
    """The axis of the link's property replaces the value with the parameter, and each run came twice."""
    topology = "version: 1\nparams: {lost: 0%}\ntopology: multi-path\npaths: [{name: a, loss: '{{ lost }}'}]\n"
    matrix = "matrix: {a.loss: [0%, 1%], lost: [2%, 3%]}\n"
    _write(tmp_path, topo=topology, xp=f"version: 1\n{matrix}traffic: [{{tool: ping, from: client, to: server}}]\n")
    (warning,) = load_cells(tmp_path / "topo", tmp_path / "xp")[0].warnings
    message = "matrix.lost: changes nothing: all its values give equal runs."
    assert warning == f"{tmp_path}/xp.yaml:2: {message} Remove it, or the value that holds in its place"
    with pytest.raises(SpecError, match=r"matrix\.lost: changes nothing"):
        load_cells(tmp_path / "topo", tmp_path / "xp", strict=True)
    (tmp_path / "xp.yaml").write_text((tmp_path / "xp.yaml").read_text().replace("a.loss: [0%, 1%], ", ""))
    assert load_cells(tmp_path / "topo", tmp_path / "xp")[0].warnings == ()


@pytest.mark.parametrize(
    ("axis", "queue", "event", "more", "warns"),
    [
        ("a.rate", "9packets", "{at: 0s, link: a, set: {rate: 2mbit}}", "", True),
        ("a.rate", "9packets", "{link: a, trace: lte-drive}", "", True),
        # the rate sizes the queue
        ("a.rate", "1bdp", "{at: 0s, link: a, set: {rate: 2mbit}}", "", False),
        ("a.rate", "9ms", "{at: 0s, link: a, set: {rate: 2mbit}}", "", False),
        # the value comes back, is used before, or is measured before time zero
        ("a.rate", "9packets", "{at: 0s, for: 1s, link: a, set: {rate: 2mbit}}", "", False),
        ("a.rate", "9packets", "{at: 1s, link: a, set: {rate: 2mbit}}", "", False),
        ("a.rate", "9packets", "{at: 0s, link: a, set: {rate: 2mbit}}", "calibrate: true\n", False),
        ("a.rtt", "9packets", "{at: 0s, link: a, set: {rate: 2mbit}}", "", False),
        ("a.rtt", "9packets", "{at: 0s, link: a, set: {delay: 2ms}}", "", True),
        ("a.rtt", "1bdp", "{at: 0s, link: a, set: {delay: 2ms}}", "", False),
    ],
)
def test_an_axis_of_values_that_events_replace_at_once_gets_a_warning(
    tmp_path: Path, axis: str, queue: str, event: str, more: str, warns: bool
) -> None:
    """A rate that a trace replaces at 0 s gave cells with equal results, which a reader takes for a finding."""
    path = f"{{name: a, rate: 9mbit, rtt: 20ms, queue: {queue}}}"
    topology = f"version: 1\ntopology: multi-path\npaths: [{path}]\nevents: [{event}]\n"
    values = "[10mbit, 40mbit]" if axis == "a.rate" else "[20ms, 40ms]"
    matrix = f"matrix: {{{axis}: {values}}}\n{more}"
    _write(tmp_path, topo=topology, xp=f"version: 1\n{matrix}traffic: [{{tool: ping, from: client, to: server}}]\n")
    told = load_cells(tmp_path / "topo", tmp_path / "xp")[0].warnings
    message = f"matrix.{axis}: changes nothing from 0 s on: events, such as a trace, set these values then."
    assert [one for one in told if "matrix" in one] == [f"{tmp_path}/xp.yaml:2: {message} Remove it, or them"] * warns


@pytest.mark.parametrize(("link", "warns"), [("rtt: 0ms", True), ("rtt: 20ms", False)])
def test_a_queue_of_a_bdp_without_a_delay_gets_a_warning(tmp_path: Path, link: str, warns: bool) -> None:
    topology = f"version: 1\ntopology: multi-path\npaths: [{{name: a, rate: 20mbit, queue: 2bdp, {link}}}]\n"
    spec = _load(tmp_path, topology).spec
    told = [text.partition(":")[0] for text in queue_warnings(spec, allocate(spec))]
    assert told == ["a.queue"] * warns


def test_a_part_of_a_large_file_is_read_many_times(tmp_path: Path) -> None:
    """The limit on values counted all readings of a file together, and many paths with a loss ended in a traceback."""
    flows = "  - {tool: ping, from: client, to: server, count: 1}\n" * 1000
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flows}")
    document = Document(read(tmp_path / "xp", "experiment"))
    parts = [document.part("traffic") for _ in range(50)]
    assert all(isinstance(part, list) and len(part) == 1000 for part in parts)
    assert not document.problems
