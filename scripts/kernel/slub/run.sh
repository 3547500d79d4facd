#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# run.sh KERNEL INITRAMFS document|sockets [PARAMETER...]: boots a kernel with slubtest.c and init.c on an emulated
# machine: the report's (8 nodes, memory on 1 and 5), or two sockets with memory on both.  CPUS is 64
# as in the report, or 32, which are those that the test uses; that boots in half of the time.
set -eu
kernel=$1 ramfs=$2 machine=$3 cpus=${CPUS:-64}
shift 3
nodes=
case $machine in
document)
	for n in 0 1 2 3 4 5 6 7; do
		memory=
		case $n in 1 | 5)
			nodes="$nodes -object memory-backend-ram,id=m$n,size=1G"
			memory=",memdev=m$n"
			;;
		esac
		nodes="$nodes -numa node,nodeid=$n$memory,cpus=$((n * 4))-$((n * 4 + 3))"
		[ "$cpus" = 32 ] || nodes="$nodes,cpus=$((n * 4 + 32))-$((n * 4 + 35))"
	done
	for a in 0 1 2 3 4 5 6 7; do
		for b in 0 1 2 3 4 5 6 7; do
			[ $a = $b ] && continue
			distance=32
			[ $((a / 4)) = $((b / 4)) ] && distance=12
			nodes="$nodes -numa dist,src=$a,dst=$b,val=$distance"
		done
	done
	;;
sockets)
	for n in 0 1; do
		nodes="$nodes -object memory-backend-ram,id=m$n,size=1G"
		nodes="$nodes -numa node,nodeid=$n,memdev=m$n,cpus=$((n * 16))-$((n * 16 + 15))"
		[ "$cpus" = 32 ] || nodes="$nodes,cpus=$((n * 16 + 32))-$((n * 16 + 47))"
	done
	nodes="$nodes -numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=21"
	;;
*)
	echo "run.sh: no machine '$machine'" >&2
	exit 2
	;;
esac
# shellcheck disable=SC2086
exec timeout "${TIMEOUT:-600}" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max,-la57 -smp "$cpus" -m 2G -nic none \
	$nodes -kernel "$kernel" -initrd "$ramfs" -append "console=ttyS0 rdinit=/init loglevel=5 no_timer_check lpj=4000000 panic=-1 $*" -nographic -no-reboot
