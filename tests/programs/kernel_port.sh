#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
# needs: urcu preload
# labels: more
# The same as kernel_port_long.sh with the sources of Debian 12: its packages linux-source-6.1 and linux-source-6.12.
# Their gfp flags, and some of their functions, are not those of 7.2.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

port() { # SOURCE
    PORT_ENTRIES=2000 "$STOOK_SOURCE_DIR/tests/kernel/port.sh" "$1" "$STOOK_BUILD_DIR"
}

found=
for version in 6.1 6.12; do
    archive=/usr/src/linux-source-$version.tar.xz
    [ -e "$archive" ] || continue
    found=$archive
    port "$archive" >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
    cat "$work/said"
    [ "$(grep -c ': passed$' "$work/said")" = 6 ] || { echo "not all of it ran"; exit 1; }
    grep -q "^unchanged, of Linux $version: " "$work/said" || { echo "it ran another version"; exit 1; }
done
[ "$found" ] || { echo "no /usr/src/linux-source-6.1.tar.xz (Debian: linux-source-6.1)"; exit 77; }

# A planted error is found: a pool that hands out its elements twice.  Its reports are none of make check-debug's.
name=$(basename "$found" .tar.xz)
tar -xf "$found" -C "$work" "$name/Makefile" "$name/mm/mempool.c" "$name/lib/rhashtable.c" "$name/lib/test_rhashtable.c" \
    "$name"/include/linux/{mempool,rhashtable,rhashtable-types,jhash,list_nulls,gfp_types}.h
sed -i 's/pool->elements\[--pool->curr_nr\]/pool->elements[--pool->curr_nr \& ~1]/w '"$work/planted" "$work/$name/mm/mempool.c"
[ -s "$work/planted" ]
if STOOK_ON_CORRUPTION=/dev/null port "$work/$name" >"$work/said" 2>&1; then
    echo "a planted error is not found"
    exit 1
fi
grep -q 'mempool: FAILED\|freed twice\|corrupt' "$work/said" || { cat "$work/said"; exit 1; }
