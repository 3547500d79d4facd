/* SPDX-License-Identifier: MIT */
/*
 * idle.c - forgets the warm limit that a zone has learned (page/zone_warm.c) once the program has taken few pages of the
 * zone for a second.  From then on each call here gives some of the warm pages back, down to where the limit began.
 *
 * A free that leaves warm pages says so (CONTEXT_DUE_WARM), and the slow allocations of that thread come here.  So a
 * program that makes no call keeps what it has learned to need.
 *
 * The time is CLOCK_MONOTONIC_COARSE: the kernel writes it into the memory of each process, and the vDSO reads it there.
 * That is no system call and no read of the processor's counter, both of which a process may be denied.  Without a vDSO
 * nothing is forgotten here.
 */
#include "reserve/idle.h"

#include "base/context.h"
#include "base/placed.h"
#include "page/zone.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

/* A program is idle that takes less than one in so many of the warm pages in so many ms; then each call gives back. */
enum { IDLE_SHARE = 16, IDLE_MS = 1000, IDLE_STEP = (2 << 20) / PAGE_SIZE };

static const char idle_name[] FIRST_DATA = "clock_gettime";

typedef int idle_clock(clockid_t clock, struct timespec *now);

/* What a zone had taken of its turn, and when that was last new or a second old; under the zone's lock. */
static uint64_t idle_turn[ZONE_COUNT_MAX], idle_since[ZONE_COUNT_MAX];

/* The vDSO's function, or NULL.  Its names lie behind its symbols. */
static SECOND_TEXT idle_clock *idle_find_clock(void)
{
    const char *file = (const char *)getauxval(AT_SYSINFO_EHDR), *names = NULL; // NOLINT
    const ElfW(Ehdr) *image = (const void *)file;
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Sym) *symbol = NULL;

    for (unsigned i = 0; file && i < image->e_phnum; i++) {
        const ElfW(Phdr) *header = (const ElfW(Phdr) *)(const void *)(file + image->e_phoff) + i;
        if (header->p_type == PT_DYNAMIC)
            dynamic = (const void *)(file + header->p_offset);
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_STRTAB)
            names = file + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_SYMTAB)
            symbol = (const void *)(file + dynamic->d_un.d_ptr);
    for (; names && symbol && (const char *)(symbol + 1) <= names; symbol++)
        if (symbol->st_shndx != SHN_UNDEF && strstr(names + symbol->st_name, idle_name))
            return (idle_clock *)((uintptr_t)file + symbol->st_value); // NOLINT
    return NULL;
}

static SECOND_TEXT void idle_give_back_of(unsigned i, uint64_t now)
{
    struct zone *zone = &zone_all.zone[i];

    if (!lock_enter(&zone->lock, LOCK_ARENA, false))
        return;
    size_t taken = zone->turn_pages - idle_turn[i]; /* of another turn: a large number */
    if (taken > zone->warm_pages / IDLE_SHARE || now - idle_since[i] >= IDLE_MS) {
        if (taken <= zone->warm_pages / IDLE_SHARE)
            zone_set_reserve(zone, zone->reserve_pages);
        idle_turn[i] = zone->turn_pages;
        idle_since[i] = now;
    }
    zone_purge_more(zone, IDLE_STEP); /* as if so many were freed */
    lock_drop(&zone->lock, LOCK_ARENA);
}

SECOND_TEXT void idle_give_back(void)
{
    static idle_clock *_Atomic found;
    idle_clock *clock = found; /* to call what is atomic is to read it plainly */
    struct timespec time;

    if (!clock)
        found = clock = idle_find_clock();
    if (clock && clock(CLOCK_MONOTONIC_COARSE, &time) == 0)
        for (unsigned i = 0; i < pagemap.zones; i++)
            idle_give_back_of(i, (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000);
}
