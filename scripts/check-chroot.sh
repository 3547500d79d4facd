#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs "make check" in a clean Debian, as a machine would that has nothing of this one: debootstrap makes it, the
# files that git knows are copied into it, and "make check" installs what it needs there.  Root only; needs the
# network, 5 GB, and half an hour.  No part of make check.
#
#   check-chroot.sh [DIRECTORY] [TARGET...]   the chroot, /var/tmp/stook-chroot unless said otherwise; one
#                                             that is there already is used again; make's targets (check)
#
# In the environment: CHROOT_SUITE (bookworm), CHROOT_MIRROR (as debootstrap has it), JOBS.
set -euo pipefail
cd "$(dirname "$0")/.."

chroot=${1:-/var/tmp/stook-chroot}
targets=("${@:2}")
[ ${#targets[@]} != 0 ] || targets=(check)
[ "$(id -u)" = 0 ] || { echo "check-chroot.sh: please run as root" >&2; exit 1; }
command -v debootstrap >/dev/null || {
    echo "check-chroot.sh: debootstrap is missing (Debian: debootstrap)" >&2
    exit 1
}
# The bind mounts end with this name space, however the script ends.
if [ -z "${CHROOT_INSIDE:-}" ]; then
    exec unshare -m env CHROOT_INSIDE=1 "$0" "$chroot" "${targets[@]}"
fi
mount --make-rprivate /

if [ ! -e "$chroot/etc/debian_version" ]; then
    # shellcheck disable=SC2086
    debootstrap --variant=minbase --include=ca-certificates,make \
        "${CHROOT_SUITE:-bookworm}" "$chroot" ${CHROOT_MIRROR:-}
fi
for file in /etc/resolv.conf /etc/hosts; do
    [ ! -e "$file" ] || cp -L "$file" "$chroot$file"
done
# How this machine reaches its packages: sources and proxies may be its own.
for apt in sources.list sources.list.d apt.conf apt.conf.d preferences.d trusted.gpg.d; do
    [ ! -e "/etc/apt/$apt" ] || cp -rL "/etc/apt/$apt" "$chroot/etc/apt/"
done
mount -t proc proc "$chroot/proc"
mount --rbind /sys "$chroot/sys"
mount --rbind /dev "$chroot/dev"
mount -t tmpfs tmpfs "$chroot/tmp"

# What is committed and what is not, but for what is ignored.
rm -rf "$chroot/stook"
mkdir "$chroot/stook"
git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - |
    tar -x -C "$chroot/stook"
chroot "$chroot" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    JOBS="${JOBS:-$(nproc)}" make -C /stook "${targets[@]}"
