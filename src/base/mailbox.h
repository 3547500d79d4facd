/* SPDX-License-Identifier: MIT */
/*
 * mailbox.h - whether a message from outside waits for this process (mail/mail.h).
 *
 * `stook set` writes the number of its message here, into another process's memory.  An allocation that finds its main
 * sheaf empty looks, which is one load; it makes the message due (context.h), and upkeep takes it (cache/upkeep.h).
 */
#ifndef STOOK_BASE_MAILBOX_H
#define STOOK_BASE_MAILBOX_H

#include "base/context.h"

#include <stdatomic.h>
#include <stdint.h>

/* 0: none waits.  Written from outside while it is 0, and by the thread that has taken the message. */
extern _Atomic uint32_t mailbox_waiting __attribute__((visibility("hidden")));

static inline void mailbox_look(void)
{
    if (__builtin_expect(atomic_load_explicit(&mailbox_waiting, memory_order_relaxed) != 0, 0))
        context_self()->due |= CONTEXT_DUE_MAIL;
}

#endif
