# SPDX-License-Identifier: Apache-2.0
"""The harness of `make vm`: packages of a distribution, the image that it boots, and the results that it reads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.vm.kernel import cpio, order
from tests.vm.packages import newest
from tests.vm.release import RELEASES, packages_to_run
from tests.vm.table import Result, draw, read_results

DEPENDENCIES = """\
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_pci_legacy_dev.ko.xz kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz
kernel/drivers/virtio/virtio_ring.ko.xz:
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio_ring.ko.xz
"""  # noqa: E501  as depmod writes it
REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.vm.guest" name="test_a[x]" time="12.3"/>
<testcase classname="tests.vm.guest" name="test_b" time="1.0"><failure message="assert 1 == 2&#10;more">...</failure></testcase>
<testcase classname="tests.vm.guest" name="test_c" time="0"><skipped message="no netem"/></testcase>
</testsuite></testsuites>
"""  # noqa: E501


def test_the_newest_kernel_of_a_version_is_taken() -> None:
    """Versions are compared as numbers. Packages of other versions and of debugging symbols are ignored."""
    names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-47-amd64"]
    names += ["linux-image-6.1.0-60-cloud-amd64-dbg", "linux-image-6.12.117+deb12-cloud-amd64"]
    names += ["linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.1.0-70-cloud-amd64-unsigned"]
    (old,), (new,) = RELEASES["6.1"].packages, RELEASES["6.12"].packages
    assert newest(old, names) == "linux-image-6.1.0-56-cloud-amd64"
    assert newest(new, names) == "linux-image-6.12.117+deb12-cloud-amd64"
    with pytest.raises(LookupError):
        newest(RELEASES["6.8"].packages[0], names)


def test_names_of_releases_are_what_the_makefile_says() -> None:
    assert re.search(r"^KERNEL \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()[0] in RELEASES  # type: ignore[index]


def test_what_running_needs_is_in_the_image() -> None:
    packages = packages_to_run((ROOT / "packages.txt").read_text())
    assert {"iperf3", "tcpdump", "openvswitch-switch", "apparmor"} <= set(packages)
    assert "gcc" not in packages


def test_modules_are_loaded_after_those_that_they_need() -> None:
    names = [Path(file).name.split(".")[0] for file in order(("virtio_pci", "virtio_blk", "ext4"), DEPENDENCIES)]
    assert names == ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci", "virtio_blk"]


@pytest.mark.skipif(subprocess.run(["sh", "-c", "command -v cpio"]).returncode != 0, reason="cpio is not installed")
def test_the_initrd_is_an_archive_that_cpio_reads(tmp_path: Path) -> None:
    archive = cpio(("bin", "dev"), {"init": (b"#!/bin/sh\n", 0o755), "bin/odd": (b"12345", 0o644)})
    subprocess.run(["cpio", "-i", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "init").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "init").stat().st_mode & 0o111
    assert (tmp_path / "bin" / "odd").read_bytes() == b"12345"


def test_results_become_a_table(tmp_path: Path) -> None:
    (tmp_path / "root.xml").write_text(REPORT)
    results = read_results(tmp_path / "root.xml")
    assert results == [
        Result("guest::test_a[x]", "passed", 12.3),
        Result("guest::test_b", "failed", 1.0, "assert 1 == 2"),
        Result("guest::test_c", "skipped", 0.0, "no netem"),
    ]
    lines = draw({"6.1 root": results, "6.12 root": results[:1]}).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["6.1", "root", "6.12", "root"],
        ["guest::test_a[x]", "✓", "12", "s", "✓", "12", "s"],
        ["guest::test_b", "✗", "1", "s"],
        ["guest::test_c", "-", "0", "s"],
    ]
    assert lines[4:] == ["✗ 6.1 root: guest::test_b: assert 1 == 2", "- 6.1 root: guest::test_c: no netem"]
