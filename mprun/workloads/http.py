# SPDX-License-Identifier: Apache-2.0
"""`http`: files of given sizes over HTTP/1.1, from nginx to curl, over TCP or MPTCP."""

from __future__ import annotations

from typing import Literal

from mprun.model.capabilities import Capabilities
from mprun.model.spec import Flow
from mprun.workloads import web
from mprun.workloads.tool import Endpoints, Work
from mprun.workloads.web import METRICS as METRICS
from mprun.workloads.web import PORTS as PORTS
from mprun.workloads.web import PROGRAMS as PROGRAMS
from mprun.workloads.web import TIME_LIMIT as TIME_LIMIT
from mprun.workloads.web import parse as parse


class Entry(web.WebEntry):
    """Files of given sizes from a web server, see curl(1) and nginx(8)."""

    tool: Literal["http"]
    """The tool."""


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return nginx and curl as processes."""
    return web.build(flow, ends, capabilities, secure=False)
