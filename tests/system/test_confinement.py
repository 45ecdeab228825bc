# SPDX-License-Identifier: Apache-2.0
"""Programs of a stranger's experiment, run with --allow-exec, have no access to the host."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from mprun.engines.virtual import LIBRARY_NAMES_BYTES
from mprun.kernel.store import find_kernel
from mprun.machine.scratch import scratch
from mprun.safety import landlock
from tests.hostile import guest
from tests.scenes import AS_NOBODY, NOBODY, RATES_ONLY
from tests.system.conftest import Result, environment

pytestmark = pytest.mark.fresh

# It starts after the script's entry.
PING = {"name": "ping", "tool": "ping", "from": "client", "to": "server", "count": 3, "start": "1s"}


@pytest.fixture
def secret() -> Iterator[Path]:
    """Return a folder of the host that no rule allows, with a file that only its owner may read."""
    folder = Path("/var/tmp") / f"mprun-test-{os.getpid()}"
    folder.mkdir()
    (folder / "secret").write_text("the secret")
    (folder / "secret").chmod(0o600)
    yield folder
    (folder / "secret").unlink()
    folder.rmdir()


def run(
    mprun: Callable[..., Result], folder: Path, script: str, *more: Mapping[str, object], **options: object
) -> Result:
    """Run a script. more: further entries. options: of the script's entry."""
    guest.write_files(folder, script, *more, **options)
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")


def test_no_attempt_gets_anything_of_the_host(mprun: Callable[..., Result], tmp_path: Path) -> None:
    with guest.host_to_attack(find_kernel().directory) as host:
        before = host.victim.stat()
        result = run(mprun, tmp_path, guest.script_of(host))
        assert result.status == 0, result.err
        found = guest.read((result.run / "logs" / "it.out").read_text(), host)
        after = host.victim.stat()
    assert {name: one.harm for name, one in found.items() if one.harm} == {}
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


def test_who_stops_all_processes_does_not_stop_the_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Only programs of the run are stopped, here the program itself. Its time ends it."""
    script = "kill -9 1; kill -STOP 1; kill -STOP -1; kill -STOP $$"
    result = run(mprun, tmp_path, script, PING, timeout="10s")
    assert result.status == 1
    assert result.summary["errors"] == ["it: did not end in time and was stopped after 10s, its 'timeout'"]
    assert result.metric("ping.loss") == 0


def test_a_command_reaches_no_program_of_another_entry(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The other program has the mounts of the agent."""
    script = "sleep 1.5; ping=$(pgrep -x ping) && kill -9 $ping || nsenter -t $ping -m true || echo refused twice"
    result = run(mprun, tmp_path, script, PING)
    assert (result.status, result.summary["errors"]) == (0, []), result.err
    assert (result.run / "logs" / "it.out").read_text() == "refused twice\n"
    assert result.metric("ping.loss") == 0


def test_pipes_in_place_of_files_do_not_stop_the_run(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The agent writes its results and a later program's logs, whatever is in their place."""
    script = "mkfifo agent.json stops.json logs/ping.err; ln -s ../plan.json logs/ping.out"
    result = run(mprun, tmp_path, script, PING)
    assert (result.status, result.summary["errors"]) == (0, []), result.err
    assert result.metric("ping.loss") == 0
    written = ("agent.json", "stops.json", "logs/ping.err", "logs/ping.out")
    assert all((result.run / name).lstat().st_mode == stat.S_IFREG | 0o644 for name in written)


def test_what_a_command_mounts_is_its_own(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The agent reads /proc/meminfo at the end of a run. Its folder for reports is not among a command's mounts."""
    result = run(mprun, tmp_path, "ls /sys/firmware; mkfifo /tmp/pipe && mount --bind /tmp/pipe /proc/meminfo")
    assert (result.status, result.summary["errors"]) == (0, []), result.err
    assert "progress" not in (result.run / "logs" / "it.out").read_text()


def test_the_names_of_libraries_have_one_size(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Its size moves the addresses of programs, which changes large runs. Packages change it on every machine."""
    result = run(mprun, tmp_path, "stat -c %s /etc/ld.so.cache; head -c 100000 /etc/ld.so.cache; true")
    assert (result.status, result.summary["errors"]) == (0, []), result.err
    of_machine = Path("/etc/ld.so.cache").read_bytes()
    size, _, content = (result.run / "logs" / "it.out").read_bytes().partition(b"\n")
    assert len(of_machine) != LIBRARY_NAMES_BYTES == int(size)
    assert content.startswith(of_machine[:100_000])


def test_one_lock_holds_without_the_other(mprun: Callable[..., Result], tmp_path: Path, secret: Path) -> None:
    """Landlock alone keeps the guest out of a folder of the host: no mount hides /var/tmp."""
    if not landlock.abi():
        pytest.skip("this machine's kernel has no Landlock")
    result = run(mprun, tmp_path, f"cat {secret}/secret; ls {secret}; cat /etc/os-release >/dev/null && echo readable")
    assert (result.run / "logs" / "it.out").read_text() == "readable\n"


def in_child(program: str) -> str:
    done = subprocess.run(["python3", "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return done.stdout + done.stderr


def test_landlock_lets_through_what_its_rules_name(tmp_path: Path) -> None:
    if not landlock.abi():
        pytest.skip("this machine's kernel has no Landlock")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (tmp_path / "other").write_text("other")
    program = f"""
from pathlib import Path
from mprun.safety import landlock
folder = Path({str(tmp_path)!r})
with landlock.ruleset({{folder / "mine": landlock.OWN, folder / "missing": landlock.OWN}}) as rules:
    landlock.restrict(rules)
print((folder / "mine" / "file").read_text())
(folder / "mine" / "new").write_text("")
for path in ("other", "mine/../other"):
    try:
        print((folder / path).read_text())
    except PermissionError:
        print("refused")
"""
    assert in_child(program) == "mine\nrefused\nrefused\n"


def test_the_filter_refuses_mounts_and_sockets_of_networks() -> None:
    program = """
import ctypes, os, socket
from mprun.safety import landlock
from mprun.safety import seccomp
landlock.restrict(None)
seccomp.restrict(seccomp.program())
libc = ctypes.CDLL(None, use_errno=True)
for name, number in seccomp.REFUSED.items():
    if libc.syscall(number, -1, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
        print(name, "passes", ctypes.get_errno())
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, "passes")
    except OSError as error:
        assert error.errno == 97, error
socket.socket(socket.AF_UNIX).close()
socket.socketpair()[0].close()
print("done")
"""
    assert in_child(program) == "done\n"


@pytest.mark.parametrize("name", ["program", "program_of_commands"])
def test_both_filters_refuse_set_user_id_files(name: str, tmp_path: Path) -> None:
    program = f"""
import os
from mprun.safety import landlock, seccomp
os.chdir({str(tmp_path)!r})
file = os.open("file", os.O_CREAT | os.O_WRONLY, 0o644)
landlock.restrict(None)
seccomp.restrict(seccomp.{name}())
for attempt in (
    lambda: os.chmod("file", 0o4755),
    lambda: os.fchmod(file, 0o4755),
    lambda: os.open("new", os.O_CREAT, 0o4755),
    lambda: os.mknod("node", 0o104755),
):
    try:
        attempt()
        print("passes")
    except PermissionError:
        pass
os.chmod("file", 0o755)
print(os.listdir(), oct(os.stat("file").st_mode))
"""
    assert in_child(program) == "['file'] 0o100755\n"


# A machine without Landlock. A classic BPF filter makes landlock_create_ruleset return ENOSYS.
WITHOUT_LANDLOCK = """
import os, struct, sys
from mprun.safety import seccomp
from mprun.safety.landlock import CREATE_RULESET
code = [(0x20, 0, 0, 0), (0x15, 0, 1, CREATE_RULESET), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
if os.geteuid() != 0:
    from mprun.safety import landlock
    landlock.restrict(None)
seccomp.restrict(b"".join(struct.pack("=HBBI", *one) for one in code))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_a_machine_without_landlock_says_so_and_needs_another_word(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    guest.write_files(tmp_path, "true")
    prefix = [sys.executable, "-c", WITHOUT_LANDLOCK]
    note = "this machine has no Landlock: programs of a run can read files of this machine"
    arguments = ("-t", "topo", "-x", "xp", "--engine", "virtual")
    refused = mprun(*arguments, "--allow-exec", prefix=prefix)
    assert refused.status == 2
    assert refused.err.splitlines()[-2:] == [
        "this experiment runs commands of its own, and this machine has no Landlock that keeps them from your files; "
        "if you trust them, add --unconfined",
        "it: client: sh -c true",
    ]
    assert mprun(*arguments, "--unconfined", prefix=prefix).err.splitlines()[-2].endswith("add --allow-exec")
    allowed = mprun(*arguments, "--allow-exec", "--unconfined", prefix=prefix)
    assert allowed.status == 0, allowed.err
    assert allowed.err.count(note) == 1
    sweep = mprun("sweep", *arguments, "--allow-exec", "--unconfined", prefix=prefix)
    assert sweep.status == 0, sweep.err
    assert sweep.err.count(note) == 1
    told = json.loads(mprun("doctor", "--json", prefix=prefix).out)
    (check,) = [one for one in told if one["name"] == "confinement"]
    assert not check["ok"]
    assert "--unconfined" in check["mend"]


# The real engine. PLACE is a folder of the host with a secret. Each of these attempts would leave a trace in it or read
# the secret.
REAL_ATTEMPTS = {
    "reading a file": "cat PLACE/secret",
    "listing the machine": "ls / || ls /root/. || ls /home/.",
    "passwords and keys": "cat /etc/shadow || cat /etc/gshadow || cat /etc/ssh/* || cat /etc/ssl/private/*",
    "other files of root": "cat /etc/.pwd.lock",
    "changing a file": "echo changed >>PLACE/secret",
    "the mode of a file": "chmod 777 PLACE/secret",
    "the time of a file": "touch -d 2001-01-01 PLACE/secret",
    "removing a file": "rm -f PLACE/secret; test ! -e PLACE/secret",
    "a new file": "touch PLACE/new || touch /etc/mprun_was_here || touch /usr/mprun_was_here",
    "the root of the agent": "ls /proc/1/root/ || cat /proc/1/environ || : >>/proc/1/mem",
    "its namespace": "nsenter -t 1 -m true || nsenter -t 1 -n true",
    "a mount": "mkdir -p /tmp/m; mount -t tmpfs none /tmp/m || mount -o remount,rw / || mount -o remount,rw,bind /etc",
    "a mount taken away": "umount /tmp || umount /dev || umount /run/mprun/reports",
    "a mount in a user namespace": "unshare -rm sh -c 'mount -o remount,rw,bind / || umount /dev' && touch PLACE/new",
    "a disk": ": >>/dev/vda || mknod /tmp/disk b 254 0 && : >>/tmp/disk",
    "a device of old": "mknod /run/mprun/run/null c 1 3 && cat /run/mprun/run/null",
    "a sysctl of the machine": "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness || hostname mprun-test",
    "sysrq": "echo h >/proc/sysrq-trigger",
    "another user": "setpriv --reuid=4242 --clear-groups true",
    "a privilege": "setpriv --inh-caps=+sys_admin --ambient-caps=+sys_admin true",
    "an order to end the run": "touch /run/mprun/orders/stop",
    "a report": "ls /run/mprun/reports/*",
    "the code of the agent": "touch /run/mprun/lib/mprun/new",
    "an end of the agent": "kill -9 1; kill -STOP 1; false",
    "a trace of the agent": 'python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0) != 0)"',
    "a set-user-ID file": ": >$MPRUN_FILES/set; chmod 4755 $MPRUN_FILES/set || chmod 2755 $MPRUN_FILES/set",
    "a file made with a set-ID bit": (
        "python3 -c 'import os; os.open(\"made\", os.O_CREAT, 0o4755)'; "
        "python3 -c 'import os; os.mknod(\"made\", 0o102755)'; test -e made"
    ),
    "a pipe in place of a result": "mkfifo agent.json; ln -s steps.jsonl stops.json; false",
}
REAL_NEEDS = {
    "the network": "ping -c 1 -W 1 $MPRUN_DESTINATION && ip addr add 10.99.0.1/32 dev lo",
    "a port": "python3 -c 'import socket; socket.socket().bind((\"\", 80))'",
    "a sysctl of its node": "echo 1 >/proc/sys/net/ipv4/ip_forward",
    "memory": "echo x >/tmp/x && echo x >/var/tmp/x && echo x >/dev/shm/x && echo x >/dev/null",
    "its folder": "echo x >$MPRUN_FILES/left",
    "randomness": "head -c 8 /dev/urandom",
    "a process of its own": "sleep 5 & kill $!",
}


@pytest.mark.alone
@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param([], id="root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="is of root")),
        pytest.param(AS_NOBODY if os.geteuid() == 0 else [], id="user"),
    ],
)
def test_no_attempt_in_the_real_engine_gets_anything_of_the_machine(
    prefix: list[str], mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """Every attempt is refused, and everything that a command needs is available."""
    user = NOBODY if prefix else os.geteuid()
    with scratch("mprun-test-", Path("/srv")) as place, scratch("mprun-test-") as folder:
        (place / "secret").write_text("the secret")
        for path in (place, place / "secret", folder):
            os.chown(path, user, -1)
        lines = [f"({one}) >/tmp/out 2>&1 && echo 'got {name}'" for name, one in REAL_ATTEMPTS.items()]
        lines += [f"({one}) >/dev/null || echo 'lacks {name}'" for name, one in REAL_NEEDS.items()]
        lines += ["grep -E '^(Cap(Inh|Prm|Eff|Bnd)|NoNewPrivs)' /proc/self/status"]
        script = "\n".join(lines).replace("PLACE", str(place))
        entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": ["sh", "-c", script]}
        (folder / "topo.yaml").write_text(RATES_ONLY)
        (folder / "xp.yaml").write_text(yaml.safe_dump({"version": 1, "probe": {"pings": 0}, "traffic": [entry]}))
        before = (place / "secret").stat()
        arguments = ("-t", folder / "topo", "-x", folder / "xp", "--engine", "real", "--allow-exec", "--json")
        env = environment(HOME="/nonexistent") if prefix else environment()
        more: list[str] = []
        if user == 0:
            refused = mprun(*arguments, "-o", folder / "runs")
            assert refused.status == 2
            assert "as root on this machine's own kernel; if you want that, add --allow-exec-as-root" in refused.err
            more = ["--allow-exec-as-root"]
        result = mprun(*arguments, *more, "-o", folder / "runs", prefix=prefix, env=env)
        assert result.status == 0, result.err
        # CAP_NET_BIND_SERVICE, CAP_NET_BROADCAST, CAP_NET_ADMIN, CAP_NET_RAW: bits 10 to 13
        caps = "".join(f"Cap{name}:\t{0xF << 10:016x}\n" for name in ("Inh", "Prm", "Eff", "Bnd"))
        assert (result.run / "logs" / "it.out").read_text() == f"{caps}NoNewPrivs:\t1\n"
        after = (place / "secret").stat()
        assert [path.name for path in place.iterdir()] == ["secret"]
        assert (place / "secret").read_text() == "the secret"
        assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
        assert (result.run / "files" / "it" / "left").read_text() == "x\n"
    assert not list(Path("/etc").glob("mprun_was_here")) + list(Path("/usr").glob("mprun_was_here"))
