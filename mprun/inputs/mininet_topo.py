# SPDX-License-Identifier: Apache-2.0
"""A user's own Mininet Topo class instead of a topology file.

The class is a program, so it is run. Its description of the network becomes the text of a topology file and is
checked like any other. Properties of Mininet's links that mprun does not have are refused by name.
"""

from __future__ import annotations

import json
import runpy
import traceback
from pathlib import Path
from typing import Any

from mprun.machine.mininet_library import make_importable

# Options that do not describe the network, or that mprun decides itself.
_IGNORED = {"node1", "node2", "port1", "port2", "cls", "cls1", "cls2", "intf", "intfName1", "intfName2", "fast"}
_IGNORED |= {"params1", "params2", "addr1", "addr2", "use_hfsc", "use_htb", "use_tbf"}
_KNOWN = {"bw", "delay", "loss", "max_queue_size"}


class TopoError(Exception):
    """The reason why the file is no topology, and the remedy. line: the line of the problem, if one is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def convert(path: Path) -> str:
    """Return the topology of a Python file as the text of a topology file (JSON, which is YAML).

    The file has one Topo subclass, or `topos` with one entry or an entry 'mprun', as for `mn --custom`.
    """
    make_importable()
    try:
        from mininet.topo import Topo
    except ImportError:
        raise TopoError("needs Mininet to be read: apt-get install mininet") from None
    try:
        names = runpy.run_path(str(path))
        topo = _choose(names, Topo)()
    except TopoError:
        raise
    except (Exception, SystemExit) as error:
        raise TopoError(f"does not run: {type(error).__name__}: {error}", _line(error, path)) from error
    description = {
        "version": 1,
        "description": f"Mininet topology {type(topo).__name__}",
        "nodes": {name: {"kind": _kind(topo, name)} for name in topo.nodes()},
        "links": [_link(topo, *link) for link in topo.links(sort=True, withKeys=False, withInfo=True)],
    }
    return json.dumps(description)


def _line(error: BaseException, path: Path) -> int | None:
    """The innermost line of the user's file in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None


def _choose(names: dict[str, Any], base: type) -> Any:
    made = names.get("topos")
    if isinstance(made, dict) and made:
        if "mprun" in made or len(made) == 1:
            return made.get("mprun") or next(iter(made.values()))
        raise TopoError(f"'topos' names several ({', '.join(made)}): call the one to be used 'mprun'")
    own = [
        value
        for value in names.values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == "<run_path>"
    ]
    if len(own) != 1:
        found = ", ".join(sorted(one.__name__ for one in own)) or "none"
        raise TopoError(f"holds {len(own)} Topo classes ({found}): name one in topos = {{'mprun': TheClass}}")
    return own[0]


def _kind(topo: Any, name: str) -> str:
    if topo.isSwitch(name):
        return "switch"
    cls = topo.nodeInfo(name).get("cls")
    return "router" if cls is not None and "router" in cls.__name__.lower() else "host"


def _link(topo: Any, first: str, second: str, options: dict[str, Any]) -> dict[str, Any]:
    ends = [options.get("node1", first), options.get("node2", second)]
    entry: dict[str, Any] = {"between": ends}
    # an end's parameters hold for what leaves there, and the link's own come before them
    own = [options.get(key) or {} for key in ("params1", "params2")]
    if strange := sorted({*options, *({*own[0], *own[1]} - {"ip", "mac", "port", "up"})} - _KNOWN - _IGNORED):
        raise TopoError(f"link {'-'.join(ends)}: '{strange[0]}' of a Mininet link has no counterpart here yet")
    forward, reverse = (_properties({**one, **options}) for one in own)
    for name in {**forward, **reverse}:
        ways = {way: one[name] for way, one in (("forward", forward), ("reverse", reverse)) if name in one}
        entry[name] = ways if forward.get(name) != reverse.get(name) else forward[name]
    addresses = [_address(topo, *one) for one in zip(ends, own, strict=True)]
    if any(addresses):
        entry["addresses"] = addresses
    return entry


def _properties(options: dict[str, Any]) -> dict[str, str]:
    entry = {}
    if options.get("bw") is not None:
        entry["rate"] = f"{round(float(options['bw']) * 1e6)}bit"
    if options.get("delay") is not None:
        text = str(options["delay"])
        # tc reads a bare number of netem's delay as microseconds
        entry["delay"] = f"{text}us" if text.isdigit() else text
    if options.get("loss") is not None:
        entry["loss"] = f"{float(options['loss']):g}%"
    if options.get("max_queue_size") is not None and "rate" in entry:
        entry["queue"] = f"{options['max_queue_size']}packets"
    return entry


def _address(topo: Any, node: str, parameters: Any) -> str | None:
    """The link's address for this end, else the node's address if this is its only link."""
    if parameters.get("ip"):
        return str(parameters["ip"])
    own = topo.nodeInfo(node).get("ip")
    is_only = sum(node in ends for ends in topo.links()) == 1
    return str(own) if own and "/" in str(own) and is_only else None
