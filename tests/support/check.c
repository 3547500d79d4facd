/* SPDX-License-Identifier: MIT */
#include "debug/gone.h"
#include "harden/quarantine.h"
#include "support/check.h"
#include "support/slot_look.h"

#include "base/context.h"
#include "cache/adapt.h"
#include "cache/cache_list.h"
#include "os/topology.h"
#include "page/arena.h"
#include "page/arena_kept.h"
#include "page/block.h"
#include "page/zone.h"
#include "reserve/rcu.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/slot.h"
#include "slab/node.h"
#include "slab/column.h"
#include "slab/mark.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A slab as the page map shows it, with a bit for every object that was found somewhere. */
struct seen {
    struct slab *slab;
    struct stook_cache *cache;
    uint32_t page, objects;
    bool listed;
    uint64_t *marks;
};

static struct {
    struct seen *slab;
    size_t n, room;
    const struct stook_cache *counted;
    struct check_counts counts;
} walk;

static _Noreturn void check_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void check_die(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "check: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_die(__VA_ARGS__);                                                                \
    } while (0)

static unsigned check_bits(const uint64_t *map, unsigned words)
{
    unsigned n = 0;

    for (unsigned i = 0; i < words; i++)
        n += (unsigned)__builtin_popcountll(map[i]);
    return n;
}

/* ---- slabs as the page map shows them ------------------------------------------------------- */

static struct seen *check_find(const struct slab *slab)
{
    size_t low = 0, high = walk.n;

    while (low < high) { /* they were found in order of their pages */
        size_t middle = (low + high) / 2;
        if (walk.slab[middle].page < slab->page)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(low < walk.n && walk.slab[low].slab == slab, "slab %p is not in the page map",
          (const void *)slab);
    return &walk.slab[low];
}

/* `out`: what its own mark must say. */
static void check_mark(struct seen *seen, uint32_t index, bool out, const char *where)
{
    CHECK(index < seen->objects, "cache %s: object %u of %u is %s", seen->cache->name, index,
          seen->objects, where);
    CHECK(!(seen->marks[index / 64] >> index % 64 & 1),
          "cache %s: object %u of slab %p is %s and was found elsewhere too", seen->cache->name,
          index, (void *)slab_base(seen->slab), where);
    CHECK(!STOOK_ENCODED || mark_is_out(seen->cache, seen->slab, index) == out,
          "cache %s: object %u of slab %p is %s and marked as %s", seen->cache->name, index,
          (void *)slab_base(seen->slab), where, out ? "free" : "out");
    seen->marks[index / 64] |= (uint64_t)1 << index % 64;
}

static void check_mark_object(const struct stook_cache *cache, const void *object,
                              const char *where)
{
    uint32_t index;
    struct slab *slab = slab_of(cache, object, &index); /* dies if it is none */

    check_mark(check_find(slab), index, true, where);
}

/* The freelist visits as many objects as the state word says, each once, and ends. */
static void check_freelist(struct seen *seen, uint64_t word)
{
    uint32_t left = seen->objects - slab_inuse(word), index = slab_head(word);

    for (; left > 0; left--) {
        CHECK(index != SLAB_NONE, "cache %s: a freelist is %u short", seen->cache->name, left);
        check_mark(seen, index, false, "on the freelist");
        index = check_next(seen->cache, seen->slab, index, seen->objects);
    }
    CHECK(index == SLAB_NONE, "cache %s: a freelist goes on behind its count", seen->cache->name);
}

static void check_slab(uint32_t entry, uint32_t page)
{
    struct stook_cache *cache = cache_table[pagemap_cache(entry)];
    char *base = (char *)pagemap.base + ((size_t)page << PAGE_SHIFT);
    struct seen *seen;
    uint64_t word;

    CHECK(cache, "page %u belongs to cache %u, which does not exist", page, pagemap_cache(entry));
    if (walk.n == walk.room) {
        walk.room = walk.room ? 2 * walk.room : 256;
        walk.slab = realloc(walk.slab, walk.room * sizeof(*walk.slab));
        CHECK(walk.slab, "no memory for the test");
    }
    seen = &walk.slab[walk.n++];
    *seen = (struct seen){
        .slab = arena_meta(base, pagemap_granule(entry)), .cache = cache, .page = page};
    CHECK(seen->slab->page == page, "cache %s: page %u says it is of a slab at page %u",
          cache->name, page, seen->slab->page);
    word = atomic_load(&seen->slab->state);
    seen->objects = slab_objects(cache, word);
    seen->marks = calloc((seen->objects + 63) / 64, sizeof(uint64_t));
    CHECK(seen->marks, "no memory for the test");
    CHECK((uintptr_t)base % ((size_t)PAGE_SIZE << slab_order(cache, word)) == 0,
          "cache %s: a slab of order %u at page %u", cache->name, slab_order(cache, word), page);
    CHECK(!(slab_flags(word) & SLAB_PENDING), "cache %s: a slab was left pending", cache->name);
    CHECK(slab_inuse(word) <= seen->objects, "cache %s: %u objects of %u in use", cache->name,
          slab_inuse(word), seen->objects);
    if (slab_inuse(word) == 0)
        for (uint32_t i = 0; i < seen->objects; i++)
            check_mark(seen, i, false, "in an empty slab");
    else
        check_freelist(seen, word);
    if (cache == walk.counted) {
        walk.counts.slabs++;
        walk.counts.free += seen->objects - slab_inuse(word);
    }
}

/* ---- blocks --------------------------------------------------------------------------------- */

static uint32_t check_granules(size_t bytes)
{
    return (uint32_t)((bytes + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

/* Whether a page is one of the slab's, which may go on in the blocks behind its first one. */
static bool check_is_of(const struct seen *seen, uint32_t page)
{
    char *base = (char *)pagemap.base + ((size_t)page << PAGE_SHIFT);
    uint32_t entry = pagemap.entry[page];

    return pagemap_cache(entry) == seen->cache->index && slab_at(base, entry) == seen->slab &&
           !(zone_block(pagemap_index(base))->free[page % BLOCK_PAGES / 64] >> page % 64 & 1);
}

/* Whether a block's first page is of a slab that begins in an earlier block. */
static bool check_goes_on(uint32_t page)
{
    char *base = (char *)pagemap.base + ((size_t)page << PAGE_SHIFT);

    return pagemap_cache(pagemap.entry[page]) != 0 &&
           slab_at(base, pagemap.entry[page])->page < page;
}

/* The taken pages of a block of runs; how many granules its slabs have, ~0: large objects too. */
static uint32_t check_pages(const struct block *block, uint32_t first)
{
    uint32_t granules = 0;
    bool large = false;

    if (check_goes_on(first)) /* that was looked at */
        return 0;
    for (uint32_t i = 0; i < BLOCK_PAGES;) {
        bool taken = !(block->free[i / 64] >> i % 64 & 1);
        uint32_t entry = pagemap.entry[first + i], pages = 1;
        CHECK(taken || entry == 0, "page %u is free and has an entry", first + i);
        if (taken && pagemap_cache(entry) != 0) {
            struct seen *seen;
            uint64_t word;
            check_slab(entry, first + i);
            seen = &walk.slab[walk.n - 1];
            word = atomic_load(&seen->slab->state);
            pages = 1u << slab_order(seen->cache, word);
            for (uint32_t k = 0; k < pages; k++)
                CHECK(check_is_of(seen, first + i + k),
                      "cache %s: page %u of a slab is not its own", seen->cache->name, k);
            granules += check_granules(
                column_meta(seen->cache, slab_flags(atomic_load(&seen->slab->state))));
        } else if (taken) {
            large = true;
        }
        i += pages;
    }
    return large ? ~0u : granules;
}

static void check_block(const struct block *block, const char *base)
{
    uint32_t page = (uint32_t)(((uintptr_t)base - pagemap.base) >> PAGE_SHIFT), granules = 0;
    bool gone = zone_is_gone(zone_of(base), pagemap_index(base));
    bool meta = zone_has_meta(zone_of(base), pagemap_index(base));
    uint32_t used = meta ? check_bits(arena_meta(base, 0), BLOCK_GRANULES / 64) : 0;
    struct block copy = *block;

    CHECK(check_bits(block->free, BLOCK_WORDS) == block->nfree, "a block's free pages");
    CHECK(check_bits(block->dirty, BLOCK_WORDS) == block->ndirty, "a block's dirty pages");
    for (unsigned i = 0; i < BLOCK_WORDS; i++)
        CHECK(!(block->dirty[i] & ~block->free[i]), "a page is dirty and taken");
    block_measure(&copy);
    CHECK(copy.longest <= block->longest, "a run of %u pages, the bound is %u", copy.longest,
          block->longest);
    switch (block->state) {
    case BLOCK_FREE:
        CHECK(!gone || block->ndirty == 0, "a block that is gone has dirty pages");
        CHECK(block->nfree == BLOCK_PAGES && !list_linked(&block->soiled), "a free block");
        CHECK(list_linked(&block->bucket) == (block->ndirty > 0), "the warm list");
        break;
    case BLOCK_RUNS:
        CHECK(block->nfree < BLOCK_PAGES, "a block of runs without any");
        CHECK(list_linked(&block->bucket) == (block->nfree > 0), "the runs' lists");
        CHECK(list_linked(&block->soiled) == (block->ndirty > 0), "the soiled blocks' lists");
        granules = check_pages(block, page);
        CHECK(meta || granules == 0 || granules == ~0u, "slabs without metadata");
        break;
    default:
        CHECK(block->state == BLOCK_SPAN && block->nfree == 0 && !list_linked(&block->bucket) &&
                  !list_linked(&block->soiled),
              "a block of state %u", block->state);
        granules = ~0u;
    }
    CHECK(!gone || block->state == BLOCK_FREE, "a block that is gone has state %u", block->state);
    CHECK(granules == ~0u || used == granules, "%u granules in use, the slabs have %u", used,
          granules);
    for (uint32_t i = BLOCK_PAGES; block->state == BLOCK_FREE && i-- > 0;)
        CHECK(pagemap.entry[page + i] == 0, "page %u of a free block has an entry", page + i);
}

/* Mapped and never used; other blocks without a header are in their first span. */
static bool check_is_tail(const struct zone *zone, uint32_t index)
{
    for (unsigned kind = 0; kind < ZONE_TAILS; kind++)
        if (index >= zone->tail[kind].next && index < zone->tail[kind].end)
            return true;
    return false;
}

static void check_arena(void)
{
    size_t taken = 0, warm = 0, blocks = 0, clean = 0;
    struct arena_stat stat;

    for (char *base = (char *)pagemap.base + pagemap.high;
         base < (char *)pagemap.middle + pagemap.low; base += BLOCK_SIZE) {
        const struct block *block;
        block = zone_block(pagemap_index(base));
        if (pagemap_zone(base) >= pagemap.zones ||
            check_is_tail(zone_of(base), pagemap_index(base)))
            continue; /* skipped, or taken from the window and not used yet */
        CHECK((pagemap_zone(base) >= pagemap.zones / 2) == ((uintptr_t)base < pagemap.middle),
              "a block of zone %u at %p", pagemap_zone(base), (void *)base);
        blocks++;
        if (block->state == BLOCK_UNUSED) {
            taken += BLOCK_PAGES;
            continue;
        }
        check_block(block, base);
        taken += BLOCK_PAGES - block->nfree;
        warm += block->ndirty;
        clean += block->state == BLOCK_FREE && block->ndirty == 0 &&
                 !zone_is_gone(zone_of(base), pagemap_index(base));
        if (block->state == BLOCK_FREE && block->ndirty > 0) /* and its metadata's pages */
            warm += (block->meta_high * ARENA_GRANULE + PAGE_SIZE - 1) / PAGE_SIZE;
    }
    for (unsigned i = 0; i < pagemap.zones; i++)
        clean -= zone_all.zone[i].clean;
    for (unsigned i = 0; i < pagemap.zones; i++) {
        taken -= arena_kept(i); /* taken of their blocks, and warm */
        warm += arena_kept(i) - arena_kept_in(KEPT_CLEAN, i);
    }
    CHECK(clean == 0, "%zd clean blocks are not counted", (ssize_t)clean);
    arena_stat(&stat);
    CHECK(stat.blocks == blocks, "%zu blocks, the arena says %zu", blocks, stat.blocks);
    CHECK(stat.used == taken * PAGE_SIZE, "%zu pages taken, the arena says %zu", taken,
          stat.used / PAGE_SIZE);
    CHECK(stat.warm == warm * PAGE_SIZE, "%zu pages warm, the arena says %zu", warm,
          stat.warm / PAGE_SIZE);
    CHECK(stat.limit <= stat.reserve * pagemap.zones + stat.peak,
          "the warm limit is beyond the reserve");
}

/* ---- sheaves -------------------------------------------------------------------------------- */

static void check_sheaf(struct stook_cache *cache, struct sheaf *sheaf, const char *where)
{
    struct stook_cache *class = slab_cache_of(sheaf);
    bool known = false;

    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        known |= class == sheaf_cache[i];
    CHECK(known, "cache %s: what is %s is no sheaf", cache->name, where);
    CHECK((sheaf->capacity == cache_capacity(cache) || cache->policy.resized) &&
              sheaf->capacity <= sheaf_room(sheaf) && sheaf->size <= sheaf_room(sheaf),
          "cache %s: a sheaf of %u of %u, room %u, %s", cache->name, sheaf->size, sheaf->capacity,
          sheaf_room(sheaf), where);
    check_mark_object(class, sheaf, where);
    for (uint32_t i = 0; i < sheaf->size; i++)
        check_mark_object(cache, sheaf->object[i], where);
    if (cache == walk.counted)
        walk.counts.cached += sheaf->size;
}

/* Objects that wait are not cached; what the RCU needs has room behind them. */
static void check_rcu_sheaf(struct stook_cache *cache, struct sheaf *sheaf)
{
    CHECK(sheaf->size > 0 && sheaf->size < sheaf->capacity &&
              sheaf->capacity + RCU_BATCH_WORDS <= sheaf_room(sheaf),
          "cache %s: an rcu sheaf of %u of %u, room %u", cache->name, sheaf->size, sheaf->capacity,
          sheaf_room(sheaf));
    check_mark_object(slab_cache_of(sheaf), sheaf, "in a slot under readers");
    for (uint32_t i = 0; i < sheaf->size; i++)
        check_mark_object(cache, sheaf->object[i], "deferred in a slot");
}

static void check_slot(struct stook_cache *cache, struct slot *slot, unsigned cpu)
{
    struct sheaf *main = slot_look(slot);

    CHECK(atomic_load(&slot->begin) != SLOT_CLOSED, "the slot of cache %s on CPU %u is closed",
          cache ? cache->name : "(none)", cpu);
    if (main == SHEAF_NONE)
        main = NULL;
    CHECK(cache || (!main && !slot->spare && !slot->rcu && !slot->remote),
          "a slot of no cache has a sheaf");
    if (main)
        check_sheaf(cache, main, "in a slot");
    if (slot->spare) {
        check_sheaf(cache, slot->spare, "spare in a slot");
        CHECK(slot->spare->size == 0 || slot->spare->size == slot->spare->capacity,
              "cache %s: a spare sheaf of %u of %u is neither full nor empty", cache->name,
              slot->spare->size, slot->spare->capacity);
    }
    for (struct sheaf *remote = slot->remote; remote; remote = remote->next) {
        check_sheaf(cache, remote, "remote in a slot");
        CHECK(remote->size < remote->capacity && (remote->size == 0 || sheaf_owner(remote) >= 0),
              "cache %s: a remote sheaf of several nodes, or full", cache->name);
    }
    if (slot->rcu)
        check_rcu_sheaf(cache, slot->rcu);
}

static void check_barn(struct stook_cache *cache, struct barn *barn)
{
    uint32_t full = 0, empty = 0;
    uint64_t bytes = 0;

    CHECK(atomic_load(&barn->lock.word) == 0, "cache %s: a barn's lock is held", cache->name);
    for (struct sheaf *s = barn->full; s; s = s->next, full++) {
        CHECK(s->size > 0, "cache %s: an empty sheaf among the full", cache->name);
        check_sheaf(cache, s, "in a barn");
        bytes += (uint64_t)s->size * cache->layout.stride;
    }
    for (struct sheaf *s = barn->empty; s; s = s->next, empty++) {
        CHECK(s->size == 0, "cache %s: a full sheaf among the empty", cache->name);
        check_sheaf(cache, s, "empty in a barn");
        CHECK(s->capacity == cache_capacity(cache),
              "cache %s: an empty sheaf of %u kept, it is %u now", cache->name, s->capacity,
              cache_capacity(cache));
    }
    CHECK(full == barn->nr_full && empty == barn->nr_empty, "cache %s: a barn's counts",
          cache->name);
    /* What is beyond the limit leaves step by step. */
    CHECK(barn->nr_full <= cache_barn_most(cache) && barn->full_limit <= cache_barn_most(cache),
          "cache %s: %u sheaves of %u, at most %u", cache->name, barn->nr_full, barn->full_limit,
          cache_barn_most(cache));
    CHECK(bytes == barn->bytes && bytes <= barn->granted,
          "cache %s: a barn of %llu bytes says %llu, granted are %llu", cache->name,
          (unsigned long long)bytes, (unsigned long long)barn->bytes,
          (unsigned long long)barn->granted);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static uint32_t check_list(struct stook_cache *cache, struct list *list, bool empty)
{
    uint32_t n = 0;

    for (struct list *l = list->next; l != list; l = l->next, n++) {
        struct slab *slab = LIST_ENTRY(l, struct slab, link);
        struct seen *seen = check_find(slab);
        uint64_t word = atomic_load(&slab->state);
        CHECK(l->next->prev == l && l->prev->next == l, "a list is broken");
        CHECK(seen->cache == cache && !seen->listed, "cache %s: a slab on a list not its own",
              cache->name);
        CHECK(empty ? slab_inuse(word) == 0 : slab_inuse(word) > 0 && slab_head(word) != SLAB_NONE,
              "cache %s: a slab of word %016llx on the %s list", cache->name,
              (unsigned long long)word, empty ? "empty" : "partial");
        seen->listed = true;
    }
    return n;
}

static void check_node(struct stook_cache *cache, struct node *node, unsigned id)
{
    uint64_t slabs = 0, objects = 0, pages = 0;
    struct node_counts counts;

    node_count(cache, id, &counts);
    CHECK(atomic_load(&node->lock.word) == 0, "cache %s: a node's lock is held", cache->name);
    CHECK(check_list(cache, &node->partial, false) == node->nr_partial &&
              check_list(cache, &node->empty, true) == node->nr_empty,
          "cache %s: a node's lists are not as long as they say", cache->name);
    for (size_t i = 0; i < walk.n; i++) {
        struct seen *seen = &walk.slab[i];
        uint64_t word = atomic_load(&seen->slab->state);
        if (seen->cache != cache || slab_node(seen->slab) != id)
            continue;
        slabs++;
        objects += seen->objects;
        pages += (uint64_t)1 << slab_order(cache, word);
        CHECK(seen->listed == (slab_inuse(word) == 0 || slab_head(word) != SLAB_NONE),
              "cache %s: a slab of word %016llx is %son a list", cache->name,
              (unsigned long long)word, seen->listed ? "" : "not ");
        CHECK(seen->listed || !list_linked(&seen->slab->link), "cache %s: a full slab is linked",
              cache->name);
    }
    CHECK(slabs == counts.slabs && objects == counts.objects && pages == counts.pages,
          "cache %s: %llu slabs with %llu objects, the node says %llu and %llu", cache->name,
          (unsigned long long)slabs, (unsigned long long)objects, (unsigned long long)counts.slabs,
          (unsigned long long)counts.objects);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void check_caches(void)
{
    unsigned grown = 0;
    size_t all = 0;

    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *cache = LIST_ENTRY(l, struct stook_cache, link);
        size_t granted = cache->policy.grown;
        CHECK(cache_table[cache->index] == cache && cache->alive, "cache %s: its number",
              cache->name);
        if (pagemap_covers(cache))
            check_mark_object(slab_cache_of(cache), cache, "on the list of caches");
        for (unsigned i = 0; i < topology.nodes; i++) {
            check_node(cache, &cache->nodes[i].node, i);
            check_barn(cache, &cache->nodes[i].barn);
            granted += cache->nodes[i].barn.granted;
        }
        CHECK(granted == atomic_load(&cache->policy.cached) && granted <= cache->policy.cached_max,
              "cache %s: granted are %zu bytes, it says %zu", cache->name, granted,
              atomic_load(&cache->policy.cached));
        all += granted;
        grown += cache_has_grown(cache);
    }
#ifndef STOOK_CORE
    for (unsigned i = 0; gone_kept(i); i++) /* destroyed, and kept for reports */
        if (pagemap_covers(gone_kept(i)))
            check_mark_object(slab_cache_of(gone_kept(i)), gone_kept(i), "a destroyed cache");
#endif
    CHECK(all == atomic_load(&budget.granted) && all <= atomic_load(&budget.max),
          "granted are %zu bytes in all, the budget says %zu", all, atomic_load(&budget.granted));
    CHECK(grown == atomic_load(&adapt_grown), "%u caches have grown, it says %u", grown,
          atomic_load(&adapt_grown));
}

static void check_quarantine(void)
{
#ifndef STOOK_CORE
    size_t bytes = 0;
    void *object;

    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++)
        for (uint32_t i = 0; (object = quarantine_held(cpu, i)); i++) {
            const struct stook_cache *cache = slab_cache_of(object);
            CHECK(cache && cache->flags & STOOK_CACHE_QUARANTINE,
                  "an object in quarantine of a cache that has none");
            check_mark_object(cache, object, "in quarantine");
            bytes += cache->layout.stride;
        }
    CHECK(bytes == quarantine_bytes(), "%zu bytes are in quarantine, it says %zu", bytes,
          quarantine_bytes());
#endif
}

static void check_unmarked(void)
{
    for (size_t i = 0; i < walk.n; i++) {
        struct seen *seen = &walk.slab[i];
        for (uint32_t k = 0; k < seen->objects; k++)
            CHECK(seen->marks[k / 64] >> k % 64 & 1,
                  "cache %s: object %u of slab %p is nowhere: lost", seen->cache->name, k,
                  (void *)slab_base(seen->slab));
        free(seen->marks);
    }
}

void check_count(const struct stook_cache *cache, const struct check_object *held, size_t n,
                 struct check_counts *counts)
{
    walk.n = 0;
    walk.counted = cache;
    memset(&walk.counts, 0, sizeof(walk.counts));
    CHECK(context_tls.depth == 0 && !atomic_load(&context_tls.deferred) && context_tls.ranks == 0,
          "this thread is inside the library, or left something behind");
    CHECK(atomic_load(&cache_list.lock.word) == 0 && atomic_load(&percpu.lock.word) == 0,
          "a lock is held");
    check_arena();
    check_caches();
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++)
            check_slot(cache_table[i], percpu_slot(cpu, percpu_offset(i)), cpu);
    for (size_t i = 0; i < n; i++)
        check_mark_object(held[i].cache, held[i].object, "held by the test");
    check_quarantine();
    check_unmarked();
    *counts = walk.counts;
}

void check_all(const struct check_object *held, size_t n)
{
    struct check_counts counts;

    check_count(NULL, held, n, &counts);
}
