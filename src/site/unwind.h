/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - call stacks by rules that are kept: for each address that a call returned to, where the caller's frame
 * lies, in one word.
 *
 * The compiler's unwinder finds and runs a frame's program of the unwind tables anew for each frame, and restores all
 * registers.  A profile needs three: the address, the stack pointer and the frame pointer.  So unwind_rules.c runs
 * the program once for each address, and unwind.c keeps what came out.
 *
 * What the words of a rule cannot say is UNWIND_UNKNOWN: expressions except those of realigned stacks, addresses in no
 * file, files without .eh_frame_hdr (ld makes none for -static unless --eh-frame-hdr is given).  The walk ends there, except
 * that on x86-64 it follows the frame pointers of code in no file (JIT) if these lead back to a file's.
 * The compiler's unwinder is asked for nothing: it allocates under a lock of its own, so a walk within that allocation
 * would wait for itself.
 *
 * Only memory is read that is known to be a stack and in use: of a thread that the C library made, or of the first
 * thread.  On another stack (a coroutine's, a handler's) there is no walk, since its end is not known, and a function
 * that changed to it may have a rule that leads beyond.  So addresses are those of frames on this stack, whose files
 * nothing may close meanwhile: their tables stay.
 *
 * A rule holds for a build ID, a load address and an address.  So the rules of a file that was unloaded are met by no
 * other file in its place, and those of files without a build ID are not kept.  No lock (on musl the loader's, for
 * reading), no system call but an madvise() on the first thread's stack where it is deeper than 112 KiB; any context.
 */
#ifndef STOOK_SITE_UNWIND_H
#define STOOK_SITE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A rule, never 0.  Offsets are multiples of 8.
 *
 *   bits 0-2    enum unwind_kind
 *   bits 3-4    enum unwind_fp
 *   bit 5       the return address is signed (aarch64)
 *   bit 6       the return address is still in its register (aarch64)
 *   bit 7       offsets are from the CFA's register instead of the CFA: those of large frames on aarch64, which has
 *               both at the frame's lower end
 *   bits 8-23   the frame pointer's offset / 8
 *   bits 24-39  the return address's offset from the CFA / 8
 *   bits 40-63  the offset of the CFA / 8
 *
 * The CFA (canonical frame address) is the caller's stack pointer.
 */
enum unwind_kind {
    UNWIND_UNKNOWN = 1,
    UNWIND_END,    /* the outermost frame */
    UNWIND_SP,     /* CFA = stack pointer + offset */
    UNWIND_FP,     /* CFA = frame pointer + offset */
    UNWIND_FP_MEM, /* CFA = what lies at frame pointer + offset */
    UNWIND_SIGNAL, /* what a handler returns to: the kernel saved the registers (the guard's reports of faults) */
};
enum unwind_fp {
    UNWIND_FP_SAME,
    UNWIND_FP_CFA, /* the caller's is saved at CFA + offset, */
    UNWIND_FP_FP,  /* or at frame pointer + offset */
};
enum { UNWIND_SIGNED = 1 << 5, UNWIND_LINK = 1 << 6, UNWIND_LOW = 1 << 7 };

static inline enum unwind_kind unwind_kind(uint64_t rule)
{
    return (enum unwind_kind)(rule & 7);
}

static inline enum unwind_fp unwind_fp(uint64_t rule)
{
    return (enum unwind_fp)(rule >> 3 & 3);
}

static inline int64_t unwind_fp_at(uint64_t rule)
{
    return (int64_t)(int16_t)(rule >> 8) * 8;
}

static inline int64_t unwind_return_at(uint64_t rule)
{
    return (int64_t)(int16_t)(rule >> 24) * 8;
}

static inline int64_t unwind_cfa_at(uint64_t rule)
{
    return ((int64_t)rule >> 40) * 8;
}

/* Unwind tables of a file: its .eh_frame_hdr, and what may be read. */
struct unwind_tables {
    const unsigned char *header, *start, *end;
};

/* The rule of the instruction at `pc`, one before the address that a call returns to.  UNWIND_END where the tables
 * have nothing of it, as the compiler's unwinder has it.  Reads between start and end alone; pure. */
uint64_t unwind_rules_find(const struct unwind_tables *tables, uint64_t pc);

/* Where a frame stands. */
struct unwind_frame {
    uint64_t ip, sp, fp;
    uint64_t link;    /* aarch64: the register of return addresses, if the frame was interrupted */
    bool interrupted; /* by a signal: ip is the next instruction, not what a call returns to */
};

/* Frame of the function that this is in. */
static inline __attribute__((always_inline)) struct unwind_frame unwind_here(void)
{
    struct unwind_frame here = {0};

#if defined(__x86_64__)
    __asm__ volatile("mov %%rbp, %2\n\tmov %%rsp, %1\n\tlea 0f(%%rip), %0\n0:"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.fp));
#elif defined(__aarch64__)
    __asm__ volatile("mov %2, x29\n\tmov %1, sp\n\tadr %0, 0f\n0:"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.fp));
#endif
    return here;
}

/* Calls `visit` for the address of each frame, from `frame` on outwards, until it says false or the stack ends.
 * False: the walk ended early at a frame of which nothing is known.  Or it did not begin, on an unknown stack. */
bool unwind_walk(struct unwind_frame frame, bool (*visit)(uint64_t address, void *arg), void *arg);

#endif
