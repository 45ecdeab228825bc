# SPDX-License-Identifier: Apache-2.0
"""`http`: files of given sizes over HTTP/1.1, from nginx to curl, over TCP or MPTCP."""

from __future__ import annotations

from functools import partial
from typing import Literal

from mprun.workloads import web
from mprun.workloads.web import METRICS, PORTS, PROGRAMS, TIME_LIMIT, is_download, parse

__all__ = ["METRICS", "PORTS", "PROGRAMS", "TIME_LIMIT", "Entry", "is_download", "parse", "work"]


class Entry(web.WebEntry):
    """Files of given sizes from a web server, see curl(1) and nginx(8)."""

    tool: Literal["http"]


work = partial(web.build, secure=False)
