/* SPDX-License-Identifier: MIT */
#include "support/ops.h"

#include "support/check.h"

#include "slab/cache.h"

#include <stook/stook.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPS_CACHES = 12,
    OPS_OBJECTS = 3000,
    OPS_BULK = 600,
    OPS_BYTES = 48 << 20, /* out at one time */
    OPS_FILL = 512,       /* bytes written at an object's start and end */
};

struct held {
    unsigned cache;
    uint32_t pattern;
    unsigned char *object;
};

struct made {
    struct stook_cache *cache; /* NULL: none */
    size_t size, align;
    bool built; /* has a constructor */
    unsigned out;
};

static struct {
    const uint8_t *at, *end;
    struct made made[OPS_CACHES];
    struct held held[OPS_OBJECTS]; /* in order of their addresses */
    size_t n, bytes;
    uint32_t patterns;
    struct ops_counts *counts;
} ops;

#define OPS_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "ops: step %llu: %s:%d: %s\n", (unsigned long long)ops.counts->steps,  \
                    __FILE__, __LINE__, #condition);                                               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static unsigned ops_byte(void)
{
    return ops.at < ops.end ? *ops.at++ : 0;
}

static unsigned ops_below(unsigned end)
{
    unsigned value = ops_byte() << 8;

    return (value | ops_byte()) % end;
}

/* ---- contents ------------------------------------------------------------------------------- */

enum { OPS_BUILT = 0xb1 };

static void ops_ctor(void *object)
{
    *(unsigned char *)object = OPS_BUILT;
}

static void ops_dtor(void *object)
{
    OPS_CHECK(*(unsigned char *)object == OPS_BUILT);
    *(unsigned char *)object = 0;
}

/* The first byte of a constructed object stays as the constructor left it. */
static size_t ops_offset(const struct made *made, size_t i)
{
    return i + made->built;
}

static size_t ops_length(const struct made *made)
{
    return made->size - made->built;
}

static unsigned char ops_pattern(uint32_t pattern, size_t i)
{
    return (unsigned char)((pattern + i) * 0x9e3779b1u >> 24);
}

static void ops_fill(const struct made *made, const struct held *held)
{
    size_t n = ops_length(made);

    for (size_t i = 0; i < n; i = i == OPS_FILL && n > 2 * OPS_FILL ? n - OPS_FILL : i + 1)
        held->object[ops_offset(made, i)] = ops_pattern(held->pattern, i);
}

static void ops_verify(const struct made *made, const struct held *held)
{
    size_t n = ops_length(made);

    for (size_t i = 0; i < n; i = i == OPS_FILL && n > 2 * OPS_FILL ? n - OPS_FILL : i + 1)
        OPS_CHECK(held->object[ops_offset(made, i)] == ops_pattern(held->pattern, i));
    OPS_CHECK(!made->built || held->object[0] == OPS_BUILT);
}

/* ---- the model ------------------------------------------------------------------------------ */

static size_t ops_place(const void *object)
{
    size_t low = 0, high = ops.n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)ops.held[middle].object < (uintptr_t)object)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void ops_got(unsigned cache, void *object, bool zero)
{
    struct made *made = &ops.made[cache];
    size_t at = ops_place(object);
    unsigned char *bytes = object;

    OPS_CHECK(object && (uintptr_t)object % made->align == 0 && ops.n < OPS_OBJECTS);
    OPS_CHECK(at == ops.n || bytes + made->size <= ops.held[at].object);
    OPS_CHECK(at == 0 || ops.held[at - 1].object + ops.made[ops.held[at - 1].cache].size <= bytes);
    OPS_CHECK(stook_usable_size(object) >= made->size);
    for (size_t i = 0; zero && i < made->size; i++)
        OPS_CHECK(bytes[i] == 0);
    OPS_CHECK(!made->built || bytes[0] == OPS_BUILT);
    memmove(&ops.held[at + 1], &ops.held[at], (ops.n - at) * sizeof(ops.held[0]));
    ops.held[at] = (struct held){cache, ++ops.patterns, object};
    ops_fill(made, &ops.held[at]);
    ops.n++;
    ops.bytes += made->size;
    made->out++;
    ops.counts->allocated++;
}

static void *ops_lose(size_t at)
{
    struct held held = ops.held[at];

    ops_verify(&ops.made[held.cache], &held);
    ops.made[held.cache].out--;
    ops.bytes -= ops.made[held.cache].size;
    memmove(&ops.held[at], &ops.held[at + 1], (--ops.n - at) * sizeof(ops.held[0]));
    ops.counts->freed++;
    return held.object;
}

static void ops_check(void)
{
    static struct check_object list[OPS_OBJECTS];

    for (size_t i = 0; i < ops.n; i++)
        list[i] = (struct check_object){ops.made[ops.held[i].cache].cache, ops.held[i].object};
    check_all(list, ops.n);
    ops.counts->checked++;
}

/* ---- operations ----------------------------------------------------------------------------- */

static void ops_create(void)
{
    static const unsigned sizes[] = {24, 64, 256, 1024, 8192, 262144};
    unsigned range = sizes[ops_below(6)], size = 1 + ops_below(range), kind = ops_byte(), more;
    struct stook_cache_args args = {.size = sizeof(args)};
    struct made *made = NULL;

    for (unsigned i = 0; i < OPS_CACHES && !made; i++)
        if (!ops.made[i].cache)
            made = &ops.made[i];
    if (!made)
        return;
    args.align = kind & 1 ? (size_t)1 << ops_below(13) : 0;
    args.flags = kind >> 1 & (STOOK_CACHE_HWALIGN | STOOK_CACHE_MERGE | STOOK_CACHE_NOSHEAF);
    args.sheaf_capacity = kind & 16 ? ops_below(STOOK_SHEAF_CAPACITY_MAX + 1) : 0;
    made->built = (kind & 0x60) == 0x60;
    more = ops_byte();
    args.flags |= more & 1 ? STOOK_CACHE_RANDOM : 0;
    if (more & 2) /* links where they would not be by themselves, or would */
        args.flags |= more & 4 && !made->built ? STOOK_CACHE_LINK_INSIDE : STOOK_CACHE_LINK_OUTSIDE;
    if (made->built) {
        args.ctor = ops_ctor;
        args.dtor = ops_dtor;
    }
    made->cache = stook_cache_create("property", size, kind & 128 ? NULL : &args);
    OPS_CHECK(made->cache);
    made->built = made->built && !(kind & 128);
    made->size = size;
    made->align = kind & 128                         ? (size >= 16 ? 16 : 8)
                  : args.flags & STOOK_CACHE_HWALIGN ? (args.align > 64 ? args.align : 64)
                  : args.align                       ? args.align
                                                     : (size >= 16 ? 16 : 8);
    made->out = 0;
    OPS_CHECK(stook_cache_object_size(made->cache) == size);
}

static int ops_destroy_quietly(struct stook_cache *cache)
{
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY), r, error;

    dup2(null, STDERR_FILENO);
    r = stook_cache_destroy(cache);
    error = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    errno = error;
    return r;
}

static void ops_destroy(unsigned cache)
{
    struct made *made = &ops.made[cache];
    unsigned out = 0, other = OPS_CACHES;

    for (unsigned i = 0; i < OPS_CACHES; i++) {
        if (ops.made[i].cache != made->cache)
            continue;
        out += ops.made[i].out;
        if (i != cache)
            other = i;
    }
    if (other < OPS_CACHES) { /* merged: its objects are the other's now */
        OPS_CHECK(stook_cache_destroy(made->cache) == 0);
        for (size_t i = 0; i < ops.n; i++)
            if (ops.held[i].cache == cache)
                ops.held[i].cache = other;
        ops.made[other].out += made->out;
    } else if (out > 0) {
        OPS_CHECK(ops_destroy_quietly(made->cache) == -1 && errno == EBUSY);
        return;
    } else {
        OPS_CHECK(stook_cache_destroy(made->cache) == 0);
    }
    made->cache = NULL;
    ops.counts->destroyed++;
}

static void ops_alloc(unsigned cache)
{
    unsigned kind = ops_byte(), flags = kind & (STOOK_NOWAIT | STOOK_NOSPIN | STOOK_ZERO);
    struct made *made = &ops.made[cache];
    void *object;

    if (ops.n == OPS_OBJECTS || ops.bytes > OPS_BYTES)
        return;
    errno = 0;
    object = stook_alloc(made->cache, flags);
    if (made->built && (flags & STOOK_ZERO)) {
        OPS_CHECK(!object && errno == EINVAL);
        ops.counts->refused++;
        return;
    }
    ops_got(cache, object, flags & STOOK_ZERO);
}

static void ops_free(bool any)
{
    size_t at;
    unsigned cache;

    if (ops.n == 0)
        return;
    at = ops_below((unsigned)ops.n);
    cache = ops.held[at].cache;
    errno = 4711;
    if (any)
        stook_free_any(ops_lose(at));
    else
        stook_free(ops.made[cache].cache, ops_lose(at));
    OPS_CHECK(errno == 4711);
}

static void ops_alloc_bulk(unsigned cache)
{
    static void *objects[OPS_BULK];
    struct made *made = &ops.made[cache];
    unsigned n = ops_below(OPS_BULK + 1);
    bool zero = !made->built && ops_byte() % 4 == 0;

    if (ops.n + n > OPS_OBJECTS || ops.bytes + n * made->size > OPS_BYTES)
        return;
    OPS_CHECK(stook_alloc_bulk(made->cache, zero ? STOOK_ZERO : 0, n, objects) == n);
    for (unsigned i = 0; i < n; i++)
        ops_got(cache, objects[i], zero);
}

/* Some of one cache's objects, in an order from the bytes, with NULLs between. */
static void ops_free_bulk(unsigned cache)
{
    static void *objects[OPS_BULK];
    unsigned n = ops_below(OPS_BULK), got = 0, step = 1 + ops_byte() % 7;

    for (size_t i = ops.n; i > 0 && got + 1 < n;) {
        i = i > step ? i - step : 0;
        if (i < ops.n && ops.held[i].cache == cache) {
            objects[got++] = ops_lose(i);
            if (got % 5 == 0 && got + 1 < n)
                objects[got++] = NULL;
        }
    }
    for (unsigned i = 0; i + 1 < got && step > 3; i += 2) {
        void *object = objects[i];
        objects[i] = objects[got - 1 - i / 2];
        objects[got - 1 - i / 2] = object;
    }
    stook_free_bulk(ops.made[cache].cache, got, objects);
}

static void ops_migrate(void)
{
    static cpu_set_t all;
    unsigned cpu = ops_byte();
    cpu_set_t one;

    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof(all), &all);
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((i + cpu) % CPU_SETSIZE, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET((i + cpu) % CPU_SETSIZE, &one);
        sched_setaffinity(0, sizeof(one), &one);
        break;
    }
}

static void ops_step(void)
{
    unsigned op = ops_byte(), cache = ops_byte() % OPS_CACHES;

    if (op < 12) {
        ops_create();
        return;
    }
    if (op >= 250) {
        ops_migrate();
        return;
    }
    while (!ops.made[cache].cache) {
        if (cache++ == OPS_CACHES - 1) {
            cache = 0;
            if (!ops.made[0].cache)
                ops_create();
        }
    }
    if (op < 100)
        ops_alloc(cache);
    else if (op < 190)
        ops_free(op & 1);
    else if (op < 212)
        ops_alloc_bulk(cache);
    else if (op < 240)
        ops_free_bulk(cache);
    else if (op < 244)
        (void)stook_cache_shrink(ops.made[cache].cache);
    else
        ops_destroy(cache);
}

void ops_run(const uint8_t *bytes, size_t n, unsigned every, struct ops_counts *counts)
{
    memset(&ops, 0, sizeof(ops));
    memset(counts, 0, sizeof(*counts));
    ops.at = bytes;
    ops.end = bytes + n;
    ops.counts = counts;
    while (ops.at < ops.end) {
        ops_step();
        if (++counts->steps % every == 0)
            ops_check();
    }
    while (ops.n > 0) {
        unsigned cache = ops.held[ops.n / 2].cache;
        stook_free(ops.made[cache].cache, ops_lose(ops.n / 2));
    }
    ops_check();
    for (unsigned i = 0; i < OPS_CACHES; i++)
        if (ops.made[i].cache)
            ops_destroy(i);
    for (unsigned i = 0; i < OPS_CACHES; i++)
        OPS_CHECK(!ops.made[i].cache);
    ops_check();
}
