#!/bin/bash
# SPDX-License-Identifier: MIT
# No library has a symbol of the kernel's names: what stook/kmem.h defines and declares is inline or a
# macro, also in a program that uses it.  The manual page has all names.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
names='^(_*k(v?[mzc]alloc|v?free|realloc|size|strn?dup|memdup|mem_cache|asprintf|vasprintf)|mempool_)'

of() { nm -A "$@" 2>/dev/null | awk '{print $NF}' | sed 's/@.*//'; }
found() { grep -E "$names" "$1" || true; }

printf '%s\n' kmalloc kvfree kmem_cache_alloc_bulk mempool_resize kstrdup __kmalloc >"$work/planted"
[ "$(found "$work/planted" | wc -l)" = 6 ] || { echo "the pattern does not find its own names"; exit 1; }

for library in "$STOOK_BUILD_DIR"/lib/libstook.so; do
    of -D --defined-only "$library" >"$work/exported"
    grep -qx stook_kmalloc "$work/exported" || { echo "$library exports no stook_kmalloc"; exit 1; }
    [ ! "$(found "$work/exported")" ] || { echo "$library exports"; found "$work/exported"; exit 1; }
done
for archive in "$STOOK_BUILD_DIR"/lib/libstook*.a; do
    of --extern-only --defined-only "$archive" >"$work/global"
    [ ! "$(found "$work/global")" ] || { echo "$archive has"; found "$work/global"; exit 1; }
done

# A program that uses the names has them for itself, and needs none of any library.
cat >"$work/p.c" <<'C'
#include <stook/kmem.h>
void *p(struct kmem_cache *c, mempool_t *m);
void *p(struct kmem_cache *c, mempool_t *m)
{
    mempool_free(kmem_cache_alloc(c, GFP_KERNEL), m);
    kfree(krealloc(kmalloc(8, GFP_KERNEL), 9, GFP_KERNEL));
    return kmem_cache_create("p", 8, NULL, 0);
}
C
for optimised in -O0 -O2; do
    "${CC:-cc}" $optimised -std=gnu17 -Wall -Wextra -Wconversion -Werror -I"$STOOK_SOURCE_DIR/include" \
        -c "$work/p.c" -o "$work/p.o"
    nm --extern-only "$work/p.o" | awk '{print $NF}' >"$work/global"
    [ ! "$(found "$work/global")" ] || { echo "a program needs"; found "$work/global"; exit 1; }
done
for standard in c11 gnu17; do
    echo '#include <stook/kmem.h>' | "${CC:-cc}" -xc -std=$standard -Wall -Wextra -Wconversion -Werror \
        -I"$STOOK_SOURCE_DIR/include" -fsyntax-only -
done
for standard in c++11 c++17 gnu++20; do
    echo '#include <stook/kmem.h>' | "${CXX:-c++}" -xc++ -std=$standard -Wall -Wextra -Wconversion -Werror \
        -I"$STOOK_SOURCE_DIR/include" -fsyntax-only -
done

# stook_kmem(7) has every name that the headers give, but for what is theirs alone (kmem_stook_...), and what the kernel
# says twice (..._noprof, ..._track_caller).
sed -nE 's/^#define (k[a-z_]+|mempool_[a-z_]+|KMEM_CACHE[A-Z_]*)\(.*/\1/p; s/^static inline .*[ *]([a-z_]+)\(.*/\1/p; s/^(kmem_[a-z_]+|k[a-z]+)\(.*/\1/p' \
    "$STOOK_SOURCE_DIR"/include/stook/kmem*.h |
    grep -vE '^kmem_(stook|create|alloc|kmalloc|product|mempool|flex|gfp|objs|is_object)|^KMEM_CACHE_(ACCOUNT|H)|_(noprof|track_caller)$' |
    sort -u >"$work/names"
[ "$(wc -l <"$work/names")" -gt 110 ] || { echo "only these names were found:"; cat "$work/names"; exit 1; }
while read -r name; do
    grep -qw -- "$name" "$STOOK_SOURCE_DIR/man/stook_kmem.7" || { echo "stook_kmem.7: no $name"; exit 1; }
done <"$work/names"

# What docs/kernel-names.md lists as absent is.
python3 "$STOOK_SOURCE_DIR/scripts/kernel-names.py" --check
