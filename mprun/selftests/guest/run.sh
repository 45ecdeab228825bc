#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one script of the kernel's tests, as process 2 of an experiment kernel: run.sh SCRIPT [ARGUMENT...].
# Leaves its exit status and the seconds of simulated time in the file `end`.

cd /run/mprun/net/mptcp || exit
if [ -n "$MPRUN_SCHEDULER" ]; then
	PATH=/run/mprun/guest/bin:$PATH
	export PATH
fi
script=$1
shift
"./$script.sh" "$@"
status=$?
read -r seconds _ </proc/uptime
echo "$status $seconds" >/run/mprun/run/end
