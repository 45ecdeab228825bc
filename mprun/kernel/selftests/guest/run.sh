#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one test: run.sh FOLDER COMMAND [ARGUMENT...].
# Leaves its exit status and the seconds of simulated time in the file `end`.

cd "$1" || exit
shift
PATH=/run/mprun/program:$PATH
if [ -n "$MPRUN_SCHEDULER$MPRUN_CAPTURE" ]; then
	PATH=/run/mprun/guest/bin:$PATH
fi
export PATH
"$@"
status=$?
read -r seconds _ </proc/uptime
echo "$status $seconds" >/run/mprun/run/end
