# SPDX-License-Identifier: Apache-2.0
"""The programs that an entry brings: the keys for them, the files that they need, their build and their environment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PrivateAttr

from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.inputs.keys.traffic_entry import ServedEntry
from mprun.model import engine_paths
from mprun.model.plan import Process
from mprun.model.problem import ValuePath
from mprun.model.spec import Attachment, Flow, path_of_attachment
from mprun.workloads.tool import PYTHON, Endpoints, kept

_SHELL_SIGNS = ("|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1")
PLACEHOLDERS = ("source", "destination", "port", "files", "inputs")
# `${name}` is the syntax of a shell, and `%{name}` of other programs.
_PLACEHOLDER = re.compile(r"(?<![$%{])\{([A-Za-z_]+)\}")
# A price such as `$5`, and a regular expression such as `foo$`, are no variables.
_VARIABLE = re.compile(r"(?:^|=)\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?(?=/|$)")
# A word after such a program and such an option is a program of its own.
_INTERPRETER = re.compile(r"(?:.*/)?(?:(?:ba|da|z|k)?sh|python[\d.]*|perl|ruby)")
# A word that needs no quotes in YAML.
_PLAIN = re.compile(r"(?!(?i:true|false|yes|no|on|off|null)$)(?:[A-Za-z./]|-+[A-Za-z])[\w./=+-]*")
# What only a shell understands in a command.
_FOR_SHELL = re.compile("[;|&<>$`'\"*()]|^\\w+=")
_TAKES_SCRIPT = re.compile(r"-[a-z]*[ce]")
MOST_FILES, MOST_VARIABLES = 50, 100

CommandWords = Annotated[list[str], Field(min_length=1, max_length=1000)]
Variable = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class ArchiveEntry(FileModel):
    """A file that a run has kept: its archive, and its name."""

    name: str = Field(min_length=1, max_length=200)
    """The name under which programs find it."""
    archive: str = Field(min_length=1, max_length=1000)
    """The archive in the run's inputs."""


def _refuse_other(value: object) -> object:
    if not isinstance(value, str | dict | ArchiveEntry):
        raise ValueError("is no name of a file or folder: write one, as in 'client.py'")
    return value


ProgramFile = Annotated[str | ArchiveEntry, BeforeValidator(_refuse_other)]
ProgramFiles = Annotated[list[ProgramFile], Field(max_length=MOST_FILES)]
ProgramEnvironment = Annotated[dict[Variable, str], Field(max_length=MOST_VARIABLES)]

FILES: Any = Field(
    [],
    description="Files and folders that the programs need, relative to this file. They are copied into the run, "
    "each without the folders before its name. The programs start in a folder with copies of them, `{inputs}`.",
    examples=[["client.py", "data"]],
)
BUILD: Any = Field(
    None,
    description="A command that runs before time zero in the folder with the copies, inside the engine.",
    examples=[["make"]],
)
ENVIRONMENT: Any = Field({}, description="Environment variables of the programs.", examples=[{"LOG_LEVEL": "debug"}])


class AttachedEntry(ServedEntry):
    """An entry whose files go into the run."""

    _attached: tuple[Attachment, ...] = PrivateAttr(())

    def with_attachments(self, attachments: Sequence[Attachment]) -> Self:
        entry = self.model_copy()
        entry._attached = tuple(attachments)
        return entry

    def options(self) -> dict[str, object]:
        attached = [{"name": one.name, "sha256": one.sha256, "size_bytes": one.size_bytes} for one in self._attached]
        return super().options() | ({"attachments": attached} if attached else {})


def find_problems(
    files: Sequence[ProgramFile],
    build: Sequence[str] | None,
    environment: Mapping[str, str],
    words: Mapping[ValuePath, str],
) -> Iterator[KeyProblem]:
    """Yield the problems of these keys by their paths. words: those of all commands, by their paths."""
    # the names under which programs find the files
    names = [PurePath(one).name if isinstance(one, str) else one.name for one in files]
    for n, name in enumerate(names):
        if not name or "/" in name or name in (".", "..") or not name.isprintable():
            yield ("files", n), "is no name of a file or folder: write one, as in 'client.py'"
        elif names.index(name) < n:
            yield ("files", n), f"'{name}' is there already: rename one of the two"
    if build is not None and not files:
        yield "build", "needs files to build: write 'files', or remove this"
    for name, value in environment.items():
        if "\0" in value:
            yield ("environment", name), "contains a character that no variable can have: remove it"
    for path, word in words.items():
        if "\0" in word or (path[-1] == 0 and not word):
            yield path, "is no program, or contains a character that no argument can have: write a name, as in 'nc'"


def named_words(**commands: Sequence[str] | None) -> dict[ValuePath, str]:
    """Return each word of commands by its path. commands: by the name of their key."""
    return {(name, n): word for name, words in commands.items() for n, word in enumerate(words or ())}


def attachments(files: Sequence[ProgramFile]) -> dict[ValuePath, tuple[str, str | None]]:
    """Return the files as `FlowEntry.attachments` has them."""
    return {
        ("files", n): (file, None) if isinstance(file, str) else (file.archive, file.name)
        for n, file in enumerate(files)
    }


FILES_PROGRAM = f"{engine_paths.PROGRAMS}/unpack.py"
# The limit of a program's log, so that a program that never stops does not fill the disk.
MOST_LOG_BYTES = 16 << 20
# The folder of the run with what builds have made, in a folder for each flow.
PRODUCTS = "products"
# The CPU time that a build may take, and that copying the files may take.
BUILD_COMPUTE_S, COPY_COMPUTE_S = 600, 60


def known_values(flow: Flow, ends: Endpoints) -> dict[str, str]:
    """Return the values of the placeholders, by name."""
    addresses = {"source": ends.source_address, "destination": ends.destination_address}
    known = {**addresses, "port": str(ends.port), "files": f"{engine_paths.RUN}/{kept(flow, '')}".rstrip("/")}
    return {**known, "inputs": f"{engine_paths.INPUTS}/{flow.name}"} if "attachments" in flow.options else known


def own_environment(flow: Flow, known: Mapping[str, str], key_log: str) -> dict[str, str]:
    """Return the variables that each program gets. key_log: the name of the file for TLS session secrets."""
    told = {f"MPRUN_{name.upper()}": value for name, value in known.items()}
    told |= {"MPRUN_SOURCE_HOST": flow.source, "MPRUN_DESTINATION_HOST": flow.destination}
    # TLS libraries write their session secrets to this file, for Wireshark
    return {**told, "SSLKEYLOGFILE": f"{known['files']}/{key_log}"}


def started(words: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that run a command with its placeholders replaced.

    The command starts in the folder with the entry's files (env(1)), or in the run's directory without files.
    """
    filled = []
    for word in words:
        for name, value in known.items():
            word = word.replace(f"{{{name}}}", value)
        filled.append(word)
    return ("env", f"--chdir={known['inputs']}", *filled) if "inputs" in known else tuple(filled)


def tell_commands(*commands: tuple[str, Sequence[str]]) -> tuple[str, ...]:
    """Return commands as a person would type them. commands: host and words of each, without words if it is none."""
    return tuple(f"{host}: {shlex.join(words)}" for host, words in commands if words)


def doubt_word(words: Sequence[str], number: int, has_files: bool, names: Collection[str]) -> str | None:
    """Return the warning about a word of a command: a sign of a shell, or a placeholder that no value replaces.

    names: of files and products, which may have blanks.
    A word with blanks, or a script, is a program of its own, in which braces have other meanings.
    """
    word = words[number]
    # a name may have blanks
    is_name = word.startswith(("/", "{")) or f"{word.removeprefix('./')}/".startswith(tuple(f"{one}/" for one in names))
    if len(words) == 1 and len(parts := word.split()) > 1 and (parts[1][0] in "-{" or not is_name):
        listed = ", ".join(part if _PLAIN.fullmatch(part) else json.dumps(part) for part in parts)
        write = f"sh, -c, {json.dumps(word)}" if _FOR_SHELL.search(word) or parts[0] in ("for", "if") else listed
        return f"'{word}' is one word, and so the name of a program: write '[{write}]'"
    is_script = number and _INTERPRETER.fullmatch(words[0]) and _TAKES_SCRIPT.fullmatch(words[number - 1])
    if is_script or any(letter.isspace() for letter in word):
        return None
    if word == "&" and number == len(words) - 1:
        return "'&' is a sign of a shell: remove it, as each program runs beside the others"
    if word in _SHELL_SIGNS:
        return f"'{word}' is a sign of a shell, and none runs this command: write it as in [sh, -c, 'ls | wc -l']"
    if variable := _VARIABLE.search(word):
        own = variable[1].removeprefix("MPRUN_").lower()
        parameter = f", or '{{{{ {variable[1]} }}}}' for a parameter" if variable[1].islower() else ""
        remedy = f"write '{{{own}}}'" if own in PLACEHOLDERS else f"write it as in [sh, -c, 'echo $HOME']{parameter}"
        return f"'${variable[1]}' is a variable of a shell, and none runs this command: {remedy}"
    for name in _PLACEHOLDER.findall(word):
        if name == "inputs" and not has_files:
            return "'{inputs}' is the folder of 'files', and there are none: write 'files: [...]'"
        # capitals are of programs such as awk and jq
        if name not in PLACEHOLDERS and (name.islower() or name.lower() in PLACEHOLDERS):
            listed = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
            return f"'{{{name}}}' is no value of a run, and the program gets it as written; known: {listed}"
    return None


def find_unknown(text: str) -> str | None:
    """Return the first placeholder in a command that no value replaces."""
    return next((name for name in _PLACEHOLDER.findall(text) if name not in PLACEHOLDERS), None)


def prepare(
    flow: Flow, build: Sequence[str], known: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[Process]:
    """Yield the processes that copy the entry's files, build them, and keep what was built."""
    if "inputs" not in known:
        return
    attached: Any = flow.options["attachments"]
    archives = tuple(f"{engine_paths.RUN}/inputs/{path_of_attachment(one['sha256'])}" for one in attached)

    def ours(name: str, *words: str) -> Process:
        argv = (*PYTHON, FILES_PROGRAM, *words, *archives)
        # A stranger may have made the archives, and a build may have changed the folder.
        return Process(
            f"{flow.name}.{name}", flow.source, argv, "preparation", compute_s=COPY_COMPUTE_S, is_foreign=True
        )

    yield ours("files", "unpack", known["inputs"])
    if build:
        yield Process(
            name=f"{flow.name}.build",
            node=flow.source,
            argv=started(build, known),
            role="preparation",
            env=environment,
            most_log_bytes=MOST_LOG_BYTES,
            timeout_ns=BUILD_COMPUTE_S * 1_000_000_000,
            compute_s=BUILD_COMPUTE_S,
            is_foreign=True,
        )
        yield ours("products", "keep", known["inputs"], f"{engine_paths.RUN}/{PRODUCTS}/{flow.name}")
