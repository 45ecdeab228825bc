# SPDX-License-Identifier: Apache-2.0
"""Start git on a repository that a stranger may have made, without the repository's configuration.

A repository's configuration can name programs that git runs: for signatures, missing objects, filters or hooks. So git
never gets the repository's git directory. It gets a git directory of mprun's own, with mprun's configuration, a copy of
the references, and the repository's objects as alternates (gitrepository-layout(5)).
"""

from __future__ import annotations

import hashlib
import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mprun.errors import MachineError, RunError, SpecError
from mprun.machine import invoking_user
from mprun.machine.cache import cache
from mprun.model.frozen import Frozen
from mprun.safety.folder import Folder, UnsafeError, open_regular

# The time of one call of git. To list the commits of Linux that changed a file takes about a minute.
MOST_S = 900
# The output of one call of git.
MOST_BYTES = 256 << 20
# The list of the files of one commit, and their content. Linux has 90,000 files: a list of 10 MB, and 1.5 GB.
MOST_LIST_BYTES = 16 << 20
MOST_CONTENT_BYTES = 8 << 30
# The references that are not packed.
_MOST_REFERENCES = 100_000
_MOST_ALTERNATES = 100

# The references in a git directory. `shallow` names the commits whose parents a shallow clone does not have.
_FILES = ("HEAD", "ORIG_HEAD", "packed-refs", "shallow")
_FOLDERS = ("refs", "logs")
_OBJECT_FOLDERS = ("pack", "info", "info/commit-graphs", *(f"{number:02x}" for number in range(256)))
_HEAD = re.compile(rb"(?:ref: refs/[^\0\n]+|[0-9a-f]{40,64})\n*")

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    # git reads a larger file in parts, so a huge file does not fill the memory
    "core.bigFileThreshold": "16m",
    "core.logAllRefUpdates": "false",
    "protocol.allow": "never",
}
_ENVIRONMENT = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
# What git reports about an object that it does not find.
_LACKING = re.compile(r"unable to read|could not read|cannot read|missing|bad object|bad file|corrupt", re.IGNORECASE)
_WHOLE = "an object is missing or damaged; mprun fetches none, so make a whole clone"


class Repository(Frozen):
    """A git repository of the user.

    - top: its work tree. It is only read.
    - own: mprun's folder, with the git directory `.git`. Versions are checked out there.
    """

    top: Path
    own: Path

    def read(self, *words: str, most: int = MOST_BYTES) -> str:
        """Return the output of git.

        Raises RunError if an object is missing or damaged, MachineError if git is not installed, and SpecError for any
        other failure, for more than `most` bytes, and if git takes too long.
        """
        return _run(self.own, words, most)

    def take(self, commit: str) -> None:
        """Check a commit out, and remove other files. Raises RunError for a missing object, SpecError if it is huge."""
        total = 0
        for line in self.read("ls-tree", "-r", "-l", "-z", commit, most=MOST_LIST_BYTES).split("\0")[:-1]:
            about, _, name = line.partition("\t")
            _, kind, _, size = about.split()
            if kind == "blob" and not size.isdigit():
                raise RunError(f"{self.top} does not have the file {name} of commit {commit[:12]}: {_WHOLE}")
            total += int(size) if kind == "blob" else 0
        if total > MOST_CONTENT_BYTES:
            raise SpecError(
                f"commit {commit[:12]} has {total >> 30} GB, and at most {MOST_CONTENT_BYTES >> 30} are read"
            )
        self.read("checkout", "--quiet", "--force", "--detach", commit)
        self.read("clean", "-ffdxq")

    def remove(self) -> None:
        shutil.rmtree(self.own)


def open_repository(folder: Path, parent: Path) -> Repository:
    """Return the repository that contains a folder. mprun's folder for it is made or updated in `parent`.

    Raises SpecError if there is no repository or it is damaged, and MachineError if git is not installed.
    """
    top, git_folder = _find(folder)
    try:
        common = _read_path(git_folder / "commondir") if (git_folder / "commondir").exists() else git_folder
        objects = common / "objects"
        _check_objects(objects)
        # a further work tree has its own HEAD and some references of its own
        references = {**_read_references(Folder(common)), **_read_references(Folder(git_folder))}
        stored = _read_format(common / "config")
    except (UnsafeError, OSError) as error:
        raise SpecError(f"{top}: this git repository cannot be read: {error}") from None
    if not _HEAD.fullmatch(references.get("HEAD", b"")):
        raise SpecError(f"{top}: this git repository is damaged: {git_folder / 'HEAD'} names no commit")
    own = parent / hashlib.sha256(os.fsencode(top)).hexdigest()[:16]
    _lay_out(own, objects, references, stored)
    return Repository(top, own)


def _find(folder: Path) -> tuple[Path, Path]:
    """Return the work tree that contains a folder, and its git directory."""
    start = Path(os.path.realpath(folder))
    for top in (start, *start.parents):
        git_folder = top / ".git"
        if git_folder.is_dir() and os.path.lexists(git_folder / "HEAD"):
            return top, Path(os.path.realpath(git_folder))
        if git_folder.is_file():
            # a further work tree or a submodule
            try:
                return top, _read_path(git_folder, "gitdir: ")
            except (UnsafeError, OSError) as error:
                raise SpecError(f"{top}: this git repository cannot be read: {error}") from None
    raise SpecError(f"{folder} is not a git repository: name a folder of a clone")


def _read_path(file: Path, head: str = "") -> Path:
    """Return the folder that a file of a git directory names. Its path may begin at the file's folder."""
    with open_regular(file, file) as opened:
        text = opened.read(1 << 14).decode(errors="surrogateescape").rstrip("\n")
    found = Path(os.path.realpath(file.parent / text.removeprefix(head)))
    if not text.startswith(head) or "\n" in text or not found.is_dir():
        raise UnsafeError(f"{file}: names no folder that exists")
    return found


def _check_objects(objects: Path) -> None:
    """Check a folder of objects and its alternates. Raises UnsafeError for a pipe or a device, for which git waits."""
    waiting, seen = [objects], set()
    while waiting:
        folder = Path(os.path.realpath(waiting.pop()))
        if folder in seen or not folder.is_dir():
            continue
        seen.add(folder)
        if len(seen) > _MOST_ALTERNATES:
            raise UnsafeError(f"{objects}: takes objects from more than {_MOST_ALTERNATES} other folders")
        for inner in (folder / name for name in _OBJECT_FOLDERS):
            for path in inner.iterdir() if inner.is_dir() else ():
                if path.exists() and not path.is_file() and not path.is_dir():
                    raise UnsafeError(f"{path}: is not a regular file: remove it")
        listed = folder / "info" / "alternates"
        if listed.exists():
            with open_regular(listed, listed, follow=True) as file:
                lines = file.read(1 << 20).decode(errors="surrogateescape").split("\n")
            waiting += [folder / line for line in lines if line and not line.startswith("#") and "\0" not in line]


def _read_references(git_folder: Folder) -> dict[str, bytes]:
    """Return the files with references in a git directory by name. Links are left out."""
    names = [name for name in _FILES if git_folder.has(name)]
    names += [name for folder in _FOLDERS for name in git_folder.find(f"{folder}/**/*")]
    if len(names) > _MOST_REFERENCES:
        raise UnsafeError(f"it has {len(names):,} references in files of their own: run `git pack-refs --all` in it")
    return {name: git_folder.read_bytes(name) for name in names}


def _read_format(config: Path) -> str:
    """Return the hash function of a repository. Raises UnsafeError if its references are in another format."""
    with open_regular(config, config, follow=True) as file:
        text = file.read(1 << 20)
    found = {}
    for name in ("refstorage", "objectformat"):
        # git reads the text from its input, and no file that it includes
        words = ("config", "--file", "-", "--no-includes", "--default", "", "--get", f"extensions.{name}")
        try:
            found[name] = _run(None, words, given=text).strip().lower()
        except SpecError as error:
            raise UnsafeError(f"{config}: {error}") from None
    if found["refstorage"] not in ("", "files"):
        raise UnsafeError(
            f"its references are a {found['refstorage']}: run `git refs migrate --ref-format=files` in it"
        )
    return found["objectformat"] or "sha1"


def _lay_out(own: Path, objects: Path, references: Mapping[str, bytes], stored: str) -> None:
    """Make mprun's git directory, or update it. An index of an earlier checkout is kept."""
    invoking_user.make_folder(own)
    made = Folder(own)
    if not made.has(".git/made-by-mprun") or made.read_text(".git/made-by-mprun") != stored:
        made.remove_tree(".git")
        _run(own, ("init", "--quiet", "--template=", f"--object-format={stored}"))
        for name, value in _SETTINGS.items():
            _run(own, ("config", name, value))
        made.make(".git/objects/info")
        made.write_text(".git/made-by-mprun", stored)
    made.write_bytes(".git/objects/info/alternates", os.fsencode(objects) + b"\n")
    for name in (*_FILES, *_FOLDERS):
        made.remove_tree(f".git/{name}")
    made.make(".git/refs")
    for name, content in references.items():
        if not name.startswith("refs/replace/"):
            made.make(f".git/{name}".rpartition("/")[0])
            made.write_bytes(f".git/{name}", content)


def _run(own: Path | None, words: Sequence[str], most: int = MOST_BYTES, given: bytes = b"") -> str:
    """Return the output of git, which reads `given`."""
    program = shutil.which("git")
    if program is None:
        raise MachineError("git is not installed: apt-get install git")
    git_folder = {} if own is None else {"GIT_DIR": str(own / ".git")}
    read = os.memfd_create("given")
    try:
        os.write(read, given)
        os.lseek(read, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [program, *words],
            cwd=own or "/",
            env={"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT, **git_folder},
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(read)
    with process:
        try:
            output, said = _read(process, words[0], most)
        except BaseException:
            # git then removes its lock of the index
            process.terminate()
            raise
    if process.returncode:
        text = said.decode(errors="replace").strip()
        reason = text.splitlines()[-1] if text else f"git {words[0]}: status {process.returncode}"
        raise RunError(f"{reason}: {_WHOLE}") if _LACKING.search(text) else SpecError(reason)
    return output.decode(errors="replace")


def _read(process: subprocess.Popen[bytes], word: str, most: int) -> tuple[bytes, bytes]:
    """Return all that git prints, and the beginning of its messages."""
    assert process.stdout is not None
    assert process.stderr is not None
    output, said = bytearray(), bytearray()
    end_s = time.monotonic() + MOST_S
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ, output)
        ready.register(process.stderr, selectors.EVENT_READ, said)
        while ready.get_map():
            for key, _ in ready.select(max(0, end_s - time.monotonic())):
                block = os.read(key.fd, 1 << 16)
                if not block:
                    ready.unregister(key.fileobj)
                elif key.data is output or len(said) < 1 << 16:
                    key.data.extend(block)
            if len(output) > most:
                raise SpecError(f"git {word} prints more than {most >> 20} MB, the most that is read")
            if time.monotonic() > end_s:
                raise SpecError(f"git {word} takes longer than {MOST_S} s: is the repository damaged?")
    return bytes(output), bytes(said)


class History(Frozen):
    """The commits between a good and a bad one.

    - good, bad: their full ids.
    - commits: reachable from `bad` and not from `good`, each after its parents.
    """

    repository: Repository
    good: str
    bad: str
    commits: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]

    def describe(self, commit: str) -> str:
        """Return the short id and the subject of a commit."""
        return self.repository.read("log", "-1", "--format=%h %s", commit).strip()


def read_history(tree: Path, good: str, bad: str) -> History:
    """Return the commits between two revisions. Raises SpecError for revisions that do not fit, MachineError.

    mprun's folder for the repository is in the cache, and is kept for the next search.
    """
    repository = open_repository(tree, cache("bisect"))
    first, last = (_resolve(repository, revision) for revision in (good, bad))
    lines = repository.read("rev-list", "--topo-order", "--reverse", "--parents", f"{first}..{last}").splitlines()
    found = {words[0]: tuple(words[1:]) for words in map(str.split, lines)}
    if not found:
        raise SpecError(f"there is no commit from {good} to {bad}: exchange --good and --bad?")
    if repository.read("merge-base", first, last).strip() != first:
        raise SpecError(f"{good} is no ancestor of {bad}: name a good commit from which {bad} descends")
    invoking_user.give(repository.own)
    return History(repository, first, last, tuple(found), found)


def _resolve(repository: Repository, revision: str) -> str:
    try:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return repository.read("rev-parse", *words).strip()
    except SpecError:
        raise SpecError(f"{repository.top} has no commit '{revision}'") from None
