# SPDX-License-Identifier: Apache-2.0
"""Each word has one meaning: names of classes, names of files, and the table under "Words" in `docs/design.md`."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.core.test_imports import FILES, PACKAGE
from tests.pages import ROOT

# Interfaces: each module of a folder defines the class of this name.
FAMILIES = {"Entry": "workloads", "Parameters": "inputs/generators"}

# File names in two folders or more, each with the reason why the two names belong together.
SHARED_FILE_NAMES = {
    "baseline.py": "a command, and the question that it asks",
    "bisect.py": "a command, and the question that it asks",
    "experiment.py": "the model of a file, and the passes that read the file and the older one",
    "faults.py": "a command, and the question that it asks",
    "flows.py": "a workload, and its program",
    "history.py": "a command, and the question that it asks",
    "middlebox.py": "the model of a key, and its commands in a plan",
    "minimise.py": "a command, and the question that it asks",
    "openflow.py": "the model of a key, and its commands in a plan",
    "plan.py": "a command, and the value that it shows",
    "reqres.py": "a workload, and its program",
    "search.py": "the model of a key, its question and its command",
    "topology.py": "the model of a file, the passes that read the file and the older one, and its command",
    "video.py": "a workload, and its program",
    "why.py": "a command, and the question that it asks",
}
MOST_SHARED_FILE_NAMES = 15

# Where identifiers may have a word that once had several meanings: files, or folders with all their files.
USED_IN = {
    "fault": (
        "agent cli/faults.py compile/packet_trains.py compile/planner.py engines/real.py inputs/loading.py "
        "inputs/cross_check.py inputs/experiment.py inputs/keys/experiment.py inputs/writer.py metrics/host_doubts.py "
        "metrics/shortfall.py model/intent model/plan.py model/spec.py questions/faults.py "
        "questions/packet_choice.py questions/question_figures.py model/agent_report.py inputs/offered_rate.py"
    ),
    "finding": "cli/lab.py cli/show_lab.py labs/study_figure.py labs/study_page.py",
    "guest": "engines kernel",
}

WORDS = re.compile(r"^\| ([^|`]+) \| (.+) \| `([^`|]+)` \|$", re.MULTILINE)


def public_names(source: str) -> set[str]:
    """Return the classes and types that a module defines, such as `Spec`. Constants are in capitals."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


def find_second_meanings(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the public names that several files define, with the files. A family is one definition in its folder."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, source in sources.items():
        for name in public_names(source):
            is_of_family = name in FAMILIES and file.startswith(f"{FAMILIES[name]}/")
            where = f"{FAMILIES[name]}/*" if is_of_family else file
            if where not in files[name]:
                files[name].append(where)
    return {name: found for name, found in files.items() if len(found) > 1}


def words_of(identifier: str) -> set[str]:
    """Return the words of a name in lower case and in the singular: `find_problems` and `FaultEntry` have `fault`."""
    return {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def identifiers_of(source: str) -> Iterator[str]:
    """Yield the names that a module defines or uses."""
    for node in ast.walk(ast.parse(source)):
        for field in ("name", "id", "attr", "arg"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def find_misused(sources: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return word and file of each word that a file must not use."""
    return [
        (word, file)
        for file, source in sources.items()
        for used in [{word for name in identifiers_of(source) for word in words_of(name)}]
        for word, allowed in USED_IN.items()
        if word in used and not any(file == one or file.startswith(f"{one}/") for one in allowed.split())
    ]


def table_of(page: str) -> list[tuple[str, str, str]]:
    """Return word, meaning and file of each row of the table under "Words"."""
    section = page.partition("\n## Words\n")[2].partition("\n## ")[0]
    return [row for row in WORDS.findall(section) if row[0] != "word"]


def find_repeated(words: Iterable[str]) -> list[str]:
    """Return the words that occur more than once."""
    return [word for word, count in Counter(words).items() if count > 1]


def is_named(word: str, source: str) -> bool:
    """Return True if a file has all parts of a word."""
    return all(part in source.lower() for part in word.lower().split())


SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in FILES}
TABLE = table_of((ROOT / "docs" / "design.md").read_text())


def test_no_name_of_a_class_has_two_meanings() -> None:
    assert find_second_meanings(SOURCES) == {}


def test_a_second_meaning_is_found() -> None:
    first = "class Fault:\n    pass\n\n\nLIMIT = 1\nRow = tuple[int, str]\n"
    sources = {
        "model/one.py": first,
        "cli/two.py": "class Fault:\n    pass\n",
        "cli/three.py": "Row = str\nLIMIT = 2\n",
    }
    assert find_second_meanings(sources) == {
        "Fault": ["model/one.py", "cli/two.py"],
        "Row": ["model/one.py", "cli/three.py"],
    }


def test_a_family_has_its_name_alone() -> None:
    entry = "class Entry:\n    pass\n"
    family = {"workloads/one.py": entry, "workloads/two.py": entry}
    assert find_second_meanings(family) == {}
    assert find_second_meanings({**family, "cli/three.py": entry}) == {"Entry": ["workloads/*", "cli/three.py"]}


def test_each_family_has_several_modules() -> None:
    for name, folder in FAMILIES.items():
        assert sum(name in public_names(text) for file, text in SOURCES.items() if file.startswith(f"{folder}/")) > 1


def test_words_are_used_in_their_meaning() -> None:
    assert find_misused(SOURCES) == []


def test_a_misused_word_is_found() -> None:
    sources = {
        "inputs/one.py": "def find_faults(default: int) -> int:\n    return default\n",
        "agent/two.py": "FAULTS = ()\n",
        "cli/three.py": "class GuestList:\n    pass\n",
    }
    assert find_misused(sources) == [("fault", "inputs/one.py"), ("guest", "cli/three.py")]


def test_each_file_with_a_word_of_several_meanings_exists() -> None:
    assert [one for allowed in USED_IN.values() for one in allowed.split() if not (PACKAGE / one).exists()] == []


def test_the_vocabulary_has_one_row_for_each_word() -> None:
    assert 25 <= len(TABLE) <= 40
    assert find_repeated(word for word, _, _ in TABLE) == []
    assert [word for word, _, _ in TABLE] == sorted((word for word, _, _ in TABLE), key=str.lower)


def test_a_repeated_word_is_found() -> None:
    page = (
        "\n## Words\n\n| word | meaning | where |\n| --- | --- | --- |\n"
        "| row | a line | `a.py` |\n| host | a node | `b.py` |\n| row | a series | `c.py` |\n\n## Input\n"
        "| cell | not a word | `d.py` |\n"
    )
    assert table_of(page) == [("row", "a line", "a.py"), ("host", "a node", "b.py"), ("row", "a series", "c.py")]
    assert find_repeated(word for word, _, _ in table_of(page)) == ["row"]


def test_each_word_is_in_its_file() -> None:
    assert [(word, file) for word, _, file in TABLE if not is_named(word, SOURCES.get(file, ""))] == []


def test_a_word_that_is_not_in_its_file_is_found() -> None:
    assert is_named("kernel report", "class KernelReport:\n    pass\n")
    assert not is_named("kernel report", "class KernelMessage:\n    pass\n")


def test_few_file_names_are_in_two_folders() -> None:
    """A package has its `__init__.py`, so this name does not count."""
    names = [path.name for path in FILES if path.name != "__init__.py"]
    assert sorted(find_repeated(names)) == sorted(SHARED_FILE_NAMES)
    assert len(SHARED_FILE_NAMES) <= MOST_SHARED_FILE_NAMES
