# SPDX-License-Identifier: Apache-2.0
"""The manual page mprun(1), from the same definitions as the page of commands (man(7))."""

from __future__ import annotations

import re
from importlib.metadata import version

from docs.generate.commands import AS_IT_IS, STATUSES, describe
from mprun.cli import COMMANDS

_FILES = {
    "runs/latest": "The newest run: summary.json, pcap/, logs/, tables/, plan.json, environment.json.",
    "~/.cache/mprun": "The experiment kernels and tools of the user.",
}


def page() -> str:
    """Return the page as roff."""
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0',
        '.\\" Written by `python -m docs.generate`: change what it reads.',
        f'.TH MPRUN 1 "" "mprun {version("mprun")}" "User Commands"',
        ".SH NAME",
        "mprun \\- multipath transport experiments from two YAML files",
        ".SH SYNOPSIS",
        ".nf",
        "\\fBmprun\\fR \\fB\\-t\\fR \\fITOPOLOGY\\fR \\fB\\-x\\fR \\fIEXPERIMENT\\fR [\\fIOPTIONS\\fR]",
        "\\fBmprun\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".fi",
        ".SH DESCRIPTION",
        _text(
            "mprun builds the network of a topology file with Mininet and tc. It runs the traffic of an experiment "
            "file over the real Linux stack, in simulated time inside a kernel of its own or on this machine's kernel. "
            "It writes results and captures to a run directory."
        ),
        ".SH COMMANDS",
    ]
    for name, summary in COMMANDS.items():
        lines += [".TP", f".B {_text(name)}", _text(summary)]
    for command in describe():
        lines.append(f'.SS "{_text(command.name)}"')
        if not command.is_group:
            lines += [".PP", f"\\fI{_text(command.usage)}\\fR"]
        for paragraph in command.paragraphs:
            as_it_is = paragraph.startswith(AS_IT_IS)
            texts = [_text(line) for line in paragraph.removeprefix(AS_IT_IS).splitlines()]
            lines += [".PP", *([".nf", *texts, ".fi"] if as_it_is else texts)]
        for option, text in command.options:
            lines += [".TP", f".B {_text(option)}", _text(text)]
    lines.append(".SH EXIT STATUS")
    for status, text in STATUSES.items():
        lines += [".TP", f".B {status}", _text(text)]
    lines.append(".SH FILES")
    for name, text in _FILES.items():
        lines += [".TP", f".I {_text(name)}", _text(text)]
    lines += [".SH SEE ALSO", ".BR tc-netem (8),", ".BR ip-mptcp (8),", ".BR iperf3 (1)"]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return text for roff: dashes stay dashes, code is bold, and no line is a request by accident."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
