/* SPDX-License-Identifier: MIT */
/*
 * slot_sections.h - the sections on slots that only the library uses: several objects at once, close,
 * and defer.  percpu/sections.h says what a section is made of.
 */
#ifndef STOOK_SHEAF_SLOT_SECTIONS_H
#define STOOK_SHEAF_SLOT_SECTIONS_H

#include "percpu/sections.h"
#include "sheaf/slot.h"

#ifdef STOOK_INLINE_SECTIONS

/*
 * pop bulk:   arm; cpu; slot; k = min(want, top - begin); leave unless top is above begin; copy the k pointers
 *             below top to the caller; top -= k                                       <- commits
 *
 * want is not 0.  n and k take the registers of slots and rseq, which nothing reads after the slot's
 * address is known.  A section that saves fewer registers of its caller is the faster one.
 */
SECTION enum rseq_result rseq_pop_bulk(const void *slots, intptr_t rseq, void **objects,
                                       uint32_t want, uint32_t *taken)
{
    uintptr_t m, n, k;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") STOOK_OP_ROW("m", "slots", STOOK_AREA_SHIFT)
            STOOK_OP_LOAD_GATE("n", "m", "0") OP_TAKE("k", "n", "want", "m", "8")
                OP_COPY_OUT("objects", "k") STOOK_OP_COMMIT("n", "m", "8") STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k)
        : [slots] "[n]"(slots), [rseq] "[k]"(rseq), [objects] "r"(objects), [want] "r"(want),
          OP_INPUT_WIDE
        : STOOK_OP_CLOBBERS OP_CLOBBERS_COPY "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*taken = (uint32_t)k);
}

/*
 * push bulk:  arm; cpu; slot; k = min(have, end - top); leave unless end is above top;
 *             copy k pointers to top, and leave if one of them could be NULL; top += k  <- commits
 *
 * have is not 0.  Registers are shared as in pop bulk.
 */
SECTION enum rseq_result rseq_push_bulk(const void *slots, intptr_t rseq, void *const *objects,
                                        uint32_t have, uint32_t *put)
{
    uintptr_t m, n, k;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") STOOK_OP_ROW("m", "slots", STOOK_AREA_SHIFT)
            STOOK_OP_LOAD_GATE("n", "m", "16") OP_FIT("k", "n", "have", "m", "8")
                OP_COPY_IN("objects", "k") STOOK_OP_COMMIT("n", "m", "8") STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k)
        : [slots] "[n]"(slots), [rseq] "[k]"(rseq), [objects] "r"(objects), [have] "r"(have),
          OP_INPUT_WIDE
        : STOOK_OP_CLOBBERS OP_CLOBBERS_COPY "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*put = (uint32_t)k);
}

/*
 * close:      arm; abort unless this is `cpu`, whose slot it is; if slot.begin is `closed` leave; slot.end = NULL;
 *             slot.begin: b -> closed, if it is not `closed`, else leave              <- commits
 *
 * When it is done the caller owns the slot until it opens it.  *begin is what it was, perhaps NULL.  The store of
 * `end` is no commit: it only ever sends pushes to the slow path.  If the section is aborted behind it, the next push
 * that finds no room closes the slot, sees room, and opens it.  Behind the commit it would be too late, since the closer
 * may be on another CPU by then, where it interrupts no push on the slot's.
 */
SECTION enum rseq_result rseq_close(void *slot, intptr_t rseq, int cpu, const void *closed,
                                    void **begin)
{
    void *m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") OP_ABORT_UNLESS_CPU("cpu") OP_LEAVE_IF_EQUAL("slot", "closed")
            OP_STORE_NULL("slot", "16") OP_COMMIT_SWAP("m", "slot", "closed")
                STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [slot] "r"(slot), [rseq] "r"(rseq), [cpu] "r"(cpu), [closed] "r"(closed)
        : STOOK_OP_CLOBBERS OP_CLOBBERS_SWAP "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*begin = m);
}

/*
 * defer:      arm; cpu; slot; if slot.begin is `closed` leave; m = slot.rcu; if there is none leave;
 *             n = m.size + 1; if n >= m.capacity leave; m.object[n-1] = o; m.size = n <- commits
 *
 * The thread that closes the slot has its rcu sheaf too; a taker from another CPU reads nothing of it
 * before a fence.  The last object of a sheaf is not put here, so one in a slot is never full: the
 * thread that puts the last one closes the slot and takes the sheaf away.  CPUs -1 and -2 have no rcu
 * sheaf, nor has slot 0, which stands in for a cache's while its calls are counted.
 */
SECTION enum rseq_result rseq_defer(const void *slots, intptr_t rseq, const void *closed,
                                    void *object)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") STOOK_OP_ROW("m", "slots", STOOK_AREA_SHIFT)
            OP_LEAVE_IF_EQUAL("m", "closed") STOOK_OP_LOAD("m", "m", "24")
                STOOK_OP_LEAVE_IF_NULL("m") STOOK_OP_LOAD32("n", "m", "8") STOOK_OP_INCREMENT("n")
                    STOOK_OP_LEAVE_UNLESS_BELOW("n", "m", "12")
                        STOOK_OP_STORE_ELEMENT("object", "m", "n", "8")
                            STOOK_OP_COMMIT32("n", "m", "8") STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed), [object] "r"(object)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

#else /* they all leave */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_pop_bulk, const void *slots, intptr_t rseq, void **objects, uint32_t want,
             uint32_t *taken)
SECTION_NONE(rseq_push_bulk, const void *slots, intptr_t rseq, void *const *objects, uint32_t have,
             uint32_t *put)
SECTION_NONE(rseq_close, void *slot, intptr_t rseq, int cpu, const void *closed, void **begin)
SECTION_NONE(rseq_defer, const void *slots, intptr_t rseq, const void *closed, void *object)
#pragma GCC diagnostic pop

#endif

#endif
