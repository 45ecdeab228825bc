# SPDX-License-Identifier: Apache-2.0
"""Advice on wrong command lines: words that people know from other tools, and what to write here in their place."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

import click

from mprun.inputs.keys.file_model import FileModel, fields_of, write_example
from mprun.model.problem import find_nearest, list_names
from mprun.storage.look_up import say_bundle

# Options of earlier versions, and the advice for each.
REMOVED_OPTIONS: Mapping[str, str] = {
    "--legacy-queue": "convert the older files first: `mprun convert --legacy-queue TOPOLOGY EXPERIMENT`"
}

_CLEAN = "nothing is left behind by a run, and `mprun runs rm RUN` removes its results"
_PROMPT = "`mprun shell -t TOPOLOGY` opens Mininet's prompt, for commands such as `client ping server`"
_ALL = "name the runs, as in `mprun runs rm runs/2*`"
_REPEAT = "write 'repeat: {runs: 3}' in the experiment, for `mprun sweep`"
_NEWEST = "`latest` is the newest run, and `mprun runs list` lists all"
_METRICS = "`mprun show --all` shows all metrics of a run, `mprun export SWEEP --markdown --metric NAME` one of a sweep"

# Options of other tools, the commands that they are meant for, and the way to the same. A command is a name, such as
# `runs.rm` for one of a group, or an option that the command has; without any, all commands are meant.
_OTHERWISE: Sequence[tuple[str, str, str]] = (
    ("--repeat --runs --count --repetitions --iterations --seeds", "run sweep", _REPEAT),
    (
        "--repeat --runs --repetitions --iterations --seeds",
        "faults",
        "the command makes one run for each packet, and repeats none",
    ),
    ("--engine", "--kernel", "the command always uses the virtual engine"),
    ("--points --samples --runs", "search", "write '--budget N'"),
    ("--packets --count", "faults", "write '--first N', or '--budget N' for a sample of all packets"),
    ("-o --output --out", "--to", "write --to"),
    ("--resume", "run sweep", "the command of an interrupted sweep resumes it"),
    ("--dry-run", "run", "`mprun plan` shows what a run would do"),
    ("--dry-run", "-x", "`mprun validate` checks the files without a run"),
    ("--seed", "validate", "`mprun plan` and `mprun run` have it"),
    (
        "--seed -p --param",
        "verify why minimise",
        "the runs have the seed and the parameters of the original; `mprun run` makes others",
    ),
    ("--format --form --type", "export", "write --csv, --sqlite, --markdown or --latex"),
    ("--clean --cleanup", "run sweep lab.run", _CLEAN),
    ("--force --yes", "-y", "add -y, which does not ask"),
    ("--force --overwrite", "run sweep", "each run has a new directory, so that nothing is overwritten"),
    ("--all", "runs.rm", _ALL),
    ("--excel --xlsx --xls --ods", "export", "--csv writes files that a spreadsheet opens"),
    ("--to --html", "report", "leave it out: the page is report.html in the run, which you can copy"),
    ("--html", "export show", "`mprun report` writes the page, report.html in the run"),
    ("--json", "export", "`mprun show --json` prints a run as JSON"),
    ("--to", "verify", "--keep keeps the new runs"),
    ("--plot --plots", "run sweep", "`mprun report` draws figures of the results"),
    (
        "--pdf --png --svg",
        "report export",
        "figures/ in the run has each figure as PDF, PNG and SVG, after `mprun report`",
    ),
    (
        "--metric --metrics",
        "show",
        f"{_METRICS}, and `mprun runs list --columns NAME` one metric of all runs",
    ),
    (
        "--metric --metrics",
        "report",
        "write 'plots: [{metric: bulk.goodput, over: AXIS}]' in the experiment of a sweep, '{series: goodput}' in that "
        "of a run",
    ),
    ("--last --newest -1 -2", "--output", _NEWEST),
    ("--set --define --var --override", "-p", "-p NAME=VALUE sets a parameter of the files"),
    ("--verbose --debug --log", "run sweep lab.run", "logs/ in the run has the output of every program"),
    ("--quiet --silent", "run lab.run", "`2>/dev/null` hides progress and warnings, and `>/dev/null` the results"),
    ("--cli --interactive", "run", "--shell opens Mininet's prompt"),
    ("--host --link --switch --controller --custom", "run", "the topology file describes the network"),
    ("--pcap --pcaps --tcpdump --dump", "run sweep", "write 'capture: [{host: client}]' in the experiment"),
    ("--real --realtime", "--engine", "write '--engine real'"),
    ("--virtual --simulated", "--engine", "write '--engine virtual'"),
    ("--threads --workers --parallel --processes --cores --cpus", "--jobs", "write '-j N' for N at once"),
)
# Options of one letter that mean a longer one.
_SHORT: Mapping[str, str] = {
    **{"-c": "--clean", "-d": "--duration", "-f": "--force", "-n": "--count", "-q": "--quiet", "-v": "--verbose"},
    **{"-a": "--all", "-m": "--metric", "-r": "--repeat"},
}

# Words that other tools have for a command.
_MEANT: Mapping[str, str] = {
    **{"list": "runs list", "ls": "runs list", "rm": "runs rm", "init": "new", "create": "new", "check": "validate"},
    **{"delete": "runs rm", "remove": "runs rm", "results": "show", "open": "report --open"},
    **dict.fromkeys(("reproduce", "rerun", "repeat", "unbundle", "unpack"), "verify"),
}
# Words that other tools have for a command of a group.
_ACTIONS: Mapping[str, str] = {
    **dict.fromkeys(("delete", "remove", "del", "erase"), "rm"),
    **dict.fromkeys(("ls", "all"), "list"),
    **dict.fromkeys(("copy", "new", "init", "get", "clone"), "start"),
    **dict.fromkeys(("grade", "verify", "test", "submit"), "check"),
    **{**dict.fromkeys(("make", "install", "compile"), "build"), "build": "install"},
}
# Words that are no command and no argument, and the way to what they mean.
_SENTENCES: Mapping[str, str] = {
    **dict.fromkeys(("ping", "pingall", "xterm", "iperf", "iperf3", "nodes", "net", "dump", "cli", "mn"), _PROMPT),
    **dict.fromkeys(
        ("answers", "solution", "solutions"),
        "the lab's folder, which `mprun lab show LAB` names, has ANSWERS.md; a copy of the lab does not",
    ),
}

# The number of other commands with an option that are named.
MOST_OTHERS = 4
# Several seeds in one word.
_SEEDS = re.compile(r"\d *(,|-|:|\.\.) *\d")
# Dashes of printed text, as a PDF has them in place of the hyphen of an option.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"


def advise_option(error: click.NoSuchOption, commands: Collection[str], words: Sequence[str]) -> click.UsageError:
    """Return the error for an unknown option, with what the user may have meant.

    commands: of `mprun`. words: the command line behind the command.
    """
    option, context = error.option_name, error.ctx
    word = option.lstrip("-")
    known = {name for one in context.command.params for name in one.opts} if context else set()
    if option.isupper() and option.lower() in known:
        return click.UsageError(f"no option '{option}': did you mean '{option.lower()}'?", context)
    path = context.command_path.split()[1:] if context else []
    where = {".".join(path), *known}
    parameters = _read_parameters(context.command, words) if context else []
    for asked, following in zip(words, [*words[1:], "VALUE"], strict=False):
        # click reads `-cc` as the options -c and -c
        name, _, given = asked.lstrip("-").partition("=")
        if asked == option and following.partition("=")[0] in parameters:
            return click.UsageError(f"no option '{asked}': write '-p {following}'", context)
        if asked.startswith(option) and name in parameters:
            return click.UsageError(f"no option '{asked}': write '-p {name}={given or following}'", context)
    for asked in dict.fromkeys((option, _SHORT.get(option, option))):
        for names, meant, advice in _OTHERWISE:
            if asked in names.split() and not (meant and where.isdisjoint(meant.split())):
                return click.UsageError(f"no option '{option}': {advice}", context)
    if option in REMOVED_OPTIONS:
        return click.UsageError(f"'{option}' is no longer an option here: {REMOVED_OPTIONS[option]}", context)
    having = [name for command in commands for name, options in _options_of(command) if option in options]
    own = [name for name in having if path and name.startswith(f"{path[0]} ")]
    if word in commands and len(path) < 2 and not own:
        return click.UsageError(f"no option '{option}': `mprun {word}` is a command", context)
    takes_runs = context is not None and any(_operands(context.command))
    if takes_runs and option in ("-t", "-x", "--topology", "--experiment"):
        message = f"no option '{option}': the command takes no files, but results: name one, such as `latest`"
        return click.UsageError(message, context)
    # click counts the dashes, so that it names options that share few letters with the word
    ratios = {one: difflib.SequenceMatcher(None, word, one.lstrip("-")).ratio() for one in error.possibilities or ()}
    if {"--topology", "--experiment"} & known and max(ratios.values(), default=0) < 0.85:
        for place, example in _find_key(_SHORT.get(option, option).lstrip("-"), context.info_name if context else None):
            return click.UsageError(f"no option '{option}': write {example} in {place}", context)
    if len(option) == 2 and (longer := sorted(name for name in known if name.startswith(f"--{word}"))):
        return click.UsageError(f"no option '{option}': did you mean {' or '.join(longer)}?", context)
    near = [one for one, ratio in ratios.items() if ratio > 0.6]
    if near or len(option) == 2:
        return click.NoSuchOption(option, possibilities=near, ctx=context)
    # those of the same group, or else those outside of groups, if there are any
    if having := own or [name for name in having if " " not in name] or having:
        others = [f"`mprun {name}`" for name in having]
        more = f" and {len(others) - MOST_OTHERS} more" if len(others) > MOST_OTHERS else ""
        has = "have" if len(others) > 1 else "has"
        message = f"no option '{option}' here: {', '.join(others[:MOST_OTHERS])}{more} {has} it"
    elif parameters:
        message = f"no option '{option}', and no parameter '{word}' in the files{list_names(parameters, 'parameters')}"
    else:
        return click.NoSuchOption(option, ctx=context)
    return click.UsageError(message, context)


def _operands(command: click.Command) -> Iterator[click.Argument]:
    """Yield the arguments of a command that are runs."""
    arguments = (one for one in command.params if isinstance(one, click.Argument))
    yield from (one for one in arguments if "RUN" in (one.metavar or "") or one.metavar in ("[A]", "[B]"))


def _options_of(name: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the name and the options of a command of `mprun`, or of each command of a group."""
    command: click.Command = importlib.import_module(f"mprun.cli.{name}").command
    own = command.commands.items() if isinstance(command, click.Group) else ()
    for inner, one in ((name, command), *((f"{name} {word}", one) for word, one in own if not one.hidden)):
        yield inner, {option for parameter in one.params for option in parameter.opts}


def _read_parameters(command: click.Command, words: Sequence[str]) -> list[str]:
    """Return the parameters and axes of the files that a command line names, as far as they can be read."""
    option = next((one for one in command.params if "-p" in one.opts), None)
    with contextlib.suppress(click.UsageError):
        context = command.make_context(command.name, [*words], resilient_parsing=True, ignore_unknown_options=True)
        # those that a shell offers
        return [one.value.removesuffix("=") for one in option.shell_complete(context, "")] if option else []
    return []


def _find_key(key: str, command: str | None) -> Iterator[tuple[str, str]]:
    """Yield the places of files that have a key, each with the key or an example of the key in quotes."""
    from mprun.inputs.keys.experiment import ExperimentFile, MptcpEntry, RepeatEntry
    from mprun.inputs.keys.link import LinkProperties
    from mprun.inputs.keys.search import SearchEntry
    from mprun.workloads.tool import load

    tool = load("iperf3")
    places: Sequence[tuple[str, type[FileModel] | None]] = (
        ("the experiment", ExperimentFile),
        ("a path or link of the topology", LinkProperties),
        ("an entry of 'traffic' in the experiment", tool.Entry if tool else None),
        ("'mptcp' of a host in the experiment", MptcpEntry),
        ("'search' of the experiment", SearchEntry if command == "search" else None),
        ("'repeat' of the experiment", RepeatEntry if command == "sweep" else None),
    )
    for place, model in places:
        if model and key in fields_of(model):
            yield place, f"'{write_example(model, key).removesuffix(': ...')}'"


def advise_usage(error: click.UsageError, commands: Collection[str], words: Sequence[str]) -> click.UsageError:
    """Return the error with advice, if any is known. words: the command line behind the command."""
    command = error.ctx.command if error.ctx else None
    if (
        isinstance(error, click.BadParameter)
        and error.param
        and error.param.name == "seed"
        and _SEEDS.search(error.message)
    ):
        message = f"{error.message.rstrip('.')}: for runs with several seeds {_REPEAT}"
        return click.BadParameter(message, error.ctx, error.param)
    is_of_table = isinstance(error, click.BadParameter) and command is not None and command.name == "export"
    if is_of_table and (found := re.search(r"'([^']+\.(?:tex|md))'", error.message)):
        form = "latex" if found[1].endswith("tex") else "markdown"
        kept: list[str] = []
        for word in words:
            if word == found[1] and kept and kept[-1].startswith("-"):
                kept.pop()
            elif word not in (found[1], f"--{form}") and not word.endswith(f"={found[1]}"):
                kept.append(word)
        write = shlex.join(("mprun", "export", *kept, f"--{form}"))
        message = f"{error.message.rstrip('.')}; for a table in a file: {write} > {found[1]}"
        return click.BadParameter(message, error.ctx, getattr(error, "param", None))
    if isinstance(command, click.Group) and (found := re.match(r"No such command '([^']*)'", error.message)):
        known = [name for name, one in command.commands.items() if not one.hidden]
        return click.UsageError(f"no command '{found[1]}'{_advise_action(found[1], known, commands)}", error.ctx)
    found = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", error.message)
    if not found or command is None or error.ctx is None:
        return error
    return click.UsageError(f"{found[0]}: {_advise_extra(found[1], command, error.ctx, commands)}", error.ctx)


def advise_files(context: click.Context, words: Sequence[str]) -> str:
    """Return the message for a command without a topology or an experiment. words: the command line behind it."""
    if bundle := next(filter(None, map(say_bundle, words)), None):
        return bundle
    files = {"topology": "-t TOPOLOGY", "experiment": "-x EXPERIMENT"}
    asked = {one.name: one.required for one in context.command.params if one.name in files}
    # `mprun plan` needs both, unless it compares plans
    takes_both = all(asked.values()) or not any(asked.values())
    wanted = [files[name] if takes_both or is_needed else f"[{files[name]}]" for name, is_needed in asked.items()]
    return f"name {'both files' if takes_both else 'the file'}: {' '.join((context.command_path, *wanted))}"


def _advise_extra(text: str, command: click.Command, context: click.Context, commands: Collection[str]) -> str:
    """Return the advice for arguments that a command does not take. commands: of `mprun`."""
    first = text.split()[0]
    taken = next((str(context.params.get(one.name or "")) for one in _operands(command)), "")
    unset = [one for one in context.params.get("params") or () if "=" not in one[:-1]]
    if first.startswith("="):
        return "write NAME=VALUE without spaces"
    if unset:
        return f"write '-p {unset[-1].rstrip(':=')}={first}'"
    if columns := context.params.get("columns"):
        return f"write '--columns {','.join([*columns, *text.split()])}'"
    if "=" in first and any("-p" in one.opts for one in command.params):
        return f"write '-p {first}'"
    if first in _SENTENCES:
        return _SENTENCES[first]
    parent = str(context.params.get("parent") or "")
    is_result, is_taken_result = (
        one.startswith("latest") or any(map(os.path.isdir, (one, os.path.join(parent, one)))) for one in (first, taken)
    )
    if not is_taken_result and taken in commands:
        return f"write `mprun {taken} {text}`"
    if not is_taken_result and is_result and command.name == "bundle":
        return f"'{taken}' is no run: write `mprun bundle {text}`"
    if not is_result and command.name == "bundle" and "." not in first:
        name = f"'--to {first}.mprun.zip' for the name of the archive"
        return f"a bundle holds one run or sweep: write a command for each, or {name}"
    if not is_result and (target := name_target(command, text)):
        return f"write '{target}'"
    if is_result and command.name == "compare":
        return "`mprun report A B C` compares more than two"
    if is_result and command.name == "bundle":
        return "a bundle holds one run or sweep: write a command for each"
    if "-x" in {name for one in command.params for name in one.opts} and _is_file(first):
        if not context.params.get("topology"):
            return advise_files(context, ())
        return "a command takes one topology and one experiment: write a command for each other file"
    if command.name == "show" and "." in first:
        return _METRICS
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    return f"the command takes {' '.join(pieces) or 'options'} only"


def name_target(command: click.Command, text: str) -> str:
    """Return the option that names what a command writes, with a word; empty if the command does not write."""
    option = next((one for one in command.params if "--to" in one.opts), None)
    if option is None or " " in text:
        return ""
    # of `options.Target`, whose module needs this one
    suggest = getattr(option.type, "suggest", None)
    return f"--to {suggest(text) if suggest else text}"


def advise_command(word: str, others: Sequence[str], commands: Collection[str]) -> str:
    """Return the end of the message that a word is no command of `mprun`. others: the words after it."""
    if word[:1] and word[0] in _DASHES:
        return f": it begins with U+{ord(word[0]):04X}, a dash of printed text: write '-{word[1:]}'"
    if word == "help":
        return f": write `{' '.join(['mprun', *(one for one in others[:1] if one in commands), '--help'])}`"
    if _is_file(word):
        return ": to run two files, write `mprun -t TOPOLOGY -x EXPERIMENT`"
    if word in ("clean", "cleanup"):
        return f": {_CLEAN}"
    if word in _SENTENCES:
        return f": {_SENTENCES[word]}"
    if meant := _MEANT.get(word) or find_nearest(word, list(commands)) or _find_in_groups(word, commands):
        return f": did you mean '{meant}'?"
    return "; `mprun --help` lists them"


def _is_file(word: str) -> bool:
    """Return True for a file, also without the ending of YAML."""
    from mprun.inputs.named_file import spell

    return any(map(os.path.isfile, spell(word)))


def _find_in_groups(word: str, commands: Collection[str]) -> str | None:
    """Return the command of a group that has a word as its name; None if no group or several groups have it."""
    groups = {name: getattr(importlib.import_module(f"mprun.cli.{name}"), "command", None) for name in commands}
    found = [name for name, group in groups.items() if isinstance(group, click.Group) and word in group.commands]
    return f"{found[0]} {word}" if len(found) == 1 else None


def _advise_action(word: str, known: Sequence[str], commands: Collection[str]) -> str:
    """Return the end of the message that a word is no command of a group. known: the commands of the group."""
    if word in _SENTENCES:
        return f": {_SENTENCES[word]}"
    near = find_nearest(word, [*known, *(action for action, meant in _ACTIONS.items() if meant in known)])
    if near is not None:
        return f": did you mean '{near if near in known else _ACTIONS[near]}'?"
    return list_names(known, "commands") + (f"; `mprun {word}` is another" if word in commands else "")


def advise_operand(name: str, command: click.Command, metrics: Collection[str]) -> str:
    """Return the advice for an argument that is no run; empty without any. metrics: of the newest run."""
    if name in metrics:
        return f"it is a metric, which `mprun show --all` shows, and `mprun runs list --columns {name}` for all runs"
    if name == "all" and command.name == "rm":
        return _ALL
    if name.lstrip("-").isdigit() and len(name) < 3:
        return _NEWEST
    if name.endswith((".pcap", ".pcapng")):
        return f"name the run of the capture, as in `mprun {command.name} latest`"
    # a command other than `bundle` may mean the file of one
    given = (".yaml", ".yml", *([".zip"] if command.name != "bundle" else []))
    is_new = "." in name and not os.path.exists(name) and not name.endswith(given)
    return f"write '{target}'" if is_new and (target := name_target(command, name)) else ""
