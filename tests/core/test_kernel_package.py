# SPDX-License-Identifier: Apache-2.0
"""The package mprun-kernel: a wheel with a kernel and tools, which mprun uses where pip has put it."""

from __future__ import annotations

import configparser
import csv
import hashlib
import importlib
import json
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.bundles.installation import export
from mprun.cli.kernel import command
from mprun.errors import MachineError, SpecError
from mprun.kernel import store
from mprun.kernel.recipe import recipe_digest
from mprun.runs.machine_check import MachineCheck, install_command
from mprun.workloads.built import PROGRAMS, program_store
from tests.core.test_store import put
from tests.pages import ROOT

DIGEST, OWN = "a" * 64, "b" * 64
RECIPE = recipe_digest((6, 12))


def make_wheel(archive: Path, folder: Path) -> Path:
    """Return the wheel that `make dist` makes of an archive."""
    folder.mkdir()
    argv = [sys.executable, f"{ROOT}/.ci/kernel_wheel.py", str(archive), str(folder), "0.1.0"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.iterdir()
    return wheel


def fill_cache(recipe: str = RECIPE) -> None:
    """Put a kernel that needs glibc 2.34 and the program for SCTP into the cache."""
    put(store.store(), DIGEST, "default", recipe=recipe)
    folder = store.store() / DIGEST[:16]
    (folder / "linux").write_bytes(b"\x7fELF\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.2.5\0")
    # glibc is inside of init
    (folder / "init").write_bytes(b"\x7fELF\0GLIBC_2.36\0")
    facts = json.loads((folder / "kernel.json").read_text())
    facts["files"] = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in facts["files"]}
    (folder / "kernel.json").write_text(json.dumps(facts))
    tool = PROGRAMS["cmtsctp"]
    made = program_store.store() / "made"
    made.mkdir(parents=True)
    (made / tool.executable).write_text("#!/bin/sh\n")
    (made / tool.executable).chmod(0o755)
    tool.put(made, made.with_name(tool.digest[:16]), "1", "gcc", 1.0)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel of a kernel and a tool that another user has built."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        fill_cache()
        export(store.find_kernel(), folder / "kernel.mprun-kernel.zip")
    return make_wheel(folder / "kernel.mprun-kernel.zip", folder / "dist")


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which pip has installed the wheel. This user has built nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(MachineError, match="no experiment kernel"):
        store.find_kernel()
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", f"--target={tmp_path / 'lib'}"]
    subprocess.run([*argv, wheel], check=True, timeout=120)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    importlib.invalidate_caches()
    return tmp_path / "lib" / "mprun_kernel"


def test_the_kernel_of_the_package_is_the_default(installed: Path) -> None:
    kernel = store.find_kernel()
    assert (kernel.name, kernel.digest, kernel.directory) == ("default", DIGEST, installed / "kernel")
    assert store.is_current(kernel)
    # a run names its kernel by the digest
    assert store.find_kernel(DIGEST[:16]).directory == installed / "kernel"
    assert [one.name for one in store.list_kernels()] == ["default"]
    assert not store.store().exists()


def test_a_tool_of_the_package_is_used(installed: Path) -> None:
    found = program_store.find("cmtsctp")
    assert found is not None
    assert found.path == str(installed / "tools" / PROGRAMS["cmtsctp"].digest[:16] / "cmtsctp")
    assert program_store.find("quic") is None


def test_what_the_user_has_built_comes_first(installed: Path) -> None:
    put(store.store(), OWN, "default", recipe=RECIPE)
    assert store.find_kernel().digest == OWN
    assert [(one.name, one.digest) for one in store.list_kernels()] == [("default", OWN), (DIGEST[:16], DIGEST)]
    assert store.find_kernel(DIGEST[:16]).directory == installed / "kernel"


def test_only_pip_removes_the_kernel_of_the_package(installed: Path) -> None:
    refused = CliRunner().invoke(command, ["rm", "--yes", "default"])
    assert isinstance(refused.exception, SpecError)
    assert "pip uninstall mprun-kernel" in str(refused.exception)
    put(store.store(), OWN, "default", recipe=RECIPE)
    assert CliRunner().invoke(command, ["rm", "--yes", "default"]).exit_code == 0
    assert store.find_kernel().directory == installed / "kernel"


def test_a_changed_kernel_of_the_package_is_refused(installed: Path) -> None:
    (installed / "kernel" / "linux").write_bytes(b"another program")
    with pytest.raises(MachineError, match="linux is not the file that was built"):
        store.find_kernel()


def test_the_remedy_for_a_kernel_of_another_version(installed: Path) -> None:
    assert store.find_update(store.find_kernel()) == "install mprun and mprun-kernel of one version"
    put(store.store(), OWN, "default", recipe="older")
    assert "`mprun kernel rm default`" in store.find_update(store.find_kernel())


def test_without_the_package_the_remedy_is_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    put(store.store(), OWN, "default", recipe="older")
    assert store.find_update(store.find_kernel()) == "run `mprun kernel build`"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is called by sudo")
def test_under_sudo_root_leaves_a_users_package_alone(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (installed / "tools").rglob("*"):
        os.chown(path, 65534, 65534)
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    assert program_store.find("cmtsctp") is None
    os.chown(installed / "tools", 65534, 65534)
    assert program_store.find("cmtsctp", as_user=True) is not None


def test_the_platform_is_the_newest_glibc_that_a_program_names(wheel: Path) -> None:
    assert wheel.name == "mprun_kernel-0.1.0-py3-none-manylinux_2_34_x86_64.whl"


def test_a_wheel_lists_its_files_licences_and_parts(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
        (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(files[record].decode().splitlines()))
    assert [name for name, _, _ in rows] == list(files)
    for name, digest, size in rows[:-1]:
        sha256 = urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        assert (digest, size) == (f"sha256={sha256}", str(len(files[name])))
    info = record.removesuffix("/RECORD")
    lines = files[f"{info}/METADATA"].decode().splitlines()
    named = [line.split()[1] for line in lines if line.startswith("License-File")]
    assert named == ["Apache-2.0.txt", "GPL-2.0-only.txt", "libc6-dev.txt", "libusrsctp-dev.txt"]
    assert all(files[f"{info}/licenses/{name}"] for name in named)
    parts = {one["name"]: one for one in json.loads(files[f"{info}/sboms/mprun-kernel.cdx.json"])["components"]}
    assert parts["linux"]["version"] == "6.12.117"
    linux = hashlib.sha256(files["mprun_kernel/kernel/linux"]).hexdigest()
    assert parts["kernel/linux"]["hashes"] == [{"alg": "SHA-256", "content": linux}]
    assert "mprun_kernel/recipe/config.fragment" in files


def test_equal_archives_give_equal_wheels(wheel: Path, tmp_path: Path) -> None:
    again = make_wheel(wheel.parents[1] / "kernel.mprun-kernel.zip", tmp_path / "dist")
    assert again.read_bytes() == wheel.read_bytes()


def test_mprun_asks_for_the_kernel_of_its_version() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    asked = [line for line in settings["options.extras_require"]["all"].splitlines() if line.startswith("mprun-kernel")]
    assert [line.partition(";")[0] for line in asked] == [f"mprun-kernel=={settings['metadata']['version']}"]


def test_one_command_installs_all_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [
        MachineCheck("tshark", "mprun packets", False, "not installed", "apt-get install tshark", "tshark"),
        MachineCheck("curl", "http", False, "not installed", "apt-get install curl", "curl"),
        MachineCheck("nginx", "http", True, "1.22", "apt-get install nginx", "nginx"),
        MachineCheck("wireshark", "mprun wireshark", False, "not installed", "apt-get install wireshark"),
    ]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert install_command(checks) == "sudo apt-get install --no-install-recommends curl tshark"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert install_command(checks) == "apt-get install --no-install-recommends curl tshark"
    assert install_command(checks[2:]) is None
