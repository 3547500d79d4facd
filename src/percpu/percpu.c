/* SPDX-License-Identifier: MIT */
#include "percpu/percpu.h"

#include "base/report.h"
#include "os/os.h"
#include "os/topology.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
#define PERCPU_HAS_SECTIONS 1
#include "percpu/rseq.h"
#else
#define PERCPU_HAS_SECTIONS 0
#endif
#include "percpu/locked.h"

struct percpu percpu;
const struct sheaf percpu_closed = {0};
const struct sheaf percpu_none = {0};

/* glibc 2.35 and later; absent elsewhere. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* Stands in for a struct rseq where there is none: its cpu_id says "not registered". */
static __thread struct {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, reserved[3];
} percpu_unregistered
    __attribute__((aligned(32), tls_model("initial-exec"))) = {.cpu_id = (uint32_t)-1};

enum { /* linux/membarrier.h since 5.10 */
       MEMBARRIER_QUERY = 0,
       MEMBARRIER_RSEQ = 1 << 7,
       MEMBARRIER_REGISTER_RSEQ = 1 << 8,
       MEMBARRIER_FLAG_CPU = 1,
};

static long percpu_membarrier(int command, unsigned flags, int cpu)
{
    int saved = errno;
    long r = syscall(SYS_membarrier, command, flags, cpu);

    errno = saved;
    return r;
}

#if PERCPU_HAS_SECTIONS
static int percpu_registered_cpu(intptr_t offset)
{
    int32_t cpu;

#if defined(__aarch64__)
    uintptr_t self;

    __asm__ __volatile__("mrs %1, tpidr_el0\n\t"
                         "add %1, %1, %2\n\t"
                         "ldr %w0, [%1, #4]"
                         : "=r"(cpu), "=&r"(self)
                         : "r"(offset));
#else
    __asm__ __volatile__("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(offset));
#endif
    return cpu;
}
#endif

/* NULL when the rseq way can be gone, else why not. */
static const char *percpu_refusal(void)
{
    if (topology.simulated)
        return "the topology is simulated";
#if PERCPU_HAS_SECTIONS
    const char *mode = os_getenv("STOOK_MODE");

    if (mode && strcmp(mode, "locked") == 0)
        return "STOOK_MODE=locked asks for it";
    if (!&__rseq_offset || !&__rseq_size)
        return "the C library does not register rseq";
    if (__rseq_size == 0 || percpu_registered_cpu(__rseq_offset) < 0)
        return "the C library has rseq switched off, or the kernel refused it";
    long commands = percpu_membarrier(MEMBARRIER_QUERY, 0, 0);
    if (commands < 0 || !(commands & MEMBARRIER_RSEQ))
        return "the kernel has no membarrier for rseq, or a sandbox forbids it";
    if (percpu_membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0) != 0)
        return "registering for membarrier was refused";
    return NULL;
#else
    return "built without rseq sections";
#endif
}

static void percpu_isolate(unsigned cpu, void *set)
{
    ((uint64_t *)set)[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

/*
 * The sections take whatever CPU number the kernel gives: every CPU this thread may run on has a
 * row, should sysfs (a container's imitation) say less.
 */
static unsigned percpu_rows(void)
{
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[TOPOLOGY_CPUS_MAX / BITS];
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    unsigned rows = topology.cpus;

    if (topology.simulated)
        return rows;
    for (unsigned i = 0; bytes > 0 && i < (unsigned)bytes * 8; i++)
        if (i >= rows && (mask[i / BITS] >> i % BITS & 1))
            rows = i + 1;
    return rows;
}

static void percpu_fill_page(char *page)
{
    for (unsigned i = 0; i < 4096 / SLOT_SIZE; i++)
        atomic_init(&((struct slot *)(void *)(page + i * SLOT_SIZE))->main, PERCPU_NONE);
}

/* A sealed file of one area of slots without sheaves; -1 where there is none to be had. */
static int percpu_initial_file(void)
{
    char page[4096] __attribute__((aligned(SLOT_SIZE))) = {0};
    int fd = os_file(PERCPU_AREA_SIZE);
    struct iovec pages[PERCPU_AREA_SIZE / sizeof(page)];

    percpu_fill_page(page);
    for (size_t i = 0; i < PERCPU_AREA_SIZE / sizeof(page); i++)
        pages[i] = (struct iovec){page, sizeof(page)};
    if (fd >= 0 && pwritev(fd, pages, PERCPU_AREA_SIZE / sizeof(page), 0) != PERCPU_AREA_SIZE) {
        close(fd);
        return -1;
    }
    return fd >= 0 ? os_file_seal(fd) : -1;
}

static void percpu_init_areas(void)
{
    size_t size = ((size_t)percpu.rows + 2) * PERCPU_AREA_SIZE;
    char *base = os_reserve(size, PERCPU_AREA_SIZE);
    int fd = percpu_initial_file();

    if (!base)
        report_fatal("no address space for the per-CPU areas (%zu MiB)", size >> 20);
    percpu.areas = base + 2 * (size_t)PERCPU_AREA_SIZE;
    for (size_t at = 0; at < size && fd >= 0; at += PERCPU_AREA_SIZE)
        if (!os_file_map(base + at, PERCPU_AREA_SIZE, fd)) {
            close(fd);
            fd = -1;
        } else { /* most programs have no more caches than fit its first page */
            os_set_apart(base + at, 4096);
        }
    if (fd >= 0) {
        close(fd);
        return;
    }
    percpu.filled = true;
    if (!os_renew(base, size))
        report_fatal("no memory for the per-CPU areas (%zu MiB)", size >> 20);
}

void percpu_init(void)
{
    const char *refusal = percpu_refusal(), *isolated = os_getenv("STOOK_ISOLATED_CPUS");

    percpu.rows = percpu_rows();
    percpu_init_areas();
    percpu.rseq = refusal == NULL;
    percpu.look_every = topology.simulated ? 0 : PERCPU_LOOK;
    percpu.why = refusal ? refusal : "rseq and membarrier are there";
#if PERCPU_HAS_SECTIONS
#if defined(__x86_64__)
    __builtin_cpu_init();
    percpu.wide = __builtin_cpu_supports("avx2");
#endif
    if (percpu.rseq)
        percpu.rseq_offset = __rseq_offset;
    else
#endif
        percpu.rseq_offset = (char *)&percpu_unregistered - (char *)__builtin_thread_pointer();
    if (isolated && (percpu.isolated = os_map(TOPOLOGY_CPUS_MAX / 8)) != NULL &&
        topology_parse_list(isolated, percpu_isolate, percpu.isolated) < 0)
        report_warn("STOOK_ISOLATED_CPUS=%s is no list of CPUs", isolated);
    percpu_slot_init(0); /* nobody's: what is in no slab falls into the slow path */
}

void percpu_exit(void)
{
    os_unmap(percpu.areas - 2 * (size_t)PERCPU_AREA_SIZE,
             ((size_t)percpu.rows + 2) * PERCPU_AREA_SIZE);
    if (percpu.isolated)
        os_unmap(percpu.isolated, TOPOLOGY_CPUS_MAX / 8);
    memset(&percpu, 0, sizeof(percpu));
}

void percpu_child(void)
{
    if (percpu.rseq)
        (void)percpu_membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0);
}

int percpu_cpu(void)
{
#if PERCPU_HAS_SECTIONS
    if (percpu.rseq) {
        int registered = percpu_registered_cpu(percpu.rseq_offset);
        return registered < (int)percpu.rows ? registered : -1;
    }
#endif
    int cpu = topology.simulated ? (int)topology_cpu() : sched_getcpu();
    return cpu < (int)percpu.rows ? cpu : -1;
}

void percpu_slot_init(unsigned index)
{
    lock_take(&percpu.lock, LOCK_PERCPU);
    if (index >= percpu.slots) {
        size_t from = (percpu_offset(percpu.slots) + 4095) & ~(size_t)4095;
        size_t end = percpu_offset(index + 1);
        for (; percpu.filled && from < end; from += 4096)
            for (int cpu = -2; cpu < (int)percpu.rows; cpu++)
                percpu_fill_page(percpu.areas + (intptr_t)cpu * PERCPU_AREA_SIZE + from);
        percpu.slots = index + 1;
    }
    lock_drop(&percpu.lock, LOCK_PERCPU);
}

/*
 * The first closing on a CPU, or the first since it was left: under the lock, so that a fork under way
 * is waited for.
 */
static bool percpu_use(unsigned cpu, bool nospin)
{
    bool online = topology_is_online(&topology, cpu);

    if ((topology.simulated && !online) || !lock_enter(&percpu.lock, LOCK_PERCPU, nospin))
        return false;
    atomic_store(&percpu.used[cpu], PERCPU_USED);
    lock_drop(&percpu.lock, LOCK_PERCPU);
    if (!online) { /* it was made after the topology was read */
        atomic_store_explicit(&percpu.strange, true, memory_order_relaxed);
        if (atomic_load_explicit(&percpu.look_every, memory_order_relaxed) > 0)
            atomic_store_explicit(&percpu.look_every, PERCPU_LOOK_SOON, memory_order_relaxed);
    }
    return true;
}

static bool percpu_in_use(unsigned cpu)
{
    return percpu_use_of(cpu) == PERCPU_USED;
}

static void percpu_change_use(unsigned cpu, enum percpu_use from, enum percpu_use to)
{
    uint8_t expected = (uint8_t)from;

    lock_take(&percpu.lock, LOCK_PERCPU);
    /* Sequentially consistent, as the closings that follow: either who closes finds the CPU left, or
     * who takes the slot finds it closed. */
    atomic_compare_exchange_strong(&percpu.used[cpu], &expected, (uint8_t)to);
    lock_drop(&percpu.lock, LOCK_PERCPU);
}

void percpu_leave(unsigned cpu)
{
    percpu_change_use(cpu, PERCPU_USED, PERCPU_LEFT);
}

void percpu_stay(unsigned cpu)
{
    percpu_change_use(cpu, PERCPU_LEFT, PERCPU_USED);
}

bool percpu_pop(uintptr_t offset, void **object)
{
#if PERCPU_HAS_SECTIONS
    if (percpu.rseq)
        return percpu_pop_bulk(offset, object, 1) == 1;
#endif
    return locked_pop_bulk(percpu_cpu(), offset, object, 1) == 1;
}

bool percpu_push(uintptr_t offset, void *object)
{
    return percpu_push_bulk(offset, &object, 1) == 1;
}

uint32_t percpu_pop_bulk(uintptr_t offset, void **objects, uint32_t want)
{
#if PERCPU_HAS_SECTIONS
    if (percpu.rseq) {
        uint32_t taken;
        for (int i = 0; i < PERCPU_RETRIES; i++) {
            enum rseq_result r =
                rseq_pop_bulk(percpu.areas + offset, percpu.rseq_offset, objects, want, &taken);
            if (r != RSEQ_ABORTED)
                return r == RSEQ_DONE ? taken : 0;
        }
        return 0;
    }
#endif
    return locked_pop_bulk(percpu_cpu(), offset, objects, want);
}

uint32_t percpu_push_bulk(uintptr_t offset, void *const *objects, uint32_t have)
{
#if PERCPU_HAS_SECTIONS
    if (percpu.rseq) {
        uint32_t put;
        for (int i = 0; i < PERCPU_RETRIES; i++) {
            enum rseq_result r =
                rseq_push_bulk(percpu.areas + offset, percpu.rseq_offset, objects, have, &put);
            if (r != RSEQ_ABORTED)
                return r == RSEQ_DONE ? put : 0;
        }
        return 0;
    }
#endif
    return locked_push_bulk(percpu_cpu(), offset, objects, have);
}

#if PERCPU_HAS_SECTIONS
static int percpu_cpu_of(const void *slot)
{
    return (int)(((const char *)slot - percpu.areas) >> STOOK_AREA_SHIFT);
}
#endif

struct sheaf *percpu_close(uintptr_t offset, struct slot **slot, bool nospin)
{
    int cpu = percpu_cpu();
    struct sheaf *held;

    if (cpu < 0 || (!percpu_in_use((unsigned)cpu) && !percpu_use((unsigned)cpu, nospin)))
        return NULL;
#if PERCPU_HAS_SECTIONS
    if (percpu.rseq) {
        for (int i = 0; i < PERCPU_RETRIES; i++) {
            void *at, *main;
            enum rseq_result r =
                rseq_close(percpu.areas + offset, percpu.rseq_offset, PERCPU_CLOSED, &at, &main);
            if (r == RSEQ_DONE && percpu_in_use((unsigned)percpu_cpu_of(at))) {
                *slot = at;
                return main;
            }
            /* Migrated before the section to a CPU that nobody has used, or it was left meanwhile. */
            if (r == RSEQ_DONE) {
                percpu_open(at, main);
                if (!percpu_use((unsigned)percpu_cpu_of(at), nospin))
                    return NULL;
                continue;
            }
            if (r == RSEQ_LEFT)
                return NULL;
        }
        return NULL;
    }
#endif
    held = locked_close((unsigned)cpu, offset, slot);
    if (held && !percpu_in_use((unsigned)cpu)) { /* left meanwhile */
        percpu_open(*slot, held);
        return NULL;
    }
    return held;
}

void percpu_open(struct slot *slot, struct sheaf *main)
{
    if (percpu.rseq) {
        slot->held = NULL;
        /* What the sheaf holds was written before; pairs with the dependent loads of a section. */
        atomic_store_explicit(&slot->main, main, memory_order_release);
        return;
    }
    locked_open(slot, main);
}

struct sheaf *percpu_take(struct slot *slot)
{
    if (percpu.rseq) {
        struct sheaf *main = atomic_load_explicit(&slot->main, memory_order_relaxed);
        do {
            if (main == PERCPU_CLOSED)
                return NULL;
        } while (!atomic_compare_exchange_weak_explicit(
            &slot->main, &main, PERCPU_CLOSED, memory_order_acq_rel, memory_order_relaxed));
        slot->held = main;
        return main;
    }
    return locked_take(slot);
}

bool percpu_may_fence(unsigned cpu)
{
    return !percpu.isolated || !(percpu.isolated[cpu / 64] >> cpu % 64 & 1);
}

bool percpu_fence(unsigned cpu)
{
    if (!percpu.rseq)
        return true;
    if (!percpu_may_fence(cpu))
        return false;
    atomic_fetch_add_explicit(&percpu.fences, 1, memory_order_relaxed);
    /* A CPU that is offline is no error.  All CPUs: a kernel that does not know FLAG_CPU. */
    return percpu_membarrier(MEMBARRIER_RSEQ, MEMBARRIER_FLAG_CPU, (int)cpu) == 0 ||
           percpu_membarrier(MEMBARRIER_RSEQ, 0, 0) == 0;
}
