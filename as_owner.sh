#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command of this checkout with nothing in it that was meant for another Python; under sudo as the user who called
# that, if the checkout is theirs: what is made here and in their cache is theirs, not root's.
#
#   as_owner.sh COMMAND [ARGUMENT ...]
set -eu
unset PYTHONHOME PYTHONPATH
if [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ] && [ "$(stat -c %u "$0")" = "$SUDO_UID" ]; then
	home=$(getent passwd "$SUDO_UID" | cut -d : -f 6)
	exec setpriv --reuid="$SUDO_UID" --regid="$SUDO_GID" --init-groups \
		env -u SUDO_UID -u SUDO_GID HOME="$home" USER="$SUDO_USER" LOGNAME="$SUDO_USER" "$@"
fi
exec "$@"
