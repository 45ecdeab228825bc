# SPDX-License-Identifier: Apache-2.0
"""`https`: files of given sizes over HTTP/1.1 and TLS, from nginx to curl, over TCP or MPTCP."""

from __future__ import annotations

from typing import Literal

from mprun.model.capabilities import Capabilities
from mprun.model.spec import Flow
from mprun.workloads import certificate, web
from mprun.workloads.tool import Endpoints, Work
from mprun.workloads.web import METRICS as METRICS
from mprun.workloads.web import PORTS as PORTS
from mprun.workloads.web import TIME_LIMIT as TIME_LIMIT
from mprun.workloads.web import parse as parse

PROGRAMS = {**web.PROGRAMS, **certificate.PROGRAMS}


class Entry(web.WebEntry):
    """Files of given sizes from a web server, see curl(1) and nginx(8)."""

    tool: Literal["https"]
    """The tool."""


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return openssl as the preparation, which makes the certificate, then nginx and curl as processes."""
    return web.build(flow, ends, capabilities, secure=True)
