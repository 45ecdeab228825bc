# SPDX-License-Identifier: Apache-2.0
"""Trace events: two recorded pages of 6.12.117's buffer, beside the kernel's own text of the same events."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from mprun.errors import MprunError
from mprun.inputs.keys.plot import PlotEntry
from mprun.inputs.loading import load
from mprun.kernel.trace_event_format import EventFormat, read_format, read_pages, split_pages
from mprun.metrics.rows import SampleSource
from mprun.metrics.trace_event_tables import RecordedEvents, tabulate_trace, warn_of_lost_events
from mprun.model.network import Interface, Node
from mprun.model.spec import Plot
from mprun.model.trace_event_name import event_of, is_recorded, name_table
from mprun.reports.run_data import RunData
from mprun.reports.run_figures import draw_event
from tests.scenes import ONE_PATH

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "outputs" / "trace-6.12.117.json").read_text())
PAGES = [bytes.fromhex(page) for page in RECORDED["pages"]]
LINE = re.compile(r"(?P<time>\d+\.\d{6}): (?P<event>\w+): (?P<fields>.*)")
EXPERIMENT = """\
version: 1
traffic: [{name: it, tool: ping, from: client, to: server, count: 1}]
"""


def formats() -> dict[int, EventFormat]:
    found = [read_format(event, text) for event, text in RECORDED["formats"].items()]
    return {one.number: one for one in found}


def events() -> list[tuple[int, str, dict[str, Any]]]:
    known = formats()
    return [
        (at_ns, known[number].event, dict(zip(known[number].columns, known[number].read(record), strict=True)))
        for at_ns, number, record in read_pages(PAGES)
    ]


def trace() -> RecordedEvents:
    found = RecordedEvents()
    found.add(SampleSource(formats=RECORDED["formats"], lost=0))
    found.read(b"".join(PAGES), 3_000_000_000)
    return found


def node(name: str, address: str) -> Node:
    from ipaddress import ip_interface

    return Node(name, "host", (Interface(f"{name}-eth0", name, "l", "02::", (ip_interface(address),), False, 0),))


def test_each_event_has_the_time_and_the_name_that_the_kernel_prints() -> None:
    read = events()
    assert len(read) == len(RECORDED["text"])
    for (at_ns, event, _), line in zip(read, RECORDED["text"], strict=True):
        found = LINE.search(line)
        assert found is not None
        # the kernel rounds to microseconds
        assert (at_ns + 500) // 1000 == int(found["time"].replace(".", ""))
        assert event.partition(":")[2] == found["event"]


@pytest.mark.parametrize(
    ("event", "written"),
    [
        ("tcp:tcp_probe", "family={family} src={saddr}:{sport} dest={daddr}:{dport} mark={mark:#x} data_len={data_len} "
         "snd_nxt={snd_nxt:#x} snd_una={snd_una:#x} snd_cwnd={snd_cwnd} ssthresh={ssthresh} snd_wnd={snd_wnd} "
         "srtt={srtt} rcv_wnd={rcv_wnd} sock_cookie={sock_cookie:x}"),
        ("sock:inet_sock_set_state", "family={family} protocol={protocol} sport={sport} dport={dport} "),
        ("mptcp:mptcp_subflow_get_send", "active={active} free={free} snd_wnd={snd_wnd} pace={pace} backup={backup} "
         "ratio={ratio}"),
        ("net:netif_rx", "dev={name} "),
        ("sched:sched_switch", "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={prev_prio} "),
    ],
)  # fmt: skip
def test_the_fields_are_those_that_the_kernel_prints(event: str, written: str) -> None:
    texts = [line for line in RECORDED["text"] if f": {event.partition(':')[2]}: " in line]
    mine = [fields for _, name, fields in events() if name == event]
    assert len(mine) == len(texts) > 0
    for fields, line in zip(mine, texts, strict=True):
        # the kernel writes an IPv4 address of a socket of IPv6 as an IPv6 address
        said = re.sub(r"\[::ffff:([\d.]+)\]", r"\1", line.split(": ", 1)[1])
        assert said.removeprefix(f"{event.partition(':')[2]}: ").startswith(written.format(**fields))


def test_states_and_reasons_have_names() -> None:
    said = [fields for _, event, fields in events() if event == "sock:inet_sock_set_state"]
    assert (said[0]["oldstate"], said[0]["newstate"]) == ("TCP_CLOSE", "TCP_SYN_SENT")
    reasons = {fields["reason"] for _, event, fields in events() if event == "skb:kfree_skb"}
    assert reasons
    assert all(re.fullmatch("[A-Z_0-9]+", reason) for reason in reasons)
    assert not any(reason.isdigit() for reason in reasons)


def test_an_event_belongs_to_the_host_of_its_address_or_interface() -> None:
    tables = tabulate_trace(trace(), [node("client", "10.0.0.1/24"), node("server", "10.1.0.1/24")])
    probes = tables["trace-tcp-tcp_probe"]
    assert set(probes.select("saddr", "host").rows()) == {("10.0.0.1", "client"), ("10.1.0.1", "server")}
    devices = set(tables["trace-net-netif_rx"].select("name", "host").rows())
    assert {("client-eth0", "client"), ("server-eth0", "server")} < devices
    assert all(host is None for name, host in devices if not name.startswith(("client", "server")))
    assert "host" not in tables["trace-sched-sched_switch"].columns
    assert probes["time_ns"].is_sorted()


def test_an_object_has_the_number_of_its_first_appearance() -> None:
    """Another user's kernel has the objects at other addresses. Code stays where it is."""
    text = "ID: 5\n" + "".join(
        f"\tfield:{kind};\toffset:{at};\tsize:8;\tsigned:0;\n"
        for kind, at in (("void * skbaddr", 8), ("const void * skaddr", 16), ("void * location", 24))
    )

    def rows(moved: int) -> list[tuple[Any, ...]]:
        found = RecordedEvents()
        found.add(SampleSource(formats={"skb:it": text}, lost=0))
        records = [(0x100, 0x900), (0x200, 0x900), (0, 0x100)]
        body = b"".join(
            struct.pack("=IHxxxxxxQQQ", 8, 5, *(one and one + moved for one in pair), 0x6000) for pair in records
        )
        found.read(struct.pack("=QQ", 0, len(body)) + body, 0)
        return found.rows[5].frame().rows()

    assert rows(0x5000) == [(0, 1, 2, "0x6000"), (0, 3, 2, "0x6000"), (0, 0, 1, "0x6000")]
    assert rows(0x5000) == rows(0x7000)


def test_a_kind_without_events_has_an_empty_table() -> None:
    found = RecordedEvents()
    found.add(SampleSource(formats=RECORDED["formats"], lost=0))
    table = tabulate_trace(found, [])["trace-tcp-tcp_probe"]
    assert table.height == 0
    assert {"time_ns", "host", "snd_cwnd"} <= set(table.columns)


def test_lost_events_are_a_warning() -> None:
    found = trace()
    assert list(warn_of_lost_events(found)) == []
    found.add(SampleSource(formats={}, lost=17))
    (warning,) = warn_of_lost_events(found)
    assert warning.startswith("17 trace events were overwritten")


def test_trace_printk_is_text() -> None:
    text = (
        "name: print\nID: 5\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
        "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n"
    )
    found = read_format("ftrace:print", text)
    record = struct.pack("=HxxxxxxQ", 5, 0x60001234) + b"chosen: 3\n\0"
    assert dict(zip(found.columns, found.read(record), strict=True)) == {"ip": 0x60001234, "buf": "chosen: 3"}


def test_a_field_with_the_name_of_our_columns_gets_another_name() -> None:
    text = "ID: 9\n\tfield:int host;\toffset:8;\tsize:4;\tsigned:1;\n"
    assert list(read_format("a:b", text).columns) == ["host_"]


def test_large_numbers_and_times_far_apart_are_read() -> None:
    text = "ID: 9\n\tfield:u64 seq;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:s64 less;\toffset:16;\tsize:8;\tsigned:1;\n"
    record = struct.pack("=HxxxxxxQq", 9, (1 << 64) - 1, -1)
    event = struct.pack("=I", 6 | 5 << 5) + record
    extended = struct.pack("=II", 30 | 7 << 5, 3)
    body = event + extended + event
    page = struct.pack("=QQ", 1000, len(body)) + body
    assert [at_ns for at_ns, _, _ in read_pages([page])] == [1005, 1005 + 7 + (3 << 27) + 5]
    assert read_format("a:b", text).read(record) == [(1 << 64) - 1, -1]
    assert list(split_pages(page + page)) == [page, page]


@pytest.mark.parametrize("cut", [1, 15, 17, 19, 40])
def test_a_damaged_page_is_refused(cut: int) -> None:
    known = formats()
    with pytest.raises(ValueError, match=r"cut|short"):
        any(known[number].read(record) == [] for _, number, record in read_pages([PAGES[0][:cut]]))


@pytest.mark.parametrize("text", ["", "ID: x", "name: a\nformat:\n"])
def test_a_format_without_a_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no ID"):
        read_format("a:b", text)


def test_the_table_of_an_event_names_the_event() -> None:
    assert event_of(name_table("tcp:tcp_probe")) == "tcp:tcp_probe"
    assert event_of("sockets") is None
    assert is_recorded("tcp:tcp_probe", ["mptcp:*", "tcp:*"])
    assert not is_recorded("tcp:tcp_probe", ["mptcp:*"])


def test_a_figure_has_a_line_for_each_connection() -> None:
    tables = tabulate_trace(trace(), [node("client", "10.0.0.1/24"), node("server", "10.1.0.1/24")])
    evidence = RunData({name: table.lazy() for name, table in tables.items()}, [], {})
    chart = draw_event(
        evidence, PlotEntry.model_validate({"table": "trace-tcp-tcp_probe", "column": "snd_cwnd"}).fill(Plot)
    )
    assert chart is not None
    titles = [series.label for series in chart.panels[0].series]
    assert titles == list(dict.fromkeys(titles))
    assert all(re.fullmatch(r"(client|server) [\d.]+:\d+ > [\d.]+:\d+", title) for title in titles)
    assert (
        draw_event(evidence, PlotEntry.model_validate({"table": "trace-tcp-tcp_probe", "column": "nothing"}).fill(Plot))
        is None
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("tracepoints: [tcp_probe]", "'tcp_probe' is no trace event: write its system and its name"),
        ("plots: [{table: trace-tcp-tcp_probe, column: srtt}]", "write 'tracepoints: [tcp:tcp_probe]'"),
        (
            "tracepoints: ['tcp:*']\nplots: [{table: trace-tcp-tcp_probe, column: srtt, flow: it}]",
            "is not for trace events, which name no flow",
        ),
    ],
)
def test_faults_of_files_are_named(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(f"{EXPERIMENT}{lines}\n")
    with pytest.raises(MprunError, match=re.escape(said)):
        load(tmp_path / "topo", tmp_path / "xp")


def test_the_resolved_file_has_the_events(tmp_path: Path) -> None:
    from mprun.compile import allocate, compile_plan
    from mprun.inputs.writer import write_experiment

    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(f"{EXPERIMENT}tracepoints: ['mptcp:*', 'tcp:tcp_probe', 'mptcp:*']\n")
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    plan = compile_plan(spec, allocate(spec))
    assert plan.tracepoints == plan.intent.tracepoints == ("mptcp:*", "tcp:tcp_probe")
    assert "tracepoints:\n- mptcp:*\n- tcp:tcp_probe\n" in write_experiment(spec.experiment)
