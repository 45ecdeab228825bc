# SPDX-License-Identifier: Apache-2.0
"""`https`: files of given sizes over HTTP/1.1 and TLS, from nginx to curl, over TCP or MPTCP."""

from __future__ import annotations

from functools import partial
from typing import Literal

from mprun.workloads import certificate, web
from mprun.workloads.web import METRICS, PORTS, TIME_LIMIT, is_download, parse

__all__ = ["METRICS", "PORTS", "PROGRAMS", "TIME_LIMIT", "Entry", "is_download", "parse", "work"]

PROGRAMS = {**web.PROGRAMS, **certificate.PROGRAMS}


class Entry(web.WebEntry):
    """Files of given sizes from a web server, see curl(1) and nginx(8)."""

    tool: Literal["https"]


work = partial(web.build, secure=True)
