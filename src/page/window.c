/* SPDX-License-Identifier: MIT */
/*
 * window.c - finds the window, maps what zones take of it with their part of the page map, and goes around what lies
 * in the way.
 */
#include "page/window.h"

#include "base/context.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/raw.h"
#include "os/os.h"
#include "page/pagemap.h"

#include <errno.h>
#include <string.h>

enum {
    WINDOW_GAP = BLOCK_SIZE, /* between the parts: no overrun reaches from one into the next */
    WINDOW_TRIES = 4,        /* random places, of each width */
    WINDOW_SKIP = 512,       /* blocks over which a taken place is skipped: 1 GiB */
    WINDOW_OWN_SHARE = 4,    /* of the window for the library's own objects, one in so many */
    WINDOW_ROUND = 1024,     /* in large windows: blocks from the bottom to the middle, and some: */
    WINDOW_ODD = 512 + 7,    /* the first blocks of both sides have their parts on one page each */
};

/* Sanitizers' shadows know only some addresses, and lie at others. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { WINDOW_SANITIZED = 1 };
#else
enum { WINDOW_SANITIZED = 0 };
#endif

/*
 * Where windows begin: above what address sanitizers use and Go's heaps, below libraries, programs
 * and what the kernel maps by itself, in either of its layouts.  The first is for 47 bits of address
 * and more, the others for kernels with 42 and 39.
 */
static const struct {
    size_t size;
    uintptr_t low, high;
} window_places[] = {
    {(size_t)4 << 40, (uintptr_t)17 << 40, (uintptr_t)36 << 40},
    {(size_t)512 << 30, (uintptr_t)1280 << 30, (uintptr_t)2048 << 30},
    {(size_t)64 << 30, (uintptr_t)16 << 30, (uintptr_t)48 << 30},
};
static const size_t window_reserved_most = (size_t)64 << 30, window_least = (size_t)16 << 20;

struct pagemap pagemap;

/* The parts that lookups read, mapped page by page and for holes, too; and their bytes a block. */
enum window_part { WINDOW_ENTRIES, WINDOW_HEADERS, WINDOW_ZONES, WINDOW_PARTS };
static const size_t window_bytes[WINDOW_PARTS] = {BLOCK_PAGES * sizeof(uint32_t), BLOCK_HEADER,
                                                  sizeof(uint32_t)};

/* Blocks of objects go up from the middle, the library's own down. */
struct window_side {
    uint32_t frontier;       /* block: up to there, or from there on, all are taken */
    size_t at[WINDOW_PARTS]; /* offsets that the parts are mapped to from the middle on */
};

static struct {
    struct lock lock;
    bool reserved;              /* a range of os_reserve() */
    size_t page;                /* the kernel's */
    uint32_t blocks, middle;    /* all; the first of objects */
    struct window_side side[2]; /* up, down */
    char *part[WINDOW_PARTS];
    _Atomic size_t mapped;
} window;

/* ---- the parts ------------------------------------------------------------------------------ */

static size_t window_round(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

static uint32_t window_choose_middle(uint32_t blocks)
{
    blocks /= WINDOW_OWN_SHARE;
    return blocks < WINDOW_ROUND ? blocks : blocks / WINDOW_ROUND * WINDOW_ROUND - WINDOW_ODD;
}

/* A window of so many bytes of blocks begins there; the bytes of all its parts. */
static size_t window_place(uintptr_t base, size_t size)
{
    size_t at = size + WINDOW_GAP;

    window.blocks = (uint32_t)(size >> BLOCK_SHIFT);
    window.middle = window_choose_middle(window.blocks);
    pagemap.base = base;
    pagemap.middle = base + ((uintptr_t)window.middle << BLOCK_SHIFT);
    pagemap.size = size;
    pagemap.meta = (char *)(base + at);
    at += window_round((size_t)window.blocks * BLOCK_META, BLOCK_SIZE);
    window.side[0] = window.side[1] = (struct window_side){window.middle, {0}};
    for (unsigned part = 0; part < WINDOW_PARTS; part++) {
        window.part[part] = (char *)(base + at + WINDOW_GAP);
        window.side[0].at[part] = window.side[1].at[part] =
            window.middle * window_bytes[part] / window.page * window.page;
        at += WINDOW_GAP + window_round(window.blocks * window_bytes[part], BLOCK_SIZE);
    }
    pagemap.entry = (uint32_t *)(void *)window.part[WINDOW_ENTRIES];
    pagemap.header = window.part[WINDOW_HEADERS];
    pagemap.zone = (uint32_t *)(void *)window.part[WINDOW_ZONES];
    atomic_store_explicit(&pagemap.low, 0, memory_order_relaxed);
    atomic_store_explicit(&pagemap.high, pagemap.middle - base, memory_order_relaxed);
    return at;
}

int window_map(void *address, size_t size)
{
    int error = os_take(address, size, window.reserved);

    if (!error)
        atomic_fetch_add_explicit(&window.mapped, size, memory_order_relaxed);
    return error;
}

bool window_unmap(void *address, size_t size)
{
    bool done = os_untake(address, size, window.reserved);

    if (done)
        atomic_fetch_sub_explicit(&window.mapped, size, memory_order_relaxed);
    return done;
}

/* Maps all parts that lookups read for blocks [first, first + n), next to what their side has of them. */
static int window_cover_map(uint32_t first, uint32_t n, bool top)
{
    int error = 0;

    for (unsigned part = 0; !error && part < WINDOW_PARTS; part++) {
        size_t *at = &window.side[top].at[part];
        size_t to = top ? first * window_bytes[part] / window.page * window.page
                        : window_round((first + n) * window_bytes[part], window.page);
        size_t begin = top ? to : *at, end = top ? *at : to;
        if (begin < end)
            error = window_map(window.part[part] + begin, end - begin);
        if (begin < end && !error)
            *at = to;
    }
    return error;
}

/* Blocks with their part of the map; 0, or why not, and then nothing is left but map.  EEXIST: the blocks' place is taken;
 * no lookup could go around the map's. */
static int window_take_at(uint32_t first, uint32_t n, bool top)
{
    int error = window_cover_map(first, n, top);

    if (error)
        return error == EEXIST ? ENOMEM : error;
    return window_map(pagemap_block(first), (size_t)n << BLOCK_SHIFT);
}

/* ---- the frontiers -------------------------------------------------------------------------- */

/* Blocks that the window has beyond a frontier. */
static uint32_t window_room(bool top)
{
    uint32_t frontier = window.side[top].frontier;

    return top ? frontier : window.blocks - frontier;
}

/* The blocks are the zone's, or none's (UINT8_MAX), and none of them is the first of a span.  Release: a thread that sees
 * the bound sees the mappings and stores below it. */
static void window_advance(uint32_t first, uint32_t n, bool top, unsigned zone)
{
    size_t low = (size_t)(first + n - window.middle) << BLOCK_SHIFT;

    for (uint32_t i = first; i < first + n; i++)
        pagemap.zone[i] = zone;
    window.side[top].frontier = top ? first : first + n;
    if (top) {
        atomic_store_explicit(&pagemap.high, (size_t)first << BLOCK_SHIFT, memory_order_release);
        return;
    }
    atomic_store_explicit(&pagemap.low, low, memory_order_release);
    if (hooks_set.malloc)
        hooks_set.malloc(HOOKS_MALLOC_WINDOW, low);
}

/* Something else lies at the frontier.  The map goes on over it: its entries say that nothing is. */
static bool window_skip(bool top)
{
    uint32_t room = window_room(top), n = WINDOW_SKIP < room ? WINDOW_SKIP : room;
    uint32_t first = window.side[top].frontier - (top ? n : 0);

    if (n == 0 || window_cover_map(first, n, top) != 0)
        return false;
    window_advance(first, n, top, UINT8_MAX);
    return true;
}

/* How many blocks from the frontier on are needed at least, and where they begin; false: no room. */
static bool window_needed(const struct window_ask *ask, bool top, uint32_t *first, uint32_t *count)
{
    uint64_t base = pagemap.base >> BLOCK_SHIFT, frontier = window.side[top].frontier, at;

    if (top) {
        if (ask->need > frontier)
            return false;
        at = (base + frontier - ask->need) / ask->align * ask->align;
        *first = (uint32_t)(at - base);
        *count = (uint32_t)frontier - *first;
        return at >= base;
    }
    at = base + (ask->end == frontier ? ask->next : frontier);
    at = (at + ask->align - 1) / ask->align * ask->align + ask->need;
    *first = (uint32_t)frontier;
    *count = (uint32_t)(at - base - frontier);
    return at <= base + window.blocks;
}

/* As many as are wanted; where that is refused, as many as are needed. */
static int window_try(const struct window_ask *ask, bool top, uint32_t *first, uint32_t *count)
{
    uint32_t room = window_room(top), want = ask->want < room ? ask->want : room;
    uint32_t from = top ? *first + *count - want : *first;

    if (want <= *count || window_take_at(from, want, top) != 0)
        return window_take_at(*first, *count, top);
    *first = from;
    *count = want;
    return 0;
}

bool window_take(unsigned zone, const struct window_ask *ask, uint32_t *first, uint32_t *count)
{
    bool top = zone >= pagemap.zones / 2;
    int error = ENOMEM;

    /* A handler may be on top of this lock's holder, under another zone's lock. */
    if (!lock_enter(&window.lock, LOCK_WINDOW, context_self()->depth > 1))
        return false;
    while (window_needed(ask, top, first, count)) {
        error = window_try(ask, top, first, count);
        if (error != EEXIST || !window_skip(top))
            break;
        error = ENOMEM;
    }
    if (!error)
        window_advance(*first, *count, top, zone);
    lock_drop(&window.lock, LOCK_WINDOW);
    return !error;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/*
 * The map's first pages are mapped: 0, or why not.  They lie above all blocks, so there are such addresses, and
 * blocks whose place is taken are skipped like any other; under a limit a block is mapped for a trial.
 */
static int window_probe(void)
{
    int error = window_cover_map(window.middle, 1, false);

    if (!error)
        error = window_cover_map(window.middle - 1, 1, true);
    if (error || os_space_limit == SIZE_MAX)
        return error;
    error = window_map(pagemap_block(window.middle), BLOCK_SIZE);
    if (!error)
        (void)window_unmap(pagemap_block(window.middle), BLOCK_SIZE);
    return error;
}

/* What of the map is mapped goes. */
static __attribute__((cold)) void window_clear(void)
{
    for (unsigned part = 0; part < WINDOW_PARTS; part++) {
        size_t from = window.side[1].at[part], to = window.side[0].at[part];
        if (to > from)
            (void)window_unmap(window.part[part] + from, to - from);
    }
}

static bool window_find(size_t size)
{
    if (WINDOW_SANITIZED)
        return false;
    for (size_t i = 0; i < sizeof(window_places) / sizeof(window_places[0]); i++) {
        uintptr_t low = window_places[i].low, places = (window_places[i].high - low) / BLOCK_SIZE;
        int error = EEXIST; /* else there are no such addresses, or a limit refuses */
        for (int tries = 0; error == EEXIST && tries < WINDOW_TRIES; tries++) {
            (void)window_place(low + os_random() % places * BLOCK_SIZE,
                               size < window_places[i].size ? size : window_places[i].size);
            error = window_probe();
            if (!error)
                return true;
            window_clear();
        }
    }
    return false;
}

/* The second way: a range without access, as large as the kernel grants. */
static bool window_reserve(size_t size)
{
    char *base = NULL;
    size_t bytes = 0;

    if (size > window_reserved_most)
        size = window_reserved_most;
    while (size / 2 >= window_least && size > os_space_limit / 5 * 2)
        size /= 2; /* half and more is the program's own */
    for (; !base && size >= window_least; size /= 2) {
        bytes = window_place(0, size);
        base = os_reserve(bytes, BLOCK_SIZE);
    }
    if (!base)
        return false;
    window.reserved = true;
    (void)window_place((uintptr_t)base, pagemap.size);
    if (window_probe() == 0)
        return true;
    os_unmap(base, bytes);
    return false;
}

bool window_init(size_t size)
{
    size = (size < window_least ? window_least : size) / BLOCK_SIZE * BLOCK_SIZE;
    window.mapped = 0;
    window.reserved = false;
    window.page = os_page_size();
    if (window_find(size) || window_reserve(size))
        return true;
    memset(&pagemap, 0, sizeof(pagemap));
    return false;
}

__attribute__((cold)) void window_exit(void)
{
    if (window.reserved)
        os_unmap((void *)pagemap.base, window_place(pagemap.base, pagemap.size));
    else
        window_clear();
    window.mapped = 0;
    memset(&pagemap, 0, sizeof(pagemap));
}

size_t window_mapped(void)
{
    return atomic_load_explicit(&window.mapped, memory_order_relaxed);
}

void window_on_growing(void (*fn)(unsigned what, size_t value))
{
    lock_take(&window.lock, LOCK_WINDOW);
    hooks_set.malloc = fn;
    fn(HOOKS_MALLOC_WINDOW, atomic_load_explicit(&pagemap.low, memory_order_relaxed));
    lock_drop(&window.lock, LOCK_WINDOW);
}

LOCK_TAKES(window.lock) void window_lock(void)
{
    lock_take(&window.lock, LOCK_WINDOW);
    lock_mark_fork(&window.lock);
}

LOCK_DROPS(window.lock) void window_unlock(void)
{
    lock_drop(&window.lock, LOCK_WINDOW);
}

void window_child(void)
{
    lock_init(&window.lock);
}
