/* SPDX-License-Identifier: MIT */
/* wrap: raw_call6 */
/*
 * The address space of free blocks: it goes back, is taken again at the same place, and what others have
 * mapped there stays theirs.  Each case runs in a child: a process has one window.
 */
#include "support/faults.h"

#include "os/os.h"
#include "base/hooks.h"
#include "large/arena_span.h"
#include "large/arena_note.h"
#include "page/arena.h"
#include "page/window.h"
#include "page/zone.h"
#include "support/check.h"
#include "support/topology_child.h"

#include <stook/stook.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WITH_META = BLOCK_SIZE + BLOCK_META, /* bytes of address space of a block of slabs */
    MANY = 400,                          /* blocks, more than ever stay mapped */
    HOLES_MOST = 128,
    META_BIG = 200, /* bytes of a descriptor */
};

static bool is_mapped(const void *address)
{
    unsigned char there;

    return mincore((void *)((uintptr_t)address & -(uintptr_t)os_page_size()), 1, &there) == 0;
}

static unsigned mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned n = 0;

    for (int c; maps && (c = getc(maps)) != EOF;)
        n += c == '\n';
    if (maps)
        fclose(maps);
    return n;
}

/* Bytes of address space as limits count them. */
static size_t address_space(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (!statm || fscanf(statm, "%ld", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    return (size_t)pages * os_page_size();
}

static bool limit_to(size_t more)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return false;
    limit.rlim_cur = more == RLIM_INFINITY ? limit.rlim_max : address_space() + more;
    return setrlimit(RLIMIT_AS, &limit) == 0;
}

/* Whether the mapping that holds an address has a flag in smaps. */
static bool has_flag(const void *address, const char *flag)
{
    uintptr_t from = 0, to = 0, wanted = (uintptr_t)address;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    bool found = false;
    char line[512];

    while (smaps && fgets(line, sizeof(line), smaps)) {
        unsigned long a, b;
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
            from = a, to = b;
        if (strncmp(line, "VmFlags:", 8) == 0 && wanted >= from && wanted < to)
            found = strstr(line, flag) != NULL;
    }
    if (smaps)
        fclose(smaps);
    return found;
}

/* A span of n blocks that is written to at both ends, and read as zeros before. */
static char *take(size_t n)
{
    bool zeroed = false;
    char *span = arena_span_alloc(0, n, BLOCK_SIZE, false, &zeroed);

    if (!span || (zeroed && (span[0] || span[n * BLOCK_SIZE - 1])))
        return NULL;
    span[0] = span[n * BLOCK_SIZE - 1] = 1;
    return span;
}

/* A slab of a whole block, which has metadata; or a run, which has none. */
static char *take_slab(bool slab)
{
    struct arena_ask ask = {.pages = BLOCK_PAGES, .align = 1, .meta_bytes = slab ? 64 : 0};
    void *meta = NULL;
    char *pages = arena_alloc(0, &ask, NULL, &meta);

    if (pages && slab)
        memset(meta, 0, ask.meta_bytes);
    return pages;
}

/* A slab of two blocks. */
static char *take_big(void)
{
    struct arena_ask ask = {
        .pages = 2 * BLOCK_PAGES, .align = 2 * BLOCK_PAGES, .meta_bytes = META_BIG};
    void *meta = NULL;
    char *pages = arena_alloc(0, &ask, NULL, &meta);

    if (!pages)
        return NULL;
    if ((uintptr_t)pages % ((size_t)2 * BLOCK_SIZE) != 0 ||
        meta != arena_meta(pages, BLOCK_FIRST_GRANULE) ||
        meta != arena_meta(pages + BLOCK_SIZE, arena_granule(pages + BLOCK_SIZE, meta)))
        abort();
    memset(meta, 1, META_BIG);
    pages[0] = pages[2 * BLOCK_SIZE - 1] = 1;
    return pages;
}

static void free_big(char *pages)
{
    void *meta = arena_meta(pages, BLOCK_FIRST_GRANULE);

    memset(meta, 0, META_BIG);
    arena_free(pages, 2 * BLOCK_PAGES, meta, META_BIG);
}

static void free_slab(char *pages)
{
    arena_free(pages, BLOCK_PAGES, arena_meta(pages, BLOCK_FIRST_GRANULE), 64);
}

/* All of a span's blocks gone, or none. */
static bool all_gone(const char *span, size_t n, bool gone)
{
    for (size_t i = 0; i < n; i++)
        if (zone_is_gone(&zone_all.zone[0], pagemap_index(span + i * BLOCK_SIZE)) != gone)
            return false;
    return true;
}

/* Many spans are freed: the address space falls; they come back from the same place. */
static int spans_go_back(void *arg)
{
    static char *span[MANY];
    size_t low, mapped, space;

    for (unsigned i = 0; i < MANY; i++)
        MUST((span[i] = take(1)) != NULL);
    low = pagemap.low, mapped = window_mapped(), space = address_space();
    for (unsigned i = 0; i < MANY; i++)
        arena_span_free(span[i], 1);
    MUST(mapped - window_mapped() >= (size_t)MANY / 2 * BLOCK_SIZE);
    MUST(space - address_space() >= mapped - window_mapped() - BLOCK_SIZE);
    check_all(NULL, 0);
    for (unsigned i = 0; i < MANY; i++)
        MUST((span[i] = take(1)) != NULL);
    MUST(pagemap.low == low && window_mapped() == mapped);
    check_all(NULL, 0);
    for (unsigned i = 0; i < MANY; i++)
        arena_span_free(span[i], 1);
    arena_trim();
    MUST(mapped - window_mapped() >= (size_t)MANY * BLOCK_SIZE);
    MUST(zone_all.zone[0].clean == 0 && all_gone(span[0], 1, true));
    check_all(NULL, 0);
    return 0;
}

/* A large span goes and comes as one, and so does one that grows in place over what is gone. */
static int one_span_goes_back(void *arg)
{
    size_t mapped;
    char *span = take(MANY);

    MUST(span && !is_mapped(pagemap_meta(pagemap_index(span))));
    mapped = window_mapped();
#if FAULTS_POSSIBLE
    fault_calls = fault_at = fault_length = 0, fault_off = false;
    arena_span_free(span, MANY);
    fault_off = true;
    MUST(fault_calls == 2); /* madvise; munmap */
#else
    arena_span_free(span, MANY);
#endif
    MUST(mapped - window_mapped() >= (size_t)MANY / 2 * BLOCK_SIZE);
    arena_trim();
    MUST(all_gone(span, MANY, true) && !is_mapped(span));
    MUST(take(10) == span && all_gone(span, 10, false));
    MUST(all_gone(span + (size_t)10 * BLOCK_SIZE, MANY - 10, true));
    MUST(arena_span_extend(span, 10, MANY - 10) && all_gone(span, MANY, false));
    memset(span + (size_t)9 * BLOCK_SIZE, 1, 2 * BLOCK_SIZE);
    MUST(window_mapped() == mapped);
    check_all(NULL, 0);
    arena_span_free(span, MANY);
    check_all(NULL, 0);
    return 0;
}

/* Blocks of runs and slabs; with huge pages where these were asked for. */
static int slabs_go_back(void *arg)
{
    enum { ORDER = 6, SLABS = MANY * BLOCK_PAGES >> ORDER, META = 4000 };
    static struct {
        char *slab;
        void *meta;
    } had[SLABS];
    size_t mapped = 0;

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SLABS; i++) {
            had[i].slab = arena_alloc_slab(0, ORDER, true, META, &had[i].meta);
            MUST(had[i].slab);
            if (i % 64 == 0) /* one block in eight is resident */
                had[i].slab[0] = 1;
            memset(had[i].meta, 1, META);
        }
        for (unsigned i = 0; i < SLABS; i += SLABS / 4) {
            const struct block *block = zone_block(pagemap_index(had[i].slab));
            bool there = has_flag(had[SLABS - 1].slab, " hg");
            MUST(!there || block->huge == has_flag(had[i].slab, " hg"));
            MUST(block->shown == BLOCK_PAGES || pagemap_index(had[i].slab) < 8);
        }
        MUST(round == 0 || mapped == window_mapped());
        mapped = window_mapped();
        zone_set_reserve(&zone_all.zone[0],
                         zone_all.zone[0].reserve_pages); /* nothing is learned */
        for (unsigned i = 0; i < SLABS; i++) {
            memset(had[i].meta, 0, META);
            arena_free_slab(had[i].slab, ORDER, had[i].meta, META);
        }
        MUST(round == 0 || mapped - window_mapped() >= (size_t)MANY / 2 * WITH_META);
        if (round == 1)
            arena_trim();
        check_all(NULL, 0);
    }
    return 0;
}

/* ---- others' mappings ----------------------------------------------------------------------- */

/* Others' memory in the place of a block that is gone is neither taken nor harmed. */
static int something_else_lies_there(void *arg)
{
    size_t size = os_page_size();
    static char *span[MANY];
    char *all = take(MANY), *place;
    uint32_t index;

    MUST(all);
    arena_span_free(all, MANY);
    arena_trim();
    index = pagemap_index(all) + MANY / 2 + 3;
    place = pagemap_block(index);
    MUST(mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
              0) == place);
    memset(place, 0x77, size);
    MUST((all = take(MANY)) != NULL && (all > place || all + (size_t)MANY * BLOCK_SIZE <= place));
    for (unsigned i = 0; i < MANY; i++) {
        MUST((span[i] = take(i % 2 ? 1 : 2)) != NULL);
        MUST(span[i] > place || span[i] + (size_t)(i % 2 ? 1 : 2) * BLOCK_SIZE <= place);
    }
    for (size_t i = 0; i < size; i++)
        MUST(place[i] == 0x77);
    MUST(pagemap.zone[index] == UINT8_MAX && *pagemap_at(place) == 0);
    check_all(NULL, 0);
    arena_span_free(all, MANY);
    for (unsigned i = 0; i < MANY; i++)
        arena_span_free(span[i], i % 2 ? 1 : 2);
    arena_trim();
    for (size_t i = 0; i < size; i++)
        MUST(place[i] == 0x77);
    check_all(NULL, 0);
    return 0;
}

/* The same for blocks that are cut into runs, and for the place of a block's metadata. */
static int something_else_among_runs(void *arg)
{
    char *all = take(MANY), *place;
    bool meta = arg != NULL;

    MUST(all);
    arena_span_free(all, MANY);
    arena_trim();
    place = all + (size_t)5 * BLOCK_SIZE;
    if (meta)
        MUST(mmap(pagemap_meta(pagemap_index(place)), BLOCK_META, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0) == pagemap_meta(pagemap_index(place)));
    else
        MUST(mmap(place, BLOCK_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
             place);
    for (unsigned i = 0; i < 100; i++) {
        char *run = take_slab(meta);
        MUST(run && run != place);
        memset(run, 1, BLOCK_SIZE);
    }
    MUST(pagemap.zone[pagemap_index(place)] == UINT8_MAX);
    MUST(is_mapped(meta ? pagemap_meta(pagemap_index(place)) : place) &&
         !(meta && is_mapped(place)));
    check_all(NULL, 0);
    return 0;
}

/* ---- refusals ------------------------------------------------------------------------------- */

/* Free blocks in a row: a hundred that are gone, a warm one, a hundred that are gone. */
static char *gone_and_warm(void)
{
    char *first = take(100), *middle = take(1), *last = take(100);

    if (!first || middle != first + (size_t)100 * BLOCK_SIZE || last != middle + BLOCK_SIZE)
        return NULL;
    arena_span_free(first, 100);
    arena_span_free(last, 100);
    arena_trim();
    arena_span_free(middle, 1);
    return all_gone(first, 100, true) && all_gone(middle, 1, false) && all_gone(last, 100, true)
               ? first
               : NULL;
}

/* A limit that refuses a part of what is wanted: nothing is half made. */
static int limits_refuse(void *arg)
{
    size_t mapped, n = 0;
    static char *had[MANY];
    char *all = gone_and_warm();

    MUST(all);
    mapped = window_mapped();
    MUST(limit_to((size_t)120 * BLOCK_SIZE));
    errno = 0;
    MUST(!arena_span_alloc(0, 250, BLOCK_SIZE, false, NULL) && errno == ENOMEM);
    MUST(window_mapped() - mapped < BLOCK_SIZE); /* page map, for what would have been new */
    MUST(all_gone(all, 100, true));
    check_all(NULL, 0);
    MUST(take(1) && take(50)); /* what is less than the limit is there */
    while (n < MANY && (had[n] = arena_alloc_run(0, BLOCK_PAGES, 1, false, NULL)))
        n++;
    MUST(n >= 50 && n < 100);
    check_all(NULL, 0);
    while (n > 0)
        arena_free_run(had[--n], BLOCK_PAGES);
    MUST(limit_to(RLIM_INFINITY));
    MUST(take(201) && take(100));
    check_all(NULL, 0);
    return 0;
}

#if FAULTS_POSSIBLE
/* The n-th call that takes blocks fails, or the n-th and what follows. */
static int taking_fails(void *arg)
{
    unsigned length = arg ? 1000 : 1;
    char *all = gone_and_warm(), *span;

    MUST(all);
    for (unsigned n = 1;; n++) {
        size_t mapped = window_mapped();
        fault_at = n, fault_length = length, fault_calls = fault_hits = 0;
        fault_off = false;
        span = arena_span_alloc(0, 201, BLOCK_SIZE, false, NULL);
        fault_off = true;
        check_all(NULL, 0);
        if (!span) {
            MUST(fault_hits > 0); /* and what was mapped goes, unless that fails, too */
            MUST(length > 1 || window_mapped() - mapped < BLOCK_SIZE);
            continue;
        }
        arena_span_free(span, 201);
        arena_trim();
        check_all(NULL, 0);
        if (fault_hits == 0)
            return n > 1 ? 0 : 1;
    }
}

/* And one that gives back. */
static int giving_back_fails(void *arg)
{
    enum { SPANS = 8 };
    unsigned length = arg ? 1000 : 1, hits;

    for (unsigned n = 1;; n++) {
        static char *span[SPANS];
        for (unsigned i = 0; i < SPANS; i++)
            MUST((span[i] = take(i + 1)) != NULL);
        fault_at = n, fault_length = length, fault_calls = fault_hits = 0;
        fault_off = false;
        for (unsigned i = 0; i < SPANS; i += 2)
            arena_span_free(span[i], i + 1);
        arena_trim();
        fault_off = true;
        hits = fault_hits;
        check_all(NULL, 0);
        for (unsigned i = 0; i < SPANS; i += 2)
            MUST((span[i] = take(i + 1)) != NULL);
        check_all(NULL, 0);
        for (unsigned i = 0; i < SPANS; i++)
            arena_span_free(span[i], i + 1);
        arena_trim();
        check_all(NULL, 0);
        if (hits == 0)
            return n > 1 ? 0 : 1;
    }
}

/* A zone's first block, of which few pages may be used yet, with one page taken; and free blocks all of whose pages
 * may be. */
static char *hidden_and_free(void)
{
    enum { SLABS = 8 };
    char *page = arena_alloc_run(0, 1, 1, false, NULL), *slab[SLABS];

    for (unsigned i = 0; i < SLABS; i++)
        if ((slab[i] = take_slab(true)) == NULL)
            return NULL;
    for (unsigned i = 0; i < SLABS; i++)
        free_slab(slab[i]);
    lock_take(&zone_all.zone[0].lock, LOCK_ARENA);
    (void)zone_purge(&zone_all.zone[0], 0, SIZE_MAX,
                     SIZE_MAX); /* what is freed next is the only warm block */
    lock_drop(&zone_all.zone[0].lock, LOCK_ARENA);
    return page && zone_block(pagemap_index(page))->shown < BLOCK_PAGES / 2 ? page : NULL;
}

static void refuse_all(bool refuse)
{
    fault_at = 1, fault_length = 1 << 20, fault_calls = fault_hits = 0;
    fault_off = !refuse;
}

/* The kernel refuses pages of a block that were never used: other free pages serve.  With an argument, the
 * block is free as a whole. */
static int hidden_pages_are_refused(void *arg)
{
    char *page = hidden_and_free(), *run, *slab, *span, *more;

    MUST(page);
    if (arg)
        arena_free_run(page, 1);
    refuse_all(true);
    run = arena_alloc_run(0, BLOCK_PAGES / 2, 1, false, NULL);
    MUST(fault_hits > 0);
    slab = take_slab(true);
    span = take(1);
    more = take(2);
    refuse_all(false);
    MUST(run && slab && span && more);
    memset(run, 1, BLOCK_SIZE / 2);
    memset(slab, 1, BLOCK_SIZE);
    memset(span, 1, BLOCK_SIZE);
    memset(more, 1, (size_t)2 * BLOCK_SIZE);
    MUST(pagemap_index(run) != pagemap_index(page) && pagemap_index(slab) != pagemap_index(page));
    check_all(NULL, 0);
    /* What was refused is had once it no longer is. */
    MUST(take_slab(true) && take_slab(false) && take(20));
    check_all(NULL, 0);
    return 0;
}

/* A fork sets blocks aside that need nothing of the kernel. */
static int hidden_pages_are_refused_to_a_fork(void *arg)
{
    struct zone *zone = &zone_all.zone[0];
    char *page = hidden_and_free();
    uint64_t word;

    MUST(page);
    arena_free_run(page, 1);
    lock_take(&zone->lock, LOCK_ARENA);
    refuse_all(true);
    zone_stock_open(zone, true);
    refuse_all(false);
    for (unsigned i = 0; i < ZONE_STOCK; i++) {
        word = atomic_load(&zone->stock[i]);
        MUST(word >> 32 >= zone->first && word >> 32 < zone->end);
        MUST(zone_block((uint32_t)(word >> 32))->shown == BLOCK_PAGES);
    }
    zone_stock_close(zone);
    lock_drop(&zone->lock, LOCK_ARENA);
    check_all(NULL, 0);
    return 0;
}

/* The first block with enough pages can have no metadata: another block that has both serves. */
static int metadata_of_runs_are_refused(void *arg)
{
    enum { RUNS = 40 }; /* two a block, in more blocks than get their metadata together */
    struct arena_ask half = {.pages = BLOCK_PAGES / 2, .align = 1, .meta_bytes = 64}, ask = half;
    char *run[RUNS], *slab[2], *found;
    void *meta[2], *at;

    for (int i = 0; i < RUNS; i++)
        MUST((run[i] = arena_alloc_run(0, 200, 1, false, NULL)) != NULL);
    for (int i = 0; i < 2; i++)
        MUST((slab[i] = arena_alloc(0, &half, NULL, &meta[i])) != NULL);
    MUST(pagemap_index(slab[0]) == pagemap_index(slab[1]) &&
         pagemap_index(run[0]) == pagemap_index(run[1]));
    MUST(!zone_has_meta(&zone_all.zone[0], pagemap_index(run[0])));
    arena_free_run(run[0], 200);
    arena_free(slab[0], half.pages, meta[0], half.meta_bytes);
    ask.pages = 150; /* those of runs are of a shorter row, which is searched first */
    refuse_all(true);
    found = arena_alloc(0, &ask, NULL, &at);
    refuse_all(false);
    MUST(found && pagemap_index(found) == pagemap_index(slab[1]));
    check_all(NULL, 0);
    return 0;
}

/* Many blocks have free pages and no room in their metadata: where there are no new ones, the one that has room is
 * found behind them. */
static int metadata_of_many_are_full(void *arg)
{
    enum { BLOCKS = 100 };
    struct arena_ask small = {.pages = BLOCK_PAGES / 2, .align = 1, .meta_bytes = 64};
    struct arena_ask full = small;
    char *first, *found;
    void *meta;

    full.pages = BLOCK_PAGES / 2 + 1;
    full.meta_bytes = (size_t)(BLOCK_GRANULES - BLOCK_FIRST_GRANULE) * ARENA_GRANULE;
    MUST((first = arena_alloc(0, &small, NULL, &meta)) != NULL);
    memset(first, 1, BLOCK_SIZE / 2);
    for (int i = 0; i < BLOCKS; i++)
        MUST(arena_alloc(0, &full, NULL, &meta) != NULL);
    small.pages = 10;
    refuse_all(true);
    found = arena_alloc(0, &small, NULL, &meta);
    refuse_all(false);
    MUST(found && pagemap_index(found) == pagemap_index(first));
    check_all(NULL, 0);
    return 0;
}
#endif

/* ---- metadata ----------------------------------------------------------------------------------- */

/* Blocks that spans have used, here and there, hold slabs: their metadata are mapped in few pieces. */
static int metadata_in_few_pieces(void *arg)
{
    enum { SPANS = 4096, PARTS_MOST = 182 /* the root of 8 * 4100 */ };
    static char *span[SPANS];
    struct zone *zone = &zone_all.zone[0];
    uint32_t most = 0;
    size_t mapped;
    unsigned before;

    MUST(take_slab(true));
    for (unsigned i = 0; i < SPANS; i++)
        MUST((span[i] = take(1)) != NULL);
    MUST(zone->meta_parts == 1 && !is_mapped(pagemap_meta(pagemap_index(span[SPANS / 2]))));
    before = mappings(), mapped = window_mapped();
    for (unsigned stride = SPANS; stride >= 2; stride /= 2)
        for (unsigned i = stride / 2; i < SPANS; i += stride) {
            bool had = zone_has_meta(zone, pagemap_index(span[i]));
            arena_span_free(span[i], 1);
            MUST(take_slab(false) == span[i]);
            MUST(had == zone_has_meta(zone, pagemap_index(span[i])));
            arena_free_run(span[i], BLOCK_PAGES);
            MUST(take_slab(true) == span[i]);
            MUST(zone_has_meta(zone, pagemap_index(span[i])));
            most = zone->meta_parts > most ? zone->meta_parts : most;
            MUST(most <= PARTS_MOST && (i > stride || mappings() <= before + PARTS_MOST));
        }
    MUST(most > 60);
    MUST(window_mapped() - mapped <= (size_t)(SPANS + 16) * BLOCK_META);
    check_all(NULL, 0);
    arena_span_free(span[0], 1);
    for (unsigned i = 1; i < SPANS; i++)
        free_slab(span[i]);
    arena_trim();
    MUST(zone->clean == 0 && zone->meta_parts <= 2 && mappings() <= before + 8);
    MUST(!is_mapped(pagemap_meta(pagemap_index(span[SPANS / 2]))));
    check_all(NULL, 0);
    return 0;
}

#if FAULTS_POSSIBLE
/* A slab is had or refused, and blocks with metadata serve where others cannot have any. */
static int metadata_is_refused(void *arg)
{
    enum { SLABS = 12 };
    unsigned length = arg ? 1000 : 1, hits;

    for (unsigned n = 1;; n++) {
        static char *slab[SLABS], *span;
        unsigned had = 0;
        MUST((span = take(SLABS)) != NULL);
        arena_span_free(span, SLABS);
        fault_at = n, fault_length = length, fault_calls = fault_hits = 0;
        fault_off = false;
        for (unsigned i = 0; i < SLABS; i++)
            had += (slab[i] = take_slab(true)) != NULL;
        fault_off = true;
        hits = fault_hits;
        check_all(NULL, 0);
        MUST(had == SLABS || hits > 0);
        for (unsigned i = 0; i < SLABS; i++)
            if (slab[i])
                free_slab(memset(slab[i], 1, BLOCK_SIZE));
        fault_calls = 0, fault_off = false; /* and what unmaps them */
        arena_trim();
        fault_off = true;
        hits += fault_hits;
        check_all(NULL, 0);
        arena_trim();
        MUST(zone_all.zone[0].clean == 0);
        if (hits == 0)
            return n > 1 ? 0 : 1;
    }
}
#endif

/* Slabs of several blocks: each block goes back like others, and serves a span, a run or such a slab next. */
static int big_slabs_go_back(void *arg)
{
    enum { BIG = MANY / 4 };
    static char *big[BIG];
    size_t used = arena_used(), low = 0, mapped = 0;
    char *span;

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BIG; i++)
            MUST((big[i] = take_big()) != NULL);
        MUST(round == 0 || low == pagemap.low); /* no new blocks */
        low = pagemap.low;
        MUST(arena_used() - used == (size_t)BIG * 2 * BLOCK_SIZE);
        check_all(NULL, 0);
        mapped = window_mapped();
        for (unsigned i = 0; i < BIG; i++)
            free_big(big[i]);
        MUST(arena_used() == used);
        if (round == 1)
            arena_trim();
        check_all(NULL, 0);
    }
    arena_trim();
    MUST(all_gone(big[0], 1, true) && mapped - window_mapped() >= (size_t)BIG * 2 * BLOCK_SIZE);
    MUST((span = take((size_t)BIG)) != NULL && take_slab(true) && take_slab(false));
    check_all(NULL, 0);
    return 0;
}

/* Others' memory where a first block's metadata would be: that block is lost, and another serves. */
static int something_else_is_big_metadata(void *arg)
{
    char *big = take_big(), *first;
    uint32_t index;

    MUST(big);
    free_big(big);
    MUST((first = take(MANY)) != NULL);
    arena_span_free(first, MANY);
    arena_trim();
    for (index = pagemap_index(first);
         zone_has_meta(&zone_all.zone[0], index) || is_mapped(pagemap_meta(index)); index++)
        MUST(index < pagemap_index(first) + MANY);
    for (uint32_t i = index; i < index + 8; i++) /* whichever of these is the first of a slab */
        MUST(mmap(pagemap_meta(i), os_page_size(), PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pagemap_meta(i));
    for (unsigned i = 0; i < MANY / 4; i++) {
        MUST((big = take_big()) != NULL);
        MUST(pagemap_index(big) < index || pagemap_index(big) >= index + 8);
    }
    check_all(NULL, 0);
    return 0;
}

#if FAULTS_POSSIBLE
/* The n-th call that takes or gives back such slabs fails, or the n-th and what follows. */
static int big_slabs_are_refused(void *arg)
{
    enum { BIG = 5 };
    unsigned length = arg ? 1000 : 1, hits;

    for (unsigned n = 1;; n++) {
        static char *big[BIG];
        unsigned had = 0;
        fault_at = n, fault_length = length, fault_calls = fault_hits = 0;
        fault_off = false;
        for (unsigned i = 0; i < BIG; i++) {
            errno = 0;
            big[i] = take_big();
            had += big[i] != NULL;
            MUST(big[i] || errno == ENOMEM);
        }
        MUST(had == BIG || fault_hits > 0);
        for (unsigned i = 0; i < BIG; i++)
            if (big[i])
                free_big(big[i]);
        arena_trim();
        fault_off = true;
        hits = fault_hits;
        check_all(NULL, 0);
        arena_trim();
        MUST(arena_used() == 0 && zone_all.zone[0].clean == 0);
        if (hits == 0)
            return n > 1 ? 0 : 1;
    }
}
#endif

/* Runs have metadata from the first note on: the block of the note when it is noted, others when they are cut. */
static int notes_map_metadata(void *arg)
{
    char *run = take_slab(false), *next;
    struct zone *zone = &zone_all.zone[0];

    MUST(run && !zone_has_meta(zone, pagemap_index(run)));
    MUST(*(const uint64_t *)arena_note(run, false) == 0);
    arena_unnote(run, false);
#if FAULTS_POSSIBLE
    fault_at = 1, fault_length = 1000, fault_calls = 0, fault_off = false;
    MUST(!arena_set_note(run, false, 4711));
    fault_off = true;
    MUST(*(const uint64_t *)arena_note(run, false) == 0);
    arena_unnote(run, false);
#endif
    MUST(arena_set_note(run, false, 4711) && zone_has_meta(zone, pagemap_index(run)));
    MUST(*(const uint64_t *)arena_note(run, false) == 4711);
    MUST((next = take_slab(false)) != NULL && zone_has_meta(zone, pagemap_index(next)));
    arena_unnote(run, false);
    MUST(*(const uint64_t *)arena_note(run, false) == 0);
    arena_free_run(run, BLOCK_PAGES);
    arena_free_run(next, BLOCK_PAGES);
    check_all(NULL, 0);
    return 0;
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* However much of a heap is free in pieces, it has few mappings more. */
static int few_mappings(void *arg)
{
    enum { SPANS = 3000 };
    static char *span[SPANS];
    unsigned before, most;
    size_t mapped;

    for (unsigned i = 0; i < SPANS; i++)
        MUST((span[i] = take(2)) != NULL);
    before = mappings(), mapped = window_mapped();
    for (unsigned i = 0; i < SPANS; i += 2)
        arena_span_free(span[i], 2);
    arena_trim();
    most = mappings();
    MUST(atomic_load(&zone_all.holes) > 10 && atomic_load(&zone_all.holes) <= HOLES_MOST);
    MUST(most > before && most - before <= HOLES_MOST + 8);
    check_all(NULL, 0);
    for (unsigned i = 1; i < SPANS; i += 2)
        arena_span_free(span[i], 2);
    arena_trim();
    MUST(mapped - window_mapped() >= (size_t)2 * SPANS * BLOCK_SIZE);
    MUST(atomic_load(&zone_all.holes) <= 2 && mappings() <= before + 8);
    check_all(NULL, 0);
    return 0;
}

/* A child finds the same blocks gone, and takes them for itself. */
static int child_of_fork(void *arg)
{
    char *span = take(MANY);
    int status;
    pid_t pid;

    MUST(span);
    arena_span_free(span, MANY);
    pid = fork();
    if (pid == 0) {
        span = take(MANY);
        check_all(NULL, 0);
        _exit(span ? 0 : 1);
    }
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    MUST(take(MANY) == span);
    check_all(NULL, 0);
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

struct space_case {
    const char *name;
    int (*body)(void *arg);
    void *arg;
};

/* Where a range is reserved nothing can be planted, and limits are another matter. */
static void run(void **state)
{
    const struct space_case *c = *state;

    if (getenv("STOOK_EMULATED") || is_mapped((char *)pagemap.base + pagemap.high / 2))
        skip();
    if (!hooks.span && strstr(c->name, "big")) /* the core alone has none */
        skip();
    in_child(c->body, c->arg);
}

#define CASE(name, body, arg)                                                                      \
    {                                                                                              \
        name, run, NULL, NULL, &(struct space_case)                                                \
        {                                                                                          \
            name, body, arg                                                                        \
        }                                                                                          \
    }

int main(void)
{
    struct CMUnitTest tests[] = {
        CASE("spans_go_back", spans_go_back, NULL),
        CASE("one_span_goes_back", one_span_goes_back, NULL),
        CASE("slabs_go_back", slabs_go_back, NULL),
        CASE("something_else_lies_there", something_else_lies_there, NULL),
        CASE("something_else_among_runs", something_else_among_runs, NULL),
        CASE("something_else_is_metadata", something_else_among_runs, tests),
        CASE("limits_refuse", limits_refuse, NULL),
#if FAULTS_POSSIBLE
        CASE("taking_fails", taking_fails, NULL),
        CASE("taking_fails_for_long", taking_fails, tests),
        CASE("giving_back_fails", giving_back_fails, NULL),
        CASE("giving_back_fails_for_long", giving_back_fails, tests),
        CASE("hidden_pages_are_refused", hidden_pages_are_refused, NULL),
        CASE("hidden_pages_of_a_free_block_are_refused", hidden_pages_are_refused, tests),
        CASE("hidden_pages_are_refused_to_a_fork", hidden_pages_are_refused_to_a_fork, NULL),
        CASE("metadata_of_runs_are_refused", metadata_of_runs_are_refused, NULL),
        CASE("metadata_of_many_are_full", metadata_of_many_are_full, NULL),
#endif
        CASE("metadata_in_few_pieces", metadata_in_few_pieces, NULL),
#if FAULTS_POSSIBLE
        CASE("metadata_is_refused", metadata_is_refused, NULL),
        CASE("metadata_is_refused_for_long", metadata_is_refused, tests),
#endif
        CASE("big_slabs_go_back", big_slabs_go_back, NULL),
        CASE("something_else_is_big_metadata", something_else_is_big_metadata, NULL),
#if FAULTS_POSSIBLE
        CASE("big_slabs_are_refused", big_slabs_are_refused, NULL),
        CASE("big_slabs_are_refused_for_long", big_slabs_are_refused, tests),
#endif
        CASE("notes_map_metadata", notes_map_metadata, NULL),
        CASE("few_mappings", few_mappings, NULL),
        CASE("child_of_fork", child_of_fork, NULL),
    };

    /* Started, and as good as unused. */
    (void)stook_mode(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
