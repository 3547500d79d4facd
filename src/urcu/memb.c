/* SPDX-License-Identifier: MIT */
/* liburcu's default flavour: readers take rcu_read_lock(). */
#include <urcu/urcu-memb.h>

#include "urcu/flavour.h"

#include <stook/rcu.h>
#include <stook/urcu.h>

static void memb_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    urcu_memb_call_rcu(flavour_head(head, func), flavour_done);
}

static int memb_reading(void)
{
    return urcu_memb_read_ongoing();
}

int stook_urcu_use_memb(void)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops),
        .call = memb_call,
        .barrier = urcu_memb_barrier,
        .synchronize = urcu_memb_synchronize_rcu,
        .reading = memb_reading,
    };

    if (stook_rcu_set_ops(&ops) != 0)
        return -1;
    (void)urcu_memb_get_default_call_rcu_data(); /* its thread: call() must not make it */
    return 0;
}
