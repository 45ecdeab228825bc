# SPDX-License-Identifier: Apache-2.0
"""The traces that come with mprun, traces with the format of a schedule, and `mprun trace import`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mprun.cli import trace
from mprun.errors import SpecError
from mprun.inputs.keys.trace_file import TraceError, read_mahimahi
from mprun.inputs.loading import load, load_topology
from mprun.inputs.traces import TRACES
from mprun.inputs.traces.generate import make_all
from mprun.model.problem import InputError
from mprun.model.spec import LinkChange, TopologySpec

MBIT = 1_000_000
TIME = ["--column", "time=t:s"]


def _topology(folder: Path, event: str) -> TopologySpec:
    (folder / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\n"
        "links:\n  - {name: path0, between: [a, b], rate: 10mbit, delay: 20ms}\n"
        f"events:\n  - {{link: path0, {event}}}\n"
    )
    return load_topology(folder / "topo.yaml", {})


def _changes(topology: TopologySpec) -> list[tuple[float, int | None, int | None, float]]:
    """Return each change: its time in s, the rates of both directions, the delay forward in ms."""
    return [
        (one.at_ns / 1e9, one.forward.rate_bit_per_s, one.reverse.rate_bit_per_s, one.forward.delay_ns / 1e6)
        for one in topology.changes
        if isinstance(one, LinkChange)
    ]


@pytest.mark.parametrize("played", ["trace: lte-drive", "trace: ms.up, format: mahimahi, interval: 1ms"])
def test_a_trace_of_many_links_is_read_once(tmp_path: Path, played: str) -> None:
    (tmp_path / "ms.up").write_text("".join(f"{ms}\n" for ms in range(1, 60_000, 20)))
    paths = "  - {rate: 10mbit, delay: 10ms}\n" * 200
    events = "".join(f"  - {{at: 0s, until: 2s, link: path{n}, {played}}}\n" for n in range(200))
    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\npaths:\n{paths}events:\n{events}")
    changes = load_topology(tmp_path / "topo.yaml", {}).changes
    assert {one.link for one in changes if isinstance(one, LinkChange)} == {f"path{n}" for n in range(200)}


def _import(*words: str | Path) -> str:
    result = CliRunner().invoke(
        trace.command, ["import", *map(str, words)], catch_exceptions=False, standalone_mode=False
    )
    return result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--format", "csv", "--column", "time=at:s", "--column", "rate=down:kbit", "--interval", "5s"),
            "--interval is",
        ),
        (("--format", "rates", "--frame", "100"), "--frame is for mahimahi, and has no effect on rates: leave it out"),
    ],
)
def test_an_option_without_effect_on_a_format_is_refused(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=told):
        _import(tmp_path / "trace", *words)


def test_what_one_direction_of_a_trace_loses_is_told(tmp_path: Path) -> None:
    """Half of an `rtt` was the delay of one direction, and a column of the other direction had no effect."""
    rows = "0s,5mbit,20ms\n1s,6mbit,30ms\n2s,,\n"
    event = "events: [{link: path0, trace: a.csv, format: schedule, direction: forward}]\n"
    (tmp_path / "topo.yaml").write_text(
        f"version: 1\ntopology: multi-path\npaths: [{{rate: 10mbit, delay: 5ms}}]\n{event}"
    )
    for columns, said in (("rate,delay.reverse", True), ("rate.forward,delay", False)):
        (tmp_path / "a.csv").write_text(f"at,{columns}\n{rows}")
        warnings = load(tmp_path / "topo", None).warnings
        assert ["for the other direction than 'forward' alone" in one for one in warnings] == [True] * said
    (tmp_path / "a.csv").write_text(f"at,rate,rtt\n{rows}")
    with pytest.raises(InputError, match="has 'rtt', which is of both directions: write 'delay' there"):
        load(tmp_path / "topo", None)


@pytest.mark.parametrize("name", TRACES)
def test_a_shipped_trace_is_what_its_model_makes(name: str, update_golden: bool) -> None:
    if update_golden:
        TRACES[name].file.write_text(make_all()[name])
    assert TRACES[name].file.read_text() == make_all()[name], "run: make golden"


@pytest.mark.parametrize("name", TRACES)
def test_a_shipped_trace_is_used_by_its_name_and_repeats(tmp_path: Path, name: str) -> None:
    once = _changes(_topology(tmp_path, f"at: 1s, trace: {name}"))
    assert once[0][0] == 1
    assert len({one[1:3] for one in once}) > 100
    period_s = {"lte-drive": 60, "leo-handover": 120}[name]
    assert once[-1][0] < 1 + period_s
    twice = _changes(_topology(tmp_path, f"at: 1s, trace: {name}, until: {2 * period_s + 1}s"))
    assert [one[1:] for one in twice[: len(once)]] == [one[1:] for one in once]
    assert [round(one[0] - period_s, 6) for one in twice[len(once) :]] == [one[0] for one in once]


def test_a_hand_over_loses_packets_every_15_s(tmp_path: Path) -> None:
    changes = [one for one in _topology(tmp_path, "trace: leo-handover").changes if isinstance(one, LinkChange)]
    begins = [one.at_ns / 1e9 for one in changes if one.forward.loss is not None and one.forward.loss.mean == 1]
    assert begins == [12 + 15 * n for n in range(8)]


def test_columns_for_one_direction_and_the_end_of_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# made by hand\nat,rate.forward,delay\n0s,5mbit,30ms\n1s,7mbit,\n2s,,\n")
    played = _changes(_topology(tmp_path, "trace: a.csv, format: schedule, until: 3s"))
    assert played == [
        (0, 5 * MBIT, 10 * MBIT, 30),
        (1, 7 * MBIT, 10 * MBIT, 30),
        (2, 5 * MBIT, 10 * MBIT, 30),
    ]
    reverse = _changes(_topology(tmp_path, "trace: a.csv, format: schedule, direction: reverse"))
    assert reverse[0] == (0, 10 * MBIT, 10 * MBIT, 20)


@pytest.mark.parametrize("form", ["rates, interval: 1s", "schedule"])
@pytest.mark.parametrize(("every_s", "begins"), [(5, [0, 1, 5, 6]), (1, [0])])
def test_a_trace_begins_again_at_each_repetition(tmp_path: Path, form: str, every_s: int, begins: list[float]) -> None:
    is_schedule = form == "schedule"
    (tmp_path / "a").write_text("at,rate\n0s,5mbit\n1s,7mbit\n2s,\n" if is_schedule else "5mbit\n7mbit\n")
    played = _changes(_topology(tmp_path, f"at: 0s, trace: a, format: {form}, every: {every_s}s, until: 9s"))
    rates = {at: rate for at, rate, *_ in played}
    assert [at for n, at in enumerate(rates) if n == 0 or rates[at] != [*rates.values()][n - 1]] == begins
    assert {rates[at] for at in begins if at % every_s == 0} == {5 * MBIT}


def test_a_repetition_of_a_schedule_comes_after_the_rows_of_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,rate\n0s,5mbit\n1s,7mbit\n2s,6mbit\n")
    played = _changes(_topology(tmp_path, "at: 0s, schedule: a.csv, every: 2s, until: 5s"))
    assert [(at, (rate or 0) / MBIT) for at, rate, *_ in played] == [
        (0, 5),
        (1, 7),
        (2, 5),
        (3, 7),
        (4, 5),
        (5, 7),
        (6, 6),
    ]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("at,rate.up", "no column 'rate.up': write 'rate', 'rate.forward' or 'rate.reverse'"),
        ("at,rtt.forward", "no column 'rtt.forward': write 'rtt'"),
        ("at,rate,rate.forward", "has the property 'rate' twice: keep one column"),
        ("at,speed.forward", "no property 'speed'"),
    ],
)
def test_wrong_columns(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n0s,{',' * header.count(',')}\n")
    with pytest.raises(InputError) as caught:
        _topology(tmp_path, "schedule: a.csv")
    assert message in str(caught.value)
    assert "a.csv:1" in str(caught.value)


def test_a_schedule_without_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# nothing\nat,rate,delay\n100ms,,\n200ms,,\n")
    for words in ("schedule: a.csv", "trace: a.csv, format: schedule"):
        with pytest.raises(InputError, match=r"a.csv:3: has no value, and no other row has one: write one"):
            _topology(tmp_path, words)


def test_a_name_needs_no_format_and_a_schedule_more_than_its_end(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"format: has no effect on 'lte-drive', a trace of mprun"):
        _topology(tmp_path, "trace: lte-drive, format: rates")
    (tmp_path / "a.csv").write_text("at,rate\n1s,5mbit\n")
    with pytest.raises(InputError, match="has one row, which is its end"):
        _topology(tmp_path, "trace: a.csv, format: schedule")


def test_a_schedule_has_no_interval(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,rate\n0s,5mbit\n1s,6mbit\n2s,\n")
    with pytest.raises(InputError, match="interval: has no effect on a schedule, as its rows have times: remove it"):
        _topology(tmp_path, "trace: a.csv, format: schedule, interval: 200ms")


def test_an_imported_csv_gives_the_link_its_values(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("t,dl,ping,lost\n100,5000,60,0\n101.5,0,61.001,12.5\n102,7e3,40,0\n")
    columns = [*TIME, *"--column rate.reverse=dl:kbit --column rtt=ping:ms --column loss=lost:%".split()]
    said = _import(tmp_path / "x.csv", "--format", "csv", *columns, "--to", tmp_path / "y.csv")
    ranges = "rate.reverse 8bit to 7mbit, rtt 40ms to 61001us, loss 0% to 12.5%"
    assert said == f"wrote {tmp_path}/y.csv: 3 rows, 2500ms, {ranges}\n"
    played = _changes(_topology(tmp_path, "trace: y.csv, format: schedule"))
    assert played == [
        (0, 10 * MBIT, 5 * MBIT, 30),
        (1.5, 10 * MBIT, 8, 30.5005),
        (2, 10 * MBIT, 7 * MBIT, 20),
    ]
    with pytest.raises(click.BadParameter, match=r"y\.csv' exists: remove it, or name a new file"):
        _import(tmp_path / "x.csv", "--format", "csv", *columns, "--to", tmp_path / "y.csv")


def test_an_imported_mahimahi_trace_is_the_trace(tmp_path: Path) -> None:
    (tmp_path / "cell").write_text("".join(f"{ms}\n" for ms in [*range(1, 100), 150, 200, 200, 300]))
    (tmp_path / "y.csv").write_text(_import(tmp_path / "cell", "--format", "mahimahi"))
    played = [_changes(_topology(tmp_path, f"trace: {words}")) for words in ("cell", "y.csv, format: schedule")]
    assert played[0] == played[1]
    assert len(played[0]) == 3


def test_rates_of_traces_are_whole_bytes_per_second(tmp_path: Path) -> None:
    """12112 bits of a frame in 30 ms are 403733.3 bit/s, and 403736 = 50467 * 8 is the nearest multiple of 8 bit/s."""
    (tmp_path / "cell").write_text("10\n40\n120\n")
    played = _changes(_topology(tmp_path, "trace: cell, interval: 30ms"))
    assert [(at, rate) for at, rate, _, _ in played] == [(0, 403_736), (0.06, 8), (0.09, 403_736)]
    (tmp_path / "y.csv").write_text(_import(tmp_path / "cell", "--format", "mahimahi", "--interval", "30ms"))
    assert _changes(_topology(tmp_path, "trace: y.csv, format: schedule")) == played
    (tmp_path / "x.csv").write_text("t,dl\n0,1000003\n1,77\n2,5\n")
    imported = _import(tmp_path / "x.csv", "--format", "csv", *TIME, "--column", "rate=dl:bit")
    assert imported.splitlines()[1:4] == ["0ns,1mbit", "1s,80bit", "2s,8bit"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,dl\n0,nan\n1,2\n", ":2: rate: 'nan' is not a finite number that fits"),
        ("t,dl\n0,1e999999999\n1,2\n", ":2: rate: '1e999999999' is not a finite number that fits"),
        ("t,dl\n0,-3\n1,2\n", ":2: rate: -3 is negative: remove the row"),
        ("t,dl\n0,1\n0,2\n", ":3: its time is not after the row before: sort the file"),
        ("t,dl\n0,1\n1\n", ":3: has 1 cells and the header 2"),
        ("t,dl\n0,1\n", ":1: has fewer than two rows"),
        ("t,up\n0,1\n1,2\n", ":1: no column 'dl'; columns: t, up"),
        ("t,dl\n0,5\n99999999,5\n", "lasts longer than"),
        ("t,dl\n0,1000000\n1,2\n", ":2: rate: '1000gbit' is above 100gbit"),
        ("t,dl\n" + "\n".join(f"{n},1" for n in range(50_001)), ":50002: is more than the 50000 rows"),
        ("t,dl\n0,five\n1,2\n", ":2: rate: 'five' is no number"),
        ('t,dl,note\n0,5,"one\ntwo"\n1,five,\n', ":4: rate: 'five' is no number"),
        ("t,dl\n0," + "9" * 200 + "\n1,2\n", ":2: rate: '9999"),
    ],
)
def test_hostile_csv_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(SpecError) as caught:
        _import(tmp_path / "x.csv", "--format", "csv", *TIME, "--column", "rate=dl:mbit")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        # a line that is left out would move the later rates to an earlier time
        ("rates", "10mbit\n\n\n5mbit\n", "x.rates:2: is empty: write the rate of this interval"),
        ("rates", "# of a drive\n\n10mbit\n# slower\n \n5mbit\n", "x.rates:5: is empty: write the rate"),
        ("schedule", "at,rate\n0s,5mbit\n0s,6mbit\n", "x.schedule:3: 0s is the time of the row before too: keep one"),
        ("schedule", "at\trate\n1s\t5mbit\n", "x.schedule:1: separates its cells by tabs: write commas"),
        ("schedule", "at;rate\n1s;5mbit\n", "x.schedule:1: separates its cells by ';': write commas"),
        ("schedule", "at,rate\n1s,5mbit\n0s,6mbit\n", "x.schedule:3: 0s is before the time of the row before: sort"),
    ],
)
def test_lines_without_a_time_of_their_own_are_refused(tmp_path: Path, file: str, content: str, message: str) -> None:
    (tmp_path / f"x.{file}").write_text(content)
    with pytest.raises(InputError) as caught:
        _topology(tmp_path, f"trace: x.{file}, format: {file}")
    assert message in str(caught.value)


def test_empty_lines_around_rates_have_no_time(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("\n# of a drive\n10mbit\n# slower\n5mbit\n\n\n")
    assert [one[:2] for one in _changes(_topology(tmp_path, "trace: x, format: rates, interval: 500ms"))] == [
        (0, 10 * MBIT),
        (0.5, 5 * MBIT),
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("rate", "'rate' is no column: write KEY=COLUMN:UNIT"),
        ("rate=dl:Mbit/s", "'Mbit/s' is no unit of rate: write one of bit, kbit, mbit, gbit"),
        ("speed=dl:mbit", "no key 'speed'"),
        ("rate=dl:mbps", "'mbps' is no unit of rate: write one of bit, kbit, mbit, gbit"),
    ],
)
def test_wrong_column_options(tmp_path: Path, column: str, message: str) -> None:
    (tmp_path / "x.csv").write_text("t,dl\n0,1\n1,2\n")
    with pytest.raises(SpecError) as caught:
        _import(tmp_path / "x.csv", "--format", "csv", *TIME, "--column", column)
    assert message in str(caught.value)


def test_a_mahimahi_trace_of_ages_is_refused() -> None:
    with pytest.raises(TraceError, match="more than 1000000 intervals"):
        read_mahimahi("1\n999999999999999\n", 100 * 10**6, 1514)


def test_the_list_names_every_trace() -> None:
    said = CliRunner().invoke(trace.command, ["list", "--json"]).output
    assert [one["name"] for one in json.loads(said)] == list(TRACES)
    assert all(Path(one["file"]).is_file() for one in json.loads(said))
