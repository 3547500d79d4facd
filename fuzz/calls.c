/* SPDX-License-Identifier: MIT */
/*
 * Arguments of public calls: any sizes, flags, nodes, names and structures, on the few caches, objects, groups,
 * pools and sheaves that the input made before.  Each call does what its header says or fails with an error that the
 * header lists.  The input makes no errors that callers must not make (wrong frees, wrong lengths).  At the end all
 * objects are freed, and no corruption was reported.
 */
#include "debug/report.h"
#include "support/fuzz.h"

#include <stook/debug.h>
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/kmem.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/topology.h>

#include <fcntl.h>
#include <string.h>
#include <time.h>

FUZZ_SETTINGS({"STOOK_TOPOLOGY", "cpus:0=0-1 cpus:2=2-3,6 memory:0=1G memory:2=1G memory:3=1G"},
              {"STOOK_ARENA", "128M"}, {"STOOK_ON_CORRUPTION", "abort"})

enum {
    CALLS_CACHES = 8,
    CALLS_OBJECTS = 256,
    CALLS_GROUPS = 8,
    CALLS_POOLS = 4,
    CALLS_SHEAVES = 4,
    CALLS_BULK = 64,
    CALLS_STEPS = 400,
    CALLS_KMALLOC = CALLS_CACHES, /* instead of a cache's number */
    CALLS_PATTERN = 0x5c,
};

static struct calls {
    struct fuzz_bytes bytes;
    struct stook_cache *cache[CALLS_CACHES];
    bool built[CALLS_CACHES]; /* with a constructor */
    struct calls_object {
        unsigned char *at;
        unsigned cache; /* or CALLS_KMALLOC */
        int pool;       /* or -1 */
        size_t size;
    } object[CALLS_OBJECTS];
    unsigned objects;
    struct stook_group group[CALLS_GROUPS];
    struct stook_pool *pool[CALLS_POOLS];
    unsigned pool_cache[CALLS_POOLS], pool_out[CALLS_POOLS];
    struct stook_sheaf *sheaf[CALLS_SHEAVES];
    unsigned sheaf_cache[CALLS_SHEAVES];
    struct stook_rcu_head *queue;
    int null;
} calls;

static unsigned calls_below(unsigned end)
{
    return (unsigned)(fuzz_number(&calls.bytes) % end);
}

/* One of the errors; -1 ends the list. */
static bool calls_error(const int *errors)
{
    for (; *errors >= 0; errors++)
        if (errno == *errors)
            return true;
    fprintf(stderr, "fuzz: errno %d\n", errno);
    return false;
}
#define CALLS_ERROR(...) FUZZ_CHECK(calls_error((const int[]){__VA_ARGS__, -1}))

/* ---- an RCU whose grace periods end at once when they are asked for ---------------------------- */

static void calls_rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    head->next = calls.queue;
    calls.queue = head;
}

static void calls_rcu_barrier(void)
{
    while (calls.queue) {
        struct stook_rcu_head *head = calls.queue;
        calls.queue = head->next;
        head->func(head);
    }
}

static void calls_rcu_synchronize(void)
{
}

static int calls_rcu_reading(void)
{
    return 0;
}

/* ---- caches ------------------------------------------------------------------------------------ */

static void calls_ctor(void *object, void *arg)
{
    (void)arg;
    *(unsigned char *)object = CALLS_PATTERN;
}

static void calls_dtor(void *object, void *arg)
{
    (void)arg;
    FUZZ_CHECK(*(unsigned char *)object == CALLS_PATTERN);
}

static void calls_kmem_ctor(void *object)
{
    *(unsigned char *)object = CALLS_PATTERN;
}

/* A place for a new one, or CALLS_CACHES. */
static unsigned calls_room(void)
{
    unsigned i = 0;

    while (i < CALLS_CACHES && calls.cache[i])
        i++;
    return i;
}

static void calls_made(unsigned i, struct stook_cache *cache, size_t size, const char *name,
                       bool built)
{
    calls.cache[i] = cache;
    calls.built[i] = built;
    if (!cache) {
        CALLS_ERROR(EINVAL, E2BIG, ENOMEM, ENOTSUP);
        return;
    }
    FUZZ_CHECK(stook_cache_object_size(cache) == size && size > 0);
    FUZZ_CHECK(size <= STOOK_OBJECT_SIZE_MAX);
    FUZZ_CHECK(strncmp(stook_cache_name(cache), name, strlen(stook_cache_name(cache))) == 0);
}

static void calls_create(void)
{
    unsigned i = calls_room(), how = fuzz_byte(&calls.bytes);
    size_t size = fuzz_number(&calls.bytes), room = sizeof(struct stook_cache_args);
    struct stook_cache_args args = {.size = sizeof(args)}, *given;
    char name[80];

    if (i == CALLS_CACHES)
        return;
    fuzz_word(&calls.bytes, name, sizeof(name));
    args.align = fuzz_number(&calls.bytes);
    args.flags = (unsigned)fuzz_number(&calls.bytes);
    args.sheaf_capacity = how & 1 ? (unsigned)fuzz_number(&calls.bytes) : 0;
    args.cached_bytes_max = how & 2 ? fuzz_number(&calls.bytes) : 0;
    args.ctor = how & 4 ? calls_ctor : NULL;
    args.dtor = (how & 12) == 12 ? calls_dtor : NULL;
    if (how & 16) /* a structure of another version: as long as it says */
        args.size = room = calls_below(2 * sizeof(args)) + sizeof(args.size);
    given = calloc(1, room);
    FUZZ_CHECK(given);
    memcpy(given, &args, room < sizeof(args) ? room : sizeof(args));
    if (room > sizeof(args) && how & 32)
        ((unsigned char *)given)[room - 1] = 1;
    calls_made(i, stook_cache_create(name, size, how & 64 ? NULL : given), size, name,
               !(how & 64) && how & 4 && room >= offsetof(struct stook_cache_args, arg));
    /* None is made of a structure that ends inside a pointer. */
    FUZZ_CHECK(!calls.cache[i] || how & 64 || room % sizeof(args.size) == 0);
    free(given);
}

static void calls_kmem_create(void)
{
    unsigned i = calls_room(), how = fuzz_byte(&calls.bytes);
    size_t size = fuzz_number(&calls.bytes);
    unsigned flags = (unsigned)fuzz_number(&calls.bytes) & ~SLAB_PANIC;
    struct kmem_cache_args args = {.align = (unsigned)fuzz_number(&calls.bytes),
                                   .ctor = how & 1 ? calls_kmem_ctor : NULL,
                                   .sheaf_capacity =
                                       how & 2 ? (unsigned)fuzz_number(&calls.bytes) : 0};

    if (i == CALLS_CACHES)
        return;
    calls_made(i, kmem_stook_cache(kmem_cache_create("kmem", size, how & 4 ? NULL : &args, flags)),
               size, "kmem", (how & 5) == 1);
}

/* A cache that exists, or CALLS_CACHES. */
static unsigned calls_some(void)
{
    unsigned i = fuzz_byte(&calls.bytes) % CALLS_CACHES;

    for (unsigned n = 0; n < CALLS_CACHES; n++, i = (i + 1) % CALLS_CACHES)
        if (calls.cache[i])
            return i;
    return CALLS_CACHES;
}

static bool calls_in_use(unsigned cache)
{
    for (unsigned i = 0; i < calls.objects; i++)
        if (calls.object[i].cache == cache)
            return true;
    for (unsigned i = 0; i < CALLS_POOLS; i++)
        if (calls.pool[i] && calls.pool_cache[i] == cache)
            return true;
    for (unsigned i = 0; i < CALLS_SHEAVES; i++)
        if (calls.sheaf[i] && calls.sheaf_cache[i] == cache)
            return true;
    return false;
}

/* Only those of no objects are destroyed. */
static void calls_destroy(void)
{
    unsigned cache = calls_some();

    if (cache == CALLS_CACHES || calls_in_use(cache))
        return;
    FUZZ_CHECK(stook_cache_destroy(calls.cache[cache]) == 0);
    calls.cache[cache] = NULL;
}

/* ---- objects ----------------------------------------------------------------------------------- */

static void calls_got(void *object, unsigned cache, int pool, size_t size, bool zero)
{
    unsigned char *at = object;
    size_t usable = stook_usable_size(object);

    FUZZ_CHECK(usable >= size && calls.objects < CALLS_OBJECTS);
    FUZZ_CHECK(cache == CALLS_KMALLOC || stook_cache_of(object) == calls.cache[cache]);
    FUZZ_CHECK(stook_node_of(object) >= 0);
    FUZZ_CHECK(!zero || size == 0 || (at[0] == 0 && at[size / 2] == 0 && at[size - 1] == 0));
    if (cache != CALLS_KMALLOC && calls.built[cache])
        FUZZ_CHECK(at[0] == CALLS_PATTERN);
    if (size > 0)
        at[0] = at[size - 1] = CALLS_PATTERN;
    calls.object[calls.objects++] = (struct calls_object){at, cache, pool, size};
}

static struct calls_object calls_lose(void)
{
    unsigned i = calls_below(calls.objects);
    struct calls_object o = calls.object[i];

    FUZZ_CHECK(o.size == 0 || (o.at[0] == CALLS_PATTERN && o.at[o.size - 1] == CALLS_PATTERN));
    calls.object[i] = calls.object[--calls.objects];
    return o;
}

static void calls_alloc(void)
{
    unsigned cache = calls_some(), flags = (unsigned)fuzz_number(&calls.bytes);
    unsigned how = fuzz_byte(&calls.bytes) % 6;
    static struct stook_site site[2] = {{"a.c", "f", 1, 0}, {"a.c", NULL, 2, 0}};
    struct stook_alloc_args args = {.size = sizeof(args)};
    struct stook_cache *of;
    void *object;

    if (cache == CALLS_CACHES || calls.objects == CALLS_OBJECTS)
        return;
    of = calls.cache[cache];
    errno = 0;
    if (how == 0)
        args.node = (int)fuzz_number(&calls.bytes), flags |= STOOK_NODE;
    else if (how == 1)
        args.site = &site[flags % 2];
    else if (how == 2)
        args.group = &calls.group[calls_below(CALLS_GROUPS)];
    object = how < 3    ? stook_alloc_with(of, flags, &args)
             : how == 3 ? kmem_cache_alloc((struct kmem_cache *)(void *)of, flags & ~__GFP_NOFAIL)
             : how == 4
                 ? kmem_cache_alloc_node((struct kmem_cache *)(void *)of, flags & ~__GFP_NOFAIL,
                                         (int)fuzz_number(&calls.bytes))
                 : stook_alloc(of, flags);
    if (how == 3 || how == 4)
        flags = flags & __GFP_ZERO ? STOOK_ZERO : 0;
    if (object)
        calls_got(object, cache, -1, stook_cache_object_size(of), flags & STOOK_ZERO);
    else
        CALLS_ERROR(EINVAL, ENOMEM, EDQUOT);
}

static void calls_kmalloc(void)
{
    size_t size = fuzz_number(&calls.bytes), n;
    unsigned flags = (unsigned)fuzz_number(&calls.bytes), how = fuzz_byte(&calls.bytes) % 4;
    void *object;

    if (calls.objects == CALLS_OBJECTS)
        return;
    if (size > 1 << 20 || how == 1) /* it waits until there is as much */
        flags &= ~STOOK_NOFAIL;
    errno = 0;
    if (how == 0) {
        object =
            stook_kmalloc_with(size, flags,
                               &(struct stook_alloc_args){.size = sizeof(struct stook_alloc_args),
                                                          .node = (int)fuzz_number(&calls.bytes)});
    } else if (how == 1) {
        n = fuzz_number(&calls.bytes);
        object = stook_kmalloc_array(n, size, flags);
        if (__builtin_mul_overflow(n, size, &size))
            FUZZ_CHECK(!object);
    } else {
        object = stook_kmalloc(size, flags);
    }
    if (!object) {
        CALLS_ERROR(EINVAL, ENOMEM, E2BIG, EDQUOT);
    } else if (object == STOOK_KMALLOC_NONE) {
        FUZZ_CHECK(size == 0);
        stook_free_any(object);
    } else {
        FUZZ_CHECK(size > 0 && stook_kmalloc_size(size) >= size);
        calls_got(object, CALLS_KMALLOC, -1, size, flags & STOOK_ZERO);
    }
}

static void calls_krealloc(void)
{
    size_t size = fuzz_number(&calls.bytes);
    unsigned flags = (unsigned)fuzz_number(&calls.bytes);
    struct calls_object o = {NULL, CALLS_KMALLOC, -1, 0};
    unsigned char *object;

    if (calls.objects == 0)
        return;
    if (flags % 8 != 7 && (o = calls_lose()).cache != CALLS_KMALLOC) {
        calls.object[calls.objects++] = o;
        return;
    }
    errno = 0;
    object = stook_krealloc(o.at, size, flags);
    if (!object) {
        CALLS_ERROR(EINVAL, ENOMEM, E2BIG, EDQUOT);
        if (o.at)
            calls.object[calls.objects++] = o;
    } else if (object == STOOK_KMALLOC_NONE) {
        FUZZ_CHECK(size == 0);
    } else if (calls.objects < CALLS_OBJECTS) {
        FUZZ_CHECK(o.size == 0 || object[0] == CALLS_PATTERN);
        calls_got(object, CALLS_KMALLOC, -1, size, false);
    } else {
        stook_free_any(object);
    }
}

static void calls_give(const struct calls_object *o, unsigned how)
{
    errno = 4711;
    if (o->pool >= 0) {
        calls.pool_out[o->pool]--;
        stook_pool_free(calls.pool[o->pool], o->at);
    } else if (how == 0 && o->cache != CALLS_KMALLOC) {
        stook_free_rcu(calls.cache[o->cache], o->at);
    } else if (how == 1) {
        stook_free_any_rcu(o->at);
    } else if (how == 2 && o->cache != CALLS_KMALLOC) {
        stook_free(calls.cache[o->cache], o->at);
    } else {
        stook_free_any(o->at);
    }
    FUZZ_CHECK(errno == 4711);
}

static void calls_free(void)
{
    unsigned how = fuzz_byte(&calls.bytes) % 5;
    struct calls_object o;

    if (calls.objects == 0)
        return;
    o = calls_lose();
    calls_give(&o, how);
}

static void calls_bulk(void)
{
    void *object[CALLS_BULK];
    unsigned cache = calls_some(), flags = (unsigned)fuzz_number(&calls.bytes);
    unsigned n = calls_below(CALLS_BULK + 1), how = fuzz_byte(&calls.bytes);
    struct stook_group previous;
    struct stook_cache *of;
    int failed;

    if (cache == CALLS_CACHES)
        return;
    of = calls.cache[cache];
    if (stook_cache_object_size(of) > 65536)
        n %= 8;
    previous = stook_group_enter(how & 1 ? calls.group[how % CALLS_GROUPS] : STOOK_NO_GROUP);
    failed = stook_alloc_bulk(of, flags, n, object);
    stook_group_leave(previous);
    if (failed) {
        CALLS_ERROR(EINVAL, ENOMEM, EDQUOT);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        FUZZ_CHECK(object[i] && stook_cache_of(object[i]) == of);
        if (i % 7 == how % 8) {
            stook_free_any(object[i]);
            object[i] = NULL;
        }
    }
    stook_free_bulk(of, n, object);
}

/* ---- reserves ---------------------------------------------------------------------------------- */

static void calls_pool(void)
{
    unsigned p = fuzz_byte(&calls.bytes) % CALLS_POOLS, how = fuzz_byte(&calls.bytes) % 4;
    unsigned min = (unsigned)fuzz_number(&calls.bytes), flags, cache;
    const struct timespec past = {0, (long)(fuzz_byte(&calls.bytes))};
    void *object;

    if (min > 4096 && min < STOOK_POOL_OBJECTS_MAX)
        min &= 4095;
    if (!calls.pool[p]) {
        cache = calls_some();
        if (cache == CALLS_CACHES)
            return;
        calls.pool[p] = stook_pool_create(calls.cache[cache], min);
        calls.pool_cache[p] = cache;
        calls.pool_out[p] = 0;
        if (!calls.pool[p])
            CALLS_ERROR(E2BIG, ENOMEM, EDQUOT);
        else
            FUZZ_CHECK(stook_pool_available(calls.pool[p]) == min);
    } else if (how == 0) {
        if (stook_pool_resize(calls.pool[p], min) != 0)
            CALLS_ERROR(E2BIG, ENOMEM);
    } else if (how == 1 && calls.pool_out[p] == 0) {
        FUZZ_CHECK(stook_pool_destroy(calls.pool[p]) == 0);
        calls.pool[p] = NULL;
    } else if (calls.objects < CALLS_OBJECTS) {
        flags = (unsigned)fuzz_number(&calls.bytes);
        errno = 0;
        if (how == 2) /* it does not wait */
            object = stook_pool_alloc(calls.pool[p], flags | STOOK_NORECLAIM, NULL);
        else
            object = stook_pool_alloc(calls.pool[p], flags, &past);
        cache = calls.pool_cache[p];
        if (object)
            calls_got(object, cache, (int)p, stook_cache_object_size(calls.cache[cache]),
                      flags & STOOK_ZERO);
        else
            CALLS_ERROR(EINVAL, ENOMEM, EDQUOT, ETIMEDOUT);
        calls.pool_out[p] += object != NULL;
    }
}

static void calls_sheaf(void)
{
    unsigned s = fuzz_byte(&calls.bytes) % CALLS_SHEAVES, how = fuzz_byte(&calls.bytes) % 3;
    unsigned flags = (unsigned)fuzz_number(&calls.bytes);
    unsigned size = (unsigned)fuzz_number(&calls.bytes), cache, had;
    void *object;

    if (size > 4096 && size < 1u << 24)
        size &= 4095;
    errno = 0;
    if (!calls.sheaf[s]) {
        cache = calls_some();
        if (cache == CALLS_CACHES)
            return;
        calls.sheaf[s] = stook_sheaf_prefill(calls.cache[cache], flags, size);
        calls.sheaf_cache[s] = cache;
        if (!calls.sheaf[s])
            CALLS_ERROR(EINVAL, E2BIG, ENOMEM, EDQUOT);
        else
            FUZZ_CHECK(stook_sheaf_size(calls.sheaf[s]) >= size);
        return;
    }
    cache = calls.sheaf_cache[s];
    had = stook_sheaf_size(calls.sheaf[s]);
    if (how == 0) {
        stook_sheaf_return(calls.cache[cache], calls.sheaf[s]);
        calls.sheaf[s] = NULL;
    } else if (how == 1) {
        if (stook_sheaf_refill(calls.cache[cache], flags, &calls.sheaf[s], size) != 0) {
            CALLS_ERROR(EINVAL, E2BIG, ENOMEM, EDQUOT);
            FUZZ_CHECK(stook_sheaf_size(calls.sheaf[s]) == had);
        } else {
            FUZZ_CHECK(stook_sheaf_size(calls.sheaf[s]) >= size);
        }
    } else if (calls.objects < CALLS_OBJECTS) {
        object = stook_sheaf_alloc(calls.cache[cache], flags, calls.sheaf[s]);
        if (object)
            calls_got(object, cache, -1, stook_cache_object_size(calls.cache[cache]),
                      flags & STOOK_ZERO);
        else
            FUZZ_CHECK(had == 0 || errno == EINVAL);
    }
}

/* ---- groups ------------------------------------------------------------------------------------ */

static void calls_soft(struct stook_group group, uint64_t usage, void *arg)
{
    (void)arg;
    FUZZ_CHECK(group.id && usage > 0);
}

static void calls_group(void)
{
    unsigned g = fuzz_byte(&calls.bytes) % CALLS_GROUPS, how = fuzz_byte(&calls.bytes) % 8;
    struct stook_group any = {fuzz_number(&calls.bytes)}, *group = &calls.group[g];
    size_t bytes = fuzz_number(&calls.bytes), room;
    struct stook_group_stat *stat;
    char name[300];

    switch (how) {
    case 0:
        if (group->id)
            break;
        fuzz_word(&calls.bytes, name, sizeof(name));
        *group = stook_group_create(
            name, bytes % 4 ? calls.group[bytes % CALLS_GROUPS] : STOOK_NO_GROUP, bytes);
        if (!group->id)
            CALLS_ERROR(EINVAL, E2BIG, ENFILE, ENOMEM);
        break;
    case 1:
        if (stook_group_destroy(*group) == 0)
            *group = STOOK_NO_GROUP;
        else
            CALLS_ERROR(EBUSY);
        break;
    case 2:
        (void)stook_group_enter(bytes % 2 ? any : *group);
        (void)stook_group_current();
        break;
    case 3:
        if (stook_group_set_limit(bytes % 2 ? any : *group, bytes) != 0)
            CALLS_ERROR(EINVAL);
        break;
    case 4:
        if (stook_group_set_soft_limit(*group, bytes, bytes % 3 ? calls_soft : NULL, NULL) != 0)
            CALLS_ERROR(EINVAL);
        break;
    case 5:
        room = sizeof(stat->size) + bytes % (2 * sizeof(*stat));
        stat = calloc(1, room);
        FUZZ_CHECK(stat);
        stat->size = bytes % 5 ? room : 0;
        if (stook_group_stat(bytes % 2 ? any : *group, stat) != 0)
            CALLS_ERROR(EINVAL);
        free(stat);
        break;
    case 6:
        (void)stook_group_next(any);
        break;
    default:
        if (calls.objects > 0)
            (void)stook_group_of(calls.object[bytes % calls.objects].at);
    }
}

/* ---- inspection -------------------------------------------------------------------------------- */

static int calls_visit(struct stook_cache *cache, void *arg)
{
    (void)arg;
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    return stook_cache_usage(cache, &usage) != 0 || usage.capacity > STOOK_SHEAF_CAPACITY_MAX;
}

static int calls_walk(void *object, void *arg)
{
    unsigned *left = arg;

    FUZZ_CHECK(object);
    return --*left == 0;
}

static void calls_stat(struct stook_cache *cache)
{
    size_t how = fuzz_number(&calls.bytes), room = sizeof(size_t) + how % 1024;
    struct stook_stat *stat = calloc(1, room);
    struct stook_tag_stat tag = {.size = how % 3 ? sizeof(tag) : how};

    FUZZ_CHECK(stat);
    stat->size = how % 5 ? room : 0;
    if (stook_cache_stat(cache, stat) != 0)
        CALLS_ERROR(EINVAL);
    if (tag.size <= sizeof(tag) && stook_tag_stat((unsigned)how, &tag) != 0)
        CALLS_ERROR(EINVAL, ENOENT);
    (void)stook_tag_next((unsigned)how);
    if (stook_cache_stat_enable(cache, (int)(how >> 2) % 5 - 1) != 0)
        CALLS_ERROR(EINVAL, ENOMEM);
    free(stat);
}

static void calls_address(void)
{
    uintptr_t any = fuzz_number(&calls.bytes);
    const char *near;
    struct stook_object_track track = {.size = any % 3 ? sizeof(track) : any % sizeof(track)};

    if (calls.objects > 0 && any % 2) {
        near = (const char *)calls.object[any % calls.objects].at + (any >> 8) % 70000 - 300;
        any = (uintptr_t)near;
    }
    (void)stook_cache_of((const void *)any);
    if (stook_node_of((const void *)any) < 0)
        CALLS_ERROR(EINVAL);
    if (calls.objects > 0) {
        (void)stook_tag_of(calls.object[any % calls.objects].at);
        (void)stook_object_track(calls.object[any % calls.objects].at, (int)(any >> 4), &track);
    }
}

static void calls_look(void)
{
    unsigned how = fuzz_byte(&calls.bytes) % 14, cache = calls_some(), left;
    struct stook_cache *of = cache < CALLS_CACHES ? calls.cache[cache] : NULL;
    char word[80];

    if (!of)
        return;
    switch (how) {
    case 0:
        calls_stat(of);
        break;
    case 1:
        calls_stat(of);
        break;
    case 2:
    case 3:
        calls_address();
        break;
    case 4:
        (void)stook_cache_by_name(fuzz_word(&calls.bytes, word, sizeof(word)));
        FUZZ_CHECK(stook_cache_each(calls_visit, NULL) == 0);
        break;
    case 5:
        left = 1 + calls_below(100);
        (void)stook_cache_walk(of, calls_walk, &left);
        break;
    case 6:
        if (stook_report(calls.null, (unsigned)fuzz_number(&calls.bytes)) != 0)
            CALLS_ERROR(EINVAL);
        break;
    case 7:
    case 8:
        FUZZ_CHECK(stook_cache_validate(fuzz_byte(&calls.bytes) % 2 ? of : NULL) == 0);
        break;
    case 9:
        (void)stook_cache_shrink(of);
        break;
    case 10:
        if (stook_tags_enable(fuzz_byte(&calls.bytes) % 2 ? of : NULL,
                              (int)fuzz_number(&calls.bytes)) != 0)
            CALLS_ERROR(EINVAL, ENOMEM);
        break;
    case 11:
        if (stook_cache_set_capacity(of, (unsigned)fuzz_number(&calls.bytes)) != 0)
            CALLS_ERROR(E2BIG, ENOTSUP, EINVAL);
        break;
    case 12:
        FUZZ_CHECK(stook_cached_bytes_set_max(fuzz_number(&calls.bytes)) == 0);
        break;
    default:
        if (fuzz_byte(&calls.bytes) % 8 == 0)
            FUZZ_CHECK(stook_profile_write(calls.null) == 0);
    }
}

/* ---- the machine ------------------------------------------------------------------------------- */

static void calls_machine(void)
{
    unsigned how = fuzz_byte(&calls.bytes) % 5, changes;
    int number = (int)fuzz_number(&calls.bytes), online = (int)fuzz_byte(&calls.bytes) - 1;

    switch (how) {
    case 0:
        if (stook_topology_cpu(number) < 0)
            CALLS_ERROR(EINVAL);
        break;
    case 1:
        if (stook_topology_cpu_online(number, online & 1) != 0)
            CALLS_ERROR(EINVAL, EBUSY, ENOTSUP);
        break;
    case 2:
        if (stook_topology_memory_online(number, online & 1) != 0)
            CALLS_ERROR(EINVAL, EBUSY, ENOTSUP, ENOMEM);
        break;
    case 3:
        if (stook_topology_set(number & 1 ? "node:1 core:2" : NULL) != 0)
            CALLS_ERROR(EBUSY, EINVAL);
        break;
    default:
        if (stook_topology_update(&changes) != 0)
            CALLS_ERROR(ENOTSUP, EINVAL, EDEADLK);
    }
}

static void calls_machine_whole(void)
{
    static const int cpus[] = {0, 1, 2, 3, 6}, nodes[] = {0, 2, 3};

    for (unsigned i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++)
        FUZZ_CHECK(stook_topology_cpu_online(cpus[i], 1) == 0);
    for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        FUZZ_CHECK(stook_topology_memory_online(nodes[i], 1) == 0);
    FUZZ_CHECK(stook_topology_cpu(0) >= -1);
}

/* ---- an input ---------------------------------------------------------------------------------- */

static int calls_count(struct stook_cache *cache, void *arg)
{
    const char *name = stook_cache_name(cache);

    /* These are made when they are first used. */
    *(unsigned *)arg += strncmp(name, "kmalloc-", strlen("kmalloc-")) != 0 &&
                        strncmp(name, "sampled-", strlen("sampled-")) != 0;
    return 0;
}

static void calls_end(void)
{
    bool more = true;

    (void)stook_group_enter(STOOK_NO_GROUP);
    for (unsigned i = 0; i < CALLS_SHEAVES; i++)
        if (calls.sheaf[i])
            stook_sheaf_return(calls.cache[calls.sheaf_cache[i]], calls.sheaf[i]);
    calls.bytes = (struct fuzz_bytes){NULL, NULL};
    while (calls.objects > 0) {
        struct calls_object o = calls_lose();
        calls_give(&o, 2);
    }
    for (unsigned i = 0; i < CALLS_POOLS; i++)
        FUZZ_CHECK(!calls.pool[i] || stook_pool_destroy(calls.pool[i]) == 0);
    stook_rcu_barrier();
    for (unsigned i = 0; i < CALLS_CACHES; i++)
        FUZZ_CHECK(stook_cache_destroy(calls.cache[i]) == 0);
    while (more) { /* children first */
        more = false;
        for (unsigned g = 0; g < CALLS_GROUPS; g++)
            if (calls.group[g].id && stook_group_destroy(calls.group[g]) == 0) {
                calls.group[g] = STOOK_NO_GROUP;
                more = true;
            }
    }
    for (unsigned g = 0; g < CALLS_GROUPS; g++)
        FUZZ_CHECK(!calls.group[g].id);
    FUZZ_CHECK(stook_tags_enable(NULL, 0) == 0);
    FUZZ_CHECK(stook_cached_bytes_set_max((size_t)256 << 20) == 0);
    calls_machine_whole();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const struct stook_rcu_ops rcu = {sizeof(rcu), calls_rcu_call, calls_rcu_barrier,
                                             calls_rcu_synchronize, calls_rcu_reading};
    static void (*const step[])(void) = {
        calls_create,  calls_kmem_create, calls_destroy, calls_alloc, calls_alloc,
        calls_alloc,   calls_free,        calls_free,    calls_free,  calls_kmalloc,
        calls_kmalloc, calls_krealloc,    calls_bulk,    calls_pool,  calls_sheaf,
        calls_group,   calls_group,       calls_look,    calls_look,  calls_machine};
    static int null = -1;
    unsigned before = 0, after = 0;

    if (null < 0) {
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        FUZZ_CHECK(null >= 0 && stook_rcu_set_ops(&rcu) == 0);
    }
    memset(&calls, 0, sizeof(calls));
    calls.bytes = (struct fuzz_bytes){bytes, bytes + n};
    calls.null = null;
    FUZZ_CHECK(stook_cache_each(calls_count, &before) == 0);
    for (unsigned i = 0; i < CALLS_STEPS && calls.bytes.at < calls.bytes.end; i++)
        step[fuzz_byte(&calls.bytes) % (sizeof(step) / sizeof(step[0]))]();
    calls_end();
    FUZZ_CHECK(stook_cache_each(calls_count, &after) == 0);
    FUZZ_CHECK(before == after);
    FUZZ_CHECK(debug_reports() == 0);
    return 0;
}
