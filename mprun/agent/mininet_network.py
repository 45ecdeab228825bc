# SPDX-License-Identifier: Apache-2.0
"""The plan's network as a Mininet: nodes that are namespaces, and links that the builder made.

Mininet's own classes start a shell per node and a process per setting. The classes here start a shell only when it is
needed (by the CLI or a script), and leave building to `network_commands.py`. Mininet's changes to the whole host
(sysctls, limits, clean-up) never run.
"""

from __future__ import annotations

import os
import signal
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import Any

from mprun.agent.namespace import create, enter, inside
from mprun.agent.rtnetlink import Netlink
from mprun.machine.mininet_library import make_importable

make_importable()

from mininet.link import Intf, Link  # noqa: E402
from mininet.net import Mininet  # noqa: E402
from mininet.node import Node  # noqa: E402
from mininet.util import numCores  # noqa: E402

# Mininet.init() would write sysctls of the whole host and raise its limits.
Mininet.inited = True
# Otherwise Mininet would start a process to count the processors.
numCores.ncores = os.cpu_count()

# Interfaces are numbered from here, above the interfaces that a kernel gives each new namespace (loopback, fallback
# devices of tunnels). So their indices are known in advance.
FIRST_INDEX = 100
BATCH_TIMEOUT_S = 60


class NamespaceNode(Node):  # type: ignore[misc]
    """A node that is a namespace, its own or another node's. A shell is started only when it is asked for."""

    # Otherwise Mininet would start two processes to look for programs that our nodes do not need.
    isSetup = True

    def __init__(self, name: str, **params: Any) -> None:
        self._shell: Popen[bytes] | None = None
        self._pid: int | None = None
        self._born = False
        self.home: int = params.pop("home")
        shared: NamespaceNode | None = params.pop("inside", None)
        if shared is None:
            self.namespace = create()
            self.indices = {"lo": 1}
        else:
            self.namespace = os.dup(shared.namespace)
            self.indices = shared.indices
            enter(self.namespace)
        self.netlink = Netlink()
        super().__init__(name, **params)
        self._born = True

    def new_index(self, interface: str) -> int:
        """Return the kernel's index of an interface that is about to be made here."""
        self.indices[interface] = FIRST_INDEX + len(self.indices)
        return self.indices[interface]

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell at its first use. Mininet's constructor asks for it at once, which is ignored."""
        if self._born:
            super().startShell(mnopts)

    @property
    def shell(self) -> Popen[bytes] | None:
        if self._shell is None and self._born:
            self._born = False  # startShell() reads `shell` itself
            try:
                super().startShell()
            finally:
                self._born = True
        return self._shell

    @shell.setter
    def shell(self, value: Popen[bytes] | None) -> None:
        self._shell = value

    @property
    def pid(self) -> int | None:
        """The shell's pid. The shell is started if it does not run yet."""
        shell = self.shell if self._born else None
        return shell.pid if shell else self._pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        self._pid = value

    def _popen(self, cmd: list[str], **params: Any) -> Popen[bytes]:
        """Start a process inside the node, without Mininet's prefix (mnexec and its options)."""
        if cmd and cmd[0] == "mnexec":
            cmd = cmd[cmd.index("env") :] if "env" in cmd[:3] else cmd[3:]
        params.setdefault("start_new_session", True)
        with inside(self.namespace, self.home):
            process: Popen[bytes] = super()._popen(cmd, **params)
            return process

    def terminate(self) -> None:
        """End the shell if it runs, and release the namespace."""
        if self._shell is not None:
            if self._shell.poll() is None:
                os.killpg(self._shell.pid, signal.SIGHUP)
            self.stdin.close()
            os.close(self.slave)
            self._shell.wait()
            self._shell = None
        if self.namespace >= 0:
            self.netlink.close()
            os.close(self.namespace)
            self.namespace = -1


# One end of a link: its node, and the interface's name, MAC address and IP address.
LinkEnd = tuple[NamespaceNode, str, str, str | None]


class BuiltInterface(Intf):  # type: ignore[misc]
    """An interface that exists already.

    address: with prefix length; the IPv4 address if it has one; None on a switch.
    """

    def __init__(self, node: NamespaceNode, link: Link, name: str, mac: str, address: str | None) -> None:
        super().__init__(name, node=node, link=link, mac=mac, moveIntfFn=lambda *_: None)
        if address:
            self.ip, self.prefixLen = address.split("/")

    def updateIP(self) -> str | None:
        """Return the current address. Mininet's method finds only IPv4 addresses and forgets any other."""
        known: str | None = self.ip
        found: str | None = super().updateIP()
        if found is None and known and ":" in known:
            self.ip = found = known
        return found

    def config(self, **_params: Any) -> dict[str, Any]:
        """Do nothing: the builder has configured the interface."""
        return {}


class BuiltLink(Link):  # type: ignore[misc]
    """A link that exists already, directly or as a wire."""

    def __init__(self, first: LinkEnd, second: LinkEnd) -> None:
        self.intf1 = BuiltInterface(first[0], self, *first[1:])
        self.intf2 = BuiltInterface(second[0], self, *second[1:])

    def stop(self) -> None:
        """Do nothing: the link ends with its namespaces."""


class PlannedNetwork(Mininet):  # type: ignore[misc]
    """A Mininet that gets its nodes and links instead of making them."""

    def __init__(self, home: int) -> None:
        self.home = home
        self.wires: NamespaceNode | None = None
        super().__init__(topo=None, build=False)
        self.built = True

    def add_node(self, name: str, kind: str, inside: str) -> NamespaceNode:
        """Add a node with a namespace of its own, or with the namespace of the node `inside`."""
        node = NamespaceNode(name, home=self.home, inside=self.nameToNode.get(inside))
        if kind == "wires":
            self.nameToNode[name] = self.wires = node
        else:
            (self.switches if kind in ("switch", "openflow") else self.hosts).append(node)
            self.nameToNode[name] = node
        return node

    def release(self) -> None:
        """Release all namespaces. The kernel removes their links, qdiscs and routes."""
        for node in reversed(list(self.nameToNode.values())):
            node.terminate()


def run(node: NamespaceNode, argv: list[str], text: str) -> tuple[int, str]:
    """Run a program inside a node with `text` as its input. Return (status, output and errors)."""
    with inside(node.namespace, node.home):
        process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=STDOUT, close_fds=False)
    try:
        output, _ = process.communicate(text.encode(), timeout=BATCH_TIMEOUT_S)
    except TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        output += f"\ndid not end within {BATCH_TIMEOUT_S} s".encode()
    return process.returncode, output.decode(errors="replace")


class Talker:
    """A tc(8) process inside a node that runs commands line by line."""

    def __init__(self, node: NamespaceNode) -> None:
        argv = ["tc", "-j", "-force", "-batch", "-"]
        with inside(node.namespace, node.home):
            self._process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=STDOUT, close_fds=False)

    def ask(self, lines: list[str]) -> str:
        """Run some lines of commands and return their output. Only the last line answers, with one line of JSON."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(("\n".join(lines) + "\n").encode())
        self._process.stdin.flush()
        said = ""
        while not said.rstrip().endswith("]"):
            line = self._process.stdout.readline().decode(errors="replace")
            said += line
            if not line:
                return said + "\nCommand failed: tc ended"
        return said

    def close(self) -> None:
        """End the tc process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(BATCH_TIMEOUT_S)
