# SPDX-License-Identifier: Apache-2.0
"""What setup.cfg cannot say: labs and schemas, at the top of a checkout, go into the package that is installed.

`mprun.machine.packaged` finds them in either place.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SHIPPED = ("labs", "schemas")


def _left_by_runs(folder: str, names: list[str]) -> list[str]:
    """What somebody's runs left in a lab: their directories, and links into them."""
    paths = [Path(folder) / name for name in names]
    return [path.name for path in paths if path.name == "runs" or "runs" in _target(path).parts]


def _target(path: Path) -> Path:
    return path.readlink() if path.is_symlink() else Path()


class Build(build_py):
    """Modules and package data, and then what is shipped beside them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            target = Path(self.build_lib) / "mprun" / "shipped" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(name, target, ignore=_left_by_runs)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        shipped = [Path(self.build_lib) / "mprun" / "shipped" / name for name in SHIPPED]
        files = [os.path.join(top, file) for folder in shipped for top, _, files in os.walk(folder) for file in files]
        return [*super().get_outputs(include_bytecode), *files]


class SourceDistribution(sdist):
    """With links kept: of two names of one folder, setuptools takes the first."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for name in SHIPPED:
            shutil.copytree(name, Path(base_dir) / name, symlinks=True, ignore=_left_by_runs)


setup(cmdclass={"build_py": Build, "sdist": SourceDistribution})
