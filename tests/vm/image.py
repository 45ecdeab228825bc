# SPDX-License-Identifier: Apache-2.0
"""The user space of a machine as a disk image: the distribution's packages that mprun needs, and Python's.

mmdebstrap makes the tree, pip installs the Python packages, and mke2fs makes the image. Needs root. Packages of another
processor are only unpacked, so that nothing runs in translation. Their scripts do not run.
"""

from __future__ import annotations

import configparser
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.vm.release import ROOT, Archive, digest_of, packages_to_run

# Version of the image's content. Increase the number after each change.
FORMAT = 1
# Space for the tests' output beyond the content of the tree, MB.
SPARE_MB = 1024
# Options of mmdebstrap: packages that are installed, or only unpacked.
NATIVE = ("--variant=minbase",)
FOREIGN = ("--variant=extract", "--skip=check/qemu", "--include=?or(?essential,?priority(required))")
# The links of update-alternatives(1) that a tree of unpacked packages needs.
LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/telnet": "inetutils-telnet",
    "usr/bin/which": "which.debianutils",
    "usr/sbin/ovs-vswitchd": "../lib/openvswitch-switch/ovs-vswitchd",
}


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
    is_native = archive.architecture.linux == platform.machine()
    argv = ["mmdebstrap", "--quiet", *(NATIVE if is_native else FOREIGN), f"--include={','.join(system_packages())}"]
    argv += [f"--architectures={archive.architecture.debian}"]
    subprocess.run([*argv, archive.suite, tree, *archive.lines], check=True)
    if not is_native:
        settle(tree)
    (python,) = (path.name for path in (tree / "usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    target = tree / "usr/local/lib" / python / "dist-packages"
    install = [sys.executable, "-m", "pip", "install", "-q", f"--target={target}", "--only-binary=:all:"]
    install += ["--no-compile", "--disable-pip-version-check", "--implementation=cp"]
    platforms = [f"--platform={name}" for name in archive.architecture.platforms]
    install += [f"--python-version={python.removeprefix('python')}", *platforms]
    subprocess.run([*install, *requirements()], check=True)
    if is_native:
        # in translation, compiling all would take half an hour; there, the machine compiles what it uses
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


def settle(tree: Path) -> None:
    """Make the files that tests need and that only the scripts of packages make."""
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / "etc" / name)
    (tree / "media").mkdir(exist_ok=True)
    # base-files makes a link of this folder, and what a run has in /run would stay in the other one
    (tree / "var/run").rmdir()
    (tree / "var/run").symlink_to("/run")
    for link, target in LINKS.items():
        (tree / link).symlink_to(target)
    profiles = tree / "etc/apparmor.d"
    for profile in [path for path in profiles.iterdir() if path.is_file()]:
        (profiles / "local" / profile.name).touch()


def make_disk(tree: Path, image: Path, size_mb: int) -> None:
    """Make a sparse ext4 image of a tree of files."""
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0"]
    argv = ["mke2fs", *options, "-d", str(tree), str(image), f"{size_mb}M"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
