# SPDX-License-Identifier: Apache-2.0
"""Metrics and tables from the output of a user's own programs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mprun.errors import SpecError
from mprun.inputs.keys.own_output import MetricEntry, TableEntry
from mprun.inputs.loading import load
from mprun.inputs.reader import RESOLVED
from mprun.inputs.writer import write_experiment
from mprun.metrics.flow import _find_errors
from mprun.model.agent_report import Ended
from mprun.model.metric import parse_bound
from mprun.workloads import exec as tool
from mprun.workloads.tool import metrics_of
from tests.core.test_tools import Left, flow

LAB = Path(__file__).parents[2] / "labs" / "01_multipath" / "topo.yaml"
PRINTED = """\
connecting to 10.1.0.1
latency: 12.5 ms
latency: many ms
latency: 13.5 ms
{"end": {"rate": 7.5, "sizes": [3, 4]}}
"""
CSV = "at,delay,word,odd\n0.1,3,a,1\n0.5,5,b,\n\n1.0,4,c,x\n"


def read(*metrics: dict[str, Any], **files: str) -> Any:
    told = [MetricEntry.model_validate(metric).plain() for metric in metrics]
    left = Left({"bulk": PRINTED, "bulk.err": "latency: 99 ms", "bulk.server": "served 3"}, began_ns=0, ended_ns=10**9)
    for name, text in files.items():
        left = Left(left.logs, {**left.files, name: text.encode()}, began_ns=0, ended_ns=10**9)
    return tool.parse(flow("exec", metrics=told), left)


@pytest.mark.parametrize(("duration_ns", "is_told"), [(None, False), (10**9, True), (2 * 10**9, False)])
def test_a_command_that_its_duration_ended_is_told(duration_ns: int | None, is_told: bool) -> None:
    """A missing value was named without its cause."""
    own = MetricEntry.model_validate({"name": "own", "regex": "speed ([0-9]+)"}).plain()
    one = replace(flow("exec", metrics=[own]), duration_ns=duration_ns)
    error = tool.parse(one, Left({"bulk": PRINTED}, began_ns=0, ended_ns=10**9)).error
    assert ("; 'duration' ended the command after 1s" in str(error)) == is_told


def test_rows_behind_a_quote_that_never_ends_are_not_left_out() -> None:
    text = 'at,delay\n1,3\n2,"5\n' + "3,4\n" * 40_000
    error = read({"name": "own", "file": "f", "column": "delay", "take": "last"}, f=text).error
    assert error is not None
    assert "is no CSV: field larger than field limit" in error


def test_a_metric_may_have_a_direction() -> None:
    told = [{"name": "wait", "regex": "a", "better": "lower"}, {"name": "count", "regex": "a"}]
    entries = [MetricEntry.model_validate(one).plain() for one in told]
    metrics = metrics_of(flow("exec", metrics=entries))
    assert (metrics["wait"].better, metrics["count"].better) == ("lower", None)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ({"regex": "latency: ([0-9.]+) ms", "unit": "ms", "take": "mean"}, (12.5 + 13.5 + 99) / 3 / 1000),
        ({"regex": "latency: ([0-9.]+) ms", "unit": "ms"}, 0.099),
        ({"regex": "latency: ([0-9.]+) ms", "unit": "ms", "take": "first"}, 0.0125),
        ({"regex": "latency", "take": "count"}, 4),
        ({"regex": "served ([0-9]+)", "of": "server"}, 3),
        ({"json": "end.rate", "unit": "mbit"}, 7.5e6),
        ({"json": "end.sizes.1", "unit": "kb"}, 4096),
        ({"column": "delay", "file": "f", "unit": "us", "take": "max"}, 5e-6),
        ({"column": "delay", "file": "f", "take": "sum"}, 12),
        ({"column": "delay", "file": "f", "unit": "%", "take": "median"}, 0.04),
        ({"column": "odd", "file": "f", "take": "count"}, 3),
    ],
)
def test_a_metric_is_found(metric: dict[str, Any], value: float) -> None:
    result = read({"name": "own", **metric}, f=CSV)
    assert result.error is None
    assert result.values == {"time": 1.0, "own": pytest.approx(value, rel=1e-12)}


@pytest.mark.parametrize(
    ("number", "unit", "bound"),
    [("57", "%", "57%"), ("0.007", "%", "0.007%"), ("0.9", "ms", "900us"), ("1.005", "kbit", "1005bit")],
)
def test_a_metric_equals_the_bound_of_the_same_text(number: str, unit: str, bound: str) -> None:
    """A product with 0.01 or 0.001 was a little more or less."""
    entry = {"name": "own", "unit": unit}
    result = read({**entry, "regex": "load ([0-9.]+)", "file": "f"}, f=f"load {number}\n")
    metric = metrics_of(flow("exec", metrics=[MetricEntry.model_validate({**entry, "json": "a"}).plain()]))["own"]
    assert result.values["own"] == parse_bound(metric, bound)
    table = TableEntry.model_validate({"name": "t", "file": "f", "units": {"load": unit}}).plain()
    left = Left({"bulk": "", "bulk.err": ""}, {"f": f"load\n{number}\n".encode()}, began_ns=0, ended_ns=10**9)
    columns = dict(tool.parse(flow("exec", tables=[table]), left).tables["t"])
    assert [values for name, values in columns.items() if name.startswith("load")] == [[parse_bound(metric, bound)]]


@pytest.mark.parametrize(
    ("metric", "error"),
    [
        ({"regex": "speed ([0-9]+)"}, "metric 'own': no number for 'speed ([0-9]+)' in the output of the command"),
        (
            {"regex": "latency: (.*) ms", "take": "mean"},
            "metric 'own': line 3 of the output of the command: 'many' is no number that fits",
        ),
        (
            {"regex": "(latency|rtt): ([0-9.]+) ms"},
            "metric 'own': line 2 of the output of the command: 'latency' is no number that fits: in 'regex', write "
            "( ) around the number alone, and (?: ) around other parts",
        ),
        ({"json": "end.x.y"}, "metric 'own': no number for 'end.x.y' in the output of the command"),
        (
            {"column": "none", "file": "f"},
            "metric 'own': no number for column 'none' in 'f'; columns: at, delay, word, odd",
        ),
        ({"column": "delay", "file": "g"}, "'own': the programs left no file 'g' in {files}"),
        (
            {"json": "delay", "file": "f"},
            "metric 'own': no number for 'delay' in 'f': no line is a JSON object, and 'json' is a path in one: write "
            "'regex' for other text",
        ),
    ],
)
def test_a_missing_metric_is_an_error_with_what_the_program_printed(metric: dict[str, Any], error: str) -> None:
    assert (
        read({"name": "own", **metric}, f=CSV).error == f"{error}; the command printed (logs/bulk.err): latency: 99 ms"
    )


@pytest.mark.parametrize(
    ("more", "printed", "told"),
    [
        ({}, {"bulk": "took 3 ms"}, "; the command printed (logs/bulk.out): took 3 ms"),
        ({}, {}, ""),
        # the whole output followed the message on its line
        (
            {},
            {"bulk": "".join(f"request {n}\n" for n in range(20))},
            "; the command printed (logs/bulk.out):\nrequest 15\nrequest 16\nrequest 17\nrequest 18\nrequest 19",
        ),
        (
            {"command": ["c", "5000"], "server": ["s"]},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; the command does not name the "
            "server's port: write '{port}'",
        ),
        (
            {"command": ["c", "{port}"], "server": ["s"]},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused",
        ),
        (
            {"command": ["c", "{port}"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; let the server listen on 0.0.0.0, and "
            "not on 127.0.0.1 only",
        ),
        (
            {"command": ["c", "server", "{port}"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; 'server' is no address in a command: "
            "write '{destination}'",
        ),
        (
            {"command": ["c", "server", "{port}"], "server": ["s"], "listens": True},
            {"bulk.err": "gaierror: Temporary failure in name resolution"},
            "; the command printed (logs/bulk.err): gaierror: Temporary failure in name resolution; 'server' is no "
            "address in a command: write '{destination}'",
        ),
        (
            {"command": ["sh", "-c", "c 127.0.0.1 {port}"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; '127.0.0.1' is 'client' itself: write "
            "'{destination}'",
        ),
        (
            {"command": ["sh", "-c", "c {dest} {port} && d"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; '{dest}' is no value of a run: write "
            "'{destination}'",
        ),
        # the program reads the address from its environment, or asks a server of its own on its host first
        (
            {"command": ["sh", "-c", "c $MPRUN_DESTINATION {port} 127.0.0.1"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; let the server listen on 0.0.0.0, and "
            "not on 127.0.0.1 only",
        ),
        (
            {"command": ["c", "127.0.0.1", "{destination}", "{port}"], "server": ["s"], "listens": False},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused",
        ),
        (
            {"server": ["s"]},
            {"bulk.server": "Took 5 ms"},
            ": the output of the server has it: write 'of: server'",
        ),
        (
            {"command": ["c", "server", "{destination}", "{port}"], "server": ["s"], "listens": True},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; let the server listen on 0.0.0.0, and "
            "not on 127.0.0.1 only",
        ),
        (
            {},
            {"bulk.err": "connect: Connection refused"},
            "; the command printed (logs/bulk.err): connect: Connection refused; the entry has no 'server', and "
            "nothing listens",
        ),
    ],
)
def test_an_output_without_a_metric_is_shown(more: dict[str, Any], printed: dict[str, str], told: str) -> None:
    """The output of a command was shown only if it was its standard error."""
    entry = MetricEntry.model_validate({"name": "own", "regex": "Took ([0-9]+)"}).plain()
    left = Left({"bulk": "", "bulk.err": "", **printed}, began_ns=0, ended_ns=10**9)
    result = tool.parse(flow("exec", metrics=[entry], **more), left)
    error = f"{result.error}{result.hint}"
    assert error == f"metric 'own': no number for 'Took ([0-9]+)' in the output of the command{told}"


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (
            {"bulk": "request 0"},
            "; the server printed nothing: flush its output, as with fflush(stdout) or print(..., flush=True)",
        ),
        ({"bulk": "request 0", "bulk.server": "served 3"}, "; the server printed (logs/bulk.server.out): served 3"),
        (
            {"bulk.err": "no route", "bulk.server.err": "bind failed"},
            "; the command printed (logs/bulk.err): no route; the server printed (logs/bulk.server.err): bind failed",
        ),
        (
            {"bulk": "Took 3 ms", "bulk.server": "served 3"},
            ": the output of the command has it: remove 'of: server'; the server printed (logs/bulk.server.out): "
            "served 3",
        ),
        # the next sentence followed the last line on its line
        (
            {"bulk.err": "no route\nto host", "bulk.server": "served 3"},
            "; the command printed (logs/bulk.err):\nno route\nto host\nthe server printed (logs/bulk.server.out): "
            "served 3",
        ),
        (
            {"bulk.err": "no route\nto host"},
            "; the command printed (logs/bulk.err):\nno route\nto host\nthe server printed nothing: flush its output, "
            "as with fflush(stdout) or print(..., flush=True)",
        ),
    ],
)
def test_the_output_of_a_server_without_a_metric_is_shown(printed: dict[str, str], told: str) -> None:
    """The output of the command was shown in its place."""
    entry = MetricEntry.model_validate({"name": "own", "regex": "Took ([0-9]+)", "of": "server"}).plain()
    left = Left({"bulk": "", **printed}, began_ns=0, ended_ns=10**9)
    result = tool.parse(flow("exec", metrics=[entry], server=["s"], command=["c", "{port}"]), left)
    assert result.error == f"metric 'own': no number for 'Took ([0-9]+)' in the output of the server{told}"


def test_advice_is_not_on_the_last_line_of_a_program() -> None:
    left = Left({"bulk": "", "bulk.err": "Traceback:\nConnection refused\n"}, began_ns=0, ended_ns=10**9)
    asked: Any = flow("exec")
    ended = {"bulk": Ended(1, False, "flow")}
    (error,) = _find_errors(asked, ended, tool.parse(asked, left), cast(Any, left), "; the router refused it")
    assert error.splitlines() == [
        "bulk: exec ended with status 1: Traceback:",
        "Connection refused",
        "the entry has no 'server', and nothing listens",
        "the router refused it",
    ]


def test_a_missing_metric_or_table_takes_no_other_with_it() -> None:
    names = {"own": "delay", "none": "no such", "other": "at"}
    entries = [{"name": name, "file": "f", "column": column} for name, column in names.items()]
    told = [MetricEntry.model_validate(entry).plain() for entry in entries]
    tables = [TableEntry.model_validate({"name": name, "file": name}).plain() for name in ("f", "g")]
    left = Left({"bulk": "", "bulk.err": ""}, {"f": CSV.encode()}, began_ns=0, ended_ns=10**9)
    result = tool.parse(flow("exec", metrics=told, tables=tables), left)
    assert result.values == {"time": 1, "own": 4, "other": 1}
    assert list(result.tables) == ["f"]
    no_column = "metric 'none': no number for column 'no such' in 'f'; columns: at, delay, word, odd"
    assert result.error == f"{no_column}; 'g': the programs left no file 'g' in {{files}}"


@pytest.mark.parametrize("take", ["last", "mean", "max", "p95"])
@pytest.mark.parametrize(
    ("way", "text", "line", "value"),
    [
        ({"regex": "v=(.*)"}, "v=10\nv=oops\nv=20\n", 2, "oops"),
        ({"regex": "v=(.*)"}, "v=10\nv=1e999\nv=20\n", 2, "1e999"),
        ({"json": "v"}, '{"v": 1}\n{"w": 2}\n{"v": null}\n{"v": 3}\n', 3, "null"),
        ({"json": "v"}, '{"v": 1}\n{"v": NaN}\n{"v": 3}\n', 2, "nan"),
        ({"column": "v"}, "at,v\n1,2\n2,x\n3,4\n", 3, "x"),
        ({"column": "v"}, "at,v\n1,2\n\n2,\n3,4\n", 4, ""),
        ({"column": "v"}, "at,v\n1,2\n2\n3,4\n", 3, ""),
    ],
)
def test_one_of_several_values_that_is_no_number(
    way: dict[str, str], text: str, line: int, value: str, take: str
) -> None:
    result = read({"name": "own", "file": "f", "take": take, **way}, f=text)
    expected = f"metric 'own': line {line} of 'f': '{value}' is no number that fits"
    assert result.error == f"{expected}; the command printed (logs/bulk.err): latency: 99 ms"


@pytest.mark.parametrize(
    ("regex", "is_warned"),
    [("(latency|delay): ([0-9.]+)", True), (r"(?:latency|delay): ([0-9.]+) [(]?", False), (r"\(?latency: (.)", False)],
)
def test_several_groups_of_a_regex_have_a_warning(regex: str, is_warned: bool) -> None:
    warnings = read({"name": "own", "regex": regex, "take": "count"}).warnings
    told = "metric 'own': 'regex' has several ( ), and the first is the number: write (?: ) for the others"
    assert (told in warnings) == is_warned


CUT = "'2' is a part of '{}': let ( ) in 'regex' hold all of it, as in ([0-9.]+)"
OTHER = "'{}' follows the number, and 'unit' is {}: write 'unit: {}'"


@pytest.mark.parametrize(
    ("regex", "unit", "printed", "told"),
    [
        ("done: ([0-9]+)", "s", "done: 2.738995 s", CUT.format("2.738995")),
        ("done: ([0-9])", "s", "done: 27 s", CUT.format("27")),
        ("[0-9]+", "s", "2.5", CUT.format("2.5")),
        (r"done[(:] (?:in )?((?:[0-9])+)", "count", "done: in 2e-3", CUT.format("2e-3")),
        # the person wrote what follows, the number is whole, or no number
        ("done: ([0-9]+)[.]", "s", "done: 2.738995 s", None),
        ("done: ([0-9]+)", "s", "done: 2. Then", None),
        ("version ([0-9]+)", "count", "version 2.1.6", None),
        ("^([0-9]+)", "count", "2,7,5", None),
        ("done: ([0-9.]+) s", "ms", "done: 2.738995 s", OTHER.format("s", "ms", "s")),
        ("done: ([0-9.]+)", "s", "done: 2.7ms, so", OTHER.format("ms", "s", "ms")),
        ("loss ([0-9.]+)", "share", "loss 5 %", OTHER.format("%", "share", "%")),
        # the name of the next value is no unit, but a sign is one
        ("a=([0-9.]+)", "%", "a=57 b=3", None),
        ("a: ([0-9.]+)", "%", "a: 57 ms : 3", None),
        ("a ([0-9.]+)", "ms", "a 57%: high", OTHER.format("%", "ms", "%")),
        # the same unit in another spelling, a text that is no unit, and a number without a unit
        ("sent ([0-9]+)", "kb", "sent 2 kbyte", None),
        ("rtt ([0-9]+)", "ms", "rtt 2 min 3 max", None),
        ("rtt ([0-9]+)", "ms", "rtt 2 steps", None),
        ("rate ([0-9]+)", "kb", "rate 2 kb/s", None),
        ("done: ([0-9.]+) s", "count", "done: 2.738995 s", None),
        # a group in another group is not looked at
        ("done(?:: ([0-9]+) )", "s", "done: 2 7 s", None),
        (r"(?x) done:\s ([0-9]+) # the time", "s", "done: 2.7 s", None),
    ],
)
def test_what_follows_a_number_is_compared_with_the_entry(
    regex: str, unit: str, printed: str, told: str | None
) -> None:
    """A part of a number, and a number of another unit, passed without a word."""
    result = read({"name": "own", "regex": regex, "unit": unit, "file": "f"}, f=f"first\n{printed}\n{printed}\n")
    assert result.error is None
    assert result.warnings == ((f"metric 'own': line 2 of 'f': {told}",) if told else ())


def test_lines_that_are_no_whole_json_are_skipped_with_a_warning() -> None:
    result = read({"name": "own", "json": "v", "file": "f", "take": "sum"}, f='{"v": 1}\n{"v": 2\n{"v": 3}\n{"v"')
    assert (result.values["own"], result.error) == (4, None)
    assert result.warnings == (
        "metric 'own': line 2 of 'f' is no whole JSON object; such lines, which were skipped: 2",
    )


def test_standard_error_is_no_row_of_the_table_on_standard_output() -> None:
    left = Left({"bulk": "v\n1\n2\n", "bulk.err": "warning: slow\n"}, began_ns=0, ended_ns=1)
    entry = MetricEntry.model_validate({"name": "own", "column": "v", "take": "sum"}).plain()
    assert tool.parse(flow("exec", metrics=[entry]), left).values["own"] == 3


def test_json_that_is_the_whole_output() -> None:
    text = '{\n  "end": {\n    "rate": 3\n  }\n}\n'
    assert read({"name": "own", "json": "end.rate", "file": "f"}, f=text).values["own"] == 3


@pytest.mark.parametrize("text", ["{" * 100_000, '{"a":' * 5000, "[" * 9999, '{"end": 1e999}', '{"end": "x"}', "\0"])
def test_hostile_json_is_no_value(text: str) -> None:
    assert "no number" in read({"name": "own", "json": "end", "file": "f"}, f=text).error


def test_hostile_expressions_take_linear_time() -> None:
    began = time.process_time()
    read({"name": "own", "regex": r"(a*)*(a*)*(\w+\s?)*b$", "file": "f"}, f="a" * (4 << 20))
    assert time.process_time() - began < 5


def test_a_table_counts_from_time_zero_in_base_units() -> None:
    table = TableEntry.model_validate({"name": "delays", "file": "f", "time": "at", "units": {"delay": "us"}}).plain()
    left = Left({}, {"f": CSV.encode()}, zero_ns=2 * 10**9, epoch_ns=7 * 10**9, began_ns=5 * 10**9)
    result = tool.parse(flow("exec", tables=[table]), left)
    assert result.tables["delays"] == {
        "time_s": [3.1, 3.5, 4.0],
        "delay_s": pytest.approx([3e-6, 5e-6, 4e-6]),
        "word": ["a", "b", "c"],
        "odd": ["1", "", "x"],
    }
    for clock, shift_s in (("monotonic", -2), ("unix", -7)):
        told = tool.parse(flow("exec", tables=[{**table, "clock": clock}]), left).tables["delays"]["time_s"]
        assert told == pytest.approx([at + shift_s for at in (0.1, 0.5, 1.0)])


@pytest.mark.parametrize(
    ("clock", "text", "warning"),
    [
        ("start", "at,wait\n1,2\n1,\n3,4\n", None),
        ("start", "at,wait\n1,2\n2,x\n3,y\n", "line 3 of 'f': column 'wait' has a text and no number; such lines: 2"),
        ("start", "at,wait\n1,2\nx,3\n,4\n", "line 3 of 'f': column 'at' has no time; such lines: 2"),
        ("start", "at,wait\n1,2\n2\n3,4\n", "line 3 of 'f': the number of cells differs from the header"),
        (
            "start",
            "at,wait\n3,2\n1,3\n-2,4\n",
            "line 3 of 'f': its time is before the time of the row before: sort the rows; such lines: 2",
        ),
        (
            "monotonic",
            "at,wait\n1700000000.0001,2\n",
            "line 2 of 'f': its time is not in the time of the command: check 'clock' and the unit of 'at'",
        ),
        (
            "start",
            "at,wait\n0,2\n1000,3\n",
            "line 3 of 'f': its time is not in the time of the command: check 'clock' and the unit of 'at'",
        ),
    ],
)
def test_a_table_with_a_fault_gets_a_warning(clock: str, text: str, warning: str | None) -> None:
    told = {"name": "waits", "file": "f", "time": "at", "clock": clock, "units": {"wait": "ms"}}
    left = Left({}, {"f": text.encode()}, zero_ns=2 * 10**9, began_ns=2 * 10**9, ended_ns=6 * 10**9)
    result = tool.parse(flow("exec", tables=[TableEntry.model_validate(told).plain()]), left)
    assert result.error is None
    assert result.warnings == (() if warning is None else (f"table 'waits': {warning}",))


@pytest.mark.parametrize(("name", "taken"), [("flow", "flow"), ("time_s", "time_s"), ("wait_s", "wait_s")])
def test_two_columns_of_one_name_are_told(name: str, taken: str) -> None:
    """The table has a column of the flows, of the times, and of the waits in seconds."""
    told = {"name": "waits", "file": "f", "time": "at", "units": {"wait": "ms"}}
    left = Left({}, {"f": f"at,wait,{name}\n1,2,9\n".encode()}, began_ns=0, ended_ns=10**9)
    result = tool.parse(flow("exec", tables=[TableEntry.model_validate(told).plain()]), left)
    assert result.tables["waits"] == {"time_s": [1.0], "wait_s": [0.002]}
    warning = f"column '{name}' is left out, as the table has another '{taken}': rename it"
    assert result.warnings == (f"table 'waits': line 1 of 'f': {warning}",)


def test_a_group_sums_what_can_be_summed() -> None:
    told = [
        MetricEntry.model_validate({"name": "sent", "regex": "x", "unit": "bytes", "take": "sum"}).plain(),
        MetricEntry.model_validate({"name": "speed", "regex": "x", "unit": "mbit"}).plain(),
    ]
    metrics = metrics_of(flow("exec", metrics=told))
    assert (metrics["sent"].unit, metrics["sent"].over) == ("size", "sum")
    assert (metrics["speed"].unit, metrics["speed"].over) == ("rate", None)


def load_entry(folder: Path, entry: str, rest: str = "") -> Any:
    head = "version: 1\ntraffic:\n  - name: own\n    tool: exec\n    from: client\n    to: server\n"
    (folder / "xp.yaml").write_text(f"{head}    command: [sleep, 1s]\n    {entry}\n{rest}")
    return load(LAB, folder / "xp.yaml")


def test_what_an_entry_defines_is_in_the_resolved_file(tmp_path: Path) -> None:
    entry = (
        "metrics: [{name: delay_ns, regex: 'x (.)', unit: ms}, {name: a, column: b, file: c.csv, take: p95}]\n"
        "    tables: [{name: t, file: t.csv, time: at, units: {size_bytes: kb, at: ms}}]"
    )
    rest = "expect: [{metric: own.delay_ns, max: 3ms}]\nplots: [{table: t, column: size_bytes, form: points}]\n"
    experiment = load_entry(tmp_path, entry, rest).spec.experiment
    (tmp_path / "again.yaml").write_text(write_experiment(experiment))
    again = load(LAB, tmp_path / "again.yaml").spec.experiment
    assert again.traffic == experiment.traffic
    assert again.expectations == experiment.expectations
    assert [plot.column for plot in again.plots] == ["size_bytes"]


@pytest.mark.parametrize(
    ("entry", "rest", "fault"),
    [
        ("metrics: [{name: a}]", "", "metrics[0]: finds no value: write one of 'regex', 'json' and 'column'"),
        ("metrics: [{name: a, regex: x, json: y}]", "", "finds its values in several ways"),
        ("metrics: [{name: time, regex: x}]", "", "metrics[0].name: 'time' is taken already"),
        ("metrics: [{name: a, regex: x}, {name: a, regex: x}]", "", "metrics[1].name: 'a' is taken already"),
        ("metrics: [{name: a, regex: x, of: server}]", "", "names the server, and there is none"),
        ("metrics: [{name: a, regex: x, file: f, of: command}]", "", "conflicts with 'file'"),
        ("metrics: [{name: a, regex: x, unit: parsec}]", "", "'parsec' is no unit: write one of count, ns"),
        ("metrics: [{name: a, regex: x, unit: ms, take: count}]", "", "is not the unit of a number of values"),
        ("metrics: [{name: a, regex: '(x'}]", "", "is no regular expression that can be searched: unclosed group"),
        ("metrics: [{name: a, regex: '(?=x)'}]", "", "is no regular expression that can be searched: look-around"),
        ("metrics: [{name: a, regex: 'x{9}'}]", "", "has a counted repetition"),
        ("metrics: [{name: a, column: x, file: ../f}]", "", "file"),
        ("tables: [{name: goodput, file: f}]", "", "'goodput' is a table that mprun makes"),
        ("tables: [{name: t, file: f, clock: unix}]", "", "needs 'time'"),
        ("tables: [{name: t, file: f, time: at, units: {at: kb}}]", "", "has no time for 'at'"),
        ("metrics: [{name: a, regex: x}]", "expect: [{metric: own.b, max: 1}]", "b"),
        ("tables: [{name: t, file: f}]", "plots: [{table: t, column: x}]", "'t' has no times"),
        ("tables: [{name: t, file: f}]", "plots: [{table: u, column: x}]", "no entry has a table 'u'"),
        ("tables: [{name: t, file: f}]", "plots: [{table: t}]", "column: is missing"),
        ("tables: [{name: t, file: f, time: at}]", "plots: [{table: t, column: x, form: cdf}]", "does not fit here"),
    ],
)
def test_faults_of_what_an_entry_defines(tmp_path: Path, entry: str, rest: str, fault: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_entry(tmp_path, entry, rest)
    assert fault in str(refused.value)


def test_values_of_an_own_program_have_any_bound(tmp_path: Path) -> None:
    """Mprun's own counts are whole and never negative. A program of the user may print other numbers."""
    entry = "metrics: [{name: drift, regex: 'x (.*)'}, {name: lines, regex: x, take: count}]"
    bounds = "{metric: own.drift, min: -2.5}, {metric: own.drift, equals: 2.5}, {metric: own.drift, min: 0}"
    free = load_entry(tmp_path, entry, f"expect: [{bounds}]\n").spec.experiment.expectations
    assert [(one.minimum, one.equals) for one in free] == [(-2.5, None), (None, 2.5), (0, None)]
    with pytest.raises(SpecError, match=r"equals: no count is 2\.5: write a whole number, or 'min: 2, max: 3'"):
        load_entry(tmp_path, entry, "expect: [{metric: own.lines, equals: 2.5}]\n")
    (warning,) = load_entry(tmp_path, entry, "expect: [{metric: own.lines, min: 0}]\n").warnings
    assert "no own.lines is below 0, so the bound asks only that a value is measured" in warning
    # the file that a run of an earlier version wrote is read as it is
    file = tmp_path / "xp.yaml"
    file.write_text(RESOLVED + file.read_text())
    assert load(LAB, file).spec.experiment.expectations[0].minimum == 0
