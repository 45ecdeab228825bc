# SPDX-License-Identifier: Apache-2.0
"""Make the wheel of the package mprun-kernel from an archive of `mprun kernel export`.

kernel_wheel.py ARCHIVE FOLDER VERSION

The wheel has the files of the archive, the licences of what is linked into the programs, and a list of parts (SBOM,
CycloneDX). Its platform tag is the oldest glibc that has all symbols of the programs. Equal archives give equal wheels.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mprun.bundles import installation
from mprun.kernel.store import FACTS, PROGRAMS
from mprun.machine.packaged import BUILT
from mprun.workloads.built import PROGRAMS as TOOLS
from mprun.workloads.built.source import FACTS as TOOL_FACTS

ROOT = Path(__file__).parents[1]
# The first day of the zip format, as in mprun's archives.
DAY = (1980, 1, 1, 0, 0, 0)
# A static program: glibc's symbols are inside.
STATIC = "init"
# Debian packages whose libraries are linked into the programs, by program.
STATIC_LIBRARIES = {"init": "libc6-dev", "cmtsctp": "libusrsctp-dev"}
COPYRIGHT = Path("/usr/share/doc")
CRATES = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "src"
LICENCE_NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "COPYRIGHT*", "UNLICENSE*")

METADATA = """\
Metadata-Version: 2.4
Name: mprun-kernel
Version: {version}
Summary: The experiment kernel of mprun and its traffic tools, built for Linux on x86-64
License-Expression: GPL-2.0-only AND Apache-2.0
{files}Requires-Python: >=3.11
Description-Content-Type: text/plain

{text}"""


def main() -> None:
    archive, folder, version = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    with zipfile.ZipFile(archive) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    programs = dict(_find_programs(files))
    info = f"mprun_kernel-{version}.dist-info"
    crates = sorted({crate for name in programs for crate in _crates_of(name)})
    licences = {
        "GPL-2.0-only.txt": (ROOT / "LICENSES" / "GPL-2.0-only.txt").read_bytes(),
        "Apache-2.0.txt": (ROOT / "LICENSE").read_bytes(),
        **{f"{package}.txt": _copyright_of(package) for package in _libraries(programs)},
    }
    if crates:
        licences["crates.txt"] = _licences_of(crates).encode()
    tag = f"py3-none-{_platform(files, programs)}"
    named = "".join(f"License-File: {name}\n" for name in sorted(licences))
    metadata = METADATA.format(version=version, files=named, text=files[installation.NOTICE].decode())
    contents = {
        f"{BUILT}/__init__.py": b'"""An experiment kernel and traffic tools. mprun finds them here."""\n',
        **{f"{BUILT}/{name}": content for name, content in files.items()},
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: mprun\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        **{f"{info}/licenses/{name}": content for name, content in licences.items()},
        f"{info}/sboms/mprun-kernel.cdx.json": _list_parts(version, files, programs, crates),
    }
    contents[f"{info}/RECORD"] = _record(contents, f"{info}/RECORD")
    target = folder / f"mprun_kernel-{version}-{tag}.whl"
    executables = {f"{BUILT}/{name}" for name in programs.values()}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name, DAY)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (stat.S_IFREG | (0o755 if name in executables else 0o644)) << 16
            wheel.writestr(member, content)
    missing = sorted(set(TOOLS) - set(programs))
    print(f"{target.name}: {', '.join(programs)}{'; not built: ' + ', '.join(missing) if missing else ''}")


def _find_programs(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield each program's name and its member: those of the kernel, and the executable of each tool."""
    for name in PROGRAMS:
        yield name, f"{installation.KERNEL}/{name}"
    for member in sorted(files):
        if member.endswith(f"/{TOOL_FACTS}"):
            name = json.loads(files[member])["name"]
            yield name, f"{member.removesuffix(TOOL_FACTS)}{TOOLS[name].executable}"


def _libraries(programs: Mapping[str, str]) -> list[str]:
    return sorted({package for name, package in STATIC_LIBRARIES.items() if name in programs})


def _copyright_of(package: str) -> bytes:
    path = COPYRIGHT / package / "copyright"
    if not path.exists():
        sys.exit(f"dist: {path} is missing, which has the licence of what is linked: apt-get install {package}")
    return path.read_bytes()


def _platform(files: Mapping[str, bytes], programs: Mapping[str, str]) -> str:
    """Return the tag of PEP 600 of the newest glibc that a program names."""
    needed = [
        (int(major), int(minor))
        for name, member in programs.items()
        if name != STATIC
        for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)\b", files[member])
    ]
    # x86-64 began with glibc 2.5 for manylinux
    major, minor = max([(2, 5), *needed])
    return f"manylinux_{major}_{minor}_x86_64"


def _crates_of(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the crates of a program that were fetched for this machine: name, version and SHA-256."""
    recipe = TOOLS.get(name)
    if recipe is None or not (recipe.folder / "Cargo.lock").exists():
        return
    found = 0
    for package in tomllib.loads((recipe.folder / "Cargo.lock").read_text())["package"]:
        if "checksum" in package and _find_crate(package["name"], package["version"]):
            found += 1
            yield package["name"], package["version"], package["checksum"]
    if not found:
        sys.exit(f"dist: no crate of {name} is in {CRATES}, so that its licences are not known: build it here")


def _find_crate(name: str, version: str) -> Path | None:
    return next(CRATES.glob(f"*/{name}-{version}"), None)


def _licences_of(crates: list[tuple[str, str, str]]) -> str:
    """Return the licence texts of crates, each text once, below the names of the crates that have it."""
    texts: dict[str, list[str]] = {}
    for name, version, _ in crates:
        folder = _find_crate(name, version)
        assert folder is not None
        title = f"{name} {version} ({_expression(folder)})"
        paths = sorted({path for pattern in LICENCE_NAMES for path in folder.glob(pattern) if path.is_file()})
        for text in [path.read_text(errors="replace").strip() for path in paths] or ["No text is in the crate."]:
            texts.setdefault(text, []).append(title)
    rule = "=" * 80
    return "".join(f"{rule}\n{chr(10).join(titles)}\n{rule}\n\n{text}\n\n" for text, titles in texts.items())


def _expression(folder: Path) -> str:
    package = tomllib.loads((folder / "Cargo.toml").read_text())["package"]
    return str(package.get("license") or f"see {package.get('license-file', 'its files')}")


def _list_parts(
    version: str, files: Mapping[str, bytes], programs: Mapping[str, str], crates: list[tuple[str, str, str]]
) -> bytes:
    """Return the list of parts (CycloneDX 1.5): the programs, Linux, the linked libraries and the crates."""
    kernel = json.loads(files[f"{installation.KERNEL}/{FACTS}"])
    number = kernel["version"].removesuffix("-mprun")
    parts: list[dict[str, Any]] = [
        {"type": "file", "name": member, "hashes": _hash(hashlib.sha256(files[member]).hexdigest())}
        for member in programs.values()
    ]
    parts.append(
        {
            "type": "operating-system",
            "name": "linux",
            "version": number,
            "description": f"{Path(kernel['source']).name}, with the changes in {installation.RECIPE}/",
            "licenses": [{"license": {"id": "GPL-2.0-only"}}],
        }
    )
    parts += [{"type": "library", "name": package, "version": _version_of(package)} for package in _libraries(programs)]
    for name, crate_version, checksum in crates:
        folder = _find_crate(name, crate_version)
        assert folder is not None
        parts.append(
            {
                "type": "library",
                "name": name,
                "version": crate_version,
                "purl": f"pkg:cargo/{name}@{crate_version}",
                "hashes": _hash(checksum),
                "licenses": [{"license": {"name": _expression(folder)}}],
            }
        )
    about = {"component": {"type": "application", "name": "mprun-kernel", "version": version}}
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": parts}
    return (json.dumps(bom, indent=1) + "\n").encode()


def _hash(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]


def _version_of(package: str) -> str:
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True).stdout


def _record(contents: Mapping[str, bytes], own: str) -> bytes:
    """Return the list of files with their digests, as pip checks them (PEP 427)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(content)])
    writer.writerow([own, "", ""])
    return text.getvalue().encode()


if __name__ == "__main__":
    main()
