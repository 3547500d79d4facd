/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - the per-CPU protocol: slots, the sections on them, and the process's mode.
 *
 * A CPU's area holds one slot a cache, at the cache's offset ([cpu][cache]).  A slot's `main`
 * points to the sheaf that pops and pushes work on.  Each section is written once, in the operations
 * of one table a machine (stook/sections.h, percpu/sections.h; behind a lock word: percpu/locked.h):
 * pop, push, pop_bulk, push_bulk and close work on slots, others on per-CPU rows (percpu/rows.h).
 * The rest are plain:
 *
 *   open:   slot.main = m, store-release, from any CPU; only by whoever closed the slot
 *   take:   slot.main: m -> closed by cmpxchg from any CPU; percpu_fence(cpu); only now read m
 *
 * Modes, fixed at start for the whole process (mixing them on one slot hands objects out twice):
 *   rseq    as above.  A thread that is not registered has CPU number -1 or -2 and never closes.
 *   locked  each slot has a lock word that is only ever tried, and its sheaf in `held`; `main` is
 *           never installed, so that the inlined fast path falls into the slow path by itself.
 *
 * Areas lie at a fixed stride in one mapping, for every CPU that may ever be and for -1 and -2.  They
 * begin as zero pages, and a slot whose `main` is NULL is open and has no sheaf: CPUs that the process
 * never runs on cost address space and nothing else.
 *
 * While a slot is closed only pointers move: no lock, no system call, no callback, and no memory
 * that could fault but the sheaves themselves.  Whoever meets a closed slot never waits.
 */
#ifndef STOOK_OS_PERCPU_H
#define STOOK_OS_PERCPU_H

#include "base/lock.h"
#include "os/topology.h"

#define STOOK_INLINE_NO_PIN /* the library is linked with -z nodelete; its tests stay loaded */
#include <stook/inline.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Offsets 8, 12 and 16 are known to the sections.  Sheaves, slots and caches begin at cache lines;
 * size is not where a slot or a cache has the word that the next section loads, or that load would
 * wait for the store of size whenever the two lie 4 KiB apart (0.4 ns a pair).
 */
struct sheaf {
    struct sheaf *next; /* in a barn: protected by the barn's lock */
    uint32_t size;
    uint32_t capacity;
    void *object[];
};
_Static_assert(offsetof(struct sheaf, size) == 8, "known to the sections");
_Static_assert(offsetof(struct sheaf, capacity) == 12, "known to the sections");
_Static_assert(offsetof(struct sheaf, object) == 16, "known to the sections");

/* Whether it is one of the two objects that came last: what comes back now was freed already. */
static inline bool sheaf_repeats(const struct sheaf *sheaf, const void *object)
{
    uint32_t n = sheaf->size;

    return (n > 0 && sheaf->object[n - 1] == object) || (n > 1 && sheaf->object[n - 2] == object);
}

struct slot {
    _Atomic(struct sheaf *) main; /* offset 0, known to the sections; NULL: open, no sheaf yet */
    struct sheaf *spare;          /* NULL or a sheaf; whoever closed the slot */
    struct sheaf *held;           /* rseq: main while taken (fork); locked: main, NULL for none */
    struct sheaf *rcu;            /* NULL or objects freed under readers; whoever closed the slot */
    _Atomic uint32_t lock;        /* locked mode: 1 closed */
    uint32_t fill;                /* objects the last refill brought; whoever closed the slot */
    uint32_t forking;             /* of slot_take_all(); the forking thread */
    uint32_t remote_size;         /* objects in all remote sheaves, for reports */
    struct sheaf *remote;         /* one a node: objects of other homes; whoever closed the slot */
    uint32_t wary; /* refills to come that stay within the capacity; whoever closed the slot */
    uint32_t reserved;
};
enum { SLOT_SHIFT = 6, SLOT_SIZE = 1 << SLOT_SHIFT };
_Static_assert(sizeof(struct slot) == SLOT_SIZE, "a slot is a cache line");

enum {
    PERCPU_AREA_SIZE = 1 << STOOK_AREA_SHIFT,
    PERCPU_RETRIES = 8,         /* aborted sections in a row before the slow path is taken */
    PERCPU_ROWS_UNKNOWN = 1024, /* where the kernel does not say how many CPUs there may be */
#ifdef STOOK_INLINE_SECTIONS
    PERCPU_HAS_SECTIONS = 1,
#else
    PERCPU_HAS_SECTIONS = 0,
#endif
#ifdef __x86_64__
    PERCPU_CLOSE_IS_FENCE = 1, /* a locked instruction orders all loads and stores */
#else
    PERCPU_CLOSE_IS_FENCE = 0,
#endif
};
_Static_assert(PERCPU_AREA_SIZE == STOOK_CACHES_MAX * SLOT_SIZE, "a slot a cache");

struct percpu {
    char *areas;          /* CPU 0's; CPU n's lies n areas behind it, from n = -2 on */
    intptr_t rseq_offset; /* from the thread pointer to its struct rseq (cpu_id at 4) */
    bool rseq;            /* the mode */
    bool wide;            /* the CPU has AVX2 */
    unsigned rows;        /* CPUs that have areas: all that the kernel may ever name */
    unsigned slots;       /* highest slot in use + 1; written under `lock` */
    struct lock lock;
    const char *why;         /* static: why this mode */
    _Atomic uint64_t fences; /* membarriers sent */
    uint64_t *isolated;      /* bit per CPU that no fence may interrupt, or NULL */
    /* enum percpu_use; changed under `lock`, so that fork sees all that were ever used. */
    _Atomic uint8_t used[TOPOLOGY_CPUS_MAX];
    _Atomic uint32_t
        look_every;       /* closings for an allocation on a CPU from look to look; 0: never */
    _Atomic bool strange; /* a CPU was met that the topology says is offline */
};

enum percpu_use {
    PERCPU_UNUSED,
    PERCPU_USED, /* a thread has closed a slot there */
    PERCPU_LEFT, /* so it was, but no thread may run there any more, and its sheaves went back */
};

enum {
    PERCPU_LOOK = 1024,    /* look_every, a power of two, as a rule … */
    PERCPU_LOOK_SOON = 64, /* … and while there is more to do */
};

extern struct percpu percpu __attribute__((visibility("hidden")));

/* The two sheaves that are none: read-only, size 0, capacity 0. */
extern const struct sheaf percpu_closed, percpu_none;
#define PERCPU_CLOSED ((struct sheaf *)(uintptr_t)&percpu_closed)
#define PERCPU_NONE ((struct sheaf *)(uintptr_t)&percpu_none)

/* Decides the mode.  Once, after topology_init(), before the first slot. */
void percpu_init(void);

/* Undoes percpu_init(), while no slot is in use and nobody else is in the library. */
void percpu_exit(void);

/* Slot `index` may be used from here on; it is open and without sheaves on every CPU. */
void percpu_slot_init(unsigned index);

/* The CPU this thread runs on, or states (topology.h); negative when it is not registered. */
int percpu_cpu(void);

/* The CPU in the struct rseq that lies so far behind the thread pointer: percpu.rseq_offset, where the
 * number is negative for threads that are not registered, and for all in locked mode. */
static inline __attribute__((always_inline)) int percpu_registered_cpu(intptr_t offset)
{
    const char *rseq = (const char *)__builtin_thread_pointer() + offset;

    return (int)*(const volatile int32_t *)(const void *)(rseq + 4);
}

/* The node whose barn a thread on that CPU uses; it may be elsewhere right after. */
static inline unsigned percpu_node(int cpu)
{
    return cpu < 0 ? (unsigned)__builtin_ctzll(topology.memory_nodes)
                   : topology_node((unsigned)cpu);
}

static inline uintptr_t percpu_offset(unsigned index)
{
    return (uintptr_t)index << SLOT_SHIFT;
}

/* A slot of any CPU, without touching it. */
static inline struct slot *percpu_slot_at(int cpu, uintptr_t offset)
{
    return (struct slot *)(void *)(percpu.areas + (intptr_t)cpu * PERCPU_AREA_SIZE + offset);
}

/* The slot of a CPU that somebody has used, or NULL. */
static inline struct slot *percpu_slot(unsigned cpu, uintptr_t offset)
{
    /* Pairs with the release that set it. */
    return atomic_load_explicit(&percpu.used[cpu], memory_order_acquire)
               ? percpu_slot_at((int)cpu, offset)
               : NULL;
}

/*
 * These four retry aborted sections; false/0 means: empty or full, or closed; or, to the bulk
 * push, that one of the pointers may be NULL.  `want` and `have` are above 0.
 */
bool percpu_pop(uintptr_t offset, void **object);
bool percpu_push(uintptr_t offset, void *object);
uint32_t percpu_pop_bulk(uintptr_t offset, void **objects, uint32_t want);
uint32_t percpu_push_bulk(uintptr_t offset, void *const *objects, uint32_t have);

/*
 * An allocation has found this CPU's main sheaf empty.  Every so often a scan for CPUs that have come or
 * gone is due (cache/upkeep.h): counted a CPU, in slot 0, which is no cache's.
 */
static inline void percpu_tick(int cpu, bool nospin)
{
    uint32_t every = atomic_load_explicit(&percpu.look_every, memory_order_relaxed), n;
    struct slot *nobodys;

    if (every == 0 || cpu < 0)
        return;
    nobodys = percpu_slot_at(cpu, 0);
    n = __atomic_load_n(&nobodys->fill, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&nobodys->fill, n, __ATOMIC_RELAXED); /* racy: one more or less */
    if (__builtin_expect((n & (every - 1)) == 0, 0) && !nospin)
        context_self()->due |= CONTEXT_DUE_SCAN;
}

/*
 * No thread may run on a CPU any more: its sheaves are about to be taken.  Whoever closes a slot there
 * afterwards makes it a used one again.  The other way round: not all of them could be taken.
 */
void percpu_leave(unsigned cpu);
void percpu_stay(unsigned cpu);

static inline enum percpu_use percpu_use_of(unsigned cpu)
{
    return (enum percpu_use)atomic_load_explicit(&percpu.used[cpu], memory_order_acquire);
}

/*
 * Closes this CPU's slot: its main sheaf (percpu_none perhaps), or NULL: it is closed, this thread is
 * not registered, its CPU is new and `nospin` forbids to wait, or it is offline (in a simulated
 * machine).  Only slots of CPUs that are marked as used are ever closed: a fork finds them all.
 */
struct sheaf *percpu_close(uintptr_t offset, struct slot **slot, bool nospin);

/* Opens a slot that this thread closed or took; what `held` said is over. */
void percpu_open(struct slot *slot, struct sheaf *main);

/*
 * Takes the slot of any CPU.  The sheaf returned may be read only after percpu_fence(cpu): until
 * then a section on that CPU may still commit to it.  NULL: it is closed, now or for good.
 */
struct sheaf *percpu_take(struct slot *slot);

/*
 * The main sheaf of any CPU's slot for counting (percpu_none perhaps), or NULL: it is closed.  With
 * sections the owner may go on meanwhile: sheaves are never unmapped, so a stale pointer reads an old
 * size, or what lies there now.  Where there are locks the slot's is held until percpu_unpeek().
 */
struct sheaf *percpu_peek(struct slot *slot);
void percpu_unpeek(struct slot *slot, struct sheaf *main);

/*
 * Aborts the sections running on `cpu`.  false: a tunable isolates that CPU, or the kernel refused
 * (a sandbox entered after start): what was taken there must be opened again unread.
 */
bool percpu_fence(unsigned cpu);
bool percpu_may_fence(unsigned cpu);

#endif
