# SPDX-License-Identifier: Apache-2.0
"""Run a machine: QEMU with the host's KVM if it works, otherwise with its own translator (TCG).

The images are only read: data that the machine writes is discarded when it ends. The machine has no network. Its
results are a tar archive on its third disk.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mprun.engines.agent_process import die_with, end
from tests.vm.kernel import Kernel

# The time limit of a machine that only panics under KVM, s. It takes one or two.
TRIAL_S = 15.0
MEMORY_MB = 3072
RESULTS_MB = 256
POLL_S = 0.2
KVM_DEVICE = Path("/dev/kvm")
KVM = ("-accel", "kvm", "-cpu", "max", "-smp", "2")
# The machine's clock advances by 2 ns with each instruction, and jumps while the machine only waits. So a slow or busy
# host does not change the machine's view.
TCG = (*("-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-rtc", "clock=vm"), *("-smp", "1"))


def has_kvm(kernel: Kernel, device: Path = KVM_DEVICE, trial_s: float = TRIAL_S) -> bool:
    """Return whether KVM works here: a kernel without any disk panics, and QEMU ends.

    A virtual machine with a /dev/kvm of its own may be unable to run anything with it.
    """
    if kernel.architecture.linux != platform.machine() or not os.access(device, os.R_OK | os.W_OK):
        return False
    argv = [kernel.architecture.emulator, *kernel.architecture.machine, *("-accel", "kvm", "-cpu", "max", "-m", "512M")]
    argv += ["-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(kernel.image), "-append", "quiet panic=-1"]
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=trial_s)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def qemu_command(kernel: Kernel, root: Path, payload: Path, folder: Path, with_kvm: bool) -> list[str]:
    """Return the command line of a machine. The machine writes its console and its results into `folder`."""
    known = kernel.architecture
    options = ["root=/dev/vda", f"console={known.console}", "quiet", "panic=-1", "apparmor=1", "security=apparmor"]
    options += [] if with_kvm else known.quirks
    disk = "if=virtio,format=raw,file="
    return [
        known.emulator,
        *known.machine,
        *(KVM if with_kvm else (*TCG, *known.processor)),
        *("-m", f"{MEMORY_MB}M"),
        *("-nodefaults", "-display", "none", "-no-reboot", "-nic", "none"),
        *("-serial", f"file:{folder}/console"),
        *("-kernel", str(kernel.image), "-initrd", str(kernel.initrd), "-append", " ".join(options)),
        *("-drive", f"{disk}{root},snapshot=on"),
        *("-drive", f"{disk}{payload},snapshot=on"),
        *("-drive", f"{disk}{folder}/results"),
    ]


def run(
    kernel: Kernel,
    root: Path,
    payload: Path,
    folder: Path,
    timeout_s: float,
    with_kvm: bool,
    say: Callable[[str], None],
) -> Path | None:
    """Run a machine until it powers off. Return the folder of its results, or None if it has none.

    say: called with each line that the machine reports. A machine that takes longer than `timeout_s` is ended.
    """
    with (folder / "results").open("wb") as file:
        file.truncate(RESULTS_MB << 20)
    (folder / "console").touch()
    process = subprocess.Popen(
        qemu_command(kernel, root, payload, folder, with_kvm),
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
        preexec_fn=partial(die_with, os.getpid()),
    )
    deadline = time.monotonic() + timeout_s
    try:
        with (folder / "console").open(errors="replace") as console:
            rest = ""
            while process.poll() is None and time.monotonic() < deadline:
                *lines, rest = (rest + console.read()).split("\n")
                _report(lines, say)
                time.sleep(POLL_S)
            _report((rest + console.read()).split("\n"), say)
        if process.poll() is None:
            say(f"the machine is ended: it is not done after {timeout_s:.0f} s")
    finally:
        end(process)
    (folder / "left").mkdir()
    taken = subprocess.run(["tar", "-xf", folder / "results", "-C", folder / "left"], stderr=subprocess.DEVNULL)
    return None if taken.returncode or not any((folder / "left").iterdir()) else folder / "left"


def _report(lines: list[str], say: Callable[[str], None]) -> None:
    for line in lines:
        if line.startswith("vm: "):
            say(line.removeprefix("vm: ").strip())
