#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing: packages, .venv, experiment kernel. Says what it does; doing it again costs nothing.
#
#   setup.sh [--dev] [--quic] [--no-kernel]
#
# --dev: what tests, linters and the site of the docs need as well; --quic: the tool for multipath QUIC as well;
# --no-kernel: nothing is built, which is enough for the linters, and for the real engine.
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

# Tarballs of source packages; mprun looks for kernels here and in /usr/src.
sources=/usr/local/src

# linux-hwe-6.17 is kept as linux-source-6.17, as the package of that name would call it
tarball_of() {
	ls "$sources/linux-source-${1##*-}".tar.* 2>/dev/null
}

# Of a source there is nothing to install where no kernel is built.
is_installed() {
	case $1 in
	source:*) [ -z "$kernel" ] || [ -n "$(tarball_of "$1")" ] && return ;;
	esac
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

is_known() {
	case $1 in
	source:*) return 0 ;;
	esac
	[ -n "$(apt-cache search --names-only "^$1\$" 2>/dev/null)" ]
}

lists=packages.txt
extra=
kernel=yes
quic=
for option in "$@"; do
	case $option in
	--dev) extra=dev lists="$lists packages-dev.txt" ;;
	--quic) quic=yes lists="$lists packages-quic.txt" ;;
	--no-kernel) kernel= ;;
	*) fail "no option $option" "setup.sh [--dev] [--quic] [--no-kernel]" ;;
	esac
done

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
	had_nginx=
	! is_installed nginx || had_nginx=yes
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" || exit 1
	# nor when the machine starts again
	if [ -z "$had_nginx" ] && is_installed nginx && command -v systemctl >/dev/null; then
		as_root systemctl --quiet disable nginx || true
	fi
)

# The tarball of a source package, checked by apt against its archive's signature. The lists of sources that this needs go
# into a folder of ours, so that the machine's own stay as they are.
fetch_source() (
	name=${1#source:}
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial"
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$work/sources.list"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
	done
	# apt's own user may not read what is in a folder of ours
	set -- -q -o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/parts" \
		-o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
	cd "$work"
	apt-get "$@" update >/dev/null || exit 1
	apt-get "$@" source --download-only --tar-only "$name" || exit 1
	for tarball in "${name}"_*.orig.tar.*; do
		as_root install -D -m 644 "$tarball" "$sources/linux-source-${name##*-}.tar.${tarball##*.}"
	done
)

command -v apt-get >/dev/null || fail "no apt-get here" "mprun is packaged for Debian 12, 13 and Ubuntu 24.04; use one of these"
if [ -n "$(missing_packages)" ]; then
	echo "setup: reading package lists"
	as_root apt-get -q update >/dev/null || fail "apt-get update failed" "check the network and /etc/apt/sources.list*"
	missing=$(missing_packages | grep -v '^source:' | tr '\n' ' ')
	if [ -n "$missing" ]; then
		echo "setup: installing $missing"
		# shellcheck disable=SC2086  # a list of words
		install_packages $missing ||
			fail "apt-get could not install: $missing" "look above for the package that failed"
	fi
fi
for source in $(missing_packages | grep '^source:'); do
	echo "setup: fetching the source of ${source#source:} into $sources, 250 MB"
	fetch_source "$source" ||
		fail "this release has no source of Linux 6.12 or later that apt can get" \
			"unpack one, then: ./setup.sh --no-kernel && .venv/bin/mprun kernel build --source TREE"
done

# shellcheck disable=SC3013  # -nt: dash and bash have it
stamp_is_current() {
	[ -e "$stamp" ] && ! [ setup.cfg -nt "$stamp" ] && ! [ pyproject.toml -nt "$stamp" ]
}

stamp=.venv/.installed${extra:+-$extra}
if ! stamp_is_current; then
	echo "setup: making .venv${extra:+, with what tests and linters need}"
	/usr/bin/python3 -m venv .venv || fail "python3 -m venv failed" "apt-get install python3-venv"
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".${extra:+[$extra]}" ||
		fail "pip could not install mprun into .venv" "check the network, then run make setup again"
	touch .venv/.installed "$stamp"
fi
# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each command would compile what it imports again.
.venv/bin/python -m compileall -q mprun || fail "python could not compile mprun" "make the checkout writable: $PWD"

build() {
	.venv/bin/mprun "$@" || fail "mprun $* failed" ".venv/bin/mprun doctor"
}
if [ -n "$kernel" ]; then
	build kernel build
	build tools install cmtsctp
fi
[ -z "$quic" ] || build tools install quic
