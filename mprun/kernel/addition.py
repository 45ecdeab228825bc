# SPDX-License-Identifier: Apache-2.0
"""A user's additions to a kernel: options, and files with the user's own scheduler or congestion control."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from mprun.errors import MachineError, SpecError
from mprun.kernel.recipe import HERE, asked_options
from mprun.model.frozen import Frozen

AdditionKind = Literal["scheduler", "congestion", "coverage"]
TEMPLATES = HERE / "template"
PROFILES = HERE / "profile"

# What make(1) needs for a profile besides its options. `coverage` counts the lines of these folders.
COVERED = ("net/core", "net/ipv4", "net/ipv6", "net/mptcp", "net/sched", "net/sctp")
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "coverage": (
        f"GCOV_PROFILE=$(if $(filter {' '.join(COVERED)},$(obj)),y)",
        "CFLAGS_GCOV=-fprofile-arcs -ftest-coverage -fno-tree-loop-im -fprofile-info-section=mprun_gcov",
    ),
}
# The function of the kernel that a file of each kind calls.
_REGISTERS: Mapping[AdditionKind, str] = {
    "scheduler": "mptcp_register_scheduler",
    "congestion": "tcp_register_congestion_control",
    "coverage": "convert_to_gcda",
}


_FOLDER = "net/mptcp"


_STEM = re.compile(r"[a-z][a-z0-9_]*")


# The longest name of a congestion control (TCP_CA_NAME_MAX) and of a scheduler (MPTCP_SCHED_NAME_MAX), with its end.
_MOST_CHARACTERS = 15


_LINE = re.compile(r"(?:(?P<set>CONFIG_\w+)=(?P<value>.+)|# (?P<unset>CONFIG_\w+) is not set)\s*")


# Options that would give programs of a run a way to the host, the host's clock or its randomness.
_REFUSED: tuple[tuple[str, str], ...] = (
    (r"MODULES", "programs of a run could load code into the kernel"),
    (r"MCONSOLE|BLK_DEV_UBD\w*|MMAPPER|UML_PCI\w*|VIRTIO_UML|UML_SOUND", "programs of a run could reach the host"),
    (r"UML_NET\w*", "programs of a run could reach the host's network"),
    (r"(?:PORT|FD|PTY|TTY|XTERM)_CHAN|SSL", "the consoles of the kernel would open files of the host"),
    (r"DEVMEM|PROC_KCORE|KEXEC\w*|HIBERNATION", "programs of a run could read or replace the kernel"),
    (r"UML_RTC|RTC_DRV\w*", "the host's time would enter the run"),
    (r"UML_RANDOM|HW_RANDOM\w*", "the host's randomness would enter the run"),
    (r"SMP", "simulated time has one CPU"),
)


class OwnFile(Frozen):
    """A C file of the user or of a profile that becomes a part of net/mptcp. stem: its name without the ending."""

    kind: AdditionKind
    stem: str
    text: str

    @property
    def path(self) -> str:
        """The path in the kernel tree. No file of the tree has this name."""
        return f"{_FOLDER}/own_{self.stem}.c"


class Addition(Frozen):
    """Additions to the recipe. Without any, the kernel is that of the recipe.

    - options: lines of a configuration, such as `CONFIG_NET_SCH_HFSC=y`.
    - files: C files of the user or of a profile.
    - variables: variables for make(1).
    """

    options: tuple[str, ...] = ()
    files: tuple[OwnFile, ...] = ()
    variables: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the additions, in hexadecimal; empty without any."""
        return hashlib.sha256(self.to_text().encode()).hexdigest() if self.options or self.files else ""

    def to_text(self) -> str:
        """Return the additions as JSON."""
        files = [{"kind": file.kind, "name": f"{file.stem}.c", "text": file.text} for file in self.files]
        variables = {"variables": self.variables} if self.variables else {}
        return json.dumps({"options": self.options, "files": files, **variables}, indent=1) + "\n"

    @property
    def counts_lines(self) -> bool:
        """Return whether the kernel counts how often each line is executed."""
        return any(file.kind == "coverage" for file in self.files)

    def add_files(self, ours: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return mprun's files for a kernel tree, with the user's files and their lines in the Makefile added.

        ours: mprun's files. Keys are paths in the tree, and values are contents.
        """
        if not self.files:
            return dict(ours)
        makefile = f"{_FOLDER}/Makefile"
        lines = "".join(f"mptcp-y += {Path(file.path).stem}.o\n" for file in self.files)
        own = {file.path: file.text.encode() for file in self.files}
        return {**ours, **own, makefile: ours[makefile] + f"\n{lines}".encode()}

    def check_options(self, configuration: str) -> None:
        """Check that the kernel tree took every option. Raises SpecError.

        configuration: the tree's `.config` after configuring.
        """
        made = set(configuration.splitlines())
        for line in self.options:
            name = option_of(line)
            now = next((one for one in made if one.startswith(f"{name}=")), "")
            if now if line.startswith("#") else line not in made:
                why = f"the tree's other options require {now}" if now else "the tree does not take this option"
                where = f"see {name.removeprefix('CONFIG_')} in its Kconfig files for what it depends on"
                raise SpecError(f"{line.removeprefix('# ')}: {why}; {where}")

    def check_files(self, symbols: str) -> None:
        """Check that each file registers a scheduler or a congestion control, as its option says. Raises SpecError.

        symbols: the output of `nm -A` for the built objects.
        """
        for file in self.files:
            made = str(Path(file.path).with_suffix(".o"))
            wanted = _REGISTERS[file.kind]
            if not re.search(rf"^[^:]*:{re.escape(made)}:\s+U {wanted}$", symbols, re.MULTILINE):
                raise SpecError(
                    f"{file.stem}.c: does not call {wanted}(); `mprun kernel template {file.kind}` writes such a file"
                )


NOTHING = Addition()


def read_additions(
    config: Path | None, schedulers: Iterable[Path], congestions: Iterable[Path], profile: str | None = None
) -> Addition:
    """Read a user's options and files. Raises SpecError for a problem in them, MachineError if one cannot be read."""
    lines = read_text(PROFILES / f"{profile}.config").splitlines() if profile else []
    options = [line for line in lines if _LINE.fullmatch(line)]
    if config is not None:
        # a later line of an option counts
        lines = [*options, *parse_options(config.name, read_text(config))]
        options = list({option_of(line): line for line in lines}.values())
    named: list[tuple[AdditionKind, Path]] = [("scheduler", path) for path in schedulers]
    named += [("congestion", path) for path in congestions]
    if profile and (own := PROFILES / f"{profile}.c").exists():
        named.append(("coverage", own))
    files = tuple(OwnFile(kind, _stem_of(path), read_text(path)) for kind, path in named)
    if twice := {file.stem for file in files if [other.stem for other in files].count(file.stem) > 1}:
        raise SpecError(f"two files have the name {min(twice)}.c: rename one of them")
    return Addition(tuple(options), files, _VARIABLES.get(profile or "", ()))


def option_of(line: str) -> str:
    """Return the name in a line of a configuration, such as `CONFIG_NET` of `# CONFIG_NET is not set`."""
    found = _LINE.fullmatch(line)
    assert found is not None, line
    return found["set"] or found["unset"]


def parse_options(file: str, text: str) -> list[str]:
    """Return the lines of a configuration. Raises SpecError for lines that have no option or break the engine."""
    asked = {option_of(line): line for line in asked_options()}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        match = _LINE.fullmatch(line)
        where = f"{file}:{number}"
        if match is None:
            if line and not line.startswith("#"):
                raise SpecError(f"{where}: '{line}' is no option: write CONFIG_NAME=y or # CONFIG_NAME is not set")
            continue
        name, value = match["set"] or match["unset"], match["value"] or "n"
        if value == "m":
            raise SpecError(f"{where}: {name}=m: this kernel has no modules: write {name}=y")
        if asked.get(name, line) != line:
            raise SpecError(f"{where}: {line}: the engine needs {asked[name]}: remove this line")
        reason = next((why for pattern, why in _REFUSED if re.fullmatch(f"CONFIG_(?:{pattern})", name)), None)
        if reason and value != "n":
            raise SpecError(f"{where}: {line}: {reason}: remove this line")
        found.append(line)
    return found


def _stem_of(path: Path) -> str:
    """Return the name of a file without its ending. Raises SpecError for a name that the kernel's tree cannot have."""
    if path.suffix != ".c" or not _STEM.fullmatch(path.stem):
        raise SpecError(f"{path}: name the file with small letters, digits and _, and the ending .c")
    return path.stem


def read_text(path: Path) -> str:
    """Return the text of a file of the user. Raises MachineError."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise MachineError(f"{path} cannot be read: {reason}") from error


def write_template(kind: AdditionKind, path: Path) -> None:
    """Write a C file with a scheduler or a congestion control that compiles as it is. Its name is the file's name.

    Raises SpecError or MachineError.
    """
    stem = _stem_of(path)
    if len(stem) > _MOST_CHARACTERS:
        raise SpecError(f"{path}: the kernel allows names of {_MOST_CHARACTERS} characters: choose a shorter name")
    text = (TEMPLATES / f"{kind}.c").read_text().replace("@NAME@", stem).replace("@FILE@", path.name)
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise SpecError(f"{path} would be overwritten: choose another name") from None
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from error
