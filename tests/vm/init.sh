#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the machine: mount what a system has, load AppArmor's profiles, carry the orders out, hand over the results,
# power off. Lines that begin with `vm:` are shown to whoever waits.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TZ=UTC
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
# udev makes these on other machines; Ubuntu's nft opens /dev/stdin
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security
hostname stock
ip link set lo up
mkdir -p /lib/modules /opt/mprun /results
mount --bind /media/modules /lib/modules
cp -r /media/source/. /opt/mprun
chmod 755 /opt/mprun
mkdir -m 777 /results/user
mkdir -p /home/user
chown 1000:1000 /home/user
# a congestion control that namespaces may not have, as on a machine where somebody has loaded it
modprobe -q tcp_vegas
profiles=$(apparmor_parser --add /etc/apparmor.d 2>/dev/null; grep -c . /sys/kernel/security/apparmor/profiles 2>/dev/null)
echo "vm: $(uname -r) is up, $(nproc) processors, ${profiles:-0} AppArmor profiles"
cd /opt/mprun || exit
# each test starts mprun, which then need not compile itself
python3 -m compileall -q mprun tests
if [ -d /media/tools ]; then
	mkdir -p /root/.cache/mprun
	cp -r /media/tools /root/.cache/mprun/tools
fi
. /media/orders.sh
echo "vm: over"
echo 1 >/proc/sys/kernel/sysrq
echo o >/proc/sysrq-trigger
sleep 60
