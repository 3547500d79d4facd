/* SPDX-License-Identifier: MIT */
/*
 * The window: its mappings, foreign mappings within it, and limits.  Each case runs in a child: a process has one
 * window.
 */
#include "page/window.h"

#include "os/os.h"
#include "large/arena_span.h"
#include "page/arena.h"
#include "large/large.h"
#include "page/zone.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/libc_names.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Blocks that others' memory is planted behind the frontier of; -1 for the library's own side. */
enum { AHEAD = 40 };

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

static void *plant(void *at, size_t size)
{
    void *p =
        mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    if (p != MAP_FAILED)
        memset(p, 0x77, size);
    return p;
}

static int intact(const char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (p[i] != 0x77)
            return 0;
    return 1;
}

/* Takes spans of a zone until it has gone beyond a place; all of them are usable, and not that place. */
static int take_beyond(unsigned zone, const char *place, unsigned n)
{
    unsigned beyond = 0;

    for (unsigned i = 0; i < n; i++) {
        char *span = arena_span_alloc(zone, 3, BLOCK_SIZE, false, NULL);
        MUST(span && pagemap_zone(span) == zone);
        MUST(span >= place + BLOCK_SIZE || span + (size_t)3 * BLOCK_SIZE <= place);
        span[0] = span[3 * BLOCK_SIZE - 1] = 1;
        beyond += zone < pagemap.zones / 2 ? span > place : span < place;
    }
    MUST(beyond > 0);
    return 0;
}

/* Others' memory where blocks would come to lie: it is gone around, and addresses there are nothing. */
static int blocks_in_the_way(void *arg)
{
    bool own = arg != NULL;
    size_t size = os_page_size();
    char *at = own ? (char *)pagemap.base + pagemap.high : (char *)pagemap.middle + pagemap.low,
         *place;

    place = own ? at - (size_t)AHEAD * BLOCK_SIZE : at + (size_t)AHEAD * BLOCK_SIZE;
    MUST(!is_mapped(place) && plant(place, size) == place);
    if (take_beyond(own ? pagemap.zones / 2 : 0, place, 100))
        return 1;
    MUST(intact(place, size));
    MUST(pagemap_covers(place) && *pagemap_at(place) == 0 && !slab_cache_of(place));
    MUST(large_size(place) == 0 && !large_free(place));
    check_all(NULL, 0);
    return 0;
}

/* The same where metadata would be: no slab is ever cut from that block, and spans have none. */
static int metadata_in_the_way(void *arg)
{
    size_t size = os_page_size();
    uint32_t index = pagemap_index((char *)pagemap.middle + pagemap.low) + AHEAD;
    char *place = pagemap_meta(index), *block = pagemap_block(index);
    struct arena_ask ask = {.pages = BLOCK_PAGES, .align = 1, .meta_bytes = 64};
    void *meta;

    MUST(!is_mapped(place) && plant(place, size) == place);
    for (char *run = NULL; run < block + (size_t)AHEAD * BLOCK_SIZE;) {
        MUST((run = arena_alloc(0, &ask, NULL, &meta)) != NULL && run != block);
        memset(run, 1, BLOCK_SIZE);
    }
    MUST(intact(place, size) && !is_mapped(block) && pagemap.zone[index] == UINT8_MAX);
    check_all(NULL, 0);
    index = pagemap_index((char *)pagemap.middle + pagemap.low) + AHEAD;
    place = pagemap_meta(index);
    MUST(!is_mapped(place) && plant(place, size) == place);
    for (char *span = NULL; span < pagemap_block(index + AHEAD);)
        MUST((span = arena_span_alloc(0, 2, BLOCK_SIZE, false, NULL)) != NULL);
    MUST(intact(place, size) && is_mapped(pagemap_block(index)) &&
         pagemap.zone[index] != UINT8_MAX);
    check_all(NULL, 0);
    return 0;
}

/* And the page map: objects can lie no further up; the other side gives, and all is still found. */
static int map_in_the_way(void *arg)
{
    size_t size = os_page_size();
    char *place = (char *)((uintptr_t)pagemap_at((void *)pagemap.middle) & -size) + size * 8;
    uint32_t end = (uint32_t)(size * 8 / sizeof(uint32_t) / BLOCK_PAGES);
    struct stook_cache *cache;
    static struct check_object held[400];
    unsigned n = 0;

    MUST((cache = stook_cache_create("window", 200000, NULL)) != NULL);
    MUST(!is_mapped(place) && plant(place, size) == place);
    for (; n < 400; n++) {
        held[n] = (struct check_object){cache, stook_alloc(cache, 0)};
        MUST(held[n].object);
        memset(held[n].object, 1, 200000);
    }
    MUST(pagemap.low <= (size_t)end << BLOCK_SHIFT && intact(place, size));
    MUST(pagemap_zone(held[399].object) >= pagemap.zones / 2);
    check_all(held, n);
    while (n > 0)
        stook_free(cache, held[--n].object);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

/* A limit that the program sets on itself, on its address space or its data, stops the arena.  Other parts of the process
 * get the memory that it does not take.  Without the limit all of it works again. */
static int limit_set_later(void *arg)
{
    static char *had[4096];
    rlimit_kind kind = arg ? RLIMIT_DATA : RLIMIT_AS;
    struct rlimit old, limit;
    size_t n = 0, mapped;
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    MUST(statm && fscanf(statm, "%ld", &pages) == 1);
    fclose(statm);
    MUST(getrlimit(kind, &old) == 0);
    limit = (struct rlimit){(size_t)pages * os_page_size() + (200u << 20), old.rlim_max};
    MUST(setrlimit(kind, &limit) == 0);
    while (n < 4096 && (had[n] = arena_span_alloc(0, 1, BLOCK_SIZE, false, NULL)))
        n++;
    MUST(errno == ENOMEM && n >= 60 && n <= 200);
    mapped = window_mapped();
    for (int i = 0; i < 10; i++)
        MUST(!arena_span_alloc(0, 4, BLOCK_SIZE, false, NULL));
    MUST(window_mapped() - mapped <=
         64 * os_page_size()); /* what was refused left nothing but map */
    MUST(setrlimit(kind, &old) == 0);
    check_all(NULL, 0);
    while (n > 0)
        arena_span_free(had[--n], 1);
    MUST((had[0] = arena_span_alloc(0, 300, BLOCK_SIZE, false, NULL)) != NULL);
    arena_span_free(had[0], 300);
    check_all(NULL, 0);
    return 0;
}

static bool is_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* Nothing is split between nodes: each finds its own objects, and where there is room one request has 40 GiB. */
static int many_nodes(void *arg)
{
    MUST(stook_topology_set("node:64 core:1") == 0);
    MUST(pagemap.zones == 128 && window_mapped() < (1u << 20));
    for (unsigned round = 0; round < 20; round++)
        for (unsigned node = 0; node < 64; node++) {
            char *run = arena_alloc_run(node, 100, 1, false, NULL);
            void *own = arena_alloc_run(64 + node, 1, 1, false, NULL);
            MUST(run && pagemap_node(run) == node && pagemap_zone(run) == node);
            MUST(own && pagemap_node(own) == node && pagemap_zone(own) == 64 + node);
            run[0] = 1;
        }
    /* Under an emulator processes have a limit. */
    for (unsigned i = 0; pagemap.size >> 40 && !is_limited() && i < 200; i++) {
        size_t blocks = (size_t)(i == 7 ? 40 : 1) << 30 >> BLOCK_SHIFT;
        char *span = arena_span_alloc(i % 3, blocks, BLOCK_SIZE, false, NULL);
        MUST(span && pagemap_node(span) == i % 3);
    }
    check_all(NULL, 0);
    return 0;
}

/* A heap of 16 GiB, of everything: few mappings, and address space for little more. */
static int large_heap(void *arg)
{
    struct stook_cache *small = stook_cache_create("small", 2000, NULL), *middle;
    size_t used = 0, before = mappings();

    MUST(small && (middle = stook_cache_create("middle", 20000, NULL)) != NULL);
    for (unsigned i = 0; used < (size_t)16 << 30; i++) {
        size_t size = i % 2 ? (size_t)(1 + i % 7) << 19 : (size_t)(1 + i % 9) << 20;
        char *object = large_alloc(0, size, 4096, false, NULL);
        MUST(object);
        used += size;
        for (unsigned k = 0; k < 5; k++)
            MUST(stook_alloc(small, 0) && stook_alloc(middle, 0));
    }
    MUST(mappings() - before < 400);
    MUST(window_mapped() < (64u << 20) + used + used / 4);
    return 0;
}

/* What is mapped and not used has no access, and so nothing that core dumps could have. */
static int tails_have_no_access(void *arg)
{
    char line[512];
    FILE *maps;
    uintptr_t wanted;
    bool hidden = false;

    MUST(arena_alloc_run(0, 1, 1, false, NULL));
    wanted = pagemap.middle + pagemap.low - os_page_size();
    maps = fopen("/proc/self/maps", "r");
    MUST(maps);
    while (fgets(line, sizeof(line), maps)) {
        unsigned long from, to;
        char access[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3 && wanted >= from && wanted < to)
            hidden = strcmp(access, "---p") == 0;
    }
    fclose(maps);
    MUST(hidden);
    return 0;
}

static int little_at_the_start(void *arg)
{
    MUST(window_mapped() < (16u << 20));
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------ */

struct window_case {
    int (*body)(void *arg);
    void *arg;
};

/* Where a range is reserved nothing can be planted, and limits are another matter. */
static bool there_is_a_window(void)
{
    return !getenv("STOOK_EMULATED") && !is_mapped((char *)pagemap.base + pagemap.high / 2);
}

static void run(void **state)
{
    const struct window_case *c = *state;

    if (!there_is_a_window() && c->body != many_nodes)
        skip();
    in_child(c->body, c->arg);
}

#define CASE(name, body, arg)                                                                      \
    {                                                                                              \
        name, run, NULL, NULL, &(struct window_case)                                               \
        {                                                                                          \
            body, arg                                                                              \
        }                                                                                          \
    }

int main(void)
{
    struct CMUnitTest tests[] = {
        CASE("little_at_the_start", little_at_the_start, NULL),
        CASE("blocks_in_the_way", blocks_in_the_way, NULL),
        CASE("own_blocks_in_the_way", blocks_in_the_way, tests),
        CASE("metadata_in_the_way", metadata_in_the_way, NULL),
        CASE("map_in_the_way", map_in_the_way, NULL),
        CASE("address_space_limited_later", limit_set_later, NULL),
        CASE("data_limited_later", limit_set_later, tests),
        CASE("many_nodes", many_nodes, NULL),
        CASE("large_heap", large_heap, NULL),
        CASE("tails_have_no_access", tails_have_no_access, NULL),
    };

    /* Started, and as good as unused. */
    (void)stook_mode(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
