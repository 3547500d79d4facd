// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * worker.c - a thread on each CPU that runs the actors of that CPU, and the calls that they make.
 *
 * An actor is in exactly one place: the inbox of a CPU, the list of its thread, or nowhere once it is
 * done.  Only the thread that has it in its list touches it, so it needs no lock.
 */
#include "stook.h"

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/task.h>

struct stook_run stook_run;

/* What the first word of an object has while it is out. */
static u64 stook_stamp(u32 id)
{
    return 0x6c61622073746f6full ^ id;
}

static struct stook_record *stook_draw(u32 id, u8 op, u8 flags)
{
    u64 seq = atomic64_fetch_inc(&stook_run.seq);
    struct stook_record *record = seq < stook_run.room ? &stook_run.record[seq] : NULL;

    if (!record) {
        if (stook_run.room > 0) /* 0: the record is complete, and CPU 0 frees the rest */
            atomic64_inc(&stook_run.broken);
        return NULL;
    }
    record->object = id;
    record->cpu = raw_smp_processor_id();
    record->op = op;
    record->flags = flags;
    return record;
}

/*
 * As a pool does (mempool_alloc): first without waiting, then with it.  The flags of the first call
 * are those of a pool of bios.
 */
void *stook_alloc(u32 id, u8 flags)
{
    struct stook_record *record = stook_draw(id, STOOK_ALLOC, flags);
    u64 *object = NULL;

    if (flags & STOOK_NORECLAIM) {
        object = kmem_cache_alloc(stook_run.cache,
                                  GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN);
        if (!object)
            atomic64_inc(&stook_run.retried);
    }
    if (!object)
        object = kmem_cache_alloc(stook_run.cache, GFP_NOIO);
    if (!object) {
        atomic64_inc(&stook_run.failed);
        if (record)
            record->flags |= STOOK_FAILED;
        return NULL;
    }
    if (*object == stook_stamp(id) || stook_run.object[id])
        atomic64_inc(&stook_run.broken);
    *object = stook_stamp(id);
    stook_run.object[id] = object;
    atomic64_inc(&stook_run.allocs);
    return object;
}

void stook_free(u32 id)
{
    u64 *object = stook_run.object[id];

    if (!object)
        return; /* its allocation failed */
    stook_draw(id, STOOK_FREE, 0);
    if (*object != stook_stamp(id))
        atomic64_inc(&stook_run.broken);
    *object = 0;
    stook_run.object[id] = NULL;
    kmem_cache_free(stook_run.cache, object);
    atomic64_inc(&stook_run.frees);
}

unsigned int stook_claim(unsigned int n, u32 *first)
{
    int begun = atomic_read(&stook_run.begun);
    unsigned int left;

    do {
        left = stook_run.operations - begun;
        if (n > left)
            n = left;
        if (n == 0)
            return 0;
    } while (!atomic_try_cmpxchg(&stook_run.begun, &begun, begun + n));
    *first = begun;
    return n;
}

/* splitmix64 */
unsigned int stook_random(struct stook_actor *actor, unsigned int below)
{
    u64 z = actor->random += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (unsigned int)(((z ^ z >> 31) >> 32) * below >> 32);
}

/* ---- threads -------------------------------------------------------------------------------- */

struct stook_worker {
    struct task_struct *task;
    struct llist_head inbox;
    struct stook_actor *actors;
    int kicked;
    struct completion ended;
};

static struct stook_worker *stook_workers; /* by CPU */
static atomic_t stook_active;              /* actors that are not done */
static bool stook_over;

void stook_kick(unsigned int cpu)
{
    struct stook_worker *worker = &stook_workers[cpu];

    if (!xchg(&worker->kicked, 1))
        wake_up_process(worker->task);
}

static void stook_send(struct stook_actor *actor)
{
    unsigned int cpu = actor->cpu;

    llist_add(&actor->inbox, &stook_workers[cpu].inbox);
    stook_kick(cpu);
}

static void stook_receive(struct stook_worker *worker)
{
    struct llist_node *node = llist_del_all(&worker->inbox);
    struct stook_actor *actor, *after;

    llist_for_each_entry_safe(actor, after, node, inbox)
    {
        actor->next = worker->actors;
        worker->actors = actor;
    }
}

static void stook_done(void)
{
    unsigned int cpu;

    if (!atomic_dec_and_test(&stook_active))
        return;
    WRITE_ONCE(stook_over, true);
    for_each_online_cpu(cpu) stook_kick(cpu);
}

/* A step of each actor of this CPU; false: they all wait. */
static bool stook_round(struct stook_worker *worker, unsigned int cpu)
{
    struct stook_actor **link = &worker->actors, *actor;
    bool busy = false;

    while ((actor = *link) != NULL) {
        enum stook_step step = actor->step(actor);

        busy |= step != STOOK_IDLE;
        if (step != STOOK_DONE && actor->cpu == cpu) {
            link = &actor->next;
            continue;
        }
        *link = actor->next;
        if (step == STOOK_DONE)
            stook_done();
        else
            stook_send(actor);
    }
    return busy;
}

static int stook_work(void *arg)
{
    struct stook_worker *worker = arg;
    unsigned int cpu = raw_smp_processor_id();

    while (!READ_ONCE(stook_over)) {
        stook_receive(worker);
        if (stook_round(worker, cpu)) {
            cond_resched();
            continue;
        }
        set_current_state(TASK_INTERRUPTIBLE);
        if (!xchg(&worker->kicked, 0) && !READ_ONCE(stook_over))
            schedule_timeout(HZ / 10);
        __set_current_state(TASK_RUNNING);
    }
    complete(&worker->ended);
    return 0;
}

int stook_act(struct stook_actor **actors, unsigned int n)
{
    unsigned int cpu, i;
    int status = 0;

    stook_workers = kcalloc(nr_cpu_ids, sizeof(*stook_workers), GFP_KERNEL);
    if (!stook_workers)
        return -ENOMEM;
    stook_over = false;
    atomic_set(&stook_active, n);
    for_each_online_cpu(cpu)
    {
        struct stook_worker *worker = &stook_workers[cpu];

        init_llist_head(&worker->inbox);
        init_completion(&worker->ended);
        worker->task = kthread_create_on_cpu(stook_work, worker, cpu, "stook/%u");
        if (IS_ERR(worker->task)) {
            status = PTR_ERR(worker->task);
            worker->task = NULL;
            WRITE_ONCE(stook_over, true);
            break;
        }
        get_task_struct(worker->task); /* another CPU may kick it when it has ended */
    }
    for (i = 0; i < n && !status; i++)
        llist_add(&actors[i]->inbox, &stook_workers[actors[i]->cpu].inbox);
    for_each_online_cpu(cpu) if (stook_workers[cpu].task) wake_up_process(stook_workers[cpu].task);
    for_each_online_cpu(cpu) if (stook_workers[cpu].task)
        wait_for_completion(&stook_workers[cpu].ended);
    /* All have ended, so there is no kick any more. */
    for_each_online_cpu(cpu) if (stook_workers[cpu].task) put_task_struct(stook_workers[cpu].task);
    kfree(stook_workers);
    stook_workers = NULL;
    return status;
}
