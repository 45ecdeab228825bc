# SPDX-License-Identifier: Apache-2.0
"""A Mininet Topo class as a topology: its nodes and links, and refused classes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mprun.errors import SpecError
from mprun.inputs.loading import load_topology
from mprun.model.permission import Permissions
from mprun.model.spec import Chance, Direction, Queue

HEAD = "from mininet.topo import Topo\nfrom mininet.node import Node\nclass LinuxRouter(Node):\n    pass\n"
BODY = """\
class Mine(Topo):
    def build(self):
        self.addHost('h1', ip='192.0.2.1/30')
        self.addHost('h2')
        self.addNode('r1', cls=LinuxRouter)
        self.addLink('h1', 'r1', bw=1.5, delay='5ms', loss=0.5, max_queue_size=50, params2={'ip': '192.0.2.2/30'})
        self.addLink('r1', 'h2', delay=250)
"""


def topology(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_nodes_and_links(tmp_path: Path) -> None:
    spec = load_topology(topology(tmp_path, HEAD + BODY), allowed=Permissions(python=True))
    assert spec.nodes == {"h1": "host", "h2": "host", "r1": "router"}
    first, second = spec.links
    assert first.forward == Direction(1_500_000, 5_000_000, loss=Chance(0.005), queue=Queue(50, "packets"))
    assert first.reverse == first.forward
    assert first.addresses == (("192.0.2.1/30",), ("192.0.2.2/30",))
    assert second.forward == Direction(delay_ns=250_000)
    assert second.addresses == ((), ())


def test_the_parameters_of_an_end_shape_what_leaves_there(tmp_path: Path) -> None:
    """Link.__init__() of Mininet gives each interface its own parameters, and then those of the link."""
    ends = "params1={'bw': 5, 'delay': '30ms', 'loss': 2}, params2={'bw': 7, 'delay': '10ms', 'up': True}"
    text = HEAD + BODY.replace("'h2', delay=250", f"'h2', loss=1, {ends}")
    _, second = load_topology(topology(tmp_path, text), allowed=Permissions(python=True)).links
    assert second.forward == Direction(5_000_000, 30_000_000, loss=Chance(0.01))
    assert second.reverse == Direction(7_000_000, 10_000_000, loss=Chance(0.01))


def test_dictionary_of_custom_topologies_chooses(tmp_path: Path) -> None:
    other = "class Other(Mine):\n    pass\n"
    spec = load_topology(
        topology(tmp_path, HEAD + BODY + other + "topos = {'a': Other, 'mprun': Mine}\n"),
        allowed=Permissions(python=True),
    )
    assert spec.description == "Mininet topology Mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "mine.py: holds 0 Topo classes (none): name one in topos = {'mprun': TheClass}"),
        (HEAD + BODY + "class B(Mine):\n    pass\n", "holds 2 Topo classes (B, Mine)"),
        (HEAD + "1 / 0\n", "mine.py:5: does not run: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "mine.py:1: does not run: SystemExit: 3"),
        (HEAD + BODY.replace("loss=0.5", "jitter='1ms'"), "link h1-r1: 'jitter' of a Mininet link has no counterpart"),
        (HEAD + BODY.replace("bw=1.5", "bw=-1"), "links[0].rate: a rate cannot be negative"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_topology(topology(tmp_path, text), allowed=Permissions(python=True))
    assert message in str(caught.value)


def test_mininet_finds_what_it_compares_versions_with() -> None:
    """The interpreter is the bare one that the agent uses. Debian 12's needs distutils, later ones need packaging."""
    text = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r});"
        "from mprun.machine.mininet_library import make_importable; make_importable();"
        "from distutils.version import StrictVersion; from packaging.version import Version;"
        "assert Version('1.10') and StrictVersion('1.10')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
