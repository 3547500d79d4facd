/* SPDX-License-Identifier: MIT */
/*
 * group_stock.h - bytes of a group that are charged already and not used yet, with a CPU.
 *
 * A stock is {number, bytes}.  One that holds its group's number is open: who runs on the CPU takes
 * from it and gives to it by one section (percpu/rseq_stock_x86_64.h).  Opening and closing is done under
 * the groups' lock, for any CPU:
 *
 *   open:   a closed stock is touched by nobody: bytes = n; number = the group's, release
 *   close:  number = CLOSING; percpu_fence(cpu); only now read bytes; bytes = 0; number = 0
 *
 * Rows lie [cpu][place of the group], 32 KiB each, in a range that is touched as it is used; those of
 * the CPUs -1 and -2, which threads that are not registered are on, have no open stock, and the one
 * of -3 says how many bytes a stock of the group may have.  Where
 * there are no sections (locked mode, CPUs that no fence may interrupt, threads that are not
 * registered) a stock is one word in a second set of rows, changed by compare-and-swap: closing it is
 * one exchange.  No stock sees both kinds.
 */
#ifndef STOOK_ACCOUNT_GROUP_STOCK_H
#define STOOK_ACCOUNT_GROUP_STOCK_H

#include "percpu/percpu.h"

#include <stook/group.h>

#include <stdbool.h>
#include <stdint.h>

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
#if defined(__aarch64__)
#include "percpu/rseq_stock_aarch64.h"
#else
#include "percpu/rseq_stock_x86_64.h"
#endif
#define GROUP_STOCK_HAS_SECTIONS 1
#else
#define GROUP_STOCK_HAS_SECTIONS 0
#endif

enum {
    GROUP_PLACES = STOOK_GROUPS_MAX + 1, /* a power of two; 0 is nobody's */
    GROUP_STOCK_ROW = GROUP_PLACES * 8,
};
/* Between closing and collecting; no group's number. */
#define GROUP_STOCK_CLOSING UINT32_MAX

struct group_stock {
    _Atomic uint32_t number, bytes; /* offsets 0 and 4, known to the sections */
};
_Static_assert(sizeof(struct group_stock) == 8, "a stock is one word");

struct group_stocks {
    char *rows;    /* CPU 0's stocks with sections */
    char *words;   /* the stocks without: everybody's row (CPU -1's), then the CPUs' */
    bool sections; /* there are rows behind CPU -1's */
    unsigned cpus; /* that there are rows for */
    unsigned used; /* CPUs that have had an open stock; under the groups' lock */
    uint64_t *row_used;
};
extern struct group_stocks group_stocks __attribute__((visibility("hidden")));

/* Once, before the first group.  false: no address space. */
bool group_stock_init(void);

static inline uint32_t group_place(uint32_t number)
{
    return number % GROUP_PLACES;
}

/* Bytes that one stock of a group may have: written under the groups' lock, read without. */
static inline _Atomic uint32_t *group_stock_most_at(uint32_t number)
{
    return (_Atomic uint32_t *)(void *)(group_stocks.rows - 3 * GROUP_STOCK_ROW +
                                        (uintptr_t)group_place(number) * 8);
}

static inline uint32_t group_stock_most(uint32_t number)
{
    return atomic_load_explicit(group_stock_most_at(number), memory_order_relaxed);
}

/*
 * n bytes of this CPU's stock, or false: it is closed, or has fewer.  And the other way; false: it is
 * closed, or would have more than `most` (below 2^31, as n).  Any context, no lock.
 */
bool group_stock_take(uint32_t number, uint32_t n);
bool group_stock_give(uint32_t number, uint32_t n, uint32_t most);

/* A group's stock in CPU 0's row: what the sections are given. */
static inline char *group_stock_row(uint32_t number)
{
    return group_stocks.rows + (uintptr_t)group_place(number) * 8;
}

/* One try, where there are sections; who fails goes on with the two above. */
static inline bool group_stock_take_fast(uint32_t number, uint32_t n)
{
#if GROUP_STOCK_HAS_SECTIONS
    return percpu.rseq &&
           rseq_stock_take(group_stock_row(number), percpu.rseq_offset, number, n) == RSEQ_DONE;
#else
    (void)number;
    (void)n;
    return false;
#endif
}

static inline bool group_stock_give_fast(uint32_t number, uint32_t n, uint32_t most)
{
#if GROUP_STOCK_HAS_SECTIONS
    return percpu.rseq && rseq_stock_give(group_stock_row(number), percpu.rseq_offset, number, n,
                                          most) == RSEQ_DONE;
#else
    (void)number;
    (void)n;
    (void)most;
    return false;
#endif
}

/*
 * The rest under the groups' lock.
 */

/* Opens this CPU's stock with n bytes; false: it is open. */
bool group_stock_open(uint32_t number, uint32_t n);

/* Bytes in all stocks of a group now. */
uint64_t group_stock_sum(uint32_t number);

/*
 * Closes the stocks of n groups; `took` is called for each stock that was closed, with its bytes.
 * One fence a CPU; stocks of a CPU that the kernel does not let be fenced stay as they are.
 */
void group_stock_close(const uint32_t *numbers, unsigned n,
                       void (*took)(uint32_t number, uint32_t bytes));

#endif
