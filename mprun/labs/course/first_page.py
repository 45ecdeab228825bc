# SPDX-License-Identifier: Apache-2.0
"""The first page of a course: what a student types, and how a teacher grades. Pure."""

from __future__ import annotations

from mprun.model.frozen import dataclass

# The address of mprun's sources is the teacher's choice: a class may use a copy in its own network.
INSTALL = (
    "git clone ADDRESS mprun",
    "cp {archive} mprun",
    "cd mprun",
    "TRUST={digest} make lab",
    ". .venv/bin/activate",
    "cd ..",
)
CHECK = ("sha256sum -c --quiet SHA256SUMS", "mprun kernel import {archive} --trust {digest}", "mprun doctor")
LOOK = (
    ("mprun show latest", "metrics, expectations and time lines in the terminal"),
    ("mprun report latest --open", "a page with the figures of the run"),
    ("mprun packets latest", "connections, subflows and packets of the captures"),
    ("mprun wireshark latest", "the captures in Wireshark, with the names of the hosts"),
    ("mprun verify latest", "the run again: it gives the same bytes"),
)
WORDS = (
    ("path", "a pair of addresses of two hosts, and the links between them"),
    ("subflow", "a TCP connection of an MPTCP connection, on one path"),
    ("scheduler", "the part of a sender that chooses the subflow for each packet"),
    ("path manager", "the part of a host that opens and closes subflows"),
    ("goodput", "the payload that arrives, divided by the time"),
    ("claim", "a statement of a lab about the measurements of its runs"),
)
GRADE = "mprun lab check {number} students/* --csv > grades.csv"


@dataclass(frozen=True)
class LabFacts:
    """A lab of a course.

    - folder: the name of its folder.
    - steps: the commands of its steps.
    - questions: the questions for students.
    - build: the command that builds its kernel; None if the lab needs no kernel of its own.
    """

    folder: str
    number: str
    title: str
    aim: str
    steps: tuple[str, ...]
    questions: tuple[str, ...]
    build: str | None


@dataclass(frozen=True)
class Facts:
    """The facts of a course.

    - version: of mprun.
    - kernel: the version of the experiment kernel.
    - archive, digest: the name of its archive, and the SHA-256 in hexadecimal.
    """

    version: str
    kernel: str
    archive: str
    digest: str
    labs: tuple[LabFacts, ...]

    def fill(self, line: str) -> str:
        """Return a command with the archive and its digest in their places."""
        return line.format(archive=self.archive, digest=self.digest)

    @property
    def first(self) -> LabFacts:
        """The lab to begin with: the first one for which no student builds a kernel, or else the first one."""
        return next((lab for lab in self.labs if lab.build is None), self.labs[0])

    @property
    def work(self) -> list[str]:
        """The commands for the lab to begin with."""
        first = self.first
        return [f"cd labs/{first.folder}", *([first.build] if first.build else []), *first.steps, "mprun lab check"]


_README = """\
# Labs with mprun

mprun runs experiments with transport protocols on several paths. An experiment uses the real Linux network stack, in
simulated time. A run takes seconds, needs no root, and gives the same packets on every machine.

`handout.html` says the same. It prints on two pages.

## Get ready

You need Linux on x86-64. mprun's page on machines (`docs/machines.md`) has the ways for Windows and macOS. If mprun is
not installed yet, type this in this folder. ADDRESS is where your teacher keeps mprun:

{install}

If mprun {version} is installed, type this in this folder:

{check}

The kernel runs with your rights. So compare the digest with the one that your teacher shows or prints, and use that:

    {digest}

## Work in a lab

{work}

The `README.md` in the folder of a lab has the network, the commands and the questions. `mprun lab check` says which
steps are left, and which claims hold.

## Look at a run

{look}

## Hand in

Hand in the whole folder of the lab, with its folder `runs`.

## Labs

{labs}

## For the teacher

Collect the folders of the students in `students`. This command grades the runs of a lab, one row for each student:

    {grade}

It needs mprun {version} with the same labs. The folders here have no answers. They are in mprun's own labs,
in `ANSWERS.md`. `SHA256SUMS` has the digest of each file. Show the class the digest of the kernel's archive in the
room or on paper: a digest beside the archive proves nothing.

Made with mprun {version} and an experiment kernel of Linux {kernel}.
"""


def write_readme(facts: Facts) -> str:
    """Return the text of the first page, as Markdown."""
    return _README.format(
        install=_block([facts.fill(line) for line in INSTALL]),
        check=_block([facts.fill(line) for line in CHECK]),
        work=_block(facts.work),
        look="\n".join(f"- `{command}`: {what}" for command, what in LOOK),
        labs="\n".join(_describe(lab) for lab in facts.labs),
        grade=GRADE.format(number=facts.first.number),
        version=facts.version,
        kernel=facts.kernel,
        digest=facts.digest,
    )


def _block(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _describe(lab: LabFacts) -> str:
    own = " You build a kernel for this lab." if lab.build else ""
    return f"- [{lab.folder}](labs/{lab.folder}/README.md), **{lab.title}**: {lab.aim}{own}"
