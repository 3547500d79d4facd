/* SPDX-License-Identifier: MIT */
/*
 * A hostile process, as the readers of other processes see it: this process with its Stook, except the places that the
 * input overwrites.  An input is a list of steps: the first moves to an entry of the description or to a variable,
 * along a pointer, or on; others write there.  Then all is read that stook list, caches, stat, walk, whatis, leaks, report
 * and export read.
 */
#include "support/fuzz.h"

#include "export/fleet.h"
#include "look/holes.h"
#include "look/leaks.h"
#include "view/view.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>
#include <stook/stat.h>

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

FUZZ_SETTINGS({"STOOK_TAGS", "1"}, {"STOOK_STATS", "1"}, {"STOOK_SAMPLE", "4096"})

enum { VIEW_PATCHES = 256, VIEW_SLABS = 32, VIEW_BUDGET = 16 << 20 };

extern const char __ehdr_start[];
extern const struct view_note view_note __attribute__((visibility("hidden")));
extern const struct view_name view_names[] __attribute__((visibility("hidden")));
extern const struct view_variable view_variables[] __attribute__((visibility("hidden")));

static struct {
    uint64_t address, value;
    unsigned size;
} patch[VIEW_PATCHES];
static unsigned patches;
static uint64_t roots[64];

/* ---- the target ------------------------------------------------------------------------------- */

static size_t view_peek(struct target *target, uint64_t address, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)address, n};
    ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

    (void)target;
    for (unsigned i = 0; i < patches && got > 0; i++)
        for (unsigned j = 0; j < patch[i].size; j++)
            if (patch[i].address + j - address < (uint64_t)got)
                ((char *)to)[patch[i].address + j - address] = (char)(patch[i].value >> 8 * j);
    return got > 0 ? (size_t)got : 0;
}

static void view_pages(struct target *target, const uint64_t *pages, char *const *to, bool *got,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        got[i] = view_peek(target, pages[i], to[i], TARGET_PAGE) == TARGET_PAGE;
}

static void view_all_there(struct target *target, const uint64_t *pages, bool *there, size_t n)
{
    (void)target;
    (void)pages;
    memset(there, 1, n);
}

static bool view_mappings(struct target *target,
                          bool (*fn)(const struct target_mapping *mapping, void *arg), void *arg,
                          bool resident)
{
    const struct target_mapping program = {.begin = (uintptr_t)__ehdr_start,
                                           .end = (uintptr_t)__ehdr_start + TARGET_PAGE,
                                           .read = true,
                                           .execute = true,
                                           .inode = 1,
                                           .path = "/program"};
    const struct target_mapping data = {.begin = (uintptr_t)roots,
                                        .end = (uintptr_t)(roots + 64),
                                        .read = true,
                                        .write = true,
                                        .path = ""};

    (void)target;
    (void)resident;
    return fn(&program, arg) && fn(&data, arg);
}

static bool view_alive(struct target *target)
{
    (void)target;
    return true;
}

static void view_close(struct target *target)
{
    (void)target;
}

static const struct target_ops view_ops = {.read = view_peek,
                                           .read_pages = view_pages,
                                           .there = view_all_there,
                                           .mappings = view_mappings,
                                           .alive = view_alive,
                                           .close = view_close};

/* ---- the input -------------------------------------------------------------------------------- */

/* Some of all that a program may have, once. */
static void view_begin(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *small, *large;
    struct stook_group group;

    if (roots[0])
        return;
    small = stook_cache_create("small", 40, &args);
    large = stook_cache_create("large", 3000, NULL);
    group = stook_group_create("group", STOOK_NO_GROUP, 1 << 20);
    FUZZ_CHECK(small && large);
    group = stook_group_enter(group);
    for (unsigned i = 0; i < 600; i++) {
        void *object = stook_alloc(i % 3 ? small : large, STOOK_ZERO);
        FUZZ_CHECK(object);
        roots[i % 32] = (uintptr_t)object;
        if (i % 4 == 0)
            stook_free(i % 3 ? small : large, object);
    }
    (void)stook_group_leave(group);
    for (unsigned i = 0; i < 6; i++)
        roots[32 + i] = (uintptr_t)stook_kmalloc((size_t)300 << 2 * i, 0);
}

static void view_write(uint64_t at, uint64_t value, unsigned size)
{
    if (patches < VIEW_PATCHES) {
        patch[patches].address = at;
        patch[patches].value = value;
        patch[patches++].size = size;
    }
}

static void view_steps(struct fuzz_bytes *input)
{
    uint64_t at = (uintptr_t)&view_note, word = 0;

    patches = 0;
    while (input->at < input->end) {
        unsigned step = fuzz_byte(input);
        switch (step % 8) {
        case 0: /* an entry's value, and perhaps its size */
            at = (uintptr_t)&view_names[fuzz_number(input) % view_note.names].value;
            view_write(at, fuzz_number(input), 4);
            if (step & 8)
                view_write(at + 4, fuzz_number(input), 4);
            break;
        case 1:
            at = (uintptr_t)&view_variables[fuzz_number(input) % view_note.variables];
            if (!(step & 8))
                at += (uint64_t)((const struct view_variable *)(uintptr_t)at)->place;
            break;
        case 2:
            at += fuzz_number(input);
            break;
        case 3:
            if (view_peek(NULL, at, &word, sizeof(word)) == sizeof(word))
                at = word;
            break;
        case 4: /* a pointer to itself, or to somewhere near */
            view_write(at, at + fuzz_number(input), 8);
            break;
        default:
            view_write(at, fuzz_number(input), 1u << step / 8 % 4);
        }
    }
}

/* ---- what readers do -------------------------------------------------------------------------- */

static void view_tag(const struct heap_tag *tag, void *arg)
{
    struct heap_site site;

    if (heap_site(arg, tag->tag, &site))
        FUZZ_CHECK(site.depth <= sizeof(site.frames) / sizeof(site.frames[0]));
}

static void view_block(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg)
{
    const struct heap *heap = arg;

    FUZZ_CHECK(address >= heap->base && address < heap->end);
    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++)
        FUZZ_CHECK(page[i] < HEAP_PAGES);
}

static void view_whatis(struct heap *heap, uint64_t address)
{
    struct heap_what what;
    struct heap_site site;

    heap_whatis(heap, address, &what);
    for (unsigned i = 0; i < 2; i++)
        FUZZ_CHECK(what.who[i].depth <= sizeof(what.who[i].frames) / sizeof(what.who[i].frames[0]));
    if (what.tag)
        (void)heap_site(heap, what.tag, &site);
}

static void view_caches(struct heap *heap)
{
    static uint8_t state[HEAP_OBJECTS];
    unsigned slabs = 0;

    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_cache *cache = &heap->cache[i];
        FUZZ_CHECK(memchr(cache->name, '\0', sizeof(cache->name)) && cache->stride > 0);
        for (unsigned cpu = 0; cpu < heap->cpus && cpu < 4; cpu++)
            (void)heap_cpu(heap, cache, cpu);
        for (unsigned event = 0; event < heap->view.stats && event < 4; event++)
            (void)heap_stat_sum(heap, cache, event);
    }
    for (size_t i = 0; i < heap->slabs && slabs++ < VIEW_SLABS; i++) {
        const struct heap_slab *slab = &heap->slab[i];
        struct heap_what what;
        FUZZ_CHECK(slab->objects < HEAP_OBJECTS && slab->node < heap->nodes &&
                   slab->inuse <= slab->objects && heap_cache_at(heap, slab->cache));
        (void)heap_states(heap, slab, state);
        heap_describe(heap, slab, 0, 0, &what);
    }
    for (size_t i = 0; i < heap->groups; i++)
        FUZZ_CHECK(memchr(heap->group[i].name, '\0', sizeof(heap->group[i].name)));
}

static void view_registers(void *context, void (*fn)(const uint64_t *words, size_t n, void *arg),
                           void *arg)
{
    (void)context;
    fn(roots, sizeof(roots) / sizeof(roots[0]), arg);
}

static void view_look(struct heap *heap, FILE *to)
{
    struct target_error error;
    struct leaks leaks;
    struct holes holes;

    if (!heap_read(heap, &error)) {
        FUZZ_CHECK(patches > 0);
        return;
    }
    view_caches(heap);
    for (unsigned i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
        view_whatis(heap, roots[i]);
    (void)heap_each_tag(heap, view_tag, heap);
    heap_each_block(heap, view_block, heap);
    holes_read(&holes, heap);
    holes_free(&holes);
    (void)heap_profile(heap, true, to);
    (void)heap_profile(heap, false, to);
    heap->target->live = true; /* so that no core file is asked for */
    (void)leaks_search(heap, view_registers, NULL, UINT64_MAX, true, &leaks, &error);
    leaks_close(&leaks);
    FUZZ_CHECK(heap->target->spent <= heap->target->budget);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static FILE *to;
    struct fuzz_bytes input = {bytes, bytes + n};
    struct target_error error;
    struct target *target;
    struct heap *heap;

    if (!to)
        to = fopen("/dev/null", "w");
    FUZZ_CHECK(to);
    view_begin();
    view_steps(&input);
    target = target_new(&view_ops, NULL, 0);
    target->pid = (int)getpid();
    target->budget = VIEW_BUDGET;
    target->seconds = 1;
    heap = heap_open(target, &error);
    if (heap)
        view_look(heap, to);
    FUZZ_CHECK(patches > 0 || heap);
    heap_close(heap);
    return 0;
}
