# SPDX-License-Identifier: Apache-2.0
"""The harness of `make vm`: packages of a distribution, the image that it boots, and the results that it reads."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.vm.__main__ import PACKAGES, missing_programs, orders
from tests.vm.exchange import PACKAGES as EXCHANGED
from tests.vm.image import settle
from tests.vm.kernel import Kernel, cpio, order
from tests.vm.machine import has_kvm, qemu_command
from tests.vm.packages import newest
from tests.vm.payload import Order
from tests.vm.release import AMD64, ARM64, RELEASES, packages_to_run, release_of
from tests.vm.suite import LACKING, find_tests
from tests.vm.table import Result, draw, read_results
from tests.vm.translated import compare, with_loops

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


def test_every_test_in_real_time_runs_in_a_machine_or_says_what_it_needs() -> None:
    names = find_tests()
    assert LACKING.keys() <= set(names)
    # the two ways in which a test says that it uses the real engine
    assert "tests/system/test_real_time.py::test_rates_on_the_hosts_kernel" in names
    assert "tests/system/test_shell.py::test_prompt_on_the_network[real]" in names
    assert "tests/system/test_misfortune.py::test_full_disk[virtual]" not in names
    # whatever boots an experiment kernel says so
    assert not [name for name in names if "virtual" in name and name not in LACKING]


def test_words_of_ones_own_take_the_place_of_all_tests() -> None:
    assert orders(False, ["tests/vm/guest.py"], as_user=True) == [Order("asked", "user", ("tests/vm/guest.py",))]
    assert [(order.name, order.user) for order in orders(True, [], as_user=False)] == [
        ("root", "root"),
        ("user", "user"),
    ]
    calls = {order.name: order.words for order in orders(False, [], as_user=False)}
    assert list(calls) == ["root", "user", "suite", "labs"]
    assert not LACKING.keys() & set(calls["suite"])


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


# A QEMU that writes down how it was called, and then does what the test asks for.
FAKE_QEMU = """\
#!/bin/sh
printf '%s\\n' "$@" >"$CALLED"
ACTION
"""


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Kernel]:
    """Put a QEMU in the way of the installed one. Return what sets its action, a line of shell, and gives a kernel."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "qemu-system-x86_64"
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))

    def act(action: str) -> Kernel:
        program.write_text(FAKE_QEMU.replace("ACTION", action))
        program.chmod(0o755)
        return Kernel(tmp_path, "6.12.0")

    return act


@pytest.mark.parametrize(
    ("action", "works"), [("exit 0", True), ("exit 1", False), ("exec sleep 60", False)], ids=["ends", "fails", "hangs"]
)
def test_kvm_is_taken_where_a_kernel_runs_with_it(
    fake_qemu: Callable[[str], Kernel], tmp_path: Path, action: str, works: bool
) -> None:
    """A trial with a device that may be opened decides. A kernel that panics ends QEMU with status 0."""
    (tmp_path / "kvm").touch()
    assert has_kvm(fake_qemu(action), tmp_path / "kvm", trial_s=1 if "sleep" in action else 60) == works
    called = (tmp_path / "called").read_text().splitlines()
    assert called[:2] == ["-accel", "kvm"]
    assert called[called.index("-append") + 1] == "quiet panic=-1"
    assert called[called.index("-kernel") + 1] == str(tmp_path / "vmlinuz")


def test_a_machine_of_another_processor_has_its_own_qemu_and_packages(tmp_path: Path) -> None:
    """KVM is out of the question. The packages are only unpacked, so none of their programs runs here."""
    arm64 = Kernel(tmp_path, "6.12.0", ARM64)
    command = qemu_command(arm64, tmp_path / "root.img", tmp_path / "payload.img", tmp_path, with_kvm=False)
    options = dict(itertools.pairwise(command))
    assert (command[0], options["-machine"]) == ("qemu-system-aarch64", "virt")
    assert "console=ttyAMA0" in options["-append"].split()
    (tmp_path / "kvm").touch()
    assert not has_kvm(arm64, tmp_path / "kvm")
    assert RELEASES["6.12-arm64"].packages[0].endswith("-arm64")
    missing = missing_programs([ARM64], path=str(tmp_path))
    assert ARM64.emulator in missing
    assert {*missing, AMD64.emulator} == PACKAGES.keys()


def test_unpacked_packages_get_what_their_scripts_would_make(tmp_path: Path) -> None:
    """tcpdump's profile of AppArmor includes a file that a script makes. Without it, no profile is loaded."""
    for name in ("passwd", "group"):
        file = tmp_path / f"usr/share/base-passwd/{name}.master"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("root:*:0:\n")
    for folder in ("etc/apparmor.d/local", "etc/apparmor.d/abstractions", "usr/bin", "usr/sbin", "var/run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/apparmor.d/usr.bin.tcpdump").touch()
    settle(tmp_path)
    assert (tmp_path / "etc/passwd").read_text() == "root:*:0:\n"
    assert [path.name for path in (tmp_path / "etc/apparmor.d/local").iterdir()] == ["usr.bin.tcpdump"]
    assert (tmp_path / "usr/bin/awk").readlink() == Path("mawk")
    assert (tmp_path / "media").is_dir(), "the initrd mounts the second disk there"
    assert (tmp_path / "var/run").readlink() == Path("/run")


def test_the_tools_of_a_release_are_those_of_x86_64() -> None:
    assert release_of("trixie") == RELEASES["6.12"]
    names = ["libpython3.13-minimal", "libpython3.13-minimal-dbg", "python3.13-minimal", "python3.13", "python3.9"]
    assert [newest(pattern, names) for pattern in EXCHANGED if "python" in pattern and "-" not in pattern] == [
        "python3.13"
    ]


def test_a_translated_machine_clears_memory_in_loops(tmp_path: Path) -> None:
    """The kernel heeds only the last list of features, so that the new list has all of the old one."""
    kernel = Kernel(tmp_path, "6.1.0", with_loops(AMD64))
    command = qemu_command(kernel, tmp_path / "root.img", tmp_path / "payload.img", tmp_path, with_kvm=False)
    options = dict(itertools.pairwise(command))
    assert {"-erms", "-fsrm"} < set(options["-cpu"].split(","))
    (cleared,) = (word for word in options["-append"].split() if word.startswith("clearcpuid="))
    assert set(AMD64.quirks) - {"clearcpuid=cx16"} < set(options["-append"].split())
    assert cleared == "clearcpuid=cx16,rep_good"


def test_files_that_differ_between_machines_are_named() -> None:
    """A file that only one machine has differs, too."""
    ours = "01 xp_tcp pcap/a.pcap 1\n01 xp_tcp pcap/b.pcap 2\n01 xp_tcp logs/a.out 3\n"
    assert compare(ours, ours) == []
    theirs = "01 xp_tcp pcap/a.pcap 1\n01 xp_tcp pcap/b.pcap 9\n04 backup logs/a.out 3\n"
    assert compare(ours, theirs) == ["01 xp_tcp logs/a.out", "01 xp_tcp pcap/b.pcap", "04 backup logs/a.out"]


def test_without_a_device_kvm_is_not_tried(fake_qemu: Callable[[str], Kernel], tmp_path: Path) -> None:
    assert not has_kvm(fake_qemu("exit 0"), tmp_path / "kvm")
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("with_kvm", [True, False], ids=["KVM", "TCG"])
def test_a_machine_with_kvm_has_the_hosts_clock_and_processors(tmp_path: Path, with_kvm: bool) -> None:
    """Under TCG the clock follows the instructions of one processor, and the kernel avoids one of these."""
    kernel = Kernel(tmp_path / "kernel", "6.12.0")
    command = qemu_command(kernel, tmp_path / "root.img", tmp_path / "payload.img", tmp_path, with_kvm)
    options = dict(itertools.pairwise(command))
    assert options["-accel"].split(",")[0] == ("kvm" if with_kvm else "tcg")
    assert options["-smp"] == ("2" if with_kvm else "1")
    assert ("-icount" in command) != with_kvm
    assert ("clearcpuid=cx16" in options["-append"]) != with_kvm
    disks = [word for word in command if word.startswith("if=virtio")]
    assert [disk.split("file=")[1] for disk in disks] == [
        f"{tmp_path}/root.img,snapshot=on",
        f"{tmp_path}/payload.img,snapshot=on",
        f"{tmp_path}/results",
    ]
