# SPDX-License-Identifier: Apache-2.0
"""Kernels of distributions: the release of the distribution that has each kernel, and the packages."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEBIAN = "http://deb.debian.org/debian"
DEBIAN_SECURITY = "http://deb.debian.org/debian-security"
DEBIAN_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
# Packages that the machine needs in addition to the packages for running experiments.
SYSTEM = ("apparmor", "kmod", "procps", "python3", "util-linux")


@dataclass(frozen=True)
class Architecture:
    """A processor: its name in Debian and elsewhere, and its machine in QEMU.

    - machine: options of QEMU for its machine
    - processor: options of QEMU if it translates the processor
    - console: the kernel's name of the first serial port
    - quirks: options of the kernel under translation
    """

    debian: str
    linux: str
    machine: tuple[str, ...]
    processor: tuple[str, ...]
    console: str
    quirks: tuple[str, ...]

    @property
    def emulator(self) -> str:
        return f"qemu-system-{self.linux}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of wheels that run there."""
        return tuple(f"{name}_{self.linux}" for name in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"))


# The kernel must not use compare-and-exchange of 16 bytes: Linux 6.12 faulted once in QEMU 7.2. The processor's random
# numbers stay. Without them, the first programs wait minutes for other sources.
AMD64 = Architecture("amd64", "x86_64", (), ("-cpu", "max"), "ttyS0", ("mitigations=off", "clearcpuid=cx16"))
# QEMU gives this machine a seed for its random numbers in the device tree.
ARM64 = Architecture("arm64", "aarch64", ("-machine", "virt"), ("-cpu", "cortex-a72"), "ttyAMA0", ("mitigations=off",))


@dataclass(frozen=True)
class Archive:
    """The sources from which apt gets the packages of a suite.

    - places: (address, suite there), the suite itself first
    - keys: the archive's keyring on this machine
    """

    places: tuple[tuple[str, str], ...]
    components: str
    keys: str
    architecture: Architecture = AMD64

    @property
    def suite(self) -> str:
        return self.places[0][1]

    @property
    def lines(self) -> list[str]:
        """The archive as lines of sources.list(5)."""
        return [f"deb [signed-by={self.keys}] {address} {suite} {self.components}" for address, suite in self.places]


@dataclass(frozen=True)
class Release:
    """A kernel with the user space of its distribution.

    packages: patterns of the packages with the kernel. The newest version of each is used.
    """

    name: str
    title: str
    kernel: Archive
    packages: tuple[str, ...]
    system: Archive

    def digest(self) -> str:
        """The name of the kernel's part of the cache."""
        return digest_of({"kernel": asdict(self.kernel), "packages": self.packages})


def _debian(suite: str, architecture: Architecture = AMD64) -> Archive:
    places = ((DEBIAN, suite), (DEBIAN_SECURITY, f"{suite}-security"))
    return Archive(places, "main", DEBIAN_KEYS, architecture)


def _cloud(version: str, architecture: Architecture = AMD64) -> tuple[str, ...]:
    """Return the kernel for virtual machines of one version of Linux.

    It lacks only drivers that the ordinary one has.
    """
    return (rf"linux-image-{re.escape(version)}[\d.+a-z-]*-cloud-{architecture.debian}",)


_NOBLE = Archive(((UBUNTU, "noble"), (UBUNTU, "noble-updates")), "main universe", UBUNTU_KEYS)
RELEASES = {
    release.name: release
    for release in (
        Release("6.1", "Debian 12", _debian("bookworm"), _cloud("6.1."), _debian("bookworm")),
        Release("6.12", "Debian 13", _debian("trixie"), _cloud("6.12."), _debian("trixie")),
        Release("6.12-deb12", "Debian 12, newer kernel", _debian("bookworm"), _cloud("6.12."), _debian("bookworm")),
        Release(
            "6.8",
            "Ubuntu 24.04",
            _NOBLE,
            tuple(rf"linux-{part}-6\.8\.0-\d+-generic" for part in ("image", "modules", "modules-extra")),
            _NOBLE,
        ),
        Release(
            "6.12-arm64", "Debian 13, arm64", _debian("trixie", ARM64), _cloud("6.12.", ARM64), _debian("trixie", ARM64)
        ),
    )
}


def release_of(suite: str) -> Release:
    """Return a release on x86-64 with the user space of a suite. Raises StopIteration."""
    return next(one for one in RELEASES.values() if (one.system.suite, one.system.architecture) == (suite, AMD64))


def packages_to_run(text: str) -> tuple[str, ...]:
    """Return the packages in `packages.txt` that are needed to run experiments."""
    part = re.search(r"^# to run experiments\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert part is not None, "packages.txt has no part 'to run experiments'"
    return tuple(sorted({*part[1].split("\n"), *SYSTEM} - {"python3-venv"}))


def digest_of(value: object) -> str:
    """Return a short digest of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
