/* SPDX-License-Identifier: MIT */
/*
 * storm.h - many threads on few CPUs, everything at once, and every token counted.
 *
 * Included by a test after it has defined its sections (percpu/percpu.c is compiled into the test with
 * delays between the steps).  A token is an object: `owner` is 0 while the layer under test has it, and the number
 * of a thread while that thread has it.  Both changes are atomic exchanges, so the second taker or the first giver
 * of a token that is allocated twice sees that.  At the end every token must be found exactly once, and every sheaf.
 *
 * What stands above the percpu layer here is small: a depot a cache (locked lists of full and of
 * empty sheaves, and loose tokens, which play the slabs), and the two slow paths.
 */
#ifndef TESTS_SUPPORT_STORM_H
#define TESTS_SUPPORT_STORM_H

#include "support/percpu_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>

enum {
    STORM_CACHES = 4,
    STORM_TOKENS = 600,
    STORM_CAPACITY = 13,
    STORM_SHEAVES = 64,
    STORM_THREADS_MAX = 40,
    STORM_STASH = 24,
    STORM_HANDLER_STASH = 6,
    STORM_SLOT = 1
};

/* What a violation changes; storm_break is 0 in a storm that must pass. */
enum storm_break {
    BREAK_NOTHING,
    BREAK_LATE_END,
    BREAK_READ_BEFORE_FENCE,
    BREAK_MIXED_MODES,
    BREAK_STALE_CPU,
    BREAK_HANDLER_DROPS
};

struct storm_token {
    _Atomic uint32_t owner;
    uint32_t cache, seen;
};

struct storm_depot {
    pthread_mutex_t mutex;
    struct sheaf *full, *empty;
    unsigned loose;
    struct storm_token *loose_token[2 * STORM_TOKENS];
};

struct storm_thread {
    pthread_t thread;
    unsigned number; /* owner of what it holds */
    _Atomic pid_t tid;
    uint64_t random, handler_random;
    bool unregistered, mixed, stale;
    unsigned stash[STORM_CACHES], handler_stash[STORM_CACHES];
    struct storm_token *stashed[STORM_CACHES][STORM_STASH + 16];
    struct storm_token *handler_stashed[STORM_CACHES][STORM_HANDLER_STASH];
    uint64_t operations, slow, fences;
    _Atomic uint64_t signals, takes, migrations; /* read while it runs */
};

struct storm_args {
    enum storm_break broken;
    unsigned threads, unregistered, takers, migrators, seconds_tenths;
    /* Goes on until there were so many, however slow the machine is. */
    uint64_t migrations, takes, signals;
};

struct storm_result {
    uint64_t operations, slow, signals, migrations, takes, fences, errors;
    char first[160];
};

static struct storm_args storm;
static struct storm_token storm_tokens[STORM_CACHES][STORM_TOKENS];
static struct storm_depot storm_depots[STORM_CACHES];
static struct storm_thread storm_threads[STORM_THREADS_MAX];
static unsigned storm_started;
static atomic_bool storm_stop;
static _Atomic uint64_t storm_errors;
static char storm_first[160];
static __thread struct storm_thread *storm_self;

/* Read by the delays between the steps of a section: pass so many steps, then spin so long. */
__thread int storm_step_skip, storm_step_spin;

static void storm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void storm_error(const char *format, ...)
{
    va_list args;

    if (atomic_fetch_add(&storm_errors, 1) == 0) {
        va_start(args, format);
        vsnprintf(storm_first, sizeof(storm_first), format, args);
        va_end(args);
    }
    if (storm.broken) /* seen: enough */
        atomic_store(&storm_stop, true);
}

static inline uint64_t storm_next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

static inline uintptr_t storm_offset(unsigned cache)
{
    return percpu_offset(STORM_SLOT + cache);
}

/* Delays for the next section. */
static inline void storm_widen(uint64_t r)
{
    bool delay = (r & 7) == 0;

    storm_step_skip = delay ? (int)(r >> 8 & 7) : -1;
    storm_step_spin = delay ? (int)(r >> 16 & 2047) : 0;
}

/* A delay between the steps that are no section. */
static inline void storm_pause(uint64_t r)
{
    for (unsigned n = (r >> 24 & 15) ? 0 : (unsigned)(r >> 32 & 2047); n > 0; n--)
        __asm__ __volatile__("");
}

/* ---- tokens --------------------------------------------------------------------------------- */

static struct storm_token *storm_receive(unsigned cache, void *object, unsigned me)
{
    struct storm_token *token = object;
    ptrdiff_t index = token - storm_tokens[cache];
    uint32_t owner;

    if (index < 0 || index >= STORM_TOKENS) {
        storm_error("cache %u handed out %p, which is no token of it", cache, object);
        return NULL;
    }
    owner = atomic_exchange(&token->owner, me);
    if (owner != 0)
        storm_error("token %td of cache %u handed out to %u while %u has it", index, cache, me,
                    owner);
    return token;
}

static void *storm_give(struct storm_token *token, unsigned me)
{
    uint32_t owner = atomic_exchange(&token->owner, 0);

    if (owner != me)
        storm_error("a token of cache %u given back by %u belongs to %u", token->cache, me, owner);
    return token;
}

/* ---- the depot ------------------------------------------------------------------------------ */

static struct sheaf *depot_get(unsigned cache, bool full)
{
    struct storm_depot *depot = &storm_depots[cache];
    struct sheaf **list = full ? &depot->full : &depot->empty, *sheaf;

    pthread_mutex_lock(&depot->mutex);
    sheaf = *list;
    if (sheaf)
        *list = sheaf->next;
    pthread_mutex_unlock(&depot->mutex);
    return sheaf;
}

/* NULL and sheaf_none are no sheaves. */
static void depot_put(unsigned cache, struct sheaf *sheaf)
{
    struct storm_depot *depot = &storm_depots[cache];
    struct sheaf **list;

    if (!sheaf || sheaf == SHEAF_NONE)
        return;
    list = sheaf->size > 0 ? &depot->full : &depot->empty;
    pthread_mutex_lock(&depot->mutex);
    sheaf->next = *list;
    *list = sheaf;
    pthread_mutex_unlock(&depot->mutex);
}

static void *depot_get_loose(unsigned cache)
{
    struct storm_depot *depot = &storm_depots[cache];
    void *object = NULL;

    pthread_mutex_lock(&depot->mutex);
    if (depot->loose > 0)
        object = depot->loose_token[--depot->loose];
    pthread_mutex_unlock(&depot->mutex);
    return object;
}

static void depot_put_loose(unsigned cache, void *object)
{
    struct storm_depot *depot = &storm_depots[cache];

    pthread_mutex_lock(&depot->mutex);
    if (depot->loose < 2 * STORM_TOKENS)
        depot->loose_token[depot->loose++] = object;
    else
        storm_error("more tokens than there are");
    pthread_mutex_unlock(&depot->mutex);
}

/* ---- the slow paths: fetch first, then close, move pointers, open ------------------------------ */

static struct sheaf *storm_close(struct storm_thread *self, unsigned cache, struct slot **slot)
{
    struct sheaf *main;
    void **begin;
    int cpu;

    if (!self->mixed)
        return slot_close(storm_offset(cache), slot, false);
    /* Rule 3 broken: an exchange, as if the slot had no sections of other threads on it. */
    cpu = sched_getcpu();
    if ((self->random & 7) == 0)
        sched_yield(); /* nothing holds it on that CPU */
    *slot = cpu < 0 ? NULL : percpu_slot((unsigned)cpu, storm_offset(cache));
    if (!*slot)
        return NULL;
    begin = atomic_exchange(&(*slot)->begin, SLOT_CLOSED);
    if (begin == SLOT_CLOSED)
        return NULL;
    atomic_store(&(*slot)->end, NULL);
    if (!begin)
        return SHEAF_NONE;
    main = (struct sheaf *)(void *)((char *)begin - offsetof(struct sheaf, object));
    main->size = (uint32_t)(atomic_load(&(*slot)->top) - begin);
    if (main->size > STORM_CAPACITY) {
        storm_error("top is not in the sheaf");
        main->size = 0;
    }
    return main;
}

static struct sheaf *storm_real(struct sheaf *main)
{
    return main == SHEAF_NONE ? NULL : main;
}

static void *storm_alloc_slow(struct storm_thread *self, unsigned cache)
{
    struct sheaf *full = depot_get(cache, true), *empty = NULL, *main;
    uint64_t r = storm_next(&self->random);
    struct slot *slot;
    void *object = NULL;

    self->slow++;
    storm_widen(r);
    main = storm_close(self, cache, &slot);
    if (main) {
        storm_pause(r);
        struct sheaf *spare = slot->spare;
        if (main->size == 0 && spare && spare->size > 0) {
            slot->spare = storm_real(main);
            main = spare;
        } else if (main->size == 0 && full) {
            if (!spare)
                slot->spare = storm_real(main);
            else
                empty = storm_real(main);
            main = full;
            full = NULL;
        }
        if (main->size > 0)
            object = main->object[--main->size];
        slot_open(slot, main);
    }
    depot_put(cache, full);
    depot_put(cache, empty);
    return object ? object : depot_get_loose(cache);
}

static void storm_free_slow(struct storm_thread *self, unsigned cache, void *object)
{
    struct sheaf *empty = depot_get(cache, false), *full = NULL, *main;
    uint64_t r = storm_next(&self->random);
    struct slot *slot;

    self->slow++;
    storm_widen(r);
    main = storm_close(self, cache, &slot);
    if (main) {
        storm_pause(r);
        struct sheaf *spare = slot->spare;
        if (main->size == main->capacity && spare && spare->size < spare->capacity) {
            slot->spare = storm_real(main);
            main = spare;
        } else if (main->size == main->capacity && empty) {
            if (!spare)
                slot->spare = storm_real(main);
            else
                full = storm_real(main);
            main = empty;
            empty = NULL;
        }
        if (main->size < main->capacity) {
            main->object[main->size++] = object;
            object = NULL;
        }
        slot_open(slot, main);
    }
    depot_put(cache, empty);
    depot_put(cache, full);
    if (object)
        depot_put_loose(cache, object);
}

/* ---- one operation ---------------------------------------------------------------------------- */

static bool storm_pop(unsigned cache, uint64_t r, void **object)
{
    storm_widen(r);
#if defined(STOOK_INLINE_SECTIONS)
    if (r & 1 << 12)
        return stook_rseq_pop(percpu.areas + storm_offset(cache), percpu.rseq_offset, object);
#endif
    return slot_pop(storm_offset(cache), object);
}

static bool storm_push(unsigned cache, uint64_t r, void *object)
{
    storm_widen(r);
#if defined(STOOK_INLINE_SECTIONS)
    if (r & 1 << 12)
        return stook_rseq_push(percpu.areas + storm_offset(cache), percpu.rseq_offset, object);
#endif
    return slot_push(storm_offset(cache), object);
}

static void storm_operation(struct storm_thread *self)
{
    uint64_t r = storm_next(&self->random);
    unsigned cache = r >> 40 & (STORM_CACHES - 1), k = 1 + (unsigned)(r >> 44 & 15) % 11;
    struct storm_token **stashed = self->stashed[cache], *token;
    unsigned *n = &self->stash[cache];
    bool bulk = (r >> 48 & 7) == 0;
    void *objects[16];

    self->operations++;
    if (*n == 0 || (*n < STORM_STASH && (r & 1 << 13))) {
        uint32_t got = 1;
        storm_widen(r);
        if (bulk)
            got = slot_pop_bulk(storm_offset(cache), objects, k);
        else if (!storm_pop(cache, r, objects))
            got = (objects[0] = storm_alloc_slow(self, cache)) != NULL;
        for (uint32_t i = 0; i < got; i++)
            if ((token = storm_receive(cache, objects[i], self->number)) != NULL)
                stashed[(*n)++] = token;
    } else if (bulk) {
        uint32_t put;
        if (k > *n)
            k = *n;
        for (unsigned i = 0; i < k; i++)
            objects[i] = storm_give(stashed[*n - 1 - i], self->number);
        *n -= k;
        storm_widen(r);
        put = slot_push_bulk(storm_offset(cache), objects, k);
        while (put < k)
            storm_free_slow(self, cache, objects[put++]);
    } else {
        void *object = storm_give(stashed[--*n], self->number);
        if (!storm_push(cache, r, object))
            storm_free_slow(self, cache, object);
    }
    if ((r >> 52 & 127) == 0)
        sched_yield();
    if ((r >> 52 & 2047) == 1)
        fixture_pin(fixture_cpu[(r >> 20) % fixture_cpus]);
}

/* ---- signals: pops, pushes, and swaps of main and spare ---------------------------------------- */

static void storm_handler(int signal)
{
    struct storm_thread *self = storm_self;
    int saved = errno;

    if (!self)
        return;
    uint64_t r = storm_next(&self->handler_random);
    unsigned cache = r >> 40 & (STORM_CACHES - 1), *n = &self->handler_stash[cache];
    void *object;
    atomic_fetch_add_explicit(&self->signals, 1, memory_order_relaxed);
    if (*n < STORM_HANDLER_STASH && storm_pop(cache, r, &object)) {
        struct storm_token *token = storm_receive(cache, object, self->number);
        if (token)
            self->handler_stashed[cache][(*n)++] = token;
    } else if (*n > 0) {
        struct storm_token *token = self->handler_stashed[cache][--*n];
        object = storm_give(token, self->number);
        if (!storm_push(cache, r, object) && storm.broken != BREAK_HANDLER_DROPS) {
            storm_receive(cache, object, self->number);
            self->handler_stashed[cache][(*n)++] = token;
        }
    }
    struct slot *slot;
    struct sheaf *main = (r & 3) ? NULL : slot_close(storm_offset(cache), &slot, true);
    if (main) {
        if (slot->spare) {
            struct sheaf *spare = slot->spare;
            slot->spare = storm_real(main);
            main = spare;
        }
        slot_open(slot, main);
    }
    storm_widen(1);
    errno = saved;
}
#endif
