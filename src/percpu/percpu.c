/* SPDX-License-Identifier: MIT */
/*
 * percpu.c - chooses the mode of the process, maps the per-CPU areas, and interrupts sections by membarrier.
 * registration.c has the struct rseq of each thread.
 */
#include "percpu/percpu.h"

#include "base/parse.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"
#include "base/settings.h"
#include "os/os.h"
#include "os/topology.h"

#include <string.h>
#if defined(__x86_64__) && __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#pragma weak __x86_get_cpuid_feature_leaf /* glibc 2.33 */
#endif

struct percpu percpu HEAD_BSS;
const char *percpu_refused;
__thread int percpu_kept = -1;

enum { /* linux/membarrier.h since 5.10 */
       MEMBARRIER_QUERY = 0,
       MEMBARRIER_RSEQ = 1 << 7,
       MEMBARRIER_REGISTER_RSEQ = 1 << 8,
       MEMBARRIER_FLAG_CPU = 1,
};

enum { PERCPU_ASKED_LOCKED = 1 }; /* of the words of STOOK_MODE */

/* Whether the process can use sections; says why it can, or why it cannot. */
static bool percpu_can_use_sections(const char **why)
{
    long commands;

    if (percpu_refused)
        *why = percpu_refused;
    else if (!PERCPU_HAS_SECTIONS)
        *why = "built without rseq sections";
    else if (setting_number(SETTING_MODE) == PERCPU_ASKED_LOCKED)
        *why = "STOOK_MODE=locked asks for it";
    else if ((commands = raw_result(SYS_membarrier, MEMBARRIER_QUERY, 0, 0)) < 0 ||
             !(commands & MEMBARRIER_RSEQ))
        *why = "the kernel has no membarrier for rseq, or a sandbox forbids it";
    else
        return registration_find(&percpu.rseq_offset, why);
    registration_drop();
    return false;
}

/* Whether copies may use AVX2: as the C library found, since CPUID is slow in a virtual machine. */
static bool percpu_is_wide(void)
{
#if defined(__x86_64__) && __has_include(<sys/platform/x86.h>)
    return __x86_get_cpuid_feature_leaf && CPU_FEATURE_ACTIVE(AVX2);
#else
    return false;
#endif
}

/*
 * The digits of the kernel's masks, each of which stands for 4 CPUs, where these are as long as its CPU numbers need: a
 * mask in binary has a multiple of 64 bits.
 */
static __attribute__((cold, noinline)) unsigned percpu_count_digits(void)
{
    static const char name[] = "\nCpus_allowed:\t";
    char status[2048], *digit;
    unsigned digits = 0;

    if (os_read_file("/proc/self/status", status, sizeof(status)) < 0 ||
        !(digit = strstr(status, name)))
        return UINT32_MAX;
    for (digit += sizeof(name) - 1; *digit && *digit != '\n'; digit++)
        digits += *digit != ',';
    return *digit && digits > 0 ? digits * 4 : UINT32_MAX;
}

/*
 * The sections take whatever CPU number the kernel gives, and sysfs (a container's imitation) may say too little.  Under a
 * limit, areas of CPUs that cannot be would be most of the address space that a process starts with.
 */
static unsigned percpu_count_rows(void)
{
    unsigned rows = topology.mask_cpus > 0 ? topology.mask_cpus : PERCPU_ROWS_UNKNOWN;
    bool limited = os_space_limit < SIZE_MAX || os_is_data_limited;
    unsigned digits = limited ? percpu_count_digits() : UINT32_MAX;

    rows = digits < rows ? digits : rows;
    return topology.simulated || rows < topology.cpus ? topology.cpus : rows;
}

/* One mapping for all rows.  Huge pages would make the areas of CPUs that are hardly used resident. */
void percpu_map(void)
{
    size_t size = ((size_t)percpu.rows + 2) * PERCPU_AREA_SIZE;
    char *base = os_map_own(size);

    if (!base)
        report_fatal("no memory for the per-CPU areas (%zu MiB)", size >> 20);
    percpu.areas = base + 2 * (size_t)PERCPU_AREA_SIZE;
}

void percpu_init(void)
{
    const char *isolated = setting_text(SETTING_ISOLATED_CPUS);

    percpu.rseq = percpu_can_use_sections(&percpu.why);
    if (!percpu.rseq)
        percpu.rseq_offset = registration_own();
    os_read_limits();
    percpu.rows = percpu_count_rows();
    percpu.scan_every = topology.simulated ? 0 : PERCPU_SCAN;
    percpu.wide = percpu_is_wide();
    if (isolated && (percpu.isolated = os_map(TOPOLOGY_CPUS_MAX / 8)) != NULL)
        (void)parse_list(isolated, TOPOLOGY_CPUS_MAX, percpu.isolated);
    percpu_slot_init(0); /* no cache's: what is in no slab falls into the slow path */
}

FIRST_TEXT int percpu_cpu_odd(int cpu)
{
    if (cpu < 0 && percpu.rseq) {
        (void)registration_add();
        cpu = registration_cpu(percpu.rseq_offset);
    } else if (cpu < 0 && percpu.rows > 0) { /* at the start none has an area */
        cpu = percpu_cpu_asked();
        percpu_kept = topology.simulated ? -1 : cpu;
    }
    return cpu < (int)percpu.rows ? cpu : -1;
}

void percpu_slot_init(unsigned index)
{
    lock_take(&percpu.lock, LOCK_PERCPU);
    if (index >= percpu.slots)
        percpu.slots = index + 1;
    lock_drop(&percpu.lock, LOCK_PERCPU);
}

bool percpu_use(unsigned cpu, bool nospin)
{
    bool online = topology_is_online(&topology, cpu);

    if ((topology.simulated && !online) || !lock_enter(&percpu.lock, LOCK_PERCPU, nospin))
        return false;
    atomic_store(&percpu.used[cpu], PERCPU_USED);
    lock_drop(&percpu.lock, LOCK_PERCPU);
    if (!online) { /* it was made after the topology was read */
        atomic_store_explicit(&percpu.strange, true, memory_order_relaxed);
        if (atomic_load_explicit(&percpu.scan_every, memory_order_relaxed) > 0)
            atomic_store_explicit(&percpu.scan_every, PERCPU_SCAN_SOON, memory_order_relaxed);
    }
    return true;
}

__attribute__((cold)) void percpu_change_use(unsigned cpu, enum percpu_use from, enum percpu_use to)
{
    uint8_t expected = (uint8_t)from;

    lock_take(&percpu.lock, LOCK_PERCPU);
    /* Sequentially consistent, as the closings that follow: either the closing thread finds the
     * CPU left, or the thread that takes the slot finds it closed. */
    atomic_compare_exchange_strong(&percpu.used[cpu], &expected, (uint8_t)to);
    lock_drop(&percpu.lock, LOCK_PERCPU);
}

bool percpu_may_fence(unsigned cpu)
{
    return !percpu.isolated || !(percpu.isolated[cpu / 64] >> cpu % 64 & 1);
}

__attribute__((cold)) bool percpu_fence(unsigned cpu)
{
    if (!percpu.rseq)
        return true;
    if (!percpu_may_fence(cpu))
        return false;
    atomic_fetch_add_explicit(&percpu.fences, 1, memory_order_relaxed);
    if (raw_result(SYS_membarrier, MEMBARRIER_RSEQ, MEMBARRIER_FLAG_CPU, cpu) == 0)
        return true;
    /*
     * The process's first fence registers, so that programs that never need one make no such call.
     * A CPU that is offline is no error.  All CPUs: a kernel that does not know FLAG_CPU.
     */
    (void)raw_result(SYS_membarrier, MEMBARRIER_REGISTER_RSEQ, 0, 0);
    return raw_result(SYS_membarrier, MEMBARRIER_RSEQ, MEMBARRIER_FLAG_CPU, cpu) == 0 ||
           raw_result(SYS_membarrier, MEMBARRIER_RSEQ, 0, 0) == 0;
}
