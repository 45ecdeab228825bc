# SPDX-License-Identifier: Apache-2.0
"""Download the packages of a release that decide the bytes of lab 01's captures: libc, Python and iperf3.

python -m tests.vm.exchange SUITE FOLDER

`.ci/fresh` unpacks them in a tree of an older release, so that trees of several releases have equal versions.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.vm.keys import with_keys
from tests.vm.packages import download
from tests.vm.release import release_of

# The libraries belong to iperf3 and Python. The last package is pip for new environments.
PACKAGES = (
    *("libc6", "libc-bin"),
    *("iperf3", "libiperf0", r"libssl3(t64)?"),
    *(rf"python3\.\d+{part}" for part in ("", "-minimal", "-venv")),
    *(rf"libpython3\.\d+-{part}" for part in ("minimal", "stdlib")),
    "python3-pip-whl",
)


def main() -> None:
    suite, folder = sys.argv[1:]
    download(with_keys(release_of(suite).system, print), PACKAGES, Path(folder))


if __name__ == "__main__":
    main()
