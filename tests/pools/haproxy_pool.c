/* SPDX-License-Identifier: MIT */
/*
 * haproxy_pool.c - HAProxy 2.6's memory pools as caches of Stook: build.sh compiles it as src/pool.c there.
 *
 * HAProxy's pool.h asks for the names, the types and the rule which pools are merged.  A pool is the front of struct pool_head,
 * without the lists of free objects of each thread, and its cache is in `base_addr`.  An allocation or a free counts
 * nothing, except in a pool with a limit: the cache knows what is in use.  No call needs thread isolation.
 *
 * Pools are created and destroyed while HAProxy has one thread, so their list needs no lock.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>

#include <haproxy/activity.h>
#include <haproxy/applet.h>
#include <haproxy/cfgparse.h>
#include <haproxy/chunk.h>
#include <haproxy/cli.h>
#include <haproxy/errors.h>
#include <haproxy/freq_ctr.h>
#include <haproxy/global.h>
#include <haproxy/pool.h>
#include <haproxy/task.h>
#include <haproxy/tools.h>

#include <stook/inline.h>
#include <stook/stat.h>

#define KEPT_MAX (64u << 10) /* bytes that pool_flush() leaves */
#define IDLE_MS 5000         /* from one check whether the server is idle to the next */
#define IDLE_BLOCKS 1024     /* of 32 bytes: an idle server emits fewer in a second */

int mem_poison_byte = 'P';
uint pool_debugging;

static struct list pools = LIST_HEAD_INIT(pools);
static int fail_rate; /* per cent of allocations that fail, with -dMfail */
static int no_trimming;

/* What -dM switches, and the flags of caches that do it. */
static const struct pool_switch {
    const char *on, *off;
    uint flag;
    unsigned cache_flags;
    const char *what;
} switches[] = {
    {"fail", "no-fail", POOL_DBG_FAIL_ALLOC, 0, "let tune.fail-alloc per cent of allocations fail"},
    {"no-merge", "merge", POOL_DBG_DONT_MERGE, 0, "a cache for each name"},
    {"cold-first", "hot-first", POOL_DBG_COLD_FIRST, STOOK_CACHE_QUARANTINE,
     "reuse an object late, after a check that it was not written"},
    {"integrity", "no-integrity", POOL_DBG_INTEGRITY,
     STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_POISON, "check free objects"},
    {"no-global", "global", POOL_DBG_NO_GLOBAL, 0, "share no free objects between CPUs"},
    {"no-cache", "cache", POOL_DBG_NO_CACHE, STOOK_CACHE_NOSHEAF, "no free objects for each CPU"},
    {"caller", "no-caller", POOL_DBG_CALLER, STOOK_CACHE_DEBUG_USER,
     "keep the stacks of allocations and frees"},
    {"tag", "no-tag", POOL_DBG_TAG, STOOK_CACHE_DEBUG_RED_ZONE,
     "check the bytes around each object"},
    {"poison", "no-poison", POOL_DBG_POISON, 0, "fill new objects"},
};
#define SWITCHES (sizeof(switches) / sizeof(*switches))

/* ---- pools ---------------------------------------------------------------------------------------- */

static struct stook_cache *new_cache(const char *name, unsigned size)
{
    struct stook_cache_args args = {.size = sizeof(args), .align = 16};

    for (unsigned i = 0; i < SWITCHES; i++)
        if (pool_debugging & switches[i].flag)
            args.flags |= switches[i].cache_flags;
    if (pool_debugging & POOL_DBG_NO_GLOBAL)
        args.cached_bytes_max = 1;
    return stook_cache_create(name, size, &args);
}

/* The first pool, for NULL. */
static struct pool_head *next_pool(const struct pool_head *pool)
{
    struct list *next = pool ? pool->list.n : pools.n;

    return next == &pools ? NULL : LIST_ELEM(next, struct pool_head *, list);
}

struct pool_head *create_pool(char *name, unsigned int size, unsigned int flags)
{
    const size_t bytes = offsetof(struct pool_head, cache); /* a multiple of the alignment */
    struct pool_head *pool;

    if (!(flags & MEM_F_EXACT))
        size = (size + 15) & -16U;
    for (pool = next_pool(NULL); pool; pool = next_pool(pool)) {
        if (pool->size != size || !(pool->flags & flags & MEM_F_SHARED))
            continue;
        if (!(pool_debugging & POOL_DBG_DONT_MERGE) ||
            strncmp(pool->name, name, sizeof(pool->name) - 1) == 0) {
            pool->users++;
            return pool;
        }
    }
    pool = aligned_alloc(__alignof__(*pool), bytes);
    if (!pool)
        return NULL;
    memset(pool, 0, bytes);
    pool->base_addr = new_cache(name, size);
    if (!pool->base_addr) {
        free(pool);
        return NULL;
    }
    snprintf(pool->name, sizeof(pool->name), "%s", name);
    pool->size = pool->alloc_sz = size;
    pool->flags = flags;
    pool->users = 1;
    LIST_APPEND(&pools, &pool->list);
    return pool;
}

void create_pool_callback(struct pool_head **ptr, char *name, unsigned int size)
{
    *ptr = create_pool(name, size, MEM_F_SHARED);
    if (*ptr)
        return;
    ha_alert("no pool '%s' of %u bytes: %s\n", name, size, strerror(errno));
    exit(1);
}

static struct stook_cache_usage usage_of(const struct pool_head *pool)
{
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    stook_cache_usage(pool->base_addr, &usage);
    return usage;
}

/* A pool with objects in use stays, as the caller expects. */
void *pool_destroy(struct pool_head *pool)
{
    if (!pool)
        return NULL;
    if (pool->users > 1) {
        pool->users--;
        return NULL;
    }
    if (usage_of(pool).in_use || stook_cache_destroy(pool->base_addr) != 0)
        return pool;
    LIST_DELETE(&pool->list);
    free(pool);
    return NULL;
}

void pool_destroy_all(void)
{
    struct pool_head *pool, *next;

    for (pool = next_pool(NULL); pool; pool = next) {
        next = next_pool(pool);
        pool->users = 1;
        pool_destroy(pool);
    }
}

/* ---- objects -------------------------------------------------------------------------------------- */

static int fails_on_purpose(uint flags)
{
    return !(flags & POOL_F_NO_FAIL) && !(global.mode & MODE_STARTING) && fail_rate > 0 &&
           statistical_prng_range(100) < (uint)fail_rate;
}

static int below_limit(struct pool_head *pool)
{
    if (HA_ATOMIC_ADD_FETCH(&pool->used, 1) <= pool->limit)
        return 1;
    HA_ATOMIC_DEC(&pool->used);
    return 0;
}

static __attribute__((noinline, cold)) void *failed(struct pool_head *pool)
{
    HA_ATOMIC_INC(&pool->failed);
    activity[tid].pool_fail++;
    return NULL;
}

/* HAProxy has an answer to a failure, and an event loop must not wait: hence NORECLAIM. */
void *__pool_alloc(struct pool_head *pool, unsigned int flags)
{
    void *object;

    if (unlikely(pool_debugging & POOL_DBG_FAIL_ALLOC) && fails_on_purpose(flags))
        return NULL;
    if (unlikely(pool->limit) && !below_limit(pool))
        return failed(pool);
    if (unlikely(!stook_inline_take(pool->base_addr, STOOK_NORECLAIM, &object))) {
        const struct stook_alloc_args args = {.size = sizeof(args),
                                              .from = __builtin_return_address(0)};
        object = stook_alloc_with(pool->base_addr, STOOK_NORECLAIM, &args);
        if (!object) {
            if (pool->limit)
                HA_ATOMIC_DEC(&pool->used);
            return failed(pool);
        }
    }
    if (unlikely(flags & POOL_F_MUST_ZERO))
        memset(object, 0, pool->size);
    else if (unlikely(pool_debugging & POOL_DBG_POISON) && !(flags & POOL_F_NO_POISON))
        memset(object, mem_poison_byte, pool->size);
    return object;
}

void __pool_free(struct pool_head *pool, void *ptr)
{
    if (unlikely(pool->limit))
        HA_ATOMIC_DEC(&pool->used);
    stook_free_inline(pool->base_addr, ptr);
}

void *pool_alloc_nocache(struct pool_head *pool)
{
    return __pool_alloc(pool, POOL_F_NO_FAIL | POOL_F_NO_POISON);
}

void pool_free_nocache(struct pool_head *pool, void *ptr)
{
    __pool_free(pool, ptr);
}

/* A process that stops calls this with each task that it frees, so the usual answer is quick. */
void pool_flush(struct pool_head *pool)
{
    struct stook_cache_usage usage;

    if (!pool)
        return;
    usage = usage_of(pool);
    if (usage.bytes > usage.in_use * pool->size + KEPT_MAX)
        stook_cache_shrink(pool->base_addr);
}

void pool_gc(struct pool_head *unused)
{
    struct pool_head *pool;

    for (pool = next_pool(NULL); pool; pool = next_pool(pool))
        stook_cache_shrink(pool->base_addr);
    if (!no_trimming)
        malloc_trim(0);
}

/* An idle server holds what is in use: no call of its own would give the rest back. */
static struct task *flush_idle(struct task *task, void *context, uint state)
{
    struct pool_head *pool;

    if (read_freq_ctr(&global.out_32bps) < IDLE_BLOCKS)
        for (pool = next_pool(NULL); pool; pool = next_pool(pool))
            pool_flush(pool);
    task->expire = tick_add(now_ms, IDLE_MS);
    return task;
}

static int start_flushing(void)
{
    struct task *task = no_trimming ? NULL : task_new_anywhere();

    if (task) {
        task->process = flush_idle;
        task_schedule(task, tick_add(now_ms, IDLE_MS));
    }
    return ERR_NONE;
}
REGISTER_POST_CHECK(start_flushing);

/* ---- what is shown -------------------------------------------------------------------------------- */

int pool_total_failures(void)
{
    struct pool_head *pool;
    int sum = 0;

    for (pool = next_pool(NULL); pool; pool = next_pool(pool))
        sum += pool->failed;
    return sum;
}

/* in_use is bytes here. */
static struct stook_cache_usage usage_of_all(void)
{
    struct stook_cache_usage sum = {0};
    struct pool_head *pool;

    for (pool = next_pool(NULL); pool; pool = next_pool(pool)) {
        sum.bytes += usage_of(pool).bytes;
        sum.in_use += usage_of(pool).in_use * pool->size;
    }
    return sum;
}

unsigned long long pool_total_allocated(void)
{
    return usage_of_all().bytes;
}

unsigned long long pool_total_used(void)
{
    return usage_of_all().in_use;
}

void dump_pools_to_trash(void)
{
    struct pool_head *pool;

    chunk_printf(&trash, "%-12s %7s %9s %9s %9s %10s %10s %6s %5s\n", "pool", "size", "used",
                 "cached", "free", "bytes", "peak", "failed", "users");
    for (pool = next_pool(NULL); pool; pool = next_pool(pool)) {
        struct stook_cache_usage usage = usage_of(pool);

        chunk_appendf(&trash, "%-12s %7u %9llu %9llu %9llu %10llu %10llu %6u %5u\n", pool->name,
                      pool->size, (ullong)usage.in_use, (ullong)usage.cached, (ullong)usage.free,
                      (ullong)usage.bytes, (ullong)usage.bytes_peak, pool->failed, pool->users);
    }
    chunk_appendf(&trash, "total: %llu bytes, %llu used\n", pool_total_allocated(),
                  pool_total_used());
}

void dump_pools(void)
{
    dump_pools_to_trash();
    fprintf(stderr, "%s", trash.area);
}

static int show_pools(struct appctx *appctx)
{
    dump_pools_to_trash();
    return applet_putchk(appctx, &trash) != -1;
}

static struct cli_kw_list commands = {
    {},
    {
        {{"show", "pools", NULL}, "show pools : the memory of each pool", NULL, show_pools},
        {{}},
    },
};
INITCALL1(STG_REGISTER, cli_register_kw, &commands);

/* ---- settings ------------------------------------------------------------------------------------- */

static void help(char **err)
{
    memprintf(err, "-dM[BYTE][,SWITCH...]: fill new objects with BYTE, and set (*: is set)\n");
    for (unsigned i = 0; i < SWITCHES; i++)
        memprintf(err, "%s %c %-11s or %-13s %s\n", *err,
                  pool_debugging & switches[i].flag ? '*' : ' ', switches[i].on, switches[i].off,
                  switches[i].what);
}

static int is_word(const char *str, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(str, word, n) == 0;
}

/* 1, -1 with a help text in *err, or -2 with an error there. */
int pool_parse_debugging(const char *str, char **err)
{
    char *end;
    long byte = strtol(str, &end, 0);

    if (*end == '\0' || *end == ',') {
        mem_poison_byte = end == str ? 'P' : (int)byte;
        pool_debugging &= ~POOL_DBG_POISON;
        if (mem_poison_byte >= 0)
            pool_debugging |= POOL_DBG_POISON;
        str = end;
    }
    while (*(str += strspn(str, ","))) {
        size_t n = strcspn(str, ",");
        unsigned i = 0;

        if (is_word(str, n, "help")) {
            help(err);
            return -1;
        }
        while (i < SWITCHES && !is_word(str, n, switches[i].on) &&
               !is_word(str, n, switches[i].off))
            i++;
        if (i == SWITCHES) {
            memprintf(err, "no such switch: %.*s", (int)n, str);
            return -2;
        }
        pool_debugging &= ~switches[i].flag;
        if (is_word(str, n, switches[i].on))
            pool_debugging |= switches[i].flag;
        str += n;
    }
    return 1;
}

static int set_fail_rate(char **args, int section, struct proxy *proxy,
                         const struct proxy *defaults, const char *file, int line, char **err)
{
    if (too_many_args(1, args, err, NULL))
        return -1;
    fail_rate = atoi(args[1]);
    if (fail_rate >= 0 && fail_rate <= 100)
        return 0;
    memprintf(err, "'%s' takes 0 to 100 per cent", args[0]);
    return -1;
}

static int set_no_trimming(char **args, int section, struct proxy *proxy,
                           const struct proxy *defaults, const char *file, int line, char **err)
{
    no_trimming = 1;
    return too_many_args(0, args, err, NULL) ? -1 : 0;
}

static struct cfg_kw_list keywords = {
    {},
    {
        {CFG_GLOBAL, "tune.fail-alloc", set_fail_rate},
        {CFG_GLOBAL, "no-memory-trimming", set_no_trimming},
        {0, NULL, NULL},
    },
};
INITCALL1(STG_REGISTER, cfg_register_keywords, &keywords);
