/* SPDX-License-Identifier: MIT */
/*
 * Memory of which little is written stays sparse, and full memory may have huge pages, by each setting of
 * STOOK_HUGE_PAGES.  The test asks the kernel which pages are resident, and which were advised.
 */
#include "base/settings.h"
#include "page/arena.h"
#include "large/large.h"
#include "page/zone.h"
#include "support/check.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <string.h>
#include <unistd.h>

/* Resident bytes of the process's own memory. */
static size_t resident(void)
{
    long size, all, shared;
    FILE *statm = fopen("/proc/self/statm", "r");
    int n = statm ? fscanf(statm, "%ld %ld %ld", &size, &all, &shared) : 0;

    if (statm)
        fclose(statm);
    return n == 3 ? (size_t)(all - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* A flag of the mapping that an address is in: "hg" or "nh". */
static bool has_flag(const void *address, const char *flag)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    bool inside = false, has = false;
    unsigned long from, to;
    char line[512];

    while (smaps && fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag) != NULL;
    }
    if (smaps)
        fclose(smaps);
    return has;
}

struct sparse {
    size_t size;
    unsigned n;
};

/* A page of each object, a tenth more, and some room for the first slabs and the sheaves. */
static int little_is_resident(void *arg)
{
    const struct sparse *sparse = arg;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before, after;
    struct stook_cache *cache = NULL;

    if (sparse->size <= 32 << 10)
        MUST((cache = stook_cache_create("sparse", sparse->size, NULL)) != NULL);
    before = resident();
    for (unsigned i = 0; i < sparse->n; i++) {
        char *p = cache ? stook_alloc(cache, 0) : large_alloc(0, sparse->size, 4096, false, NULL);
        MUST(p);
        p[0] = 1;
    }
    after = resident();
    MUST(before > 0);
    if (after - before > sparse->n * page / 10 * 11 + (1u << 20)) {
        fprintf(stderr, "%u objects of %zu: %zu KiB\n", sparse->n, sparse->size,
                (after - before) >> 10);
        return 1;
    }
    return 0;
}

/* Slabs of small objects, of large ones, a run and a span, each past a zone's first blocks. */
static int advised(void *arg)
{
    const char *setting = arg;
    bool always = strcmp(setting, "always") == 0, never = strcmp(setting, "never") == 0;
    struct stook_cache *small, *large;
    char *dense = NULL, *loose = NULL, *run = NULL, *span;

    MUST(setenv("STOOK_HUGE_PAGES", setting, 1) == 0);
    settings_read(environ, false);
    MUST(stook_topology_set("node:1 core:1") == 0); /* starts anew */
    MUST((small = stook_cache_create("small", 1000, NULL)) != NULL);
    MUST((large = stook_cache_create("large", 20000, NULL)) != NULL);
    for (unsigned i = 0; i < 40000; i++)
        MUST((dense = stook_alloc(small, 0)) != NULL);
    for (unsigned i = 0; i < 2000; i++)
        MUST((loose = stook_alloc(large, 0)) != NULL);
    for (unsigned i = 0; i < 100; i++)
        MUST((run = arena_alloc_run(0, 200, 1, false, NULL)) != NULL);
    MUST((span = large_alloc(0, 8 << 20, 4096, false, NULL)) != NULL);
    MUST(has_flag(dense, " hg") == !never && has_flag(dense, " nh") == never);
    MUST(has_flag(loose, " hg") == always && has_flag(loose, " nh") == never);
    MUST(has_flag(run, " hg") == always && has_flag(run, " nh") == never);
    MUST(has_flag(span, " hg") == always && has_flag(span, " nh") == never);
    return 0;
}

/* Free blocks of dense slabs serve sparse objects, and then have no huge pages any more. */
static int kinds_change_body(void *arg)
{
    enum { SMALL = 60000, LARGE = 100 };
    static void *objects[SMALL];
    struct stook_cache *cache = stook_cache_create("small", 1000, NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before;
    struct arena_stat stat;
    char *span[LARGE];

    for (unsigned i = 0; i < SMALL; i++)
        MUST((objects[i] = stook_alloc(cache, 0)) != NULL);
    for (unsigned i = 0; i < SMALL; i++)
        stook_free(cache, objects[i]);
    MUST(stook_cache_destroy(cache) == 0);
    arena_trim();
    arena_stat(&stat);
    before = resident();
    for (unsigned i = 0; i < 5; i++) {
        MUST((span[i] = large_alloc(0, 5 << 20, 4096, false, NULL)) != NULL);
        span[i][0] = 1;
    }
    for (unsigned i = 5; i < 20; i++) {
        MUST((span[i] = large_alloc(0, 1 << 20, 4096, false, NULL)) != NULL);
        span[i][0] = 1;
    }
    MUST(stat.blocks + 20 > zone_all.zone[0].opened); /* most of it lies where slabs were */
    MUST(resident() - before <= 20 * page + (1u << 20));
    check_all(NULL, 0);
    return 0;
}

/* Partial purges of dense blocks split few mappings, however many blocks there are. */
static int few_splits_body(void *arg)
{
    enum { BLOCKS = 700, ORDER = 3, SLABS = BLOCKS * (BLOCK_PAGES >> ORDER), META = 64 };
    static struct {
        void *slab, *meta;
    } had[SLABS];

    for (unsigned i = 0; i < SLABS; i++)
        MUST((had[i].slab = arena_alloc_slab(0, ORDER, true, META, &had[i].meta)) != NULL);
    for (unsigned i = 0; i < SLABS; i += 2) /* no block is empty */
        arena_free_slab(had[i].slab, ORDER, had[i].meta, META);
    (void)arena_trim();
    MUST(atomic_load(&zone_all.splits) > 400 && atomic_load(&zone_all.splits) <= 520);
    for (unsigned i = 1; i < SLABS; i += 2)
        arena_free_slab(had[i].slab, ORDER, had[i].meta, META);
    check_all(NULL, 0);
    return 0;
}

static void run(int (*body)(void *arg), void *arg)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadows are resident with what is used */
#endif
    if (getenv("STOOK_EMULATED"))
        skip();
    in_child(body, arg);
}

#define CASE(name, body, arg)                                                                      \
    TEST(name)                                                                                     \
    {                                                                                              \
        run(body, arg);                                                                            \
    }
#define SPARSE(name, size, count) CASE(name, little_is_resident, (&(struct sparse){size, count}))

SPARSE(spans_of_8_MiB, (size_t)8 << 20, 500)
SPARSE(spans_of_16_MiB, (size_t)16 << 20, 200)
SPARSE(runs_of_64_KiB, (size_t)64 << 10, 4000)
SPARSE(slabs_of_32_KiB, 32 << 10, 4000)
SPARSE(slabs_of_20000_bytes, 20000, 5000)
SPARSE(slabs_of_12_KiB, 12 << 10, 8000)
SPARSE(slabs_of_8_KiB, 8 << 10, 8000)
CASE(never, advised, "never")
CASE(full, advised, "full")
CASE(always, advised, "always")
CASE(not_a_setting, advised, "much")
CASE(kinds_change, kinds_change_body, NULL)
CASE(few_splits, few_splits_body, NULL)

int main(void)
{
    (void)stook_mode(NULL);
    return tests_run(NULL, NULL);
}
