# SPDX-License-Identifier: Apache-2.0
"""`mprun kernel build|template|list|info|export|import|rm|prune|test`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from mprun.cli import options, output
from mprun.cli.completion import complete_kernels
from mprun.cli.output import emit, tell_built
from mprun.cli.progress import Bar
from mprun.errors import SpecError
from mprun.kernel import addition, store
from mprun.kernel.addition import AdditionKind
from mprun.machine import invoking_user

_added = partial(options.file, multiple=True, metavar="FILE.c")


@click.group("kernel", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Build, list, describe, share, remove and test experiment kernels.

    The virtual engine runs experiments inside a Linux kernel that is an ordinary process. The kernel is
    built once per user from Debian's linux-source-6.12, or from any kernel tree from version 6.12 on.
    """


@command.command()
@click.option("--source", type=click.Path(path_type=Path), help="Build this kernel tree or tarball, not Debian's.")
@click.option("--name", default="default", show_default=True, help="Name the kernel, for --kernel NAME.")
@options.jobs("compilers")
@options.file("--config", help="Add the options in FILE, such as CONFIG_NET_SCH_HFSC=y.")
@click.option(
    "--profile",
    type=click.Choice(["debug", "coverage"]),
    help="Add the kernel's own checks of locks, memory and the network (debug), or counters of executed lines "
    "(coverage). Runs take longer.",
)
@_added("--with-scheduler", "schedulers", help="Add your MPTCP scheduler. `mprun kernel template` writes one.")
@_added("--with-congestion", "congestions", help="Add your congestion control. `mprun kernel template` writes one.")
@click.option("--symbols", "with_symbols", is_flag=True, help="Write the kernel's symbols too, for `mprun debug`.")
@click.option("--watch", "is_watched", is_flag=True, help="Build again at each save, and run COMMAND after each build.")
@click.option("--json", "as_json", is_flag=True, help="Print the kernel as JSON.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def build(
    source: Path | None,
    name: str,
    jobs: int,
    config: Path | None,
    profile: str | None,
    schedulers: tuple[Path, ...],
    congestions: tuple[Path, ...],
    with_symbols: bool,
    is_watched: bool,
    as_json: bool,
    argv: tuple[str, ...],
) -> None:
    """Build a kernel, unless the same kernel is built already.

    With a tree as --source, the build happens in a copy that is kept for the name. The next build compiles
    only what has changed. The tree itself is only read. The build runs the Makefiles of the source with all your
    rights.

    With --watch, COMMAND runs after each build, as in --watch -- mprun -t topo -x xp --kernel mine.
    """
    from mprun.kernel import build
    from mprun.kernel.symbols import find_symbols

    if argv and not is_watched:
        raise click.UsageError(f"'{argv[0]}' is unexpected: a command needs --watch, as in --watch -- mprun -t T -x X")

    def make() -> None:
        added = addition.read_additions(config, schedulers, congestions, profile)
        with Bar() as bar:
            kernel, fresh = build.build(source, name, jobs, bar.show, added, with_symbols)
        tell_built(kernel, fresh, as_json)
        if fresh:
            _tell_pruned(store.prune(store.MOST_UNNAMED))
        if with_symbols and not as_json:
            click.echo(f"symbols for gdb: {find_symbols(kernel)}")

    if is_watched:
        from mprun.cli.kernel_watch import watch

        files = [path for path in (config, *schedulers, *congestions) if path is not None]
        watch(source or build.default_source(), files, make, argv)
    else:
        make()


@command.command()
@click.argument("kind", type=click.Choice(["scheduler", "congestion"]))
@click.argument("file", type=options.Target(), metavar="FILE.c")
def template(kind: AdditionKind, file: Path) -> None:
    """Write a C file with a scheduler or a congestion control to start from.

    The file compiles as it is, on Linux 6.12 and on 7.x. Its name becomes the name in the kernel.
    """
    addition.write_template(kind, file)
    click.echo(f"next: mprun kernel build --name mine --with-{kind} {file}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of kernels as JSON.")
def list_(as_json: bool) -> None:
    """List the built kernels: name, version, digest, size, source.

    A kernel loses its name when another build takes the name. Such a kernel is named by its digest.
    """
    kernels = store.list_kernels()
    if as_json:
        emit([{**asdict(kernel), "bytes": store.size_bytes(kernel)} for kernel in kernels])
        return
    if not kernels:
        click.echo("none yet; `mprun kernel build` builds one")
        return
    # a kernel whose name is only its folder's name is identified by its digest
    names = {kernel.name: "-" if kernel.name == kernel.directory.name else kernel.name for kernel in kernels}
    width = max(map(len, names.values()))
    versions = max(len(kernel.version) for kernel in kernels)
    stale = [kernel for kernel in kernels if not store.is_current(kernel)]
    for kernel in kernels:
        mark = "*" if kernel in stale else " "
        size = f"{store.size_bytes(kernel) / 1e6:.1f} MB"
        name = f"{names[kernel.name]:{width}}{mark}"
        click.echo(f"{name} {kernel.version:{versions}}  {kernel.digest[:8]}  {size:>7}  {kernel.source}")
    if stale:
        click.echo("* of another version of mprun: build it again (mprun kernel build) or remove it (mprun kernel rm)")


@command.command()
@click.argument("file", type=options.Target(b"PK", has_folder=True))
@options.text("--name", "TEXT", "Export the kernel NAME.", default="default", shell_complete=complete_kernels)
def export(file: Path, name: str) -> None:
    """Write a kernel and the built traffic tools to one archive, for machines without a compiler.

    The archive contains the changes of mprun, and names the source and the command that build the kernel again.
    """
    from mprun.bundles.installation import export as write

    digest = write(store.find_kernel(name), file)
    invoking_user.give(file)
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}")
    click.echo(f"on another machine: mprun kernel import {file.name} --trust {digest}")


@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--trust", metavar="DIGEST", help="Take the archive if this is its SHA-256.")
@click.option("--name", default="default", show_default=True, help="Name the kernel, for --kernel NAME.")
def import_(file: Path, trust: str | None, name: str) -> None:
    """Add the kernel and the tools of an archive. Nothing is compiled.

    A kernel runs with your rights. So the archive must be one that this mprun names, or have the digest that you give
    with --trust. Take the digest from its maker, and not from the place of the archive.
    """
    from mprun.bundles.installation import take_in

    if not store.NAME_PATTERN.fullmatch(name):
        raise SpecError(f"'{name}' cannot be the name of a kernel: use letters, digits, '.', '_', '+' and '-'")
    version, new = take_in(file, trust, name)
    tools = f", with the tools {' and '.join(new)}" if new else ""
    click.echo(f"kernel '{name}': {version}{tools}")


@command.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_kernels)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def rm(names: tuple[str, ...], yes: bool) -> None:
    """Remove kernels, by name or digest.

    A kernel with several names is removed with the last name.
    """
    for kernel in store.choose(names):
        if yes or output.confirm(f"remove {kernel.name} ({kernel.version}, {kernel.digest[:8]})?"):
            store.remove(kernel)


@command.command()
@options.number("--keep", 0, 10_000, "Keep the newest N of them.", 0)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def prune(keep: int, yes: bool) -> None:
    """Remove kernels that have lost their names to later builds, the oldest first.

    A run on such a kernel can no longer be repeated byte by byte, unless the kernel is built again. Each build keeps
    the newest 20 of these kernels.
    """
    if yes or output.confirm("remove the kernels without a name?"):
        _tell_pruned(store.prune(keep))


def _tell_pruned(removed: Sequence[store.Kernel]) -> None:
    if removed:
        digests = " ".join(kernel.digest[:8] for kernel in removed)
        click.echo(f"removed {len(removed)} without a name: {digests}", err=True)


@command.command()
@click.argument("name", default="default", shell_complete=complete_kernels)
@click.option("--json", "as_json", is_flag=True, help="Print the kernel as JSON.")
def info(name: str, as_json: bool) -> None:
    """Describe a kernel."""
    kernel = store.find_kernel(name)
    if as_json:
        emit(kernel)
        return
    for key, value in asdict(kernel).items():
        click.echo(f"{key.replace('_', ' '):14} {value}")


@command.command()
@options.kernel(
    "kernels",
    multiple=True,
    default=("default",),
    show_default=True,
    help="Boot this experiment kernel. Repeat the option to compare kernels.",
)
@click.option(
    "--only",
    metavar="NAME,...",
    help="Run only these tests, groups or suites: mptcp_join, mptcp_join/fastclose, tc-testing/qdiscs.",
)
@click.option("--scheduler", metavar="NAME", help="Use this packet scheduler in every namespace of the tests.")
@options.folder("--packetdrill", "program", help="Use the program packetdrill in DIR. Default: the program in PATH.")
@options.folder(
    "--suite", help="Run the packetdrill scripts in DIR and its subfolders instead of the kernel's own tests."
)
@options.files("seed")
@options.jobs("tests")
@options.to_folder(
    "Write the output of the scripts to DIRECTORY, one folder for each script.",
    default=Path("runs/selftests"),
)
@click.option("--capture", is_flag=True, help="Keep the packets of each network namespace, 200 bytes of each.")
@options.text(
    "--tracepoint tracepoints",
    "EVENT",
    "Keep this trace event of the kernel, such as 'mptcp:*'. Can be repeated.",
    multiple=True,
)
@click.option("--at", "time", metavar="TIME", help="Run one test until this time from its boot, in gdb.")
@options.gdb_commands
@options.file("--known", help="Add the known failures in FILE, which do not fail the command.")
@click.option("--junit", metavar="FILE", type=options.Target(b"<"), help="Write JUnit's XML.")
@click.option("--tap", "as_tap", is_flag=True, help="Print the results as TAP.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def test(
    kernels: tuple[str, ...],
    only: str | None,
    scheduler: str | None,
    files: options.FileOptions,
    jobs: int,
    target: Path,
    program: Path | None,
    suite: Path | None,
    capture: bool,
    tracepoints: tuple[str, ...],
    time: str | None,
    commands: tuple[str, ...],
    known: Path | None,
    junit: Path | None,
    as_tap: bool,
    as_json: bool,
) -> None:
    """Run the kernel's own MPTCP tests and packetdrill scripts inside the kernel, in simulated time.

    With several kernels (--kernel A --kernel B), also print the subtests whose outcomes differ from those of the
    first kernel. The tests of traffic control (tc-testing) run if --only names them.

    The tests come from the source tree that the kernel was built from (tools/testing/selftests/net).
    If the program packetdrill is missing, its scripts are reported as not run.
    The exit status is 1 if a subtest fails that is not known to fail (see docs/reference/kernel-tests.md).
    """
    from mprun.cli import selftests
    from mprun.kernel.selftests.known import read_known
    from mprun.kernel.selftests.script_run import KeptRecords

    if as_tap and as_json:
        raise click.UsageError("use --tap or --json, not both")
    if time and (as_tap or as_json):
        raise click.UsageError("use --at without --tap and --json: gdb prints its own lines")
    names = only.split(",") if only else None
    seed = 1 if files.seed is None else files.seed
    own = read_known(known) if known else ()
    chosen = {kernel.name: kernel for kernel in map(store.find_kernel, kernels)}
    debugger = selftests.find_debugger(list(chosen.values()), time, commands)
    kept = KeptRecords(capture, tracepoints, debugger)
    order = selftests.TestsToRun(names, scheduler, seed, jobs, target, program, suite, own, kept, as_json or as_tap)
    sys.exit(0 if selftests.run(list(chosen.values()), order, as_json, as_tap, junit) else 1)
