# SPDX-License-Identifier: Apache-2.0
"""Virtual machine, container and devcontainer are set up by one script.

`make fresh` runs the script on a bare system.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from mprun.inputs.user_configuration import read_configuration
from tests.pages import PAGES, ROOT
from tests.vm.release import SYSTEM, packages_to_run

SCRIPTS = (
    *("setup.sh", "as_owner.sh", "provision.sh", "tests/vm/translated.sh"),
    *(".ci/run", ".ci/fresh", ".ci/fresh_wheel", ".ci/dist", ".ci/image", ".ci/try_image"),
)
# Run a Vagrantfile without Vagrant: print each setting and each call with its arguments, as [name, words ...].
READ_VAGRANTFILE = """
require 'json'
class Recorder
  def initialize(said, place) = (@said, @place = said, place)
  def method_missing(name, *words, **options, &block)
    said = name.to_s.end_with?('=') || !words.empty? || !options.empty?
    @said << ["#{@place}#{name.to_s.delete('=')}", *words, options] if said
    inner = Recorder.new(@said, "#{@place}#{name}.")
    block.call(*[inner] * block.arity) if block
    inner
  end
  def respond_to_missing?(*) = true
end
module Vagrant
  SAID = []
  def self.configure(version, &block) = block.call(Recorder.new(SAID, ''))
end
load ARGV[0]
puts JSON.generate(Vagrant::SAID)
"""


def _dockerfile() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, rest in words]


def _read_vagrantfile() -> list[list[Any]]:
    done = subprocess.run(
        ["ruby", "-e", READ_VAGRANTFILE, ROOT / "Vagrantfile"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    said: list[list[Any]] = json.loads(done.stdout)
    return said


def test_vagrantfile() -> None:
    said = _read_vagrantfile()
    assert ["vm.box", "bento/debian-12", {}] in said
    assert {words[1] for words in said if words[0] == "vm.provider"} == {"virtualbox", "libvirt"}
    (how,) = [words for words in said if words[0] == "vm.provision"]
    assert how[1] == "shell"
    # as the machine's user, because the kernel is built into ~/.cache of this user
    assert how[2]["privileged"] is False
    assert how[2]["inline"].startswith('sh /vagrant/provision.sh /vagrant "$HOME/mprun" || exit\n')
    assert all(not words[1].startswith("..") for words in said if words[0].endswith("synced_folder"))


@pytest.mark.parametrize(("machine", "engine"), [("x86_64", None), ("aarch64", "real")])
def test_the_virtual_machine_configures_the_engine_that_it_has(
    machine: str, engine: str | None, tmp_path: Path
) -> None:
    (how,) = [words for words in _read_vagrantfile() if words[0] == "vm.provision"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uname").write_text(f"#!/bin/sh\necho {machine}\n")
    (tmp_path / "bin" / "uname").chmod(0o755)
    script = how[2]["inline"].replace("sh /vagrant/provision.sh", "true")
    for _ in range(2):
        env = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", script], env=env, check=True)
    path = tmp_path / ".config" / "mprun" / "config.yaml"
    assert path.exists() == (engine is not None)
    if engine is not None:
        assert read_configuration(path).engine == engine


def test_lima() -> None:
    """The machine has an x86-64 processor, and the packages that runs need."""
    given = yaml.safe_load(_read("lima.yaml"))
    assert (given["arch"], given["vmType"]) == ("x86_64", "qemu")
    installed = set(given["provision"][0]["script"].replace("\\\n", " ").split())
    assert {*packages_to_run(_read("packages.txt")), "python3-venv", "graphviz"} - {*SYSTEM} <= installed
    for one in given["provision"]:
        subprocess.run(["sh", "-n"], input=one["script"], text=True, check=True)


def test_fresh_does_as_the_virtual_machine_does() -> None:
    """provision.sh gets a source and the target of the copy, and runs on a bare system."""
    assert re.search(
        r"^inside sh /root/source/provision\.sh /root/source /root/mprun$", _read(".ci/fresh"), re.MULTILINE
    )


# A tree with one run, whose time and capture depend on the release. Arguments: as .ci/fresh gives them to unshare(1).
FAKE_TREE = """\
#!/bin/sh
[ "$6 $7 $TOOLS" = "$6 wheel trixie" ] || exit 9
mkdir -p "$KEEP/$6/20261126-20180$(($(echo "$6" | wc -c) % 3))-topo-xp_tcp-0e4364dc/pcap"
echo "$([ "$6" != "$ODD" ] || echo other)" >"$(echo "$KEEP/$6"/2*/pcap)/client.pcap"
"""


@pytest.mark.parametrize("odd", ["", "trixie", "noble"])
def test_fresh_compares_captures_of_three_releases(tmp_path: Path, odd: str) -> None:
    """The same run of two releases has other times in its name."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "fresh", tmp_path / ".ci")
    for name, script in (("id", "#!/bin/sh\necho 0\n"), ("unshare", FAKE_TREE)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ODD": odd}
    argv = [".ci/fresh", "bookworm", "equal"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == (1 if odd else 0), done.stderr
    assert f"fresh: captures of {odd} differ" in done.stdout if odd else "equal on bookworm, trixie" in done.stdout


@pytest.mark.parametrize("status", [0, 1, 3])
def test_labs_of_a_translated_machine_need_runs_to_compare(tmp_path: Path, status: int) -> None:
    """A lab with a claim that does not hold has runs. A lab that cannot run ends the comparison."""
    script = _read(".ci/fresh_wheel").replace("cd /root\n", f"cd {tmp_path}\n", 1)
    commands = {"mprun": f'[ -d "${{5%/*}}" ] || exit 2\nexit {status}', "python": "cat >/dev/null; echo digests"}
    (tmp_path / "mprun/bin").mkdir(parents=True)
    for name, action in commands.items():
        (tmp_path / "mprun/bin" / name).write_text(f"#!/bin/sh\n{action}\n")
        (tmp_path / "mprun/bin" / name).chmod(0o755)
    done = subprocess.run(["sh", "-c", script, "sh", "labs", "02"], capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == (tmp_path / "lab-digests").exists() == (status < 2), done.stdout + done.stderr


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source distribution does not know what is committed")
def test_dockerfile() -> None:
    instructions = _dockerfile()
    assert [word for word, _ in instructions] == ["FROM", "COPY", "RUN", "WORKDIR", "ENTRYPOINT", "CMD"]
    given = dict(instructions)
    assert given["FROM"] == "debian:12"
    source, target = given["COPY"].split()
    assert given["RUN"].split()[0] == f"{target}/provision.sh"
    assert json.loads(given["ENTRYPOINT"]) == ["mprun"]
    assert json.loads(given["CMD"]) == ["doctor"]
    ignored = _read(".dockerignore").split()
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    left_out = [
        name
        for name in tracked
        if any(fnmatch.fnmatch(name, end) for pattern in ignored for end in (pattern, f"{pattern}/*"))
    ]
    assert (source, left_out) == (".", []), "what is committed is what the image is made of"


def test_devcontainer() -> None:
    text = re.sub(r"^\s*//.*$", "", _read(".devcontainer/devcontainer.json"), flags=re.MULTILINE)
    given = json.loads(text)
    assert given["image"] == dict(_dockerfile())["FROM"]
    assert given["onCreateCommand"] == "./provision.sh"
    for schema in given["customizations"]["vscode"]["settings"]["yaml.schemas"]:
        assert (ROOT / schema).is_file()


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    path = ROOT / name
    assert path.stat().st_mode & 0o111
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


# Commands that write down how they were called. `python3` makes an environment whose doctor misses two packages.
RECORDERS = {
    "id": "echo 1000",
    "sudo": 'echo "sudo $*" >>"$SAID"; cat >/dev/null',
    "make": 'echo "make $*" >>"$SAID"',
    "mprun": "echo 0.1.0",
    "python3": """\
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "pip $*" >>"$SAID"\\n' >"$3/bin/pip"
printf '#!/bin/sh\\necho "sudo apt-get install --no-install-recommends iperf3 tshark"; exit 3\\n' >"$3/bin/mprun"
chmod +x "$3/bin/pip" "$3/bin/mprun"
""",
}


@pytest.mark.parametrize(
    ("version", "machine", "with_wheels"),
    [("1.2", "x86_64", True), ("1.1", "x86_64", False), ("1.2", "aarch64", False), (None, "x86_64", False)],
    ids=["wheels", "stale", "other-machine", "none"],
)
def test_provision_installs_wheels_instead_of_building(
    tmp_path: Path, version: str | None, machine: str, with_wheels: bool
) -> None:
    """Only the wheels of this version and machine, and the packages that the doctor names, are installed."""
    tree, commands, said = tmp_path / "tree", tmp_path / "bin", tmp_path / "said"
    for folder in (tree / "dist", commands):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "provision.sh", tree)
    (tree / "setup.cfg").write_text("[metadata]\nname = mprun\nversion = 1.2\n")
    wheels = (f"mprun_kernel-{version}-py3-none-manylinux_2_34_x86_64.whl", f"mprun-{version}-py3-none-any.whl")
    for wheel in wheels if version else ():
        (tree / "dist" / wheel).touch()
    for name, action in (RECORDERS | {"uname": f"echo {machine}"}).items():
        (commands / name).write_text(f"#!/bin/sh\n{action}\n")
        (commands / name).chmod(0o755)
    env = {"PATH": f"{commands}:/usr/bin:/bin", "SAID": str(said), "HOME": str(tmp_path)}
    argv = ["sh", str(tree / "provision.sh")]
    done = subprocess.run(argv, env=env, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ("in place of a build\n" in done.stdout) == with_wheels
    lines = said.read_text().splitlines()
    assert (f"make -C {tree} setup" in lines) != with_wheels
    installs = [line.partition(" --no-install-recommends ")[2] for line in lines if "apt-get -q install" in line]
    assert ("iperf3 tshark" in installs) == with_wheels
    named = " ".join(f"{tree}/dist/{wheel}" for wheel in wheels) + "[all]"
    assert any(line.startswith("pip install") and line.endswith(named) for line in lines) == with_wheels


def test_provision_is_a_cover_of_setup() -> None:
    """provision.sh calls make. make runs setup.sh, which knows the packages of this architecture."""
    assert 'make -C "$tree" setup' in _read("provision.sh")
    assert '"$(uname -m)" != x86_64' in _read("setup.sh")
    assert re.search(r"^setup: ready$", _read("Makefile"), re.MULTILINE)
    assert re.search(r"^ready:\n\t@\./setup\.sh$", _read("Makefile"), re.MULTILINE)


def _copy_scripts(folder: Path) -> Path:
    """Copy the parts of a checkout that the set-up reads before it installs anything."""
    folder.mkdir()
    for name in ("setup.sh", "as_owner.sh", "packages.txt", "packages-dev.txt", "packages-kernel.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_setup_refuses_where_nothing_could_work(tmp_path: Path) -> None:
    folder = _copy_scripts(tmp_path / "a:b")
    done = subprocess.run([folder / "setup.sh"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert re.fullmatch(r"setup: .*/a:b has a colon in it.*\n  → .*\n", done.stderr)
    done = subprocess.run([folder / "setup.sh", "--nosuch"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "setup: no option --nosuch")


@pytest.mark.parametrize("is_trusted", [False, True])
def test_an_archive_of_the_kernel_replaces_its_packages(is_trusted: bool, tmp_path: Path) -> None:
    """Stand-ins replace apt: no package is installed, and none is known."""
    folder = _copy_scripts(tmp_path / "checkout")
    (folder / "mprun" / "bundles").mkdir(parents=True)
    shutil.copy(ROOT / "mprun" / "bundles" / "trusted.txt", folder / "mprun" / "bundles")
    archive = folder / "own.mprun-kernel.zip"
    archive.write_bytes(b"not read")
    digest = hashlib.sha256(b"not read").hexdigest()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"apt-get": "exit 1", "apt-cache": "exit 0", "dpkg-query": "exit 1", "id": "echo 1"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin"} | ({"TRUST": digest} if is_trusted else {})
    # without sudo the script names the packages, and ends
    (programs / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (programs / "sudo").chmod(0o755)
    done = subprocess.run([folder / "setup.sh"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "iperf3" in done.stderr
    assert (" flex " in done.stderr) is not is_trusted
    assert (f"SHA-256 {digest}, which this mprun does not name" in done.stderr) is not is_trusted


@pytest.mark.parametrize("words", [(), ("--dev",)])
def test_tests_need_the_kernel_that_runs_need(words: tuple[str, ...], tmp_path: Path) -> None:
    """Each package is installed, and stand-ins replace the programs of .venv: a developer builds no second kernel."""
    folder = _copy_scripts(tmp_path / "checkout")
    for name in ("setup.cfg", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    calls = tmp_path / "calls"
    for name, text in {"dpkg-query": "echo installed", "python": "exit 0", "mprun": f'echo "$*" >>{calls}'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    python = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / ".venv" / ".installed").write_text(f"{folder.resolve()}/.venv {python} \n")
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([folder / "setup.sh", *words], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls.read_text() == "kernel build\ntools install cmtsctp\n"


def test_one_setup_at_a_time(tmp_path: Path) -> None:
    """Stand-ins replace the programs that setup.sh calls. The stand-in for dpkg-query records its start and waits."""
    folder = _copy_scripts(tmp_path / "checkout")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in {"dpkg-query": f"touch {tmp_path}/asked; sleep 60", "apt-get": "exit 1"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    with (folder / "packages.txt").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [folder / "setup.sh"],
            env={"PATH": f"{programs}:/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "setup: waiting for another setup of this checkout\n"
            assert not (tmp_path / "asked").exists()
            lock.close()
            deadline_s = time.monotonic() + 20
            while not (tmp_path / "asked").exists():
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_what_is_for_another_python_is_kept_from_ours(tmp_path: Path) -> None:
    folder = _copy_scripts(tmp_path / "check out")
    done = subprocess.run(
        [folder / "as_owner.sh", "sh", "-c", 'echo "$1 ${PYTHONPATH-none} ${PYTHONHOME-none} $KEPT"', "sh", "a  b"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "/x", "PYTHONHOME": "/x", "KEPT": "kept"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "a  b none none kept\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_under_sudo_a_checkout_is_worked_in_by_its_owner(tmp_path: Path) -> None:
    folder = _copy_scripts(tmp_path / "checkout")
    entry = pwd.getpwnam("nobody")
    env = {"PATH": "/usr/bin:/bin", "SUDO_UID": str(entry.pw_uid), "SUDO_GID": str(entry.pw_gid), "SUDO_USER": "nobody"}
    argv = [str(folder / "as_owner.sh"), "sh", "-c", "id -u; echo $HOME"]
    theirs = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
    assert theirs.stdout.splitlines()[0] == "0", "the checkout is root's"
    os.chown(folder / "as_owner.sh", entry.pw_uid, entry.pw_gid)
    for path in (folder, *list(tmp_path.parents)[:2], tmp_path):
        path.chmod(0o755)
    ours = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
    assert ours.stdout.splitlines() == [str(entry.pw_uid), entry.pw_dir], ours.stderr


def test_every_option_of_setup_that_is_used_is_one() -> None:
    known = set(re.findall(r"^\t(--[\w-]+)\)", _read("setup.sh"), re.MULTILINE))
    assert known == {"--dev", "--quic", "--no-kernel"}
    used = [word for name in ("Makefile", *SCRIPTS) for word in re.findall(r"setup\.sh((?: --[\w-]+)+)", _read(name))]
    assert used
    assert {option for words in used for option in words.split()} <= known


def test_every_target_of_make_that_a_page_names_is_one() -> None:
    makefile = _read("Makefile")
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets.split())
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {
        name for page in pages for name in re.findall(r"(?:`|^    |\$ )make ([a-z]+)", page.read_text(), re.MULTILINE)
    }
    assert {"setup", "lab", "test"} <= named
    assert named - set(targets.split()) == set()


def _read(name: str) -> str:
    return (ROOT / name).read_text()


def test_make_describes_its_commands() -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")][:2] == ["lab", "test"]


def test_a_full_folder_is_named_if_a_pipe_takes_what_is_printed() -> None:
    """A pipe is never full, so the error cannot be that of the printed text."""
    code = "import errno; from mprun.errors import explain_machine; "
    code += "print(explain_machine(OSError(errno.ENOSPC, 'No space left on device')))"
    environment = {**os.environ, "TMPDIR": "/mine"}
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, check=True)
    begin = "a file here or in the folder for temporary files (/mine, set by TMPDIR)"
    assert done.stdout == f"{begin}: No space left on device\n"
