#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one script of packetdrill over each kind of addresses: packetdrill.sh FILE. Reports each in TAP.
# The arguments are those of packetdrill's own run_all.py, which suites are written for.

file=$1
number=0
status=0
v4="--local_ip=192.168.0.2 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1/24
	-D TFO_COOKIE=de4f234f0f433a55"
v6="--mtu=1520 --local_ip=fd3d:fa7b:d17d::0 --gateway_ip=fd3d:fa7b:d17d:8888::0 --remote_ip=2001:DB8::1/32
	-D TFO_COOKIE=6aa6ae70c288023b"
in_v4="-D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR"
in_v6="-D CMSG_LEVEL_IP=SOL_IPV6 -D CMSG_TYPE_RECVERR=IPV6_RECVERR"

drill() {
	version=$1
	shift
	number=$((number + 1))
	if unshare -n packetdrill --send_omit_free --ip_version="$version" "$@" "$file" >/dev/null; then
		echo "ok $number $version"
	else
		echo "not ok $number $version"
		status=1
	fi
}

echo "TAP version 13"
# The words of an argument list are to be split.
# shellcheck disable=SC2086
case $file in
*v4.pkt)
	echo 1..2
	drill ipv4 $v4 $in_v4
	drill ipv4-mapped-ipv6 $v4 $in_v6
	;;
*v6.pkt)
	echo 1..1
	drill ipv6 $v6 $in_v6
	;;
*)
	echo 1..3
	drill ipv4 $v4 $in_v4
	drill ipv4-mapped-ipv6 $v4 $in_v6
	drill ipv6 $v6 $in_v6
	;;
esac
exit $status
