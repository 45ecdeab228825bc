# SPDX-License-Identifier: Apache-2.0
"""Files from a stranger that are to start a program on the host: repositories, kernel sources, names of runs.

In each case, the stranger's program leaves the file `it_ran`, and a write to the wrong place changes `victim`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Mapping
from contextlib import chdir
from hashlib import sha1
from pathlib import Path

from mprun.errors import MprunError
from mprun.questions.repository import read_history
from tests.hostile import Finding, call, copy_run, environment, first_line, used_s
from tests.scenes import BASELINE

NAME = "topo-xp.baseline"
SECRET = "of the user\n"


def git(root: Path, *words: str, given: bytes = b"") -> str:
    """Run git as the stranger does, who makes the repository."""
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-C", str(root), *words]
    done = subprocess.run(argv, input=given, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


def make_repository(root: Path, *, signed: bool = True) -> Path:
    """Make a repository of three commits, v0 to v2. The last one has a signature."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for number in range(3):
        (root / NAME).write_text(BASELINE.format(goodput=number))
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"Version {number}")
        git(root, "tag", f"v{number}")
    if signed:
        head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
        text = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}\n"
        commit = git(root, "hash-object", "-t", "commit", "-w", "--stdin", given=text.encode())
        git(root, "update-ref", "refs/heads/main", commit)
        git(root, "tag", "-f", "v2", commit)
    return root


def _lose(root: Path) -> None:
    """Remove the content of a file, which git then fetches in a partial clone."""
    blob = git(root, "rev-parse", f"v1:{NAME}")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


Plant = Callable[[Path, Path], None]


def _settings(**settings: str) -> Plant:
    """Return a function that writes settings. EVIL is the stranger's program; `_` in a name stands for a point."""

    def plant(root: Path, evil: Path) -> None:
        for name, value in settings.items():
            git(root, "config", name.replace("_", "."), value.replace("EVIL", str(evil)))

    return plant


def _partial(**settings: str) -> Plant:
    """Return a function that makes a partial clone, whose missing file is fetched with these settings."""

    def plant(root: Path, evil: Path) -> None:
        _lose(root)
        promises = {"core_repositoryformatversion": "1", "extensions_partialClone": "origin"}
        fetch = {"remote_origin_url": str(root), "remote_origin_promisor": "true"}
        _settings(**{**promises, **fetch, **settings})(root, evil)

    return plant


def _attributes(text: str, inside: bool, **settings: str) -> Plant:
    """Return a function that gives a file attributes: inside the commits, or in the git directory."""

    def plant(root: Path, evil: Path) -> None:
        if inside:
            (root / ".gitattributes").write_text(f"* {text}\n")
            git(root, "add", ".gitattributes")
            git(root, "commit", "-q", "-m", "Attributes")
            git(root, "tag", "-f", "v2")
        else:
            (root / ".git" / "info").mkdir(exist_ok=True)
            (root / ".git" / "info" / "attributes").write_text(f"* {text}\n")
        _settings(**settings)(root, evil)

    return plant


HOOKS = ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman", "pre-auto-gc")


def _hooks(root: Path, evil: Path) -> None:
    (root / ".git" / "hooks").mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(evil, root / ".git" / "hooks" / name)


def _hooks_elsewhere(root: Path, evil: Path) -> None:
    _hooks(root, evil)
    (root / ".git" / "hooks").rename(root / ".git" / "other")
    git(root, "config", "core.hooksPath", str(root / ".git" / "other"))


def _include(key: str) -> Plant:
    def plant(root: Path, evil: Path) -> None:
        (root / ".git" / "more").write_text(f"[gpg]\n\tprogram = {evil}\n[log]\n\tshowSignature = true\n")
        git(root, "config", key.replace("ROOT", str(root)), "more")

    return plant


def _elsewhere(*, with_common: bool) -> Plant:
    """Return a function that moves the git directory, with a program in its settings, to another place."""

    def plant(root: Path, evil: Path) -> None:
        _settings(log_showSignature="true", gpg_program="EVIL")(root, evil)
        place = root.parent / "place"
        (root / ".git").rename(place)
        named = place
        if with_common:
            named = place / "worktrees" / "w"
            named.mkdir(parents=True)
            shutil.copy(place / "HEAD", named / "HEAD")
            (named / "commondir").write_text("../..\n")
            (named / "gitdir").write_text(f"{root}/.git\n")
        (root / ".git").write_text(f"gitdir: ../{named.relative_to(root.parent)}\n")

    return plant


def _submodule(root: Path, evil: Path) -> None:
    inner = make_repository(root.parent / "inner", signed=False)
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{git(inner, 'rev-parse', 'HEAD')},sub")
    (root / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = {inner}\n\tupdate = checkout\n')
    git(root, "add", ".gitmodules")
    git(root, "commit", "-q", "-m", "Submodule")
    git(root, "tag", "-f", "v2")
    _settings(submodule_recurse="true", submodule_sub_url=f"ext::{evil}", protocol_ext_allow="always")(root, evil)
    git(root, "config", "submodule.sub.update", f"!{evil}")
    git(root, "config", "submodule.sub.active", "true")


# Repositories whose settings name a program.
GIT: Mapping[str, Plant] = {
    "a program for signatures": _settings(log_showSignature="true", gpg_program="EVIL"),
    "a program for SSH signatures": _settings(log_showSignature="true", gpg_format="ssh", gpg_ssh_program="EVIL"),
    "a program for X.509 signatures": _settings(log_showSignature="true", gpg_x509_program="EVIL", gpg_program="EVIL"),
    "a format with a signature": _settings(format_pretty="%G?", gpg_program="EVIL"),
    "a partial clone, uploadpack": _partial(remote_origin_uploadpack="EVIL"),
    "a partial clone, ext::": _partial(remote_origin_url="ext::EVIL", protocol_ext_allow="always"),
    "a partial clone, SSH": _partial(remote_origin_url="ssh://nowhere.invalid/x", core_sshCommand="EVIL"),
    "a partial clone, proxy": _partial(remote_origin_url="git://127.0.0.1/x", core_gitProxy="EVIL"),
    "a partial clone, credentials": _partial(remote_origin_url="http://127.0.0.1:1/x", credential_helper="!EVIL"),
    "a partial clone, vcs": _partial(remote_origin_vcs="ext", remote_origin_url="EVIL", protocol_ext_allow="always"),
    "fsmonitor": _settings(core_fsmonitor="EVIL"),
    "hooks": _hooks,
    "hooks elsewhere": _hooks_elsewhere,
    "a filter of the commits": _attributes("filter=x", True, filter_x_smudge="EVIL", filter_x_clean="EVIL"),
    "a filter of the git directory": _attributes("filter=x", False, filter_x_smudge="EVIL", filter_x_clean="EVIL"),
    "a filter process": _attributes("filter=x", True, filter_x_process="EVIL", filter_x_required="true"),
    "textconv": _attributes("diff=x", True, diff_x_textconv="EVIL", log_showRoot="true"),
    "an external diff": _attributes("diff=x", False, diff_x_command="EVIL", diff_external="EVIL"),
    "a merge driver": _attributes("merge=x", False, merge_x_driver="EVIL"),
    "a pager and an editor": _settings(core_pager="EVIL", pager_log="EVIL", core_editor="EVIL", core_askPass="EVIL"),
    "aliases": _settings(alias_log="!EVIL", alias_show="!EVIL", alias_checkout="!EVIL", alias_clean="!EVIL"),
    "alternate references": _settings(core_alternateRefsCommand="EVIL", uploadpack_packObjectsHook="EVIL"),
    "an included file": _include("include.path"),
    "a file included by condition": _include("includeIf.gitdir:ROOT/.path"),
    "a git directory elsewhere": _elsewhere(with_common=False),
    "a git directory with a common one": _elsewhere(with_common=True),
    "a submodule": _submodule,
}


def _write_tree(root: Path, entries: list[tuple[str, str, str]], tag: str) -> None:
    """Commit a tree that git itself would not make. entries: mode, name and id."""
    body = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(one) for mode, name, one in entries)
    tree = write_object(root, b"tree", body)
    commit = git(root, "commit-tree", tree, "-p", "main", "-m", "Made by hand")
    git(root, "update-ref", "refs/heads/main", commit)
    git(root, "tag", "-f", tag, commit)


def write_object(root: Path, kind: bytes, body: bytes) -> str:
    """Write an object as it is, and return its id."""
    whole = kind + b" %d\0" % len(body) + body
    name = sha1(whole).hexdigest()
    path = root / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return name


def _entries(*wanted: tuple[str, str]) -> Plant:
    """Return a function that commits a tree with entries: a name and a content. LINK is a link to the victim."""

    def plant(root: Path, evil: Path) -> None:
        made = []
        for name, content in wanted:
            is_link = content == "LINK"
            text = str(root.parent / "victim") if is_link else content.replace("EVIL", evil.read_text())
            one = write_object(root, b"blob", text.encode())
            for part in reversed(name.split("/")[1:]):
                one = write_object(root, b"tree", f"100755 {part}\0".encode() + bytes.fromhex(one))
            mode = "120000" if is_link else "40000" if "/" in name else "100755"
            made.append((mode, name.split("/")[0], one))
        _write_tree(root, made, "v2")

    return plant


def _link_then_folder(root: Path, evil: Path) -> None:
    """Commit a link to the victim, and then a folder with a file in its place."""
    _entries(("d", "LINK"))(root, evil)
    git(root, "tag", "-f", "v1", "v2")
    _entries(("d/thesis", "overwritten"))(root, evil)


def _bomb(root: Path, _: Path) -> None:
    """Commit 10^10 files in trees that have ten times the same tree."""
    one, mode = write_object(root, b"blob", b"x"), "100644"
    for _level in range(10):
        body = b"".join(f"{mode} {n}\0".encode() + bytes.fromhex(one) for n in range(10))
        one, mode = write_object(root, b"tree", body), "40000"
    _write_tree(root, [("40000", "bomb", one)], "v2")


def _large(root: Path, _: Path) -> None:
    """Commit a baseline of 1 GB of zeros."""
    packer = zlib.compressobj(1)
    size, block = 1 << 30, bytes(1 << 20)
    head = b"blob %d\0" % size
    digest = sha1(head)
    parts = [packer.compress(head)]
    for _number in range(size >> 20):
        digest.update(block)
        parts.append(packer.compress(block))
    name = digest.hexdigest()
    path = root / ".git" / "objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join([*parts, packer.flush()]))
    _write_tree(root, [("100644", NAME, name)], "v2")


def _replace(name: str, make: Callable[[Path], object]) -> Plant:
    """Make something in the place of a file of the git directory. BLOB: the object of the first baseline."""

    def plant(root: Path, _: Path) -> None:
        path = root / ".git" / name.replace("BLOB", _object_of(root, f"v1:{NAME}"))
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)

    return plant


def _fifo(name: str) -> Plant:
    return _replace(name, os.mkfifo)


def _object_of(root: Path, revision: str) -> str:
    name = git(root, "rev-parse", revision)
    return f"{name[:2]}/{name[2:]}"


def _damage(name: str, content: str) -> Plant:
    return _replace(name, lambda path: path.write_text(content))


def _link(name: str, target: str) -> Plant:
    def plant(root: Path, _: Path) -> None:
        path = root / ".git" / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return plant


# Repositories that lead outside, are damaged, or take much time or room.
OTHERS: Mapping[str, Plant] = {
    "a link that becomes a folder": _link_then_folder,
    "a tree with .git": _entries((".git/config", "[core]\n\tfsmonitor = it_ran\n")),
    "a tree with .GIT and git~1": _entries((".GIT/x", "EVIL"), ("git~1", "EVIL")),
    "a tree with ..": _entries(("../victim", "overwritten")),
    "a tree with a path as a name": _entries(("a", "x"), ("b", "LINK")),
    "another work tree": _settings(core_worktree="../victim"),
    "a tree of 10^10 files": _bomb,
    "a file of 1 GB": _large,
    "a pipe for HEAD": _fifo("HEAD"),
    "a pipe for the configuration": _fifo("config"),
    "a pipe for a reference": _fifo("refs/tags/v1"),
    "a pipe for packed references": _fifo("packed-refs"),
    "a pipe for an object": _fifo("objects/BLOB"),
    "a pipe for alternates": _fifo("objects/info/alternates"),
    "a pipe for commondir": _fifo("commondir"),
    "a damaged HEAD": _damage("HEAD", "nothing\n"),
    "a HEAD outside": _damage("HEAD", "ref: ../../victim/thesis\n"),
    "a damaged object": _damage("objects/BLOB", "nothing\n"),
    "a damaged configuration": _damage("config", "[[[\n"),
    "damaged packed references": _damage("packed-refs", "nothing\n" * 1000),
    "an unknown format of references": _damage("config", "[extensions]\n\trefStorage = reftable\n"),
    "an unknown hash": _damage("config", "[extensions]\n\tobjectFormat = md5\n"),
    "alternates of themselves": _damage("objects/info/alternates", "../objects\n" * 1000),
    "alternates everywhere": _damage("objects/info/alternates", "/\n/proc\n/dev\n"),
    "objects that are the machine": _link("objects", "/"),
    "references that are the machine": _link("refs", "/"),
    "a HEAD that is a link": _link("HEAD", "/proc/self/environ"),
}
REPOSITORIES: Mapping[str, Plant] = {**GIT, **OTHERS}
VERBS = ("history", "bisect")
# Names of a run that Wireshark or a browser would take for an option.
NAMES = ("-Xlua_script:evil.lua", "-oextcap.gui_save_on_start:TRUE", "-k", "--version")
# Files and links with the name of a baseline.
BASELINES = ("a pipe", "a link", "a device", "a Python topology", "a name that controls a terminal")


def attempt(case: str, verb: str, folder: Path) -> Finding:
    """Read a repository with `mprun history`, or check its commits out as `mprun bisect` does."""
    root = make_repository(folder / "program")
    evil = folder / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {folder}/it_ran\n")
    evil.chmod(0o755)
    (folder / "victim").mkdir()
    (folder / "victim" / "thesis").write_text(SECRET)
    (folder / "tmp").mkdir()
    REPOSITORIES[case](root, evil)
    (folder / "it_ran").unlink(missing_ok=True)
    before, begun_s = _state(root), used_s()
    with environment(XDG_CACHE_HOME=str(folder / "cache"), TMPDIR=str(folder / "tmp")):
        said = _history(root, folder) if verb == "history" else _bisect(root)
    said = said.strip().partition("\n")[0].replace(f"{folder}/", "")[:160]
    used = used_s() - begun_s
    if (folder / "it_ran").exists():
        return Finding(said, "a program of the repository ran", used)
    if {path.name: path.read_text() for path in (folder / "victim").iterdir()} != {"thesis": SECRET}:
        return Finding(said, "a file outside was written", used)
    if _state(root) != before:
        return Finding(said, "the repository was changed", used)
    return Finding(said, cpu_s=used)


def _state(root: Path) -> dict[str, bytes]:
    """Return the files of a repository, and the kind of what is none."""
    return {
        str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(root.rglob("*")) if not path.is_dir()
    }


def _history(root: Path, folder: Path) -> str:
    called = call("history", str(root), "--to", str(folder / "history.html"))
    return str(called.error) if called.error else called.text


def _bisect(root: Path) -> str:
    """Check out all commits as `mprun bisect` does."""
    try:
        history = read_history(root, "v0", "v2")
        for commit in (history.good, *history.commits):
            history.describe(commit)
            history.repository.take(commit)
    except MprunError as error:
        return str(error)
    return f"{len(history.commits)} commits"


def attempt_wireshark(name: str, folder: Path) -> Finding:
    """Open the captures of a run with this name. Another program takes the place of Wireshark."""
    (folder / "runs").mkdir()
    copy_run(folder / "runs", name)
    os.mkfifo(folder / "given")
    (folder / "wireshark").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{folder}/given\n")
    (folder / "wireshark").chmod(0o755)
    with environment(PATH=f"{folder}:{os.environ['PATH']}"), chdir(folder / "runs"):
        called = call("wireshark", "-o", ".", "--", name)
    if called.status:
        return Finding(first_line(called), f"status {called.status}")
    given = (folder / "given").read_text().splitlines()
    place = str(folder / "runs" / name)
    strange = [word for word in given if name in word and not word.startswith(place)]
    return Finding(given[-1].replace(f"{folder}/", ""), f"Wireshark gets {strange[0]}" if strange else "")


def attempt_baseline(case: str, folder: Path) -> Finding:
    """Check the baselines of a stranger's folder."""
    root, evil = folder / "program", folder / "it_ran"
    root.mkdir()
    path = root / NAME
    secret = folder / "secret"
    secret.write_text(SECRET)
    if case == "a pipe":
        os.mkfifo(path)
    elif case in ("a link", "a device"):
        path.symlink_to(secret if case == "a link" else "/dev/zero")
    elif case == "a Python topology":
        (root / "topo.py").write_text(f"open({str(evil)!r}, 'w')\n")
        (root / "xp.yaml").write_text("version: 1\n")
        path.write_text(BASELINE.format(goodput=1).replace("topo.yaml", "topo.py"))
    else:
        (root / f"\x1b[2J{NAME}").write_text("no line\n")
    called = call("baseline", "check", str(root), "-o", str(folder / "runs"))
    if evil.exists():
        return Finding(first_line(called), "a program ran", called.cpu_s)
    if SECRET.strip() in called.text or "\x1b" in called.text:
        return Finding(first_line(called), "a file outside was printed, or the terminal was controlled", called.cpu_s)
    return Finding(first_line(called).replace(f"{folder}/", ""), "" if called.status else "it was taken", called.cpu_s)
