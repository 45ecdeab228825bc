# SPDX-License-Identifier: Apache-2.0
"""`mprun kernel build|list|info|test`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from mprun.cli import options
from mprun.cli.completion import complete_kernels


@click.group("kernel", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Build, list, describe and test experiment kernels.

    The virtual engine runs experiments inside a Linux kernel that is an ordinary process. It is
    built once per user from Debian's linux-source-6.12, or from any tree from 6.12 on.
    """


@command.command()
@click.option("--source", type=click.Path(path_type=Path), help="Kernel tree or tarball instead of Debian's.")
@click.option("--name", default="default", show_default=True, help="Name to run it by: --kernel NAME.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Compilers at a time (as many as there are CPUs).")
@click.option("--json", "as_json", is_flag=True, help="Print the kernel as JSON.")
def build(source: Path | None, name: str, jobs: int | None, as_json: bool) -> None:
    """Build a kernel, unless the same one is built already."""
    from mprun.cli import built
    from mprun.cli.progress import Bar
    from mprun.kernel import store

    with Bar() as bar:
        kernel, fresh = store.build(source, name, jobs or len(os.sched_getaffinity(0)), bar.show)
    built.tell(kernel, fresh, as_json)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of kernels as JSON.")
def list_(as_json: bool) -> None:
    """List the kernels that are built."""
    from mprun.kernel import store

    kernels = store.list_kernels()
    if as_json:
        click.echo(json.dumps([asdict(kernel) for kernel in kernels]))
    elif not kernels:
        click.echo("none yet; `mprun kernel build` builds one")
    for kernel in kernels if not as_json else ():
        stale = "" if store.is_current(kernel) else "  (built by another version of the recipe: build it again)"
        click.echo(f"{kernel.name:12} {kernel.version:20} {kernel.digest[:12]}  {kernel.source}{stale}")


@command.command()
@click.argument("name", default="default", shell_complete=complete_kernels)
@click.option("--json", "as_json", is_flag=True, help="Print the kernel as JSON.")
def info(name: str, as_json: bool) -> None:
    """Describe a kernel."""
    from mprun.kernel import store

    kernel = store.find_kernel(name)
    if as_json:
        click.echo(json.dumps(asdict(kernel)))
        return
    for key, value in asdict(kernel).items():
        click.echo(f"{key.replace('_', ' '):14} {value}")


@command.command()
@options.kernel
@click.option("--only", metavar="NAME,...", help="Tests to run: mptcp_join, or one group of it, mptcp_join/fastclose.")
@click.option("--scheduler", metavar="NAME", help="Packet scheduler of every namespace of the tests.")
@options.seed
@click.option("-j", "--jobs", type=click.IntRange(1), help="Tests at a time (as many as there are CPUs).")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/selftests"),
    show_default=True,
    help="Where all that the scripts say is kept, a folder a script.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def test(
    kernel: str,
    only: str | None,
    scheduler: str | None,
    seed: int | None,
    jobs: int | None,
    output: Path,
    as_json: bool,
) -> None:
    """Run the kernel's own tests of MPTCP inside it, in simulated time.

    They are taken from the source that the kernel was built from (tools/testing/selftests/net/mptcp).
    Exit status 1 if a subtest fails, unless it is on the list of those that are known to (docs/kernel.md).
    """
    from mprun.cli import selftests
    from mprun.kernel import store

    passed = selftests.run(
        store.find_kernel(kernel),
        only.split(",") if only else None,
        scheduler,
        1 if seed is None else seed,
        jobs or len(os.sched_getaffinity(0)),
        output,
        as_json,
    )
    sys.exit(0 if passed else 1)
