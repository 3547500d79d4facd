#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles mm/mempool.c, lib/rhashtable.c and the kernel's own test of the latter, as they are, over stook/kmem.h, and
# runs them.
#
#   port.sh SOURCE BUILD   SOURCE: the sources of Linux 6.1, 6.12 or 7.2, as a tree (scripts/kernel/build.sh 7.2
#                          --source) or as Debian packs them (/usr/src/linux-source-6.1.tar.xz); BUILD: of Stook
#
# Of SOURCE only what is listed below is used; every other header is shim.h.  Three programs each: with stook/kmem.h's
# flags; with the kernel's gfp_types.h, whose bits lockdep moves; and with liburcu included first, and debug caches.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# = 2 ] || { echo "usage: port.sh SOURCE BUILD" >&2; exit 2; }
build=$(cd "$2" && pwd)
sources="mm/mempool.c lib/rhashtable.c lib/test_rhashtable.c"
headers="mempool rhashtable rhashtable-types jhash list_nulls gfp_types"
work=$(mktemp -d)
trap '[ "${PORT_KEEP-}" ] && echo "$work" || rm -rf "$work"' EXIT

if [ -d "$1" ]; then
    tree=$(cd "$1" && pwd)
else
    name=$(basename "$1" .tar.xz)
    mapfile -t wanted < <(printf "$name/%s\n" Makefile $sources && printf "$name/include/linux/%s.h\n" $headers)
    tar -xf "$1" -C "$work" "${wanted[@]}"
    tree=$work/$name
fi
version() { sed -n "s/^$1 = //p" "$tree/Makefile"; }
linux=$(printf '0x%02x%02x00' "$(version VERSION)" "$(version PATCHLEVEL)")

# The kernel's files, in a folder of their own: "slab.h" beside mempool.c is ours.
mkdir -p "$work/kernel/linux" "$work/shim/linux"
for file in $sources; do
    cp "$tree/$file" "$work/kernel/"
done
for name in $headers; do
    cp "$tree/include/linux/$name.h" "$work/kernel/linux/"
done
sed -nE 's/^#include [<"](linux\/[a-z0-9_\/-]+\.h|slab\.h)[>"].*/\1/p' "$work"/kernel/*.c "$work"/kernel/linux/*.h | sort -u |
    while read -r name; do
        mkdir -p "$work/shim/$(dirname "$name")"
        # <errno.h> itself includes the system's linux/errno.h.
        [ "$name" = linux/errno.h ] || [ -e "$work/kernel/$name" ] || echo '#include <shim.h>' >"$work/shim/$name"
    done

# As the kernel is compiled.
options=(-std=gnu11 -O2 -g -fno-strict-aliasing -fno-strict-overflow -fno-delete-null-pointer-checks
    -Wall -Werror -Wno-pointer-sign -Wno-unused-function -Wno-unused-variable -Wno-unused-but-set-variable
    "-DSTOOK_KMEM_LINUX=$linux" -I"$work/kernel" -I"$work/shim" -I"$here" -I"$root/include")
libraries=(-L"$build/lib" -Wl,-rpath,"$build/lib" -lstook-urcu -lstook -lurcu-memb -lurcu-common -lpthread)

one() { # NAME OPTIONS...
    local name=$1
    shift
    echo "== $name"
    "${CC:-cc}" "${options[@]}" "$@" "$here/run_mempool.c" "$work/kernel/mempool.c" "$here/shim.c" \
        -o "$work/mempool-$name" "${libraries[@]}"
    "$work/mempool-$name"
    "${CC:-cc}" "${options[@]}" "$@" "$here/run_rhashtable.c" "$work/kernel/rhashtable.c" \
        "$work/kernel/test_rhashtable.c" "$here/shim.c" -o "$work/rhashtable-$name" "${libraries[@]}"
    parm_entries=${PORT_ENTRIES:-5000} runs=2 tcount=4 shrinking=1 "$work/rhashtable-$name"
}

one plain
one gfp-types '-DSTOOK_KMEM_GFP_TYPES="linux/gfp_types.h"' -DCONFIG_LOCKDEP
STOOK_DEBUG=FZP one debug -DSHIM_URCU_FIRST -DCONFIG_SLUB_DEBUG_ON

for file in $sources; do
    cmp "$tree/$file" "$work/kernel/$(basename "$file")"
done
echo "unchanged, of Linux $(version VERSION).$(version PATCHLEVEL): $sources"
