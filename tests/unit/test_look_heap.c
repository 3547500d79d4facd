/* SPDX-License-Identifier: MIT */
/* needs: tool native preload */
/* link: look */
/*
 * Single objects, as tools/look/ sees them from outside: this process looks into itself.  Which are in use and where the free
 * ones are, whose an address is, who allocated an object, and where.
 */
#define STOOK_SITES
#include "look/heap.h"
#include "kmalloc/kmalloc.h"
#include "sample/shadow.h"
#include "sample/sites.h"
#include "support/environment.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>
#include <stook/stat.h>

#include <sys/mman.h>

enum { OBJECTS = 5000, FREED = 3000 };

static struct heap *heap;
static struct target_error said;

static int setup(void **state)
{
    heap = heap_open(target_open_pid((int)getpid(), &said), &said);
    if (!heap)
        fail_msg("%s", said.text);
    return 0;
}

static int teardown(void **state)
{
    heap_close(heap);
    return 0;
}

static void look(void)
{
    if (!heap_read(heap, &said))
        fail_msg("%s", said.text);
    assert_int_equal(heap->torn, 0);
}

static struct heap_what what_is(const void *address)
{
    struct heap_what what;

    heap_whatis(heap, (uint64_t)(uintptr_t)address, &what);
    return what;
}

/* ---- objects of a cache, with links outside, in free objects, and behind a lead ---------------- */

struct live {
    uint64_t object[OBJECTS];
    size_t n;
};

static bool take_live(uint64_t address, uint64_t bytes, const struct heap_slab *slab,
                      uint32_t index, void *arg)
{
    struct live *live = arg;

    assert_true(bytes > 0 && live->n < OBJECTS);
    live->object[live->n++] = address;
    return true;
}

static bool is_among(const struct live *live, const void *object)
{
    for (size_t i = 0; i < live->n; i++)
        if (live->object[i] == (uint64_t)(uintptr_t)object)
            return true;
    return false;
}

static void check_cache(struct stook_cache *cache, size_t size)
{
    static void *object[OBJECTS];
    static struct live live;
    const struct heap_cache *seen;
    struct heap_what what;

    for (int i = 0; i < OBJECTS; i++)
        assert_non_null(object[i] = stook_alloc(cache, 0));
    for (int i = 0; i < FREED; i++)
        stook_free(cache, object[i]);
    look();
    seen = heap_cache_named(heap, stook_cache_name(cache));
    assert_non_null(seen);
    assert_int_equal(seen->count.active, OBJECTS - FREED);
    live.n = 0;
    assert_true(heap_each_live(heap, seen, take_live, &live));
    assert_int_equal(live.n, OBJECTS - FREED);
    for (int i = 0; i < OBJECTS; i += 7)
        assert_int_equal(is_among(&live, object[i]), i >= FREED);
    for (int i = 0; i < OBJECTS; i += 11) {
        what = what_is((char *)object[i] + size - 1);
        if (i < FREED && what.kind == HEAP_NOTHING) /* its slab was given back */
            continue;
        assert_int_equal(what.kind, HEAP_OBJECT);
        assert_ptr_equal(what.cache, seen);
        assert_int_equal(what.start, (uintptr_t)object[i]);
        assert_int_equal(what.bytes, size);
        assert_int_equal(what.state == HEAP_LIVE, i >= FREED);
    }
    for (int i = FREED; i < OBJECTS; i++)
        stook_free(cache, object[i]);
    look();
    assert_int_equal(heap_cache_named(heap, stook_cache_name(cache))->count.active, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(test_states)
{
    struct stook_cache_args args = {.size = sizeof(args)};

    check_cache(stook_cache_create("outside", 200, NULL), 200);
    args.flags = STOOK_CACHE_LINK_INSIDE;
    check_cache(stook_cache_create("inside", 40, &args), 40);
    args.flags = STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_RED_ZONE;
    check_cache(stook_cache_create("lead", 100, &args), 100);
}

/* Those that were freed last are in a sheaf of this CPU; of a cache with small sheaves others are in barns and slabs. */
TEST(test_places_of_free_objects)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = 14};
    struct stook_cache *cache = stook_cache_create("places", 256, &args);
    static void *object[OBJECTS];
    unsigned seen[HEAP_UNKNOWN + 1] = {0};

    for (int i = 0; i < OBJECTS; i++)
        object[i] = stook_alloc(cache, 0);
    for (int i = 0; i < OBJECTS; i += 2)
        stook_free(cache, object[i]);
    look();
    for (int i = 0; i < OBJECTS; i++)
        seen[what_is(object[i]).state]++;
    assert_int_equal(seen[HEAP_LIVE], OBJECTS / 2);
    assert_true(seen[HEAP_IN_CPU] > 0 && seen[HEAP_FREE] > OBJECTS / 4);
    assert_int_equal(seen[HEAP_UNKNOWN], 0);
    assert_int_equal(seen[HEAP_IN_CPU] + seen[HEAP_IN_BARN],
                     heap_cache_named(heap, "places")->count.in_sheaves);
    for (int i = 1; i < OBJECTS; i += 2)
        stook_free(cache, object[i]);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- large objects ------------------------------------------------------------------------------ */

TEST(test_large_objects)
{
    static const size_t sizes[] = {40 << 10, 300 << 10, 1 << 20, 5 << 20, 64 << 20};
    void *object[5];
    uint64_t before;

    look();
    before = heap->larges;
    for (int i = 0; i < 5; i++)
        object[i] = stook_kmalloc(sizes[i], 0);
    look();
    assert_int_equal(heap->larges, before + 5);
    assert_int_equal(heap->larges, heap->large_objects);
    for (int i = 0; i < 5; i++) {
        struct heap_what what = what_is((char *)object[i] + sizes[i] - 1);
        assert_int_equal(what.kind, HEAP_LARGE);
        assert_int_equal(what.start, (uintptr_t)object[i]);
        assert_true(what.bytes >= sizes[i]);
        stook_free_any(object[i]);
    }
    look();
    assert_int_equal(heap->larges, before);
    assert_int_not_equal(what_is(object[3]).kind, HEAP_LARGE);
}

/* ---- addresses that are none -------------------------------------------------------------------- */

TEST(test_other_addresses)
{
    int local = 0;

    look();
    assert_int_equal(what_is(&local).kind, HEAP_ELSEWHERE);
    assert_int_equal(what_is(NULL).kind, HEAP_ELSEWHERE);
    assert_int_equal(what_is((void *)UINTPTR_MAX).kind, HEAP_ELSEWHERE);
    assert_int_equal(what_is((void *)(uintptr_t)(heap->end - 1)).kind, HEAP_NOTHING);
}

/* ---- who allocated it --------------------------------------------------------------------------- */

TEST(test_tracks)
{
    struct stook_cache_args args = {.size = sizeof(args),
                                    .flags = STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_USER};
    struct stook_cache *cache = stook_cache_create("tracked", 100, &args);
    void *live = stook_alloc(cache, 0), *gone = stook_alloc(cache, 0);
    struct heap_what what;

    stook_free(cache, gone);
    look();
    what = what_is(live);
    assert_true(what.who[0].known && !what.who[1].known && what.who[0].depth > 1);
    assert_int_equal(what.who[0].thread, gettid());
    what = what_is(gone);
    assert_true(what.who[0].known && what.who[1].known && what.state != HEAP_LIVE);
    assert_true(what.who[1].time >= what.who[0].time);
    stook_free(cache, live);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(test_sites_and_groups)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_group group = stook_group_create("tenants", STOOK_NO_GROUP, 1 << 20), before;
    struct stook_cache *cache;
    struct heap_what what;
    struct heap_site site;
    void *object;
    int line;

    cache = stook_cache_create("charged", 100, &args);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    before = stook_group_enter(group);
    line = __LINE__ + 1;
    object = stook_alloc(cache, 0);
    stook_group_leave(before);
    look();
    what = what_is(object);
    assert_true(what.tag != 0 && heap_site(heap, what.tag, &site));
    assert_int_equal(site.line, line);
    assert_non_null(strstr(site.file, "test_look_heap.c"));
    assert_string_equal(site.function, __func__);
    assert_int_equal(heap->groups, 1);
    assert_string_equal(heap->group[0].name, "tenants");
    assert_int_equal(what.group, heap->group[0].number);
    assert_int_equal(heap->group[0].limit, 1 << 20);
    assert_true(heap->group[0].usage >= 100);
    assert_false(heap_site(heap, 60000, &site));
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- samples ---------------------------------------------------------------------------------- */

struct sampled {
    uint64_t sites, objects, bytes;
};

static void add_sampled(const struct heap_tag *tag, void *arg)
{
    struct sampled *sum = arg;
    struct heap_site site;

    if (!(tag->tag & HEAP_SAMPLED))
        return;
    assert_true(heap_site(heap, tag->tag, &site) && site.depth > 0);
    sum->sites++;
    sum->objects += tag->objects;
    sum->bytes += tag->bytes;
}

/* The sums are those of the table, and an object that is a sample has its stack. */
TEST(test_samples)
{
    enum { MANY = 20000 };
    static void *object[MANY];
    struct sampled sum = {0};
    uint64_t stacks = 0, came = 0;

    shadow_begin(8 << 10);
    stook_kmalloc_doors();
    for (int i = 0; i < MANY; i++)
        object[i] = stook_kmalloc(60, 0);
    shadow_begin(0);
    stook_kmalloc_doors();
    look();
    assert_true(heap_each_tag(heap, add_sampled, &sum));
    for (uint32_t i = 0; i < SITES_MOST; i++)
        if (sites_at(i))
            came += atomic_load(&sites_at(i)->came_bytes) - atomic_load(&sites_at(i)->went_bytes);
    assert_int_equal(sum.bytes, came);
    assert_true(sum.sites > 0 && sum.objects > MANY / 2 && sum.objects < 2 * MANY);
    assert_int_equal(heap_cache_named(heap, "kmalloc-64")->count.active, MANY);
    assert_true(heap_cache_named(heap, "sampled-64")->internal);
    assert_int_equal(heap_cache_named(heap, "sampled-64")->count.active, 0);
    for (int i = 0; i < MANY; i++) {
        struct heap_what what;
        if (strncmp(stook_cache_name(stook_cache_of(object[i])), "sampled-", 8) != 0)
            continue;
        what = what_is(object[i]);
        stacks++;
        assert_string_equal(what.cache->name, "kmalloc-64");
        assert_true(what.who[0].known && what.who[0].depth > 0 && what.who[0].born > 0);
        assert_true(what.who[0].time == 0 && what.who[0].cpu == HEAP_NO_CPU);
        assert_int_equal(what.who[0].thread, gettid());
    }
    assert_true(stacks > 0);
    for (int i = 0; i < MANY; i++)
        stook_free_any(object[i]);
    sum = (struct sampled){0};
    look();
    (void)heap_each_tag(heap, add_sampled, &sum);
    assert_int_equal(sum.bytes + sum.objects, 0);
}

/* ---- objects that a quarantine holds have no user --------------------------------------------- */

TEST(test_quarantine)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_QUARANTINE};
    struct stook_cache *cache = stook_cache_create("held", 100, &args);
    void *live = stook_alloc(cache, 0), *held = stook_alloc(cache, 0);
    static struct live all;

    stook_free(cache, held);
    look();
    assert_int_equal(what_is(live).state, HEAP_LIVE);
    assert_int_equal(what_is(held).state, HEAP_HELD);
    all.n = 0;
    heap_each_live(heap, heap_cache_named(heap, "held"), take_live, &all);
    assert_int_equal(all.n, 1);
    stook_free(cache, live);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- what was read stays as it was until the next snapshot ---------------------------------------- */

TEST(test_snapshots_stay)
{
    struct target *target = target_open_pid((int)getpid(), &said);
    static volatile uint64_t word = 1;
    uint64_t seen = 0;
    char byte;

    assert_non_null(target);
    assert_true(target_take(target, (uintptr_t)&word, &seen) && seen == 1);
    word = 2;
    assert_true(target_take(target, (uintptr_t)&word, &seen) && seen == 1);
    assert_true(target_read_now(target, (uintptr_t)&word, &seen, sizeof(seen), sizeof(seen)) &&
                seen == 2);
    target_renew(target);
    assert_true(target_take(target, (uintptr_t)&word, &seen) && seen == 2);
    assert_false(target_take(target, 0, &byte));
    assert_false(target_take(target, UINT64_MAX, &byte));
    assert_false(target_take(target, UINT64_MAX - 2, &seen));
    target_close(target);
}

/* ---- what a target may cost ---------------------------------------------------------------------- */

TEST(test_budgets)
{
    struct target *target = target_open_pid((int)getpid(), &said);
    static char bytes[1 << 20];
    char byte, few[16];

    assert_non_null(target);
    memset(bytes, 1, sizeof(bytes));
    assert_true(target_take_some(target, (uintptr_t)bytes, few, sizeof(few)));
    assert_false(target_take_some(target, (uintptr_t)bytes, few, sizeof(few) + 1));
    assert_false(target_read_now(target, (uintptr_t)bytes, few, sizeof(few), sizeof(few) + 1));
    target->budget = sizeof(bytes) / 2; /* of memory */
    target_expect(target, (uintptr_t)bytes, sizeof(bytes));
    assert_false(target_take(target, (uintptr_t)bytes + sizeof(bytes) - 1, &byte));
    assert_true(target->over);
    target_allow(target, 1);
    target_renew(target);
    assert_true(target_take(target, (uintptr_t)bytes, &byte) && byte == 1);
    assert_true(target_spend(target, target->budget - target->spent));
    assert_false(target_spend(target, 1) || target_take(target, (uintptr_t)bytes, &byte));
    target_allow(target, 0); /* of time, which is looked at after some reads */
    target_renew(target);
    for (unsigned i = 0; i < 10000 && target_take(target, (uintptr_t)bytes, &byte); i++)
        ;
    assert_true(target->over);
    target_close(target);
}

/* Words of a page that was never touched are zeros, for which nothing is read; a file's page is read. */
TEST(test_untouched_pages)
{
    enum { PAGES = 64 };
    struct target *target = target_open_pid((int)getpid(), &said);
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, PAGES * (size_t)page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t word;
    bool there[PAGES * 16];
    size_t n = PAGES * (size_t)page / TARGET_PAGE;

    assert_non_null(target);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memory[5 * page] = 7;
    target_renew(target);
    target->read_bytes = 0;
    target_expect(target, (uintptr_t)memory, PAGES * (size_t)page);
    assert_true(target_take(target, (uintptr_t)memory, &word) && word == 0);
    assert_true(target_take(target, (uintptr_t)memory + 5 * page, &word) && word == 7);
    assert_int_equal(target->read_bytes, page);
    target_there(target, (uintptr_t)memory, there, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(there[i], i * TARGET_PAGE / page == 5);
    assert_int_equal(munmap(memory, PAGES * (size_t)page), 0);
    target_renew(target);
    assert_false(target_take(target, (uintptr_t)memory, &word));
    target_close(target);
}

/* Programs and core files are mapped, and their owner may cut them while they are read. */
TEST(test_files_that_are_cut)
{
    struct target *target = target_open_pid((int)getpid(), &said);
    long page = sysconf(_SC_PAGESIZE);
    int file = memfd_create("cut", MFD_CLOEXEC);
    volatile char *bytes;

    assert_non_null(target);
    assert_int_equal(ftruncate(file, 2 * page), 0);
    bytes = mmap(NULL, 2 * (size_t)page, PROT_READ, MAP_PRIVATE, file, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(bytes[page + 5], 0);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(munmap((void *)(uintptr_t)bytes, 2 * (size_t)page), 0);
    close(file);
    target_close(target);
}

int main(int argc, char **argv)
{
    environment_need("STOOK_SAMPLE", "0",
                     argv); /* samples of typed caches stay in the table of sites */
    return tests_run(setup, teardown);
}
