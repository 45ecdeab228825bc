# SPDX-License-Identifier: Apache-2.0
"""The subjects of a search: versions of a kernel, or of a program of the user's own. Each is built in its own way."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from mprun.errors import RunError, show_failure
from mprun.kernel.build import build as build_kernel
from mprun.kernel.store import DEFAULT_NAME, find_kernel, list_kernels, remove
from mprun.machine.cache import Progress

# The kernel's name, which keeps one tree for all searches.
KERNEL = "bisect"


class BuildSubject(Protocol):
    """A version that can be built.

    - KEEPS_CHECKOUT: the checkout is large, and is kept for the next search.
    - kernel: the name of the kernel to boot, after `build`.
    - parameters: of the experiment's files.
    """

    KEEPS_CHECKOUT: ClassVar[bool]

    @property
    def kernel(self) -> str: ...

    @property
    def parameters(self) -> dict[str, str]: ...

    def build(self, tree: Path, progress: Progress) -> None:
        """Build the version in `tree`. Raises RunError or UnfitTree if it does not build."""

    def keep_only(self, kernels: set[str]) -> None:
        """Remove what was built, except these kernels."""


@dataclass
class KernelTree:
    """Versions of Linux. made: the kernels that did not exist before, by name."""

    KEEPS_CHECKOUT: ClassVar[bool] = True
    jobs: int
    kernel: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def build(self, tree: Path, progress: Progress) -> None:
        """Build a kernel incrementally. It is booted by its digest, so no other search can replace it."""
        before = {kernel.directory for kernel in list_kernels()}
        kernel, _ = build_kernel(tree, KERNEL, self.jobs, progress)
        self.kernel = kernel.directory.name
        if kernel.directory not in before:
            self.made.add(self.kernel)

    def keep_only(self, kernels: set[str]) -> None:
        for name in sorted(self.made - kernels):
            remove(find_kernel(name))


@dataclass
class OwnProgram:
    """Versions of a user's program. command: builds it in its folder, by sh(1)."""

    KEEPS_CHECKOUT: ClassVar[bool] = False
    command: str
    kernel: str = DEFAULT_NAME
    parameters: dict[str, str] = field(default_factory=dict)

    def build(self, tree: Path, progress: Progress) -> None:
        self.parameters = {"tree": str(tree)}
        progress("building", 0)
        done = subprocess.run(
            ["sh", "-c", self.command],
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        )
        if done.returncode:
            said = show_failure(done.stdout)
            raise RunError(f"`{self.command}` ended with status {done.returncode}\n{said}")

    def keep_only(self, kernels: set[str]) -> None:
        """Do nothing: a program is built in its checkout."""
