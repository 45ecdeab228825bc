# SPDX-License-Identifier: Apache-2.0
"""Import modules without a search: in an experiment kernel, the search for a module takes some twenty stops.

This module begins before all others (`engines/agent_code.py`), so it imports only what needs no search itself.
"""

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader


class _PackedLoader(SourceFileLoader):
    """A loader of a module whose compiled file, with its header, is at hand."""

    def __init__(self, name: str, path: str, compiled: memoryview) -> None:
        super().__init__(name, path)
        self._compiled = compiled

    def path_stats(self, path: str) -> dict[str, int]:
        """Return the time and the size that the compiled file has: mprun has compared them with the source."""
        time, size = self._compiled[8:12], self._compiled[12:16]
        return {"mtime": int.from_bytes(time, "little"), "size": int.from_bytes(size, "little")}

    def get_data(self, path: str) -> bytes:
        # the loader only reads the compiled file, and a copy would be some 500 page faults for all modules
        return super().get_data(path) if path == self.path else self._compiled  # type: ignore[return-value]


class _PackedModules:
    """A finder of the modules in the file (`sys.meta_path`)."""

    def __init__(self, places: dict[str, tuple[str, int, int]], content: memoryview) -> None:
        self._places = places
        self._content = content

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name not in self._places:
            return None
        source, begin, end = self._places[name]
        folder, _, file = source.rpartition("/")
        spec = ModuleSpec(name, _PackedLoader(name, source, self._content[begin:end]), origin=source)
        spec.submodule_search_locations = [folder] if file == "__init__.py" else None
        spec.has_location = True
        return spec


def use(places: dict[str, tuple[str, int, int]], content: bytes) -> None:
    """Import these modules without a search from now on, and all others as usual.

    places: by name, the path of the source, and where in `content` the compiled file begins and ends.
    """
    sys.meta_path.insert(0, _PackedModules(places, memoryview(content)))
