# SPDX-License-Identifier: Apache-2.0
"""The generators of topologies: mprun's own, and generators of installed packages.

A package names its generators in the entry-point group `mprun.topologies`, one module for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

from mprun.inputs.generators import GENERATORS
from mprun.inputs.keys.field import parse_name
from mprun.machine.plugin import Collection, PluginProblem
from mprun.model.frozen import Frozen
from mprun.model.spec import LinkSpec, NodeKind

if TYPE_CHECKING:
    from mprun.inputs.keys.topology import Expansion, GeneratedTopology

COLLECTION = Collection("mprun.topologies", "generator", "mprun.inputs.generators", GENERATORS)


class Generator(Protocol):
    """The interface of a generator's module: the model of its keys, and the function that expands them."""

    @property
    def Parameters(self) -> type[GeneratedTopology]: ...

    def expand(self, parameters: Any, /) -> Expansion: ...


def load_own(name: str) -> Generator:
    return cast(Generator, COLLECTION.load_own(name))


def load(name: str) -> Generator | None:
    """Import a generator of mprun or of an installed package. None if none has the name. Raises PluginProblem."""
    if name in GENERATORS:
        return load_own(name)
    found = COLLECTION.load_installed(name)
    return None if found is None else _Installed(found[0], *_fit(*found))


class _Installed(Frozen):
    """A package's generator. Its result is checked before it is used."""

    where: str
    Parameters: type[GeneratedTopology]
    function: Callable[[Any], object]

    def expand(self, parameters: Any) -> Expansion:
        try:
            expansion = self.function(parameters)
        except Exception as error:
            raise PluginProblem(f"{self.where} failed in expand: {type(error).__name__}: {error}") from error
        if problem := _find_problem(expansion):
            raise PluginProblem(f"{self.where}: expand {problem}")
        return cast("Expansion", expansion)


def _fit(where: str, module: object) -> tuple[type[GeneratedTopology], Callable[[Any], object]]:
    from mprun.inputs.keys.topology import GeneratedTopology

    parameters, expand = getattr(module, "Parameters", None), getattr(module, "expand", None)
    if not (isinstance(parameters, type) and issubclass(parameters, GeneratedTopology)):
        raise PluginProblem(
            f"{where} has no class Parameters derived from mprun.inputs.keys.topology.GeneratedTopology"
        )
    if not callable(expand):
        raise PluginProblem(f"{where} has no function expand, which takes its Parameters")
    return parameters, expand


def _find_problem(expansion: object) -> str | None:
    """The problem in the form or the names of an expansion. Addresses are checked together with all others."""
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
