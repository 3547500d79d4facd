/* SPDX-License-Identifier: MIT */
/*
 * urcu.h - liburcu for stook_free_rcu() and type-stable caches: link with -lstook-urcu
 * (pkg-config stook-urcu).
 *
 * Readers and threads follow the rules of liburcu:
 *  - a thread registers itself with the flavour (rcu_register_thread()) before it reads, and before
 *    it calls stook_free_rcu(), stook_rcu_barrier(), stook_cache_shrink() or stook_cache_destroy() for
 *    deferred objects, as liburcu asks of callers of call_rcu();
 *  - callbacks run in liburcu's own thread, which the calls below start;
 *  - a program that forks without exec needs liburcu's handlers: urcu_memb_call_rcu_before_fork(),
 *    …_after_fork_parent() and …_after_fork_child() (urcu_qsbr_… for that flavour), by pthread_atfork() or
 *    around fork().  Then objects that were deferred before are freed in the parent and in the child.  This library
 *    registers none: two registrations deadlock.  Without them stook_rcu_barrier() and
 *    stook_cache_destroy() would wait in the child for a thread that is not there.
 */
#ifndef STOOK_URCU_H
#define STOOK_URCU_H

#include <stook/stook.h>

STOOK_C_BEGIN

/*
 * Use liburcu as the program's RCU.
 *
 * stook_urcu_use_memb() uses liburcu-memb (rcu_read_lock() and rcu_read_unlock(), sys_membarrier where the
 * kernel has it).  stook_urcu_use_qsbr() uses liburcu-qsbr, whose threads say when they are quiescent; they
 * must never say so inside a call of this library.  A process has one of them; the same call again is a
 * no-op.
 *
 * errors:  EBUSY    another RCU was set (stook_rcu_set_ops())
 *          ENOMEM   as stook_rcu_set_ops()
 * context: not in a signal handler or a read-side section
 * locks:   none
 * cost:    starts a thread
 */
STOOK_API int stook_urcu_use_memb(void);
STOOK_API int stook_urcu_use_qsbr(void);

STOOK_C_END

#endif /* STOOK_URCU_H */
