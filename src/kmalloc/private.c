/* SPDX-License-Identifier: MIT */
/*
 * private.c - the calls that libstook-malloc.so makes: classes, large objects, sizes, totals, wrong pointers.
 */
#include "kmalloc/private.h"
#include "kmalloc/sampled.h"
#include "observe/observe.h"

#include "charge/group.h"
#include "charge/group_stock.h"
#include "trace/trace.h"
#include "base/context.h"
#include "base/hooks.h"
#include "base/placed.h"
#include "base/report.h"
#include "cache/init.h"
#include "base/settings.h"
#include "charge/accounted.h"
#include "debug/object.h"
#include "debug/pages.h"
#include "guard/guard.h"
#include "sample/shadow.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "os/topology.h"
#include "page/arena.h"
#include "large/edge.h"
#include "large/large.h"
#include "page/window.h"
#include "sheaf/slot_sections.h"
#include "slab/column.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/wrong.h"
#include "slab/stat.h"

#include <errno.h>
#include <string.h>

enum { PRIVATE_CLASSES = 1024 /* 62 in each partition */ };

bool stook_private_start(unsigned interface, const char *version, void (*make)(void))
{
    static struct once once;

    if (interface != STOOK_PRIVATE_INTERFACE)
        report_fatal("libstook-malloc %s (private interface %u) does not fit libstook %s (private "
                     "interface %u): install both from one release",
                     version, interface, STOOK_VERSION_STRING, STOOK_PRIVATE_INTERFACE);
    if (!init_once())
        return false;
    if (once_begin(&once)) {
        private_limit();
        make();
        once_end(&once);
    }
    return once_is_done(&once);
}

/* In the context: a handler that interrupts this thread in the slot finds that it did. */
static int private_pop(const void *slot, intptr_t rseq_offset, void **object)
{
    uint32_t got;

    (void)rseq_offset;
    (void)context_enter();
    got = slot_pop_locked((uintptr_t)slot - (uintptr_t)percpu.areas, object, 1);
    context_leave();
    return got == 1;
}

static int private_push(const void *slot, intptr_t rseq_offset, void *object)
{
    uint32_t put;

    (void)rseq_offset;
    (void)context_enter();
    put = slot_push_locked((uintptr_t)slot - (uintptr_t)percpu.areas, &object, 1);
    context_leave();
    return put == 1;
}

void stook_private_view(struct stook_private_view *view)
{
    view->areas = percpu.areas;
    view->rseq_offset = percpu.rseq_offset;
    view->pop = percpu.rseq ? NULL : private_pop;
    view->push = percpu.rseq ? NULL : private_push;
    view->base = pagemap.middle;
    view->entries = pagemap_at((void *)pagemap.middle);
    view->tokens = setting_number(SETTING_HARDEN) & SETTING_HARDEN_TOKENS;
    view->canary = setting_number(SETTING_HARDEN) & SETTING_HARDEN_QUARANTINE ? CACHE_CANARY : 0;
    view->perturb = (unsigned char)setting_number(SETTING_PERTURB);
    view->key = 0;
    for (unsigned i = 0; i < sizeof(view->key) / sizeof(uint16_t); i++)
        view->key = view->key << 16 | cache_secret();
    view->keeps_deepbind = setting_number(SETTING_DEEPBIND);
    view->left = &sample_left;
}

_Static_assert((int)STOOK_PRIVATE_CLOSES_ALL == HOOKS_CLOSES_ALL &&
                   (int)STOOK_PRIVATE_CLOSES_ALLOC == HOOKS_CLOSES_ALLOC &&
                   (int)STOOK_PRIVATE_GROWS == HOOKS_MALLOC_WINDOW &&
                   (int)STOOK_PRIVATE_CLOSES == HOOKS_MALLOC_CLOSES,
               "malloc's calls close by the numbers of base/hooks.h");

void stook_private_on_change(void (*fn)(unsigned what, size_t value))
{
    context_enter();
    accounted_on_malloc(fn);
    context_leave();
}

_Static_assert((int)STOOK_PRIVATE_MALLOC == DEBUG_CALL_MALLOC &&
                   (int)STOOK_PRIVATE_NEW == DEBUG_CALL_NEW &&
                   (int)STOOK_PRIVATE_NEW_ARRAY == DEBUG_CALL_NEW_ARRAY,
               "the calls of malloc have the numbers that debug caches know");

static enum debug_call private_call(const void *from)
{
    unsigned call = (unsigned)((uintptr_t)from >> STOOK_PRIVATE_CALL_SHIFT);

    return call ? (enum debug_call)call : DEBUG_CALL_MALLOC;
}

static uint64_t private_where(const void *from)
{
    return where_address(
        (const void *)((uintptr_t)from & (((uintptr_t)1 << STOOK_PRIVATE_CALL_SHIFT) - 1)));
}

static __attribute__((noinline, cold)) void private_free_debug(struct stook_cache *cache,
                                                               void *object, enum debug_call call,
                                                               size_t size)
{
    struct debug_asks before = debug_ask((struct debug_asks){size, call, object});

    free_object(cache, object);
    (void)debug_ask(before);
}

/* Only malloc's own objects have marks, and samples in their place. */
static bool private_is_marked(const struct stook_cache *cache)
{
    return (cache->flags & (CACHE_MALLOC | CACHE_SHADOW)) &&
           !(cache->flags & (CACHE_DEBUG | CACHE_HARDENED));
}

/* Its frame is one of those of the deepest path of free(). */
void stook_private_free(struct stook_cache *cache, void *object, enum stook_private_call call,
                        size_t size, uint64_t mark)
{
    if (private_is_marked(cache))
        *stook_private_mark(object) = mark;
    if (__builtin_expect(cache->flags & (CACHE_DEBUG | STOOK_CACHE_QUARANTINE), 0))
        private_free_debug(cache, object, (enum debug_call)call, size);
    else
        free_object(cache, object);
}

void stook_private_free_live(uintptr_t index, void *object, uint64_t mark)
{
    *stook_private_mark(object) = mark;
    free_slow(cache_table[index], object);
}

size_t stook_private_room(uintptr_t index)
{
    return cache_table[index]->layout.room;
}

/* Malloc's classes: they stay. */
static struct stook_cache *private_class[PRIVATE_CLASSES] HEAD_BSS;
static _Atomic unsigned private_classes;

/* 1 + fork_count of the thread that makes one: a child does not wait for its parent's threads. */
static _Atomic uint32_t private_adding;

bool stook_private_class_begin(void)
{
    uint32_t own = 1 + atomic_load_explicit(&fork_count, memory_order_relaxed), old = 0;

    if (!init_once() || context_self()->depth > 0 || context_holds_all())
        return false;
    /* Acquire: pairs with the release of the thread before. */
    return atomic_compare_exchange_strong_explicit(&private_adding, &old, own, memory_order_acquire,
                                                   memory_order_relaxed) ||
           (old != own &&
            atomic_compare_exchange_strong_explicit(&private_adding, &old, own,
                                                    memory_order_acquire, memory_order_relaxed));
}

void stook_private_class_end(void)
{
    atomic_store_explicit(&private_adding, 0, memory_order_release);
}

/* Between begin and end. */
static void private_add_class(struct stook_cache *cache)
{
    unsigned n = atomic_load_explicit(&private_classes, memory_order_relaxed);

    if (n < PRIVATE_CLASSES) {
        private_class[n] = cache;
        /* Pairs with the loads in stook_private_trim() and stook_private_totals(). */
        atomic_store_explicit(&private_classes, n + 1, memory_order_release);
    }
}

LOCK_UNCHECKED struct stook_cache *private_cache(const char *name, size_t size,
                                                 const struct stook_cache_args *args, bool wait)
{
    struct stook_cache *cache = NULL;

    if (!init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    context_enter();
    if (wait)
        lock_take(&cache_list.lock, LOCK_CACHES);
    if (wait || lock_enter(&cache_list.lock, LOCK_CACHES, false)) {
        cache = cache_make(name, size, args);
        lock_drop(&cache_list.lock, LOCK_CACHES);
    } else {
        errno = ENOMEM;
    }
    context_leave();
    return cache;
}

struct stook_cache *stook_private_class(const char *name, size_t size, uint64_t *starts,
                                        struct stook_private_slab *slab)
{
    struct stook_cache_args args = {.align = size % 16 == 0 ? 16 : 8,
                                    .flags = CACHE_MALLOC | CACHE_SIZED | STOOK_CACHE_ADAPTIVE};
    /* Within a call of malloc, which does not wait for a fork; at the start there is no other class. */
    bool first = atomic_load_explicit(&private_adding, memory_order_relaxed) == 0;
    struct stook_cache *cache = private_cache(name, size, &args, first);

    if (!cache)
        return NULL;
    private_add_class(cache);
    if (cache->flags & (CACHE_DEBUG | CACHE_HARDENED))
        accounted_malloc_debug();
    if (starts)
        cache->start = &starts[cache->index];
    *slab = (struct stook_private_slab){
        .slot_offset = percpu_offset(cache->index),
        .bytes = (size_t)PAGE_SIZE << cache->layout.order,
        .stride = cache->layout.stride,
        /* 0: no address is a start, so that malloc's fast path takes none.  It does not know of a lead, and it would
         * mark objects. */
        .objects = cache->layout.lead || !private_is_marked(cache) ? 0 : cache->layout.objects};
    if (account_process) { /* before its first object */
        cache->account.owner = account_process;
        /* What is handed out, as of large objects; without zones. */
        cache->account.charge = cache->flags & CACHE_DEBUG ? (uint32_t)size : cache->layout.stride;
        cache->account.one.bytes = cache->account.charge;
        account_close(cache, ACCOUNT_GROUP | ACCOUNT_OWNER, true);
    }
    return cache;
}

bool stook_private_freed(const struct stook_cache *cache, const void *object, const char *call,
                         bool is_free, uint64_t mark)
{
    const struct debug_finding finding = {.what = DEBUG_REALLOC_FREED,
                                          .done = DEBUG_REFUSED,
                                          .cache = cache,
                                          .object = object,
                                          .at = object,
                                          .call = call};

    /* Bytes of other caches' objects are the user's, and may be fewer than a mark lies behind. */
    if (!private_is_marked(cache) || *stook_private_mark(object) != mark)
        return false;
    if (is_free)
        wrong_free(cache, object, DEBUG_DOUBLE_FREE);
    else
        wrong_found(&finding);
    return true;
}

struct stook_cache *stook_private_cache_of(const void *object, size_t *size, bool *start)
{
    struct stook_cache *cache = slab_user_cache(object);
    const struct slab *slab;
    uint32_t index;

    if (!cache)
        return NULL;
    slab = slab_find(cache, object, &index);
    *size = cache->layout.room;
    *start = object == slab_object(cache, slab, index) &&
             index < slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    if (__builtin_expect(cache->flags & (CACHE_KEPT | CACHE_SHADOW), 0))
        *size = observe_size(cache, slab, index, object, start);
    return cache;
}

/* An object that is accounted or traced, of at least one byte.  Not inlined: malloc's deepest path
 * goes by its caller. */
static SECOND_TEXT __attribute__((noinline)) void *private_accounted(struct stook_cache *cache,
                                                                     size_t size, size_t align,
                                                                     const void *from)
{
    bool traced = (cache_hooks(cache) & CACHE_CLOSED_WATCHED) && trace_is_active();
    struct debug_asks before;
    void *object;

    if (traced)
        trace_asked(size ? size : 1, align);
    before = debug_ask((struct debug_asks){size ? size : 1, private_call(from), NULL});
    object = accounted_alloc(cache, STOOK_WAIT, private_where(from), ACCOUNT_CURRENT);
    (void)debug_ask(before);
    if (traced)
        trace_asked(0, 0);
    if (object)
        observe_count(cache, private_where(from));
    return object;
}

__attribute__((cold)) void stook_private_resized(void *object, size_t size)
{
    struct stook_cache *cache = slab_user_cache(object);

    if (!cache) {
        (void)observe_large_resizes(object);
        observe_large_resized(object, large_bytes(object), stook_private_large_size(object), size,
                              0);
    } else if (cache->flags & CACHE_SIZED) { /* a typed object is always whole */
        observe_resize(cache, object, size);
    }
}

__attribute__((cold)) bool stook_private_live(const void *object, const char *call)
{
    const struct stook_cache *cache = slab_user_cache(object);

    return !cache || observe_live(cache, object, call);
}

/* The largest power of two that all objects of the cache are aligned to. */
static size_t private_align(const struct stook_cache *cache)
{
    size_t steps = cache->layout.lead | cache->layout.stride;

    return steps & -steps;
}

void *stook_private_alloc(struct stook_cache *cache, size_t size, size_t align, const void *from)
{
    uint32_t turn = lock_turn();
    void *object;

    /* Zones keep a class from being aligned as its size is. */
    if (__builtin_expect(cache->layout.lead != 0, 0) && align > private_align(cache))
        return stook_private_large_alloc(size, align, NULL, from);
    if (account_sampled() && !cache_hooks(cache) &&
        (object = sampled_alloc(cache, size, align, private_where(from), false)) != NULL)
        return object; /* without a mark: it may be smaller than that */
    object = cache_hooks(cache) ? private_accounted(cache, size, align, from)
                                : alloc_plain(cache, STOOK_WAIT);

    /* Beside a fork malloc has memory as long as there are mappings. */
    if (__builtin_expect(!object, 0) && errno != EDQUOT && lock_forked_since(turn))
        object = stook_private_large_alloc(cache->layout.room, 1, NULL, from);
    else if (object && private_is_marked(cache))
        *stook_private_mark(object) = 0;
    return object;
}

static void *private_large(size_t size, size_t align, bool *zeroed)
{
    void *object = large_again(size, align);

    if (object) {
        if (zeroed)
            *zeroed = false;
        return object;
    }
    object = large_alloc_any(size, align, context_enter(), zeroed);
    context_leave();
    return object;
}

void *stook_private_large_alloc(size_t size, size_t align, bool *zeroed, const void *from)
{
    void *object = private_large(observe_large_wanted(size), align, zeroed);

    if (object && !observe_large(object, size, account_process, STOOK_WAIT, private_where(from))) {
        (void)large_free(object);
        errno = ENOMEM; /* that is all that malloc may say */
        return NULL;
    }
    return object;
}

size_t stook_private_large_size(const void *object)
{
    return observe_large_size(object);
}

bool stook_private_large_free(void *object)
{
    return observe_large_free(&object) && (!object || large_free(object));
}

static bool private_resize(void *object, size_t size)
{
    bool nested = context_enter(), done = !nested && large_resize(object, size);

    context_leave();
    return done;
}

static bool private_large_resize(void *object, size_t size, const void *from)
{
    size_t had = large_bytes(object), used = stook_private_large_size(object);
    bool done;

    if (!observe_large_resizes(object) || !private_resize(object, observe_large_wanted(size)))
        return false;
    done = account_large_resized(object, had, STOOK_WAIT);
    if (!done)
        (void)private_resize(object, had);
    observe_large_resized(object, had, used, done ? size : used, private_where(from));
    return done;
}

static void *private_large_move(void *object, size_t size, const void *from)
{
    const struct large_note *note = large_note(object);
    size_t had = large_bytes(object);
    struct observe_move move;
    void *moved;

    /* Both are charged while a copy is made. */
    if (!note || note->owner || !observe_large_moves(object, &move))
        return NULL;
    moved = context_enter() ? NULL
                            : large_move(topology.home_of_node[percpu_node(percpu_cpu())], object,
                                         observe_large_wanted(size));
    context_leave();
    if (moved)
        account_large_moved(moved, had);
    observe_large_moved(object, moved, size, &move, private_where(from));
    return moved;
}

FIRST_TEXT void *stook_private_large_resize(void *object, size_t size, const void *from)
{
    if (private_large_resize(object, size, from))
        return object;
    return private_large_move(object, size, from);
}

__attribute__((cold)) size_t stook_private_trim(void)
{
    bool started = init_once();
    size_t bytes = 0;

    if (!context_enter() && started)
        bytes = cache_drain(private_class,
                            atomic_load_explicit(&private_classes, memory_order_acquire), false) +
                edge_trim() * PAGE_SIZE + arena_trim();
    context_leave();
    return bytes;
}

static __attribute__((cold)) void private_count(struct stook_private_totals *totals,
                                                struct stook_cache *cache)
{
    struct cache_counts counts;

    cache_count(cache, &counts);
    totals->slabs += counts.pages * PAGE_SIZE;
    totals->active += counts.active * cache->layout.stride;
    totals->objects += counts.active;
    totals->free_objects += counts.objects - counts.active;
    totals->free += (counts.objects - counts.active) * cache->layout.stride;
}

/* Samples of kmalloc() are counted, too: which of them a shadow cache holds is known for each object alone. */
__attribute__((cold)) void stook_private_totals(struct stook_private_totals *totals)
{
    unsigned classes = atomic_load_explicit(&private_classes, memory_order_acquire);
    struct arena_stat arena;
    bool started = init_once();
    uint64_t objects, bytes;

    memset(totals, 0, sizeof(*totals));
    if (!context_enter() && started) {
        for (unsigned i = 0; i < classes; i++)
            private_count(totals, private_class[i]);
        for (unsigned i = 0; i <= SHADOW_LAST - SHADOW_FIRST; i++)
            if (shadow_cache(i))
                private_count(totals, shadow_cache(i));
        large_count(&objects, &bytes);
        totals->large = bytes + atomic_load_explicit(&guard.live_bytes, memory_order_relaxed);
        totals->large_objects = objects + atomic_load_explicit(&guard.live, memory_order_relaxed);
        arena_stat(&arena);
        totals->warm = arena.warm;
        totals->used = arena.used;
    }
    context_leave();
}

void private_limit(void)
{
    size_t limit = setting_number(SETTING_LIMIT);

    if (limit == 0 || account_process)
        return;
    account_process = group_number(stook_group_create("malloc", STOOK_NO_GROUP, limit));
    if (!account_process)
        report_fatal("STOOK_LIMIT=%zu: no address space for groups", limit);
    /* Before its first stock. */
    atomic_store_explicit(&group_stocks.plain, account_process, memory_order_relaxed);
}

/* The large object that a pointer lies in; NULL. */
static const void *private_large_around(const void *pointer)
{
    for (const char *page = (const char *)((uintptr_t)pointer & ~(uintptr_t)(PAGE_SIZE - 1));
         pagemap_covers(page) && (uintptr_t)pointer - (uintptr_t)page < BLOCK_SIZE;
         page -= PAGE_SIZE) {
        size_t large = large_size(page);
        if (large > (size_t)((const char *)pointer - page))
            return page;
        if (large > 0 || slab_cache_of(page))
            break;
    }
    return NULL;
}

bool stook_private_is_foreign(const void *pointer)
{
    return (uintptr_t)pointer - pagemap.base >= pagemap.size && !guard_covers(pointer);
}

__attribute__((cold)) void stook_private_bad_pointer(const char *call, const void *pointer)
{
    struct debug_finding finding = {.done = DEBUG_REFUSED, .call = call, .at = pointer};
    const struct stook_cache *cache;
    uint32_t index;

    if (guard_covers(pointer)) {
        guard_bad_pointer(call, pointer);
        return;
    }
    cache = slab_cache_of(pointer);
    finding.what = DEBUG_NO_OBJECT;
    if (cache && !(cache->flags & CACHE_INTERNAL)) {
        (void)slab_of(cache, pointer, &index); /* it is the start of none */
        return;
    }
    if (cache) {
        finding.what = DEBUG_LIBRARY;
        finding.text = cache->name;
    } else if (stook_private_is_foreign(pointer)) {
        finding.what = DEBUG_FOREIGN;
    } else if (pages_holds(pointer)) {
        /* freed already */
    } else if (large_size(pointer) > 0) {
        finding.what = DEBUG_AT_ONCE;
    } else if ((finding.object = private_large_around(pointer)) != NULL) {
        finding.what = DEBUG_INTERIOR;
        finding.size = large_size(finding.object);
    }
    wrong_found(&finding);
}
