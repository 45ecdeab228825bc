# SPDX-License-Identifier: Apache-2.0
"""Change this machine's files at moments of runs, as upgrades do, and count the runs that then differ.

    upgrades.py [--moments 20] [--runs 30]

- --moments: runs for each kind of change, whose moments are spread evenly over the duration of a run.
- --runs: runs of a sweep, beside which dpkg(1) installs a package with a program and a library.

A run must equal a run without a change, made just before it, byte by byte. If a file changes while the agent works, the
run must also say so. No run of the sweep may differ from that of a sweep without a package, or keep a warning.

The changes are made in an overlay over the file system (mount(8)), in a mount namespace that ends with the program, so
the machine's own files stay as they are. This needs root. The exit status is 1 if a run differs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kill import ROOT, Place, lay_out, leave_alone

EXPERIMENT = """\
version: 1
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 3s}
  - {name: calls, tool: reqres, from: client, to: server, start: 1s, requests: 20, think: 50ms}
hosts: {"*": {mptcp: {path_manager: fullmesh}}}
capture: [{host: client, snaplen: 100}]
"""
# The raw results of a run, without the logs of mprun itself.
OF_RUN = ("pcap/*", "steps.jsonl", "agent.json", "record.gz", "logs/bulk.*", "logs/calls.*")
INSIDE = "MPRUN_UPGRADES_INSIDE"
FOLDER = Path("/tmp/upgrades")
Change = Callable[[], object]


@dataclass
class Count:
    """The findings of a kind of change."""

    name: str
    equal: int = 0
    said: int = 0
    different: list[str] = field(default_factory=list)


def enter_overlay() -> None:
    """Start this program again in a mount namespace, with an overlay in place of the file system."""
    if os.geteuid() != 0:
        sys.exit("upgrades.py needs root: it mounts an overlay over the file system")
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable, __file__, *sys.argv[1:]]
    os.execvpe(words[0], words, {**os.environ, INSIDE: "1"})


def change_root(folder: Path) -> None:
    """Mount the overlay below an existing folder, and make it the root of this process."""
    mount = partial(subprocess.run, check=True)
    mount(["mount", "-t", "tmpfs", "none", folder])
    upper, work, merged = (folder / name for name in ("upper", "work", "merged"))
    for path in (upper, work, merged):
        path.mkdir()
    mount(["mount", "-t", "overlay", "none", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", merged])
    mount(["mount", "-t", "proc", "proc", merged / "proc"])
    for path in (Path("/dev"), Path("/sys"), ROOT, Path.home()):
        mount(["mount", "--rbind", path, f"{merged}{path}"])
    os.chroot(merged)
    os.chdir("/")


def make_library(path: Path) -> None:
    """Compile a library with a name of its own, which ldconfig(8) adds to its cache."""
    source = FOLDER / "library.c"
    source.write_text("int upgraded(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, source], check=True)


def add_library(numbers: count[int]) -> None:
    """Add another library, and write the cache of libraries again."""
    make_library(Path(f"/usr/local/lib/libupgrades{next(numbers)}.so.1"))
    subprocess.run(["ldconfig"], check=True)


def replace(path: Path) -> None:
    """Put a longer file in a file's place, as dpkg(1) does. What follows an ELF file does not change its meaning."""
    new = path.with_name(f"{path.name}.dpkg-new")
    shutil.copy2(path, new)
    with new.open("ab") as longer:
        longer.write(bytes(5000))
    new.replace(path)


def make_package(folder: Path) -> Path:
    """Return a package with a program, a library and a file in /etc."""
    tree = folder / "package"
    for name in ("DEBIAN", "usr/bin", "usr/lib/x86_64-linux-gnu", "etc"):
        (tree / name).mkdir(parents=True)
    control = {
        "Package": "upgrades",
        "Version": "1",
        "Architecture": "amd64",
        "Maintainer": "nobody <nobody@localhost>",
    }
    lines = [f"{key}: {value}\n" for key, value in {**control, "Description": "changes files"}.items()]
    (tree / "DEBIAN/control").write_text("".join(lines))
    (tree / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
    shutil.copy2("/bin/true", tree / "usr/bin/upgrades")
    make_library(tree / "usr/lib/x86_64-linux-gnu/libupgrades.so.1")
    (tree / "etc/upgrades.conf").write_text("# nothing\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, folder / "upgrades.deb"], check=True, stdout=2)
    return folder / "upgrades.deb"


def install(package: Path) -> None:
    """Install a package, and remove it."""
    for words in (["--install", str(package)], ["--purge", "upgrades"]):
        subprocess.run(["dpkg", *words], check=True, capture_output=True)


def changes(package: Path) -> dict[str, Change]:
    """Return the kinds of change by name."""
    program = Path(shutil.which("iperf3") or sys.exit("iperf3 is missing")).resolve()
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    paths = {word.partition("/")[2]: Path(word).resolve() for word in listed.split() if word.startswith("/")}
    library = next(path for path in paths.values() if path.name.startswith("libiperf"))
    libc = next(path for path in paths.values() if path.name.startswith("libc"))
    return {
        "ldconfig, with another library": partial(add_library, count()),
        f"{libc.name} touched": partial(os.utime, libc),
        f"{library.name} replaced": partial(replace, library),
        f"{program.name} replaced": partial(replace, program),
        "a package installed and removed": partial(install, package),
    }


WORDS = ("-t", "topo", "-x", "xp", "-o", "out")


def contents(run: Path) -> dict[str, bytes]:
    """Return the raw results of a run."""
    return {str(path.relative_to(run)): path.read_bytes() for pattern in OF_RUN for path in run.glob(pattern)}


def compare(found: Count, name: str, whole: dict[str, bytes], run: Path) -> None:
    """Add a run with a change to the findings. whole: the raw results of a run without it."""
    found.said += (run / "changed.json").exists()
    others = contents(run)
    differ = sorted(path for path in whole.keys() | others.keys() if whole.get(path) != others.get(path))
    if differ:
        found.different.append(f"{name}: {', '.join(differ)}")
    else:
        found.equal += 1


def disturb(place: Place, name: str, change: Change, moments: int) -> Count:
    """Make runs with a change at each moment."""
    found = Count(name)
    for number in range(moments):
        took_s = leave_alone(place, WORDS)
        whole = contents((place.folder / "out/latest").resolve())
        at_s = (number + 0.5) / moments * took_s
        process = place.start(*WORDS)
        time.sleep(at_s)
        change()
        if process.wait() != 0:
            sys.exit(f"{name} at {at_s:.2f} s: status {process.returncode}:\n{place.said()}")
        compare(found, f"{name} at {at_s:.2f} s", whole, (place.folder / "out/latest").resolve())
    print(f"{name}: {found.equal} of {moments} equal", file=sys.stderr, flush=True)
    return found


def disturb_sweep(place: Place, package: Path, runs: int) -> tuple[Count, int]:
    """Install a package beside a sweep. Return the findings, and the number of runs that were made again."""
    path = place.folder / "many.yaml"
    path.write_text(f"{EXPERIMENT}repeat: {{runs: {runs}}}\n")
    words = ("sweep", "-t", "topo", "-x", "many", "-o")
    took_s = leave_alone(place, (*words, "calm"))
    process = place.start(*words, "disturbed")
    time.sleep(took_s / 2)
    install(package)
    if process.wait() != 0:
        sys.exit(f"the sweep beside dpkg ended with status {process.returncode}:\n{place.said()}")
    found = Count(f"sweep of {runs} runs beside dpkg")
    whole, disturbed = ((place.folder / name / "latest-sweep").resolve() for name in ("calm", "disturbed"))
    for run in sorted(whole.glob("runs/*/*")):
        compare(found, str(run.relative_to(whole)), contents(run), disturbed / run.relative_to(whole))
    return found, place.said().count("making it again")


def table(counts: Sequence[Count]) -> str:
    """Return the result as a Markdown table."""
    lines = ["| change | runs | equal to a run without it | say that a file changed |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {one.name} | {one.equal + len(one.different)} | {one.equal} | {one.said} |" for one in counts]
    return "\n".join(lines)


def main() -> None:
    """Count the runs that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    if INSIDE not in os.environ:
        enter_overlay()
    change_root(Path("/media"))
    place = lay_out(FOLDER, EXPERIMENT)
    package = make_package(FOLDER)
    counts = [disturb(place, name, change, options.moments) for name, change in changes(package).items()]
    sweep, again = disturb_sweep(place, package, options.runs)
    print(table([*counts, sweep]))
    print(f"{again} runs of the sweep were made again")
    different = [name for one in (*counts, sweep) for name in one.different]
    print("\n".join(different), end="\n" if different else "")
    sys.exit(bool(different) or bool(sweep.said))


if __name__ == "__main__":
    main()
