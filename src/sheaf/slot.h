/* SPDX-License-Identifier: MIT */
/*
 * slot.h - one CPU's part of one cache: the main and the spare sheaf, behind restartable sections.
 *
 * Pops and pushes work on the main sheaf (stook/sections.h; several at once, close and defer:
 * sheaf/slot_sections.h; so are those of locked mode).  The rest are plain:
 *
 *   open:   top, then end, then begin, each store-release; from any CPU; only by the thread that closed the slot
 *   take:   begin: b -> closed by cmpxchg from any CPU; end = NULL; percpu_fence(cpu); only now read top and the sheaf
 *   reopen: begin alone, of what was taken; pushes may have gone on, and this needs no fence
 *
 * While a slot is open its main sheaf's size says nothing: top does.  The thread that closes the slot writes the size,
 * and top when it opens it.  Other threads than this one and sections do not store top.
 *
 * An end that is not NULL is stored only by a thread that closed the slot by a section, or fenced.  Otherwise a close
 * that is under way on the slot's CPU, and has stored its NULL, would find the other thread's end in its closed slot.
 * An end that is NULL in an open slot is no error: close was aborted, or the fence refused.  The next push that meets it
 * closes the slot, sees room, and opens it.
 *
 * In rseq mode a thread that is not registered has CPU number -1 or -2 and never closes a slot.  In
 * locked mode each call takes the slot as a thread of another CPU does, and no section ever reads it.
 *
 * While a slot is closed only pointers move: no lock, no system call, no callback, and no memory
 * that could fault but the sheaves themselves.  A thread that meets a closed slot never waits.
 *
 * The slow halves of alloc and free: main and spare change places; when both are empty (full) one
 * travels to the barn and a full (empty) one comes back, fetched before the slot is closed.  With
 * two sheaves, put-then-get at a boundary does not bounce.
 *
 * A sheaf's capacity never changes, and no sheaf holds more.  The spare sheaf is full or empty.
 *
 * The sheaves' own capacities bound the objects that a CPU holds of a cache, not a budget: main and spare
 * hold a capacity each.  There is less than one remote sheaf for every other node with memory.
 */
#ifndef STOOK_SHEAF_SLOT_H
#define STOOK_SHEAF_SLOT_H

#include "percpu/percpu.h"
#include "sheaf/sheaf.h"

struct slot {
    /* Atomic; the sections know the offsets.  Of the main sheaf's array; all NULL: open, no sheaf. */
    _Atomic(void **) begin; /* SLOT_CLOSED: closed */
    _Atomic(void **) top;   /* behind the last object */
    _Atomic(void **) end;   /* behind the last place; NULL while it is closed */
    /* The thread that closed the slot; read racily for reports. */
    struct sheaf *rcu; /* 24; NULL or objects freed under readers; sections on this CPU add to it */
    struct sheaf *spare;  /* NULL, or a sheaf that is full or empty */
    struct sheaf *held;   /* main while taken (fork), else NULL */
    struct sheaf *remote; /* one a node: objects of other homes */
    uint16_t refused; /* objects to go to slabs before a barn, or memory, is asked (slot_free.c) */
    uint8_t swaps;    /* how often main and spare have changed places */
    /* Atomic. */
    _Atomic uint8_t forking; /* of slot_take_all(); written under percpu.lock */
};
_Static_assert(offsetof(struct slot, begin) == 0, "known to the sections");
_Static_assert(offsetof(struct slot, top) == 8, "known to the sections");
_Static_assert(offsetof(struct slot, end) == 16, "known to the sections");
_Static_assert(offsetof(struct slot, rcu) == 24, "known to the sections");
_Static_assert(sizeof(struct slot) == SLOT_SIZE, "a slot is a cache line");

/* What begin is in a closed slot: the highest address, so that no top is above it. */
#define SLOT_CLOSED ((void **)UINTPTR_MAX)

/*
 * Both retry aborted sections; 0 means: empty or full, or closed; or, to a push, that one of the pointers may be
 * NULL.  `want` and `have` are above 0.
 */
uint32_t slot_pop_bulk(uintptr_t offset, void **objects, uint32_t want);
uint32_t slot_push_bulk(uintptr_t offset, void *const *objects, uint32_t have);

/*
 * An allocation has found this CPU's main sheaf empty.  Every so often a scan for CPUs that have come or
 * gone is due (cache/upkeep.h): counted a CPU, in slot 0, which is no cache's.
 */
static inline void slot_tick(int cpu, bool nospin)
{
    uint32_t every = atomic_load_explicit(&percpu.scan_every, memory_order_relaxed);
    uint16_t n;

    if (every == 0 || cpu < 0)
        return;
    n = __atomic_add_fetch(&percpu_slot_at(cpu, 0)->refused, 1, __ATOMIC_RELAXED);
    if (__builtin_expect((n & (every - 1)) == 0, 0) && !nospin)
        context_self()->due |= CONTEXT_DUE_SCAN;
}

/*
 * Closes this CPU's slot and returns its main sheaf (sheaf_none perhaps).  NULL: the slot is closed already,
 * or this thread is not registered.  Or its CPU is new and `nospin` forbids to wait, or is offline (in a
 * simulated machine).  Only slots of CPUs that are marked as used are ever closed: a fork finds them all.
 */
struct sheaf *slot_close(uintptr_t offset, struct slot **slot, bool nospin);

/* Opens a slot that this thread closed, or took and fenced, and clears `held`. */
void slot_open(struct slot *slot, struct sheaf *main);

/*
 * Takes the slot of any CPU.  `whole`: pushes end, too, and the sheaf returned may be read after percpu_fence(cpu), and
 * its size after slot_taken(): until then a section on that CPU may still commit to it.  NULL: it is closed, now or for good.
 */
struct sheaf *slot_take(struct slot *slot, bool whole);
/* Behind the fence: the main sheaf of a slot that this thread took, with its size. */
struct sheaf *slot_taken(struct slot *slot);
/* Opens a slot that this thread took, with the sheaf that it had; no fence is needed. */
void slot_reopen(struct slot *slot);

/*
 * Takes n objects, or fewer with errno ENOMEM: from this CPU's sheaves, the barn, the slabs.
 * `nospin`: locks are only tried.
 */
uint32_t slot_alloc(struct stook_cache *cache, void **objects, uint32_t n, bool nospin);
/* Takes n objects back, skipping NULL entries; changes the array.  Cannot fail. */
void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin);

#endif
