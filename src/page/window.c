/* SPDX-License-Identifier: MIT */
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
    WINDOW_GAP = BLOCK_SIZE,     /* between the parts: no overrun reaches from one into the next */
    WINDOW_TRIES = 4,            /* random places, of each width */
    WINDOW_SKIP_MIN = 16,        /* blocks over which a taken place is skipped, */
    WINDOW_SKIP_MAX = 32 * 1024, /* doubling up to 64 GiB */
    WINDOW_OWN_SHARE = 4,        /* of the window for the library's own objects, one in so many */
    WINDOW_ROUND = 1024,  /* in large windows: blocks from the bottom to the middle, and some: */
    WINDOW_ODD = 512 + 8, /* the first blocks of both sides have headers and zones on one page */
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

struct window_side {
    size_t at[WINDOW_PARTS]; /* offsets: a part is mapped from high's to low's */
    uint32_t skip;           /* blocks to skip next */
};

static struct {
    struct lock lock;
    bool reserved; /* a range of os_reserve() */
    size_t page;   /* the kernel's */
    struct window_side low, high;
    _Atomic size_t mapped;
} window;

/* ---- the parts ------------------------------------------------------------------------------ */

static size_t window_round(size_t size)
{
    return (size + BLOCK_SIZE - 1) / BLOCK_SIZE * BLOCK_SIZE;
}

static size_t window_pages(size_t size)
{
    return (size + window.page - 1) / window.page * window.page;
}

static size_t window_blocks(void)
{
    return pagemap.size >> BLOCK_SHIFT;
}

/* The first block of objects. */
static uint32_t window_middle(void)
{
    return (uint32_t)((pagemap.middle - pagemap.base) >> BLOCK_SHIFT);
}

static uint32_t window_choose_middle(size_t size)
{
    size_t blocks = (size >> BLOCK_SHIFT) / WINDOW_OWN_SHARE;

    return (uint32_t)(blocks < WINDOW_ROUND ? blocks
                                            : blocks / WINDOW_ROUND * WINDOW_ROUND - WINDOW_ODD);
}

static char *window_part(enum window_part part)
{
    return part == WINDOW_ENTRIES   ? (char *)pagemap.entry
           : part == WINDOW_HEADERS ? pagemap.header
                                    : (char *)pagemap.zone;
}

/* Offsets of metadata, entries, headers, zones and of the end. */
static void window_layout(size_t size, size_t at[5])
{
    size_t blocks = size >> BLOCK_SHIFT;

    at[0] = size + WINDOW_GAP;
    at[1] = at[0] + window_round(blocks * BLOCK_META) + WINDOW_GAP;
    at[2] = at[1] + window_round(blocks * window_bytes[WINDOW_ENTRIES]) + WINDOW_GAP;
    at[3] = at[2] + window_round(blocks * BLOCK_HEADER) + WINDOW_GAP;
    at[4] = at[3] + window_round(blocks * window_bytes[WINDOW_ZONES]);
}

static void window_place(uintptr_t base, size_t size)
{
    size_t at[5];

    window_layout(size, at);
    pagemap.base = base;
    pagemap.middle = base + ((uintptr_t)window_choose_middle(size) << BLOCK_SHIFT);
    pagemap.size = size;
    pagemap.meta = (char *)base + at[0];
    pagemap.entry = (uint32_t *)(void *)(base + at[1]);
    pagemap.header = (char *)base + at[2];
    pagemap.zone = (uint32_t *)(void *)(base + at[3]);
    atomic_store_explicit(&pagemap.low, 0, memory_order_relaxed);
    atomic_store_explicit(&pagemap.high, pagemap.middle - base, memory_order_relaxed);
    window.low = window.high = (struct window_side){{0}, WINDOW_SKIP_MIN};
    for (unsigned part = 0; part < WINDOW_PARTS; part++)
        window.low.at[part] = window.high.at[part] =
            window_middle() * window_bytes[part] / window.page * window.page;
}

static int window_map(void *address, size_t size)
{
    int error = os_take(address, size, window.reserved);

    if (!error)
        atomic_fetch_add_explicit(&window.mapped, size, memory_order_relaxed);
    return error;
}

static bool window_unmap(void *address, size_t size)
{
    bool done = os_untake(address, size, window.reserved);

    if (done)
        atomic_fetch_sub_explicit(&window.mapped, size, memory_order_relaxed);
    return done;
}

/* Maps a part for blocks [first, first + n), next to what its side has of it. */
static int window_cover(enum window_part part, uint32_t first, uint32_t n, bool top)
{
    size_t *low = &window.low.at[part], *high = &window.high.at[part];
    size_t begin = top ? first * window_bytes[part] / window.page * window.page : *low;
    size_t end = top ? *high : window_pages((first + n) * window_bytes[part]);
    int error;

    if (begin >= end)
        return 0;
    error = window_map(window_part(part) + begin, end - begin);
    if (!error)
        *(top ? high : low) = top ? begin : end;
    return error;
}

/* All parts that lookups read. */
static int window_cover_map(uint32_t first, uint32_t n, bool top)
{
    int error = 0;

    for (unsigned part = 0; !error && part < WINDOW_PARTS; part++)
        error = window_cover(part, first, n, top);
    return error == EEXIST ? ENOMEM : error; /* no lookup could go around that */
}

static char *window_meta(uint32_t first)
{
    return pagemap.meta + (size_t)first * BLOCK_META;
}

static char *window_block(uint32_t first)
{
    return (char *)pagemap.base + ((size_t)first << BLOCK_SHIFT);
}

int window_retake(uint32_t first, uint32_t n)
{
    return window_map(window_block(first), (size_t)n << BLOCK_SHIFT);
}

bool window_give(uint32_t first, uint32_t n)
{
    return window_unmap(window_block(first), (size_t)n << BLOCK_SHIFT);
}

int window_take_meta(uint32_t first, uint32_t n)
{
    int error = window_map(window_meta(first), (size_t)n * BLOCK_META);

    if (!error)
        os_dump(window_meta(first), (size_t)n * BLOCK_META, false); /* it is not the program's */
    return error;
}

bool window_give_meta(uint32_t first, uint32_t n)
{
    return window_unmap(window_meta(first), (size_t)n * BLOCK_META);
}

/* Blocks with their part of the map; 0, or why not, and then nothing is left but map. */
static int window_take_at(uint32_t first, uint32_t n, bool top)
{
    int error = window_cover_map(first, n, top);

    return error ? error : window_retake(first, n);
}

/* ---- the frontiers -------------------------------------------------------------------------- */

static uint32_t window_low(void)
{
    return window_middle() +
           (uint32_t)(atomic_load_explicit(&pagemap.low, memory_order_relaxed) >> BLOCK_SHIFT);
}

static uint32_t window_high(void)
{
    return (uint32_t)(atomic_load_explicit(&pagemap.high, memory_order_relaxed) >> BLOCK_SHIFT);
}

/* Blocks that the window has beyond a frontier. */
static uint32_t window_room(bool top)
{
    return top ? window_high() : (uint32_t)window_blocks() - window_low();
}

/* Release: a thread that sees the bound sees the mappings and stores below it. */
static void window_advance(uint32_t first, uint32_t n, bool top)
{
    if (top) {
        atomic_store_explicit(&pagemap.high, (size_t)first << BLOCK_SHIFT, memory_order_release);
        return;
    }
    first += n - window_middle();
    atomic_store_explicit(&pagemap.low, (size_t)first << BLOCK_SHIFT, memory_order_release);
    if (hooks_set.window_grew)
        hooks_set.window_grew((size_t)first << BLOCK_SHIFT);
}

/* Says whose blocks are; none of them is the first of a span. */
static void window_mark(uint32_t first, uint32_t n, unsigned zone)
{
    for (uint32_t i = first; i < first + n; i++)
        pagemap.zone[i] = zone;
}

/* Something else lies at the frontier.  The map goes on over it: its entries say that nothing is. */
static bool window_skip(bool top)
{
    struct window_side *side = top ? &window.high : &window.low;
    uint32_t room = window_room(top), n = side->skip < room ? side->skip : room;
    uint32_t first = top ? window_high() - n : window_low();

    if (n == 0 || window_cover_map(first, n, top) != 0)
        return false;
    window_mark(first, n, UINT8_MAX);
    window_advance(first, n, top);
    if (side->skip < WINDOW_SKIP_MAX)
        side->skip *= 2;
    return true;
}

/* How many blocks from the frontier on are needed at least, and where they begin; false: no room. */
static bool window_needed(const struct window_ask *ask, bool top, uint32_t *first, uint32_t *count)
{
    uint64_t base = pagemap.base >> BLOCK_SHIFT, low = window_low(), high = window_high(), at;

    if (ask->need > window_room(top) + (ask->end - ask->next) || ask->align > window_blocks())
        return false;
    if (top) {
        if (ask->need > high)
            return false;
        at = base + high - ask->need;
        at -= at % ask->align;
        *first = (uint32_t)(at - base);
        *count = (uint32_t)(high - *first);
        return at >= base;
    }
    at = base + (ask->end == low ? ask->next : low);
    at = (at + ask->align - 1) / ask->align * ask->align;
    *first = (uint32_t)low;
    *count = (uint32_t)(at + ask->need - base - low);
    return at + ask->need <= base + window_blocks();
}

/* As many as are wanted; where that is refused, as many as are needed. */
static int window_try(const struct window_ask *ask, bool top, uint32_t *first, uint32_t *count)
{
    uint32_t room = window_room(top), want = ask->want < room ? ask->want : room;

    if (want > *count) {
        uint32_t from = top ? *first + *count - want : *first;
        if (window_take_at(from, want, top) == 0) {
            *first = from;
            *count = want;
            return 0;
        }
    }
    return window_take_at(*first, *count, top);
}

bool window_take(unsigned zone, const struct window_ask *ask, uint32_t *first, uint32_t *count)
{
    bool top = zone >= pagemap.zones / 2;
    struct window_side *side = top ? &window.high : &window.low;
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
    if (!error) {
        window_mark(*first, *count, zone);
        side->skip = WINDOW_SKIP_MIN;
        window_advance(*first, *count, top);
    }
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
    uint32_t first = window_middle();
    int error = 0;

    for (unsigned part = 0; part < WINDOW_PARTS; part++)
        if ((error = window_cover(part, first, 1, false)) ||
            (error = window_cover(part, first - 1, 1, true)))
            return error;
    if (os_space_limit() == SIZE_MAX)
        return 0;
    error = window_retake(first, 1);
    if (!error)
        (void)window_give(first, 1);
    return error;
}

/* What of the map is mapped goes. */
static void window_clear(void)
{
    for (unsigned part = 0; part < WINDOW_PARTS; part++)
        if (window.low.at[part] > window.high.at[part])
            (void)window_unmap(window_part(part) + window.high.at[part],
                               window.low.at[part] - window.high.at[part]);
}

static bool window_find(size_t size)
{
    if (WINDOW_SANITIZED)
        return false;
    for (size_t i = 0; i < sizeof(window_places) / sizeof(window_places[0]); i++) {
        uintptr_t low = window_places[i].low, places = (window_places[i].high - low) / BLOCK_SIZE;
        for (int tries = 0; tries < WINDOW_TRIES; tries++) {
            uintptr_t base = low + os_random() % places * BLOCK_SIZE;
            int error;
            window_place(base, size < window_places[i].size ? size : window_places[i].size);
            error = window_probe();
            if (error == 0)
                return true;
            window_clear();
            if (error != EEXIST) /* no such addresses, or a limit */
                break;
        }
    }
    return false;
}

/* The second way: a range without access, as large as the kernel grants. */
static bool window_reserve(size_t size)
{
    size_t at[5];
    char *base;

    if (size > window_reserved_most)
        size = window_reserved_most;
    while (size / 2 >= window_least && size > os_space_limit() / 5 * 2)
        size /= 2; /* half and more is the program's own */
    for (;; size /= 2) {
        window_layout(size, at);
        base = os_reserve(at[4], BLOCK_SIZE);
        if (base || size / 2 < window_least)
            break;
    }
    if (!base)
        return false;
    window.reserved = true;
    window_place((uintptr_t)base, size);
    if (window_probe() == 0)
        return true;
    os_unmap(base, at[4]);
    return false;
}

bool window_init(size_t size)
{
    size = (size < window_least ? window_least : size) / BLOCK_SIZE * BLOCK_SIZE;
    window.mapped = 0;
    window.reserved = false;
    window.page = os_page_size();
    if (!window_find(size) && !window_reserve(size)) {
        memset(&pagemap, 0, sizeof(pagemap));
        return false;
    }
    return true;
}

void window_exit(void)
{
    size_t at[5];

    window_layout(pagemap.size, at);
    if (window.reserved)
        os_unmap((void *)pagemap.base, at[4]);
    else
        window_clear();
    window.mapped = 0;
    memset(&pagemap, 0, sizeof(pagemap));
}

size_t window_mapped(void)
{
    return atomic_load_explicit(&window.mapped, memory_order_relaxed);
}

void window_on_growing(void (*fn)(size_t bytes))
{
    lock_take(&window.lock, LOCK_WINDOW);
    hooks_set.window_grew = fn;
    fn(atomic_load_explicit(&pagemap.low, memory_order_relaxed));
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
