# SPDX-License-Identifier: Apache-2.0
"""The common parts of `http` and `https`: nginx(8) with files of given sizes, and curl(1), which fetches them.

nginx runs in the foreground as one process. Its configuration, files and (for https) certificate are made for each flow
of a run. The files are sparse: zeros that use no disk space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import ConnectionEntry, Size
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_CONNECTIONS, delays, less
from mprun.model.plan import File, Ready
from mprun.model.spec import Flow
from mprun.workloads import tool
from mprun.workloads.account import tell_requests
from mprun.workloads.certificate import DETERMINISTIC, certificate_of, key_of, make_certificate
from mprun.workloads.tool import Endpoints, Outputs, Portion, Program, Result, Table, TimeLimit, Work

PROGRAMS = {"nginx": Program("nginx", "-v"), "curl": Program("curl", "--version")}
PORTS = 1
METRICS = {
    **delays("delay", "time from the beginning of a request to the last byte of its answer"),
    "first_byte.mean": less("time", "mean time from the beginning of a request to the first byte of its answer"),
    "first_byte.median": less(
        "time", "median of the time from the beginning of a request to the first byte of its answer"
    ),
    "requests": tool.total("count", "requests that were answered"),
    "bytes": tool.total("size", "payload of the answers"),
    "goodput": tool.goodput("payload of the answers, divided by the time of the requests"),
    **OF_CONNECTIONS,
}

MOST_REQUESTS = 10_000

# curl's output for each request (--write-out), in this order.
_SAID = (
    *("urlnum", "exitcode", "http_code", "size_download", "local_port", "num_connects"),
    *("time_connect", "time_appconnect", "time_starttransfer", "time_total"),
)
_CONFIGURATION = """\
daemon off;
master_process off;
error_log stderr;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    keepalive_requests 1000000;
    keepalive_timeout 1d;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {listen};
        root {folder}/files;
{certificate}    }}
}}
"""


class WebEntry(ConnectionEntry):
    """Files of given sizes from a web server."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        **ConnectionEntry.ELSEWHERE,
        "duration": "is no key here, as the flow ends when all files have arrived: write 'sizes' and 'requests'",
        "reverse": "is no key here, as the server sends the files: name it in 'to'",
    }
    sizes_bytes: Annotated[list[Size], Field(min_length=1, max_length=100)] = Field(alias="sizes", examples=[["1mb"]])
    """The sizes of the files. The client requests the files in turn."""
    requests: Annotated[int, Whole(1, MOST_REQUESTS, "curl keeps a list of them")] | None = None
    """The number of requests. Default: one for each size."""
    persistent: bool = True
    """Use a connection for several requests, one after the other. `false` opens a connection for each request."""
    concurrency: Annotated[int, Whole(1, 100, "curl has no more at a time than 300, and nobody needs them")] = 1
    """The number of requests at the same time."""

    @property
    def _count(self) -> int:
        return len(self.sizes_bytes) if self.requests is None else self.requests

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self._count < self.concurrency:
            remedy = "write more 'requests'" if self.requests is None else f"write '{self._count}' or less"
            yield "concurrency", f"is more than all requests, {self._count}: {remedy}"

    def find_doubts(self) -> Iterator[KeyProblem]:
        if self._count < (given := len(self.sizes_bytes)):
            yield "sizes", f"has {given} sizes for {self._count} requests: remove some, or write 'requests: {given}'"

    def options(self) -> dict[str, object]:
        return super().options() | {"requests": self._count}


def is_download(flow: Flow) -> bool:
    """Return whether all data goes to the client."""
    return True


def build(flow: Flow, ends: Endpoints, capabilities: Capabilities, secure: bool) -> Work:
    """Return nginx and curl as processes, and for https the preparation that makes the certificate."""
    environment = {**tool.mptcp_environment(flow, capabilities), **(DETERMINISTIC if secure else {})}
    sizes = dict.fromkeys(flow.options["sizes_bytes"])
    # Listen on every address, because a join to an address without a listener is refused. An IPv6 connection has joins
    # of both families, which nginx accepts on one socket only with this option.
    listen = f"[::]:{ends.port} ipv6only=off" if ":" in ends.destination_address else f"0.0.0.0:{ends.port}"
    base = f"{'https' if secure else 'http'}://{tool.join_port(ends.destination_address, ends.port)}"
    settings = File(tool.temporary(flow, "nginx.conf"), _configuration(flow, listen, secure))
    served = (File(tool.temporary(flow, f"files/{size}"), size_bytes=size) for size in sizes)
    words = ("nginx", "-e", "stderr", "-p", tool.temporary(flow, ""), "-c", settings.path)
    server = tool.make_server(flow, words, Ready("port", str(ends.port)), env=environment, files=(settings, *served))
    wanted = _requests(flow, [f"{base}/{size}" for size in _in_turn(flow)], secure)
    asked = File(tool.temporary(flow, "curl.conf"), wanted)
    client = tool.make_client(flow, ("curl", "--disable", "--config", asked.path), env=environment, files=(asked,))
    preparations = (make_certificate(flow, ends.destination_address),) if secure else ()
    return Work((client,), (server,), preparations)


def _in_turn(flow: Flow) -> list[int]:
    """Return the size that each request asks for."""
    sizes = flow.options["sizes_bytes"]
    return [sizes[n % len(sizes)] for n in range(flow.options["requests"])]


TIME_LIMIT = TimeLimit(60, lambda flow: tool.transfer_ns(sum(_in_turn(flow))))


def _configuration(flow: Flow, listen: str, secure: bool) -> str:
    folder = tool.temporary(flow, "").rstrip("/")
    shown = (f"ssl_certificate {certificate_of(flow)};", f"ssl_certificate_key {key_of(flow)};")
    certificate = "".join(f"        {line}\n" for line in (*shown, "ssl_protocols TLSv1.3;")) if secure else ""
    return _CONFIGURATION.format(folder=folder, listen=listen + (" ssl" if secure else ""), certificate=certificate)


def _requests(flow: Flow, urls: Sequence[str], secure: bool) -> str:
    """Return curl's options in the format of --config, with an output for each request."""
    said = " ".join(f"%{{{name}}}" for name in _SAID)
    lines = ["silent", "show-error", "fail", "globoff", "http1.1", 'noproxy = "*"', f'write-out = "{said}\\n"']
    if secure:
        lines.append(f'cacert = "{certificate_of(flow)}"')
    if not flow.options["persistent"]:
        lines.append('header = "Connection: close"')
    if flow.options["concurrency"] > 1:
        lines += ["parallel", "parallel-immediate", f"parallel-max = {flow.options['concurrency']}"]
    for url in urls:
        lines += [f'url = "{url}"', 'output = "/dev/null"']
    return "".join(f"{line}\n" for line in lines)


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return the times of all requests, in curl's resolution (microseconds).

    A request without an answer is an error.
    """
    try:
        rows = [dict(zip(_SAID, line.split(), strict=True)) for line in outputs.log(flow.name).splitlines()]
        rows.sort(key=lambda row: int(row["urlnum"]))
        start_ns = tool.start_of(flow, outputs)
        table = _table(rows, _in_turn(flow), flow.options["concurrency"] == 1, start_ns)
    except ValueError as problem:
        return Result(error=f"a line that curl never prints: {problem}")
    whole = [row for row in rows if row["exitcode"] == "0"]
    size_bytes = sum(int(row["size_download"]) for row in whole)
    delays_ns = [_ns(row["time_total"]) for row in whole]
    first_byte = tool.summarize_delays("first_byte", [_ns(row["time_starttransfer"]) for row in whole])
    values = {
        **{name: value for name, value in first_byte.items() if name in METRICS},
        "requests": len(whole),
        "bytes": size_bytes,
    }
    span = outputs.span(flow.name)
    took_ns = sum(delays_ns) if flow.options["concurrency"] == 1 else span[1] - span[0] if span else 0
    portions = {}
    if took_ns:
        values["goodput"] = size_bytes * 8e9 / took_ns
        portions["goodput"] = [Portion(start_ns, start_ns + took_ns, size_bytes)]
    ports = tuple(dict.fromkeys(int(row["local_port"]) for row in rows if row["local_port"] != "0"))
    asked = flow.options["requests"]
    error = None
    if len(whole) != asked:
        error = f"{len(whole)} of {asked} requests were answered: {tool.said_by(flow, outputs)}"
    tables = {"requests": table} if rows else {}
    accounts = {flow.name: tell_requests(table)}
    return Result(values, ports, error, tables, delays_ns={"delay": delays_ns}, accounts=accounts, portions=portions)


def _table(rows: Sequence[Mapping[str, str]], sizes: Sequence[int], one_by_one: bool, start_ns: int) -> Table:
    """Return a row for each request.

    start_ns: the start of the flow. Requests one after the other start when the previous one ends. curl does not report
    the start of concurrent requests, which is then None, as the delay of a request without a whole answer is.
    """
    totals = [_ns(row["time_total"]) for row in rows]
    starts = [start_ns + sum(totals[:n]) if one_by_one else None for n in range(len(rows))]
    return {
        "sequence": [int(row["urlnum"]) + 1 for row in rows],
        "start_ns": starts,
        "size_bytes": [sizes[int(row["urlnum"])] for row in rows],
        "received_bytes": [int(row["size_download"]) for row in rows],
        "status": [int(row["http_code"]) for row in rows],
        "local_port": [int(row["local_port"]) for row in rows],
        "new_connections": [int(row["num_connects"]) for row in rows],
        "connect_ns": [_ns(row["time_connect"]) for row in rows],
        "handshake_ns": [_ns(row["time_appconnect"]) for row in rows],
        "first_byte_ns": [_ns(row["time_starttransfer"]) for row in rows],
        "delay_ns": [total if row["exitcode"] == "0" else None for row, total in zip(rows, totals, strict=True)],
    }


def _ns(seconds: str) -> int:
    """Return curl's seconds, which have six digits, as ns."""
    return round(float(seconds) * 1e6) * 1000
