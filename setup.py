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

HERE = Path(__file__).resolve().parent
SHIPPED = ("labs", "schemas")


def _left_by_runs(folder: str, names: list[str]) -> list[str]:
    """Return what somebody's runs left in a lab: their directories, and links into them or to directories elsewhere."""
    return [name for name in names if _is_of_run((Path(folder) / name).resolve())]


def _is_of_run(path: Path) -> bool:
    return not path.is_relative_to(HERE) or "runs" in path.relative_to(HERE).parts


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
