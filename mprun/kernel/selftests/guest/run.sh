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
# only a kernel of the debug profile has kmemleak; the second scan reports, and all levels go to the console
if [ -e /sys/module/kmemleak ]; then
	mount -t debugfs debugfs /sys/kernel/debug
	echo 7 >/proc/sys/kernel/printk
	echo Y >/sys/module/kmemleak/parameters/verbose
	for scan in 1 2; do
		sleep 6
		echo scan >/sys/kernel/debug/kmemleak
	done
fi
