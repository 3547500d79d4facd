/* SPDX-License-Identifier: MIT */
/*
 * Runs, spans, metadata and what stays warm, with the kernel asked what is resident.  Parts run in
 * a new process, since limits and tunables are read at the start: "test_arena PART".
 */
#include "large/arena_span.h"
#include "page/arena.h"

#include "os/os.h"
#include "page/block.h"
#include "page/zone.h"
#include "slab/cache.h"
#include "support/check.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sys/mman.h>
#include <sys/resource.h>

static const struct block *block_of(const void *address)
{
    return zone_block(pagemap_index(address));
}

static size_t resident(void *address, size_t size)
{
    static unsigned char pages[1 << 16];
    size_t n = 0, page = (size_t)sysconf(_SC_PAGESIZE), within = (uintptr_t)address & (page - 1);

    size = (size + within + page - 1) / page; /* the kernel's pages that it is in */
    assert_true(size <= sizeof(pages));
    address = (char *)address - within;
    if (mincore(address, size * page, pages) != 0) { /* blocks of it are not mapped */
        assert_int_equal(errno, ENOMEM);
        for (size_t i = 0; i < size; i++)
            if (mincore((char *)address + i * page, page, &pages[i]) != 0)
                pages[i] = 0;
    }
    for (size_t i = 0; i < size; i++)
        n += pages[i] & 1;
    return n * page;
}

static struct arena_stat stat_now(void)
{
    struct arena_stat stat;

    arena_stat(&stat);
    return stat;
}

/* ---- runs ----------------------------------------------------------------------------------- */

TEST(runs_are_ours_and_aligned)
{
    enum { RUNS = 600 };
    static struct {
        char *run;
        size_t pages;
    } live[RUNS];
    uint64_t seed = 11;
    size_t used = stat_now().used, sum = 0;

    for (int step = 0; step < 20000; step++) {
        unsigned i = random_below(&seed, RUNS);
        if (live[i].run) {
            for (size_t p = 0; p < live[i].pages; p++)
                assert_int_equal(live[i].run[p * PAGE_SIZE], (char)i);
            arena_free_run(live[i].run, live[i].pages);
            sum -= live[i].pages;
            live[i].run = NULL;
        } else {
            size_t align = (size_t)1 << random_below(&seed, 7);
            bool zeroed = false;
            live[i].pages = 1 + random_below(&seed, random_below(&seed, 8) ? 12 : 200);
            live[i].run = arena_alloc_run(0, live[i].pages, align, false, &zeroed);
            assert_non_null(live[i].run);
            assert_int_equal((uintptr_t)live[i].run % (align * PAGE_SIZE), 0);
            assert_int_equal(pagemap_zone(live[i].run), 0);
            for (size_t p = 0; p < live[i].pages; p++) {
                assert_true(!zeroed || live[i].run[p * PAGE_SIZE] == 0);
                live[i].run[p * PAGE_SIZE] = (char)i;
            }
            sum += live[i].pages;
        }
        if (step % 1000 == 0) {
            assert_int_equal(stat_now().used - used, sum * PAGE_SIZE);
            check_all(NULL, 0);
        }
    }
    for (unsigned i = 0; i < RUNS; i++)
        if (live[i].run)
            arena_free_run(live[i].run, live[i].pages);
    assert_int_equal(stat_now().used, used);
    check_all(NULL, 0);
}

TEST(zeroed_pages_are_zero)
{
    bool zeroed;
    char *run = arena_alloc_run(0, 64, 64, false, &zeroed);

    memset(run, 0x5c, 64 * PAGE_SIZE);
    arena_free_run(run, 64);
    run = arena_alloc_run(0, 64, 64, false, &zeroed);
    if (zeroed)
        for (size_t i = 0; i < 64 * PAGE_SIZE; i++)
            assert_int_equal(run[i], 0);
    memset(run, 0x5c, 64 * PAGE_SIZE);
    arena_free_run(run, 64);
    arena_trim(); /* now all of it went back */
    run = arena_alloc_run(0, 64, 64, false, &zeroed);
    for (size_t i = 0; i < 64 * PAGE_SIZE; i++)
        assert_int_equal(run[i], 0);
    arena_free_run(run, 64);
}

TEST(runs_grow_in_place)
{
    char *run, *behind;

    arena_trim();
    run = arena_alloc_run(0, 300, 1, false, NULL); /* half of a block and more: alone in it */
    assert_non_null(run);
    memset(run, 1, 300 * PAGE_SIZE);
    behind = run + 300 * PAGE_SIZE;
    if ((uintptr_t)run % BLOCK_SIZE / PAGE_SIZE + 300 + 10 <= BLOCK_PAGES &&
        arena_extend_run(run, 300, 10)) {
        memset(behind, 2, 10 * PAGE_SIZE);
        assert_false(arena_extend_run(run, 300, 1));           /* taken, by itself */
        assert_false(arena_extend_run(run, 310, BLOCK_PAGES)); /* beyond the block */
        check_all(NULL, 0);
        arena_free_run(run, 310);
    } else {
        fail_msg("a lone run did not grow");
    }
    check_all(NULL, 0);
}

/* ---- spans ---------------------------------------------------------------------------------- */

TEST(spans)
{
    static const size_t aligns[] = {1, 2, 4, 16};
    size_t used = stat_now().used;
    bool zeroed;

    for (unsigned a = 0; a < 4; a++) {
        for (size_t blocks = 1; blocks < 6; blocks++) {
            char *span = arena_span_alloc(0, blocks, aligns[a] * BLOCK_SIZE, false, &zeroed);
            assert_non_null(span);
            assert_int_equal((uintptr_t)span % (aligns[a] * BLOCK_SIZE), 0);
            assert_int_equal(stat_now().used - used, blocks * BLOCK_SIZE);
            for (size_t b = 0; b < blocks; b++) {
                unsigned block = block_of(span + b * BLOCK_SIZE)->state;
                assert_true(block == BLOCK_SPAN || block == BLOCK_UNUSED);
                assert_true(!zeroed || span[b * BLOCK_SIZE + 77] == 0);
                span[b * BLOCK_SIZE + 77] = 1;
            }
            check_all(NULL, 0);
            arena_span_free(span, blocks);
            check_all(NULL, 0);
        }
    }
    assert_int_equal(stat_now().used, used);
}

TEST(spans_use_freed_blocks_again)
{
    char *a = arena_span_alloc(0, 3, BLOCK_SIZE, false, NULL);
    char *b = arena_span_alloc(0, 3, BLOCK_SIZE, false, NULL);
    size_t blocks = stat_now().blocks;

    assert_true(a && b);
    arena_span_free(a, 3);
    for (int i = 0; i < 20; i++) {
        char *c = arena_span_alloc(0, 3, BLOCK_SIZE, false, NULL);
        arena_span_free(c, 3);
    }
    assert_int_equal(stat_now().blocks, blocks);
    arena_span_free(b, 3);
    check_all(NULL, 0);
}

TEST(spans_grow_in_place)
{
    char *span, *behind;

    span = arena_span_alloc(0, 8, BLOCK_SIZE, false, NULL);
    arena_span_free(span, 8); /* room */
    span = arena_span_alloc(0, 2, BLOCK_SIZE, false, NULL);
    assert_true(arena_span_extend(span, 2, 1));
    span[3 * BLOCK_SIZE - 1] = 1;
    behind = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL);
    if (behind == span + 3 * BLOCK_SIZE)
        assert_false(arena_span_extend(span, 3, 1));
    assert_false(arena_span_extend(span, 3, (size_t)1 << 40));
    check_all(NULL, 0);
    arena_span_free(span, 3);
    arena_span_free(behind, 1);
    check_all(NULL, 0);
}

TEST(too_much)
{
    errno = 0;
    assert_null(arena_span_alloc(0, (size_t)1 << 40, BLOCK_SIZE, false, NULL));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(arena_span_alloc(0, 1, (size_t)1 << 55, false, NULL));
    assert_int_equal(errno, ENOMEM);
    check_all(NULL, 0);
}

/* ---- metadata ------------------------------------------------------------------------------- */

TEST(metadata_is_outside)
{
    char *slab[3];
    void *meta[3];

    for (unsigned i = 0; i < 3; i++) {
        slab[i] = arena_alloc_slab(0, 1, false, 10 + 100 * i, &meta[i]);
        assert_non_null(slab[i]);
        assert_false(pagemap_covers(meta[i]));
        assert_int_equal((uintptr_t)meta[i] % ARENA_GRANULE, 0);
        assert_ptr_equal(arena_meta(slab[i], arena_granule(slab[i], meta[i])), meta[i]);
        memset(meta[i], 0xff, 10 + 100 * i);
    }
    for (unsigned i = 0; i < 3; i++)
        arena_free_slab(slab[i], 1, meta[i], 10 + 100 * i);
    check_all(NULL, 0);
}

/* A block whose metadata is full cannot take a slab; another one does. */
TEST(slab_beside_full_metadata)
{
    enum { LARGE = 64 << 10, SLABS = 8 }; /* a block has room for four such descriptors */
    void *meta[SLABS];
    char *slab[SLABS];
    unsigned blocks = 0;

    for (unsigned n = 0; n < SLABS; n++) {
        slab[n] = arena_alloc_slab(0, 1, false, LARGE, &meta[n]);
        assert_non_null(slab[n]);
        memset(meta[n], 0xff, LARGE);
        for (unsigned i = 0; i < n; i++)
            assert_true((char *)meta[i] + LARGE <= (char *)meta[n] ||
                        (char *)meta[n] + LARGE <= (char *)meta[i]);
        blocks += n == 0 || block_of(slab[n]) != block_of(slab[n - 1]);
    }
    assert_true(blocks > 1);
    for (unsigned n = 0; n < SLABS; n++)
        arena_free_slab(slab[n], 1, meta[n], LARGE);
    check_all(NULL, 0);
}

/* Slabs whose descriptors fill a block's metadata long before its pages: a block is left once these are full, and the
 * next serves until its own are. */
TEST(blocks_by_their_metadata)
{
    enum {
        BYTES = 1000,
        SLABS = 2000,
        ROOM = (BLOCK_META - BLOCK_NOTES) / (BYTES + 2 * ARENA_GRANULE)
    };
    static void *meta[SLABS];
    static char *slab[SLABS];
    size_t before = stat_now().blocks;

    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned n = 0; n < SLABS / 2; n++)
            assert_non_null(slab[n] = arena_alloc_slab(0, 0, true, BYTES, &meta[n]));
        /* Each second one goes, and what comes finds its place again, in blocks that have been measured. */
        for (unsigned n = turn % 2; n < SLABS / 2; n += 2)
            arena_free_slab(slab[n], 0, meta[n], BYTES);
        (void)arena_trim();
        for (unsigned n = turn % 2; n < SLABS / 2; n += 2)
            assert_non_null(slab[n] = arena_alloc_slab(0, 0, true, BYTES, &meta[n]));
        for (unsigned n = SLABS / 2; n < SLABS; n++)
            assert_non_null(slab[n] = arena_alloc_slab(0, 0, true, BYTES, &meta[n]));
        assert_true(stat_now().blocks - before <= SLABS / ROOM + 2);
        for (unsigned n = 0; n < SLABS; n++)
            arena_free_slab(slab[n], 0, meta[n], BYTES);
    }
    check_all(NULL, 0);
}

/* ---- in a new process ----------------------------------------------------------------------- */

static const char *self;

struct start {
    const char *part, *reserve;
    size_t limit;
};

static int start_part(void *arg)
{
    struct start *start = arg;
    struct rlimit limit = {start->limit, RLIM_INFINITY};

    if (start->reserve)
        setenv("STOOK_RESERVE", start->reserve, 1);
    if (start->limit && setrlimit(RLIMIT_AS, &limit) != 0)
        return 99;
    execl(self, self, start->part, NULL);
    return 98;
}

static void new_process(struct start start)
{
    in_child(start_part, &start);
}

#define PART(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "part: line %d: %s\n", __LINE__, #condition);                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static size_t part_free(size_t mib)
{
    size_t n = mib << 20 >> BLOCK_SHIFT;
    static char *spans_had[1000];

    for (size_t i = 0; i < n; i++) {
        PART((spans_had[i] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)));
        memset(spans_had[i], 1, BLOCK_SIZE);
    }
    for (size_t i = 0; i < n; i++)
        arena_span_free(spans_had[i], 1);
    return stat_now().warm;
}

static void part_no_reserve(void)
{
    PART(stat_now().reserve == 0);
    PART(part_free(10) == 0);
    check_all(NULL, 0);
}

static void part_large_reserve(void)
{
    size_t warm = part_free(90);

    PART(stat_now().reserve == (size_t)128 << 20);
    PART(warm == (size_t)90 << 20);
    PART(arena_trim() == warm);
}

static void part_bad_reserve(void)
{
    PART(stat_now().reserve == (size_t)32 << 20);
}

/* The limit does not hold while the test itself needs memory. */
static void part_check(const struct check_object *held, size_t n)
{
    struct rlimit limit, none = {RLIM_INFINITY, RLIM_INFINITY};

    PART(getrlimit(RLIMIT_AS, &limit) == 0);
    none.rlim_max = limit.rlim_max;
    none.rlim_cur = limit.rlim_max;
    PART(setrlimit(RLIMIT_AS, &none) == 0);
    check_all(held, n);
    PART(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* All pages are taken but one: a slab of the least order it is. */
static void part_least_order(void)
{
    static char *had[256];
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct stook_cache *cache = stook_cache_create("least", 3000, &args);
    char *last = arena_alloc_run(0, 256, 1, false, NULL);
    struct check_object held[1];
    size_t n = 0;

    PART(cache && cache->layout.min_order == 0 && cache->layout.order > 0 && last);
    for (size_t pages = 256; pages > 0; pages /= 2)
        for (unsigned zone = 0; zone < pagemap.zones; zone++)
            while (arena_alloc_run(zone, pages, 1, false, NULL))
                ; /* for good */
    arena_free_run(last, 256);
    while (n < 256 && (had[n] = arena_alloc_run(0, 1, 1, false, NULL)))
        n++;
    PART(n == 256 && !stook_alloc(cache, 0) && errno == ENOMEM);
    arena_free_run(had[--n], 1);
    held[0] = (struct check_object){cache, stook_alloc(cache, 0)};
    PART(held[0].object && cache->nodes[0].node.made_min == 1);
    memset(held[0].object, 1, 3000);
    part_check(held, 1);
    PART(!stook_alloc(cache, 0) && errno == ENOMEM); /* 4096 bytes hold one */
    stook_free(cache, held[0].object);
    PART(stook_cache_destroy(cache) == 0);
    part_check(NULL, 0);
}

/* Under a limit it works until that is full; then it fails, and recovers. */
static void part_limited(void)
{
    static char *had[4096];
    struct stook_cache *cache = stook_cache_create("limited", 1000, NULL);
    size_t n = 0;
    void *object;

    PART(cache);
    while (n < 4096 && (had[n] = arena_alloc_run(0, 100, 1, false, NULL))) {
        had[n][0] = 1;
        n++;
    }
    PART(errno == ENOMEM && n > 6 && n < 4096);
    part_check(NULL, 0);
    object = NULL;
    while (n > 0 && !(object = stook_alloc(cache, 0)))
        arena_free_run(had[--n], 100);
    PART(object);
    stook_free(cache, object);
    while (n > 0)
        arena_free_run(had[--n], 100);
    PART(stook_cache_destroy(cache) == 0);
    part_check(NULL, 0);
}

TEST(reserve_is_a_tunable)
{
    if (getenv("STOOK_EMULATED"))
        skip(); /* exec() of this program fails there */
    new_process((struct start){.part = "no_reserve", .reserve = "0"});
    new_process((struct start){.part = "large_reserve", .reserve = "128M"});
    new_process((struct start){.part = "bad_reserve", .reserve = "much"});
}

TEST(limited_address_space)
{
    if (getenv("STOOK_EMULATED"))
        skip(); /* exec() of this program fails there */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadows need all of the address space */
#endif
    for (size_t mib = 64; mib <= 1024; mib *= 2)
        new_process((struct start){.part = "limited", .limit = mib << 20});
    /* What no block fits in has room for the metadata of one. */
    new_process((struct start){.part = "least_order", .limit = 511 << 19});
}

/* There is a limit under which the program starts and the library does not: it says what it needs. */
TEST(no_address_space)
{
    struct start start = {.part = "limited"};
    struct child child;
    bool said = false;

    if (getenv("STOOK_EMULATED"))
        skip(); /* exec() of this program fails there */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    for (size_t kib = 4 << 10; !said && kib < 64 << 10; kib += 512) {
        start.limit = kib << 10;
        child_run(&child, start_part, &start);
        said = strstr(child.error, "MiB are needed at least") && strstr(child.error, "ulimit -v");
    }
    assert_true(said);
}

/* As on a kernel with pages of 64 KiB: they go back when all of one is free, and not what is beside. */
TEST(larger_kernel_pages)
{
    enum { EACH = 16, PAGES = 4 * EACH };
    bool counted = !getenv("STOOK_EMULATED") && os_page_size() == PAGE_SIZE;
    char *run = arena_alloc_run(0, PAGES, EACH, false, NULL);

    assert_non_null(run);
    arena_trim();
    os_page_known = (size_t)EACH * PAGE_SIZE;
    for (size_t i = 0; i < PAGES; i++)
        memset(run + i * PAGE_SIZE, (int)i + 1, PAGE_SIZE);
    for (size_t i = 1; i < PAGES; i += 2)
        arena_free_run(run + i * PAGE_SIZE, 1);
    arena_trim();
    assert_int_equal(stat_now().warm, 0);
    for (size_t i = 0; i < PAGES * PAGE_SIZE; i++)
        assert_int_equal(run[i], i / PAGE_SIZE % 2 ? 0 : (char)(i / PAGE_SIZE + 1));
    if (counted)
        assert_int_equal(resident(run, PAGES * PAGE_SIZE), PAGES * PAGE_SIZE);
    for (size_t i = EACH; i < 2 * EACH; i += 2) {
        arena_free_run(run + i * PAGE_SIZE, 1);
        arena_trim();
    }
    if (counted) { /* the second */
        assert_int_equal(resident(run, EACH * PAGE_SIZE), EACH * PAGE_SIZE);
        assert_int_equal(resident(run + EACH * PAGE_SIZE, EACH * PAGE_SIZE), 0);
        assert_int_equal(resident(run + 2 * EACH * PAGE_SIZE, EACH * PAGE_SIZE), EACH * PAGE_SIZE);
    }
    check_all(NULL, 0);
    for (size_t i = 0; i < PAGES; i += 2)
        if (i / EACH != 1) {
            assert_int_equal(run[i * PAGE_SIZE], (char)(i + 1));
            arena_free_run(run + i * PAGE_SIZE, 1);
        }
    arena_trim();
    if (counted)
        assert_int_equal(resident(run, PAGES * PAGE_SIZE), 0);
    os_page_known = 0;
    check_all(NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        if (strcmp(argv[1], "no_reserve") == 0)
            part_no_reserve();
        else if (strcmp(argv[1], "large_reserve") == 0)
            part_large_reserve();
        else if (strcmp(argv[1], "bad_reserve") == 0)
            part_bad_reserve();
        else if (strcmp(argv[1], "least_order") == 0)
            part_least_order();
        else
            part_limited();
        return 0;
    }
    self = argv[0];
    return tests_run(NULL, NULL);
}
