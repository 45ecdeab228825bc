# SPDX-License-Identifier: Apache-2.0
"""The command line: the only part that prints, and that turns errors into exit codes.

Each command has its own module, which is imported when the command is called, so that `--help` and completion answer
immediately.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mprun.errors import MachineError, MprunError, explain_machine
from mprun.machine.process_limit import check_limits
from mprun.safety.text import printable

if TYPE_CHECKING:
    from types import FrameType

    from click.shell_completion import CompletionItem

# The groups of `mprun --help`: command -> help line. The module of a command has its name.
GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "run": "Run an experiment on a topology (also `mprun -t T -x X`).",
        "new": "Write a topology and an experiment to start from.",
        "lab": "List, show, copy, run and grade the labs of mprun.",
    },
    "Describe": {
        "validate": "Check the files and print all their errors.",
        "plan": "Show the commands of a run, node by node.",
        "topology": "List generators and profiles, or write out a topology.",
        "trace": "List traces of links, or import one of another tool.",
        "graph": "Draw the network with its link values.",
        "convert": "Convert older key:value files to YAML.",
        "schema": "Print the JSON Schemas of the files.",
    },
    "Run": {
        "sweep": "Run and repeat all cells of an experiment's matrix.",
        "calibrate": "Measure each link and compare it with the topology.",
        "shell": "Build the network and open Mininet's prompt.",
    },
    "Ask": {
        "faults": "Give each packet a fault once, and show which faults matter.",
        "search": "Find the conditions under which a statement does not hold.",
        "why": "Find the time from which the failure of a run was inevitable.",
        "minimise": "Find the smallest files with the failure of a run.",
        "baseline": "Check that values of experiments have not changed.",
        "history": "Draw the values of baselines over the commits of a repository.",
        "bisect": "Find the commit that changed a result.",
    },
    "Look": {
        "show": "Show a run or a sweep: time lines, metrics, expectations.",
        "report": "Write an HTML report of a run or a sweep.",
        "compare": "Compare two runs or sweeps: inputs, metrics, expectations.",
        "packets": "Analyse a run's captures: packets, connections, subflows.",
        "wireshark": "Open the captures of a run in Wireshark.",
        "debug": "Repeat a run, and stop its kernel at a time in gdb.",
        "coverage": "Show which lines of the kernel a run executed.",
        "runs": "List and remove runs and sweeps.",
        "export": "Export the tables of a run or a sweep as CSV.",
    },
    "Share": {
        "verify": "Repeat a run, a sweep or a bundle, and compare the results.",
        "bundle": "Pack a run or a sweep into one archive to share.",
        "course": "Export labs, kernel and a hand-out for a class.",
    },
    "Machine": {
        "doctor": "Check what this machine can run, and how to fix the rest.",
        "kernel": "Build, list, describe, remove and test experiment kernels.",
        "tools": "Build and list traffic tools that have no package.",
        "completion": "Print the code for completion in a shell.",
    },
}
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}

# The key of the words behind the command in the context.
_WORDS = "mprun.words"
# More letters behind one dash may be the beginning of a long name.
LEAST_CUT = 3
# The delay after which an ignored signal is sent again.
AGAIN_S = 0.02


class LateGroup(click.Group):
    """A group that imports a command when it is called. Its default command is `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"mprun.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # one width for all groups, so that their texts are aligned
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands from the list, without importing any, and the options of the default command `run`."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            run = self.get_command(ctx, "run")
            assert run is not None
            own = super().shell_complete(ctx, incomplete)
            known = {item.value for item in own}
            return [*own, *(item for item in run.shell_complete(ctx, incomplete) if item.value not in known)]
        found = [(name, text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [CompletionItem(name, help=text) for name, text in found]

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command. If the reader of the output has ended, exit as by SIGPIPE, a failure for click."""
        try:
            return super().invoke(ctx)
        except click.MissingParameter as error:
            if error.ctx and error.param and error.param.name in ("topology", "experiment"):
                from mprun.cli.mistake import advise_files

                raise click.UsageError(advise_files(error.ctx, ctx.meta[_WORDS]), error.ctx) from None
            raise
        except click.UsageError as error:
            from mprun.cli.mistake import advise_option, advise_usage

            if isinstance(error, click.NoSuchOption):
                raise advise_option(error, COMMANDS, ctx.meta[_WORDS]) from None
            raise advise_usage(error, COMMANDS, ctx.meta[_WORDS]) from None
        except BrokenPipeError:
            # discard the rest of the output
            _stand_in((1, 2))
            sys.exit(141)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("--help", "-h", "--version"):
            args = ["run", *args]
        # click keeps no words of a command line that it cannot read
        ctx.meta[_WORDS] = args[1:]
        if not ctx.resilient_parsing:
            self._refuse_one_dash(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_one_dash(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise UsageError for the long name of an option after one dash, which click reads as several short names."""
        command: click.Command | None = self
        # the words of another program follow after `--`
        for word in takewhile("--".__ne__, args):
            if not word.startswith("-") and isinstance(command, click.Group):
                command = command.get_command(ctx, word)
            elif len(word) > 2 and word[0] == "-" and command is not None:
                options = [one.opts for one in command.get_params(ctx)]
                # click reads `-topo` as -t with the file `opo`
                near = [(len(one), names) for names in options for one in names if one.startswith(f"-{word}")]
                if near and (len(word) > LEAST_CUT or min(near)[0] == len(word) + 1):
                    raise click.UsageError(f"no option '{word}': write {' or '.join(map(repr, min(near)[1]))}", ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            from mprun.cli.mistake import advise_command

            raise click.UsageError(f"no command '{args[0]}'{advise_command(args[0], args[1:], COMMANDS)}")
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"mprun {version('mprun')}")
        ctx.exit()


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def group() -> None:
    """Run multipath-transport experiments from two YAML files.

    mprun -t TOPOLOGY -x EXPERIMENT builds the network, runs the traffic and writes all results
    to runs/latest.
    """


def _stand_in(descriptors: Iterable[int]) -> None:
    """Open /dev/null as each closed standard stream. Otherwise the next opened file would take its place."""
    for descriptor in descriptors:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != descriptor:
            os.dup2(nothing, descriptor)
            os.close(nothing)


def _is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


def listen() -> list[int]:
    """Let INT, TERM, HUP and XCPU interrupt from now on. Return a list to which each received signal is added.

    Python ignores an exception in a place where nothing can catch it (a finalizer, a callback). So an ignored signal
    is sent again a moment later.
    """
    came: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if number == signal.SIGXCPU:
            # it comes again for each second of CPU time
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def send_again(*_: object) -> None:
        signal.raise_signal(came[-1])

    def notice(ignored: Any) -> None:
        if issubclass(ignored.exc_type, KeyboardInterrupt) and came:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            sys.__unraisablehook__(ignored)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        # a command that was started with nohup keeps ignoring the signal
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.signal(signal.SIGALRM, send_again)
    sys.unraisablehook = notice
    return came


def _end_interrupted(came: Sequence[int]) -> NoReturn:
    if signal.SIGXCPU in came:
        click.echo("mprun has used the CPU time that is allowed: see `ulimit -t`", err=True)
        sys.exit(MachineError.exit_code)
    click.echo("interrupted", err=True)
    sys.exit(130)


def main() -> None:
    """Run the command line. TERM and HUP end a run as Ctrl-C does.

    Exit codes: 0, 1 (failed), 2 (bad input), 3 (this machine cannot run it), 130 (interrupted), 141 (the reader of
    the output has ended).
    """
    _stand_in(descriptor for descriptor in range(3) if _is_closed(descriptor))
    sys.stdin, sys.stdout, sys.stderr = (
        stream or open(descriptor, mode, closefd=False)  # noqa: SIM115
        for descriptor, (stream, mode) in enumerate(((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w")))
    )
    for stream in (sys.stdout, sys.stderr):
        # a terminal with another character set, such as with LANG=de_DE, cannot show a tick
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")
    came = listen()
    try:
        check_limits()
        group(standalone_mode=False, prog_name="mprun")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except MprunError as error:
        from mprun.cli.prose import complain

        complain(str(error))
        if signal.SIGXCPU in came:
            _end_interrupted(came)
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _end_interrupted(came)
    except BaseException as error:
        if came and not isinstance(error, SystemExit):
            # a library may turn the interruption into its own error
            _end_interrupted(came)
        explained = explain_machine(error)
        if explained is None:
            raise
        click.echo(printable(explained), err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
