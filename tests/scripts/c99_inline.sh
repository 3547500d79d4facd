#!/bin/bash
# SPDX-License-Identifier: MIT
# Calls of the library stand in C99 inline functions with external linkage, which may not define a
# static variable; with STOOK_SITES, which does, the compiler says so: the check can fail.
set -euo pipefail
program='
#include <stook/kmalloc.h>
#include <stook/reserve.h>
inline void *take(struct stook_cache *cache, struct stook_pool *pool, struct stook_sheaf *sheaf)
{
    void *object = stook_alloc(cache, 0);
    if (!object)
        object = stook_pool_alloc(pool, 0, NULL);
    if (!object)
        object = stook_sheaf_alloc(cache, 0, sheaf);
    return object ? object : stook_kmalloc(8, 0);
}'
compiles() { # FLAGS...
    printf '%s\n' "$program" | "${CC:-cc}" -xc -Wall -Wextra -pedantic -Werror -fsyntax-only \
        -I"$STOOK_SOURCE_DIR/include" "$@" -
}
for standard in c99 c11 c17; do
    compiles -std=$standard || { echo "$standard: an inline function with these calls fails"; exit 1; }
done
compiles -std=gnu17 -DSTOOK_SITES 2>/dev/null && { echo "a static site was not noticed"; exit 1; }
exit 0
