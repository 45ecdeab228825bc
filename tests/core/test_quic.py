# SPDX-License-Identifier: Apache-2.0
"""The workload quic: outputs of its real client (whole, stalled, unanswered), and the configuration of both ends."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pydantic import ValidationError

from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.metrics.evidence import Evidence
from mprun.metrics.handover import find_handover_of
from mprun.metrics.observation import Observation
from mprun.metrics.summary import Measured, measure
from mprun.model.agent_report import AgentReport, Ended
from mprun.model.capabilities import REFERENCE
from mprun.model.plan import Plan
from mprun.model.spec import Flow
from mprun.workloads import quic
from mprun.workloads.built import PROGRAMS, program_store
from mprun.workloads.tool import Endpoints, Outputs, SocketSample
from tests import intents

OUTPUTS = Path(__file__).parents[1] / "outputs"
LAB = Path(__file__).parents[2] / "labs" / "06_multipath_quic"
PAIRS = (("10.0.0.1", "10.1.0.1"), ("10.0.1.1", "10.1.0.1"), ("10.0.2.1", "10.1.0.1"))
STALLED = "mprun-quic: 0 of 1 requests done when the connection ended: nothing arrived any more on any path\n"


class Left(Outputs):
    """The outputs of a flow `get`: standard output and standard error of its client."""

    def __init__(self, out: str, err: str = "") -> None:
        self._said = {"out": out, "err": err}

    @property
    def zero_ns(self) -> int:
        return 5_000_000_000

    @property
    def epoch_ns(self) -> int:
        return 0

    def log(self, process: str, stream: str = "out") -> str:
        return self._said[stream]

    def span(self, process: str) -> tuple[int, int] | None:
        return None

    def file(self, name: str) -> bytes | None:
        return None

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        return iter(())


def output(name: str) -> str:
    return (OUTPUTS / f"mprun-quic-0.1.0-{name}.jsonl").read_text()


def flow(**options: object) -> Flow:
    given: dict[str, object] = {
        "requests": 1,
        "response_bytes": 10_000,
        "request_bytes": 0,
        "think_ns": 0,
        "streams": 1,
        "multipath": True,
    }
    given |= options
    return Flow("get", "quic", "client", "server", "tcp", 0, None, given)


def client_argv(asked: Flow, pairs: tuple[tuple[str, str], ...] = PAIRS) -> tuple[str, ...]:
    return quic.work(asked, Endpoints(*pairs[0], (5201,), pairs), REFERENCE).clients[0].argv


def after(argv: tuple[str, ...], word: str) -> list[str]:
    return [argv[n + 1] for n, one in enumerate(argv) if one == word]


def test_requests_are_timed_and_counted() -> None:
    result = quic.parse(flow(requests=20, think_ns=250_000_000), Left(output("requests")))
    assert result.error is None
    assert result.values.keys() <= quic.METRICS.keys()
    assert result.values["requests"] == 20
    assert result.values["bytes"] == 200_000
    assert result.values["handshake"] == pytest.approx(0.04, abs=1e-4)
    assert median(result.delays_ns["delay"]) == pytest.approx(44.6e6, abs=1e5)
    assert result.values["completion"] > 19 * 0.25
    table = result.tables["requests"]
    assert table["sequence"] == list(range(1, 21))
    # the first request is sent with the end of the handshake, 40 ms after time zero
    assert table["start_ns"][0] == pytest.approx(40e6, abs=1e5)
    assert table["delay_ns"][1] == pytest.approx(44.6e6, abs=1e5)


def test_a_path_that_lowest_rtt_leaves_alone_is_a_warning_and_one_that_roundrobin_does_is_a_failure() -> None:
    quiet = quic.parse(flow(requests=20), Left(output("requests"))).paths[1]
    assert quiet.failure is None
    assert quiet.warning is not None
    assert quiet.warning.startswith("it carried nothing (it was usable from 0.236 s on, and all was done at 5.70")
    policies = {"client": "roundrobin", "server": "roundrobin"}
    in_turn = quic.parse(flow(requests=20, scheduler=policies), Left(output("requests"))).paths[1]
    assert in_turn.failure is not None
    assert in_turn.failure.startswith("it carried nothing (")
    assert in_turn.failure.endswith("): transfer more data, so that more is left to send when the path becomes usable")


@pytest.mark.parametrize(
    ("later", "text"),
    [
        ({"end_ns": 250_000_000}, "it carried nothing (it was usable from 0.236 s on, and all was done at 0.250 s)"),
        ({"end_ns": 100_000_000, "path": False}, "no answer came over it to 1 packets with PATH_CHALLENGE"),
    ],
)
def test_a_transfer_that_is_too_short_for_a_path_blames_no_scheduler(later: dict[str, Any], text: str) -> None:
    *lines, last = map(json.loads, output("requests").splitlines())
    last["end_ns"] = later["end_ns"]
    if later.get("path") is False:
        lines = [line for line in lines if line["event"] != "path"]
        last["paths"][1] |= {"validated": False, "state": "validating", "received_packets": 0, "sent_packets": 1}
    use = quic.parse(flow(requests=20), Left("\n".join(map(json.dumps, (*lines, last))))).paths[1]
    said = use.warning or use.failure or ""
    assert said.startswith(text)
    assert said.endswith(": the transfer was over too soon to use it, so transfer more data")


@pytest.mark.parametrize(
    ("stack", "received", "end_ns", "rtt_ns", "cause"),
    [
        ("tquic", 14, 5_000_000_000, 200_000_000, True),
        (None, 14, 5_000_000_000, 200_000_000, True),
        # a path with a short round trip, whose packets are lost
        ("tquic", 14, 5_000_000_000, 10_000_000, False),
        # nothing came over the path, another library, a transfer that was too short
        ("tquic", 0, 5_000_000_000, 200_000_000, False),
        ("noq", 14, 5_000_000_000, 200_000_000, False),
        ("tquic", 2, 100_000_000, 200_000_000, False),
    ],
)
def test_a_path_that_tquic_does_not_validate_names_the_cause(
    stack: str | None, received: int, end_ns: int, rtt_ns: int, cause: bool
) -> None:
    *lines, last = map(json.loads, output("requests").splitlines())
    lines = [line for line in lines if line["event"] != "path"]
    last["end_ns"] = end_ns
    last["paths"][1] |= {"validated": False, "state": "validating", "received_packets": received}
    asked = flow(requests=20) if stack is None else flow(requests=20, stack=stack)
    path = intents.path("path1", source=PAIRS[1][0], destination=PAIRS[1][1], rtt_ns=rtt_ns)
    addressed = intents.flow([path], options=asked.options)
    failure = quic.parse(addressed, Left("\n".join(map(json.dumps, (*lines, last))))).paths[1].failure
    assert failure is not None
    told = (
        ": tquic forgets a PATH_CHALLENGE that is not answered within 50 ms, as on a path with a longer round trip: "
        "write 'stack: noq' (docs/quic.md)"
    )
    assert failure.endswith(told) == cause
    assert ("noq" in failure) == cause


class BothEnds(Left):
    """The outputs of client and server."""

    def __init__(self, out: str, server: str) -> None:
        super().__init__(out)
        self._server = server

    def log(self, process: str, stream: str = "out") -> str:
        return self._server if process == "get.server" and stream == "out" else super().log(process, stream)


def test_who_sends_says_what_it_sent_again_and_the_client_when_data_stood_still() -> None:
    """10 MiB over two paths of 40 ms. The first path carries nothing from 1 s to 2.5 s."""
    both = BothEnds(output("handover-client"), output("handover-server"))
    result = quic.parse(flow(response_bytes=10 * 2**20), both)
    assert result.error is None
    assert [use.joined_s for use in result.paths] == [pytest.approx(0.04, abs=1e-3), pytest.approx(0.195, abs=1e-3)]
    sent = json.loads(output("handover-server"))["paths"]
    assert [(use.resent, use.resent_bytes) for use in result.paths] == [
        (path["lost_packets"], path["lost_bytes"]) for path in sent
    ]
    assert [use.srtt_s for use in result.paths] == [path["smoothed_rtt_ns"] / 1e9 for path in sent]
    assert result.movement is not None
    # the client sends the request after the handshake; the answer comes at least a round trip later
    since_ns, until_ns = result.movement.standstills_ns[0]
    assert since_ns == pytest.approx(40_000_000, abs=1_000_000)
    assert until_ns - since_ns > 40_000_000
    handover = find_handover_of(result.movement, 1_000_000_000, 2_500_000_000)
    assert handover is not None
    assert handover.is_over
    assert 0.2 < handover.gap_ns / 1e9 < 0.5
    # the values of a server that was killed are unknown
    assert all(use.srtt_s is None for use in quic.parse(flow(), BothEnds(output("handover-client"), "")).paths)


def test_each_direction_has_its_path() -> None:
    policies = {"client": {"prefer": 0}, "server": {"prefer": 2}}
    result = quic.parse(flow(response_bytes=5_120_000, scheduler=policies), Left(output("three-paths")))
    assert result.error is None
    uses = {use.source: use for use in result.paths}
    assert set(uses) == {source for source, _ in PAIRS}
    assert uses["10.0.2.1"].reverse_bytes > 0.98 * 5_120_000
    assert uses["10.0.2.1"].forward_bytes == 0
    assert uses["10.0.0.1"].forward_bytes > 0
    assert all(use.failure is None and use.warning is None for use in result.paths)


def test_a_stalled_connection_is_an_error_in_words() -> None:
    result = quic.parse(flow(), Left(output("path-lost"), STALLED))
    assert result.error == "0 of 1 requests done when the connection ended: nothing arrived any more on any path"
    assert "goodput" not in result.values
    assert "completion" not in result.values


def test_a_client_whose_time_was_over_blames_no_connection() -> None:
    """Its data may have arrived at the full rate of its path."""
    said = "mprun-quic: 0 of 1 requests done after 5 s, 5860553 bytes of the next: the connection stalled\n"
    told = "0 of 1 requests done after 5 s, 5860553 bytes of the next: its time was over, and a longer 'timeout' gives"
    assert quic.parse(flow(), Left(output("path-lost"), said)).error == f"{told} it more"


def test_a_path_without_an_answer_is_a_failure_with_its_cause() -> None:
    result = quic.parse(flow(response_bytes=10_485_760), Left(output("path-silent")))
    assert result.error is None
    assert result.values["paths"] == 1
    assert result.paths[1].failure == "no answer came over it to 8 packets with PATH_CHALLENGE (RFC 9000 8.2)"


def test_a_server_that_never_answered_blames_no_path() -> None:
    said = "mprun-quic: 0 of 1 requests done when the connection ended: the server did not answer\n"
    result = quic.parse(flow(), Left(output("unanswered"), said))
    assert result.error is not None
    assert result.error.endswith("the server did not answer")
    assert result.paths == ()
    assert result.values == {"requests": 0, "paths": 1}


def test_what_is_not_whole_is_an_error() -> None:
    cut = quic.parse(flow(), Left(output("three-paths")[:-200]))
    assert cut.error is not None
    assert cut.error.startswith("its output is not whole: ")
    panicked = quic.parse(flow(), Left("", "thread 'main' panicked at src/client.rs:1:1:\ncalled unwrap\n"))
    assert panicked.error == "called unwrap"
    assert quic.parse(flow(), Left("")).error == "it ended without any output"


def test_a_peer_without_multipath_is_a_failure() -> None:
    events = [json.loads(line) for line in output("requests").splitlines()]
    told = "\n".join(json.dumps(event | {"multipath": False} if event["event"] == "end" else event) for event in events)
    failures = [use.failure for use in quic.parse(flow(requests=20), Left(told)).paths]
    assert failures == ["multipath was not negotiated (transport parameter enable_multipath)"] * 2


def test_one_path_unless_multipath_is_asked_for() -> None:
    assert after(client_argv(flow(multipath=False)), "--path") == ["10.0.0.1,10.1.0.1:5201"]
    assert "--scheduler" not in client_argv(flow(multipath=False))
    assert len(after(client_argv(flow()), "--path")) == 3
    assert after(client_argv(flow()), "--scheduler") == ["lowest-rtt"]


def test_the_server_has_each_of_its_addresses_once_and_prefers_from_its_side() -> None:
    policies = {"client": {"prefer": 0}, "server": {"prefer": 2}}
    work = quic.work(flow(scheduler=policies), Endpoints(*PAIRS[0], (5201,), PAIRS), REFERENCE)
    argv = work.servers[0].argv
    assert after(argv, "--listen") == ["10.1.0.1:5201"]
    assert after(argv, "--scheduler") == ["prefer=10.1.0.1,10.0.2.1"]
    assert after(work.clients[0].argv, "--scheduler") == ["prefer=10.0.0.1,10.1.0.1"]


def test_each_stack_has_its_program_and_what_installs_it() -> None:
    for stack, name in (("tquic", "quic"), ("noq", "noq"), ("aioquic", "aioquic")):
        asked = flow(stack=stack, streams=4)
        argv = client_argv(asked)
        assert argv[0] == f"/run/mprun/tools/{name}/mprun-{name}"
        assert after(argv, "--streams") == ["4"]
        assert quic.programs(asked)[f"mprun-{name}"].remedy == f"mprun tools install {name}"
        assert PROGRAMS[name].executable == f"mprun-{name}"


def test_client_and_server_are_on_different_libraries() -> None:
    asked = flow(stack="noq", server_stack="aioquic", multipath=False, testcase="retry")
    work = quic.work(asked, Endpoints(*PAIRS[0], (5201,), PAIRS[:1]), REFERENCE)
    client, server = work.clients[0].argv, work.servers[0].argv
    assert client[0] == "/run/mprun/tools/noq/mprun-noq"
    assert server[0] == "/run/mprun/tools/aioquic/mprun-aioquic"
    # only the server sends a Retry packet
    assert after(server, "--testcase") == ["retry"]
    assert "--testcase" not in client
    assert {"mprun-noq", "mprun-aioquic"} <= set(quic.programs(asked))


def test_the_certificate_of_a_case_exceeds_the_amplification_limit() -> None:
    """A server may send three times the bytes of a client's first datagram, which has 1200 (RFC 9000 8.1, 14.1)."""
    names = []
    for case in (None, "transfer"):
        [preparation] = quic.work(flow(testcase=case), Endpoints(*PAIRS[0], (5201,), PAIRS[:1]), REFERENCE).preparations
        names.append(len(preparation.files[0].text))
    assert names[0] < 1_000 < 3 * 1_200 < names[1]


@pytest.mark.parametrize(("case", "least", "most"), [(None, 200, 1_000), ("transfer", 3 * 1_200 + 1, 8_000)])
def test_the_certificate_that_openssl_makes_has_this_size(
    case: str | None, least: int, most: int, tmp_path: Path
) -> None:
    """A client gets the certificate as DER (RFC 8446 4.4.2), not as the text from which openssl(1) makes it."""
    [made] = quic.work(flow(testcase=case), Endpoints(*PAIRS[0], (5201,), PAIRS[:1]), REFERENCE).preparations
    (configuration,) = made.files
    (tmp_path / Path(configuration.path).name).write_text(configuration.text)
    folder = str(Path(configuration.path).parent)
    subprocess.run([word.replace(folder, str(tmp_path)) for word in made.argv], check=True, capture_output=True)
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "certificate.pem").read_text())
    assert least <= len(der) <= most


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"stack": "aioquic", "multipath": True}, "the stack aioquic has one path only: write 'stack: tquic' or"),
        ({"server_stack": "noq", "multipath": True}, "needs the same library at both ends, as each has its own draft"),
        ({"testcase": "v2"}, "the server on tquic cannot do 'v2': take aioquic for it"),
        ({"stack": "aioquic", "server_stack": "noq", "testcase": "v2"}, "the server on noq cannot do 'v2'"),
        ({"testcase": "multiconnect"}, "is one connection: write '2' or more for 'multiconnect'"),
        ({"testcase": "multiconnect", "requests": 2, "streams": 2}, "has no effect with 'multiconnect'"),
        ({"testcase": "multiconnect", "requests": 2}, None),
        ({"stack": "aioquic", "server_stack": "noq", "testcase": "resumption"}, None),
        ({"stack": {"client": ["a"], "server": ["b"]}, "server_stack": "noq"}, "conflicts with a stack of your own"),
        ({"stack": "aioquic", "testcase": "keyupdate"}, "is too small for a key update: write more than '50kb'"),
        ({"stack": "aioquic", "testcase": "keyupdate", "response": "100kb"}, None),
    ],
)
def test_a_stack_has_only_what_its_library_can_do(keys: dict[str, object], problem: str | None) -> None:
    entry = {"tool": "quic", "from": "client", "to": "server", "response": "1kb"}
    if problem is None:
        quic.Entry.model_validate({**entry, **keys})
        return
    with pytest.raises(ValidationError, match=re.escape(problem)):
        quic.Entry.model_validate({**entry, **keys})


def test_the_client_declares_a_backup_and_the_server_follows() -> None:
    policies = {"client": {"backup": 1}, "server": {"backup": 1}}
    work = quic.work(flow(stack="noq", scheduler=policies), Endpoints(*PAIRS[0], (5201,), PAIRS), REFERENCE)
    client, server = work.clients[0].argv, work.servers[0].argv
    assert after(client, "--backup") == ["10.0.1.1,10.1.0.1"]
    assert after(client, "--scheduler") == after(server, "--scheduler") == ["backup"]
    assert "--backup" not in server


def test_ipv6_addresses_stand_in_brackets() -> None:
    argv = client_argv(flow(), (("fd00::1", "fd01::1"),))
    assert after(argv, "--path") == ["fd00::1,[fd01::1]:5201"]


def _measure(plan: Plan, out: str) -> Measured:
    agent = AgentReport(None, True, {"get": Ended(0, False, "flow", ("get",), 0, 1)}, zero_ns=0)
    return measure(Evidence(plan.intent, agent, Observation(), lambda *log: out if log == ("get", "out") else ""))


def test_shares_of_each_direction_reach_the_summary() -> None:
    spec = load(LAB / "topo_three_paths.yaml", LAB / "asymmetric.yaml").spec
    plan = compile_plan(replace(spec, experiment=replace(spec.experiment, captures=())), allocate(spec))
    found = _measure(plan, output("three-paths"))
    metrics = {name: metric.value for name, metric in found.summary.metrics.items()}
    assert found.summary.status == "passed"
    for direction in ("forward", "reverse"):
        assert sum(metrics[f"get.share.{direction}.path{n}"] for n in range(3)) == pytest.approx(1)
    assert metrics["get.share.forward.path0"] == 1
    assert metrics["get.share.path2"] == metrics["get.share.reverse.path2"] > 0.98


def test_a_silent_path_fails_the_run_by_its_name() -> None:
    spec = load(LAB / "topo.yaml", LAB / "xp_multipath_rtt.yaml").spec
    plan = compile_plan(replace(spec, experiment=replace(spec.experiment, captures=())), allocate(spec))
    found = _measure(plan, output("path-silent"))
    assert found.summary.status == "failed"
    [failure] = found.summary.failures
    assert failure.startswith("get: path path1: no answer came over it")


def test_a_recipe_is_its_sources() -> None:
    recipe = PROGRAMS["quic"]
    names = [str(path.relative_to(recipe.folder.parent)) for path in recipe.sources()]
    assert {"quic/Cargo.toml", "quic/Cargo.lock", "quic/tquic.patch", "quic/src/main.rs"} <= set(names)
    assert {"exchange/Cargo.toml", "exchange/src/requests.rs"} <= set(names)
    assert replace(recipe, patched=None).digest != recipe.digest
    assert replace(recipe, shared=()).digest != recipe.digest


def test_what_is_not_built_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert program_store.find("quic") is None
    assert program_store.find_executable("mprun-quic") is None
    assert program_store.find_executable("ping") is None
