# SPDX-License-Identifier: Apache-2.0
"""A distribution's kernel: its packages unpacked, and the initrd that mounts the image and starts its init."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.vm.packages import download
from tests.vm.release import AMD64, Architecture, Release

BUSYBOX = "busybox-static"
BOOT = Path(__file__).with_name("boot.sh")
# Modules that the initrd needs to mount the disks. A kernel may have them built in.
DISK_MODULES = ("virtio_pci", "virtio_blk", "ext4")


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache. release: as in `uname -r`."""

    folder: Path
    release: str
    architecture: Architecture = AMD64

    @property
    def image(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def modules(self) -> Path:
        """The folder that becomes /lib/modules."""
        return self.folder / "modules"


def read_kernel(folder: Path, architecture: Architecture) -> Kernel:
    """Return the kernel that `unpack` wrote into a folder."""
    return Kernel(folder, next((folder / "modules").iterdir()).name, architecture)


def unpack(release: Release, folder: Path) -> None:
    """Download a kernel, and write `vmlinuz`, `modules` and `initrd` into `folder`."""
    packages = folder / "packages"
    packages.mkdir()
    tree = folder / "tree"
    for package in download(release.kernel, (*release.packages, BUSYBOX), packages):
        subprocess.run(["dpkg", "-x", package, tree], check=True)
    shutil.rmtree(packages)
    shutil.copy(next((tree / "boot").glob("vmlinuz-*")), folder / "vmlinuz")
    # if /lib is a link of the system, a package may have its files below /usr
    libraries = next(place for place in (tree / "lib", tree / "usr/lib") if (place / "modules").is_dir())
    os.rename(libraries / "modules", folder / "modules")
    (kernel,) = (folder / "modules").iterdir()
    (tree / "lib").mkdir(exist_ok=True)
    os.symlink(folder / "modules", tree / "lib" / "modules")
    subprocess.run(["depmod", "-b", tree, kernel.name], check=True, stderr=subprocess.DEVNULL)
    busybox = next(path for path in (tree / "bin/busybox", tree / "usr/bin/busybox") if path.exists())
    (folder / "initrd").write_bytes(make_initrd(kernel, busybox.read_bytes()))
    shutil.rmtree(tree)


def make_initrd(modules: Path, busybox: bytes) -> bytes:
    """Return an initrd: Busybox, the modules of disks in the order of loading, and `boot.sh` as the first program."""
    loaded = order(DISK_MODULES, (modules / "modules.dep").read_text())
    files = {"init": (BOOT.read_bytes(), 0o755), "bin/busybox": (busybox, 0o755)}
    for number, name in enumerate(loaded):
        files[f"modules/{number:02}-{Path(name).name.split('.')[0]}.ko"] = (decompress(modules / name), 0o644)
    return cpio(("bin", "dev", "modules", "proc", "root", "sys"), files)


def order(names: Iterable[str], dependencies: str) -> list[str]:
    """Return the files of modules, each after the modules that it needs.

    dependencies: the text of modules.dep. A module that is not named there is built in.
    """
    needed = {file: rest.split() for file, _, rest in (line.partition(":") for line in dependencies.splitlines())}
    found: list[str] = []
    for name in names:
        for file in needed:
            if Path(file).name.split(".")[0].replace("-", "_") == name:
                # modules.dep lists the module that is loaded first at the end
                found += [one for one in (*reversed(needed[file]), file) if one not in found]
    return found


def decompress(module: Path) -> bytes:
    """Return a module as busybox can load it."""
    if module.suffix == ".xz":
        return lzma.decompress(module.read_bytes())
    if module.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", module], capture_output=True, check=True).stdout
    return module.read_bytes()


def cpio(folders: Iterable[str], files: dict[str, tuple[bytes, int]]) -> bytes:
    """Return an archive in cpio's format `newc`, which the kernel accepts as an initrd (initramfs, buffer format)."""
    entries = [(name, 0o040755, b"") for name in folders]
    entries += [(name, 0o100000 | mode, data) for name, (data, mode) in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    archive = b""
    for number, (name, mode, data) in enumerate(entries, start=1):
        encoded = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        archive += _padded(header + encoded) + _padded(data)
    return archive


def _padded(data: bytes) -> bytes:
    """Return the data, padded to a multiple of four bytes."""
    return data + b"\0" * (-len(data) % 4)
