/* SPDX-License-Identifier: MIT */
/*
 * rseq_rcu_x86_64.h - the section that puts an object into this CPU's rcu sheaf of a cache:
 *
 *   defer:  arm; cpu; slot; if slot.main is `closed` leave; m = slot.rcu; if there is none leave;
 *           n = m.size + 1; if n >= m.capacity leave; m.object[n-1] = o; m.size = n   <- commits
 *
 * Whoever closes the slot has its rcu sheaf too, as ever; a taker from another CPU reads nothing of
 * it before a fence.  The last object of a sheaf is not put here, so one in a slot is never full: who
 * puts that closes the slot and takes the sheaf away.  CPUs -1 and -2 have no rcu sheaf, nor has slot
 * 0, which stands in for a cache's while its calls are counted.
 */
#ifndef STOOK_PERCPU_RSEQ_RCU_X86_64_H
#define STOOK_PERCPU_RSEQ_RCU_X86_64_H

#include "percpu/percpu.h"

#include <stook/arch/rseq_x86_64.h>

static inline __attribute__((always_inline)) bool rcu_section(const void *slots, intptr_t rseq,
                                                              const void *closed, void *object)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        "movslq %%fs:4(%[rseq]), %[m]\n\t" STOOK_RSEQ_STEP
        "shlq $" STOOK_RSEQ_STRING(STOOK_AREA_SHIFT) ", %[m]\n\t"
        "cmpq %[closed], (%[slots], %[m])\n\t"
        "je %l[leave]\n\t" STOOK_RSEQ_STEP
        "movq %c[rcu](%[slots], %[m]), %[m]\n\t" STOOK_RSEQ_STEP
        "testq %[m], %[m]\n\t"
        "jz %l[leave]\n\t"
        "movl 8(%[m]), %k[n]\n\t"
        "addl $1, %k[n]\n\t"
        "cmpl 12(%[m]), %k[n]\n\t"
        "jae %l[leave]\n\t" STOOK_RSEQ_STEP
        "movq %[object], 8(%[m], %[n], 8)\n\t" STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed), [object] "r"(object),
          [rcu] "i"(offsetof(struct slot, rcu))
        : "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
