#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing: packages, .venv, experiment kernel; with --quic also the tool for multipath
# QUIC. Says what it does; doing it again costs nothing.
set -eu
cd "$(dirname "$0")"

fail() {
	printf 'setup: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  → %s\n' "$2" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "packages are missing and this user is not root" "install sudo, or run as root: $*"
	fi
}

is_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

is_known() {
	[ -n "$(apt-cache search --names-only "^$1\$" 2>/dev/null)" ]
}

lists=packages.txt
[ "${1:-}" != --quic ] || lists="$lists packages-quic.txt"

# The packages of the lists that are not installed; of alternatives the first that is known.
missing_packages() {
	# shellcheck disable=SC2086  # a list of words
	sed 's/#.*//' $lists | while IFS= read -r line; do
		[ -n "$(echo "$line" | tr -d ' ')" ] || continue
		chosen=
		for package in $(echo "$line" | tr '|' ' '); do
			# cargo may be there without a package, as rustup puts it
			if is_installed "$package" || { [ "$package" = cargo ] && command -v cargo >/dev/null; }; then
				continue 2
			fi
			if [ -z "$chosen" ] && is_known "$package"; then
				chosen=$package
			fi
		done
		# a name that is not known yet may be after an update: ask for the first
		echo "${chosen:-$(echo "$line" | cut -d '|' -f 1 | tr -d ' ')}"
	done
}

# Install packages without starting the daemons that some bring (nginx, Open vSwitch): mprun starts programs of its own.
# Debian's way to say so is a policy-rc.d that answers 101 (invoke-rc.d(8)); one that is there already stays.
install_packages() (
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'as_root rm -f "$policy"' EXIT
		trap 'exit 130' INT TERM HUP
		as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
	fi
	had_nginx=$(is_installed nginx && echo yes || true)
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" || exit 1
	# nor when the machine starts again
	if [ -z "$had_nginx" ] && is_installed nginx && command -v systemctl >/dev/null; then
		as_root systemctl --quiet disable nginx || true
	fi
)

command -v apt-get >/dev/null || fail "no apt-get here" "mprun is packaged for Debian 12, 13 and Ubuntu 24.04; use one of these"
if [ -n "$(missing_packages)" ]; then
	echo "setup: reading package lists"
	as_root apt-get -q update >/dev/null || fail "apt-get update failed" "check the network and /etc/apt/sources.list*"
	missing=$(missing_packages | tr '\n' ' ')
	echo "setup: installing $missing"
	# shellcheck disable=SC2086  # a list of words
	install_packages $missing ||
		fail "apt-get could not install: $missing" "look above for the package that failed"
fi

stamp=.venv/.installed
if [ ! -e "$stamp" ] || [ setup.cfg -nt "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
	echo "setup: making .venv"
	/usr/bin/python3 -m venv .venv || fail "python3 -m venv failed" "apt-get install python3-venv"
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' ||
		fail "pip could not install mprun into .venv" "check the network, then run make setup again"
	touch "$stamp"
fi

[ "${1:-}" = --no-kernel ] || .venv/bin/mprun kernel build || fail "the experiment kernel could not be built" ".venv/bin/mprun doctor"
[ "${1:-}" != --quic ] || .venv/bin/mprun tools install quic || fail "the tool for multipath QUIC could not be built" ".venv/bin/mprun doctor"
