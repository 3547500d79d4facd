/* SPDX-License-Identifier: MIT */
/*
 * handoff-rcu: as handoff, but readers may still look at what the consumer takes out: it defers the
 * frees over liburcu. Stook's own calls do it with stook_free_rcu(); over a malloc it is what programs do,
 * a struct rcu_head in the object, call_rcu() and a callback that frees it. The floor is call_rcu()
 * of objects that are neither allocated nor freed.
 *
 *   free_ns  a deferring call, alone on its CPU
 *   pair_ns  all of it: from the first allocation to the last deferring call by the clock, and the
 *            CPU time that it takes from there until all is free. liburcu's thread looks every 10 ms:
 *            what it works meanwhile counts, what it sleeps does not
 *
 * The producer writes to each object, as a program does that publishes one.
 */
#include "../worker/handoff.h"
#include "../worker/resident.h"

#if ADAPTER_DEFERS

#include <semaphore.h>
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>

/* One file can have these of one flavour only from liburcu's headers. */
void urcu_qsbr_call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
struct call_rcu_data *urcu_qsbr_get_default_call_rcu_data(void);
void urcu_qsbr_barrier(void);

enum { RCU_ALONE = 1 << 14, RCU_ROUNDS_MAX = 64 };

/* What lies in an object of a malloc. */
struct rcu_object {
    uint64_t value; /* readers look at it until the grace period is over */
    struct rcu_head head;
};

struct rcu_run {
    struct handoff handoff;
    enum mode mode;
    size_t object_size;
    char *array;      /* the floor's objects */
    uint64_t objects; /* a round */
    sem_t begin, end;
    uint64_t last; /* deferring call, by the clock */
    uint64_t tail; /* CPU time from there until all was free */
};

static struct rcu_run rcu_run;

static uint64_t rcu_cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void rcu_join(enum mode mode)
{
    if (mode == MODE_MEMB)
        urcu_memb_register_thread();
    else
        urcu_qsbr_register_thread();
}

static void rcu_leave(enum mode mode)
{
    if (mode == MODE_MEMB)
        urcu_memb_unregister_thread();
    else
        urcu_qsbr_unregister_thread();
}

static void rcu_sleep(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

/* A reader who only waits must not be waited for. */
static void rcu_idle(enum mode mode, sem_t *semaphore)
{
    if (mode == MODE_QSBR)
        urcu_qsbr_thread_offline();
    rcu_sleep(semaphore);
    if (mode == MODE_QSBR)
        urcu_qsbr_thread_online();
}

#if ADAPTER_RCU
static void rcu_use(enum mode mode)
{
    adapter_rcu_use(mode);
}

HANDOFF_INLINE void rcu_defer(adapter_t adapter, void *object, enum mode mode)
{
    (void)mode;
    adapter_rcu_free(adapter, object);
}

static void rcu_barrier_of(enum mode mode)
{
    (void)mode;
    adapter_rcu_barrier();
}
#else
/* liburcu's thread comes before this one is bound to a CPU. */
static void rcu_use(enum mode mode)
{
    if (mode == MODE_MEMB)
        (void)urcu_memb_get_default_call_rcu_data();
    else
        (void)urcu_qsbr_get_default_call_rcu_data();
}

static void rcu_callback(struct rcu_head *head)
{
    struct rcu_object *object =
        (struct rcu_object *)(void *)((char *)head - offsetof(struct rcu_object, head));
#if ADAPTER_HANDOFF_ONLY
    case_keep(object);
#else
    adapter_free_any(object);
#endif
}

HANDOFF_INLINE void rcu_defer(adapter_t adapter, void *object, enum mode mode)
{
    struct rcu_object *own = object;

    (void)adapter;
    if (mode == MODE_MEMB)
        urcu_memb_call_rcu(&own->head, rcu_callback);
    else
        urcu_qsbr_call_rcu(&own->head, rcu_callback);
}

static void rcu_barrier_of(enum mode mode)
{
    if (mode == MODE_MEMB)
        urcu_memb_barrier();
    else
        urcu_qsbr_barrier();
}
#endif

HANDOFF_INLINE void *rcu_make(struct rcu_run *run, uint64_t i)
{
#if ADAPTER_HANDOFF_ONLY
    struct rcu_object *object = (struct rcu_object *)(void *)(run->array + i * run->object_size);
#else
    struct rcu_object *object = handoff_object(adapter_alloc(run->handoff.adapter));
    (void)i;
#endif
    object->value = i;
    return object;
}

HANDOFF_INLINE void rcu_consume(struct rcu_run *run, struct ring_end *end, enum mode mode)
{
    adapter_t adapter = run->handoff.adapter;

    for (uint64_t i = 0; i < run->objects; i++) {
        rcu_defer(adapter, ring_get(&run->handoff.ring, end), mode);
        if (mode == MODE_QSBR && i % RING_SIZE == 0)
            urcu_qsbr_quiescent_state();
    }
}

static void *rcu_consumer(void *context)
{
    struct rcu_run *run = context;
    struct ring_end end = {0, 0};

    cpus_pin(1);
    rcu_join(run->mode);
    for (;;) {
        rcu_idle(run->mode, &run->begin);
        if (atomic_load(&run->handoff.stop))
            break;
        if (run->mode == MODE_MEMB)
            rcu_consume(run, &end, MODE_MEMB);
        else
            rcu_consume(run, &end, MODE_QSBR);
        run->last = timing_now();
        uint64_t before = rcu_cpu_time();
        rcu_barrier_of(run->mode);
        run->tail = rcu_cpu_time() - before;
        sem_post(&run->end);
    }
    rcu_leave(run->mode);
    return NULL;
}

static double rcu_round(struct rcu_run *run)
{
    struct ring_end end = run->handoff.producer;

    uint64_t start = timing_now();
    sem_post(&run->begin);
    for (uint64_t i = 0; i < run->objects; i++)
        ring_put(&run->handoff.ring, &end, rcu_make(run, i));
    rcu_sleep(&run->end);
    run->handoff.producer = end;
    return (double)(run->last - start + run->tail) / (double)run->objects;
}

/* RCU_ALONE deferring calls by this thread, whose callbacks come later. */
static double rcu_alone(struct rcu_run *run)
{
    static void *objects[RCU_ALONE];

    for (uint64_t i = 0; i < RCU_ALONE; i++)
        objects[i] = rcu_make(run, i);
    uint64_t start = timing_now();
    if (run->mode == MODE_MEMB)
        for (uint64_t i = 0; i < RCU_ALONE; i++)
            rcu_defer(run->handoff.adapter, objects[i], MODE_MEMB);
    else
        for (uint64_t i = 0; i < RCU_ALONE; i++)
            rcu_defer(run->handoff.adapter, objects[i], MODE_QSBR);
    uint64_t took = timing_now() - start;
    rcu_barrier_of(run->mode);
    return (double)took / RCU_ALONE;
}

int case_handoff_rcu(const struct case_params *params, struct case_result *result)
{
    struct rcu_run *run = &rcu_run;
    double values[RCU_ROUNDS_MAX];
    unsigned rounds = params->rounds < RCU_ROUNDS_MAX ? params->rounds : RCU_ROUNDS_MAX;
    pthread_t consumer;

    if (!handoff_can() || (params->mode != MODE_MEMB && params->mode != MODE_QSBR) ||
        params->object_size < sizeof(struct rcu_object))
        return WORKER_CANNOT;
    run->mode = params->mode;
    run->object_size = params->object_size & ~(sizeof(void *) - 1);
    run->objects = (params->mib << 20) / params->object_size & ~(uint64_t)(RING_PUBLISH - 1);
    if (run->objects < RCU_ALONE)
        run->objects = RCU_ALONE;
    rcu_use(run->mode);
    cpus_pin(0);
    run->handoff.adapter = adapter_open(params->object_size);
#if ADAPTER_HANDOFF_ONLY
    run->array = resident_map_huge(run->objects * run->object_size);
#endif
    if (sem_init(&run->begin, 0, 0) || sem_init(&run->end, 0, 0) ||
        pthread_create(&consumer, NULL, rcu_consumer, run))
        case_die("no thread");
    (void)rcu_round(run); /* warms up */
    for (unsigned i = 0; i < rounds; i++)
        values[i] = rcu_round(run);
    CASE_SET(result, pair_ns, timing_sort_median(values, rounds));
    atomic_store(&run->handoff.stop, 1);
    sem_post(&run->begin);
    pthread_join(consumer, NULL);
    rcu_join(run->mode);
    for (unsigned i = 0; i < rounds; i++)
        values[i] = rcu_alone(run);
    CASE_SET(result, free_ns, timing_sort_median(values, rounds));
    adapter_report_kept(result);
    rcu_leave(run->mode);
    return 0;
}

#endif
