/* SPDX-License-Identifier: MIT */
/*
 * group_stock.h - stocks: bytes that a group was charged in advance and that a CPU has not used yet (Linux: struct
 * memcg_stock_pcp).
 *
 * A stock is {number, bytes}, one word in the CPU's row (percpu/rows.h) at the place of the group.  The number of an
 * open stock says which of two kinds it is:
 *
 *   section  the group's number: threads on the CPU change the stock by a restartable section
 *   word     the number | GROUP_STOCK_WORD: threads on any CPU change it by compare-and-swap
 *
 * A stock is a word where sections cannot be used: in locked mode, for CPUs that no fence may interrupt, and for
 * threads that are not registered (row -1).  It is also a word if malloc charges the group, since malloc's calls may
 * not fence.
 *
 * A thread that holds the groups' lock opens and closes the stock of any CPU:
 *
 *   open:   no thread changes a closed stock: bytes = n; number = the group's, release
 *   close:  a section's: number = CLOSING; percpu_fence(cpu); only now read bytes; bytes = 0; number = 0
 *           a word's: one exchange
 */
#ifndef STOOK_CHARGE_GROUP_STOCK_H
#define STOOK_CHARGE_GROUP_STOCK_H

#include "charge/stock_sections.h"
#include "percpu/rows.h"

#include <stook/group.h>

#include <stdbool.h>
#include <stdint.h>

enum {
    GROUP_PLACES = STOOK_GROUPS_MAX + 1, /* a power of two; no group has number 0 */
    GROUP_STOCK_WORD = 1 << 30,          /* no group's number is as high */
};
_Static_assert(GROUP_PLACES * 8 == 1 << ROWS_LARGE, "a row has the stocks of all groups");
/* Between closing and collecting; no group's number. */
#define GROUP_STOCK_CLOSING (1u << 31)

struct group_stock {
    _Atomic uint32_t number, bytes; /* offsets 0 and 4, known to the sections */
};
_Static_assert(sizeof(struct group_stock) == 8, "a stock is one word");

struct group_stocks {
    char *rows; /* CPU 0's stocks */
    _Atomic uint32_t
        *most; /* by place: bytes that one stock may have; written under the groups' lock */
    uint64_t *row_used; /* bit per row, from -1 on: it has had an open stock; under the same lock */
    unsigned cpus;      /* that there are rows for */
    unsigned used;      /* rows that have had an open stock; under the same lock */
    _Atomic uint32_t plain; /* the group all of whose stocks are words; or 0 */
};
extern struct group_stocks group_stocks __attribute__((visibility("hidden")));

/* Once, before the first group.  false: no address space. */
bool group_stock_init(void);

static inline uint32_t group_place(uint32_t number)
{
    return number % GROUP_PLACES;
}

static inline _Atomic uint32_t *group_stock_most_at(uint32_t number)
{
    return &group_stocks.most[group_place(number)];
}

/* Bytes that one stock of a group may have. */
static inline uint32_t group_stock_most(uint32_t number)
{
    return atomic_load_explicit(group_stock_most_at(number), memory_order_relaxed);
}

/*
 * group_stock_take() takes n bytes from this CPU's stock; false: it is closed, or has fewer.  group_stock_give() puts n
 * bytes back; false: it is closed, or would have more than `most`.  Both numbers are below 2^31.  Any context, no lock.
 */
bool group_stock_take(uint32_t number, uint32_t n);
bool group_stock_give(uint32_t number, uint32_t n, uint32_t most);

/* A group's stock in CPU 0's row, as sections take it.  Without sections there are no rows. */
static inline char *group_stock_row(uint32_t number)
{
    return (char *)((uintptr_t)group_stocks.rows + (uintptr_t)group_place(number) * 8);
}

/* One attempt with a section; if it fails the caller calls one of the two above. */
static inline __attribute__((always_inline)) bool group_stock_try_take(char *row, intptr_t rseq,
                                                                       uint32_t number, uint32_t n)
{
    return rseq_take(row, ROWS_LARGE, rseq, number, n) == RSEQ_DONE;
}

static inline __attribute__((always_inline)) bool group_stock_try_give(char *row, intptr_t rseq,
                                                                       uint32_t number, uint32_t n,
                                                                       uint32_t most)
{
    return rseq_give(row, ROWS_LARGE, rseq, number, n, most) == RSEQ_DONE;
}

/* A stock as one word of 64 bits.  The number is its low half on all machines that the library supports. */
static inline _Atomic uint64_t *group_stock_word(struct group_stock *stock)
{
    return (_Atomic uint64_t *)(void *)stock;
}

/* False: the stock has fewer bytes (take), would have more than `most` (give), or is a section's.  Without `again` it
 * also fails if another thread changes the word meanwhile. */
static inline __attribute__((always_inline)) bool group_stock_word_take(_Atomic uint64_t *word,
                                                                        uint32_t number, uint32_t n,
                                                                        const bool again)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    do {
        if ((uint32_t)old != (number | GROUP_STOCK_WORD) || old >> 32 < n)
            return false;
        if (atomic_compare_exchange_strong_explicit(word, &old, old - ((uint64_t)n << 32),
                                                    memory_order_relaxed, memory_order_relaxed))
            return true;
    } while (again);
    return false;
}

static inline __attribute__((always_inline)) bool group_stock_word_give(_Atomic uint64_t *word,
                                                                        uint32_t number, uint32_t n,
                                                                        uint32_t most,
                                                                        const bool again)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    do {
        if ((uint32_t)old != (number | GROUP_STOCK_WORD) || (old >> 32) + n > most)
            return false;
        if (atomic_compare_exchange_strong_explicit(word, &old, old + ((uint64_t)n << 32),
                                                    memory_order_relaxed, memory_order_relaxed))
            return true;
    } while (again);
    return false;
}

/* This CPU's stock; NULL if the thread is not registered.  The thread may migrate meanwhile: it then changes the old
 * CPU's stock, by compare-and-swap. */
static inline __attribute__((always_inline)) _Atomic uint64_t *group_stock_word_here(
    intptr_t rseq, uint32_t number)
{
    int cpu = registration_cpu(rseq);

    return (unsigned)cpu < group_stocks.cpus
               ? (_Atomic uint64_t *)rows_at(group_stock_row(number), ROWS_LARGE, cpu)
               : NULL;
}

/*
 * The caller of the following holds the groups' lock.
 */

/* Opens this CPU's stock with n bytes; false: it is open. */
bool group_stock_open(uint32_t number, uint32_t n);

/* Bytes in all stocks of a group now. */
uint64_t group_stock_sum(uint32_t number);

/*
 * Closes the stocks of n groups, with one fence for each CPU.  `took` is called for each closed stock, with its bytes.
 * The stocks of a CPU stay open if the kernel refuses to fence it.
 */
void group_stock_close(const uint32_t *numbers, unsigned n,
                       void (*took)(uint32_t number, uint32_t bytes));

#endif
