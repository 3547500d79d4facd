/* SPDX-License-Identifier: MIT */
/* A small RCU (../rcu.c).  A program of size would take liburcu: stook/urcu.h. */
#ifndef KERNEL_STYLE_RCUPDATE_H
#define KERNEL_STYLE_RCUPDATE_H

void rcu_read_lock(void);
void rcu_read_unlock(void);
void synchronize_rcu(void);

#define rcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_access_pointer(p) __atomic_load_n(&(p), __ATOMIC_RELAXED)
#define rcu_assign_pointer(p, value) __atomic_store_n(&(p), (value), __ATOMIC_RELEASE)

#endif
