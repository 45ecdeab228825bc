# SPDX-License-Identifier: Apache-2.0
"""The user space of a machine as a disk image: the distribution's packages that mprun needs, and Python's.

mmdebstrap makes the tree, pip installs the Python packages, and mke2fs makes the image. Needs root.
"""

from __future__ import annotations

import configparser
import platform
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.vm.release import ROOT, Archive, digest_of, packages_to_run

# Version of the image's content. Increase the number after each change.
FORMAT = 1
# Space for the tests' output beyond the content of the tree, MB.
SPARE_MB = 1024


def requirements() -> list[str]:
    """Return the Python packages that mprun and its tests need."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    needed = settings["options"]["install_requires"].split()
    return sorted([*needed, "pytest>=7.4"])


def system_packages() -> tuple[str, ...]:
    """Return the packages of a tree."""
    return packages_to_run((ROOT / "packages.txt").read_text())


def name_of(archive: Archive) -> str:
    """Return the name of the image of an archive's packages in the cache."""
    made = {"archive": asdict(archive), "packages": system_packages(), "python": requirements(), "format": FORMAT}
    return f"image-{archive.suite}-{archive.architecture.debian}-{digest_of(made)}"


def make_image(archive: Archive, folder: Path) -> None:
    """Write `root.img` into `folder`."""
    tree = folder / "tree"
    argv = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(system_packages())}"]
    argv += [f"--architectures={archive.architecture.debian}"]
    subprocess.run([*argv, archive.suite, tree, *archive.lines], check=True)
    (python,) = (path.name for path in (tree / "usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    target = tree / "usr/local/lib" / python / "dist-packages"
    install = [sys.executable, "-m", "pip", "install", "-q", f"--target={target}", "--only-binary=:all:"]
    install += ["--no-compile", "--disable-pip-version-check", "--implementation=cp"]
    platforms = [f"--platform={name}" for name in archive.architecture.platforms]
    install += [f"--python-version={python.removeprefix('python')}", *platforms]
    subprocess.run([*install, *requirements()], check=True)
    if archive.architecture.linux == platform.machine():
        # a translated Python would need half an hour; there, the machine compiles what it uses
        inside = f"/{target.relative_to(tree)}"
        subprocess.run(["chroot", tree, f"/usr/bin/{python}", "-m", "compileall", "-q", inside], check=True)
    for place in (tree / "var/cache/apt", tree / "var/lib/apt/lists"):
        subprocess.run(["find", place, "-type", "f", "-delete"], check=True)
    with (tree / "etc/passwd").open("a") as file:
        file.write("user:x:1000:1000::/home/user:/bin/sh\n")
    with (tree / "etc/group").open("a") as file:
        file.write("user:x:1000:\n")
    used = subprocess.run(["du", "-sm", tree], capture_output=True, text=True, check=True).stdout
    make_disk(tree, folder / "root.img", int(used.split()[0]) * 5 // 4 + SPARE_MB)
    subprocess.run(["rm", "-rf", "--one-file-system", tree], check=True)


def make_disk(tree: Path, image: Path, size_mb: int) -> None:
    """Make a sparse ext4 image of a tree of files."""
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0"]
    argv = ["mke2fs", *options, "-d", str(tree), str(image), f"{size_mb}M"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
