/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - memory of each CPU that sections change, and the mode of the process.
 *
 * A section runs from its BEGIN to its commit, one store, which is its last instruction.  If a
 * thread is preempted, migrated or gets a signal in between, the kernel sends it to the section's abort exit.
 * It checks the signature in front of that exit before.  membarrier (percpu_fence) does the same to the sections
 * that run on a CPU.  Until the commit a section may write only memory that no other thread reads yet.
 *
 * A port to another architecture is two tables of operations, and their names in three places.
 *   include/stook/arch/ops_ARCH.h   of pop and push; compiled into programs
 *   src/percpu/ops_ARCH.h           of all other sections
 *   stook/inline.h names the machine, stook/sections.h and percpu/sections.h include its tables,
 *   CMakeLists.txt has it in rseq_default.  sheaf/slot.c: whether a swap is a full fence.
 *
 *   operation                        must give
 *   BEGIN                            arms by its last instruction: a plain store of the descriptor
 *   LOAD*, LEAVE_IF_NULL, LEAVE_     no order: what a section reads or writes has its address from a
 *     UNLESS_*, ADD, TAKE*, FIT,       word that it loaded, and that orders them
 *     PUT_AT, COPY, STORE_NULL
 *   LOAD_GATE, LEAVE_IF_EQUAL,       acquire: what the section reads next is not found through it
 *     LEAVE_UNLESS_EQUAL32
 *   COMMIT, COMMIT32, COMMIT_ADD     no order; one aligned store of 4 or 8 bytes
 *   COMMIT_SWAP                      acquire; indivisible to other CPUs; whether it stored is told by a
 *                                      register or by flags, since nothing may stand behind it
 *   COMMIT_ADD_TWO                   release; 16 bytes in one store that is done or not, or else it leaves
 *   END                              abort exit behind the signature; both exits reach any label
 *
 * Tests of a port: tests/scripts/test_port.py (each operation, under qemu-user).  On a kernel of that kind then
 * unit.percpu*, unit.rows_steps and unit.stock_steps (a stop at every instruction), stress.percpu_storm, and
 * stress.percpu_violations (each rule broken must be seen).
 *
 * Modes, fixed at start for the whole process (both on one slot would hand objects out twice):
 *   rseq    sections.  A thread that is not registered has CPU number -1 or -2: no section of it commits, it
 *           closes no slot, and its objects go to the barn and the slabs.  So it needs no agreement with the
 *           sections of other threads: whatever it takes (a drain), it takes as every thread does.
 *   locked  no section commits; atomic instructions do their work.
 *
 * A CPU's area holds one slot a cache, at the cache's offset ([cpu][cache]); only sheaf/slot.h knows the
 * contents of a slot.  Areas lie at a fixed stride in one mapping, for every CPU that may ever be and for
 * -1 and -2.  They begin as zero pages: CPUs that the process never runs on cost address space alone.
 * Words of rows (percpu/rows.h) lie a row a CPU apart instead.
 */
#ifndef STOOK_PERCPU_PERCPU_H
#define STOOK_PERCPU_PERCPU_H

#include "base/lock.h"
#include "os/topology.h"
#include "percpu/registration.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slot; /* sheaf/slot.h */
enum { SLOT_SHIFT = 6, SLOT_SIZE = 1 << SLOT_SHIFT };

enum {
    PERCPU_AREA_SIZE = 1 << STOOK_AREA_SHIFT,
    PERCPU_RETRIES = 8,         /* aborted sections in a row before the slow path is taken */
    PERCPU_ROWS_UNKNOWN = 1024, /* where the kernel does not say how many CPUs there may be */
#ifdef STOOK_INLINE_SECTIONS
    PERCPU_HAS_SECTIONS = 1,
#else
    PERCPU_HAS_SECTIONS = 0,
#endif
};
_Static_assert(PERCPU_AREA_SIZE == STOOK_CACHES_MAX * SLOT_SIZE, "a slot a cache");

struct percpu {
    /* Constant after percpu_init(), and percpu_map(). */
    char *areas;          /* CPU 0's; CPU n's lies n areas behind it, from n = -2 on */
    intptr_t rseq_offset; /* from the thread pointer to its struct rseq; -1 in it in locked mode */
    bool rseq;            /* the mode */
    bool wide;            /* the CPU has AVX2 */
    unsigned rows;        /* CPUs that have areas: all that the kernel may ever name */
    const char *why;      /* static: why this mode */
    uint64_t *isolated;   /* bit per CPU that no fence may interrupt, or NULL */
    /* Under the lock. */
    struct lock lock; /* LOCK_PERCPU */
    unsigned slots;   /* highest slot in use + 1 */
    /* Atomic. */
    _Atomic uint64_t fences; /* membarriers sent */
    _Atomic uint32_t
        scan_every;       /* closings for an allocation on a CPU from look to look; 0: never */
    _Atomic bool strange; /* a CPU was met that the topology says is offline */
    /* Atomic; stored under the lock, so that fork sees all CPUs that were ever used. */
    _Atomic uint8_t used[TOPOLOGY_CPUS_MAX]; /* enum percpu_use */
};

enum percpu_use {
    PERCPU_UNUSED,
    PERCPU_USED, /* a thread has closed a slot there */
    PERCPU_LEFT, /* so it was, but no thread may run there any more, and its sheaves went back */
};

enum {
    PERCPU_SCAN = 1024,    /* scan_every, a power of two, as a rule … */
    PERCPU_SCAN_SOON = 64, /* … and while there is more to do */
};

extern struct percpu percpu __attribute__((visibility("hidden")));

/* Static, set before percpu_init(): why there may be no sections, whatever the kernel says.  NULL: they may be. */
extern const char *percpu_refused __attribute__((visibility("hidden")));

/* Decides the mode.  Once, after topology_init(). */
void percpu_init(void);
/* Maps the areas: once, behind it, before the first slot. */
void percpu_map(void);

/* Slot `index` may be used from here on; it is open and without sheaves on every CPU. */
void percpu_slot_init(unsigned index);

/*
 * Locked mode: the CPU whose slots this thread uses, wherever it runs.  The thread asks for its CPU once, and again
 * when it has found a slot taken (sheaf/slot.c).  -1: it asks at the next call, as threads of a simulated
 * machine always do.
 */
extern __thread int percpu_kept __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The CPU now: what the C library says, else the kernel.  Of a simulated machine: what the thread states. */
int percpu_cpu_asked(void);

/* The same of a number that is no CPU's with areas. */
int percpu_cpu_odd(int cpu);

/* The CPU this thread runs on, states, or has kept; negative when it is not registered, nor can be. */
static inline int percpu_cpu(void)
{
    int cpu = percpu.rseq ? registration_cpu(percpu.rseq_offset) : percpu_kept;

    return __builtin_expect((unsigned)cpu < percpu.rows, 1) ? cpu : percpu_cpu_odd(cpu);
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

/* The slot of a CPU that a thread has used, or NULL. */
static inline struct slot *percpu_slot(unsigned cpu, uintptr_t offset)
{
    /* Pairs with the release that set it. */
    return atomic_load_explicit(&percpu.used[cpu], memory_order_acquire)
               ? percpu_slot_at((int)cpu, offset)
               : NULL;
}

/*
 * From USED to LEFT: no thread may run on the CPU any more, and its sheaves are about to be taken.  A thread that closes a
 * slot there afterwards makes it a used CPU again.  And back: not all of them could be taken.
 */
void percpu_change_use(unsigned cpu, enum percpu_use from, enum percpu_use to);

/* A CPU on which a slot is about to be closed, for the first time or since it was left: under the lock, so
 * not beside a fork.  False: `nospin` forbids to wait, or it is offline (in a simulated machine). */
bool percpu_use(unsigned cpu, bool nospin);

static inline enum percpu_use percpu_use_of(unsigned cpu)
{
    return (enum percpu_use)atomic_load_explicit(&percpu.used[cpu], memory_order_acquire);
}

/*
 * Aborts the sections running on `cpu`.  false: a tunable isolates that CPU, or the kernel refused
 * (a sandbox entered after start).  Then slots that were taken there must be opened again unread.
 */
bool percpu_fence(unsigned cpu);
bool percpu_may_fence(unsigned cpu);

#endif
