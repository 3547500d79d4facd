/* SPDX-License-Identifier: MIT */
/*
 * leaks.c - searches a target for objects that nothing points to: its objects, its roots, and what
 * was found.
 */
#include "look/leaks.h"

#include "look/heap_own.h"
#include "look/late.h"
#include "look/target_core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LEAKS_CHUNK = 16 << 10,   /* what is read at a time of small objects … */
    LEAKS_CHUNKS = 4096,      /* … and kept */
    LEAKS_PART = 64 << 10,    /* what is read at a time of others */
    LEAKS_MAPPING_SHIFT = 36, /* larger mappings, such as a sanitizer's shadow, are not read */
    LEAKS_PAGES = 512,        /* words of /proc/PID/pagemap, read at a time */
    LEAKS_RENEW = 4096,       /* slabs, between which pages that were kept are let go */
    LEAKS_RED_ZONE = 128,     /* bytes below a stack pointer that a function may use */
    LEAKS_SNAPSHOTS = 12,     /* a search may take as long as so many of them */
};

#define LEAKS_SHARED (UINT64_C(1) << 61) /* a file's page, not one of the process's own */

struct leaks_search {
    struct heap *heap;
    struct leaks *leaks;
    struct reach *reach;
    struct late *late; /* while pointers are followed in a target that runs */
    uint64_t window, window_end;
    uint64_t stack;          /* the main thread's stack pointer; UINT64_MAX: not known */
    uint64_t dead, dead_end; /* of the main thread's stack, what lies below its pointer */
    char *chunk;
    uint64_t chunk_at[LEAKS_CHUNKS]; /* 1 + address */
    uint8_t state[HEAP_OBJECTS];
    uint64_t buffer[VIEW_SHEAF_MAX];
    char part[LEAKS_PART];
};

/* ---- reading ---------------------------------------------------------------------------------- */

/* LEAKS_PART bytes at most; what cannot be read, or was never touched, is zeros.  False: they are nothing else. */
static bool leaks_read(struct heap *heap, uint64_t address, char *to, size_t n)
{
    bool there[LEAKS_PART / TARGET_PAGE + 1], any = false;
    size_t before = address % TARGET_PAGE, pages = (before + n + TARGET_PAGE - 1) / TARGET_PAGE;

    target_there(heap->target, address, there, pages);
    for (size_t i = 0, at = 0, most = pages; i < pages;) {
        size_t end = i + 1, part;
        while (end - i < most && end < pages && there[end] == there[i])
            end++;
        part = (end * TARGET_PAGE - before < n ? end * TARGET_PAGE - before : n) - at;
        if (there[i] && target_read_now(heap->target, address + at, to + at, part, part)) {
            any = true;
        } else if (there[i] && end - i > 1) { /* some of them can be */
            most = 1;
            continue;
        } else {
            memset(to + at, 0, part);
        }
        at += part;
        i = end;
    }
    return any;
}

static const char *leaks_chunk(struct leaks_search *search, uint64_t at)
{
    size_t i = (size_t)(at / LEAKS_CHUNK * 0x9e3779b97f4a7c15u >> 40) % LEAKS_CHUNKS;
    char *chunk = search->chunk + i * LEAKS_CHUNK;

    if (search->chunk_at[i] != at + 1) {
        (void)leaks_read(search->heap, at, chunk, LEAKS_CHUNK);
        search->chunk_at[i] = at + 1;
    }
    return chunk;
}

/* The same of what is kept. */
static bool leaks_copy(struct leaks_search *search, uint64_t address, size_t size, void *buffer)
{
    if (size >= LEAKS_CHUNK || address < search->window || address >= search->window_end)
        return leaks_read(search->heap, address, buffer, size);
    for (size_t done = 0; done < size;) {
        uint64_t at = address + done, in = at % LEAKS_CHUNK;
        size_t part =
            LEAKS_CHUNK - (size_t)in < size - done ? LEAKS_CHUNK - (size_t)in : size - done;
        memcpy((char *)buffer + done, leaks_chunk(search, at - in) + in, part);
        done += part;
    }
    return true;
}

static const void *leaks_view(void *context, uint64_t address, size_t size, void *buffer)
{
    struct leaks_search *search = context;

    if (size > LEAKS_PART || !leaks_copy(search, address, size, buffer))
        return NULL;
    if (search->late)
        late_note(search->late, search->reach, buffer, size / 8);
    return buffer;
}

static void leaks_renew(void *context)
{
    struct leaks_search *search = context;

    memset(search->chunk_at, 0, sizeof(search->chunk_at));
}

/* ---- the objects ------------------------------------------------------------------------------ */

static bool leaks_is_sheaf(const struct leaks_search *search, const struct heap_cache *cache)
{
    const struct view *v = &search->heap->view;
    uint64_t table = view_value(v, VIEW_at_sheaf_cache), address;

    for (uint64_t i = 0; i < view_value(v, VIEW_SHEAF_CLASSES); i++)
        if (target_take(search->heap->target, table + i * 8, &address) && address == cache->address)
            return true;
    return false;
}

/* Every sheaf is an object of one of the library's own caches, wherever it is: what it has is free.  Objects in main
 * sheaves are known to be free already. */
static void leaks_sheaf(struct leaks_search *search, const struct heap_cache *cache, uint64_t sheaf)
{
    const struct view *v = &search->heap->view;
    uint64_t size, head = view_value(v, VIEW_sheaf_object);

    if (heap_is_main(search->heap, sheaf) ||
        !view_read(v, search->heap->target, sheaf, VIEW_sheaf_size, &size) ||
        cache->object_size < head)
        return;
    if (size > (cache->object_size - head) / 8)
        size = (cache->object_size - head) / 8;
    if (target_take_some(search->heap->target, sheaf + head, search->buffer, size))
        for (uint64_t i = 0; i < size; i++)
            reach_free(search->reach, search->buffer[i]);
}

/* The library's own objects, which lie in front of the program's: `sheaves` those that are sheaves, or the others,
 * which are roots, such as a reserve's. */
static void leaks_own(struct leaks_search *search, bool sheaves)
{
    struct heap *heap = search->heap;

    for (size_t i = 0; i < heap->slabs; i++) {
        const struct heap_slab *slab = &heap->slab[i];
        const struct heap_cache *cache = heap_cache_at(heap, slab->cache);
        if (heap_slab_base(heap, slab) >= heap->middle || !cache ||
            leaks_is_sheaf(search, cache) != sheaves || !heap_states(heap, slab, search->state))
            continue;
        for (unsigned j = 0; j < slab->objects; j++)
            if (search->state[j] != HEAP_LIVE && search->state[j] != HEAP_HELD)
                continue;
            else if (sheaves)
                leaks_sheaf(search, cache, heap_object(heap, cache, slab, j));
            else
                reach_root_memory(search->reach, heap_object(heap, cache, slab, j),
                                  cache->object_size);
    }
    for (size_t i = 0; i < heap->larges && !sheaves; i++)
        if (heap->large[i].address < heap->middle)
            reach_root_memory(search->reach, heap->large[i].address, heap->large[i].bytes);
}

static void leaks_add_slab(struct leaks_search *search, const struct heap_slab *slab)
{
    struct heap *heap = search->heap;
    const struct heap_cache *cache = heap_cache_at(heap, slab->cache);
    uint64_t base = heap_slab_base(heap, slab);

    if (!cache || base < heap->middle || !heap_states(heap, slab, search->state))
        return;
    for (unsigned i = 0; i < slab->objects; i++)
        search->state[i] = search->state[i] == HEAP_LIVE;
    (void)reach_add(search->reach, base, (uint64_t)TARGET_PAGE << slab->order,
                    heap_object(heap, cache, slab, 0), cache->stride, cache->object_size,
                    slab->objects, (uint32_t)(slab - heap->slab), search->state);
}

/* Slabs and large objects, in the order of addresses. */
static void leaks_take(struct leaks_search *search)
{
    struct heap *heap = search->heap;
    size_t slab = 0, large = 0, since = 0;
    uint8_t live = 1;

    heap_load_sheaves(heap);
    while (slab < heap->slabs || large < heap->larges) {
        if (large == heap->larges ||
            (slab < heap->slabs &&
             heap_slab_base(heap, &heap->slab[slab]) < heap->large[large].address)) {
            leaks_add_slab(search, &heap->slab[slab++]);
            if (++since % LEAKS_RENEW == 0)
                target_renew(heap->target);
        } else {
            const struct heap_large *one = &heap->large[large++];
            if (one->address >= heap->middle)
                (void)reach_add(search->reach, one->address, one->bytes, one->address, one->bytes,
                                one->bytes, 1, UINT32_MAX - (uint32_t)large + 1, &live);
        }
    }
    leaks_own(search, true);
}

/* ---- roots ------------------------------------------------------------------------------------ */

static void leaks_part(struct leaks_search *search, uint64_t start, uint64_t end)
{
    if (start >= search->dead && start < search->dead_end)
        start = end < search->dead_end ? end : search->dead_end;
    if (end <= search->window || start >= search->window_end) {
        reach_root_memory(search->reach, start, end - start);
        return;
    }
    if (start < search->window)
        reach_root_memory(search->reach, start, search->window - start);
    if (end > search->window_end)
        reach_root_memory(search->reach, search->window_end, end - search->window_end);
}

/* The pages of [start, end) that are there; of what cannot be written to, those that were before. */
static void leaks_pages(struct leaks_search *search, uint64_t start, uint64_t end, bool writable)
{
    uint64_t word[LEAKS_PAGES], page = (uint64_t)sysconf(_SC_PAGESIZE), from = 0;
    bool open = false;

    for (uint64_t at = start; at < end; at += LEAKS_PAGES * page) {
        uint64_t n = (end - at + page - 1) / page;
        n = n < LEAKS_PAGES ? n : LEAKS_PAGES;
        if (!target_words(search->heap->target, at / page, word, n))
            memset(word, writable ? 0xff : 0, sizeof(word));
        for (uint64_t i = 0; i < n; i++) {
            bool wanted = (word[i] & TARGET_PRESENT) && (writable || !(word[i] & LEAKS_SHARED));
            if (wanted && !open)
                from = at + i * page;
            else if (!wanted && open)
                leaks_part(search, from, at + i * page);
            open = wanted;
        }
    }
    if (open)
        leaks_part(search, from, end);
}

static bool leaks_mapping(const struct target_mapping *mapping, void *arg)
{
    struct leaks_search *search = arg;
    uint64_t bytes = mapping->end - mapping->begin;

    if (search->heap->target->over)
        return false;
    if (!mapping->read || mapping->begin >> 63 ||
        (mapping->begin >= search->window && mapping->end <= search->window_end))
        return true;
    if (bytes > UINT64_C(1) << LEAKS_MAPPING_SHIFT &&
        !(mapping->begin < search->window_end && mapping->end > search->window)) {
        search->leaks->unread += bytes;
        return true;
    }
    if (strcmp(mapping->path, "[stack]") == 0 && search->stack >= mapping->begin &&
        search->stack < mapping->end) {
        search->dead = mapping->begin;
        search->dead_end = (search->stack - LEAKS_RED_ZONE) & ~UINT64_C(7);
    }
    if (search->heap->target->live)
        leaks_pages(search, mapping->begin, mapping->end, mapping->write);
    else /* what is not in the core was never written to */
        leaks_part(search, mapping->begin,
                   mapping->begin + target_core_has(search->heap->target, mapping->begin));
    return true;
}

static void leaks_words(const uint64_t *words, size_t n, void *arg)
{
    reach_root(arg, words, n);
}

/* ---- what was found --------------------------------------------------------------------------- */

static uint64_t leaks_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* A program that has lost it writes to it no more. */
static uint64_t leaks_hash(struct leaks_search *search, const struct leaks_object *object)
{
    struct heap_what what;
    uint64_t hash = object->size, word;

    for (uint64_t at = 0; at < object->size; at += LEAKS_PART) {
        size_t n = object->size - at < LEAKS_PART ? (size_t)(object->size - at) : LEAKS_PART;
        if (!leaks_copy(search, object->address + at, n, search->part)) {
            hash = leaks_mix(hash, at);
            continue;
        }
        memset(search->part + n, 0, -n % sizeof(word));
        for (size_t i = 0; i < n; i += sizeof(word)) {
            memcpy(&word, search->part + i, sizeof(word));
            hash = leaks_mix(hash, word);
        }
    }
    heap_describe(search->heap, object->slab, object->index, object->address, &what);
    hash = leaks_mix(hash, (uint64_t)what.tag << 32 | what.group);
    return leaks_mix(hash, what.who[0].time + what.who[0].born);
}

static void leaks_found(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                        enum reach_kind kind, void *arg)
{
    struct leaks_search *search = arg;
    struct leaks *leaks = search->leaks;
    struct leaks_object *object;

    leaks->sum[kind].objects++;
    leaks->sum[kind].bytes += size;
    if (kind == REACH_IN_REACH && !leaks->all)
        return;
    leaks->object = target_row(leaks->object, leaks->objects, sizeof(*leaks->object));
    object = &leaks->object[leaks->objects++];
    *object = (struct leaks_object){
        .address = address,
        .size = size,
        .slab = number < search->heap->slabs ? &search->heap->slab[number] : NULL,
        .index = index,
        .kind = (uint8_t)kind};
    if (kind != REACH_IN_REACH && search->heap->target->live)
        object->hash = leaks_hash(search, object);
}

bool leaks_search(struct heap *heap, leaks_registers registers, void *context, uint64_t stack,
                  bool all, struct leaks *leaks, struct target_error *error)
{
    const struct view *v = &heap->view;
    struct leaks_search *search = target_need(calloc(1, sizeof(*search)));
    uint64_t size = 0;
    bool roots;

    *leaks = (struct leaks){.all = all};
    target_allow(heap->target, LEAKS_SNAPSHOTS);
    (void)view_read(v, heap->target, view_value(v, VIEW_at_pagemap), VIEW_pagemap_size, &size);
    search->heap = heap;
    search->leaks = leaks;
    search->stack = stack;
    search->window = heap->base;
    search->window_end = heap->base + size;
    if (!target_spend(heap->target, (heap->end - heap->middle) / TARGET_PAGE * 4)) {
        free(search);
        return target_damaged(heap->target, error);
    }
    search->chunk = target_need(malloc((size_t)LEAKS_CHUNKS * LEAKS_CHUNK));
    search->reach = reach_new(heap->middle, heap->end, leaks_view, search);
    leaks_take(search);
    reach_start(search->reach);
    search->late =
        heap->target->live && !registers ? late_new(heap->middle, search->window_end) : NULL;
    if (registers)
        registers(context, leaks_words, search->reach);
    leaks_own(search, false);
    roots = target_for_each_mapping(heap->target, leaks_mapping, search);
    if (search->late)
        late_follow(search->late, heap->target->pid, search->reach, leaks_renew, search);
    late_close(search->late);
    search->late = NULL;
    reach_sort(search->reach);
    reach_each(search->reach, leaks_found, search);
    reach_close(search->reach);
    free(search->chunk);
    free(search);
    if (!view_knows(v, VIEW_at_sheaf_cache) || view_value(v, VIEW_STOOK_ENCODED) == 0)
        return target_fail(error, "the Stook of process %d (%s) keeps no marks of its objects",
                           heap->target->pid, heap->target->name);
    if (heap->target->over)
        return target_damaged(heap->target, error);
    return roots ||
           target_fail(error, "process %d (%s) has ended", heap->target->pid, heap->target->name);
}

void leaks_common(const struct leaks *before, struct leaks *later)
{
    size_t n = 0, at = 0;

    for (unsigned kind = 0; kind < REACH_IN_REACH; kind++)
        later->sum[kind].objects = later->sum[kind].bytes = 0;
    for (size_t i = 0; i < later->objects; i++) {
        struct leaks_object *object = &later->object[i];
        const struct leaks_object *old;
        if (object->kind == REACH_IN_REACH) {
            later->object[n++] = *object;
            continue;
        }
        while (at < before->objects && before->object[at].address < object->address)
            at++;
        old = at < before->objects && before->object[at].address == object->address
                  ? &before->object[at]
                  : NULL;
        if (!old || old->kind == REACH_IN_REACH || old->hash != object->hash)
            continue;
        if (old->kind > object->kind)
            object->kind = old->kind;
        later->sum[object->kind].objects++;
        later->sum[object->kind].bytes += object->size;
        later->object[n++] = *object;
    }
    later->objects = n;
}

void leaks_close(struct leaks *leaks)
{
    free(leaks->object);
    *leaks = (struct leaks){0};
}
