# SPDX-License-Identifier: Apache-2.0
"""Programs of a stranger's experiment that try to leave the experiment kernel. They are root in the guest.

HOME is a folder of the host with a secret. VICTIM is a file next to the experiment kernel. PORT is a TCP port on which
a program of the host listens. HOME/socket is a UNIX socket of the host.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from mprun.model import engine_paths
from tests.hostile import Finding
from tests.scenes import ONE_PATH

_CONNECT = 'python3 -c "import socket; s = socket.socket({family}); s.settimeout(1); s.connect({address})"'
# PTRACE_SEIZE
_PTRACE = 'python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0x4206, $PPID, 0, 0) != 0)"'
# F_SETSIG. If the signal came, the run would hang.
_SIGIO = (
    "python3 -c 'import fcntl, os, signal, socket, sys; a, b = socket.socketpair(); "
    "fcntl.fcntl(a, fcntl.F_SETOWN, int(sys.argv[1])); fcntl.fcntl(a, 10, signal.SIGSTOP); "
    'fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC); b.send(b"x")\' $PPID; false'
)
ATTEMPTS: Mapping[str, str] = {
    "mount of a folder": "mount -t hostfs none /tmp/h -o HOME && cat /tmp/h/secret",
    "mount of a folder, to write": "mount -t hostfs none /tmp/h -o HOME && echo changed >>/tmp/h/secret",
    "mount of all": "mount -t hostfs none /tmp/h && cat /tmp/hHOME/secret",
    "mount of /proc": "mount -t hostfs none /tmp/h -o /proc && ls /tmp/h/1",
    "memory of another process": "mount -t hostfs none /tmp/h -o /proc && : <>/tmp/h/PROCESS/mem",
    "mount by a child": "unshare --mount mount -t hostfs none /tmp/h -o HOME && cat /tmp/h/secret",
    "remount of the root": "mount -o remount,rw / && touch /var/tmp/mprun_was_here",
    "remount of a shown folder": "mount -o remount,rw /run/mprun/kernel && touch /run/mprun/kernel/mprun_was_here",
    "bind and remount": "mount --bind / /tmp/h && mount -o remount,rw,bind /tmp/h && touch /tmp/h/opt/mprun_was_here",
    "path to the secret": "cat HOME/secret",
    "passwords and keys": "cat /etc/shadow || cat /etc/gshadow || cat /etc/ssh/ssh_host*key || cat /etc/ssl/private/*",
    "other files of root": "cat /etc/.pwd.lock",
    "mode of a shown file": "chmod 777 /run/mprun/kernel/VICTIM",
    "time of a shown file": "touch -d 2001-01-01 /run/mprun/kernel/VICTIM",
    "removal of a shown file": "rm -f /run/mprun/kernel/VICTIM; test ! -e /run/mprun/kernel/VICTIM",
    "another name for a shown file": "mv /run/mprun/kernel/VICTIM /run/mprun/kernel/other",
    "a change of a shown file": "echo changed >/run/mprun/kernel/VICTIM",
    "a link out of the run": "ln -s HOME/secret /run/mprun/run/link && cat /run/mprun/run/link",
    "a hard link out of the run": "ln /etc/hostname /run/mprun/run/hard",
    "an order to end the run": "touch /sys/fs/stop || rm -r /sys/fs/* || mount -o remount,rw /sys/fs",
    "an order where it was": "touch /run/mprun/run/.stop; sleep 2; false",
    "a device": "mknod /run/mprun/run/mem c 1 1 && head -c 1 /run/mprun/run/mem",
    "a disk of the host": "mknod /tmp/disk b 98 0 && head -c 1 /tmp/disk",
    "ports of the machine": "mknod /tmp/port c 1 4 && head -c 1 /tmp/port",
    "the trace events": "mount -t tracefs none /tmp/h && ls /tmp/h/events",
    "the trace events by a child": "unshare --mount mount -t tracefs none /tmp/h && ls /tmp/h/events",
    "the trace events where the kernel has them": "ls /sys/kernel/tracing/events || ls /sys/kernel/debug/tracing",
    "an open file of the agent": "for one in /proc/$PPID/fd/*; do (: <$one) && exit 0; done; false",
    "memory of the agent": "head -c 1 /proc/$PPID/mem || grep . /proc/$PPID/environ",
    "the mounts of the agent": "nsenter -t $PPID -m true || nsenter -t 1 -m true || ls /proc/$PPID/root/",
    "a trace of the agent": _PTRACE,
    "an end of the agent": "kill -9 $PPID || kill -9 1",
    "a stop of the agent": "kill -STOP $PPID || kill -STOP 1",
    "a stop of the agent by a file": _SIGIO,
    "the limits of the agent": "prlimit --pid $PPID --nofile=4",
    "a report of progress": "ls /sys/firmware/progress",
    "a set-user-ID file": ": >RUN/set; chmod 4755 RUN/set || chmod 2755 RUN/set",
    "a file made with a set-ID bit": (
        "python3 -c 'import os; os.mknod(\"RUN/made\", 0o106755)'; test -u RUN/made -o -g RUN/made"
    ),
    "a pipe with a set-ID bit": "python3 -c 'import os; os.mknod(\"RUN/fifo\", 0o14755)'",
    "a folder with a set-ID bit": "mkdir RUN/folder; chmod g+s RUN/folder",
    "another owner": ": >RUN/mine; chown 4242 RUN/mine || chgrp 4242 RUN/mine",
    "a module": "modprobe dummy_of_nobody",
    "kernel memory": "head -c 1 /dev/mem || head -c 1 /dev/kmem || head -c 1 /proc/kcore",
    "a TCP port of the host": _CONNECT.format(family="socket.AF_INET", address="('127.0.0.1', PORT)"),
    "a UNIX socket of the host": _CONNECT.format(family="socket.AF_UNIX", address="'HOME/socket'"),
    "a socket of virtual machines": "python3 -c 'import socket; socket.socket(socket.AF_VSOCK)'",
    # the rest would let the agent wait for ever
    "a pipe in place of a result": "mkfifo RUN/agent.json RUN/stops.json && false",
    "a pipe in place of a file of the kernel": "mkfifo /tmp/pipe && mount --bind /tmp/pipe /proc/meminfo && false",
}


@dataclass(frozen=True)
class Host:
    """Parts of the host that programs must not access. secret: a folder; victim: a file; port: of TCP."""

    secret: Path
    victim: Path
    port: int


@contextlib.contextmanager
def host_to_attack(kernel: Path) -> Iterator[Host]:
    """Make the targets of the programs. kernel: the folder of the experiment kernel, which the programs can read."""
    secret = Path("/var/tmp") / f"mprun-test-{os.getpid()}"
    secret.mkdir()
    victim = kernel / f"mprun-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        try:
            (secret / "secret").write_text("the secret")
            (secret / "secret").chmod(0o600)
            unix.bind(str(secret / "socket"))
            unix.listen()
            victim.write_text("whole")
            victim.chmod(0o644)
            yield Host(secret, victim, tcp.getsockname()[1])
        finally:
            victim.unlink(missing_ok=True)
            for path in secret.iterdir():
                path.unlink()
            secret.rmdir()


def write_files(folder: Path, script: str, *more: Mapping[str, object], **options: object) -> None:
    """Write `topo.yaml` and `xp.yaml` with a program. more: further entries. options: of the program's entry."""
    entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": ["sh", "-c", script], **options}
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(
        yaml.safe_dump({"version": 1, "probe": {"pings": 0}, "traffic": [entry, *more], "tracepoints": ["tcp:*"]})
    )


def script_of(host: Host) -> str:
    """Return a script that carries out all attempts and prints whether each succeeded."""
    lines = ["mkdir -p /tmp/h"]
    for name, attempt in ATTEMPTS.items():
        lines.append(f"if ({attempt}) >/tmp/out 2>&1; then echo 'got {name}'")
        lines.append(f'else echo "refused {name}: $(grep -v dmesg /tmp/out | tail -n 1)"; fi')
        lines.append("umount /tmp/h 2>/dev/null")
    replaced = {"HOME": str(host.secret), "VICTIM": host.victim.name, "PORT": str(host.port)}
    replaced |= {"RUN": engine_paths.RUN, "PROCESS": str(os.getpid())}
    script = "\n".join([*lines, "true"])
    for word, value in replaced.items():
        script = script.replace(word, value)
    return script


def read(output: str, host: Host) -> dict[str, Finding]:
    """Return the result of each attempt, from the output of the script."""
    found = {}
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        name, _, why = rest.partition(": ")
        found[name] = Finding(why) if word == "refused" else Finding("", "it succeeded")
    if host.victim.read_text() != "whole" or oct(host.victim.stat().st_mode)[-3:] != "644":
        found["a change of a shown file"] = Finding("", "the file was changed")
    if (host.secret / "secret").read_text() != "the secret":
        found["mount of a folder, to write"] = Finding("", "the file was changed")
    if Path("/var/tmp/mprun_was_here").exists():
        found["remount of the root"] = Finding("", "a file was made")
    return {name: found.get(name, Finding("", "it did not run")) for name in ATTEMPTS}
