# SPDX-License-Identifier: Apache-2.0
"""The page of every command and option, from the definitions of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from docs.generate.markdown import LICENSE, code, table
from mprun.cli import COMMANDS, group

# The beginning of a paragraph whose lines click does not wrap.
AS_IT_IS = "\b\n"
# The exit codes of `main` in mprun.cli.
STATUSES = {
    0: "the run is done, and every expectation held",
    1: "the run failed, or an expectation did not hold",
    2: "bad input: the error names file and line",
    3: "this machine cannot run it: the error names what is missing and the command that fixes it",
    130: "interrupted",
    141: "the reader of the output has ended, as in `| head`",
}


@dataclass(frozen=True)
class Described:
    """A command. name: with its groups, `mprun runs list`. options: the form of each option and its help.

    `paragraphs`: each on one line. A paragraph that click does not wrap has several lines and begins with AS_IT_IS.
    """

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    is_group: bool


def describe() -> Iterator[Described]:
    """Return all commands, each group before its commands."""
    for name in COMMANDS:
        context = click.Context(group, info_name="mprun")
        command = group.get_command(context, name)
        assert command is not None
        yield from _describe(command, click.Context(command, info_name=name, parent=context))


def _describe(command: click.Command, context: click.Context) -> Iterator[Described]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    help_text = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    paragraphs = tuple(part if part.startswith(AS_IT_IS) else " ".join(part.split()) for part in help_text)
    records = [parameter.get_help_record(context) for parameter in command.params]
    options = tuple((option, _without_gaps(text)) for option, text in filter(None, records) if text)
    yield Described(context.command_path, usage, paragraphs, options, isinstance(command, click.Group))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            # an earlier spelling
            if inner.hidden:
                continue
            yield from _describe(inner, click.Context(inner, info_name=name, parent=context))


def _without_gaps(text: str) -> str:
    """Return a text with single spaces: click puts two spaces before a default."""
    return " ".join(text.split())


def page() -> str:
    """Return a section for each command."""
    parts = [LICENSE, "# Commands\n\n"]
    parts.append(
        "`mprun -t TOPOLOGY -x EXPERIMENT` is short for `mprun run`. "
        "Each command prints its part of this page with `--help`.\n\n"
    )
    parts.append("Exit status:\n\n" + table(("status", "means"), [(str(n), text) for n, text in STATUSES.items()]))
    for command in describe():
        level = "##" if command.name.count(" ") == 1 else "###"
        parts.append(f"\n{level} {command.name}\n\n")
        if not command.is_group:
            parts.append(f"```\n{command.usage}\n```\n\n")
        parts.append("\n\n".join(map(_paragraph, command.paragraphs)) + "\n")
        if command.options:
            rows = [(code(option), _mark_placeholders(text)) for option, text in command.options]
            parts.append("\n" + table(("option", "does"), rows))
    return "".join(parts)


def _paragraph(text: str) -> str:
    if text.startswith(AS_IT_IS):
        return f"```\n{text.removeprefix(AS_IT_IS)}\n```"
    return _mark_placeholders(text)


def _mark_placeholders(text: str) -> str:
    """Escape the angle brackets, brackets and stars outside of code, which Markdown would interpret."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<\[])", r"\\\1", part) for part in parts)
