#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a machine with mprun in it: mount what a system has, run labs, hand over the digests, power off. Lines that
# begin with `vm:` are shown to whoever waits.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TZ=UTC
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
hostname translated
ip link set lo up
echo "vm: $(uname -r) is up, $(nproc) processor"
# shellcheck disable=SC2046  # a list of labs
sh /root/fresh_wheel labs $(cat /media/labs) 2>&1 | sed -u 's/^/vm: /'
tar -C /root -cf /dev/vdc lab-digests && sync
echo "vm: over"
echo 1 >/proc/sys/kernel/sysrq
echo o >/proc/sysrq-trigger
sleep 60
