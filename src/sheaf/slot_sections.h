/* SPDX-License-Identifier: MIT */
/*
 * slot_sections.h - the sections on slots that only the library uses: several objects at once, close,
 * and defer; and what locked mode has instead of pop and push.  percpu/sections.h says what a section is made of.
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

/*
 * Locked mode.  No section of the process commits then, and caches show sections slot 0 (cache/cache.c), so that not even one
 * that is inlined, of a thread that the C library has registered, finds a slot.  A pop or a push closes the slot as a
 * taker does, moves what it moves by the same words, and opens it.  It is only ever tried: a thread that is preempted in between
 * makes others go to the slabs, as any closed slot does.  A thread keeps its CPU's number, wherever it runs, until it finds
 * the slot closed.
 */

/*
 * Closes a slot that is open and has a main sheaf, and returns where that begins; else NULL.  The thread asks anew which CPU
 * it is on if it found the slot closed.  On a machine with several nodes it also asks if there is none, or nothing to move:
 * a refill or a flush comes next, which goes by the thread's node.
 */
SECTION void **slot_enter(struct slot *slot)
{
    void **begin = atomic_load_explicit(&slot->begin, memory_order_relaxed);

    if (__builtin_expect(begin && begin != SLOT_CLOSED, 1) &&
        atomic_compare_exchange_strong_explicit(&slot->begin, &begin, SLOT_CLOSED,
                                                memory_order_acquire, memory_order_relaxed))
        return begin;
    if (begin == SLOT_CLOSED || topology.nodes > 1)
        percpu_kept = -1;
    return NULL;
}

/* Opens it, and stores the top that it has now. */
SECTION void slot_leave(struct slot *slot, void **begin, void **top, uint32_t moved)
{
    atomic_store_explicit(&slot->top, top, memory_order_relaxed);
    atomic_store_explicit(&slot->begin, begin, memory_order_release);
    if (__builtin_expect(moved == 0, 0) && topology.nodes > 1)
        percpu_kept = -1;
}

SECTION uint32_t slot_pop_locked(uintptr_t offset, void **objects, uint32_t want)
{
    struct slot *slot = percpu_slot_at(percpu_cpu(), offset);
    void **begin = slot_enter(slot), **top;

    if (!begin)
        return 0;
    top = atomic_load_explicit(&slot->top, memory_order_relaxed);
    if (want > top - begin)
        want = (uint32_t)(top - begin);
    top -= want;
    for (uint32_t i = 0; i < want; i++)
        objects[i] = top[i];
    slot_leave(slot, begin, top, want);
    return want;
}

/* A single object that repeats stays outside: sheaf/slot_free.c checks it, and reports it. */
SECTION uint32_t slot_push_locked(uintptr_t offset, void *const *objects, uint32_t have)
{
    struct slot *slot = percpu_slot_at(percpu_cpu(), offset);
    void **begin = slot_enter(slot), **top, **end;
    uint32_t k = 0;

    if (!begin)
        return 0;
    top = atomic_load_explicit(&slot->top, memory_order_relaxed);
    end = atomic_load_explicit(&slot->end, memory_order_relaxed);
    if (end <= top || (have == 1 && ((top - begin > 0 && top[-1] == objects[0]) ||
                                     (top - begin > 1 && top[-2] == objects[0]))))
        have = 0;
    else if (have > end - top)
        have = (uint32_t)(end - top);
    for (; k < have && objects[k]; k++)
        top[k] = objects[k];
    k = k == have ? k : 0; /* one of them is NULL */
    slot_leave(slot, begin, top + k, k);
    return k;
}

#endif
