# SPDX-License-Identifier: Apache-2.0
"""The agent's code: compiled before a run, and its modules in one file, with which it starts sooner in a guest.

The file is made for each run from the compiled files that Python keeps, so it is never older than the sources.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

from mprun.agent import packed_code
from mprun.engines.agent_process import Library, interpreter
from mprun.model import engine_paths
from mprun.safety.folder import Folder

# The folders of mprun with the agent's modules and programs.
FOLDERS = (".", "agent", "agent/programs", "machine", "model", "safety")
# The modules that the agent imports in every run, except its own. One that is not here, or not in this version of
# Python, is imported in the usual way.
MODULES = """
    __future__ _weakrefset bisect cmd collections collections.abc contextlib copyreg ctypes ctypes._endian distutils
    distutils.version enum functools importlib._abc json json.decoder json.encoder json.scanner keyword linecache
    locale logging mininet mininet.cli mininet.link mininet.log mininet.moduledeps mininet.net mininet.node
    mininet.nodelib mininet.term mininet.util mprun mprun.agent mprun.machine mprun.machine.mininet_library
    mprun.model mprun.model.agent_report mprun.model.discipline mprun.model.engine_paths operator pty random re
    re._casefix re._compiler re._constants re._parser reprlib selectors shlex signal socket string struct subprocess
    textwrap threading token tokenize traceback tty types typing warnings weakref
""".split()
_FILE = "code"
# The size of the header of a compiled file (PEP 552).
_HEADER_BYTES = 16


def standard_library() -> Path:
    """Return the folder of the interpreter's standard library."""
    return interpreter().parents[1] / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def prepare(library: Library, folder: Folder, inside: str) -> str:
    """Write the file, and return Python statements that use it.

    folder: the file's folder, which is at the path `inside` for the agent.
    """
    _compile_missing(library)
    places = {}
    files: list[bytes] = []
    size = 0
    for name, source, place in _find(library):
        # who imports an uncompiled module compiles it
        with contextlib.suppress(OSError), open(importlib.util.cache_from_source(source), "rb") as file:
            compiled = file.read()
            status = os.stat(source)
            if compiled[:_HEADER_BYTES] == _header(int(status.st_mtime), status.st_size):
                places[name] = (place, size, size + len(compiled))
                files.append(compiled)
                size += len(compiled)
    first = packed_code.__name__
    if first not in places:
        return ""
    with folder.create(_FILE) as file:
        marshal.dump(places, file)
        file.write(b"".join(files))
    _, begin, end = places[first]
    return (
        f"import marshal, sys; file = open('{inside}/{_FILE}', 'rb'); places = marshal.load(file); code = file.read(); "
        f"exec(marshal.loads(code[{begin + _HEADER_BYTES}:{end}])); use(places, code); "
    )


def _compile_missing(library: Library) -> None:
    """Compile mprun's modules that the agent may import and that are not compiled yet.

    Inside, nothing can be written, so each run would compile them again.
    """
    for path in (path for name in FOLDERS for path in (library.package / name).glob("*.py")):
        compiled = Path(importlib.util.cache_from_source(str(path)))
        if not compiled.exists() or compiled.stat().st_mtime < path.stat().st_mtime:
            with contextlib.suppress(OSError):
                py_compile.compile(str(path), cfile=str(compiled), quiet=1)


def _find(library: Library) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each module, its source, and the path of this source inside an engine."""
    standard = str(standard_library())
    places = {
        "mprun": (str(library.package.parent), engine_paths.LIBRARY),
        "mininet": (str(library.mininet.parent), engine_paths.LIBRARY),
    }
    own = sorted(f"mprun.agent.{path.stem}" for path in (library.package / "agent").glob("[!_]*.py"))
    for name in (*MODULES, *own):
        outside, inside = places.get(name.partition(".")[0], (standard, standard))
        path = name.replace(".", "/")
        path = f"{path}/__init__.py" if os.path.isdir(f"{outside}/{path}") else f"{path}.py"
        yield name, f"{outside}/{path}", f"{inside}/{path}"


def _header(mtime: int, size: int) -> bytes:
    """Return the first bytes of the compiled file of a source with this time and size."""
    words = (0, mtime & 0xFFFFFFFF, size & 0xFFFFFFFF)
    return importlib.util.MAGIC_NUMBER + b"".join(word.to_bytes(4, "little") for word in words)
