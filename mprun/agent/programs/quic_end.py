# SPDX-License-Identifier: Apache-2.0
"""Run one end of a user's QUIC stack in the folders that its environment names. It runs as a program of its own.

    python3 quic_end.py server REPORT CERTIFICATE KEY COUNT SIZE COMMAND ...
    python3 quic_end.py client REPORT CERTIFICATE KEY COUNT SIZE COMMAND ...

- WWW: the files 1 to COUNT of SIZE bytes each, made before the server starts. DOWNLOADS: an empty folder of the client.
- CERTS: the certificate (cert.pem), its private key (priv.key, the server only) and the authority to trust (ca.pem).
- QLOGDIR: an empty folder. After the command's end its largest file is copied beside REPORT, as ROLE.sqlog.
- REPORT: at the end, a JSON object with the exit status, the sizes of the downloads and the number of qlog files.

A signal TERM goes to the whole process group. This program then waits for the command. It needs only Python's library,
because mprun's package is not available where it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

# A download is of one of the requested files, so a client leaves no more files than this number beyond them.
MOST_MORE = 100


def make_folders(role: str, certificate: str, key: str, count: int, size: int) -> None:
    """Make the folders of one end with what they hold before its command starts."""
    certificates = os.environ["CERTS"]
    os.makedirs(certificates)
    shutil.copyfile(certificate, f"{certificates}/cert.pem")
    shutil.copyfile(certificate, f"{certificates}/ca.pem")
    if "QLOGDIR" in os.environ:
        os.makedirs(os.environ["QLOGDIR"])
    if role == "client":
        os.makedirs(os.environ["DOWNLOADS"])
        return
    shutil.copyfile(key, f"{certificates}/priv.key")
    os.makedirs(os.environ["WWW"])
    for number in range(1, count + 1):
        with open(f"{os.environ['WWW']}/{number}", "wb") as file:
            file.truncate(size)


def run(argv: list[str]) -> int:
    """Run the command to its end. Return its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        process = subprocess.Popen(argv)
    except OSError as error:
        known = isinstance(error, FileNotFoundError)
        why = f"no program '{argv[0]}' on this machine" if known else f"'{argv[0]}' cannot be started: {error.strerror}"
        print(why, file=sys.stderr)
        return 127
    status = process.wait()
    return status if status >= 0 else 128 - status


def list_sizes(folder: str, most: int) -> dict[str, int]:
    """Return the sizes in bytes of the first regular files of a folder, by their names."""
    with os.scandir(folder) as found:
        names = sorted(one.name for one in found if one.is_file(follow_symlinks=False))
    return {name: os.lstat(os.path.join(folder, name)).st_size for name in names[:most]}


def keep_qlog(folder: str, target: str) -> int:
    """Copy the largest qlog of a folder. Return the number of files."""
    sizes = list_sizes(folder, 1000)
    if sizes:
        shutil.copyfile(os.path.join(folder, max(sizes, key=lambda name: sizes[name])), target)
    return len(sizes)


def main(role: str, report: str, certificate: str, key: str, count: int, size: int, argv: list[str]) -> int:
    """Make the folders, run the command, and write the report. Return the exit status of the command."""
    make_folders(role, certificate, key, count, size)
    status = run(argv)
    downloads = list_sizes(os.environ["DOWNLOADS"], count + MOST_MORE) if role == "client" else {}
    beside = os.path.join(os.path.dirname(report), f"{role}.sqlog")
    qlogs = keep_qlog(os.environ["QLOGDIR"], beside) if "QLOGDIR" in os.environ else 0
    with open(report, "w") as file:
        json.dump({"status": status, "downloads": downloads, "qlogs": qlogs}, file)
    return status


if __name__ == "__main__":
    role, report, certificate, key, count, size, *command = sys.argv[1:]
    sys.exit(main(role, report, certificate, key, int(count), int(size), command))
