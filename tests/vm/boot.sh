#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first program of the machine: load what disks need, mount the image, hand over to it.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
	/bin/busybox insmod "$module"
done
tries=0
until [ -e /dev/vdc ] || [ $tries = 100 ]; do
	tries=$((tries + 1))
	/bin/busybox usleep 100000
done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root || echo "vm: no image"
/bin/busybox mount -t ext4 -o ro /dev/vdb /root/media || echo "vm: no payload"
/bin/busybox umount /proc
/bin/busybox umount /sys
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /bin/sh /media/init.sh
