#!/bin/bash
# SPDX-License-Identifier: MIT
# Compiles mm/mempool.c, lib/rhashtable.c and the kernel's own test of the latter, as they are, over stook/kmem.h, and
# runs them.
#
#   port.sh TREE BUILD   TREE: the sources of Linux 7.2 (scripts/kernel/build.sh 7.2 --source); BUILD: of Stook
#
# Of TREE only what is listed below is used; every other header is shim.h.  Three programs each: with stook/kmem.h's
# flags; with the kernel's gfp_types.h, whose bits lockdep moves; and with liburcu included first, and debug caches.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# = 2 ] || { echo "usage: port.sh TREE BUILD" >&2; exit 2; }
tree=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
sources="mm/mempool.c lib/rhashtable.c lib/test_rhashtable.c"
headers="mempool rhashtable rhashtable-types jhash list_nulls gfp_types"
work=$(mktemp -d)
trap '[ "${PORT_KEEP-}" ] && echo "$work" || rm -rf "$work"' EXIT

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
        # <errno.h> itself includes the system's linux/errno.h.
        [ "$name" = linux/errno.h ] || [ -e "$work/kernel/$name" ] || echo '#include <shim.h>' >"$work/shim/$name"
    done

# As the kernel is compiled.
options=(-std=gnu11 -O2 -g -fno-strict-aliasing -fno-strict-overflow -fno-delete-null-pointer-checks
    -Wall -Werror -Wno-pointer-sign -Wno-unused-function -Wno-unused-variable -Wno-unused-but-set-variable
    -I"$work/kernel" -I"$work/shim" -I"$here" -I"$root/include")
libraries=(-L"$build/lib" -Wl,-rpath,"$build/lib" -lstook-urcu -lstook -lurcu-memb -lurcu-common -lpthread)

one() { # NAME OPTIONS...
    local name=$1
    shift
    "${CC:-cc}" "${options[@]}" "$@" "$here/run_mempool.c" "$work/kernel/mempool.c" "$here/shim.c" \
        -o "$work/mempool-$name" "${libraries[@]}"
    "${CC:-cc}" "${options[@]}" "$@" "$here/run_rhashtable.c" "$work/kernel/rhashtable.c" \
        "$work/kernel/test_rhashtable.c" "$here/shim.c" -o "$work/rhashtable-$name" "${libraries[@]}"
    echo "== $name"
    "$work/mempool-$name"
    parm_entries=${PORT_ENTRIES:-5000} runs=2 tcount=4 shrinking=1 "$work/rhashtable-$name"
}

one plain
one gfp-types '-DSTOOK_KMEM_GFP_TYPES="linux/gfp_types.h"' -DCONFIG_LOCKDEP
STOOK_DEBUG=FZP one debug -DSHIM_URCU_FIRST -DCONFIG_SLUB_DEBUG_ON

for file in $sources; do
    cmp "$tree/$file" "$work/kernel/$(basename "$file")"
done
echo "unchanged: $sources"
