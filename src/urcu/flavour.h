/* SPDX-License-Identifier: MIT */
/*
 * flavour.h - what liburcu's flavours have in common: a struct rcu_head lies in the reserved words of
 * the library's head, and its callback calls the library's.
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

static inline struct rcu_head *flavour_head(struct stook_rcu_head *head,
                                            void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    return (struct rcu_head *)(void *)head->reserved;
}

static inline void flavour_done(struct rcu_head *urcu)
{
    struct stook_rcu_head *head =
        (struct stook_rcu_head *)(void *)((char *)urcu - offsetof(struct stook_rcu_head, reserved));

    head->func(head);
}

#endif
