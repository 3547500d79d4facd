// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * follow.c - makes the calls of an order file, each on its CPU, one at a time.
 *
 * There is one turn.  The thread that has it makes all calls up to the next one of another CPU, and
 * passes the turn there: no two calls overlap, and their order is the file's.  What the kernel does by
 * itself on a CPU meanwhile does not touch the cache: nothing else has it.
 */
#include "stook.h"

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>

struct follower {
    struct task_struct *task;
    struct completion turn, ended;
};

static struct follower *followers; /* by CPU */
static const struct stook_record *follow_record;
static u64 follow_at, follow_end; /* only the thread that has the turn touches the first */

static void follow_pass(void)
{
    unsigned int cpu;

    if (follow_at < follow_end) {
        complete(&followers[follow_record[follow_at].cpu].turn);
        return;
    }
    for_each_online_cpu(cpu) complete(&followers[cpu].turn);
}

static int follow_work(void *arg)
{
    struct follower *me = arg;
    unsigned int cpu = raw_smp_processor_id();

    for (;;) {
        wait_for_completion(&me->turn);
        if (follow_at >= follow_end)
            break;
        while (follow_at < follow_end && follow_record[follow_at].cpu == cpu) {
            const struct stook_record *record = &follow_record[follow_at++];

            if (record->flags & STOOK_FAILED)
                continue;
            if (record->op == STOOK_ALLOC)
                stook_alloc(record->object, record->flags & STOOK_NORECLAIM);
            else
                stook_free(record->object);
            cond_resched();
        }
        follow_pass();
    }
    complete(&me->ended);
    return 0;
}

static int follow_check(const struct stook_record *record, u64 records)
{
    for (u64 i = 0; i < records; i++)
        if (record[i].cpu >= nr_cpu_ids || !cpu_online(record[i].cpu) ||
            record[i].op > STOOK_FREE || record[i].object >= stook_run.objects)
            return -EINVAL;
    return records > 0 ? 0 : -EINVAL;
}

/* The calls are recorded anew in stook_run.record: it says what was done, not what was asked for. */
int stook_follow(const struct stook_record *record, u64 records)
{
    unsigned int cpu;
    int status = follow_check(record, records);

    if (status)
        return status;
    followers = kcalloc(nr_cpu_ids, sizeof(*followers), GFP_KERNEL);
    if (!followers)
        return -ENOMEM;
    follow_record = record;
    follow_at = 0;
    follow_end = records;
    for_each_online_cpu(cpu)
    {
        struct follower *follower = &followers[cpu];

        init_completion(&follower->turn);
        init_completion(&follower->ended);
        follower->task = kthread_create_on_cpu(follow_work, follower, cpu, "stook/%u");
        if (IS_ERR(follower->task)) {
            status = PTR_ERR(follower->task);
            follower->task = NULL;
            follow_end = 0; /* those that are there end */
            break;
        }
    }
    for_each_online_cpu(cpu) if (followers[cpu].task) wake_up_process(followers[cpu].task);
    follow_pass();
    for_each_online_cpu(cpu) if (followers[cpu].task) wait_for_completion(&followers[cpu].ended);
    kfree(followers);
    followers = NULL;
    return status;
}
