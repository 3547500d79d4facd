/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* A module that is the program's RCU, for prog_close; its readers have left when a barrier asks. */
#include <stook/rcu.h>
#include <stook/stook.h>

#include <stdbool.h>

bool plug_use(void);

static struct stook_rcu_head *waiting;
static void (*waiting_func)(struct stook_rcu_head *);

static void plug_nothing(void)
{
}

static void plug_barrier(void)
{
    struct stook_rcu_head *head = __atomic_exchange_n(&waiting, NULL, __ATOMIC_ACQ_REL);

    if (head)
        waiting_func(head);
}

static void plug_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    plug_barrier();
    waiting_func = func;
    __atomic_store_n(&waiting, head, __ATOMIC_RELEASE);
}

bool plug_use(void)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops),
        .call = plug_call,
        .barrier = plug_barrier,
        .synchronize = plug_nothing,
    };

    if (stook_rcu_set_ops(&ops) != 0)
        return false;
    stook_rcu_barrier();
    return true;
}
