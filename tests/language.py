# SPDX-License-Identifier: Apache-2.0
"""Check the language of docstrings, pages and help texts: first words, length of sentences, idioms, columns.

usage: python -m tests.language [PATH ...]

Prints one line for each fault of the pages, Python files and schemas below the paths, and the counts at the end.
The help of all commands belongs to `mprun/cli`. Without a path it prints only the counts of the whole repository.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import click

from mprun.cli import COMMANDS, group
from tests.pages import BLOCK, ROOT

# A docstring that begins so has no main clause, or is a question.
FORBIDDEN_OPENINGS = frozenset("What Whether Of Those That How Where One As When Which Who It If".split())
# The help of a command or an option begins with one of these: "Print the plan as JSON." ADVERBS may precede it.
IMPERATIVES = frozenset(
    (
        "Add Allow Analyse Ask Boot Build Check Choose Compare Convert Copy Delay Describe Draw Export Fail Find "
        "Give Grade Halve Include Keep List Lose Make Measure Name Open Override Overwrite Pack Print Read Remove "
        "Repeat Run Set Show Start Take Treat Use Write"
    ).split()
)
ADVERBS = ("Also ", "Do not ", "With --allow-exec, also ")
MOST_WORDS = 40
MOST_WORDS_IN_MEAN = 18
MOST_COLUMNS = 120
# Idioms that a reader has to translate, and what to write.
IDIOMS = {
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bcomes? to \d": "amounts to",
    r"\bgo(?:es)? on\b(?! with the)": "resumes, continues",
    r"\bhas not\b(?! [a-z]+ed\b)(?! (?:been|come|gone|seen|run|sent|begun|said|had|got))": "does not have",
    r"\bstands beside\b": "conflicts with",
    r"\bwhat would do\b": "allowed values",
    r"\bso many\b": "N, or the number",
    r"\bnobody reads\b": "is not read",
    r"\banew\b": "again",
    r"\bof yours\b": "your",
    r"\bbeside others\b": "on a loaded machine",
    r"\bon iron\b": "on physical hardware",
    r"\ba slip of the pen\b": "probably a typo",
    r"\btaken for failed\b": "considered failed",
}
_IDIOMS = {re.compile(pattern, re.IGNORECASE): plain for pattern, plain in IDIOMS.items()}
_CODE = re.compile(r"`[^`\n]*(?:\n[^`\n]+)?`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9`*_])")
_LISTED = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")


@dataclass(frozen=True)
class Fault:
    """A fault of language. line: from 1; 0 for one of a whole page."""

    path: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.kind}: {self.text}"


def paragraphs_of(markdown: str) -> Iterator[tuple[int, str]]:
    """Return the paragraphs and list items of a page, each with the number of its first line.

    Code, tables, headings and comments are left out.
    """
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), markdown)
    text = re.sub(r"<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    first, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_other = not line.strip() or line.startswith(("#", "|", "    ", "<", "---", ":::"))
        if is_other and line.startswith("    ") and lines:
            # the second line of an item in a list
            is_other = False
        if lines and (is_other or _LISTED.match(line)):
            yield first, " ".join(lines)
            lines = []
        if not is_other:
            first = first if lines else number
            lines.append(_LISTED.sub("", line).strip())


def sentences_of(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph; code and addresses count as a word."""
    plain = _LINK.sub(r"\1", _CODE.sub("X", paragraph)).replace("**", "")
    return [one for one in _END.split(plain) if one.strip()]


def count_words(sentence: str) -> int:
    """Return the number of words that have a letter or a digit."""
    return sum(any(sign.isalnum() for sign in word) for word in sentence.split())


def mean_of(page: Path) -> float:
    """Return the mean number of words in the sentences of a page; 0 where there are none."""
    counts = [count_words(one) for _, text in paragraphs_of(page.read_text()) for one in sentences_of(text)]
    return mean(counts) if counts else 0.0


def faults_of_page(page: Path) -> Iterator[Fault]:
    """Return the faults of a Markdown page."""
    if (words := mean_of(page)) > MOST_WORDS_IN_MEAN:
        yield Fault(page, 0, "mean", f"{words:.1f} words in a sentence")
    for number, text in paragraphs_of(page.read_text()):
        yield from _faults_of_text(page, number, text)
    in_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        in_code ^= line.startswith("```")
        # a table, a long address and code cannot be broken
        if len(line) > MOST_COLUMNS and not line.startswith(("|", "![", "[")) and not in_code:
            yield Fault(page, number, "columns", f"{len(line)}")


def faults_of_module(path: Path) -> Iterator[Fault]:
    """Return the faults of a module's docstrings."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = ast.get_docstring(node)
        if not text:
            continue
        number = node.body[0].lineno
        if (first := re.split(r"[\s,.:;]", text, maxsplit=1)[0]) in FORBIDDEN_OPENINGS:
            yield Fault(path, number, "opening", first)
        for offset, paragraph in paragraphs_of(text):
            yield from _faults_of_text(path, number + offset - 1, paragraph)


def help_texts() -> Iterator[tuple[str, str]]:
    """Return the help of each command and each option, with its name: `mprun sweep --retries`."""
    for name, summary in COMMANDS.items():
        yield f"mprun {name} in the list of commands", summary
    yield from _help_below(group, click.Context(group, info_name="mprun"), "mprun")


def _help_below(command: click.Command, context: click.Context, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield f"{name} {parameter.opts[-1]}", parameter.help or ""
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _help_below(found, click.Context(found, info_name=inner, parent=context), f"{name} {inner}")


def faults_of_help(texts: Iterable[tuple[str, str]]) -> Iterator[Fault]:
    """Return the faults of help texts, which are complete sentences, the first of them in the imperative."""
    path = ROOT / "mprun" / "cli"
    for name, text in texts:
        # click adds the default of an option behind two spaces, and prints a paragraph that begins so as it is
        paragraphs = [
            one
            for one in re.split(r"\n\s*\n", text.split("  [default:")[0].strip())
            if not one.lstrip().startswith("\b")
        ]
        if not paragraphs:
            yield Fault(path, 0, "help", f"{name}: has none")
            continue
        first = paragraphs[0]
        for adverb in ADVERBS:
            first = first.removeprefix(adverb)
        verb = re.split(r"[\s,.]", first, maxsplit=1)[0]
        if verb.capitalize() not in IMPERATIVES or not paragraphs[0][0].isupper():
            yield Fault(path, 0, "help", f"{name}: begins with '{verb}', which is no imperative")
        for paragraph in paragraphs:
            plain = " ".join(paragraph.split())
            if not plain.endswith("."):
                yield Fault(path, 0, "help", f"{name}: does not end with a full stop")
            yield from _faults_of_text(path, 0, plain)


def faults_of_schema(path: Path) -> Iterator[Fault]:
    """Return the faults of the descriptions in a JSON Schema: they begin with a capital and end with a full stop."""
    for place, text in descriptions(json.loads(path.read_text()), ""):
        if (first := re.split(r"[\s,.:;]", text, maxsplit=1)[0]) in FORBIDDEN_OPENINGS:
            yield Fault(path, 0, "opening", f"{place}: {first}")
        if not text[:1].isupper() or not text.endswith("."):
            yield Fault(path, 0, "help", f"{place}: is no sentence: {text}")
        yield from _faults_of_text(path, 0, text)


def descriptions(schema: Any, place: str) -> Iterator[tuple[str, str]]:
    """Return the descriptions in a JSON Schema, each with its place."""
    if isinstance(schema, list):
        for n, one in enumerate(schema):
            yield from descriptions(one, f"{place}/{n}")
    if isinstance(schema, dict):
        if isinstance(text := schema.get("description"), str):
            yield place, text
        for key, inner in schema.items():
            yield from descriptions(inner, f"{place}/{key}")


def _faults_of_text(path: Path, number: int, text: str) -> Iterator[Fault]:
    for sentence in sentences_of(text):
        if (words := count_words(sentence)) > MOST_WORDS:
            yield Fault(path, number, "long", f"{words} words: {sentence[:60]}")
    bare = _CODE.sub("X", text)
    for pattern, plain in _IDIOMS.items():
        if found := pattern.search(bare):
            yield Fault(path, number, "idiom", f"'{found[0]}': write {plain}")


def faults_of(paths: Iterable[Path]) -> Iterator[Fault]:
    """Return the faults of pages, modules and schemas, by their suffix. The command line's module has its help too."""
    for path in paths:
        if path.suffix == ".md":
            yield from faults_of_page(path)
        elif path.suffix == ".py":
            yield from faults_of_module(path)
        elif path.name.endswith(".schema.json"):
            yield from faults_of_schema(path)
        if path == ROOT / "mprun" / "cli" / "__init__.py":
            yield from faults_of_help(help_texts())


def files_below(folder: Path) -> list[Path]:
    """Return the pages, modules and schemas of the repository below a folder, or the file itself."""
    if folder.is_file():
        return [folder]
    found = [path for path in folder.rglob("*") if path.suffix in (".md", ".py") or path.match("*.schema.json")]
    hidden = ("__pycache__", "build", "golden", "outputs")
    return sorted(
        one for one in found if not any(p.startswith(".") or p in hidden for p in one.relative_to(ROOT).parts)
    )


def main(words: list[str]) -> int:
    rooms = [Path(word).resolve() for word in words] or [
        ROOT / one for one in ("README.md", "docs", "labs", "mprun", "schemas")
    ]
    faults = list(faults_of(path for room in rooms for path in files_below(room)))
    if words:
        print(*faults, sep="\n")
    counts = {
        kind: sum(fault.kind == kind for fault in faults)
        for kind in ("opening", "long", "mean", "idiom", "columns", "help")
    }
    print(", ".join(f"{kind} {count}" for kind, count in counts.items()))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
