/* SPDX-License-Identifier: MIT */
/*
 * rseq_rcu_aarch64.h - the section that puts an object into this CPU's rcu sheaf of a cache, as
 * rseq_rcu_x86_64.h specifies it.
 *
 * Main is loaded with acquire: it pairs with the release of whoever opened the slot on another CPU,
 * who may have changed slot.rcu, which is read next and depends on main by a branch only.
 */
#ifndef STOOK_PERCPU_RSEQ_RCU_AARCH64_H
#define STOOK_PERCPU_RSEQ_RCU_AARCH64_H

#include "percpu/percpu.h"

#include <stook/arch/rseq_aarch64.h>

static inline __attribute__((always_inline)) bool rcu_section(const void *slots, intptr_t rseq,
                                                              const void *closed, void *object)
{
    uintptr_t m, n, t;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        STOOK_RSEQ_SLOT("m", "n")
        "ldar %[n], [%[m]]\n\t"
        "cmp %[n], %[closed]\n\t"
        "b.eq 6f\n\t" STOOK_RSEQ_STEP
        "ldr %[m], [%[m], %[rcu]]\n\t" STOOK_RSEQ_STEP
        "cbz %[m], 6f\n\t"
        "ldr %w[n], [%[m], #8]\n\t"
        "ldr %w[t], [%[m], #12]\n\t"
        "add %w[n], %w[n], #1\n\t"
        "cmp %w[n], %w[t]\n\t"
        "b.hs 6f\n\t" STOOK_RSEQ_STEP
        "add %[t], %[m], %[n], lsl #3\n\t"
        "str %[object], [%[t], #8]\n\t" STOOK_RSEQ_STEP
        "str %w[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n), [t] "=&r"(t)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed), [object] "r"(object),
          [rcu] "i"(offsetof(struct slot, rcu))
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
