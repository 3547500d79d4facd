/* SPDX-License-Identifier: MIT */
/*
 * sites.c - the table of call stacks of samples: records that are opened step by step, and hash tables of their
 * numbers.
 */
#include "sample/sites.h"

#include "base/placed.h"
#include "os/os.h"
#include "site/modules.h"
#include "site/tag.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

enum {
    SITES_NEAR =
        1024, /* places of the first table of numbers, a page; most programs need no other */
    SITES_FAR = 4 * SITES_MOST,
    SITES_PROBES = 16,
    SITES_STEP = 64 * 1024, /* bytes of records that are opened at a time */
    SITES_SHARE = 64, /* the records are one part in so many of a limited address space, at most */
};
_Static_assert(sizeof(struct site) % 8 == 0 && offsetof(struct site, came) == 88 &&
                   offsetof(struct site, frames) == 184,
               "the record has no holes, and is the same everywhere");
_Static_assert(SITES_MOST * sizeof(struct site) % SITES_STEP == 0,
               "the last step ends with the records");
_Static_assert((SITES_NEAR & (SITES_NEAR - 1)) == 0 && (SITES_FAR & (SITES_FAR - 1)) == 0, "masks");

struct sites sites = {.format = SITES_FORMAT,
                      .size = sizeof(struct sites),
                      .record = sizeof(struct site),
                      .most = SITES_MOST,
                      .frames = SITES_FRAMES,
                      .one = SITES_ONE,
                      .used = 1};

/* Numbers of records by hash; 0: free. */
static _Atomic uint32_t sites_near[SITES_NEAR] LARGE_BSS;
static _Atomic(_Atomic uint32_t *) sites_far;
/* Bytes of records that may be read and written.  Limits of data and of commitment do not count the others. */
static _Atomic size_t sites_open = SITES_STEP;

static _Atomic uint32_t *sites_map_far(void)
{
    const size_t size = SITES_FAR * sizeof(*sites_near);
    _Atomic uint32_t *found = atomic_load_explicit(&sites_far, memory_order_acquire), *fresh;

    if (found || (fresh = os_map(size)) == NULL)
        return found;
    if (atomic_compare_exchange_strong_explicit(&sites_far, &found, fresh, memory_order_acq_rel,
                                                memory_order_acquire))
        return fresh;
    os_unmap(fresh, size);
    return found;
}

/* It asks the kernel for nothing: a sandbox may end a process at any call. */
uint32_t sites_thread(void)
{
    clockid_t clock;

    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(uint32_t)((int32_t)clock >> 3)
                                                              : 0;
}

static bool sites_same(const struct site *a, const struct site *b)
{
    return a->hash == b->hash && a->kind == b->kind && a->cache == b->cache &&
           a->group == b->group && a->thread == b->thread && a->depth == b->depth &&
           memcmp(a->name, b->name, sizeof(a->name)) == 0 &&
           memcmp(a->frames, b->frames, a->depth * sizeof(a->frames[0])) == 0;
}

static uint32_t sites_hash(const struct site *key)
{
    uint64_t hash =
        (uint64_t)key->cache << 32 ^ key->group ^ (uint64_t)key->thread << 16 ^ key->kind;

    for (unsigned i = 0; i < key->depth; i++) {
        hash = (hash ^ key->frames[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    hash *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

/* Bytes of address space for all records. */
static size_t sites_room(void)
{
    size_t most = SITES_MOST * sizeof(struct site), room = os_space_limit / SITES_SHARE;

    return room >= most ? most : room < SITES_STEP ? SITES_STEP : room / SITES_STEP * SITES_STEP;
}

/* Those of the first step may be used. */
struct site *sites_begin(void)
{
    const size_t size = sites_room();
    struct site *found = atomic_load_explicit(&sites.site, memory_order_acquire), *fresh;

    if (found || (fresh = os_reserve(size, os_page_size())) == NULL)
        return found;
    os_dump(fresh, size, false);
    if (!os_unguard(fresh, SITES_STEP))
        found = NULL;
    else if (atomic_compare_exchange_strong_explicit(&sites.site, &found, fresh,
                                                     memory_order_acq_rel, memory_order_acquire))
        return fresh;
    os_unmap(fresh, size);
    return found;
}

/* The first `n` records may be used; false: the kernel refuses. */
static bool sites_opened(struct site *records, uint32_t n)
{
    size_t open = atomic_load_explicit(&sites_open, memory_order_acquire);

    if (n * sizeof(*records) > sites_room())
        return false;
    while (open < n * sizeof(*records)) {
        if (!os_unguard((char *)records + open, SITES_STEP))
            return false;
        if (atomic_compare_exchange_strong_explicit(&sites_open, &open, open + SITES_STEP,
                                                    memory_order_acq_rel, memory_order_acquire))
            open += SITES_STEP;
    }
    return true;
}

/* A record that is the caller's until it is complete; 0: there are no more. */
static uint32_t sites_take(struct site *records)
{
    uint32_t number = atomic_load_explicit(&sites.used, memory_order_relaxed);

    do
        if (number >= SITES_MOST || !sites_opened(records, number + 1))
            return 0;
    while (!atomic_compare_exchange_weak_explicit(&sites.used, &number, number + 1,
                                                  memory_order_relaxed, memory_order_relaxed));
    return number;
}

/* In one of the tables: the key's number, made if need be.  0: there is no place, or no record. */
static uint32_t sites_probe(_Atomic uint32_t *table, uint32_t room, const struct site *key,
                            uint32_t *own)
{
    struct site *records = atomic_load_explicit(&sites.site, memory_order_relaxed), *fresh;

    for (uint32_t i = 0; i < SITES_PROBES; i++) {
        _Atomic uint32_t *place = &table[(key->hash + i) & (room - 1)];
        /* Acquire: the record, which is complete before its number is in a table. */
        uint32_t number = atomic_load_explicit(place, memory_order_acquire);
        if (number == 0) {
            if (*own == 0 && (*own = sites_take(records)) == 0)
                return 0;
            fresh = &records[*own];
            if (atomic_load_explicit(&fresh->state, memory_order_relaxed) != SITE_READY) {
                memcpy(fresh, key,
                       offsetof(struct site, frames) + key->depth * sizeof(key->frames[0]));
                for (unsigned k = 0; k < key->depth; k++)
                    modules_note(key->frames[k]);
                atomic_store_explicit(&fresh->state, SITE_READY, memory_order_release);
            }
            if (atomic_compare_exchange_strong_explicit(place, &number, *own, memory_order_acq_rel,
                                                        memory_order_acquire))
                return *own;
        }
        if (sites_same(&records[number], key))
            return number; /* of two threads with a new key, the later record stays unused */
    }
    return 0;
}

uint32_t sites_find(const struct site_key *asked)
{
    _Atomic uint32_t *far;
    struct site *records = sites_begin();
    struct site key = {.kind = (uint16_t)asked->kind, .cache = asked->cache, .group = asked->group};
    const void *from = asked->where & 1 ? NULL : (const void *)(uintptr_t)(asked->where >> 1);
    uint32_t number, own = 0;

    if (!records)
        return 0;
    if (atomic_load_explicit(&sites.used, memory_order_relaxed) < SITES_MOST / 2)
        key.thread = sites_thread();
    (void)strncpy(key.name, asked->name, sizeof(key.name) - 1);
    key.depth = (uint16_t)tag_stack_walk(from, key.frames, SITES_FRAMES);
    if (key.depth == 0 && from) {
        key.frames[0] = (uintptr_t)from;
        key.depth = 1;
    }
    key.hash = sites_hash(&key);
    number = sites_probe(sites_near, SITES_NEAR, &key, &own);
    if (number == 0 && (far = sites_map_far()) != NULL)
        number = sites_probe(far, SITES_FAR, &key, &own);
    if (number == 0) {
        atomic_fetch_add_explicit(&sites.lost, 1, memory_order_relaxed);
        atomic_store_explicit(&records[0].state, SITE_READY, memory_order_relaxed);
    }
    return number;
}

const struct site *sites_at(uint32_t number)
{
    struct site *records = atomic_load_explicit(&sites.site, memory_order_acquire);

    if (!records || number >= SITES_MOST ||
        number >= atomic_load_explicit(&sites.used, memory_order_relaxed))
        return NULL;
    return atomic_load_explicit(&records[number].state, memory_order_acquire) == SITE_READY
               ? &records[number]
               : NULL;
}

static void sites_add(_Atomic uint64_t *to, double value)
{
    atomic_fetch_add_explicit(to, (uint64_t)(int64_t)(value + (value < 0 ? -0.5 : 0.5)),
                              memory_order_relaxed);
}

static struct site *sites_record(uint32_t number)
{
    struct site *records = atomic_load_explicit(&sites.site, memory_order_acquire);

    return records ? &records[number] : NULL;
}

void sites_came(uint32_t number, float weight, uint64_t bytes, uint64_t asked)
{
    struct site *site = sites_record(number);

    if (!site)
        return;
    sites_add(&site->came_objects, (double)weight * SITES_ONE);
    sites_add(&site->came_bytes, (double)weight * (double)bytes);
    sites_add(&site->came_asked, (double)weight * (double)asked);
    sites_add(&sites.came, (double)weight * (double)bytes);
    /* Release: of a sample that went, a reader finds that it came. */
    atomic_fetch_add_explicit(&site->came, 1, memory_order_release);
}

void sites_went(uint32_t number, float weight, uint64_t bytes, uint64_t born)
{
    struct site *site = sites_record(number);
    uint64_t lived = sites_age() - born;
    unsigned life = 0;

    if (!site)
        return;
    for (uint64_t bound = SITES_LIFE; life < SITES_LIVES - 1 && lived >= bound; bound *= 10)
        life++;
    sites_add(&site->went_objects, (double)weight * SITES_ONE);
    sites_add(&site->went_bytes, (double)weight * (double)bytes);
    atomic_fetch_add_explicit(&site->lived, lived, memory_order_relaxed);
    atomic_fetch_add_explicit(&site->life[life], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&site->went, 1, memory_order_release);
}
