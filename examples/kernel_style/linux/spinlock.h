/* SPDX-License-Identifier: MIT */
#ifndef KERNEL_STYLE_SPINLOCK_H
#define KERNEL_STYLE_SPINLOCK_H

#include <pthread.h>

/* In a program a thread that holds it may be preempted: others had better sleep. */
typedef struct spinlock {
    pthread_mutex_t mutex;
} spinlock_t;

static inline void spin_lock_init(spinlock_t *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}

static inline void spin_lock(spinlock_t *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void spin_unlock(spinlock_t *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
