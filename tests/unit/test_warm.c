/* SPDX-License-Identifier: MIT */
/*
 * How much free memory stays resident: the limit follows what the program needs again.  Each test runs in a child,
 * whose limits have learned nothing yet.
 */
/* wrap: raw_call6 */
#define MUST_FAILS abort()
#include "cache/alloc.h"
#include "large/arena_span.h"
#include "page/arena.h"

#include "page/block.h"
#include "page/zone.h"
#include "support/check.h"
#include "support/must.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum {
    RUN = 64,
    RUNS = 512,
    SLAB = 8,
    SLABS = 8192
};                                        /* pages of each; how many at most: 128 and 256 MiB */
enum { MIB = 256, MIB_RUNS = MIB / RUN }; /* pages of a MiB; runs of one */

static char *runs[RUNS], *slabs[SLABS];
static void *metas[SLABS];

static unsigned releases; /* system calls that give pages back */

long __real_raw_call6(long number, long a, long b, long c, long d, long e, long f);
long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f);

long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    releases += number == SYS_madvise && c == MADV_DONTNEED;
    return __real_raw_call6(number, a, b, c, d, e, f);
}

static struct arena_stat now(void)
{
    struct arena_stat stat;

    arena_stat(&stat);
    return stat;
}

static size_t pages_of(size_t bytes)
{
    return bytes / PAGE_SIZE;
}

static size_t resident(void *address, size_t pages)
{
    static unsigned char map[1 << 16];
    size_t n = 0;

    MUST(pages <= sizeof(map));
    for (size_t i = 0; i < pages; i++) /* one by one: some are not mapped */
        n += mincore((char *)address + i * PAGE_SIZE, PAGE_SIZE, &map[i]) == 0 && (map[i] & 1);
    return n;
}

static void take(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        MUST((runs[i] = arena_alloc_run(0, RUN, 1, false, NULL)));
        for (size_t p = 0; p < RUN; p++)
            runs[i][p * PAGE_SIZE] = 1;
    }
}

static void put(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        arena_free_run(runs[i], RUN);
}

/* ---- the limit ------------------------------------------------------------------------------ */

static int start_part(void *part)
{
    (void)stook_mode(NULL);
    return (*(int (**)(void))part)();
}

/* A test: the library starts in the child. */
#define WARM(part)                                                                                 \
    static int part(void);                                                                         \
    TEST(test_##part)                                                                              \
    {                                                                                              \
        int (*body)(void) = part;                                                                  \
        in_child(start_part, &body);                                                               \
    }                                                                                              \
    static int part(void)

/* A program that had 12 MiB once and frees it keeps little, and its limit is where it began. */
WARM(once)
{
    take(0, 12 * MIB_RUNS);
    put(0, 12 * MIB_RUNS);
    MUST(pages_of(now().limit) <= 2 * 2 * MIB); /* of two zones */
    MUST(pages_of(now().warm) <= 3 * MIB + MIB / 4);
    check_all(NULL, 0);
    return 0;
}

/*
 * All that is beyond the limit and its slack goes back while pages are freed, each free a step of it; and what the
 * arena calls warm is resident.
 */
WARM(goes_back)
{
    size_t warm = 0;

    take(0, 96 * MIB_RUNS);
    for (unsigned i = 0; i < 96 * MIB_RUNS; i++) {
        struct arena_stat stat;
        unsigned before = releases;
        size_t purged = pages_of(now().purged);
        put(i, i + 1);
        stat = now();
        MUST(releases - before <= 4 && pages_of(stat.purged) - purged <= (size_t)2 * RUN);
        MUST(stat.warm <= stat.limit + stat.limit / 8 + (1 << 20));
    }
    for (unsigned i = 0; i < 96 * MIB_RUNS; i++)
        warm += resident(runs[i], RUN);
    MUST(warm <= pages_of(now().warm));
    check_all(NULL, 0);
    arena_trim();
    MUST(now().warm == 0);
    for (unsigned i = 0; i < 96 * MIB_RUNS; i++)
        MUST(resident(runs[i], RUN) == 0);
    check_all(NULL, 0);
    return 0;
}

/*
 * The hysteresis: a program that breathes gives back, in all its breaths together, no more than two breaths
 * have, and none once it has learned; so it pays no page faults then.
 */
WARM(breathes)
{
    enum { BREATH = 24 * MIB_RUNS, BREATHS = 40, LEARNED = 4 };
    struct arena_stat learned = {0};
    struct rusage from = {0}, to;

    for (int breath = 0; breath < BREATHS; breath++) {
        if (breath == LEARNED) {
            learned = now();
            getrusage(RUSAGE_SELF, &from);
        }
        take(0, BREATH);
        put(0, BREATH);
    }
    getrusage(RUSAGE_SELF, &to);
    MUST(now().purged == learned.purged);
    MUST(pages_of(now().purged) <= 2 * BREATH * RUN);
    /* Of a page in fifty the kernel may have thought otherwise. */
    MUST(to.ru_minflt - from.ru_minflt < (BREATHS - LEARNED) * BREATH * RUN / 50);
    check_all(NULL, 0);
    return 0;
}

/* It learns from single pages, too. */
WARM(breathes_by_pages)
{
    enum { PAGES = 1600, BREATHS = 40 };
    static char *page[PAGES];

    for (int breath = 0; breath < BREATHS; breath++) {
        for (int i = 0; i < PAGES; i++) {
            MUST((page[i] = arena_alloc_run(0, 1, 1, false, NULL)));
            page[i][0] = 1;
        }
        for (int i = 0; i < PAGES; i++)
            arena_free_run(page[i], 1);
    }
    MUST(pages_of(now().purged) <= 2 * PAGES);
    check_all(NULL, 0);
    return 0;
}

/* The same of a program that has all of its memory again and again, and more than may be warm in any case. */
WARM(breathes_deeply)
{
    enum { BREATH = 120 * MIB_RUNS, BREATHS = 8, LEARNED = 3 };
    struct arena_stat learned = {0};

    for (int breath = 0; breath < BREATHS; breath++) {
        if (breath == LEARNED)
            learned = now();
        take(0, BREATH);
        put(0, BREATH);
    }
    MUST(now().purged == learned.purged && now().committed == learned.committed);
    MUST(pages_of(now().purged) <= 2 * BREATH * RUN);
    check_all(NULL, 0);
    return 0;
}

/* What was learned is forgotten once no page was taken for a second: the next calls give back step by step. */
WARM(idle_goes_back)
{
    enum { BREATH = 120 * MIB_RUNS, BREATHS = 4, CALLS = 400 };
    struct stook_cache *cache = stook_cache_create("idle", 64, NULL);
    struct timespec second = {1, 200000000};
    static void *object[CALLS];
    unsigned most = 0;

#ifdef STOOK_CORE /* has no reserve/idle.c */
    return 0;
#endif
    if (getauxval(AT_SYSINFO_EHDR) == 0) /* an emulator, without a vDSO */
        return 0;
    MUST(cache);
    for (int breath = 0; breath < BREATHS; breath++) {
        take(0, BREATH);
        MUST((object[breath] = alloc_slow(cache, 0)));
        put(0, BREATH);
    }
    MUST(pages_of(now().warm) >= 100 * MIB);
    nanosleep(&second, NULL);
    for (int i = BREATHS; i < CALLS; i++) {
        unsigned before = releases;
        MUST((object[i] = alloc_slow(cache, 0)));
        most = releases - before > most ? releases - before : most;
    }
    MUST(most > 0 && most <= 2 * 4);
    MUST(pages_of(now().warm) <= 5 * MIB && pages_of(now().limit) <= 5 * MIB); /* of two zones */
    for (int breath = 0; breath < 2; breath++) {
        take(0, BREATH);
        put(0, BREATH);
    }
    MUST(pages_of(now().warm) >= 100 * MIB); /* learned again */
    for (int i = 0; i < CALLS; i++)
        stook_free(cache, object[i]);
    check_all(NULL, 0);
    return 0;
}

/* With large heaps more than the reserve may be warm, if it is needed again. */
WARM(large_heap_learns)
{
    enum { SPANS = 160, SWING = 18 }; /* blocks: 320 MiB, of which 36 come and go */
    static char *span[SPANS];
    struct arena_stat learned = {0};

    for (int i = 0; i < SPANS; i++)
        MUST((span[i] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)));
    for (int swing = 0; swing < 12; swing++) {
        if (swing == 6)
            learned = now();
        for (int i = 0; i < SWING; i++)
            memset(span[i], 1, BLOCK_SIZE);
        for (int i = 0; i < SWING; i++)
            arena_span_free(span[i], 1);
        for (int i = 0; i < SWING; i++)
            MUST((span[i] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)));
    }
    MUST(now().limit > now().reserve);
    MUST(now().purged == learned.purged);
    for (int i = 0; i < SPANS; i++)
        arena_span_free(span[i], 1);
    MUST(now().limit <= 2 * now().reserve); /* two zones; nothing is in use */
    check_all(NULL, 0);
    return 0;
}

/* What was learned is forgotten: it became smaller, and warm pages are idle turn by turn. */
WARM(becomes_smaller)
{
    size_t warm;

    for (int breath = 0; breath < 6; breath++) {
        take(0, 24 * MIB_RUNS);
        put(0, 24 * MIB_RUNS);
    }
    warm = pages_of(now().warm);
    MUST(warm >= 23 * MIB);
    for (int breath = 0; breath < 400; breath++) {
        take(0, 2 * MIB_RUNS);
        put(0, 2 * MIB_RUNS);
    }
    MUST(pages_of(now().warm) <= 6 * MIB);
    check_all(NULL, 0);
    return 0;
}

/* ---- which pages ---------------------------------------------------------------------------- */

WARM(spans_go_back)
{
    char *span = arena_span_alloc(0, 40, BLOCK_SIZE, false, NULL); /* 80 MiB */

    memset(span, 1, 40 * (size_t)BLOCK_SIZE);
    arena_span_free(span, 40);
    MUST(resident(span, 40 * BLOCK_PAGES) <= pages_of(now().warm));
    MUST(pages_of(now().warm) <= 4 * MIB);
    span = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL);
    memset(span, 1, BLOCK_SIZE);
    arena_span_free(span, 1); /* a small one stays */
    MUST(resident(span, BLOCK_PAGES) > 0);
    arena_trim();
    MUST(resident(span, BLOCK_PAGES) == 0);
    check_all(NULL, 0);
    return 0;
}

/* A span is made of blocks that are resident, wherever they lie. */
WARM(spans_take_warm_blocks)
{
    char *span[8];
    struct arena_stat before;

    for (int i = 0; i < 8; i++)
        MUST((span[i] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)));
    memset(span[5], 1, BLOCK_SIZE);
    arena_span_free(span[1], 1); /* never written to, but the zone cannot know */
    arena_trim();
    arena_span_free(span[5], 1);
    before = now();
    MUST(arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL) == span[5]);
    MUST(now().committed == before.committed);
    return 0;
}

/* Warm pages that lie in pieces move to where a span has room, and those of neighbours stay. */
WARM(spans_get_pages_from_elsewhere)
{
    enum { SPANS = 8, EACH = 2, ALL = SPANS / 2 * EACH };
    size_t bytes = (size_t)EACH * BLOCK_SIZE;
    char *span[SPANS], *all;
    struct arena_stat before;

    for (int i = 0; i < SPANS; i++) {
        MUST((span[i] = arena_span_alloc(0, EACH, BLOCK_SIZE, false, NULL)));
        memset(span[i], 1 + i, bytes);
    }
    zone_all.zone[0].limit_pages = 2 * ALL * BLOCK_PAGES;
    for (int i = 0; i < SPANS; i += 2)
        arena_span_free(span[i], EACH);
    before = now();
    MUST((all = arena_span_alloc(0, ALL, BLOCK_SIZE, false, NULL)));
    if (zone_all.unmovable) /* an old kernel, or an emulator */
        return 0;
    MUST(now().committed == before.committed);
    MUST(before.warm - now().warm == ALL * (size_t)BLOCK_SIZE);
    MUST(resident(all, ALL * BLOCK_PAGES) == ALL * BLOCK_PAGES);
    memset(all, 99, ALL * (size_t)BLOCK_SIZE);
    for (int i = 0; i < SPANS; i++)
        for (size_t at = 0; at < bytes; at += PAGE_SIZE)
            MUST(i % 2 == 0 || span[i][at] == 1 + i);
    check_all(NULL, 0);
    arena_span_free(all, ALL);
    arena_trim();
    for (int i = 0; i < SPANS; i += 2)
        MUST(resident(span[i], EACH * BLOCK_PAGES) == 0);
    check_all(NULL, 0);
    return 0;
}

/* Spans that come after small objects find no room between the last of these: what is warm there goes back. */
WARM(spans_replace_pieces)
{
    enum { MOST = 48, SPANS = 11, PIECES = MOST * MIB_RUNS };
    char *span[SPANS];
    size_t most = 0;

    for (int breath = 0; breath < 6; breath++) {
        take(0, PIECES);
        put(0, PIECES);
    }
    take(0, PIECES);
    for (unsigned i = 0; i < PIECES; i += BLOCK_PAGES / RUN) /* one run of each block stays */
        put(i + 1, i + BLOCK_PAGES / RUN);
    MUST(pages_of(now().warm) >= 24 * MIB);
    for (int i = 0; i < SPANS; i++) {
        MUST((span[i] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)));
        most = now().used + now().warm > most ? now().used + now().warm : most;
    }
    MUST(pages_of(most) <= (MOST + MOST / 16 + 2) * MIB);
    for (int i = 0; i < SPANS; i++)
        arena_span_free(span[i], 1);
    check_all(NULL, 0);
    return 0;
}

/* A program that keeps replacing large blocks stays near its most, and takes little from the kernel then. */
WARM(replaced_spans_stay)
{
    enum { LIVE = 20, ROUNDS = 400, LEARNED = 200, LEAST = 2, MORE = 8 };
    char *span[LIVE];
    size_t blocks[LIVE], used = 0, most = 0;
    struct arena_stat learned = {0};
    unsigned seed = 1;

    for (int n = 0; n < ROUNDS; n++) {
        int i = n < LIVE ? n : (int)((seed = seed * 1103515245 + 12345) >> 16) % LIVE;
        if (n >= LIVE) {
            arena_span_free(span[i], blocks[i]);
            used -= blocks[i];
        }
        if (n == LEARNED)
            learned = now();
        blocks[i] = LEAST + ((seed = seed * 1103515245 + 12345) >> 16) % MORE;
        used += blocks[i];
        most = used > most ? used : most;
        MUST((span[i] = arena_span_alloc(0, blocks[i], BLOCK_SIZE, false, NULL)));
        MUST(now().used + now().warm <= (most + most / 8 + 32) * BLOCK_SIZE);
    }
    if (!zone_all.unmovable) /* a quarter of what was taken at most */
        MUST(now().committed - learned.committed <=
             (uint64_t)(ROUNDS - LEARNED) * (LEAST + MORE / 2) * BLOCK_SIZE / 4);
    check_all(NULL, 0);
    return 0;
}

/* Pages that lie scattered cost a call each: a free gives back no more of them than a few. */
WARM(scattered_go_back_in_steps)
{
    enum { PAGES = 16 * MIB };
    static char *page[PAGES];
    unsigned most = 0;

    for (int i = 0; i < PAGES; i++) {
        MUST((page[i] = arena_alloc_run(0, 1, 1, false, NULL)));
        page[i][0] = 1;
    }
    for (int i = 0; i < PAGES; i += 2) {
        unsigned before = releases;
        arena_free_run(page[i], 1);
        most = releases - before > most ? releases - before : most;
    }
    MUST(most > 0 && most <= 4);
    MUST(pages_of(now().warm) <= 4 * MIB);
    check_all(NULL, 0);
    return 0;
}

/*
 * A block on a huge page is not broken for a few free slabs, however much is warm; once half of it is free,
 * they go back.  From then on it is a block like others.
 */
WARM(huge_pages_stay_whole)
{
    enum { EACH = BLOCK_PAGES / SLAB, BLOCKS = 40, FIRST = 20 };
    uint64_t purged;

    for (unsigned i = 0; i < BLOCKS * EACH; i++) {
        MUST((slabs[i] = arena_alloc_slab(0, 3, true, 64, &metas[i])));
        memset(slabs[i], 1, SLAB * PAGE_SIZE);
    }
    MUST(zone_block(pagemap_index(slabs[FIRST * EACH]))->huge);
    purged = now().purged;
    for (unsigned k = 0; k < EACH; k++) { /* the k-th slab of each block */
        for (unsigned b = FIRST; b < BLOCKS; b++)
            arena_free_slab(slabs[b * EACH + k], 3, metas[b * EACH + k], 64);
        if ((k + 1) * SLAB < BLOCK_PAGES / 2)
            MUST(now().purged == purged);
    }
    MUST(pages_of(now().purged - purged) >= (BLOCKS - FIRST) * BLOCK_PAGES - 5 * MIB);
    check_all(NULL, 0);
    return 0;
}
