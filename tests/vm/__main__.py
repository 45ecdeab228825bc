# SPDX-License-Identifier: Apache-2.0
"""Run the real engine's tests on distributions' own kernels."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mprun.machine.scratch import scratch
from tests.vm import image, kernel, machine, store, table
from tests.vm.keys import with_keys
from tests.vm.payload import Order, make_payload
from tests.vm.release import RELEASES, Architecture, Release
from tests.vm.suite import LACKING, find_tests

# The tests that run in every machine. The other tests are those of the suite.
GUEST = "tests/vm/guest.py"
LABS = "tests/vm/labs.py"
# The short form: lab 01, ends of a run, captures, and the needs of an ordinary user.
SHORT = "first_lab or ends_a_run or captures_under or doctor or refused"
SHORT_USER = "jitter_and_loss"
# The packages of the programs that make and run a machine.
PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "depmod": "kmod",
    "zstd": "zstd",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-system-aarch64": "qemu-system-arm",
}
# The longest time of a machine, s. Other programs of the host may use most of its processors.
TIMEOUT_S = 4 * 3600.0


def orders(is_short: bool, words: Sequence[str], as_user: bool) -> list[Order]:
    """Return the calls of pytest in a machine.

    words: the arguments of a call that replaces all others. as_user: an ordinary user makes this call.
    """
    if words:
        return [Order("asked", "user" if as_user else "root", tuple(words))]
    if is_short:
        return [Order("root", "root", (GUEST, "-k", SHORT)), Order("user", "user", (GUEST, "-k", SHORT_USER))]
    suite = tuple(name for name in find_tests() if name not in LACKING)
    return [
        Order("root", "root", (GUEST,)),
        Order("user", "user", (GUEST,)),
        Order("suite", "root", suite),
        Order("labs", "root", (LABS,)),
    ]


def run_release(release: Release, wanted: Sequence[Order], output: Path) -> dict[str, list[table.Result]]:
    """Run a machine with a release's kernel. Return the results of each order. Logs go to `output`."""

    def say(text: str) -> None:
        print(f"vm {release.name}: {text}", flush=True)

    began = time.monotonic()
    trusted = replace(release, kernel=with_keys(release.kernel, say), system=with_keys(release.system, say))
    kernel_folder = store.keep(
        f"kernel-{release.name}-{release.digest()}", lambda folder: kernel.unpack(trusted, folder), say
    )
    kept = kernel.read_kernel(kernel_folder, release.kernel.architecture)
    root = store.keep(image.name_of(release.system), lambda folder: image.make_image(trusted.system, folder), say)
    with scratch("mprun-vm-") as folder:
        payload = make_payload(kept, wanted, folder)
        with_kvm = machine.has_kvm(kept)
        say(f"booting {release.title}, {kept.release}, {'KVM' if with_kvm else 'TCG'}")
        left = machine.run(kept, root / "root.img", payload, folder, TIMEOUT_S, with_kvm, say)
        place = output / release.name
        shutil.rmtree(place, ignore_errors=True)
        if left is not None:
            shutil.copytree(left, place)
        else:
            place.mkdir(parents=True)
        shutil.copy(folder / "console", place)
    say(f"{time.monotonic() - began:.0f} s in all; logs are in {place}")
    found = {}
    for order in wanted:
        reports = list(place.rglob(f"{order.name}.xml"))
        results = table.read_results(reports[0]) if reports else []
        found[f"{release.name} {order.name}"] = results or [
            table.Result("all", "failed", 0, "no test ran: its log says why, or the console")
        ]
    return found


def missing_programs(wanted: Iterable[Architecture], path: str = f"{os.defpath}:/sbin:/usr/sbin") -> list[str]:
    """Return the programs that machines of these architectures need and that are not installed."""
    needed = ["mmdebstrap", "mke2fs", "depmod", "zstd", *(one.emulator for one in wanted)]
    return [program for program in needed if shutil.which(program, path=path) is None]


def main() -> int:
    """Return 0 if no test failed, 1 if a test failed, 3 if this machine cannot run any."""
    parser = argparse.ArgumentParser(prog="make vm", description=__doc__)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"One of {', '.join(RELEASES)}.")
    parser.add_argument("--short", action="store_true", help="Run the short form, of some minutes.")
    parser.add_argument("--pytest", metavar="WORDS", default="", help="Give pytest these words instead of all tests.")
    parser.add_argument("--user", action="store_true", help="With --pytest: as an ordinary user, not as root.")
    parser.add_argument("--output", type=Path, default=Path("build/vm"), help="The folder of the logs.")
    given = parser.parse_args()
    names = given.kernels or ["6.12"]
    if unknown := [name for name in names if name not in RELEASES]:
        parser.error(f"no kernel '{unknown[0]}': write one of {', '.join(RELEASES)}")
    if missing := missing_programs({RELEASES[name].kernel.architecture for name in names}):
        packages = " ".join(PACKAGES[program] for program in missing)
        print(f"make vm needs {', '.join(missing)}: apt-get install {packages}", file=sys.stderr)
        return 3
    if os.geteuid() != 0:
        # to make the image of a system; the cache is the invoker's
        os.execvp("sudo", ["sudo", sys.executable, "-m", "tests.vm", *sys.argv[1:]])
    # a process that is asked to end ends its machine and removes its files first
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    wanted = orders(given.short, shlex.split(given.pytest), given.user)
    columns: dict[str, list[table.Result]] = {}
    for name in names:
        found = run_release(RELEASES[name], wanted, given.output)
        columns |= found
        if len(names) > 1:
            # the results of a kernel stay on the screen whatever happens to the next one
            print(table.draw(found), flush=True)
    print(table.draw(columns))
    if not given.short and not given.pytest:
        print("\n".join(f"- not run, needs {what}: {name}" for name, what in LACKING.items()))
    return int(any(result.verdict == "failed" for results in columns.values() for result in results))


if __name__ == "__main__":
    sys.exit(main())
