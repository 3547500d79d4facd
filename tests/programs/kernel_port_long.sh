#!/bin/bash
# SPDX-License-Identifier: MIT
# labels: long
# timeout: 900
# needs: urcu preload
# The kernel's memory pools and hash table over stook/kmem.h, with the kernel's own test: tests/kernel/port.sh.  It is
# skipped unless `make check-kernel`, or `scripts/kernel/build.sh 7.2 --source`, has fetched the sources.
set -euo pipefail
tree=${STOOK_KERNEL_CACHE:-$STOOK_SOURCE_DIR/build-kernel}/linux-source-7.2
[ -d "$tree" ] || { echo "no sources at $tree"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
said=$("$STOOK_SOURCE_DIR/tests/kernel/port.sh" "$tree" "$STOOK_BUILD_DIR") || { echo "$said"; exit 1; }
echo "$said"
[ "$(grep -c ': passed$' <<<"$said")" = 6 ] || { echo "not all of it ran"; exit 1; }

# The page's list of absent names is that of these sources, and another one is noticed.
names=$STOOK_SOURCE_DIR/scripts/kernel-names.py
python3 "$names" --check "$tree"
mkdir -p "$work/include/linux"
cp "$tree"/include/linux/{mempool,gfp_types}.h "$work/include/linux/"
sed 's/^void kfree(/void kfree_planted(const void *objp);\n&/w '"$work/planted" "$tree/include/linux/slab.h" >"$work/include/linux/slab.h"
[ -s "$work/planted" ]
if python3 "$names" --check "$work" >"$work/said"; then
    echo "a name that is absent is not noticed"
    exit 1
fi
grep -q kfree_planted "$work/said"

# A planted error is found: a pool that hands out its elements twice.
mkdir -p "$work/mm" "$work/lib"
cp "$tree/Makefile" "$work/"
cp "$tree"/lib/{rhashtable,test_rhashtable}.c "$work/lib/"
cp "$tree"/include/linux/{mempool,rhashtable,rhashtable-types,jhash,list_nulls,gfp_types}.h "$work/include/linux/"
sed 's/pool->elements\[--pool->curr_nr\]/pool->elements[--pool->curr_nr \& ~1]/' "$tree/mm/mempool.c" >"$work/mm/mempool.c"
! cmp -s "$work/mm/mempool.c" "$tree/mm/mempool.c"
if timeout 300 "$STOOK_SOURCE_DIR/tests/kernel/port.sh" "$work" "$STOOK_BUILD_DIR" >"$work/said" 2>&1; then
    echo "a planted error is not found"
    exit 1
fi
grep -q 'mempool: FAILED\|freed twice\|corrupt' "$work/said" || { cat "$work/said"; exit 1; }
