# SPDX-License-Identifier: Apache-2.0
"""Drawings: golden DOT files in `tests/golden/drawings/<case>`, and the output of graphviz."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from mprun.cli import graph
from mprun.compile import allocate, resolve
from mprun.errors import MachineError
from mprun.inputs.loading import load
from mprun.model.spec import Chance, Direction
from mprun.model.wording import PROPERTIES, describe, say_changes
from mprun.reports import layout as drawing_layout
from mprun.reports.dot import to_dot
from mprun.reports.drawing import Drawing, draw

ROOT = Path(__file__).parents[2]
LAB = ROOT / "labs" / "01_multipath"
GOLDEN = ROOT / "tests" / "golden" / "drawings"
CASES = sorted(path for path in GOLDEN.iterdir() if (path / "topo.yaml").exists())
SVG = "{http://www.w3.org/2000/svg}"


def drawing_of(topology: Path, experiment: Path | None = None, with_addresses: bool = False) -> Drawing:
    spec = load(topology, experiment).spec
    resolved = resolve(spec, allocate(spec))
    return draw(resolved.topology, resolved.experiment.traffic, with_addresses)


def fat_tree(k: int) -> str:
    """Return a fat-tree of k pods as a topology file: k^2/4 cores, k^3/4 hosts."""
    half = k // 2
    kinds = {
        "c": ("router", half * half),
        "a": ("router", half * k),
        "e": ("router", half * k),
        "h": ("host", half**2 * k),
    }
    lines = ["version: 1", f"description: a fat-tree of k={k}", "nodes:"]
    lines += [f"  {layer}{n}: {{kind: {kind}}}" for layer, (kind, count) in kinds.items() for n in range(count)]
    pairs: list[tuple[str, str]] = []
    for pod in range(k):
        for up in range(half):
            upper = f"a{pod * half + up}"
            pairs += [(f"c{up * half + n}", upper) for n in range(half)]
            pairs += [(upper, f"e{pod * half + n}") for n in range(half)]
            edge = pod * half + up
            pairs += [(f"e{edge}", f"h{edge * half + n}") for n in range(half)]
    values = "rate: 100mbit, delay: 100us, queue: 100packets"
    return "\n".join([*lines, "links:", *(f"  - {{between: [{a}, {b}], {values}}}" for a, b in pairs)]) + "\n"


def compare(text: str, golden: Path, update: bool) -> None:
    if update:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_drawing_is_golden(case: Path, update_golden: bool) -> None:
    experiment = case / "xp.yaml"
    drawing = drawing_of(case / "topo.yaml", experiment if experiment.exists() else None)
    compare(to_dot(drawing), case / "topo.dot", update_golden)


def test_fat_tree_is_golden(tmp_path: Path, update_golden: bool) -> None:
    (tmp_path / "topo.yaml").write_text(fat_tree(4))
    compare(to_dot(drawing_of(tmp_path / "topo.yaml")), GOLDEN / "fat-tree" / "topo.dot", update_golden)


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_drawing_does_not_depend_on_hash_seed(hash_seed: str) -> None:
    argv = [sys.executable, "-m", "mprun", "graph", "-t", str(GOLDEN / "circle" / "topo"), "--format", "dot"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert done.stdout == (GOLDEN / "circle" / "topo.dot").read_text()


# Labels of links.


def test_every_property_of_a_direction_has_its_words() -> None:
    assert set(PROPERTIES) == {field.name for field in fields(Direction)}


def test_directions_that_differ_say_which_is_which() -> None:
    one, other = Direction(5_000_000, 20_000_000, loss=Chance(0.01)), Direction(1_500_000, 20_000_000)
    assert describe(one, other, "→", "←") == ("delay 20 ms", "→ 5 Mbit/s, loss 1 %", "← 1.5 Mbit/s")
    assert describe(one, one, "→", "←") == ("5 Mbit/s, delay 20 ms", "loss 1 %")
    assert describe(Direction(), Direction(), "→", "←") == ()


# Positions.


def test_a_link_written_backwards_keeps_its_directions() -> None:
    """The arrows follow the picture, whichever end the file names first."""
    path0 = drawing_of(GOLDEN / "differing-directions" / "topo.yaml").edges[0]
    assert path0.ends == ("router", "client")
    assert path0.lines[1:] == ("→ 5 Mbit/s, loss 1 %", "→ queue 34 packets", "← 1.5 Mbit/s, queue 20 packets")


def test_long_line_keeps_its_ends_and_says_what_it_leaves_out() -> None:
    drawing = drawing_of(GOLDEN / "line" / "topo.yaml")
    assert [vertex.name for vertex in drawing.vertices] == ["client", "r1", "r2", "r3 … r98", "r99", "r100", "server"]
    assert drawing.vertices[3].lines == ("96 more routers",)
    assert [line.text for line in drawing.key] == ["every link: 10 Mbit/s, delay 1 ms, queue 167 packets"]
    assert len(drawing_of(GOLDEN / "line" / "topo.yaml", with_addresses=True).vertices) == 102


def test_long_line_of_differing_links_is_drawn_whole_and_down(tmp_path: Path) -> None:
    names = [f"r{n}" for n in range(12)]
    nodes = "".join(f"  {name}: {{kind: {'host' if name in ('r0', 'r11') else 'router'}}}\n" for name in names)
    links = "".join(f"  - {{between: [r{n}, r{n + 1}], rate: {n + 1}mbit}}\n" for n in range(11))
    (tmp_path / "topo.yaml").write_text(f"version: 1\nnodes:\n{nodes}links:\n{links}")
    drawing = drawing_of(tmp_path / "topo.yaml")
    assert drawing.reading == "down"
    assert len(drawing.vertices) == 12


def test_tree_has_its_layers_in_order(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(fat_tree(4))
    drawing = drawing_of(tmp_path / "topo.yaml")
    assert drawing.reading == "down"
    counts = {"h": 16, "e": 8, "a": 8, "c": 4}
    assert drawing.layers == tuple(tuple(f"{name}{n}" for n in range(count)) for name, count in counts.items())
    (tmp_path / "large.yaml").write_text(fat_tree(8))
    assert drawing_of(tmp_path / "large.yaml").reading == "right"


def test_tree_nodes_do_not_overlap() -> None:
    layers = [("h0", "h1", "h2"), ("s0", "s1"), ("t",)]
    edges = [("s0", "h0"), ("s1", "h1"), ("s1", "h2"), ("t", "s0"), ("t", "s1")]
    centres = drawing_layout.lay_out_tree(layers, edges, dict.fromkeys(("h0", "h1", "h2", "s0", "s1", "t"), 30.0))
    for layer in layers:
        places = [centres[name] for name in layer]
        assert all(right - left >= 30 for left, right in pairwise(places))
    assert centres["t"] == pytest.approx((centres["s0"] + centres["s1"]) / 2)


# The command.


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(graph.command, list(map(str, arguments)))


def test_pipe_gets_the_text() -> None:
    golden = GOLDEN / "two-paths"
    pair = ("-t", golden / "topo", "-x", golden / "xp")
    assert run(*pair, "--format", "dot").stdout == (golden / "topo.dot").read_text()
    assert run(*pair, "--format", "dot", "--to", "-").stdout == (golden / "topo.dot").read_text()


def test_suffix_says_the_format(tmp_path: Path) -> None:
    golden = GOLDEN / "two-paths"
    for name, start in (("a.dot", "graph"), ("folder/a.GV", "graph")):
        result = run("-t", golden / "topo", "--to", tmp_path / name)
        assert result.stdout == f"wrote {tmp_path / name}\n"
        assert (tmp_path / name).read_text().startswith(start)
    result = run("-t", golden / "topo", "--to", tmp_path / "a.pdf")
    assert result.exit_code == 2
    assert "a.pdf: no format has this suffix: end it in .svg, .png," in result.stderr
    assert run("-t", golden / "topo", "--to", tmp_path / "a.txt", "--format", "dot").exit_code == 0


def test_without_graphviz_the_texts_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("-t", LAB / "topo", "--to", tmp_path / "topo.svg")
    assert isinstance(result.exception, MachineError)
    assert result.exception.exit_code == 3
    assert str(result.exception) == (
        "graphviz, which draws svg, is not installed: apt-get install graphviz (--format dot needs nothing)"
    )
    assert list(tmp_path.iterdir()) == []
    assert run("-t", LAB / "topo", "--format", "dot").exit_code == 0


# Output of graphviz.


def texts(svg: ElementTree.Element) -> Iterator[tuple[str, float]]:
    """Yield each text and its vertical position."""
    for text in svg.iter(f"{SVG}text"):
        yield "".join(text.itertext()), float(text.get("y", "nan"))


def test_svg_shows_names_and_values() -> None:
    svg = run("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--addresses")
    assert svg.exit_code == 0
    assert svg.stdout == run("-t", LAB / "topo", "-x", LAB / "xp_mptcp", "--addresses").stdout
    shown = dict(texts(ElementTree.fromstring(svg.stdout)))
    assert {"client", "router", "server", "path0", "path1", "20 Mbit/s, delay 20 ms", "10.0.0.1 – 10.0.0.2/24"} <= set(
        shown
    )
    assert "bulk: iperf3 over MPTCP, client → server, from 0 s for 10 s" in shown
    assert shown["path0"] < shown["path1"]


def test_a_tool_of_one_protocol_is_no_tool_over_another(tmp_path: Path) -> None:
    flows = ["tool: ping, count: 1", "tool: udp, rate: 1mbit, duration: 1s", "tool: quic, response: 5mb"]
    traffic = "".join(f"  - {{name: f{n}, from: client, to: server, {flow}}}\n" for n, flow in enumerate(flows))
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{traffic}")
    svg = run("-t", LAB / "topo", "-x", tmp_path / "xp")
    shown = dict(texts(ElementTree.fromstring(svg.stdout)))
    for n, tool in enumerate(("ping", "udp", "quic")):
        assert any(text.startswith(f"f{n}: {tool}, client → server") for text in shown)


def test_the_arrow_of_a_flow_is_the_direction_of_its_data(tmp_path: Path) -> None:
    flows = {"reverse": "←", "bidirectional": "↔"}
    traffic = "".join(
        f"  - {{name: {key}, tool: iperf3, from: client, to: server, duration: 1s, {key}: true}}\n" for key in flows
    )
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{traffic}")
    shown = dict(texts(ElementTree.fromstring(run("-t", LAB / "topo", "-x", tmp_path / "xp").stdout)))
    for key, arrow in flows.items():
        assert any(text.startswith(f"{key}: iperf3 over TCP, client {arrow} server") for text in shown)


def test_the_start_of_a_flow_after_another_names_the_other(tmp_path: Path) -> None:
    starts = {
        "{after: get}": "after get",
        "{after: get, offset: 2s}": "2 s after get",
        "{after: get, of: start, offset: 1s}": "1 s after the start of get",
    }
    traffic = "".join(
        f"  - {{name: f{n}, tool: ping, from: client, to: server, count: 1, start: {start}}}\n"
        for n, start in enumerate(starts)
    )
    first = "  - {name: get, tool: ping, from: client, to: server, count: 1}\n"
    first += "  - {name: page, tool: http, from: client, to: server, protocol: tcp, sizes: [1mb]}\n"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{first}{traffic}")
    shown = dict(texts(ElementTree.fromstring(run("-t", LAB / "topo", "-x", tmp_path / "xp").stdout)))
    for n, text in enumerate(starts.values()):
        assert f"f{n}: ping, client → server, {text}" in shown
    # the arrow is the direction of the data
    assert "page: http over TCP, client ← server, from 0 s" in shown


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_svg_has_a_line_for_each_link(case: Path) -> None:
    svg = ElementTree.fromstring(run("-t", case / "topo").stdout)
    drawing = drawing_of(case / "topo.yaml")
    lines = [group for group in svg.iter(f"{SVG}g") if group.get("class") == "edge"]
    invisible = sum(len(layer) - 1 for layer in drawing.layers)
    halves = sum(2 if edge.name else 1 for edge in drawing.edges)
    assert len(lines) in (halves, halves + invisible)
    shown = {text for text, _ in texts(svg)}
    assert {edge.name for edge in drawing.edges if edge.name} <= shown
    assert {vertex.name for vertex in drawing.vertices} <= shown


def test_picture_in_the_tree_is_current() -> None:
    """Only the texts are compared. Positions and widths depend on the version of graphviz."""
    kept = ElementTree.fromstring((LAB / "topo.svg").read_text())
    drawn = ElementTree.fromstring(run("-t", LAB / "topo").stdout)
    assert {text for text, _ in texts(kept)} == {text for text, _ in texts(drawn)}, (
        "run: mprun graph -t topo --to topo.svg"
    )


def test_png_is_one(tmp_path: Path) -> None:
    assert run("-t", LAB / "topo", "--to", tmp_path / "topo.png").exit_code == 0
    assert (tmp_path / "topo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("moments", "said"),
    [
        ([], []),
        ([5 * 10**9], ["changes at 5 s"]),
        ([10**9, 10**9, 15 * 10**8], ["changes at 1 s, 1.5 s"]),
        ([10**8 * n for n in range(600)], ["600 changes, 0 s to 59.9 s"]),
    ],
)
def test_changes_are_told_where_they_are_few(moments: list[int], said: list[str]) -> None:
    assert say_changes(moments) == said
