# SPDX-License-Identifier: Apache-2.0
"""The output that a page shows belongs to the command that the page types above it.

Each rule compares words of the output with options of the command. Other parts of an output cannot be checked without a
run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mprun.cli.faults import DEFAULT_FIRST
from mprun.cli.search import DEFAULT_BUDGET
from mprun.cli.why import DEFAULT_RUNS
from tests.pages import PAGES, ROOT

# A fence, or an indented command.
PART = re.compile(r"^```\w*\n((?s:.*?))^```|^ {4,6}(mprun .*)$", re.MULTILINE)
TYPED = re.compile(r"(?:\$ |git bisect run )?(mprun .*)")


def options_of(words: list[str], name: str) -> list[str]:
    """Return the values of an option, in their order."""
    return [value for option, value in pairwise(words) if option == name]


def option_of(words: list[str], name: str, default: int) -> int:
    return int(next(iter(options_of(words, name)), default))


def is_below_budget(words: list[str], points: str) -> bool:
    """Return whether a search with the typed budget can end after this number of points.

    The first points of a search are the largest power of two that is at most half of the budget.
    """
    budget = option_of(words, "--budget", DEFAULT_BUDGET)
    return budget / 4 < int(points) <= budget


def is_within_first(words: list[str], packets: str) -> bool:
    return int(packets) <= option_of(words, "--first", option_of(words, "--budget", DEFAULT_FIRST))


def is_soon_after(words: list[str], stopped_s: str) -> bool:
    """Return whether the kernel stopped at most a tick of 10 ms after the typed time, if there is one."""
    return all(0 <= float(stopped_s) - float(at.removesuffix("s")) < 0.01 for at in options_of(words, "--at"))


# Command, words of its output, and the check of these words against those of the command.
RULES: dict[str, tuple[str, str, Callable[..., bool]]] = {
    "statement of bisect": (
        "bisect",
        r"^bad if: (.*)$",
        lambda words, statement: options_of(words, "--fail-if") == [statement],
    ),
    "ends of bisect": (
        "bisect",
        r"\Agood (\S+) .*\nbad  (\S+) ",
        lambda words, *ends: [*options_of(words, "--good"), *options_of(words, "--bad")] == [*ends],
    ),
    "points of search": ("search", r"^(\d+) points, ", is_below_budget),
    "packets of faults": ("faults", r"^(\d+) packets, each ", is_within_first),
    "runs of why": (
        "why",
        r"^  \S+ s +\d+ of (\d+)$",
        lambda words, count: int(count) == option_of(words, "--runs", DEFAULT_RUNS),
    ),
    "runs of coverage": (
        "coverage",
        r"^\d+ lines executed by (\S+) and not by (\S+)$",
        lambda words, *runs: words[2:4] == [*runs],
    ),
    "kernels of kernel test": (
        "kernel test",
        r"^changes from (\S+) to (\S+): ",
        lambda words, *kernels: options_of(words, "--kernel") == [*kernels],
    ),
    "time of debug": ("debug", r"^stopped at (\S+) s of simulated time", is_soon_after),
    "packet of debug": (
        "debug",
        r"^stopped at .*, packet (\d+) of (\S+)$",
        lambda words, number, capture: options_of(words, "--packet") == [f"{capture}:{number}"],
    ),
}


def outputs_of(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield each output on a page, with the words of the last command of each kind above it."""
    typed: list[str] = []
    for block, indented in PART.findall(text):
        lines = [indented] if indented else block.splitlines()
        commands = [found[1] for line in lines if (found := TYPED.match(line))]
        # the last command that was typed comes first
        typed = [*reversed(commands), *typed]
        for command in typed if block else ():
            yield shlex.split(command, comments=True), block


def find_strangers(text: str, rule: str) -> tuple[int, list[str]]:
    """Return how often the words of a rule occur on a page, and the lines that do not belong to their command."""
    command, pattern, fits = RULES[rule]
    checked, strangers, seen = 0, list[str](), set[str]()
    for words, output in outputs_of(text):
        if words[1 : 1 + len(command.split())] != command.split() or output in seen:
            continue
        seen.add(output)
        for found in re.finditer(pattern, output, re.MULTILINE):
            checked += 1
            if not fits(words, *found.groups()):
                strangers.append(f"{shlex.join(words)}: {found[0]}")
    return checked, strangers


@pytest.mark.parametrize("rule", RULES)
def test_an_output_belongs_to_the_command_above_it(rule: str) -> None:
    found = {page: find_strangers(page.read_text(), rule) for page in PAGES}
    assert [line for _, strangers in found.values() for line in strangers] == []
    assert sum(checked for checked, _ in found.values()) > 0


@pytest.mark.parametrize(
    ("page", "shown", "other", "rule"),
    [
        (
            "docs/reference/questions/bisect.md",
            "bad if: bulk.goodput > 18.893mbit",
            "bad if: bulk.goodput > 18mbit",
            "statement of bisect",
        ),
        ("docs/reference/questions/bisect.md", "--good 268ba01", "--good v6.12.1", "ends of bisect"),
        ("docs/reference/questions/search.md", "--budget 32", "--budget 128", "points of search"),
        ("docs/reference/questions/faults.md", "200 packets, each", "201 packets, each", "packets of faults"),
        ("docs/reference/questions/why.md", "11 of 20", "11 of 10", "runs of why"),
        (
            "docs/reference/kernel-debugging.md",
            "by xp_tcp and not by xp_mptcp",
            "by xp_mptcp and not by xp_tcp",
            "runs of coverage",
        ),
        (
            "docs/reference/kernel-tests.md",
            "changes from default to mine:",
            "changes from mine to default:",
            "kernels of kernel test",
        ),
        ("docs/reference/kernel-debugging.md", "--at 1.5s", "--at 1.6s", "time of debug"),
        ("docs/reference/kernel-debugging.md", "client.pcap:120 ", "client.pcap:121 ", "packet of debug"),
    ],
)
def test_another_output_is_found(page: str, shown: str, other: str, rule: str) -> None:
    text = Path(ROOT, page).read_text()
    assert shown in text
    assert find_strangers(text.replace(shown, other), rule)[1] != []
