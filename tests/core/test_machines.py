# SPDX-License-Identifier: Apache-2.0
"""Virtual machine, container and devcontainer are set up by the one script that `make fresh` runs from nothing."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess

import pytest

from tests.pages import PAGES, ROOT

SCRIPTS = ("setup.sh", "provision.sh", ".ci/run", ".ci/fresh")
# Runs a Vagrantfile without Vagrant: what is set, and what is called with which words, as [name, words ...].
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


def test_vagrantfile() -> None:
    done = subprocess.run(
        ["ruby", "-e", READ_VAGRANTFILE, ROOT / "Vagrantfile"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert ["vm.box", "bento/debian-12", {}] in said
    assert {words[1] for words in said if words[0] == "vm.provider"} == {"virtualbox", "libvirt"}
    (how,) = [words for words in said if words[0] == "vm.provision"]
    assert how[1] == "shell"
    # as the machine's user, whose ~/.cache the kernel is built into
    assert how[2] == {"privileged": False, "inline": 'sh /vagrant/provision.sh /vagrant "$HOME/mprun"'}
    assert all(not words[1].startswith("..") for words in said if words[0].endswith("synced_folder"))


def test_fresh_does_as_the_virtual_machine_does() -> None:
    """A source, a target that is a copy of it, and nothing before it but the system."""
    assert re.search(
        r"^inside sh /root/source/provision\.sh /root/source /root/mprun$", _read(".ci/fresh"), re.MULTILINE
    )


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


def test_provision_is_a_cover_of_setup() -> None:
    """By make where there is a kernel to build, else the script that make runs."""
    script = _read("provision.sh")
    assert 'make -C "$tree" setup' in script
    assert "./setup.sh --no-kernel" in script
    assert re.search(r"^setup:\n\t@\./setup\.sh$", _read("Makefile"), re.MULTILINE)


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
