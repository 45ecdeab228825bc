# SPDX-License-Identifier: Apache-2.0
"""Plugins: topology generators and workloads, which files name, in mprun itself or in installed packages.

A package names its modules in an entry-point group. Packages are searched only for a name that mprun does not have,
because reading their metadata takes time. The caller checks that a module has the names that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginProblem(Exception):
    """A failure to use a package's module. The message names the module, the reason and a remedy."""


@dataclass(frozen=True)
class Described:
    """A module in a list for users. summary: one line about the module. package: None for mprun's own modules."""

    name: str
    summary: str
    package: str | None


@dataclass(frozen=True)
class Collection:
    """All modules of one kind: all generators, or all workloads.

    - group: the group of entry points in which packages name their modules.
    - noun: the word for a module in messages.
    - package: the package of mprun's own modules.
    - own: their names. A module is named after its name, with `_` in place of `-`.
    """

    group: str
    noun: str
    package: str
    own: tuple[str, ...]

    def load_own(self, name: str) -> object:
        """Import and return one of mprun's own modules."""
        return import_module(f"{self.package}.{name.replace('-', '_')}")

    def load_installed(self, name: str) -> tuple[str, object] | None:
        """Import a module of an installed package. Return the name for messages, with the package, and the module.

        The result is None if no package has a module of this name.
        Raises PluginProblem if several packages have the name, or if the module cannot be imported.
        """
        found = [point for point in self._entry_points() if point.name == name]
        if not found:
            return None
        if len(found) > 1:
            packages = " and ".join(sorted(_package(point) for point in found))
            raise PluginProblem(f"{self.noun} '{name}' is in the packages {packages}: uninstall all but one")
        where = f"{self.noun} '{name}' of package '{_package(found[0])}' ({found[0].value})"
        try:
            return where, found[0].load()
        except Exception as error:
            raise PluginProblem(f"{where} cannot be imported: {type(error).__name__}: {error}") from error

    def list_names(self) -> list[str]:
        """Return the names of all modules, mprun's own first."""
        return list(dict.fromkeys([*self.own, *(point.name for point in self._entry_points())]))

    def describe(self) -> list[Described]:
        """Return all modules, each with the first line of its docstring, mprun's own modules first.

        A module that cannot be imported has the reason in place of this line.
        """
        own = [Described(name, _summary(self.load_own(name)), None) for name in self.own]
        others = []
        for point in self._entry_points():
            if point.name in self.own:
                continue
            try:
                summary = _summary(point.load())
            except Exception as error:
                summary = f"cannot be imported: {type(error).__name__}: {error}"
            others.append(Described(point.name, summary, _package(point)))
        return own + others

    def _entry_points(self) -> list[EntryPoint]:
        from importlib.metadata import entry_points

        return sorted(entry_points(group=self.group), key=lambda point: (point.name, _package(point)))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"


def _summary(module: object) -> str:
    """Return the first line of a module's docstring, without the name at its beginning."""
    first = (getattr(module, "__doc__", None) or "").strip().split("\n")[0]
    return first.split("`: ", 1)[-1].rstrip(".")
