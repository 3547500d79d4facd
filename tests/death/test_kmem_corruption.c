/* SPDX-License-Identifier: MIT */
/* needs: native whole */
/* timeout: 900 */
/*
 * The corruptions that the kernel's own tests plant (lib/tests/slub_kunit.c), by the kernel's names: each in a
 * child, with the report compared to golden/kmem_NAME, and with what is left of it when it was reported.
 * Addresses, numbers of threads and CPUs, ages, and stacks are left out of the comparison.
 * STOOK_TEST_UPDATE=1 prints what is said instead.
 */
#define GOLDEN_PREFIX "kmem_"
#define MUST_FAILS _exit(1)
#include "debug/report.h"
#include "support/environment.h"
#include "support/golden.h"
#include "support/must.h"
#include "support/test.h"

#include "slab/slab.h"

#include <stook/kmem.h>
#include <stook/rcu.h>

#include <ctype.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include <stook/debug.h>

static long validate(struct kmem_cache *cache)
{
    return stook_cache_validate(kmem_stook_cache(cache));
}

static struct kmem_cache *make(const char *name, unsigned size, slab_flags_t flags)
{
    struct kmem_cache *cache = kmem_cache_create(name, size, 0, flags, NULL);

    MUST(cache);
    return cache;
}

/* The errors are found once, and then there is none. */
static void found(struct kmem_cache *cache, long errors)
{
    MUST(validate(cache) == errors);
    MUST(validate(cache) == 0);
}

/* "NAME=" and a number, which becomes a star. */
static bool mask(const char **from, char **to, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(*from, name, n) != 0 || !isxdigit((*from)[n]))
        return false;
    memcpy(*to, name, n);
    *to += n;
    *(*to)++ = '*';
    for (*from += n; isxdigit(**from); ++*from)
        ;
    return true;
}

/* What differs from run to run is left out, and stacks. */
static void normalise(const char *from, char *to)
{
    while (*from) {
        const char *end = strchr(from, '\n');
        bool called = strncmp(from, "Allocated in ", 13) == 0 ||
                      strncmp(from, "Freed in ", 9) == 0 || strncmp(from, "Found in ", 9) == 0;
        size_t left = end ? (size_t)(end - from) : strlen(from);
        if (*from == ' ') { /* a frame */
            from += left + 1;
            continue;
        }
        if (called) {
            const char *in = strstr(from, " in ") + 4;
            memcpy(to, from, (size_t)(in - from));
            to += in - from;
            *to++ = '*';
            from = in + strcspn(in, " \n");
        }
        while (*from && *from != '\n')
            if (strncmp(from, "0x", 2) == 0 && strspn(from + 2, "0123456789abcdef") > 6)
                (void)mask(&from, &to, "0x");
            else if (!mask(&from, &to, "pid=") && !mask(&from, &to, "cpu=") &&
                     !mask(&from, &to, "age="))
                *to++ = *from++;
        if (*from)
            *to++ = *from++;
    }
    *to = '\0';
}

/* ---- the kernel's --------------------------------------------------------------------------- */

DEATH(clobber_zone, 0)
{
    struct kmem_cache *cache = make("TestSlub_RZ_alloc", 64, SLAB_RED_ZONE);
    uint8_t *p = kmem_cache_alloc(cache, GFP_KERNEL);

    p[64] = 0x12;
    found(cache, 1);
    kmem_cache_free(cache, p);
    kmem_cache_destroy(cache);
}

DEATH(next_pointer, 0)
{
    struct kmem_cache *cache = make("TestSlub_next_ptr_free", 64, SLAB_POISON);
    uint8_t *p = kmem_cache_alloc(cache, GFP_KERNEL), *q = kmem_cache_alloc(cache, GFP_KERNEL);
    const struct stook_cache *own = kmem_stook_cache(cache);
    struct slab *slab;
    uint32_t index;

    slab = slab_find(own, p, &index);
    kmem_cache_free(cache, p);
    found(cache, 0);
    *slab_link(own, slab, index) ^= 0x4000; /* its links lie where no program writes: by hand */
    found(cache, 1);
    kmem_cache_free(cache, q);
    kmem_cache_destroy(cache);
}

DEATH(first_byte, 0)
{
    struct kmem_cache *cache = make("TestSlub_1th_word_free", 64, SLAB_POISON);
    uint8_t *p = kmem_cache_alloc(cache, GFP_KERNEL);

    kmem_cache_free(cache, p);
    *p = 0x78;
    found(cache, 1);
    kmem_cache_destroy(cache);
}

DEATH(byte_50, 0)
{
    struct kmem_cache *cache = make("TestSlub_50th_word_free", 64, SLAB_POISON);
    uint8_t *p = kmem_cache_alloc(cache, GFP_KERNEL);

    kmem_cache_free(cache, p);
    p[50] = 0x9a;
    found(cache, 1);
    kmem_cache_destroy(cache);
}

DEATH(zone_after_free, 0)
{
    struct kmem_cache *cache = make("TestSlub_RZ_free", 64, SLAB_RED_ZONE);
    uint8_t *p = kmem_cache_alloc(cache, GFP_KERNEL);

    kmem_cache_free(cache, p);
    p[64] = 0xab;
    found(cache, 1);
    kmem_cache_destroy(cache);
}

/* Compilers know what was asked for, and would warn of what these tests plant. */
#define HIDE(p) __asm__("" : "+r"(p))

/* Bytes 18 and 19 of an object that was asked for with 18. */
DEATH(kmalloc_zone, 0)
{
    uint8_t *p;

    p = kmalloc(18, GFP_KERNEL);
    MUST(ksize(p) == 18);
    HIDE(p);
    p[18] = 0xab;
    p[19] = 0xab;
    MUST(stook_cache_validate(stook_cache_of(p)) == 1);
    MUST(stook_cache_validate(stook_cache_of(p)) == 0);
    kfree(p);
}

/* What usable size says of an object that is free is nothing, and is reported. */
DEATH(size_of_freed, 0)
{
    uint8_t *p = kmalloc(100, GFP_KERNEL), *q = kmalloc(20000, GFP_KERNEL);

    MUST(kmalloc_size_roundup(100) == 128 && ksize(p) == 100);
    kfree(p);
    kfree(q);
    MUST(ksize(p) == 0);
    MUST(ksize(q) == 0);
}

/* Elements in the reserve of a memory pool are free, of kmalloc() and of whole pages. */
DEATH(mempool, 0)
{
    mempool_t *pool = mempool_create_kmalloc_pool(2, 40),
              *large = mempool_create_kmalloc_pool(2, 20000);
    uint8_t *p, *q;

    MUST(pool && large);
    p = mempool_alloc_preallocated(pool);
    q = mempool_alloc_preallocated(large);
    MUST(p && q && ksize(p) == 40 && ksize(q) == 20000);
    p[40] = 1; /* behind it */
    mempool_free(p, pool);
    p[5] = 1; /* after its free */
    MUST(mempool_alloc_preallocated(pool) == p);
    mempool_free(p + 8, pool);
    mempool_free(p, pool);
    mempool_free(p, pool);
    mempool_free(q + 64, large);
    mempool_free(q, large);
    mempool_free(q, large);
    MUST(debug_reports() == 6);
    mempool_destroy(pool);
    mempool_destroy(large);
    MUST(debug_reports() == 6);
}

/* Of whole pages that were freed, too, a report says who did, until others have their place. */
DEATH(large_twice, 0)
{
    char *p = kmalloc(300000, GFP_KERNEL), *q = kmalloc(100000, GFP_KERNEL);

    kfree(p);
    kfree(p);
    kfree(q + 4096);
    kfree(q);
    MUST(debug_reports() == 2);
}

/* The same of whole pages, in place and moved; what an overrun further behind does to their mark is seen, too. */
DEATH(large_zone, 0)
{
    volatile size_t asked = 12000; /* of which compilers see the end */
    uint8_t *p = kzalloc(20000, GFP_KERNEL);

    MUST(ksize(p) == 20000);
    for (unsigned i = 0; i < 20000; i++)
        MUST(p[i] == 0);
    HIDE(p);
    p[20000] = 1;
    p = krealloc(p, 19000, GFP_KERNEL);
    MUST(ksize(p) == 19000);
    p = krealloc(p, 3000000, GFP_KERNEL);
    p = krealloc(p, 6000000, GFP_KERNEL);
    MUST(ksize(p) == 6000000);
    memset(p, 1, 6000000);
    p = krealloc(p, 5000000, GFP_KERNEL);
    MUST(ksize(p) == 5000000);
    kfree(p);
    p = kmalloc(asked, GFP_KERNEL);
    memset(p + 12000, 0x41, 288);
    kfree(p);
}

DEATH(destroy_with_one_out, 0)
{
    struct kmem_cache *cache =
        make("TestSlub_kmalloc_leak", 64, SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER);

    MUST(kmem_cache_alloc(cache, GFP_KERNEL));
    kmem_cache_destroy(cache);
}

/* What is left of an object and what was added: its zone moves, and zeros are where they must be. */
DEATH(krealloc_zone, 0)
{
    uint8_t *p, *q;

    p = kzalloc(48, GFP_KERNEL);
    MUST(p);
    for (unsigned i = 0; i < 48; i++)
        MUST(p[i] == 0);
    memset(p, 0xff, 48);
    p = krealloc(p, 40, GFP_KERNEL | __GFP_ZERO);
    HIDE(p);
    for (unsigned i = 0; i < 40; i++)
        MUST(p[i] == 0xff);
    for (unsigned i = 40; i < 64; i++)
        MUST(p[i] == 0xcc);
    q = krealloc(p, 56, GFP_KERNEL | __GFP_ZERO);
    HIDE(q);
    for (unsigned i = 0; i < 40; i++)
        MUST(q[i] == 0xff);
    for (unsigned i = 40; i < 56; i++)
        MUST(q[i] == 0);
    for (unsigned i = 56; i < 64; i++)
        MUST(q[i] == 0xcc);
    q = krealloc(q, 112, GFP_KERNEL | __GFP_ZERO);
    for (unsigned i = 0; i < 112; i++)
        MUST(q[i] == (i < 40 ? 0xff : 0));
    kfree(q);
    MUST(stook_cache_validate(NULL) == 0);
}

/* ---- deferred frees, and the end of the cache ----------------------------------------------- */

/* An RCU whose grace periods end on another thread, at any time. */
static pthread_mutex_t rcu_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stook_rcu_head *rcu_waiting;
static atomic_bool rcu_over;

static void rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    pthread_mutex_lock(&rcu_lock);
    head->next = rcu_waiting;
    rcu_waiting = head;
    pthread_mutex_unlock(&rcu_lock);
}

static void rcu_pass(void)
{
    struct stook_rcu_head *head, *next;

    pthread_mutex_lock(&rcu_lock);
    head = rcu_waiting;
    rcu_waiting = NULL;
    for (; head; head = next) {
        next = head->next;
        head->func(head);
    }
    pthread_mutex_unlock(&rcu_lock);
}

static void *rcu_thread(void *unused)
{
    while (!rcu_over) {
        usleep((unsigned)random() % 500);
        rcu_pass();
    }
    return unused;
}

DEATH(free_rcu_then_destroy, 0)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops), .call = rcu_call, .barrier = rcu_pass, .synchronize = rcu_pass};
    pthread_t thread;

    MUST(stook_rcu_set_ops(&ops) == 0);
    MUST(pthread_create(&thread, NULL, rcu_thread, NULL) == 0);
    for (unsigned i = 0; i < 10; i++) {
        struct kmem_cache *cache = make("TestSlub_kfree_rcu", 64, SLAB_RED_ZONE | SLAB_POISON);
        void *p = kmem_cache_alloc(cache, GFP_KERNEL);
        memset(p, 1, 64);
        kfree_rcu_mightsleep(p);
        usleep((unsigned)random() % 1000);
        kmem_cache_destroy(cache);
    }
    rcu_over = true;
    MUST(pthread_join(thread, NULL) == 0);
}

/* ---- a timer's signal allocates and frees, too ---------------------------------------------- */

enum { MILLION = 1000000, HELD = 64 };
static struct kmem_cache *timed;
static atomic_uint ticks;

static void *timed_take(gfp_t gfp)
{
    uint8_t *p = kmem_cache_alloc(timed, gfp);

    if (p)
        memset(p, 0x5c, 40);
    return p;
}

static void tick(int signal)
{
    static void *held[HELD];
    unsigned at = ticks++ % HELD;

    kmem_cache_free(timed, held[at]);
    held[at] = timed_take(0);
}

DEATH(timer, 0)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval every = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
    void *held[HELD] = {0};

    timed = make("timed", 40, SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON);
    kmem_cache_free(timed, timed_take(GFP_KERNEL));
    MUST(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (unsigned i = 0; i < MILLION; i++) {
        unsigned at = i * 7 % HELD;
        kmem_cache_free(timed, held[at]);
        held[at] = timed_take(GFP_KERNEL);
        MUST(held[at]);
        if (i % 50000 == 0)
            MUST(validate(timed) == 0);
    }
    every.it_value.tv_usec = 0;
    MUST(setitimer(ITIMER_REAL, &every, NULL) == 0);
    MUST(ticks > 10);
    for (unsigned i = 0; i < HELD; i++)
        kmem_cache_free(timed, held[i]);
    MUST(validate(timed) == 0);
}

/* The library reads its settings when the process starts. */
int main(int argc, char **argv)
{
    environment_need("STOOK_DEBUG", "FZPU,kmalloc-*,large", argv);
    golden_mask = normalise;
    return tests_run(NULL, NULL);
}
