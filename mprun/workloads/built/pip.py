# SPDX-License-Identifier: Apache-2.0
"""Install a Python program and its libraries with pip(1), in the versions and with the digests of its requirements.

The libraries go beside the program, into a folder that only the program uses. The program begins with the digest of
this folder. It ends if a file there has changed since.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

from mprun.workloads.built.source import PipRecipe, run

LIBRARY = "library"
# The head of the program. `digest_library` is in it as it is here.
_HEAD = """\
#!{python} -I
from __future__ import annotations
import sys
from pathlib import Path
{function}
folder = Path(__file__).resolve().with_name("{library}")
if digest_library(folder) != "{digest}":
    sys.exit("{executable}: its library has changed since it was installed; run `mprun tools install {name}`")
sys.path.insert(0, str(folder))
sys.dont_write_bytecode = True
"""


def missing(recipe: PipRecipe) -> str | None:
    """Return what an installation needs and this machine lacks, with the command that installs it; None if nothing."""
    if sys.version_info < recipe.oldest_python:
        oldest = ".".join(map(str, recipe.oldest_python))
        found = sys.version.split()[0]
        return f"it needs Python {oldest} or later, and mprun runs on {found}: make its environment with a later one"
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        return "installing it needs pip: apt-get install python3-pip"
    return None


def build(recipe: PipRecipe, made: Path) -> str:
    """Install a program and its libraries into a folder. Return the version of Python. Raises RunError."""
    words = ["--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile", "--target", str(made / LIBRARY)]
    run([sys.executable, "-m", "pip", "install", *words, "-r", str(recipe.folder / "requirements.txt")])
    # programs of the libraries have the path of this interpreter
    shutil.rmtree(made / LIBRARY / "bin", ignore_errors=True)
    program = made / recipe.executable
    head = _HEAD.format(
        python=Path(sys.executable).resolve(),
        function=inspect.getsource(digest_library),
        library=LIBRARY,
        digest=digest_library(made / LIBRARY),
        executable=recipe.executable,
        name=recipe.name,
    )
    source = (recipe.folder / "program.py").read_text()
    program.write_text(head + source.replace("from __future__ import annotations\n", "", 1))
    program.chmod(0o755)
    return f"Python {sys.version.split()[0]}"


def starts(program: str) -> bool:
    """Return whether an installed program starts: its interpreter is there, and its libraries are unchanged."""
    try:
        return subprocess.run([program, "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def digest_library(folder: Path) -> str:
    """Return the SHA-256 of all files of a folder with their names, in hexadecimal."""
    import hashlib

    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        total.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return total.hexdigest()
