# SPDX-License-Identifier: Apache-2.0
"""The metadata of a bundle: the content of ro-crate-metadata.json (RO-Crate 1.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from mprun.bundles.licence import SPDX
from mprun.model.frozen import Frozen

METADATA = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
PROFILE = "https://w3id.org/ro/crate/1.1"

_FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".html": "text/html",
    ".pcap": "application/vnd.tcpdump.pcap",
    ".gz": "application/gzip",
}
# Logs, sources and configurations.
_TEXT = "text/plain"
# A root must have a licence, in words if not by reference (RO-Crate 1.1, Root Data Entity).
_UNLICENSED = "No licence was given: ask the authors before using it further."
_TOLD = {
    "plan.json": "What was done, with the digest of the intent",
    "environment.json": "Engine, kernel and versions of the tools",
    "summary.json": "Metrics, expectations, warnings and verdict",
    "sweep.json": "What was asked: cells, repetitions, places",
    "artifacts.json": "SHA-256 of what a repetition must reproduce",
    "report.html": "The report, with its figures",
}


class Description(Frozen):
    """The description of a bundle.

    - name, text: the title and the summary of the whole bundle.
    - date: the day of the experiment, such as 2026-01-31.
    - licence: a URL, or empty.
    - version: the version of mprun.
    - kernels: the version and the digest of each kernel, by the kernel's name.
    - tools: the version output of each tool.
    """

    name: str
    text: str
    date: str
    licence: str
    version: str
    kernels: Mapping[str, str]
    tools: Mapping[str, str]


def describe(about: Description, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the metadata as a JSON object.

    sizes: the bytes of each member of the archive by name, without the metadata file itself.
    """
    files = [_file(name, size) for name, size in sorted(sizes.items())]
    software = [_software("#mprun", "mprun", about.version)]
    software += [
        _software(f"#kernel-{name}", f"experiment kernel {name}", text) for name, text in about.kernels.items()
    ]
    software += [_software(f"#tool-{name}", name, text) for name, text in about.tools.items()]
    inputs = [_refer(file["@id"]) for file in files if "inputs" in PurePosixPath(file["@id"]).parts]
    results = [_refer(file["@id"]) for file in files if "inputs" not in PurePosixPath(file["@id"]).parts]
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "name": about.name,
        "description": about.text,
        "datePublished": about.date,
        "hasPart": [_refer(file["@id"]) for file in files],
        "mentions": _refer("#run"),
        "license": _UNLICENSED,
    }
    licences = []
    if about.licence:
        root["license"] = _refer(about.licence)
        told = "Under which others may use what is here"
        name = about.licence.removeprefix(SPDX)
        licences = [{"@id": about.licence, "@type": "CreativeWork", "name": name, "description": told}]
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": f"mprun: {about.name}",
        "endTime": about.date,
        "instrument": [_refer(one["@id"]) for one in software],
        "object": inputs,
        "result": results,
    }
    metadata = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": _refer(PROFILE),
        "about": _refer("./"),
    }
    return {"@context": CONTEXT, "@graph": [metadata, root, action, *licences, *software, *files]}


def _refer(identifier: str) -> dict[str, str]:
    return {"@id": identifier}


def _file(name: str, size: int) -> dict[str, Any]:
    # an @id is a URI, and the name of a cell's folder may contain a percent sign
    entity: dict[str, Any] = {"@id": quote(name, safe="/=,+"), "@type": "File", "name": name, "contentSize": str(size)}
    path = PurePosixPath(name)
    entity["encodingFormat"] = _FORMATS.get(path.suffix, _TEXT)
    if path.name in _TOLD:
        entity["description"] = _TOLD[path.name]
    return entity


def _software(identifier: str, name: str, version: str) -> dict[str, str]:
    return {"@id": identifier, "@type": "SoftwareApplication", "name": name, "softwareVersion": version}
