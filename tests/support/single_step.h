/* SPDX-License-Identifier: MIT */
/* single_step.h - the trap flag of x86-64: a SIGTRAP after each instruction, whose handler may end them. */
#ifndef TESTS_SUPPORT_SINGLE_STEP_H
#define TESTS_SUPPORT_SINGLE_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

enum { TRAP_FLAG = 0x100 };

static inline void single_step(bool on)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();

    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(uint64_t)TRAP_FLAG);
}

/* In the handler: no more of them. */
static inline void single_step_end(void *ucontext)
{
    ((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

#endif
