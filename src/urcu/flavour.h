/* SPDX-License-Identifier: MIT */
/*
 * flavour.h - one of liburcu's flavours as the library's RCU.  The file that includes this has liburcu's header of the
 * flavour, and FLAVOUR(call), the flavour's name of a call.  A struct rcu_head lies in the reserved words of the
 * library's head, and its callback calls the library's.
 */
#ifndef STOOK_URCU_FLAVOUR_H
#define STOOK_URCU_FLAVOUR_H

#include <stook/rcu.h>
#include <stook/stook.h>

#include <stddef.h>
#include <urcu/call-rcu.h>

_Static_assert(sizeof(struct rcu_head) <= sizeof(((struct stook_rcu_head *)NULL)->reserved) &&
                   _Alignof(struct rcu_head) <= _Alignof(void *),
               "liburcu's head has room in the library's");

static void flavour_done(struct rcu_head *urcu)
{
    struct stook_rcu_head *head =
        (struct stook_rcu_head *)(void *)((char *)urcu - offsetof(struct stook_rcu_head, reserved));

    head->func(head);
}

static void flavour_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    FLAVOUR(call_rcu)((struct rcu_head *)(void *)head->reserved, flavour_done);
}

static int flavour_reading(void)
{
    return FLAVOUR(read_ongoing)();
}

static int flavour_use(void)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops),
        .call = flavour_call,
        .barrier = FLAVOUR(barrier),
        .synchronize = FLAVOUR(synchronize_rcu),
        .reading = flavour_reading,
    };

    if (stook_rcu_set_ops(&ops) != 0)
        return -1;
    (void)FLAVOUR(get_default_call_rcu_data)(); /* its thread: call() must not make it */
    return 0;
}

#endif
