/* SPDX-License-Identifier: MIT */
/*
 * leak.c - objects that are live and that nothing points to, at the process's end or when the program asks.
 */
#include "leak/leak.h"

#include "base/init.h"
#include "base/placed.h"
#include "base/report.h"
#include "base/settings.h"
#include "debug/object.h"
#include "leak/halt.h"
#include "leak/inventory.h"
#include "leak/roots.h"
#include "os/os.h"
#include "slab/slab.h"
#include "watch/exit.h"
#include "watch/stats.h"

#include <stook/debug.h>
#include <stook/tag.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The words of STOOK_LEAKS. */
enum { LEAK_NO, LEAK_LOST, LEAK_ALL };

struct leak_search {
    struct heap heap;
    struct roots roots;
    struct leak_found found;
    void *memory;
    size_t size;
    bool failed;
};

/* ---- groups ----------------------------------------------------------------------------------- */

/* Where an object was allocated, and what was asked for. */
static struct leak_group leak_describe(const struct heap_run *run, uint64_t address,
                                       enum heap_kind kind)
{
    struct stook_cache *cache = (struct stook_cache *)(uintptr_t)run->of;
    struct leak_group group = {
        .objects = 1, .bytes = run->size, .sample = address, .kind = kind, .of = run->of};
    const void *object = (const void *)(uintptr_t)address;
    struct track track;
    uint32_t index;

    if (cache && (cache->flags & CACHE_DEBUG)) {
        const struct slab *slab = slab_find(cache, object, &index);
        if (track_head(cache, slab, index))
            group.bytes = debug_usable(cache, object);
        if (track_get(cache, slab, index, TRACK_ALLOC, &track))
            group.stack = track.stack;
    }
    if (group.stack == 0)
        group.tag = stook_tag_of(object);
    return group;
}

static uint64_t leak_hash(const struct leak_group *group)
{
    uint64_t key = (uintptr_t)group->of ^ (uint64_t)group->tag << 40 ^
                   (uint64_t)group->stack << 17 ^ (uint64_t)group->kind << 60;

    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

static bool leak_same(const struct leak_group *a, const struct leak_group *b)
{
    return a->of == b->of && a->tag == b->tag && a->stack == b->stack && a->kind == b->kind;
}

static void leak_count(struct leak_found *found, struct leak_group more)
{
    struct leak_group *group;
    uint64_t at;

    if (found->groups >= LEAK_GROUPS)
        more.tag = more.stack = 0;
    at = leak_hash(&more);
    do
        group = &found->group[at++ % found->most];
    while (group->objects > 0 && !leak_same(group, &more));
    if (group->objects == 0) {
        found->groups++;
        *group = more;
        if (more.of)
            memcpy(group->name, ((const struct stook_cache *)more.of)->name, sizeof(group->name));
    } else {
        group->objects++;
        group->bytes += more.bytes;
    }
}

static void leak_group_all(struct leak_search *search)
{
    const struct heap *heap = &search->heap;

    for (uint32_t r = 0; r < heap->runs; r++) {
        const struct heap_run *run = &heap->run[r];
        for (uint32_t i = 0; i < run->objects; i++) {
            uint8_t state = heap->state[run->first + i];
            struct leak_group group;
            if (!(state & HEAP_LIVE))
                continue;
            group = leak_describe(run, run->start + i * run->stride, heap_kind(state));
            search->found.sum[group.kind].objects++;
            search->found.sum[group.kind].bytes += group.bytes;
            leak_count(&search->found, group);
        }
    }
}

/* Before `b`: lost first, then by bytes; where in the heap decides last. */
static bool leak_before(const struct leak_group *a, const struct leak_group *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->sample < b->sample;
}

static void leak_sift(struct leak_group *group, uint32_t at, uint32_t n)
{
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        struct leak_group swap;
        if (child + 1 < n && leak_before(&group[child], &group[child + 1]))
            child++;
        if (!leak_before(&group[at], &group[child]))
            return;
        swap = group[at];
        group[at] = group[child];
        group[child] = swap;
    }
}

/* The entries in use to the front, in order: a heap sort, since qsort() may allocate. */
static void leak_sort(struct leak_found *found)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < found->most; i++)
        if (found->group[i].objects > 0)
            found->group[n++] = found->group[i];
    found->groups = n;
    for (uint32_t i = n / 2; i-- > 0;)
        leak_sift(found->group, i, n);
    for (uint32_t end = n; end-- > 1;) {
        struct leak_group swap = found->group[0];
        found->group[0] = found->group[end];
        found->group[end] = swap;
        leak_sift(found->group, 0, end);
    }
}

/* ---- the search ------------------------------------------------------------------------------- */

/* While other threads are stopped. */
static void leak_work(void *arg, const struct halt *halt)
{
    struct leak_search *search = arg;
    size_t tables = inventory_size();
    /* Two kinds more than groups: those beyond count with no place, of each cache and kind. */
    uint32_t most = 2 * LEAK_GROUPS + 8 * STOOK_CACHES_MAX;
    char *memory;

    search->size = (tables + 4095) / 4096 * 4096 + most * sizeof(struct leak_group);
    search->memory = memory = os_map(search->size);
    if (!memory) {
        search->failed = true;
        return;
    }
    search->found.alone = halt->alone;
    search->found.most = most;
    search->found.group = (struct leak_group *)(void *)(memory + (tables + 4095) / 4096 * 4096);
    search->roots.skip[0] = (uintptr_t)memory;
    search->roots.skip_end[0] = (uintptr_t)memory + search->size;
    search->roots.skip[1] = halt->begin;
    search->roots.skip_end[1] = halt->end;
    search->heap.reader = roots_reader();
    if (!inventory_take(&search->heap, memory)) {
        search->failed = true;
        return;
    }
    heap_root(&search->heap, halt->registers, halt->words);
    inventory_roots(&search->heap);
    if (!roots_read(&search->heap, &search->roots)) {
        search->failed = true;
        return;
    }
    heap_settle(&search->heap);
    search->found.unread = search->roots.unread;
    leak_group_all(search);
}

/* What lies above this function's frame is a root: the caller's registers, too. */
static __attribute__((noinline)) void leak_run(struct leak_search *search)
{
    search->roots.stack = (uintptr_t)__builtin_frame_address(0);
    halt_run(leak_work, search);
}

static __attribute__((noinline)) long leak_write(struct writer *writer, bool json, bool all)
{
    struct leak_search search = {0};
    long lost = -1;

    __builtin_unwind_init(); /* registers that calls preserve, onto the stack */
    init_once();
    if (!STOOK_ENCODED) {
        errno = ENOTSUP;
        return -1;
    }
    if (!stats_readable()) {
        errno = EDEADLK;
        return -1;
    }
    leak_run(&search);
    if (search.failed) {
        errno = search.memory ? EAGAIN : ENOMEM;
    } else {
        leak_sort(&search.found);
        if (json)
            leak_show_json(writer, &search.found, all);
        else
            leak_show_text(writer, &search.found, all);
        lost = (long)(search.found.sum[HEAP_LOST].objects +
                      search.found.sum[HEAP_LOST_BEHIND].objects);
    }
    if (search.memory)
        os_unmap(search.memory, search.size);
    return lost;
}

long stook_leaks(int fd, unsigned format)
{
    struct writer writer;
    bool all = (format & STOOK_REPORT_ALL) != 0;
    long lost;

    format &= ~STOOK_REPORT_ALL;
    if (format != STOOK_REPORT_TABLE && format != STOOK_REPORT_JSON) {
        errno = EINVAL;
        return -1;
    }
    writer_init(&writer, fd);
    lost = leak_write(&writer, format == STOOK_REPORT_JSON, all);
    return lost >= 0 && writer_finish(&writer) != 0 ? -1 : lost;
}

/* ---- at the end ------------------------------------------------------------------------------- */

FIRST_TEXT bool leak_start(void)
{
    return setting_number(SETTING_LEAKS) != LEAK_NO;
}

static FIRST_TEXT __attribute__((constructor(103), used)) void leak_prepare(void)
{
    if (setting_number(SETTING_LEAKS) != LEAK_NO)
        exit_prepare();
}

/* Behind the destructors of the program and of libstook-malloc.so. */
static FIRST_TEXT __attribute__((destructor(101), used)) void leak_end(void)
{
    unsigned format;
    int fd;
    bool ours;

    if (setting_number(SETTING_LEAKS) == LEAK_NO || (fd = exit_output(&format, &ours)) < 0)
        return;
    if (setting_number(SETTING_LEAKS) == LEAK_ALL)
        format |= STOOK_REPORT_ALL;
    if (stook_leaks(fd, format) < 0)
        report_warn("leaks could not be searched for (%s)", strerror(errno));
    exit_output_end(fd, ours);
}
