/* SPDX-License-Identifier: MIT */
/*
 * kmem_rcu_head.h - struct rcu_head, for programs that defer frees by kfree_rcu() and have none.  A program has one if
 * it includes liburcu, or brings its own; therefore stook/kmem.h does not include this.  The place for it is the
 * program's <linux/types.h> or <linux/rcupdate.h>.
 *
 * It does nothing after liburcu's header, or where rcu_head is a macro, as in the kernel's <linux/types.h>.  Liburcu's
 * header may also follow.  From there on struct rcu_head is liburcu's, so structures that have one come after both.
 */
#ifndef STOOK_KMEM_RCU_HEAD_H
#define STOOK_KMEM_RCU_HEAD_H

#if !defined(_URCU_CALL_RCU_H) && !defined(rcu_head)
/* One word as long as liburcu's include guard is undefined, and another once it is defined, as nothing. */
#define KMEM_RCU_JOIN(name, guard) name##guard
#define KMEM_RCU_HEAD(name, guard) KMEM_RCU_JOIN(name, guard)
#define rcu_head KMEM_RCU_HEAD(kmem_rcu_head, _URCU_CALL_RCU_H)
/* Two words, as in the kernel.  The library neither reads nor writes them. */
struct rcu_head {
    struct rcu_head *next;
    void (*func)(struct rcu_head *head);
};
#endif

#endif /* STOOK_KMEM_RCU_HEAD_H */
