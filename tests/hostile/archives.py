# SPDX-License-Identifier: Apache-2.0
"""Bundles from a stranger: names that lead outside, links, lies, damage, forgeries, commands."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mprun.bundles.archive import write_archive
from mprun.sweeps.study import name_folder
from tests.hostile import RUN, Finding, call, files_of, first_line
from tests.scenes import ONE_PATH

ENVIRONMENT = {"engine": "virtual", "kernel": {"version": "6"}, "versions": {}, "warnings": [], "python": "3"}
SUMMARY = json.loads((RUN / "summary.json").read_text())
COMMANDS = """\
version: 1
traffic: [{name: x, tool: exec, from: client, to: server, command: [sh, -c, "touch it_ran"]}]
"""
PYTHON = "extends: topo.py\nversion: 1\n"


def run_files(**changes: object) -> dict[str, bytes]:
    """Return the members of the bundle of a run, some of them changed. None removes a member."""
    files: dict[str, object] = {
        "artifacts.json": {"kind": "run", "name": "20260101-000000-topo-xp-0a1b2c3d", "runs": {".": {}}},
        "environment.json": ENVIRONMENT,
        "plan.json": json.loads((RUN / "plan.json").read_text()),
        "summary.json": SUMMARY,
        "inputs/resolved-topology.yaml": {},
        "inputs/resolved-experiment.yaml": {},
        **changes,
    }
    return {
        name: value.encode() if isinstance(value, str) else json.dumps(value).encode()
        for name, value in files.items()
        if value is not None
    }


def sealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the members with the digests of all artifacts among them."""
    told = json.loads(files["artifacts.json"])
    for name, content in files.items():
        match = re.fullmatch(r"(?:(runs/[^/]+/[0-9]+)/)?(summary\.json|steps\.jsonl|tables/.*|pcap/.*)", name)
        if match and (match[1] or told["kind"] == "run"):
            told["runs"].setdefault(match[1] or ".", {})[match[2]] = hashlib.sha256(content).hexdigest()
    return {**files, "artifacts.json": json.dumps(told).encode()}


REPEAT = {"seed": 1, "least": 2, "most": 2, "vary": [], "until": None}


def sweep_files(
    folder: str, title: str = "topo-xp", digest: str = "a" * 64, value: object = "reno", **repeat: object
) -> dict[str, bytes]:
    """Return the members of the bundle of a sweep with one cell and no run."""
    cell = {
        "values": {"cc": value},
        "folder": folder,
        "repeat": {**REPEAT, **repeat},
        "engine": "virtual",
        "kernel": "default",
    }
    record = {"format": 1, "title": title, "digest": digest, "cells": [cell], "across": [], "kernels": {}}
    return run_files(**{"artifacts.json": {"kind": "sweep", "name": "s", "runs": {}}, "sweep.json": record})


def artifacts(**changes: object) -> dict[str, bytes]:
    """Return the members of a run with another artifacts.json."""
    return run_files(**{"artifacts.json": {"kind": "run", "name": "r", "runs": {}, **changes}})


def environment(**changes: object) -> dict[str, bytes]:
    """Return the members of a run with another environment.json."""
    return sealed(run_files(**{"environment.json": {**ENVIRONMENT, **changes}}))


def inputs(topology: object, experiment: object) -> dict[str, bytes]:
    """Return the members of a run with other inputs."""
    names = {"inputs/resolved-topology.yaml": topology, "inputs/resolved-experiment.yaml": experiment}
    return sealed(run_files(**names))


# by the fault: members, and mprun's reason
FORMS: Mapping[str, tuple[dict[str, bytes], str]] = {
    "no list of artifacts": (run_files(**{"artifacts.json": None}), "it has no artifacts.json"),
    "an empty list": (run_files(), r"artifacts\.json does not name \./summary\.json: the bundle was changed"),
    "a changed summary": (
        {**sealed(run_files()), "summary.json": b"{}"},
        r"\./summary\.json is not what artifacts\.json says",
    ),
    "an added artifact": (
        {**sealed(run_files()), "steps.jsonl": b""},
        r"artifacts\.json does not name \./steps\.jsonl",
    ),
    "a changed artifact": (
        {**sealed({**run_files(), "steps.jsonl": b""}), "steps.jsonl": b"{}"},
        r"\./steps\.jsonl is not what",
    ),
    "an added table": (
        {**sealed(run_files()), "tables/requests.parquet": b"x"},
        r"does not name \./tables/requests\.parquet",
    ),
    "an added capture": ({**sealed(run_files()), "pcap/client.pcap": b"x"}, r"does not name \./pcap/client\.pcap"),
    "a run outside": (artifacts(runs={"../x": {}}), "names no run"),
    "no run": (artifacts(), "is not that of one run"),
    "a list nested deep": (
        {**run_files(), "artifacts.json": b"[" * 200_000},
        "it has no artifacts.json that can be read",
    ),
    "a plan nested deep": (
        {**sealed(run_files()), "plan.json": b"[" * 200_000},
        r"plan\.json: damaged: is nested too deep",
    ),
    "a folder as a plan": (
        {**{n: c for n, c in sealed(run_files()).items() if n != "plan.json"}, "plan.json/x": b""},
        "is a folder",
    ),
    "a name that leads out": (artifacts(name="../evil", runs={".": {}}), "its name is no name"),
    "dots as a name": (artifacts(name="..", runs={".": {}}), "its name is no name"),
    "a list of numbers": (run_files(**{"artifacts.json": [1]}), "it has no artifacts.json"),
    "an engine that is a number": (environment(engine=1), r"environment\.json: damaged: \.engine is not of its form"),
    "warnings that are no text": (environment(warnings=[{}]), r"damaged: \.warnings\[0\] is not of its form"),
    "no topology": (inputs(None, {}), "a run has no inputs/resolved-topology.yaml"),
    "a cell outside": (sweep_files("../../evil"), "is not named after its values"),
    "a title that leads out": (sweep_files("cc=reno", title="../evil"), "its title is no title"),
    "a digest that leads out": (sweep_files("cc=reno", digest="../../.."), "its sweep.json is not that of a sweep"),
    "a list as a value": (
        sweep_files(name_folder((("cc", ["reno"]),)), value=["reno"]),  # type: ignore[arg-type]
        r"sweep\.json: damaged: \.cells\[0\]\.values",
    ),
    "a trillion runs": (sweep_files("cc=reno", most=10**12), "its sweep.json is not that of a sweep"),
    "lists to vary": (sweep_files("cc=reno", vary=[[]]), r"repeat\.vary\[0\] is not of its form"),
    "a text as a number": (
        sweep_files("cc=reno", until={"metric": "x", "confidence": "95%", "within": 0.1}),
        r"repeat\.until\.confidence is not of its",
    ),
    "a sweep without runs": (sweep_files("cc=reno"), "it holds no run"),
    "commands": (inputs(ONE_PATH, COMMANDS), "--allow-exec"),
    "a Python topology": ({**inputs(PYTHON, {"version": 1}), "inputs/topo.py": b"open('it_ran', 'w')"}, "Python"),
    "a file of the user": (inputs("include: /etc/passwd\nversion: 1\n", {"version": 1}), "lies outside the folder"),
    "text that is not UTF-8": (
        {**sealed(run_files()), "inputs/resolved-topology.yaml": b"\xff\xfe\x00"},
        "UTF-8|cannot be read|not text",
    ),
}


def member(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    """Return a member of an archive."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


# a member that must not be unpacked: its name, its kind, and the reason
MEMBERS: Mapping[str, tuple[str, int, str]] = {
    "..": ("../evil", stat.S_IFREG, "leads out of the archive"),
    ".. inside": ("inputs/../../evil", stat.S_IFREG, "leads out of the archive"),
    "an absolute name": ("/etc/evil", stat.S_IFREG, "leads out of the archive"),
    "a double slash": ("inputs//evil", stat.S_IFREG, "leads out of the archive"),
    "a dot": ("./evil", stat.S_IFREG, "leads out of the archive"),
    "backslashes": ("in\\..\\evil", stat.S_IFREG, "has no name of a file"),
    "a drive": ("c:evil", stat.S_IFREG, "has no name of a file"),
    "an escape sequence": ("a\x1b[2Jb", stat.S_IFREG, "has no name of a file"),
    "a symbolic link": ("link", stat.S_IFLNK | 0o777, "is no plain file"),
    "a pipe": ("pipe", stat.S_IFIFO, "is no plain file"),
    "a device": ("null", stat.S_IFCHR | 0o666, "is no plain file"),
    "a name of 500 letters": ("n" * 500, stat.S_IFREG, "has no name of a file"),
}


def write_members(target: Path, name: str, mode: int) -> None:
    """Write an archive with a harmless member and another."""
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(member("harmless"), "x")
        archive.writestr(member(name, mode), "/etc/passwd")


def _twice(target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("plan.json", "1")
        archive.writestr("PLAN.json", "2")


def _damaged(target: Path) -> None:
    content = b"".join(f"{n * n}\n".encode() for n in range(1000))
    write_archive(target, {"plan.json": content})
    packed = bytearray(target.read_bytes())
    for n in range(100, 200):
        packed[n] ^= 0xFF
    target.write_bytes(packed)


def _half(target: Path) -> None:
    write_archive(target, sealed(run_files()))
    target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])


def _lying(target: Path) -> None:
    """Write an archive whose central directory gives 10 bytes for a member of 100,000."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plan.json", bytes(100_000))
    target.write_bytes(target.read_bytes().replace(struct.pack("<I", 100_000), struct.pack("<I", 10)))


def _encrypted(target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("plan.json", "{}")
    packed = bytearray(target.read_bytes())
    # the flags of the local header and of the central directory
    packed[6] |= 1
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    target.write_bytes(packed)


def _crowded(target: Path) -> None:
    """Write a central directory with 200,001 entries. zipfile would need eight seconds to write it."""
    entries = b"".join(
        struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0x21, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0) + b"%06d" % n
        for n in range(200_001)
    )
    # the count has 16 bits; readers use the length of the directory
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFE, 0xFFFE, len(entries), 0, 0)
    target.write_bytes(entries + end)


def _packed(method: int) -> Callable[[Path], None]:
    def write(target: Path) -> None:
        with zipfile.ZipFile(target, "w", method) as archive:
            archive.writestr("plan.json", "{}")

    return write


# by the fault: the function that writes the archive, and the reason
OTHERS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "a name twice": (_twice, "is there twice"),
    "a damaged member": (_damaged, r"no archive that can be read: it is damaged or cut off \(.*: copy it again"),
    "half an archive": (_half, r"no archive that can be read: it is damaged or cut off \(.*: copy it again"),
    "a size that is a lie": (_lying, "no archive that can be read|is larger than it says"),
    "an encrypted member": (_encrypted, "is encrypted"),
    "200,001 members": (_crowded, "200001 members: at most 200000 are unpacked"),
    "another packing": (_packed(zipfile.ZIP_LZMA), "is packed in another way"),
    "an older packing": (_packed(zipfile.ZIP_BZIP2), "is packed in another way"),
    "no archive": (lambda target: target.write_text("no zip"), "no archive that can be read"),
    "an empty file": (lambda target: target.write_bytes(b""), "no archive that can be read: it is empty: name a run"),
}
CASES = (*MEMBERS, *OTHERS, *FORMS)
# Refused because of the experiment, which is checked after an engine has been found: this needs an experiment kernel.
WITH_KERNEL = ("commands", "a Python topology", "a file of the user", "text that is not UTF-8")


def write(case: str, target: Path) -> str:
    """Write the archive of a case. Return the reason for its refusal, as a regular expression."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case in MEMBERS:
            name, mode, reason = MEMBERS[case]
            write_members(target, name, mode)
        elif case in OTHERS:
            make, reason = OTHERS[case]
            make(target)
        else:
            files, reason = FORMS[case]
            write_archive(target, files)
    return reason


def attempt(case: str, folder: Path) -> Finding:
    """Reproduce a bundle. It must be refused with its reason, and leave nothing."""
    archive = folder / "bundle.zip"
    reason = write(case, archive)
    called = call("verify", str(archive), "-o", str(folder / "runs"))
    left = [str(path.relative_to(folder)) for path in files_of(folder) if path != archive]
    if left:
        return Finding(first_line(called), f"files were left: {left[0]}")
    if called.status not in (1, 2):
        return Finding(first_line(called), f"it was taken, with status {called.status}")
    if not re.search(reason, called.text):
        return Finding(first_line(called), f"the reason is another than {reason!r}")
    return Finding(first_line(called).rpartition("bundle.zip: ")[2])
