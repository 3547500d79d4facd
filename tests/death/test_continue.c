/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * STOOK_ON_CORRUPTION=continue for caches without debug flags: a wrong free is reported and refused, a damaged
 * list ends where it is damaged, and the cache goes on.  No object is handed out twice.
 */
#include "debug/report.h"
#include "slab/mark.h"
#include "slab/slab.h"

#include "base/settings.h"
#include "support/make.h"
#include "support/test.h"

#include <stook/debug.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>

enum { MANY = 2000 };

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

    return x < y ? -1 : x > y;
}

/* The cache hands out many objects, each once and none of `kept`; all are freed. */
static bool goes_on(struct stook_cache *cache, void *const *kept, size_t n)
{
    static void *objects[MANY + 64];

    for (size_t i = 0; i < MANY; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            return false;
    for (size_t i = 0; i < n; i++)
        objects[MANY + i] = kept[i];
    qsort(objects, MANY + n, sizeof(objects[0]), by_address);
    for (size_t i = 1; i < MANY + n; i++)
        if (objects[i] == objects[i - 1])
            return false;
    for (size_t i = 0; i < MANY + n; i++) {
        size_t k = 0;
        while (k < n && kept[k] != objects[i])
            k++;
        if (k == n)
            stook_free(cache, objects[i]);
    }
    return true;
}

/* ---- the cases: the reports that are made, and 0 if all went on --------------------------------- */

static struct {
    unsigned flags; /* of the caches */
    size_t size;
} kind;

static int twice(void)
{
    struct stook_cache *cache = make("again", kind.size, kind.flags);
    void *kept[2] = {stook_alloc(cache, 0), stook_alloc(cache, 0)}, *object = stook_alloc(cache, 0);

    stook_free(cache, object);
    if (!(kind.flags & STOOK_CACHE_NOSHEAF))
        stook_cache_shrink(cache); /* at rest */
    stook_free(cache, object);
    stook_cache_shrink(cache);
    if (debug_reports() != 1 || !goes_on(cache, kept, 2))
        return 1;
    stook_free_bulk(cache, 2, kept);
    return stook_cache_destroy(cache) == 0 ? 0 : 2; /* nothing was lost */
}

static int twice_in_bulk(void)
{
    struct stook_cache *cache = make("again", kind.size, kind.flags);
    void *objects[500], *kept;

    if (stook_alloc_bulk(cache, 0, 500, objects) != 0)
        return 3;
    kept = objects[490];
    objects[490] = objects[10];
    stook_free_bulk(cache, 500, objects);
    stook_cache_shrink(cache);
    /* A chunk's end may have the same one looked at twice. */
    if (debug_reports() < 1 || debug_reports() > 2 || !goes_on(cache, &kept, 1))
        return 1;
    stook_free(cache, kept);
    return stook_cache_destroy(cache) == 0 ? 0 : 2;
}

/* All objects of slabs are wrong ones of one kind: lists that have no object at all. */
static int nothing_but_wrong(void)
{
    struct stook_cache *cache = make("again", kind.size, kind.flags),
                       *other = make("other", kind.size, kind.flags);
    void *objects[100], *freed[100], *foreign[100];

    if (stook_alloc_bulk(cache, 0, 100, objects) != 0 ||
        stook_alloc_bulk(other, 0, 100, foreign) != 0)
        return 3;
    memcpy(freed, objects, sizeof(freed));
    stook_free_bulk(cache, 100, freed);
    stook_cache_shrink(cache);
    memcpy(freed, foreign, sizeof(freed));
    stook_free_bulk(cache, 100, freed); /* of the wrong cache */
    for (int i = 0; i < 100; i++)
        freed[i] = (char *)foreign[i] + 1;
    stook_free_bulk(other, 100, freed); /* inside */
    stook_cache_shrink(cache);
    stook_cache_shrink(other);
    if (debug_reports() < 200 || !goes_on(cache, NULL, 0) || !goes_on(other, foreign, 50))
        return 1;
    stook_free_bulk(other, 100, foreign);
    return stook_cache_destroy(cache) == 0 && stook_cache_destroy(other) == 0 ? 0 : 2;
}

static int foreign(void)
{
    struct stook_cache *cache = make("again", kind.size, kind.flags);
    void *kept = stook_alloc(cache, 0);
    int here;
    void *volatile pointer = &here;

    stook_free(cache, pointer);
    stook_free_any(pointer);
    stook_free_any((char *)kept + 1);
    stook_cache_shrink(cache);
    if (stook_usable_size(pointer) != 0 || debug_reports() != 4)
        return 1;
    errno = 0;
    if (stook_krealloc(pointer, 100, 0) || errno != EINVAL || debug_reports() != 5)
        return 4;
    if (!goes_on(cache, &kept, 1))
        return 5;
    stook_free(cache, kept);
    return stook_cache_destroy(cache) == 0 ? 0 : 2;
}

/* A link is changed where objects are free: what the list had behind it is lost, and nothing else. */
static int damaged_link(void)
{
    struct stook_cache *cache = make("again", kind.size, kind.flags | STOOK_CACHE_NOSHEAF);
    void *objects[40], *kept;
    struct slab *slab;
    uint32_t index;

    if (stook_alloc_bulk(cache, 0, 40, objects) != 0)
        return 3;
    kept = objects[39];
    slab = slab_find(cache, objects[20], &index);
    stook_free_bulk(cache, 39, objects);
    *slab_link(cache, slab, index) ^= 0x4000;
    if (!goes_on(cache, &kept, 1) || debug_reports() != 1)
        return 1;
    stook_free(cache, kept);
    return stook_cache_destroy(cache) == -1 && errno == EBUSY ? 0 : 2; /* objects are lost */
}

static const struct {
    const char *name;
    int (*body)(void);
} cases[] = {
    {"twice", twice},
    {"twice in bulk", twice_in_bulk},
    {"nothing but wrong", nothing_but_wrong},
    {"foreign", foreign},
    {"damaged link", damaged_link},
};

static int run(void *arg)
{
    char *environment[] = {(char *)(uintptr_t) "STOOK_ON_CORRUPTION=continue", NULL};

    settings_read(environment, false);
    return ((int (*)(void))arg)();
}

TEST(each)
{
    static const unsigned flags[] = {0,
                                     STOOK_CACHE_NOSHEAF,
                                     STOOK_CACHE_ACCOUNT,
                                     STOOK_CACHE_ACCOUNT | STOOK_CACHE_NOSHEAF,
                                     STOOK_CACHE_LINK_OUTSIDE,
                                     STOOK_CACHE_RANDOM};
    static const size_t sizes[] = {16, 64, 1000};
    static struct child child;
    unsigned failed = 0;

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                kind.flags = flags[f];
                kind.size = sizes[s];
                child_run(&child, run, (void *)cases[c].body);
                if (child_passed(&child))
                    continue;
                printf("%s: flags %#x, %zu bytes\n", cases[c].name, kind.flags, kind.size);
                failed++;
            }
    assert_int_equal(failed, 0);
}
