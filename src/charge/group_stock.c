/* SPDX-License-Identifier: MIT */
/* group_stock.c - which kind of stock a CPU has for a group, and the calls of group_stock.h that are not inlined. */
#include "charge/group_stock.h"

#include "os/os.h"

struct group_stocks group_stocks;

bool group_stock_init(void)
{
    size_t most = GROUP_PLACES * sizeof(uint32_t), bits = ((size_t)percpu.rows + 64) / 64 * 8;
    char *base = os_map(most + bits), *rows = base ? rows_map(ROWS_LARGE) : NULL;

    if (!rows) {
        if (base)
            os_unmap(base, most + bits);
        return false;
    }
    group_stocks.most = (_Atomic uint32_t *)(void *)base;
    group_stocks.row_used = (uint64_t *)(void *)(base + most);
    group_stocks.cpus = percpu.rows;
    group_stocks.rows = rows;
    return true;
}

/* ---- which kind, and where ------------------------------------------------------------------ */

/* This CPU's row.  There are rows for fewer CPUs if a topology was set after the first group was made. */
static int group_stock_cpu(void)
{
    int cpu = percpu_cpu();

    return cpu < 0 || (unsigned)cpu >= group_stocks.cpus ? ROWS_NO_CPU : cpu;
}

/* Whether sections change the stock of a group with that CPU; else it is a word. */
static bool group_stock_sections(int cpu, uint32_t number)
{
    return percpu.rseq && cpu >= 0 && percpu_may_fence((unsigned)cpu) &&
           atomic_load_explicit(&group_stocks.plain, memory_order_relaxed) != number;
}

static struct group_stock *group_stock_at(int cpu, uint32_t number)
{
    return rows_at(group_stock_row(number), ROWS_LARGE, cpu);
}

/* ---- both kinds ----------------------------------------------------------------------------- */

bool group_stock_take(uint32_t number, uint32_t n)
{
    int cpu = group_stock_cpu();

    if (!group_stock_sections(cpu, number))
        return group_stock_word_take(group_stock_word(group_stock_at(cpu, number)), number, n,
                                     true);
    for (int i = 0; i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_take(group_stock_row(number), ROWS_LARGE, percpu.rseq_offset, number, n);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE;
    }
    return false;
}

bool group_stock_give(uint32_t number, uint32_t n, uint32_t most)
{
    int cpu = group_stock_cpu();

    if (!group_stock_sections(cpu, number))
        return group_stock_word_give(group_stock_word(group_stock_at(cpu, number)), number, n, most,
                                     true);
    for (int i = 0; i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_give(group_stock_row(number), ROWS_LARGE, percpu.rseq_offset, number, n, most);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE;
    }
    return false;
}

/* ---- opening and closing, under the groups' lock -------------------------------------------- */

static bool group_stock_row_used(int cpu)
{
    unsigned row = (unsigned)(cpu + 1);

    return group_stocks.row_used[row / 64] >> row % 64 & 1;
}

static void group_stock_use_row(int cpu)
{
    unsigned row = (unsigned)(cpu + 1);

    if (!group_stock_row_used(cpu)) {
        group_stocks.row_used[row / 64] |= (uint64_t)1 << row % 64;
        group_stocks.used++;
    }
}

bool group_stock_open(uint32_t number, uint32_t n)
{
    int cpu = group_stock_cpu();
    struct group_stock *stock = group_stock_at(cpu, number);
    uint32_t kind = group_stock_sections(cpu, number) ? 0 : GROUP_STOCK_WORD;

    if (atomic_load_explicit(&stock->number, memory_order_relaxed) != 0)
        return false;
    group_stock_use_row(cpu);
    atomic_store_explicit(&stock->bytes, n, memory_order_relaxed);
    /* A section that reads the number reads the bytes after it. */
    atomic_store_explicit(&stock->number, number | kind, memory_order_release);
    return true;
}

uint64_t group_stock_sum(uint32_t number)
{
    uint64_t sum = 0;

    for (int cpu = ROWS_NO_CPU; cpu < (int)group_stocks.cpus; cpu++) {
        uint64_t word = group_stock_row_used(cpu)
                            ? atomic_load_explicit(group_stock_word(group_stock_at(cpu, number)),
                                                   memory_order_relaxed)
                            : 0;
        if (((uint32_t)word & ~(uint32_t)GROUP_STOCK_WORD) == number)
            sum += word >> 32;
    }
    return sum;
}

/* Closes the words of a row; true: some of its stocks are sections', which are closing now. */
static bool group_stock_begin_close(int cpu, const uint32_t *numbers, unsigned n,
                                    void (*took)(uint32_t number, uint32_t bytes))
{
    bool any = false;

    for (unsigned i = 0; i < n; i++) {
        struct group_stock *stock = group_stock_at(cpu, numbers[i]);
        uint32_t number = atomic_load_explicit(&stock->number, memory_order_relaxed);
        /* An open one is this group's: a number goes out of use with its stocks closed. */
        if (number & GROUP_STOCK_WORD) {
            took(numbers[i], (uint32_t)(atomic_exchange_explicit(group_stock_word(stock), 0,
                                                                 memory_order_relaxed) >>
                                        32));
        } else if (number != 0) {
            atomic_store_explicit(&stock->number, GROUP_STOCK_CLOSING, memory_order_relaxed);
            any = true;
        }
    }
    return any;
}

static void group_stock_close_cpu(int cpu, const uint32_t *numbers, unsigned n,
                                  void (*took)(uint32_t number, uint32_t bytes))
{
    bool fenced;

    if (!group_stock_begin_close(cpu, numbers, n, took))
        return;
    fenced = percpu_fence((unsigned)cpu);
    for (unsigned i = 0; i < n; i++) {
        struct group_stock *stock = group_stock_at(cpu, numbers[i]);
        if (atomic_load_explicit(&stock->number, memory_order_relaxed) != GROUP_STOCK_CLOSING)
            continue;
        if (!fenced) { /* a section may still commit: as if nothing had been */
            atomic_store_explicit(&stock->number, numbers[i], memory_order_relaxed);
            continue;
        }
        took(numbers[i], atomic_exchange_explicit(&stock->bytes, 0, memory_order_relaxed));
        atomic_store_explicit(&stock->number, 0, memory_order_relaxed);
    }
}

void group_stock_close(const uint32_t *numbers, unsigned n,
                       void (*took)(uint32_t number, uint32_t bytes))
{
    for (int cpu = ROWS_NO_CPU; cpu < (int)group_stocks.cpus; cpu++)
        if (group_stock_row_used(cpu))
            group_stock_close_cpu(cpu, numbers, n, took);
}
