#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up what is missing: packages, .venv, experiment kernel. Says what it does; doing it again costs nothing, and goes on
# where it was interrupted.
#
#   setup.sh [--dev] [--quic] [--no-kernel]
#
# --dev: what tests, linters and the site of the docs need as well; --quic: the tool for multipath QUIC as well;
# --no-kernel: nothing is built, which is enough for the linters, and for the real engine.
#
# Nothing is compiled either if an archive of the kernel lies beside this script (NAME.mprun-kernel.zip) and its SHA-256 is
# one that mprun/bundles/trusted.txt names, or TRUST in the environment. A kernel runs with the rights of its user.
set -eu
unset CDPATH
cd "$(dirname "$0")"

fail() {
	printf 'setup: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  → %s\n' "$2" >&2
	exit 1
}

# Root's files are for all to read, whatever the umask of who asks.
as_root() (
	umask 022
	if [ "$(id -u)" = 0 ]; then
		"$@" 8<&- 9>&-
	else
		sudo "$@" 8<&- 9>&-
	fi
)

can_be_root() {
	[ "$(id -u)" = 0 ] || {
		command -v sudo >/dev/null && echo "setup: packages are missing; sudo may ask for your password" && sudo true
	}
}

# Waits for another apt, as the one that updates a new machine by itself. Who has changed a file of /etc keeps it.
apt() {
	as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 \
		-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
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
if [ "$kernel" ] && [ "$(uname -m)" != x86_64 ]; then
	echo "setup: no experiment kernel for $(uname -m), it is for x86_64: what runs here is the real engine, with --engine real"
	kernel=
fi

# The archive to take, and what is wrong with others. The digests are compared before anything in an archive is read.
find_archive() {
	for file in *.mprun-kernel.zip; do
		[ -f "$file" ] || continue
		digest=$(sha256sum "$file" | cut -d ' ' -f 1)
		if [ "$digest" = "${TRUST:-}" ] || grep -q "^$digest\b" mprun/bundles/trusted.txt; then
			echo "$file"
			return
		fi
		echo "setup: $file has SHA-256 $digest, which this mprun does not name; it is left alone" >&2
		echo "  → TRUST=DIGEST make lab takes it, with the digest that its maker gave you" >&2
	done
}

archive=
[ -z "$kernel" ] || archive=$(find_archive)
if [ -n "$kernel" ] && { [ -z "$archive" ] || [ -n "$extra" ]; }; then
	lists="$lists packages-kernel.txt"
fi

command -v apt-get >/dev/null ||
	fail "no apt-get here; mprun is packaged for Debian 12, 13 and Ubuntu 24.04" "use one of these, or a container or virtual machine: docs/machines.md"
[ -w packages.txt ] ||
	fail "$PWD cannot be written by this user, and .venv belongs into it" "copy it into a folder of your own, and make lab there"
case $PWD in
*:*) fail "$PWD has a colon in it, and what is in .venv could not be on a PATH" "call the folder something else" ;;
esac

# One setup at a time in this checkout; of a script that is open for writing the kernel would refuse a second start.
exec 9>>packages.txt
if ! flock --nonblock 9; then
	echo "setup: waiting for another setup of this checkout"
	flock 9
fi

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

# A line for each fourth of what apt-get fetches and installs.
tell_progress() {
	total=0 fetched=0 placed=0
	while IFS= read -r line; do
		case $line in
		[0-9]*' newly installed, '*) total=$((${line%% upgraded*} + $(expr "$line" : '.*upgraded, \([0-9]*\) newly'))) ;;
		'Need to get '*) echo "setup: $total packages, ${line#Need to get }" ;;
		Get:*) fetched=$((fetched + 1)) && tell_fourth "$fetched" fetched ;;
		# each is unpacked and set up
		'Unpacking '* | 'Setting up '*) placed=$((placed + 1)) && tell_fourth $((placed / 2)) installed $((placed % 2)) ;;
		esac
	done
}

tell_fourth() {
	if [ "${3:-0}" = 0 ] && [ "$total" -gt 8 ] && [ $(($1 * 4 / total)) != $((($1 - 1) * 4 / total)) ]; then
		echo "setup: $2 $(($1 * 100 / total)) %"
	fi
}

# Install packages without starting the daemons that some bring (nginx, Open vSwitch): mprun starts programs of its own.
# Debian's way to say so is a policy-rc.d that answers 101 (invoke-rc.d(8)); one that is there already stays, unless it is
# ours, left by a setup that was killed.
install_packages() (
	policy=/usr/sbin/policy-rc.d
	mark='# of setup.sh of mprun, while that runs'
	if [ ! -e "$policy" ] || grep -q "$mark" "$policy" 2>/dev/null; then
		trap 'as_root rm -f "$policy"' EXIT
		trap 'exit 130' INT TERM HUP
		as_root sh -c "printf '#!/bin/sh\n$mark\nexit 101\n' >$policy && chmod 755 $policy"
	fi
	had_nginx=
	! is_installed nginx || had_nginx=yes
	# what an apt-get that was interrupted left half done
	[ -z "$(dpkg --audit; ls -A /var/lib/dpkg/updates)" ] || as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >>"$log" 2>&1 || true
	{
		echo 1 >"$log.status"
		apt install -y --fix-broken --no-install-recommends "$@" 2>&1 && echo 0 >"$log.status"
	} | (
		# interrupted, apt-get lets dpkg come to an end; until then the policy stays, and so do we
		trap '' INT TERM HUP
		tee -a "$log" | tell_progress
	)
	[ "$(cat "$log.status")" = 0 ] || exit 1
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
	trap 'exit 130' INT TERM HUP
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
		target="$sources/linux-source-${name##*-}.tar.${tarball##*.}"
		# half a tarball would be taken for a whole one
		as_root install -D -m 644 "$tarball" "$sources/.partial" && as_root mv "$sources/.partial" "$target"
	done
)

missing=$(missing_packages | tr '\n' ' ')
if [ -n "$missing" ] && ! can_be_root; then
	printf 'setup: packages are missing that this user cannot install, being neither root nor able to sudo; going on without\n' >&2
	printf '  → ask who can: apt-get install --no-install-recommends %s\n' \
		"$(echo "$missing" | sed 's/source:[^ ]* *//g')" >&2
	is_installed python3-venv || fail "without python3 and python3-venv there is nothing more to do"
elif [ -n "$missing" ]; then
	log=$(mktemp)
	trap 'rm -f "$log" "$log.status"' EXIT
	trap 'exit 130' INT TERM HUP
	# one apt-get of ours at a time, also from another checkout
	exec 8</etc/apt
	flock --nonblock 8 || echo "setup: waiting for the setup of another checkout"
	flock 8
	echo "setup: reading package lists"
	apt update >"$log" 2>&1 && ! grep -q '^[WE]: ' "$log" ||
		echo "setup: apt-get update: $(grep -m 1 '^[WE]: ' "$log" || tail -n 1 "$log")" >&2
	missing=$(missing_packages | grep -v '^source:' | tr '\n' ' ')
	if [ -n "$missing" ]; then
		echo "setup: installing $missing"
		# shellcheck disable=SC2086  # a list of words
		install_packages $missing || {
			{ grep '^E: ' "$log" || tail -n 15 "$log"; } | awk 'NR <= 5; END { if (NR > 5) print "... and " NR - 5 " more" }' >&2
			fail "apt-get could not install what is missing, for the reason above" \
				"check the network, the disk and /etc/apt/sources.list* (on Ubuntu with universe), then run it again"
		}
	fi
	for source in $(missing_packages | grep '^source:'); do
		echo "setup: fetching the source of ${source#source:} into $sources, 250 MB"
		fetch_source "$source" ||
			fail "this release has no source of Linux 6.12 or later that apt can get" \
				"check the network; or unpack one, then: ./setup.sh --no-kernel && .venv/bin/mprun kernel build --source TREE"
	done
	exec 8<&-
	trap - EXIT INT TERM HUP
	rm -f "$log" "$log.status"
fi

python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
	fail "there is no Python 3.11 or later as $python" "use Debian 12, 13 or Ubuntu 24.04, or a container or virtual machine: docs/machines.md"

# A .venv works only where it was made, and with the Python that made it; what is in it follows from these files.
place="$(readlink -f .venv) $("$python" -V)"
contents="$place $(cat setup.cfg setup.py pyproject.toml | sha256sum)"
stamp=.venv/.installed${extra:+-$extra}
if [ "$(cat "$stamp" 2>/dev/null)" != "$contents" ]; then
	echo "setup: making .venv${extra:+, with what tests and linters need}: some 150 MB to fetch, a minute"
	case $(cat .venv/.installed 2>/dev/null) in
	"$place "*) ;;
	# another place, another Python, or not finished
	*) ./as_owner.sh "$python" -m venv --clear .venv || fail "python3 -m venv failed" "apt-get install python3-venv; or make room on the disk" ;;
	esac
	./as_owner.sh .venv/bin/python -m pip install --quiet --no-user --disable-pip-version-check --editable ".${extra:+[$extra]}" ||
		fail "pip could not install mprun into .venv, for the reason above" "check the network and the disk, then run make setup again"
	for file in .venv/.installed "$stamp"; do
		echo "$contents" | ./as_owner.sh tee "$file" >/dev/null
	done
fi
# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each command would compile what it imports again.
./as_owner.sh .venv/bin/python -m compileall -q mprun || fail "python could not compile mprun" "make the checkout writable: $PWD"

# Told to end, this shell would wait for a command in the foreground, or leave it running; mprun ends, and tidies up.
run_mprun() {
	./as_owner.sh .venv/bin/mprun "$@" &
	child=$!
	trap 'kill "$child" 2>/dev/null; wait "$child"; exit 130' INT TERM HUP
	wait "$child"
}

build() {
	run_mprun "$@" || fail "mprun $* failed, for the reason above" ".venv/bin/mprun doctor"
}
if [ -n "$archive" ]; then
	digest=$(sha256sum "$archive" | cut -d ' ' -f 1)
	if [ "$(cat .venv/.archive 2>/dev/null)" != "$digest" ]; then
		build kernel import "$archive" --trust "$digest"
		echo "$digest" | ./as_owner.sh tee .venv/.archive >/dev/null
	fi
elif [ -n "$kernel" ]; then
	build kernel build
	build tools install cmtsctp
fi
if [ "$quic" ]; then
	build tools install quic
	run_mprun tools install noq ||
		echo "setup: no flow can have 'stack: noq' before that is done; then run mprun tools install noq. The stack tquic works."
	run_mprun tools install aioquic ||
		echo "setup: no flow can have 'stack: aioquic' before that is done; then run mprun tools install aioquic."
fi
