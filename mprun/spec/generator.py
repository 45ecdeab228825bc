# SPDX-License-Identifier: Apache-2.0
"""Which generators there are: mprun's own, and those that installed packages bring along.

A package names its generators in the entry-point group `mprun.topologies`, a module each. Packages
are searched only for a name that is none of ours: reading their metadata takes a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

from mprun.spec.field import parse_name
from mprun.spec.spec import LinkSpec, NodeKind
from mprun.topologies import GENERATORS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from mprun.spec.topology import Expansion, GeneratedTopology

GROUP = "mprun.topologies"


class Generator(Protocol):
    """What a module of a generator has: what may be written, and what that comes to."""

    @property
    def Parameters(self) -> type[GeneratedTopology]: ...

    @property
    def expand(self) -> Callable[[Any], Expansion]: ...


class GeneratorFault(Exception):
    """A package's generator that cannot be used; the message says which, why and what would do."""


@dataclass(frozen=True)
class Described:
    """A generator as a list shows it. package: None for mprun's own."""

    name: str
    summary: str
    package: str | None


def load_own(name: str) -> Generator:
    """A generator of mprun's."""
    return cast(Generator, import_module(GENERATORS[name]))


def load_installed(name: str) -> Generator | None:
    """A generator of an installed package; None if none has that name. Raises GeneratorFault."""
    found = [point for point in _entry_points() if point.name == name]
    if not found:
        return None
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise GeneratorFault(f"generator '{name}' is in the packages {packages}: uninstall all but one")
    where = _describe(found[0])
    try:
        module = found[0].load()
    except Exception as error:
        raise GeneratorFault(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    return _Installed(where, *_fit(where, module))


def list_names() -> list[str]:
    """Names of all generators, mprun's own first."""
    return list(dict.fromkeys([*GENERATORS, *(point.name for point in _entry_points())]))


def describe() -> list[Described]:
    """All generators with the first sentence of their modules, mprun's own first. Raises GeneratorFault."""
    own = [Described(name, _summary(import_module(module)), None) for name, module in GENERATORS.items()]
    others = []
    for point in _entry_points():
        if point.name in GENERATORS:
            continue
        try:
            summary = _summary(point.load())
        except Exception as error:
            summary = f"cannot be imported: {type(error).__name__}: {error}"
        others.append(Described(point.name, summary, _package(point)))
    return own + others


@dataclass(frozen=True)
class _Installed:
    """A package's generator, whose result is looked at before anything is built on it."""

    where: str
    Parameters: type[GeneratedTopology]
    function: Callable[[Any], object]

    def expand(self, parameters: Any) -> Expansion:
        try:
            expansion = self.function(parameters)
        except Exception as error:
            raise GeneratorFault(f"{self.where} failed in expand: {type(error).__name__}: {error}") from error
        if fault := _find_fault(expansion):
            raise GeneratorFault(f"{self.where}: expand {fault}")
        return cast("Expansion", expansion)


def _fit(where: str, module: object) -> tuple[type[GeneratedTopology], Callable[[Any], object]]:
    from mprun.spec.topology import GeneratedTopology

    parameters, expand = getattr(module, "Parameters", None), getattr(module, "expand", None)
    if not (isinstance(parameters, type) and issubclass(parameters, GeneratedTopology)):
        raise GeneratorFault(f"{where} has no class Parameters derived from mprun.spec.topology.GeneratedTopology")
    if not callable(expand):
        raise GeneratorFault(f"{where} has no function expand, which takes its Parameters")
    return parameters, expand


def _find_fault(expansion: object) -> str | None:
    """What is wrong with the form and the names of an expansion. Addresses are looked at with all others."""
    if not (isinstance(expansion, tuple) and len(expansion) == 2 and isinstance(expansion[0], Mapping)):
        return "gives no pair of nodes (a mapping of name to kind) and links"
    nodes, links = expansion
    for name, kind in nodes.items():
        if kind not in get_args(NodeKind):
            return f"gives node '{name}' the kind '{kind}': use {', '.join(get_args(NodeKind))}"
    if not (isinstance(links, tuple) and all(isinstance(link, LinkSpec) for link in links)):
        return "gives links that are no tuple of LinkSpec: make them with LinkProperties.join"
    taken: set[str] = set()
    for link in links:
        if link.name in taken:
            return f"gives two links the name '{link.name}'"
        taken.add(link.name)
        if len(set(link.ends)) != 2:
            return f"joins '{link.ends[0]}' to itself by link '{link.name}'"
        for end in link.ends:
            if end not in nodes:
                return f"joins link '{link.name}' to '{end}', which is no node"
    for name in (*nodes, *taken):
        try:
            parse_name(name)
        except ValueError as error:
            return f"gives a name that no file could hold: {error}"
    return None


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point)))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"


def _describe(point: EntryPoint) -> str:
    return f"generator '{point.name}' of package '{_package(point)}' ({point.value})"


def _summary(module: object) -> str:
    """The first line of a module's docstring without the name that it begins with."""
    first = (getattr(module, "__doc__", None) or "").strip().split("\n")[0]
    return first.split("`: ", 1)[-1].rstrip(".")
