/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: os_map arena_alloc arena_span_alloc zone_grow window_take node_take node_take_near slab_make sheaf_alloc rows_map depot_put */
/*
 * The n-th time that the library needs memory for itself or for objects there is none, for every n, and then two and
 * forty times in a row (of these n, one in STEP).  A call fails with ENOMEM or does without, nothing is lost, and
 * afterwards the same calls succeed.  Mappings, descriptors and the caches' objects are counted.
 *
 * The linker puts the functions below before the library's (wrap:), which refuse what they are asked for.  The
 * scenario runs plainly, with debug flags, hardened, with the guard, and with counts of call sites.
 */
#include "debug/report.h"
#include "cache/cache_list.h"
#include "debug/depot.h"
#include "large/arena_span.h"
#include "os/os.h"
#include "page/arena.h"
#include "page/window.h"
#include "page/zone.h"
#include "percpu/rows.h"
#include "sheaf/sheaf.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/debug.h>
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#include <dirent.h>

/* ---- what fails ----------------------------------------------------------------------------- */

static unsigned fault_at, fault_length, fault_calls, fault_hits;
static bool fault_on;

static bool fault(void)
{
    if (!fault_on)
        return false;
    fault_calls++;
    if (fault_calls < fault_at || fault_calls - fault_at >= fault_length)
        return false;
    fault_hits++;
    return true;
}

/* NULL, false or 0 with ENOMEM: what each of them says without memory. */
#define WRAP(type, name, none, declared, given)                                                    \
    type __real_##name declared;                                                                   \
    type __wrap_##name declared;                                                                   \
    type __wrap_##name declared                                                                    \
    {                                                                                              \
        if (fault()) {                                                                             \
            errno = ENOMEM;                                                                        \
            return none;                                                                           \
        }                                                                                          \
        return __real_##name given;                                                                \
    }                                                                                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), __typeof__(__real_##name)), #name)

/* The same where errno is not said: it stays as it was. */
#define WRAP_QUIETLY(type, name, none, declared, given)                                            \
    type __real_##name declared;                                                                   \
    type __wrap_##name declared;                                                                   \
    type __wrap_##name declared                                                                    \
    {                                                                                              \
        return fault() ? none : __real_##name given;                                               \
    }                                                                                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), __typeof__(__real_##name)), #name)

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
WRAP(void *, os_map, NULL, (size_t size), (size));
WRAP(void *, arena_alloc, NULL,
     (unsigned zone, const struct arena_ask *ask, bool *zeroed, void **meta),
     (zone, ask, zeroed, meta));
WRAP(void *, arena_span_alloc, NULL,
     (unsigned zone, size_t blocks, size_t align, bool nospin, bool *zeroed),
     (zone, blocks, align, nospin, zeroed));
WRAP_QUIETLY(int64_t, zone_grow, -1,
             (struct zone * zone, uint32_t n, uint32_t align, unsigned kind),
             (zone, n, align, kind));
WRAP_QUIETLY(bool, window_take, false,
             (unsigned zone, const struct window_ask *ask, uint32_t *first, uint32_t *count),
             (zone, ask, first, count));
WRAP(uint32_t, node_take, 0,
     (struct stook_cache * cache, unsigned node, void **objects, uint32_t min, uint32_t max,
      bool nospin),
     (cache, node, objects, min, max, nospin));
WRAP(uint32_t, node_take_near, 0,
     (struct stook_cache * cache, unsigned node, void **objects, uint32_t min, uint32_t max,
      bool nospin),
     (cache, node, objects, min, max, nospin));
WRAP(struct slab *, slab_make, NULL, (struct stook_cache * cache, unsigned node, bool nospin),
     (cache, node, nospin));
WRAP_QUIETLY(struct sheaf *, sheaf_alloc, NULL,
             (unsigned capacity, unsigned room, unsigned node, bool nospin),
             (capacity, room, node, nospin));
WRAP(void *, rows_map, NULL, (unsigned shift), (shift));
WRAP_QUIETLY(uint32_t, depot_put, 0, (const uint64_t *frames, unsigned depth), (frames, depth));
// NOLINTEND(bugprone-reserved-identifier)

/* ---- the scenario --------------------------------------------------------------------------- */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s (errno %d, %u of %u from %u on)\n", __LINE__, #condition, \
                    errno, fault_hits, fault_length, fault_at);                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
/* What may fail only because something was made to fail, and then says so. */
#define MAY_FAIL(condition) MUST((condition) || (fault_hits > 0 && errno == ENOMEM))

#ifndef STEP                           /* test_internal_long.c: 1 */
#define STEP (10 * SCALE_SLOWNESS + 1) /* odd: calls may alternate */
#endif

enum { CACHES = 7, OBJECTS = 300, LARGE = 3 << 20 };

static const size_t sizes[CACHES] = {64, 3000, 20000, 40, 500, 270000, LARGE};
static struct check_object held[CACHES * OBJECTS];
static size_t nheld;
static bool checks; /* check_all() knows where all objects are: not what a quarantine holds */
static bool
    addresses; /* cleared: a cache's addresses stay its own, and no mapping of it goes (types) */

static void ctor(void *object, void *arg)
{
    memset(object, 0x44, 40);
}

static void check(void)
{
    bool on = fault_on;

    fault_on = false;
    if (checks)
        check_all(held, nheld);
    fault_on = on;
}

static void got(struct stook_cache *cache, size_t size, void *object)
{
    memset(object, 0x44, size < LARGE ? size : 1);
    held[nheld++] = (struct check_object){cache, object};
}

static void give_back(size_t keep)
{
    while (nheld > keep) {
        MUST(*(unsigned char *)held[nheld - 1].object == 0x44);
        errno = 4711;
        stook_free(held[nheld - 1].cache, held[nheld - 1].object);
        MUST(errno == 4711); /* whatever it met */
        nheld--;
    }
}

static void use_sheaf(struct stook_cache *cache, size_t size)
{
    struct stook_sheaf *sheaf;
    void *object;

    errno = 0;
    sheaf = stook_sheaf_prefill(cache, 0, 20);
    MAY_FAIL(sheaf);
    if (!sheaf)
        return;
    for (unsigned i = 0; i < 20; i++) { /* cannot fail */
        MUST((object = stook_sheaf_alloc(cache, 0, sheaf)) != NULL);
        got(cache, size, object);
    }
    errno = 0;
    MAY_FAIL(stook_sheaf_refill(cache, 0, &sheaf, 10) == 0);
    stook_sheaf_return(cache, sheaf);
}

static void use_pool(struct stook_cache *cache, size_t size)
{
    struct stook_pool *pool;
    void *objects[8];

    errno = 0;
    pool = stook_pool_create(cache, 8);
    MAY_FAIL(pool);
    if (!pool)
        return;
    for (unsigned i = 0; i < 8; i++) { /* cannot fail */
        MUST((objects[i] = stook_pool_alloc(pool, STOOK_NORECLAIM, NULL)) != NULL);
        memset(objects[i], 0x44, size);
    }
    errno = 0;
    MAY_FAIL(stook_pool_resize(pool, 12) == 0);
    for (unsigned i = 0; i < 8; i++)
        stook_pool_free(pool, objects[i]);
    MUST(stook_pool_destroy(pool) == 0);
}

static void use_caches(struct stook_group group)
{
    static struct stook_cache *caches[CACHES];
    void *objects[OBJECTS / 3];

    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .ctor = c == 3 ? ctor : NULL,
                                        .flags = (c == 4 ? STOOK_CACHE_NOSHEAF : 0) |
                                                 (c == 1 ? STOOK_CACHE_ACCOUNT : 0),
                                        .slab_bytes_max = c == 2 ? 8 << 20 : 0};
        errno = 0;
        caches[c] = stook_cache_create("fault", sizes[c], &args);
        MAY_FAIL(caches[c]);
    }
    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache *cache = caches[c];
        size_t n = sizes[c] == LARGE   ? 1
                   : sizes[c] > 200000 ? 3
                   : sizes[c] > 10000  ? 20
                                       : OBJECTS / 3;
        if (!cache)
            continue;
        for (unsigned i = 0; i < n; i++) {
            void *object;
            errno = 0;
            object = c == 1 ? alloc_with_group(cache, 0, group) : stook_alloc(cache, 0);
            MAY_FAIL(object);
            if (object)
                got(cache, sizes[c], object);
        }
        if (sizes[c] == LARGE)
            continue;
        errno = 0;
        n = stook_alloc_bulk(cache, 0, n, objects) == 0 ? n : 0;
        MAY_FAIL(n > 0);
        for (size_t i = 0; i < n; i++)
            got(cache, sizes[c], objects[i]);
        if (sizes[c] > 200000) /* no sheaves, and a pool's objects would take long to write */
            continue;
        use_sheaf(cache, sizes[c]);
        use_pool(cache, sizes[c]);
    }
    check();
    give_back(nheld / 2);
    for (unsigned c = 0; c < CACHES; c++)
        if (caches[c])
            (void)stook_cache_shrink(caches[c]);
    check();
    give_back(0);
    for (unsigned c = 0; c < CACHES; c++)
        if (caches[c])
            MUST(stook_cache_destroy(caches[c]) == 0); /* none of its objects is out */
    check();
}

/* kmalloc's objects, small and of whole pages. */
static void use_kmalloc(void)
{
    static const size_t small[] = {8, 100, 5000, 20000, 300000, LARGE};
    char *object, *larger;

    for (unsigned i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
        errno = 0;
        object = stook_kmalloc(small[i], i % 2 ? STOOK_ZERO : 0);
        MAY_FAIL(object);
        if (!object)
            continue;
        for (size_t k = 0; i % 2 && k < small[i]; k++)
            MUST(object[k] == 0);
        memset(object, 0x44, small[i]);
        errno = 0;
        larger = stook_krealloc(object, 3 * small[i], 0);
        MAY_FAIL(larger);
        object = larger ? larger : object; /* as it was */
        for (size_t k = 0; k < small[i]; k++)
            MUST(object[k] == 0x44);
        stook_free_any(object);
    }
}

static void scenario(void)
{
    struct stook_group group;

    errno = 0;
    group = stook_group_create("fault", STOOK_NO_GROUP, 64 << 20);
    MAY_FAIL(!stook_group_is_none(group));
    use_caches(group);
    use_kmalloc();
    if (!stook_group_is_none(group))
        MUST(stook_group_destroy(group) == 0);
}

static unsigned count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned lines = 0;
    int byte;

    MUST(file);
    while ((byte = getc(file)) != EOF)
        lines += byte == '\n';
    fclose(file);
    return lines;
}

static unsigned count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    MUST(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Without those of samples, which stay once they are made. */
static unsigned count_caches(void)
{
    unsigned n = 0;

    for (struct list *link = cache_list.all.next; link != &cache_list.all; link = link->next)
        n += !(LIST_ENTRY(link, struct stook_cache, link)->flags & CACHE_SHADOW);
    return n;
}

enum { MAPPINGS = 12 }; /* that differ by what happens to be warm */

static void run_length(unsigned length, unsigned step)
{
    unsigned mappings, descriptors, caches, most = 0, hits = 0;

    for (unsigned i = 0; i < 3; i++)
        scenario();
    (void)arena_trim();
    mappings = count_mappings();
    descriptors = count_descriptors();
    caches = count_caches();
    for (fault_at = 1;; fault_at += step) {
        fault_length = length;
        fault_calls = fault_hits = 0;
        fault_on = true;
        scenario();
        fault_on = false;
        if (fault_hits == 0)
            break;
        hits += fault_hits;
        fault_hits = 0;
        scenario(); /* and now all of it works */
        (void)arena_trim();
        MUST(count_caches() == caches);
        MUST(count_descriptors() == descriptors);
        most = fault_calls;
    }
    MUST(!addresses || count_mappings() <= mappings + MAPPINGS);
    MUST(debug_reports() == 0);
    printf("%u in a row: %u of %u calls failed\n", length, hits, most);
    MUST(most > 100); /* the scenario needs memory that often at least */
}

static int run_all(void)
{
    const char *harden = getenv("STOOK_HARDEN");

    checks = !harden;
    addresses = !harden || strcmp(harden, "full") != 0;
    run_length(1, STEP);
    run_length(2, 3 * STEP);
    run_length(40, 5 * STEP);
    return 0;
}

/* ---- the test ------------------------------------------------------------------------------- */

static const char *self;

static void run_with(const char *name, const char *value)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (name)
            setenv(name, value, 1);
        execl(self, self, "scenario", NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define WITH(test, name, value)                                                                    \
    TEST(test)                                                                                     \
    {                                                                                              \
        run_with(name, value);                                                                     \
    }

WITH(plain, NULL, NULL)
WITH(debug, "STOOK_DEBUG", "FZPU")
WITH(hardened, "STOOK_HARDEN", "full")
WITH(guards, "STOOK_HARDEN", "order,zero,quarantine,guards")
WITH(guarded, "STOOK_GUARD", "4K")
WITH(tagged, "STOOK_TAGS", "1")

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_all();
    self = argv[0];
    return tests_run(NULL, NULL);
}
