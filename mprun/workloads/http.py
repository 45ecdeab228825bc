# SPDX-License-Identifier: Apache-2.0
"""`http`: files of given sizes over HTTP/1.1, from nginx to curl, over TCP or MPTCP."""

from __future__ import annotations

from functools import partial
from typing import Literal

from mprun.workloads import web
from mprun.workloads.web import IS_DOWNLOAD, METRICS, PORTS, PROGRAMS, TIME_LIMIT, parse

__all__ = ["IS_DOWNLOAD", "METRICS", "PORTS", "PROGRAMS", "TIME_LIMIT", "Entry", "parse", "work"]


class Entry(web.WebEntry):
    """Files of given sizes from a web server, see curl(1) and nginx(8)."""

    tool: Literal["http"]


work = partial(web.build, secure=False)
