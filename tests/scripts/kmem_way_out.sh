#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: urcu preload
# A program may have names of stook/kmem.h itself: liburcu's or its own struct rcu_head and kfree_rcu(), its own
# gfp_types.h, cleanup.h, memory pools, pages and strings, before or after the header.  And what is wrong does not compile.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
options=(-O1 -Wall -Wextra -Wshadow -Werror -I"$STOOK_SOURCE_DIR/include" -I"$work")
cases=0

source_of() { # a program's text from stdin
    cat >"$work/p.c"
}
good() { # WHAT OPTIONS...
    local what=$1
    shift
    "${CC:-cc}" -std=gnu17 "${options[@]}" -fsyntax-only "$@" "$work/p.c" ||
        { echo "$what does not compile"; exit 1; }
    cases=$((cases + 1))
}
bad() { # WHAT MESSAGE OPTIONS...
    local what=$1 message=$2
    shift 2
    ! "${CC:-cc}" -std=gnu17 "${options[@]}" -fsyntax-only "$@" "$work/p.c" 2>"$work/said" ||
        { echo "$what compiles"; exit 1; }
    grep -q -- "$message" "$work/said" || { echo "$what: other errors than \"$message\":"; cat "$work/said"; exit 1; }
    cases=$((cases + 1))
}

# ---- RCU
user='struct item { int key; struct rcu_head rcu; };
void drop(struct item *item);
void drop(struct item *item) { kfree_rcu(item, rcu); kvfree_rcu_mightsleep(item); kvfree_rcu_barrier(); }'
urcu='static inline void later(struct item *item, void (*f)(struct rcu_head *)) { call_rcu(&item->rcu, f); }'
source_of <<<"#include <stook/kmem.h>
#include <urcu.h>
$user $urcu"
good "liburcu after"
source_of <<<"#include <urcu.h>
#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>
$user $urcu"
good "liburcu before"
source_of <<<"#include <stook/kmem_rcu_head.h>
#include <stook/kmem.h>
#include <urcu.h>
$user $urcu"
good "liburcu after kmem_rcu_head.h"
source_of <<<"#include <stook/kmem.h>
#include <stook/urcu.h>
#include <urcu-qsbr.h>
$user $urcu"
good "another flavour"
source_of <<<"#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>
$user"
good "no RCU"
source_of <<<"#include <stook/kmem.h>
$user"
bad "no struct rcu_head" "incomplete type"
own='struct callback_head { struct callback_head *next; void (*func)(struct callback_head *); } __attribute__((aligned(8)));
#define rcu_head callback_head'
source_of <<<"$own
#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>
$user"
good "the kernel's own definition before"
source_of <<<"#include <stook/kmem.h>
struct rcu_head { void *anything; };
$user"
good "another one after"
source_of <<<"void my_free(void *);
#define kfree_rcu(object, field) my_free(object)
#include <stook/kmem.h>
struct rcu_head { void *anything; };
$user"
good "a kfree_rcu() before"
source_of <<<"#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>
struct item { int key; };
static inline void kfree_rcu(struct item *item, int field) { (void)item; (void)field; }
static inline void kvfree_rcu_barrier(void) { }"
bad "a function kfree_rcu()" "kfree_rcu\|kvfree_rcu"
good "a function kfree_rcu()" -DSTOOK_KMEM_NO_RCU
source_of <<'C'
#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>
struct item { int key; struct rcu_head rcu; };
void drop(struct item *item);
void drop(struct item *item) { kfree_rcu(item, key); }
C
bad "a field that is no rcu_head" "distinct pointer types"

# ---- gfp_t, in an order of its own
cat >"$work/my_gfp.h" <<'C'
typedef unsigned int gfp_t;
#define ___BIT(n) ((gfp_t)1 << (n))
#define __GFP_IO ___BIT(20)
#define __GFP_FS ___BIT(21)
#define __GFP_ZERO ___BIT(0)
#define __GFP_DIRECT_RECLAIM ___BIT(3)
#define __GFP_KSWAPD_RECLAIM ___BIT(9)
#define __GFP_NOFAIL ___BIT(11)
#define __GFP_BITS_SHIFT 22
#define GFP_KERNEL (__GFP_IO | __GFP_FS | __GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_NOIO (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
C
checks='_Static_assert(__GFP_ZERO == 1 && __GFP_BITS_SHIFT == 22, "its own");
int main(void)
{
    char *zeros = kzalloc(100, GFP_KERNEL), *more = krealloc(zeros, 200, GFP_NOIO);
    mempool_t *pool = mempool_create_kmalloc_pool(2, 50);
    int bad = kmem_stook_flags(GFP_KERNEL) != STOOK_WAIT ||
              kmem_stook_flags(GFP_NOIO | __GFP_ZERO) != (STOOK_NORECLAIM | STOOK_ZERO) ||
              kmem_stook_flags((gfp_t)~(GFP_KERNEL | __GFP_ZERO)) != STOOK_SIGNAL_SAFE || !more || more[99];
    mempool_free(mempool_alloc(pool, GFP_NOIO), pool);
    mempool_destroy(pool);
    kfree(more);
    return bad;
}'
source_of <<<"#include <stook/kmem.h>
$checks"
link=("${options[@]}" -L"$STOOK_BUILD_DIR/lib" -Wl,-rpath,"$STOOK_BUILD_DIR/lib" "$work/p.c" -o "$work/p" -lstook)
"${CC:-cc}" -std=gnu17 '-DSTOOK_KMEM_GFP_TYPES="my_gfp.h"' "${link[@]}"
"$work/p" || { echo "flags of the program's own mean something else"; exit 1; }
source_of <<<"typedef unsigned int gfp_t;
#include <my_gfp.h>
#include <stook/kmem.h>
$checks"
"${CC:-cc}" -std=gnu17 "${link[@]}"
"$work/p" || { echo "flags that came before mean something else"; exit 1; }
source_of <<'C'
typedef enum { OTHER } gfp_t;
#include <my_flags.h>
static inline _Bool gfpflags_allow_blocking(const unsigned gfp) { return gfp & __GFP_DIRECT_RECLAIM; }
static inline _Bool gfpflags_allow_spinning(const unsigned gfp) { return gfp & __GFP_KSWAPD_RECLAIM; }
#include <stook/kmem.h>
C
sed -e '/typedef/d' -e 's/(gfp_t)1/1u/' "$work/my_gfp.h" >"$work/my_flags.h"
good "a gfp_t that is an enum, and functions that test it"
source_of <<<'#include <stook/kmem.h>'
sed '/NOFAIL/d' "$work/my_gfp.h" >"$work/few_gfp.h"
bad "a gfp_types.h with too little" "_NOFAIL" '-DSTOOK_KMEM_GFP_TYPES="few_gfp.h"'
echo >"$work/no_gfp.h"
bad "one with nothing" "does not define GFP_KERNEL" '-DSTOOK_KMEM_GFP_TYPES="no_gfp.h"'

# ---- cleanup.h
cat >"$work/my_cleanup.h" <<'C'
#define DEFINE_FREE(_name, _type, _free) static inline void __free_##_name(void *p) { _type _T = *(_type *)p; _free; }
#define __free(_name) __attribute__((__cleanup__(__free_##_name)))
#define no_free_ptr(p) ({ __typeof__(p) __p = (p); (p) = 0; __p; })
C
scoped='int f(void); int f(void) { char *text __free(kfree) = kmalloc(9, GFP_KERNEL); kfree(no_free_ptr(text)); return 0; }'
source_of <<<"#include <my_cleanup.h>
#include <stook/kmem.h>
$scoped"
good "a cleanup.h before"
source_of <<<"#include <stook/kmem.h>
#include <my_cleanup.h>
DEFINE_FREE(kfree, void *, kfree(_T))
$scoped"
bad "a cleanup.h after" "redefin"
good "a cleanup.h after" -DSTOOK_KMEM_NO_CLEANUP

# ---- pools, pages, strings
source_of <<'C'
#include <stook/kmem.h>
typedef struct { int mine; } mempool_t;
static inline void mempool_free(void *element, mempool_t *pool) { pool->mine--; kfree(element); }
struct page { long flags; };
extern struct page *mem_map;
static inline struct page *alloc_pages(gfp_t gfp, int order) { return gfp ? mem_map + order : 0; }
static inline void *page_address(struct page *page) { return (char *)0x1000 + (page - mem_map) * 4096; }
void *vmalloc(unsigned long size);
char *kstrdup(const char *text, gfp_t gfp);
void *kmemdup(const void *from, unsigned long size, gfp_t gfp);
C
bad "the program's pools, pages and strings" "conflicting types\|redefinition"
good "the program's pools, pages and strings" -DSTOOK_KMEM_NO_MEMPOOL -DSTOOK_KMEM_NO_PAGES \
    -DSTOOK_KMEM_NO_STRING -DSTOOK_KMEM_NO_VMALLOC
source_of <<'C'
#include <stook/kmem.h>
static inline struct page *alloc_pages(gfp_t gfp, int order) { (void)gfp; (void)order; return 0; }
mempool_t *make(void);
mempool_t *make(void) { return mempool_create_kmalloc_pool(1, 8); }
C
good "pools without pages" -DSTOOK_KMEM_NO_PAGES

# ---- groups
source_of <<'C'
#include <stook/kmem.h>
_Static_assert(__builtin_constant_p(KMEM_GFP_ACCOUNT) && KMEM_CACHE_ACCOUNT == 0, "no meaning");
C
good "no groups" -DSTOOK_KMEM_NO_ACCOUNT
bad "no groups" "no meaning"

# ---- by type, in each language
source_of <<'C'
#include <stook/kmem.h>
struct point { int x, y; };
struct row { int n; struct point points[]; };
struct point *all(struct row **row);
struct point *all(struct row **row)
{
    struct point *one = kzalloc_obj(*one), *few = kmalloc_objs(struct point, 3, GFP_ATOMIC);
    kvfree(kvzalloc_objs(*one, 4));
    kfree(few);
    *row = kmalloc_flex(**row, points, 5, GFP_NOFS);
    kvfree(kvmalloc_flex(struct row, points, 5));
    return one;
}
C
for standard in c11 gnu11 gnu17 gnu2x; do
    good "allocations by type in $standard" -std=$standard
done
cp "$work/p.c" "$work/p.cc"
for standard in c++11 gnu++20; do
    "${CXX:-c++}" -std=$standard "${options[@]}" -Wno-pedantic -fsyntax-only "$work/p.cc"
    cases=$((cases + 1))
done
source_of <<'C'
#include <stook/kmem.h>
struct point { int x, y; };
long *wrong(void);
long *wrong(void) { return kzalloc_obj(struct point); }
C
bad "an object of another type" "incompatible pointer type\|incompatible-pointer-types"
echo "$cases cases"
[ "$cases" = 30 ]
