#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a fresh Debian 12, 13 or Ubuntu 24.04 one that runs mprun: what the virtual machine (Vagrantfile), the container
# (Dockerfile, .devcontainer) and `make fresh` execute. A thin cover of `make setup`. If the wheels of this version for
# this machine lie in the folder dist, they are installed instead, and nothing is built.
#
#   provision.sh [SOURCE TARGET]    with these, sets up a copy of SOURCE in TARGET instead of the tree that this file is in
set -eu
unset CDPATH

tree=$(cd "$(dirname "$0")" && pwd)
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo

$as_root apt-get -q update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends ca-certificates git make

if [ $# = 2 ]; then
	# A folder shared with another system may hold neither links nor modes, and a .venv for that system.
	mkdir -p "$2"
	(cd "$1" && tar -c --exclude=./.venv --exclude=./build --exclude=./runs --exclude=__pycache__ .) | tar -x -C "$2"
	tree=$2
fi

version=$(sed -n 's/^version = //p' "$tree/setup.cfg")
package=$tree/dist/mprun-$version-py3-none-any.whl
set -- "$tree/dist/mprun_kernel-$version-"*"_$(uname -m).whl"
if [ -e "$package" ] && [ -e "$1" ]; then
	echo "provision: installing ${package##*/} and ${1##*/} from $tree/dist in place of a build"
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends python3-venv
	python3 -m venv "$tree/.venv"
	"$tree/.venv/bin/pip" install --quiet --disable-pip-version-check "$1" "${package}[all]"
	# the doctor ends with the command that installs what is missing
	missing=$("$tree/.venv/bin/mprun" doctor | sed -n 's/^\(sudo \)*apt-get install //p')
	# shellcheck disable=SC2086  # a list of words
	[ -z "$missing" ] || $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y $missing
else
	make -C "$tree" setup
fi

# mprun on the path of every shell, and its completion in bash
$as_root ln -sf "$tree/.venv/bin/mprun" /usr/local/bin/mprun
$as_root mkdir -p /etc/bash_completion.d
mprun completion bash | $as_root tee /etc/bash_completion.d/mprun >/dev/null
mprun --version
