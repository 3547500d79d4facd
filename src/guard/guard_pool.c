/* SPDX-License-Identifier: MIT */
/*
 * guard_pool.c - the pages.  From Linux 6.13 on a mark in the page table takes a page's access and contents in one call
 * (MADV_GUARD_INSTALL), and the pool stays one mapping.  Before, mprotect() splits it.
 */
#include "guard/guard_pool.h"

#include "base/raw.h"
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 }; /* of madvise(), for older headers */

struct guard guard;

/* Emulators answer 0 to advice that they do not know: the kernel is asked whether it can write there. */
static bool guard_is_marked(char *pool)
{
    return raw_call(SYS_rt_sigaction, SIGSEGV, NULL, pool, (size_t)_NSIG / 8) != 0 &&
           errno == EFAULT;
}

/* All pages lose their access.  Marks that cannot be seen, since the question fails, are taken away: below mprotect()
 * they would stay. */
static bool guard_shut(char *pool, size_t bytes)
{
    bool told = raw_madvise(pool, bytes, GUARD_INSTALL) == 0;

    guard.marked = told && guard_is_marked(pool);
    return guard.marked || ((!told || raw_madvise(pool, bytes, GUARD_REMOVE) == 0) &&
                            raw_mprotect(pool, bytes, PROT_NONE) == 0);
}

bool guard_map(void)
{
    size_t page = os_page_size(), bytes = (2 * GUARD_SLOTS + 1) * page;
    struct guard_slot *slot = os_map(GUARD_SLOTS * sizeof(*slot));
    char *pool = slot ? raw_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                      : MAP_FAILED;

    if (pool != MAP_FAILED && !guard_shut(pool, bytes)) {
        os_unmap(pool, bytes);
        pool = MAP_FAILED;
    }
    if (pool == MAP_FAILED) {
        if (slot)
            os_unmap(slot, GUARD_SLOTS * sizeof(*slot));
        return false;
    }
    guard.base = (uintptr_t)pool;
    guard.page = page;
    guard.slot = slot;
    atomic_store_explicit(&guard.bytes, bytes, memory_order_release);
    return true;
}

static uint64_t guard_word(enum guard_state state)
{
    return (atomic_fetch_add_explicit(&guard.changes, 1, memory_order_relaxed) + 1)
               << GUARD_STATE_BITS |
           state;
}

void guard_set(struct guard_slot *slot, enum guard_state state)
{
    /* Release: what a thread that finds the object live, or freed, reads of the slot. */
    atomic_store_explicit(&slot->word, guard_word(state), memory_order_release);
}

bool guard_take(struct guard_slot *slot, uint64_t word)
{
    return atomic_compare_exchange_strong_explicit(&slot->word, &word, guard_word(GUARD_BUSY),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

struct guard_slot *guard_find(void)
{
    uint32_t used = atomic_load_explicit(&guard.used, memory_order_relaxed);
    struct guard_slot *oldest;
    uint64_t least;

    while (used < GUARD_SLOTS)
        if (atomic_compare_exchange_weak_explicit(&guard.used, &used, used + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return guard_take(&guard.slot[used], GUARD_NEVER) ? &guard.slot[used] : NULL;
    do {
        oldest = NULL;
        least = UINT64_MAX;
        for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
            uint64_t word = atomic_load_explicit(&guard.slot[i].word, memory_order_relaxed);
            if ((word & ((1u << GUARD_STATE_BITS) - 1)) == GUARD_FREED && word < least) {
                oldest = &guard.slot[i];
                least = word;
            }
        }
    } while (oldest && !guard_take(oldest, least));
    return oldest;
}

bool guard_open(char *page)
{
    return (guard.marked ? raw_madvise(page, guard.page, GUARD_REMOVE)
                         : raw_mprotect(page, guard.page, PROT_READ | PROT_WRITE)) == 0;
}

bool guard_close(char *page)
{
    if (guard.marked)
        return raw_madvise(page, guard.page, GUARD_INSTALL) == 0;
    os_release(page, guard.page);
    return raw_mprotect(page, guard.page, PROT_NONE) == 0;
}
