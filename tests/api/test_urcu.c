/* SPDX-License-Identifier: MIT */
/* link: urcu */
/* needs: urcu */
/*
 * liburcu's two flavours behind deferred frees, each in a process of its own.  Readers walk a list while writers
 * replace its members, and find type-stable objects by address.  Also barriers, destruction by another thread,
 * handlers, and a fork with liburcu's own handlers.
 */
#include "support/must.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/rcu.h>
#include <stook/urcu.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>

#include <urcu/rculist.h>

/* Two flavours in one file: urcu/call-rcu.h declares those of the first. */
extern void urcu_qsbr_call_rcu_before_fork(void);
extern void urcu_qsbr_call_rcu_after_fork_parent(void);
extern void urcu_qsbr_call_rcu_after_fork_child(void);

enum { THREADS = 3, MEMBERS = 64, TURNS = 20000, WORDS = 8, TYPE = 0x57ab1e };

/* What differs between the flavours. */
struct flavour {
    int (*use)(void);
    int (*use_other)(void);
    void (*register_thread)(void);
    void (*unregister_thread)(void);
    void (*lock)(void);
    void (*unlock)(void);
    void (*quiescent)(void); /* between reads */
    void (*offline)(void);   /* before waiting for something else */
    void (*online)(void);
    void (*before_fork)(void);
    void (*after_fork_parent)(void);
    void (*after_fork_child)(void);
};

static void qsbr_lock(void)
{
    urcu_qsbr_read_lock();
}

static void qsbr_unlock(void)
{
    urcu_qsbr_read_unlock();
}

static void nothing(void)
{
}

static const struct flavour memb = {
    .use = stook_urcu_use_memb,
    .use_other = stook_urcu_use_qsbr,
    .register_thread = urcu_memb_register_thread,
    .unregister_thread = urcu_memb_unregister_thread,
    .lock = urcu_memb_read_lock,
    .unlock = urcu_memb_read_unlock,
    .quiescent = nothing,
    .offline = nothing,
    .online = nothing,
    .before_fork = urcu_memb_call_rcu_before_fork,
    .after_fork_parent = urcu_memb_call_rcu_after_fork_parent,
    .after_fork_child = urcu_memb_call_rcu_after_fork_child,
};

static const struct flavour qsbr = {
    .use = stook_urcu_use_qsbr,
    .use_other = stook_urcu_use_memb,
    .register_thread = urcu_qsbr_register_thread,
    .unregister_thread = urcu_qsbr_unregister_thread,
    .lock = qsbr_lock,
    .unlock = qsbr_unlock,
    .quiescent = urcu_qsbr_quiescent_state,
    .offline = urcu_qsbr_thread_offline,
    .online = urcu_qsbr_thread_online,
    .before_fork = urcu_qsbr_call_rcu_before_fork,
    .after_fork_parent = urcu_qsbr_call_rcu_after_fork_parent,
    .after_fork_child = urcu_qsbr_call_rcu_after_fork_child,
};

static const struct flavour *rcu;

struct member {
    struct cds_list_head link;
    _Atomic uint64_t word[WORDS];
};

struct stable {
    _Atomic uint64_t type;
    _Atomic uint64_t word[3];
};

static struct stook_cache *members, *stables;
static CDS_LIST_HEAD(list);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct stable *) found[MEMBERS];
static _Atomic uint64_t number, walked, errors;
static atomic_bool done;

static void construct(void *object, void *arg)
{
    memset(object, 0, sizeof(struct stable));
    atomic_init(&((struct stable *)object)->type, TYPE);
}

static struct member *new_member(void)
{
    struct member *member = stook_alloc(members, 0);
    uint64_t value = atomic_fetch_add(&number, 1) + 1;

    if (member)
        for (unsigned i = 0; i < WORDS; i++)
            atomic_store_explicit(&member->word[i], value, memory_order_relaxed);
    return member;
}

static void walk(void)
{
    struct member *member;

    rcu->lock();
    cds_list_for_each_entry_rcu(member, &list, link)
    {
        uint64_t first = atomic_load_explicit(&member->word[0], memory_order_relaxed);
        for (unsigned i = 1; i < WORDS; i++)
            if (atomic_load_explicit(&member->word[i], memory_order_relaxed) != first)
                atomic_fetch_add(&errors, 1);
        atomic_fetch_add_explicit(&walked, 1, memory_order_relaxed);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct stable *stable = atomic_load(&found[i]);
        if (stable && atomic_load_explicit(&stable->type, memory_order_relaxed) != TYPE)
            atomic_fetch_add(&errors, 1);
    }
    rcu->unlock();
    rcu->quiescent();
}

static void *reader(void *unused)
{
    rcu->register_thread();
    while (!atomic_load(&done))
        walk();
    rcu->unregister_thread();
    return unused;
}

/* The handler's frees: objects that no other thread has seen. */
static volatile sig_atomic_t handled;

static void on_signal(int signal)
{
    int saved = errno; /* of an allocation that failed */

    for (int i = 0; i < 30; i++) {
        void *object = stook_alloc(members, STOOK_SIGNAL_SAFE);
        stook_free_rcu(members, object);
        handled += object != NULL;
    }
    errno = saved;
}

static void *writer(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    rcu->register_thread();
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct member *new = new_member(), *old;
        struct stable *stable = stook_alloc(stables, 0);
        if (!new || !stable)
            abort();
        pthread_mutex_lock(&list_lock);
        old = cds_list_entry(list.next, struct member, link);
        cds_list_del_rcu(&old->link);
        cds_list_add_tail_rcu(&new->link, &list);
        pthread_mutex_unlock(&list_lock);
        stook_free_rcu(members, old);
        atomic_store_explicit(&stable->word[0], turn, memory_order_relaxed);
        stable = atomic_exchange(&found[random_below(&random, MEMBERS)], stable);
        stook_free(stables, stable); /* at once: the type is what readers rely on */
        if (turn % 256 == 0)
            raise(SIGUSR1);
        if (random_below(&random, 512) == 0)
            stook_cache_shrink(stables);
        rcu->quiescent();
    }
    rcu->unregister_thread();
    return NULL;
}

static void *destroyer(void *cache)
{
    int result;

    rcu->register_thread();
    result = stook_cache_destroy(cache);
    rcu->unregister_thread();
    return (void *)(intptr_t)result;
}

static bool destroyed_elsewhere(struct stook_cache *cache)
{
    pthread_t thread;
    void *result;

    if (pthread_create(&thread, NULL, destroyer, cache) != 0)
        return false;
    rcu->offline();
    pthread_join(thread, &result);
    rcu->online();
    return !result;
}

static int fill(void)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct member *member = new_member();
        MUST(member);
        cds_list_add_tail_rcu(&member->link, &list);
    }
    return 0;
}

static void empty(void)
{
    while (!cds_list_empty(&list)) {
        struct member *member = cds_list_entry(list.next, struct member, link);
        cds_list_del_rcu(&member->link);
        stook_free_rcu(members, member);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        stook_free(stables, atomic_exchange(&found[i], NULL));
}

/* Objects that wait in the RCU, in this CPU's sheaf: both go free on both sides. */
static int forks(void)
{
    struct stook_cache *cache = stook_cache_create("forked", 100, NULL);
    int status;
    pid_t child;

    MUST(cache);
    for (unsigned i = 0; i < 1000; i++)
        stook_free_rcu(cache, stook_alloc(cache, 0));
    rcu->offline();
    rcu->before_fork();
    child = fork();
    if (child == 0) {
        rcu->after_fork_child();
        rcu->online();
        for (unsigned i = 0; i < 1000; i++)
            stook_free_rcu(cache, stook_alloc(cache, 0));
        stook_rcu_barrier();
        _exit(stook_cache_destroy(cache) != 0);
    }
    rcu->after_fork_parent();
    rcu->online();
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    MUST(stook_cache_destroy(cache) == 0);
    return 0;
}

static int run(void *flavour)
{
    struct stook_cache_args stable = {
        .size = sizeof(stable), .ctor = construct, .flags = STOOK_CACHE_TYPESAFE};
    pthread_t readers[THREADS], writers[THREADS];

    rcu = flavour;
    MUST(rcu->use() == 0 && rcu->use() == 0);
    MUST(rcu->use_other() == -1 && errno == EBUSY);
    rcu->register_thread();
    signal(SIGUSR1, on_signal);
    members = stook_cache_create("members", sizeof(struct member), NULL);
    stables = stook_cache_create("stables", sizeof(struct stable), &stable);
    MUST(members && stables);
    MUST(fill() == 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        MUST(pthread_create(&readers[i], NULL, reader, NULL) == 0);
        MUST(pthread_create(&writers[i], NULL, writer, (void *)(i + 1)) == 0);
    }
    rcu->offline(); /* reads nothing while it waits */
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&done, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(readers[i], NULL);
    rcu->online();
    MUST(atomic_load(&errors) == 0 && atomic_load(&walked) > 0 && handled > 0);
    /* What is free now is so after a barrier; then nothing of the cache is out. */
    empty();
    stook_rcu_barrier();
    MUST(destroyed_elsewhere(stables));
    /* Right after deferred frees, elsewhere. */
    MUST(fill() == 0);
    empty();
    MUST(destroyed_elsewhere(members));
    MUST(forks() == 0);
    rcu->unregister_thread();
    return 0;
}

static void each(const struct flavour *flavour)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not see liburcu's ordering */
#endif
    in_child(run, (void *)(uintptr_t)flavour);
}

TEST(flavour_memb)
{
    each(&memb);
}

TEST(flavour_qsbr)
{
    each(&qsbr);
}
