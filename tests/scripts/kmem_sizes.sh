#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# What a compiler knows of the memory of stook/kmalloc.h and stook/kmem.h: the bytes that were asked for, also where the
# fast path is inlined, so that _FORTIFY_SOURCE and -Wstringop-overflow find what they find of malloc()'s; that an
# ignored result is lost; and what it must not conclude.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
cat >"$work/sizes.c" <<'C'
#ifdef INLINED
#include <stook/inline.h>
#endif
#include <stook/kmem.h>
static int bad, calls;
static __attribute__((noinline)) void known(const char *call, void *p, size_t size, size_t want)
{
    calls++;
    if (size != want && ++bad)
        printf("%s: %zd, not %zu\n", call, (ssize_t)size, want);
    kfree(p);
}
#define KNOWN(want, call)                                                                          \
    do {                                                                                           \
        void *p = (call);                                                                          \
        known(#call, p, __builtin_dynamic_object_size(p, 1), want);                                \
    } while (0)
int main(int argc, char **argv)
{
    size_t n = 30 + (size_t)argc;
    struct row { size_t n; long element[]; };
    const gfp_t flags[] = {GFP_KERNEL, GFP_KERNEL_ACCOUNT, GFP_ATOMIC | __GFP_ZERO};
    struct stook_alloc_args args = {.size = sizeof(args)};
    (void)argv;
    KNOWN(n, stook_kmalloc(n, 0));
    KNOWN(n, stook_kmalloc_with(n, 0, &args));
    KNOWN(2 * n, stook_kmalloc_array(2, n, 0));
    KNOWN(n, stook_krealloc(NULL, n, 0));
    KNOWN(2 * n, stook_krealloc_array(NULL, 2, n, 0));
    KNOWN(24, kzalloc(24, GFP_KERNEL));
    for (int i = 0; i < 3; i++) {
        gfp_t gfp = flags[i];
        KNOWN(n, kmalloc(n, gfp));
        KNOWN(n, kzalloc(n, gfp));
        KNOWN(2 * n, kmalloc_array(2, n, gfp));
        KNOWN(2 * n, kcalloc(2, n, gfp));
        KNOWN(n, kmalloc_node(n, gfp, 0));
        KNOWN(2 * n, kcalloc_node(2, n, gfp, 0));
        KNOWN(n, kmalloc_nolock(n, 0, -1));
        KNOWN(n, krealloc(NULL, n, gfp));
        KNOWN(2 * n, krealloc_array(NULL, 2, n, gfp));
        KNOWN(n, krealloc_node_align(NULL, n, 8, gfp, -1));
        KNOWN(n, kvmalloc(n, gfp));
        KNOWN(2 * n, kvcalloc(2, n, gfp));
        KNOWN(n, kvrealloc(NULL, n, gfp));
        KNOWN(n, kvmalloc_node_align(n, 64, gfp, 0));
        KNOWN(n, kmemdup("0123456789012345678901234567890123456789", n, gfp));
        KNOWN(n, kmem_buckets_alloc(NULL, n, gfp));
        KNOWN(sizeof(struct row), kzalloc_obj(struct row, gfp));
        KNOWN(n * 8, kmalloc_objs(long, n, gfp));
        KNOWN(sizeof(struct row) + n * 8, kvmalloc_flex(struct row, element, n, gfp));
        KNOWN(n, __vmalloc(n, gfp));
        KNOWN(n, alloc_pages_exact(n, gfp));
    }
    KNOWN(n, vmalloc(n));
    KNOWN(2 * n, vcalloc(2, n));
    /* No pointer that the program has: but 0 bytes, and what a cache's constructor wrote. */
    if (kmalloc(n - n, GFP_KERNEL) != ZERO_SIZE_PTR && ++bad)
        puts("0 bytes are no ZERO_SIZE_PTR");
    printf("%d calls\n", calls);
    return bad != 0;
}
C
cat >"$work/overrun.c" <<'C'
#include <stook/kmem.h>
int main(int argc, char **argv)
{
    char *p = kmalloc(7 + (size_t)argc, GFP_KERNEL);
    memcpy(p, argv[0], strlen(argv[0]) + 1);
    kfree(p);
    return 0;
}
C
cat >"$work/constructed.c" <<'C'
#include <stook/inline.h>
#include <stook/kmem.h>
/* An empty list points to itself, as its cache's constructor left it. */
struct list { struct list *next, *prev; };
static void ctor(void *object) { struct list *list = object; list->next = list->prev = list; }
int main(void)
{
    struct kmem_cache *cache = kmem_cache_create("list", sizeof(struct list), 0, 0, ctor);
    struct list one, *list = kmem_cache_alloc(cache, GFP_KERNEL);
    list->next->prev = &one;
    return list->prev != &one;
}
C
link=(-I"$STOOK_SOURCE_DIR/include" -L"$STOOK_BUILD_DIR/lib" -Wl,-rpath,"$STOOK_BUILD_DIR/lib" -lstook)
for compiler in "${CC:-cc}" clang; do
    command -v "$compiler" >/dev/null || continue
    for options in "-O2" "-O2 -DINLINED" "-O3 -std=gnu11"; do
        # shellcheck disable=SC2086
        "$compiler" $options -Wall -Wextra -Werror "$work/sizes.c" -o "$work/sizes" "${link[@]}"
        "$work/sizes" >"$work/said" || fail "$compiler $options: $(cat "$work/said")"
        [ "$(cat "$work/said")" = "71 calls" ] || fail "$(cat "$work/said")"
    done
    "$compiler" -O2 "$work/constructed.c" -o "$work/constructed" "${link[@]}"
    "$work/constructed" || fail "$compiler: what the constructor wrote is not read"
    echo '#include <stook/kmem.h>
void f(void *p); void f(void *p) { krealloc(p, 9, GFP_KERNEL); kmalloc(1, GFP_KERNEL); stook_kmalloc(1, 0); }' >"$work/lost.c"
    "$compiler" -c "$work/lost.c" -I"$STOOK_SOURCE_DIR/include" -o "$work/lost.o" 2>"$work/said" || fail "$(cat "$work/said")"
    [ "$(grep -c 'warn.unused.result' "$work/said")" = 3 ] || fail "lost results: $(cat "$work/said")"
done

# The program's own checks.
"${CC:-cc}" -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 "$work/overrun.c" -o "$work/overrun" "${link[@]}"
status=0
(ulimit -c 0 && exec -a short "$work/overrun") || fail "8 bytes are too much for 6"
(ulimit -c 0 && exec -a longer-than-that "$work/overrun" 2>"$work/said") 2>/dev/null || status=$?
[ "$status" = 134 ] && grep -q 'buffer overflow detected' "$work/said" || fail "$status: $(cat "$work/said")"
echo '#include <stook/kmem.h>
char *f(void); char *f(void) { char *p = kmalloc(8, GFP_KERNEL); if (p) memset(p, 1, 9); return p; }' >"$work/over.c"
! "${CC:-cc}" -O2 -Wall -Werror -c "$work/over.c" -I"$STOOK_SOURCE_DIR/include" -o "$work/over.o" 2>"$work/said" ||
    fail "9 bytes of 8 compile"
grep -q 'stringop-overflow\|array-bounds' "$work/said" || fail "$(cat "$work/said")"
