/* SPDX-License-Identifier: MIT */
/*
 * class.c - malloc's size classes: makes their caches when they are first used, and serves what the fast path does
 * not.
 */
#include "malloc/class.h"

#include "base/placed.h"
#include "base/report.h"
#include "kmalloc/private.h"
#include "malloc/boot.h"
#include "malloc/fast.h"
#include "malloc/libc_heap.h"
#include "malloc/names.h"
#include "malloc/start.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Slots of sizes up to 4 KiB are on one page in either table. */
struct fast fast __attribute__((aligned(4096))) LARGE_BSS;
uint64_t fast_start[STOOK_CACHES_MAX] __attribute__((aligned(64))) HEAD_BSS;

enum {
    CLASS_LARGER = 4, /* classes tried beyond one that has no object */
    CLASS_NAME = 32,
    /* What a class lends the smaller ones that have no cache yet: objects of at most so many times their
     * size, and so many bytes more than they need, at least so many an object. */
    CLASS_LENT_TIMES = 2,
    CLASS_LENT_BYTES = 8192,
    CLASS_LENT_LEAST = 64,
    CLASS_LENT_DENSE = 4096,
};

/* One partition, or all of them (STOOK_HARDEN=tokens): then no two share a slab. */
static struct stook_cache *class_cache[SIZES_CLASSES];
static struct stook_cache *class_more[STOOK_PRIVATE_PARTITIONS - 1][SIZES_CLASSES] LARGE_BSS;
/* Constant after the start: bytes behind each object that are not the user's; from the thread pointer to sample_left. */
static size_t class_canary;
static intptr_t class_left;

/* Why the fast path is closed: bits, set and cleared by anyone at any time. */
enum {
    CLASS_ACCOUNTED = 1,
    CLASS_PERTURBED = 2,
    CLASS_PARTED = 4,  /* these two close malloc, and not free */
    CLASS_SAMPLED = 8, /* kmalloc/sampled.h */
    CLASS_ALL = CLASS_ACCOUNTED | CLASS_PERTURBED,
};
static unsigned class_closed = CLASS_ACCOUNTED; /* until it is said whether they are */

static inline bool class_is_parted(void)
{
    return __builtin_expect(__atomic_load_n(&class_closed, __ATOMIC_RELAXED) & CLASS_PARTED, 0);
}

/* Of a request that is not large. */
static unsigned class_of(size_t size)
{
    return sizes_class(size + class_canary);
}

static bool class_is_large(size_t size)
{
    return size > SIZES_MAX - class_canary;
}

static inline struct stook_cache **class_at(unsigned partition, unsigned class)
{
    return partition == 0 ? &class_cache[class] : &class_more[partition - 1][class];
}

static inline struct stook_cache *class_found(unsigned partition, unsigned class)
{
    return __atomic_load_n(class_at(partition, class), __ATOMIC_ACQUIRE);
}

static inline unsigned class_partition(const void *from)
{
    return class_is_parted() ? stook_private_partition(from) : 0;
}

static uint16_t class_lent[SIZES_CLASSES]; /* bytes lent to a class; atomic */

/*
 * Every entry point needs this file, and this file malloc.c: a static C++ program whose own objects
 * ask for operator new alone would have libc's malloc for what its libraries ask for.
 */
static const void *const class_malloc __attribute__((used)) = (const void *)MALLOC_NAME(malloc);

static size_t class_bytes; /* from fast.base on, which may hold objects */

static unsigned char class_byte; /* M_PERTURB's; 0: nothing is filled */

static const void *class_slot[SIZES_CLASSES]; /* in CPU 0's area; NULL: not made yet */

/*
 * Lets malloc's fast path find a class, or hides it.  A class that is not made has no slots in the table,
 * whose pages stay untouched; the thread that makes it sees what this thread changed before, and stores later.
 */
static void class_show(unsigned class, unsigned closed)
{
    const void *slot = __atomic_load_n(&class_slot[class], __ATOMIC_SEQ_CST);
    const void *open = closed || fast.pop ? NULL : slot;
    const void *again = open || (closed & ~(unsigned)CLASS_SAMPLED) ? NULL : slot;

    if (!slot)
        return;
    for (size_t i = class > 0 ? sizes_of(class - 1) / SIZES_STEP + 1 : 0;
         i <= sizes_of(class) / SIZES_STEP; i++) {
        __atomic_store_n(&fast.slot[FAST_OPEN][i], open, __ATOMIC_RELEASE);
        /* In rseq mode, where nothing is sampled, the table stays untouched. */
        if (__atomic_load_n(&fast.slot[FAST_AGAIN][i], __ATOMIC_RELAXED) != again)
            __atomic_store_n(&fast.slot[FAST_AGAIN][i], again, __ATOMIC_RELEASE);
    }
}

/*
 * Objects that need more work than a move all take the cold path.  Release: pairs with FAST_TESTED(), which
 * comes first, so that a thread that passes the test sees the rest.  A thread that stores what has changed
 * meanwhile finds that out and stores again: the last store is that of the last change.
 */
static void class_show_size(void)
{
    unsigned closed;
    size_t bytes;

    do {
        closed = __atomic_load_n(&class_closed, __ATOMIC_SEQ_CST);
        bytes = __atomic_load_n(&class_bytes, __ATOMIC_SEQ_CST);
        __atomic_store_n(fast.pop ? &fast.size_locked : &fast.size, closed & CLASS_ALL ? 0 : bytes,
                         __ATOMIC_SEQ_CST);
    } while (closed != __atomic_load_n(&class_closed, __ATOMIC_SEQ_CST) ||
             bytes != __atomic_load_n(&class_bytes, __ATOMIC_SEQ_CST));
}

/*
 * The same for slots.  The loop ends with a read that is a modification as well: a thread that changes
 * class_closed after it sees these stores, and stores later.
 */
static void class_show_from(unsigned first, unsigned end)
{
    unsigned closed;

    do {
        closed = __atomic_load_n(&class_closed, __ATOMIC_SEQ_CST);
        for (unsigned i = first; i < end; i++)
            class_show(i, closed);
    } while (closed != __atomic_fetch_add(&class_closed, 0, __ATOMIC_SEQ_CST));
}

static void class_close(unsigned reason, bool closed)
{
    if (closed)
        __atomic_fetch_or(&class_closed, reason, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&class_closed, ~reason, __ATOMIC_SEQ_CST);
    class_show_size();
    class_show_from(0, SIZES_CLASSES);
}

static void class_changes(unsigned what, size_t value)
{
    if (what == STOOK_PRIVATE_GROWS) { /* under the window's lock */
        __atomic_store_n(&class_bytes, value, __ATOMIC_SEQ_CST);
        class_show_size();
    } else {
        class_close(CLASS_SAMPLED, value & STOOK_PRIVATE_CLOSES_ALLOC);
        class_close(CLASS_ACCOUNTED, value & STOOK_PRIVATE_CLOSES_ALL);
    }
}

void class_perturb(unsigned char byte)
{
    (void)start_malloc();
    if (byte == 0)
        class_close(CLASS_PERTURBED, false);
    __atomic_store_n(&class_byte, byte, __ATOMIC_RELAXED);
    if (byte != 0)
        class_close(CLASS_PERTURBED, true);
}

static unsigned char class_filling(void)
{
    return __atomic_load_n(&class_byte, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) void class_fill(void *object, unsigned char byte,
                                                       size_t size)
{
    memset(object, byte, size);
}

/* What is handed out, on its way; the object, or NULL. */
static void *class_filled(void *object, size_t size)
{
    unsigned char byte = class_filling();

    if (__builtin_expect(byte != 0, 0) && object)
        class_fill(object, (unsigned char)~byte, size);
    return object;
}

/* "malloc-", the size, and the partition behind a point: a hundred calls of snprintf() are felt at the start. */
static void class_name(char name[CLASS_NAME], size_t size, unsigned partition)
{
    char digits[CLASS_NAME];
    unsigned n = 0;

    for (; size > 0; size /= 10)
        digits[n++] = (char)('0' + size % 10);
    memcpy(name, "malloc-", sizeof("malloc-"));
    name += sizeof("malloc-") - 1;
    while (n > 0)
        *name++ = digits[--n];
    if (class_is_parted()) {
        *name++ = '.';
        if (partition >= 10)
            *name++ = '1';
        *name++ = (char)('0' + partition % 10);
    }
    *name = '\0';
}

/*
 * Sizes whose class exists from the start, for handlers and threads that cannot make one.  Others get pages.
 */
static bool class_is_first(unsigned class)
{
    size_t size = sizes_of(class);

    return size == 32 || size == 128 || size == 512 || size == 2048;
}

/* Makes a class and makes it known to the fast path; NULL without memory.  One thread at a time. */
static struct stook_cache *class_add(unsigned partition, unsigned class)
{
    struct stook_private_slab slab;
    char name[CLASS_NAME];
    struct stook_cache *cache;

    class_name(name, sizes_of(class), partition);
    cache = stook_private_class(name, sizes_of(class), fast_start, &slab);
    if (!cache)
        return NULL;
    __atomic_store_n(&fast_start[slab.slot_offset >> FAST_SLOT_SHIFT],
                     starts_word(slab.bytes, slab.stride, slab.objects), __ATOMIC_RELAXED);
    if (partition == 0) {
        (void)__atomic_exchange_n(&class_slot[class], (const void *)(fast.slots + slab.slot_offset),
                                  __ATOMIC_SEQ_CST);
        class_show_from(class, class + 1);
    }
    __atomic_store_n(class_at(partition, class), cache, __ATOMIC_RELEASE);
    return cache;
}

/* The class's cache, made with the first request; NULL: it cannot be made here and now. */
static struct stook_cache *class_get(unsigned partition, unsigned class)
{
    struct stook_cache *cache = class_found(partition, class);

    if (__builtin_expect(cache != NULL, 1) || !stook_private_class_begin())
        return cache;
    cache = class_found(partition, class);
    if (!cache)
        cache = class_add(partition, class);
    stook_private_class_end();
    return cache;
}

/*
 * The cache of a larger class for one that is not made yet; NULL: the class is worth its own.  A class costs
 * a page that its first object is on, its cache and a sheaf, and a program wants most sizes a few times.
 */
static struct stook_cache *class_borrow(unsigned class)
{
    size_t size = sizes_of(class), most = CLASS_LENT_TIMES * size;

    /* Limits, call sites and traces know objects by their class. */
    if (__atomic_load_n(&class_closed, __ATOMIC_RELAXED) & ~(unsigned)CLASS_SAMPLED)
        return NULL;
    /* Objects beyond a page lie in blocks of their own, which many a program has no need of. */
    if (size <= CLASS_LENT_DENSE && most > CLASS_LENT_DENSE)
        most = CLASS_LENT_DENSE;
    for (unsigned i = class + 1; i < SIZES_CLASSES && sizes_of(i) <= most; i++) {
        struct stook_cache *cache = __atomic_load_n(&class_cache[i], __ATOMIC_ACQUIRE);
        size_t more = sizes_of(i) - size;
        if (!cache)
            continue;
        if (more < CLASS_LENT_LEAST)
            more = CLASS_LENT_LEAST;
        more += __atomic_load_n(&class_lent[class], __ATOMIC_RELAXED);
        if (more > CLASS_LENT_BYTES)
            return NULL;
        __atomic_store_n(&class_lent[class], (uint16_t)more,
                         __ATOMIC_RELAXED); /* racy: some more */
        return cache;
    }
    return NULL;
}

void class_make(void)
{
    struct stook_private_view view;

    stook_private_view(&view);
    fast.slots = (uintptr_t)view.areas;
    fast.rseq_offset = view.rseq_offset;
    /* Other threads read these two before they find out that malloc has started. */
    __atomic_store_n(&fast.pop, view.pop, __ATOMIC_RELEASE);
    __atomic_store_n(&fast.push, view.push, __ATOMIC_RELEASE);
    fast.base = view.base;
    fast.entries = (const uint16_t(*)[2])(const void *)view.entries;
    fast.key = view.key;
    class_left = (char *)view.left - (char *)__builtin_thread_pointer();
    class_canary = view.canary;
    class_byte = view.perturb; /* as glibc's malloc does: test suites set it */
    class_closed |= (view.tokens ? CLASS_PARTED : 0u) | (view.perturb ? CLASS_PERTURBED : 0u);
    fast.keeps_deepbind = view.keeps_deepbind;
    for (unsigned i = 0; i < SIZES_CLASSES; i++)
        if (class_is_first(i) && !class_add(0, i))
            report_fatal("malloc cannot start: no memory for the size classes");
    stook_private_on_change(class_changes);
}

static void *class_large(size_t size, size_t align, bool *zeroed, const void *from)
{
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    return stook_private_large_alloc(size, align, zeroed, from);
}

/*
 * The class has none: because memory is short, or because a handler interrupted a call on this
 * class and cannot wait for it.  Larger classes may have some at hand, under other locks; but not for
 * one who is at his limit.  malloc's only error is ENOMEM.
 */
static __attribute__((noinline, cold)) void *class_alloc_larger(unsigned class, size_t size,
                                                                const void *from)
{
    unsigned tried = 0;
    void *object = NULL;

    while (!object && errno != EDQUOT && tried < CLASS_LARGER && ++class < SIZES_CLASSES) {
        struct stook_cache *cache = class_found(class_partition(from), class);
        if (!cache) /* not made yet */
            continue;
        object = stook_private_alloc(cache, size, 0, from);
        tried++;
    }
    /* Of no other partition; and of no class, where there is no larger one. */
    if (!object && (class_is_parted() || tried == 0) && errno != EDQUOT)
        object = stook_private_large_alloc(size, 1, NULL, from);
    if (!object)
        errno = ENOMEM;
    return object;
}

/* The fast path of a cache that the table of sizes does not have: of one partition, or one that lends. */
static inline bool class_pop(struct stook_cache *cache, void **object)
{
    const struct stook_cache_head *head = (const struct stook_cache_head *)cache;

    if ((__atomic_load_n(&class_closed, __ATOMIC_RELAXED) & ~(unsigned)CLASS_PARTED) != 0 ||
        !stook_rseq_pop(__atomic_load_n(&head->slots, __ATOMIC_RELAXED), fast.rseq_offset, object))
        return false;
    *stook_private_mark(*object) = 0;
    return true;
}

/* A class without a cache yet. */
static __attribute__((noinline, cold)) void *class_small_first(unsigned class, size_t size,
                                                               const void *from)
{
    int saved = errno;
    struct stook_cache *borrowed = class_borrow(class);
    struct stook_cache *cache = borrowed ? borrowed : class_get(class_partition(from), class);
    void *object;

    if (cache && class_pop(cache, &object))
        return object;
    object = cache ? stook_private_alloc(cache, size, 0, from) : NULL;
    if (object)
        return object;
    if (cache)
        return class_alloc_larger(class, size, from);
    errno = 0; /* no class has refused yet */
    object = class_alloc_larger(class, size, from);
    if (object)
        errno = saved;
    return object;
}

static void *class_small(size_t size, const void *from)
{
    unsigned class = class_of(size), partition = class_partition(from);
    struct stook_cache *cache = class_found(partition, class);
    void *object;

    if (__builtin_expect(!cache, 0))
        return class_small_first(class, size, from);
    if (class_pop(cache, &object))
        return object;
    object = stook_private_alloc(cache, size, 0, from);
    return __builtin_expect(object != NULL, 1) ? object : class_alloc_larger(class, size, from);
}

/*
 * The fast path in locked mode, and of an allocation that is counted, and is no sample.  stook_private_alloc() counts
 * every other one.
 */
static inline bool class_again(size_t size, void **object)
{
    size_t step = (size + SIZES_STEP - 1) / SIZES_STEP;
    int64_t *left = NULL;

    /* Acquire: pairs with class_show().  Before a slot is shown class_left is 0, and would lead to libc's own words. */
    if (size > SIZES_MAX || !__atomic_load_n(&fast.slot[FAST_AGAIN][step], __ATOMIC_ACQUIRE))
        return false;
    if (__builtin_expect(__atomic_load_n(&class_closed, __ATOMIC_RELAXED) != 0, 0))
        left = (int64_t *)((char *)__builtin_thread_pointer() + class_left);
    if (left && *left - 1 <= (int64_t)size)
        return false;
    if (!(FAST_TESTED(pop) ? fast_alloc_by(FAST_TESTED(pop), FAST_AGAIN, size, object)
                           : fast_alloc(FAST_AGAIN, size, object)))
        return false;
    if (left)
        *left -= (int64_t)size + 1;
    return true;
}

static __attribute__((noinline)) void *class_alloc_slow(size_t size, bool *zeroed, const void *from)
{
    void *object;

    if (!start_malloc()) {
        if (zeroed)
            *zeroed = true;
        return boot_alloc(1, size);
    }
    object = class_is_large(size) ? class_large(size, 1, zeroed, from) : class_small(size, from);
    return zeroed ? object : class_filled(object, size);
}

/* A large object, where nothing is counted or filled. */
static inline bool class_is_pages(size_t size)
{
    return !fast_is_closed() && class_is_large(size); /* class_canary is seen behind the first */
}

void *class_alloc(size_t size, bool *zeroed, const void *from)
{
    void *object;

    if (zeroed)
        *zeroed = false;
    if (class_is_pages(size))
        return class_large(size, 1, zeroed, from);
    return class_again(size, &object) ? object : class_alloc_slow(size, zeroed, from);
}

void *class_alloc_aligned(size_t align, size_t size, const void *from)
{
    if (!start_malloc())
        return boot_alloc(align, size);
    if (align <= STOOK_ALIGN_MAX && !class_is_large(size)) {
        /* Slabs begin at a page: a class that is a multiple of the alignment has it throughout. */
        unsigned class = class_of(size < align ? align : size);
        while (class < SIZES_CLASSES && sizes_of(class) % align != 0)
            class ++;
        struct stook_cache *cache =
            class < SIZES_CLASSES ? class_get(class_partition(from), class) : NULL;
        if (cache) {
            void *object = stook_private_alloc(cache, size, align, from);
            if (!object)
                errno = ENOMEM;
            return class_filled(object, size);
        }
    }
    return class_filled(class_large(size, align, NULL, from), size);
}

void class_free_as(void *object, const char *call, enum stook_private_call as, size_t said)
{
    struct stook_cache *cache;
    uintptr_t index;
    bool start;
    size_t size;

    if (fast_may_be_pages(object) && stook_private_large_free(object))
        return;
    if (fast_free_by(FAST_TESTED(push), FAST_TESTED(size_locked), object) || !object ||
        !start_malloc())
        return;
    if (fast_is_live(object, FAST_TESTED(size) + FAST_TESTED(size_locked), &index)) {
        stook_private_free_live(index, object, fast_marked(object)); /* main was full */
        return;
    }
    cache = stook_private_cache_of(object, &size, &start);
    if (cache && start) {
        if (stook_private_freed(cache, object, call, true, fast_marked(object)))
            return;
        if (__builtin_expect(class_filling() != 0, 0))
            class_fill(object, class_filling(), size);
        stook_private_free(cache, object, as, said, fast_marked(object));
    } else if ((!cache && stook_private_large_free(object)) || boot_size(object) != 0) {
        return;
    } else if (libc_heap_has(object)) {
        libc_heap.free(object);
    } else {
        stook_private_bad_pointer(call, object);
    }
}

size_t class_size(const void *object, const char *call)
{
    const struct stook_cache *cache;
    uintptr_t index;
    bool start;
    size_t size;

    if (fast_is_live(object, FAST_TESTED(size) + FAST_TESTED(size_locked), &index))
        return stook_private_room(index);
    if (fast_may_be_pages(object) && (size = stook_private_large_size(object)) != 0)
        return size;
    size = boot_size(object);
    if (__builtin_expect(size != 0, 0) || !start_malloc())
        return size;
    cache = stook_private_cache_of(object, &size, &start);
    if (cache) {
        if (start && __builtin_expect(size == 0, 0))
            return (void)stook_private_live(object, call), size; /* the report */
        if (start)
            return stook_private_freed(cache, object, call, false, fast_marked(object)) ? 0 : size;
        stook_private_bad_pointer(call, object);
        return 0;
    }
    size = stook_private_large_size(object);
    if (size == 0 && !libc_heap_has(object))
        stook_private_bad_pointer(call, object);
    return size;
}
