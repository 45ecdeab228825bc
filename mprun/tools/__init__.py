# SPDX-License-Identifier: Apache-2.0
"""The traffic tools by the name that an experiment file uses."""

from __future__ import annotations

from mprun.tools import iperf3, ping
from mprun.tools.tool import Tool

TOOLS: dict[str, Tool] = {"iperf3": iperf3, "ping": ping}
