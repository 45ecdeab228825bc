# SPDX-License-Identifier: Apache-2.0
"""An older experiment as the tree of an experiment file: `xpType` chooses the traffic, other keys the hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from yaml.nodes import MappingNode, Node

from mprun.inputs.older.lines import OlderEntry
from mprun.inputs.older.older_file import NodeValue, OlderFile, with_unit
from mprun.model.frozen import Frozen
from mprun.model.problem import list_names

_ON = {"1": True, "0": False}
_YES = {"yes": True, "no": False}
_ENDS = ("client", "server")

# Keys that belong to one or several types only.
_KEYS_OF: Mapping[str, Sequence[str]] = {
    "iperf": ("iperfTime", "iperfParallel"),
    "iperfScenario": ("iperfScenarioFMSublows",),
    "http": ("file", "file_size"),
    "https": ("file", "file_size"),
    "msg": ("msgClientSleep", "msgServerSleep", "msgNbRequests", "msgBytes"),
    "pquic": ("pquicSize", "pquicPlugins", "pquicClientPlugins", "pquicServerPlugins"),
}
_PATH_MANAGERS = ("kpm", "kpmc", "kpms")
_USER_SPACE = ("upmc", "upms", "upmc_args", "upms_args")
_PRIORITIES = ("priority_path_0", "priority_path_1", "backup_path_0", "backup_path_1")
_SYSCTLS = {
    "congctrl": "net.ipv4.tcp_congestion_control",
    "rmem": "net.ipv4.tcp_rmem",
    "wmem": "net.ipv4.tcp_wmem",
    "autocork": "net.ipv4.tcp_autocorking",
    "bufferAutotuning": "net.ipv4.tcp_moderate_rcvbuf",
}
_OTHERS = ("mptcpEnabled", "sched", "earlyRetrans", "clientPcap", "serverPcap", "snaplen_pcap", "pingCount")
_KNOWN = ("xpType", *_OTHERS, *_PATH_MANAGERS, *_USER_SPACE, *_PRIORITIES, *_SYSCTLS, *chain(*_KEYS_OF.values()))

# Coupled congestion controls. On a plain TCP connection the modules of the older kernels behaved as Reno.
_COUPLED = ("lia", "olia", "balia", "wvegas")
# The flows of `iperfScenario`: ends, start and duration in s; the first is MPTCP.
_SCENARIO = ((_ENDS, 0, 50), (("client1", "server1"), 10, 20), (("client2", "server2"), 20, 20))
_THREE = re.compile(r"[0-9]{1,10}(?:[ \t]+[0-9]{1,10}){2}")

_BULK = "nearest are 'xpType:iperf' (iperf3), a bulk transfer, and 'xpType:http', one of a file"
_DELAYS = "nearest is 'xpType:msg' (reqres), requests and answers"
_QUIC = "nearest is 'xpType:pquic' (quic), a transfer over QUIC"
# Words in the names of plugins that added paths, and the schedulers of these plugins.
_PQUIC_SCHEDULERS = {"rtt": "lowest-rtt", "rr": "roundrobin"}
# Types without a tool in mprun, and the nearest alternative.
_CANNOT = {
    "quic": _QUIC,
    "quicsiri": _DELAYS,
    "siri": _DELAYS,
    "sirimsg": _DELAYS,
    "sirihttp": _DELAYS,
    "netperf": "nearest is 'tool: netperfmeter' in YAML",
    "ditg": "nearest are 'tool: udp' and 'tool: flows' in YAML",
    "sendfile": _BULK,
    "ab": "nearest is 'tool: http' with 'repeat' in YAML",
    "nc": _BULK,
    "ncpv": _BULK,
    "epload": "nearest is 'tool: http' in YAML, a page's files as flows one after the other",
    "vlc": "nearest is 'tool: video' in YAML",
}


class _Traffic(Frozen):
    """Flows and hosts of an older experiment.

    `flows`: the entries of `traffic`.
    `hosts`: the hosts that take part.
    `mptcp`: client and server use MPTCP.
    `per_pair`: subflows that the client opens for each pair of addresses.
    """

    flows: list[Node]
    hosts: tuple[str, ...] = _ENDS
    mptcp: bool = False
    pings: bool = True
    per_pair: Node | None = None


def build(source: OlderFile, kind: OlderEntry | None) -> MappingNode:
    """Return the tree. Problems and warnings go to the source. kind: the entry `xpType`."""
    line = kind.line if kind else 1
    if kind is None and not source.has("xpType"):
        source.refuse_file("has no 'xpType': write one, as in 'xpType:iperf'")
    wants_mptcp = source.choice(source.take_or("mptcpEnabled", "1", line), _ON) is not False
    type_ = kind.value if kind else ""
    items: dict[str, NodeValue] = {"version": 1}
    if kind is not None and type_ in _TRAFFIC:
        traffic = _TRAFFIC[type_](source, kind, wants_mptcp)
    else:
        traffic = _Traffic([], mptcp=wants_mptcp, pings=False)
        if kind is not None:
            hint = _CANNOT.get(type_)
            types = f"no such type{list_names(list(_TRAFFIC), 'types')}"
            source.refuse(kind, f"'{type_}' is not supported: {hint}" if hint else f"'{type_}': {types}")
    hosts = _hosts(source, traffic, wants_mptcp, line)
    if hosts:
        items["hosts"] = source.node(hosts, line)
    if traffic.flows:
        items["traffic"] = source.node(traffic.flows, line)
    captures = _captures(source)
    if captures:
        items["capture"] = source.node(captures)
    if traffic.pings:
        # the older tool pinged each address
        items["probe"] = source.node({"pings": source.whole_or("pingCount", 5, "one, as in '5'", line)})
    else:
        source.drop(("pingCount",), "this type of experiment sends no pings")
    _refuse_priorities(source)
    _warn_keys_of_others(source, type_)
    return source.mapping(items, line)


# traffic


def _none(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    source.warn(kind, "opens no prompt here, and sends nothing: 'mprun shell -t TOPOLOGY' has Mininet's prompt")
    return _Traffic([], pings=False)


def _ping(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    return _Traffic([_flow(source, kind.line, "ping", "ping", {"count": _count(source, "pingCount", 5, kind)})])


def _iperf(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    properties: dict[str, NodeValue] = {"protocol": _protocol(wants_mptcp)}
    properties["duration"] = _seconds(source, "iperfTime", 10, kind)
    if source.has("iperfParallel"):
        properties["parallel"] = _count(source, "iperfParallel", 1, kind)
    return _Traffic([_flow(source, kind.line, "iperf", "iperf3", properties)], mptcp=wants_mptcp)


def _msg(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    """Requests and answers of one size, with a pause of client and server before each."""
    size = source.whole_or("msgBytes", 1200, "bytes, as in '1200'", kind.line, "bytes")
    properties: dict[str, NodeValue] = {
        "protocol": _protocol(wants_mptcp),
        "requests": _count(source, "msgNbRequests", 5, kind),
        "request": size,
        "response": size,
        "think": _seconds(source, "msgClientSleep", 5, kind),
        "server_think": _seconds(source, "msgServerSleep", 5, kind),
    }
    return _Traffic([_flow(source, kind.line, "msg", "reqres", properties)], mptcp=wants_mptcp)


def _web(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    file = source.take("file")
    if file is not None and file.value != "random":
        source.warn(file, "has no effect: the file holds zeros here, of the size that 'file_size' says")
    size = source.whole_or("file_size", 1024, "KiB, as in '1024'", kind.line, "kb")
    properties: dict[str, NodeValue] = {"protocol": _protocol(wants_mptcp), "sizes": source.node([size])}
    return _Traffic([_flow(source, kind.line, kind.value, kind.value, properties)], mptcp=wants_mptcp)


def _pquic(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    """A download of one file over QUIC. In the older program plugins added multipath; in the present one it is a
    property.
    """
    response = source.whole_or("pquicSize", 10_240_000, "bytes, as in '10240000'", kind.line, "bytes")
    properties: dict[str, NodeValue] = {"response": response}
    plugins = {end: source.take(f"pquic{end.capitalize()}Plugins") for end in _ENDS}
    common = source.take("pquicPlugins")
    chosen = {end: own or common for end, own in plugins.items()}
    named = {end: entry for end, entry in chosen.items() if entry is not None and entry.value}
    if named:
        schedulers = {end: _pquic_scheduler(source, entry) for end, entry in named.items()}
        known = {end: source.node(name, named[end].line) for end, name in schedulers.items() if name}
        position = next(iter(named.values())).line
        properties["multipath"] = source.node(True, position)
        properties["scheduler"] = source.node(known if len(known) == len(named) else None, position)
    return _Traffic([_flow(source, kind.line, "pquic", "quic", properties)])


def _pquic_scheduler(source: OlderFile, entry: OlderEntry) -> str | None:
    """The scheduler of a plugin by the plugin's name. None after a problem."""
    words = set(re.split(r"[^a-z]+", entry.value.rpartition("/")[2].lower()))
    for word, scheduler in _PQUIC_SCHEDULERS.items():
        if {"multipath", word} <= words:
            return scheduler
    source.refuse(
        entry,
        f"'{entry.value}' is none of the plugins that tool 'quic' stands in for, multipath_rtt and multipath_rr: for"
        " another way to use paths write YAML, with 'scheduler' as in '{client: {prefer: 0}, server: {prefer: 2}}'",
    )
    return None


def _scenario(source: OlderFile, kind: OlderEntry, wants_mptcp: bool) -> _Traffic:
    """An MPTCP connection over both paths, and a TCP connection on each path for some time."""
    flows = []
    for n, (ends, start, duration) in enumerate(_SCENARIO):
        properties = {
            "protocol": _protocol(wants_mptcp and n == 0),
            "start": f"{start}s",
            "duration": f"{duration}s",
        }
        flows.append(_flow(source, kind.line, f"iperf{n}", "iperf3", properties, ends))
    hosts = tuple(host for ends, *_ in _SCENARIO for host in ends)
    return _Traffic(flows, hosts, mptcp=wants_mptcp, per_pair=_per_pair(source))


def _per_pair(source: OlderFile) -> Node | None:
    """Subflows for each pair of addresses. None if the file does not ask for more than one."""
    entry = source.take("iperfScenarioFMSublows")
    number = None if entry is None else source.whole(entry, "subflows for each pair of addresses, as in '1'")
    return None if entry is None or number in (None, 1) else source.node(number, entry.line)


_TRAFFIC: Mapping[str, Callable[[OlderFile, OlderEntry, bool], _Traffic]] = {
    "none": _none,
    "ping": _ping,
    "iperf": _iperf,
    "iperfScenario": _scenario,
    "msg": _msg,
    "http": _web,
    "https": _web,
    "pquic": _pquic,
}


def _flow(
    source: OlderFile,
    line: int,
    name: str,
    tool: str,
    properties: Mapping[str, NodeValue],
    ends: tuple[str, str] = _ENDS,
) -> Node:
    return source.node({"name": name, "tool": tool, "from": ends[0], "to": ends[1], **properties}, line)


def _protocol(wants_mptcp: bool) -> str:
    return "mptcp" if wants_mptcp else "tcp"


def _seconds(source: OlderFile, key: str, default: int, kind: OlderEntry) -> Node:
    entry = source.take_or(key, str(default), kind.line)
    return source.node(with_unit(source.number(entry, entry.value, f"seconds, as in '{default}'"), "s"), entry.line)


def _count(source: OlderFile, key: str, default: int, kind: OlderEntry) -> Node:
    return source.whole_or(key, default, f"one, as in '{default}'", kind.line)


# hosts


def _hosts(source: OlderFile, traffic: _Traffic, wants_mptcp: bool, line: int) -> dict[str, Node]:
    mptcp: dict[str, Node] = {}
    if traffic.mptcp:
        mptcp = {
            host: _mptcp(source, key, line, per_pair)
            for host, key, per_pair in (("client", "kpmc", traffic.per_pair), ("server", "kpms", None))
        }
        if source.has("kpmc") and source.has("kpms"):
            source.drop(("kpm",), "'kpmc' and 'kpms' say it for each end")
    else:
        reason = "no connection of this type is MPTCP" if wants_mptcp else "'mptcpEnabled:0' switches MPTCP off"
        source.drop(("sched", *_PATH_MANAGERS), reason)
    source.drop(_USER_SPACE, "the kernel's path manager opens the subflows here; it is chosen with 'kpm'")
    source.drop(("earlyRetrans",), "early retransmit is gone from Linux, RACK and loss probes stand in for it")
    settings = _settings(source, traffic.mptcp)
    hosts: dict[str, Node] = {}
    for host in traffic.hosts:
        items: dict[str, Node] = {}
        if host in mptcp:
            items["mptcp"] = mptcp[host]
        sysctls = _sysctls(source, settings, host in mptcp)
        if sysctls:
            items["sysctl"] = source.node(sysctls)
        if items:
            hosts[host] = source.node(items)
    return hosts


def _mptcp(source: OlderFile, key: str, line: int, per_pair: Node | None) -> Node:
    """The path manager of one end, fullmesh by default.

    The default scheduler of the older kernels took the subflow with the lowest RTT. The mainline default does not.
    """
    common = source.take_or("kpm", "fullmesh", line)
    entry = source.take(key) or common
    scheduler = source.take_or("sched", "default", line)
    name = "lowest-rtt" if scheduler.value == "default" else scheduler.value
    items = {
        "path_manager": source.node(entry.value, entry.line),
        "scheduler": source.node(name, scheduler.line),
    }
    if per_pair is not None:
        items["subflows_per_pair"] = per_pair
    return source.node(items)


def _settings(source: OlderFile, uses_mptcp: bool) -> dict[str, OlderEntry]:
    """The allowed sysctls in the file, by the older key."""
    settings = {}
    for key in _SYSCTLS:
        entry = source.take(key)
        if entry is None:
            continue
        if key in ("rmem", "wmem") and not _THREE.fullmatch(entry.value):
            message = "is not least, default and most in bytes: write '4096 131072 6291456'"
            source.refuse(entry, f"'{entry.value}' {message}")
        elif key in ("autocork", "bufferAutotuning") and source.choice(entry, _ON) is None:
            continue
        else:
            settings[key] = entry
    control = settings.get("congctrl")
    if control is None and uses_mptcp and not source.has("congctrl"):
        message = "is not given and nothing is set, so the kernel's default holds; the older tool's was olia"
        source.warn_of_absent("congctrl", message)
    if control is not None and control.value in _COUPLED:
        message = "did what Reno does on TCP connections: 'reno' is set"
        if uses_mptcp:
            message = "is in the experiment kernel; in no stock kernel, so that a run with --engine real stops"
        source.warn(control, f"'{control.value}' {message}")
    if settings:
        first = min(settings.values(), key=lambda entry: entry.line)
        source.warn(
            first,
            "sysctls of TCP reach the hosts here; from Linux 4.15 on those of the older tool did not:"
            " expect other results where they matter",
        )
    return settings


def _sysctls(source: OlderFile, settings: Mapping[str, OlderEntry], speaks_mptcp: bool) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key, entry in settings.items():
        value = " ".join(entry.value.split())
        if key == "congctrl" and value in _COUPLED and not speaks_mptcp:
            value = "reno"
        is_switch = key in ("autocork", "bufferAutotuning")
        found[_SYSCTLS[key]] = source.node(int(value) if is_switch else value, entry.line)
    return found


# the rest


def _captures(source: OlderFile) -> list[Node]:
    captures: list[Node] = []
    length = source.take("snaplen_pcap")
    meant = source.take("snaplenPcap")
    if meant is not None and length is not None:
        source.warn(meant, "has no effect, and had none in the older tool: 'snaplen_pcap' holds")
    elif meant is not None and not source.has("snaplen_pcap"):
        message = "the older tool ignored this key and kept 65535 bytes of each packet: read as 'snaplen_pcap'"
        source.warn(meant, message)
        length = meant
    number = None if length is None else source.whole(length, "bytes, as in '100'")
    for host in _ENDS:
        entry = source.take(f"{host}Pcap")
        if entry is None or not source.choice(entry, _YES):
            continue
        snaplen = {} if length is None else {"snaplen": source.node(number, length.line)}
        captures.append(source.node({"host": host, **snaplen}, entry.line))
    if length is not None and not captures:
        source.warn(length, "has no effect: neither 'clientPcap:yes' nor 'serverPcap:yes' captures anything")
    return captures


def _refuse_priorities(source: OlderFile) -> None:
    """Refuse priorities of a path: they belong to the topology. Equal priorities without backup have no effect."""
    for key in _PRIORITIES:
        entry = source.take(key)
        if entry is None or entry.value == "0":
            continue
        n = key[-1]
        if key.startswith("backup"):
            message = f"is said in the topology: write a fifth value, as in 'path_c2r_{n}:delay,queue,rate,0,1'"
        else:
            message = f"no kernel of today has priorities: make the other path backup, as in 'path_c2r_{1 - int(n)}"
            message += ":delay,queue,rate,0,1' in the topology"
        source.refuse(entry, message)


def _warn_keys_of_others(source: OlderFile, type_: str) -> None:
    own = _KEYS_OF.get(type_, ())
    for key in dict.fromkeys(chain(*_KEYS_OF.values())):
        if key not in own:
            others = " and ".join(f"xpType:{other}" for other, keys in _KEYS_OF.items() if key in keys)
            source.drop((key,), f"it is for {others}, not for '{type_}'")
    if type_ in _TRAFFIC:
        source.warn_unread(_KNOWN)
