/* SPDX-License-Identifier: MIT */
/* liburcu's flavour of quiescent states: a thread that is online may be reading at any time. */
#include <urcu/urcu-qsbr.h>

#include "urcu/flavour.h"

#include <stook/rcu.h>
#include <stook/urcu.h>

static void qsbr_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    urcu_qsbr_call_rcu(flavour_head(head, func), flavour_done);
}

static int qsbr_reading(void)
{
    return urcu_qsbr_read_ongoing();
}

int stook_urcu_use_qsbr(void)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops),
        .call = qsbr_call,
        .barrier = urcu_qsbr_barrier,
        .synchronize = urcu_qsbr_synchronize_rcu,
        .reading = qsbr_reading,
    };

    if (stook_rcu_set_ops(&ops) != 0)
        return -1;
    (void)urcu_qsbr_get_default_call_rcu_data(); /* its thread: call() must not make it */
    return 0;
}
