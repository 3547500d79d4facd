/* SPDX-License-Identifier: MIT */
/* debug: no */
/*
 * The iterator over random slabs, with random splits between emitting and linking.  Each object comes once, in
 * the right order.  Links decode and end, and only the links of the remaining objects are written to the slab.
 * The test compiles slab.c itself, so that it can make a slab fall back
 * to the minimum order.
 */
#include "slab/runs.h"

static unsigned orders_left = 255; /* memory is short: there is no run of a higher order */
#define runs_take(cache, node, order, ...)                                                         \
    ((order) > orders_left ? NULL : runs_take(cache, node, order, __VA_ARGS__))
#include "slab/slab.c"
#undef runs_take

#include "slab/freelist_iter.h"
#include "support/check.h"
#define random_below random_of_seed
#include "support/random.h"
#include "support/test.h"
#undef random_below

enum { ROUNDS = 400, OBJECTS = STOOK_SLAB_OBJECTS_MAX };

static uint64_t seed = 1;

static void constructor(void *object, void *arg)
{
    memset(object, 0x3c, 8);
}

/* Bytes of a slab, and of its outside links or marks, as they were. */
struct image {
    size_t bytes, links;
    char *pages, *outside;
};

static struct image image_of(const struct stook_cache *cache, const struct slab *slab)
{
    uint64_t word = atomic_load(&slab->state);
    struct image image = {.bytes = (size_t)PAGE_SIZE << slab_order(cache, word)};

    image.links = slab_objects(cache, word) *
                  (cache->layout.link_outside ? sizeof(uint16_t) : cache->layout.marks);
    image.pages = malloc(image.bytes);
    image.outside = malloc(image.links + 1);
    assert_true(image.pages && image.outside);
    memcpy(image.pages, slab_base(slab), image.bytes);
    memcpy(image.outside, slab->links, image.links);
    return image;
}

static void image_check(const struct stook_cache *cache, const struct slab *slab,
                        struct image *image)
{
    assert_memory_equal(slab_base(slab), image->pages, image->bytes);
    if (image->links > 0)
        assert_memory_equal(slab->links, image->outside, image->links);
    free(image->pages);
    free(image->outside);
}

/* The link of an object in the image. */
static uint16_t image_link(const struct stook_cache *cache, const struct image *image,
                           uint32_t index)
{
    const struct layout *l = &cache->layout;
    uint16_t link;

    memcpy(&link,
           l->link_outside ? image->outside + 2 * (size_t)index
                           : image->pages + l->link_offset + (size_t)index * l->link_stride,
           sizeof(link));
    return link;
}

/* What has come, in order. */
static uint16_t came[OBJECTS];
static bool seen[OBJECTS];

static void check_order(const struct stook_cache *cache, uint32_t objects)
{
    uint32_t positions = cache->layout.objects, at = 0;

    if (!cache->permutation) {
        for (uint32_t i = 0; i < objects; i++)
            assert_int_equal(came[i], i);
        return;
    }
    /* Once around the permutation, from where the first is. */
    while (cache->permutation[at] != came[0])
        at++;
    for (uint32_t i = 0, steps = 0; i < objects; at = (at + 1) % positions, steps++) {
        assert_true(steps < positions);
        if (cache->permutation[at] < objects)
            assert_int_equal(came[i++], cache->permutation[at]);
    }
}

static void mark(uint32_t n, uint32_t index, uint32_t objects)
{
    assert_true(index < objects && n < objects);
    assert_false(seen[index]);
    seen[index] = true;
    came[n] = (uint16_t)index;
}

/* One slab, emitted in parts up to `split` and linked from there on. */
static void walk(struct stook_cache *cache, bool least, bool all)
{
    static void *array[OBJECTS + 8];
    const struct layout *l = &cache->layout;
    struct freelist_iter iter;
    struct image image;
    struct slab *slab;
    uint32_t objects, split, n = 0, head;
    uint64_t links = slab_counts.links, starts = 1;

    cache->start = &starts;
    orders_left = least ? l->min_order : 255;
    slab = slab_make(cache, 0, false);
    orders_left = 255;
    assert_non_null(slab);
    least = least && l->min_order < l->order;
    assert_int_equal(slab_flags(atomic_load(&slab->state)), least ? SLAB_MIN : 0);
    assert_int_equal(starts, least ? 0 : 1); /* malloc's test of addresses counts on one order */
    cache->start = NULL;
    objects = least ? l->min_objects : l->objects;
    split = all ? objects : random_of_seed(&seed, objects + 1);
    if (!cache->ctor)
        memset(slab_base(slab), 0x6b, (size_t)PAGE_SIZE << (least ? l->min_order : l->order));
    memset(seen, 0, sizeof(seen[0]) * objects);
    image = image_of(cache, slab);

    iter = freelist_iter_begin(cache, slab);
    assert_int_equal(iter.left, objects);
    while (n < split) {
        uint32_t want = random_of_seed(&seed, split - n + 1), got;
        array[want] = &seed; /* not written to */
        got = freelist_iter_emit(&iter, cache, slab, array, want);
        assert_int_equal(got, want);
        assert_ptr_equal(array[want], &seed);
        for (uint32_t i = 0; i < got; i++) {
            size_t offset = (size_t)((char *)array[i] - slab_base(slab));
            assert_int_equal(offset % l->stride, 0);
            mark(n++, (uint32_t)(offset / l->stride), objects);
        }
        assert_int_equal(iter.left, objects - n);
    }
    assert_int_equal(slab_counts.links, links);

    head = freelist_iter_link(&iter, cache, slab);
    assert_int_equal(iter.left, 0);
    assert_int_equal(slab_counts.links - links, objects - split);
    assert_int_equal(freelist_iter_emit(&iter, cache, slab, array, 8), 0);
    assert_int_equal(freelist_iter_link(&iter, cache, slab), SLAB_NONE);
    for (; head != SLAB_NONE; head = check_next(cache, slab, head, objects))
        mark(n++, head, objects);
    assert_int_equal(n, objects);
    check_order(cache, objects);

    for (uint32_t i = 0; i < objects; i++) { /* nothing but links and marks was written */
        uint16_t *link = slab_link(cache, slab, came[i]);
        size_t inside = (size_t)((char *)link - slab_base(slab));
        if (cache->ctor && !l->link_outside)
            assert_true(inside % l->stride >= cache->object_size);
        if (STOOK_ENCODED)
            assert_true(mark_is_out(cache, slab, came[i]) == (i < split));
        if (l->marks)
            mark_bytes(slab)[came[i]] = (uint8_t)image.outside[came[i]];
        if (i >= split || (STOOK_ENCODED && !l->marks))
            *link = image_link(cache, &image, came[i]);
    }
    image_check(cache, slab, &image);
    atomic_store(&slab->state, slab_word(SLAB_NONE, 0, 0, least ? SLAB_MIN : 0));
    slab_unmake(cache, slab);
}

static struct stook_cache *make(size_t size, unsigned flags, bool constructed)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags | STOOK_CACHE_NOSHEAF};
    struct stook_cache *cache;

    if (constructed) {
        args.ctor = constructor;
        args.flags &= ~STOOK_CACHE_LINK_INSIDE;
    }
    cache = stook_cache_create("walk", size, &args);
    assert_non_null(cache);
    assert_true((cache->permutation != NULL) == ((flags & STOOK_CACHE_RANDOM) != 0));
    return cache;
}

TEST(every_walk)
{
    static const size_t sizes[] = {8,   10,  14,  16,   24,   40,   48,    64,
                                   100, 256, 700, 1024, 3000, 9000, 65536, BLOCK_SIZE};
    unsigned fallen = 0, inside = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = round % 2 ? sizes[random_of_seed(&seed, sizeof(sizes) / sizeof(sizes[0]))]
                                : 8 + random_of_seed(&seed, 2000);
        unsigned where =
            random_of_seed(&seed, 3) * STOOK_CACHE_LINK_INSIDE; /* 0, inside, outside */
        bool least = random_of_seed(&seed, 2), constructed = random_of_seed(&seed, 4) == 0;
        struct stook_cache *cache =
            make(size, where | (random_of_seed(&seed, 2) ? STOOK_CACHE_RANDOM : 0), constructed);
        for (unsigned i = 0; i < 3; i++)
            walk(cache, least, i == 0);
        fallen += least && cache->layout.min_order < cache->layout.order;
        inside += !cache->layout.link_outside;
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    check_all(NULL, 0);
    assert_true(fallen > 50 && inside > 50); /* it met what it is there for */
}

/* node_take() from slabs that fell back, together with others: no object twice. */
TEST(slabs_of_both_orders)
{
    enum { MOST = 6000 };
    static struct check_object list[MOST];
    static void *objects[MOST];

    for (unsigned flags = 0; flags <= STOOK_CACHE_RANDOM; flags += STOOK_CACHE_RANDOM) {
        struct stook_cache *cache = make(100, flags, false);
        uint32_t n = 0;
        while (n + cache->layout.objects < MOST) {
            uint32_t want = 1 + random_of_seed(&seed, cache->layout.objects);
            orders_left = random_of_seed(&seed, 2) ? 0 : 255;
            assert_int_equal(stook_alloc_bulk(cache, 0, want, objects + n), 0);
            n += want;
        }
        orders_left = 255;
        for (uint32_t i = 0; i < n; i++)
            list[i] = (struct check_object){cache, objects[i]};
        check_all(list, n);
        stook_free_bulk(cache, n, objects);
        check_all(NULL, 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* Slabs begin at different places, caches have different permutations. */
TEST(orders_differ)
{
    enum { SLABS = 64 };
    struct stook_cache *one = make(256, STOOK_CACHE_RANDOM, false);
    struct stook_cache *two = make(256, STOOK_CACHE_RANDOM, false);
    unsigned starts = 0, moved = 0, objects = one->layout.objects;
    struct slab *slab = slab_make(one, 0, false);

    assert_true(objects >= 64);
    memset(seen, 0, sizeof(seen));
    for (unsigned i = 0; i < SLABS; i++) {
        struct freelist_iter iter = freelist_iter_begin(one, slab);
        uint32_t first = freelist_iter_next(&iter);
        starts += !seen[first];
        seen[first] = true;
    }
    /* Of 64 draws from 64 or more fewer than 16 different ones come up once in 10^17 tries. */
    assert_true(starts >= 16);
    for (unsigned i = 0; i < objects; i++)
        moved += one->permutation[i] != two->permutation[i];
    assert_true(moved > objects / 2); /* all but one, on average */
    moved = 0;
    for (unsigned i = 0; i < objects; i++)
        moved += one->permutation[i] != i;
    assert_true(moved > objects / 2);
    atomic_store(&slab->state, slab_word(SLAB_NONE, 0, 0, 0));
    slab_unmake(one, slab);
    assert_int_equal(stook_cache_destroy(one), 0);
    assert_int_equal(stook_cache_destroy(two), 0);
}

static const char *program;

static int with_random(void *value)
{
    if (value)
        setenv("STOOK_HARDEN", value, 1);
    else
        unsetenv("STOOK_HARDEN");
    execl("/proc/self/exe", program, "--is-random", (char *)NULL);
    return 99;
}

/* The rerun program: 0 when caches that did not ask are in random order, 1 when they are not. */
static int is_random(void)
{
    struct stook_cache *plain = stook_cache_create("plain", 256, NULL);
    struct stook_cache *other = stook_cache_create("other", 100, NULL);
    void *objects[64];
    unsigned behind = 0;

    if (!plain || !other || stook_alloc_bulk(plain, 0, 64, objects) != 0)
        return 2;
    for (unsigned i = 1; i < 64; i++)
        behind += (char *)objects[i] == (char *)objects[i - 1] + plain->layout.stride;
    if ((plain->permutation == NULL) != (other->permutation == NULL) ||
        (plain->permutation == NULL) != (behind == 63))
        return 3; /* neither */
    return plain->permutation == NULL;
}

TEST(environment_sets_it)
{
    static const struct {
        char value[8];
        int status;
    } cases[] = {{"order", 0}, {"types", 1}, {"", 1}};
    struct child child;

    if (getenv("STOOK_EMULATED"))
        skip();
#ifdef STOOK_CORE
    skip(); /* it hardens no cache by itself */
#endif
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char value[8];
        memcpy(value, cases[i].value, sizeof(value));
        child_run(&child, with_random, value[0] ? value : NULL);
        assert_int_equal(child.status, cases[i].status << 8);
    }
}

/*
 * A handler that interrupted the library with the node's lock held needs a start too: it comes
 * without a lock or a system call, wherever it is.
 */
TEST(start_in_a_handler)
{
    struct stook_cache *cache = make(256, STOOK_CACHE_RANDOM, false);
    struct node *node = &cache->nodes[0].node;
    void *objects[40];
    uint32_t first[40], different = 0;

    for (unsigned i = 0; i < 40; i++) {
        struct slab *slab;
        assert_false(context_enter());
        lock_take(&node->lock, LOCK_NODE);
        assert_true(context_enter());
        /* One of a new slab each time: those there are lie behind the lock. */
        objects[i] = stook_alloc(cache, STOOK_SIGNAL_SAFE);
        context_leave();
        lock_drop(&node->lock, LOCK_NODE);
        context_leave();
        assert_non_null(objects[i]);
        slab = slab_of(cache, objects[i], &first[i]);
        assert_int_equal(slab_inuse(atomic_load(&slab->state)), 1);
        different += i > 0 && first[i] != first[0];
    }
    assert_true(different > 0);
    stook_free_bulk(cache, 40, objects);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

int main(int count, char **arguments)
{
    program = arguments[0];
    if (count > 1 && strcmp(arguments[1], "--is-random") == 0)
        return is_random();
    return tests_run(NULL, NULL);
}
