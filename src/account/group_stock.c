/* SPDX-License-Identifier: MIT */
#include "account/group_stock.h"

#include "os/os.h"

struct group_stocks group_stocks;

enum { GROUP_ROWS_BELOW = 3 }; /* of the CPUs -1 to -3 */

bool group_stock_init(void)
{
    size_t row = GROUP_STOCK_ROW,
           sections =
               GROUP_ROWS_BELOW + (GROUP_STOCK_HAS_SECTIONS && percpu.rseq ? percpu.rows : 0);
    size_t words = (size_t)percpu.rows + 1, bits = (2 * words + 63) / 64 * 8;
    char *base = os_map((sections + words) * row + bits);

    if (!base)
        return false;
    group_stocks.words = base;
    group_stocks.rows = base + (words + GROUP_ROWS_BELOW) * row;
    group_stocks.row_used = (uint64_t *)(void *)(base + (sections + words) * row);
    group_stocks.cpus = percpu.rows;
    group_stocks.sections = sections > GROUP_ROWS_BELOW;
    return true;
}

/* ---- stocks without sections ---------------------------------------------------------------- */

static _Atomic uint64_t *group_stock_word(int cpu, uint32_t number)
{
    /* Rows for fewer CPUs than there are: a topology was set after the first group was made. */
    unsigned row = cpu < 0 || (unsigned)cpu >= group_stocks.cpus ? 0 : (unsigned)cpu + 1;

    return (_Atomic uint64_t *)(void *)(group_stocks.words + (size_t)row * GROUP_STOCK_ROW) +
           group_place(number);
}

static bool group_stock_word_take(_Atomic uint64_t *word, uint32_t number, uint32_t n)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    do {
        if ((uint32_t)old != number || old >> 32 < n)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &old, old - ((uint64_t)n << 32),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static bool group_stock_word_give(_Atomic uint64_t *word, uint32_t number, uint32_t n,
                                  uint32_t most)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    do {
        if ((uint32_t)old != number || (old >> 32) + n > most)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &old, old + ((uint64_t)n << 32),
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Whether a thread on that CPU uses sections. */
static bool group_stock_sections(int cpu)
{
    return percpu.rseq && cpu >= 0 && percpu_may_fence((unsigned)cpu);
}

/* ---- both kinds ----------------------------------------------------------------------------- */

bool group_stock_take(uint32_t number, uint32_t n)
{
    int cpu = percpu_cpu();

#if GROUP_STOCK_HAS_SECTIONS
    for (int i = 0; group_stock_sections(cpu) && i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_stock_take(group_stock_row(number), percpu.rseq_offset, number, n);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE;
    }
#endif
    return !group_stock_sections(cpu) &&
           group_stock_word_take(group_stock_word(cpu, number), number, n);
}

bool group_stock_give(uint32_t number, uint32_t n, uint32_t most)
{
    int cpu = percpu_cpu();

#if GROUP_STOCK_HAS_SECTIONS
    for (int i = 0; group_stock_sections(cpu) && i < PERCPU_RETRIES; i++) {
        enum rseq_result r =
            rseq_stock_give(group_stock_row(number), percpu.rseq_offset, number, n, most);
        if (r != RSEQ_ABORTED)
            return r == RSEQ_DONE;
    }
#endif
    return !group_stock_sections(cpu) &&
           group_stock_word_give(group_stock_word(cpu, number), number, n, most);
}

/* ---- opening and closing, under the groups' lock -------------------------------------------- */

static struct group_stock *group_stock_at(unsigned cpu, uint32_t number)
{
    return (struct group_stock *)(void *)(group_stocks.rows + (size_t)cpu * GROUP_STOCK_ROW) +
           group_place(number);
}

/* Row 0 is everybody's, then the CPUs' words, then the CPUs' stocks with sections. */
static bool group_stock_row_used(unsigned row)
{
    return group_stocks.row_used[row / 64] >> row % 64 & 1;
}

static void group_stock_use_row(unsigned row)
{
    if (!group_stock_row_used(row)) {
        group_stocks.row_used[row / 64] |= (uint64_t)1 << row % 64;
        group_stocks.used++;
    }
}

bool group_stock_open(uint32_t number, uint32_t n)
{
    int cpu = percpu_cpu();

    if (group_stock_sections(cpu)) {
        struct group_stock *stock = group_stock_at((unsigned)cpu, number);
        if (atomic_load_explicit(&stock->number, memory_order_relaxed) != 0)
            return false;
        group_stock_use_row(1 + group_stocks.cpus + (unsigned)cpu);
        atomic_store_explicit(&stock->bytes, n, memory_order_relaxed);
        /* Who reads the number in a section reads the bytes after it. */
        atomic_store_explicit(&stock->number, number, memory_order_release);
        return true;
    }
    _Atomic uint64_t *word = group_stock_word(cpu, number);
    if (atomic_load_explicit(word, memory_order_relaxed) != 0)
        return false;
    group_stock_use_row(cpu < 0 || (unsigned)cpu >= group_stocks.cpus ? 0 : 1 + (unsigned)cpu);
    atomic_store_explicit(word, (uint64_t)n << 32 | number, memory_order_relaxed);
    return true;
}

uint64_t group_stock_sum(uint32_t number)
{
    uint64_t sum = 0;

    for (unsigned row = 0; row <= group_stocks.cpus; row++) {
        uint64_t word =
            group_stock_row_used(row)
                ? atomic_load_explicit(group_stock_word((int)row - 1, number), memory_order_relaxed)
                : 0;
        if ((uint32_t)word == number)
            sum += word >> 32;
    }
    for (unsigned cpu = 0; group_stocks.sections && cpu < group_stocks.cpus; cpu++) {
        struct group_stock *stock = group_stock_at(cpu, number);
        if (group_stock_row_used(1 + group_stocks.cpus + cpu) &&
            atomic_load_explicit(&stock->number, memory_order_relaxed) == number)
            sum += atomic_load_explicit(&stock->bytes, memory_order_relaxed);
    }
    return sum;
}

static void group_stock_close_words(unsigned row, const uint32_t *numbers, unsigned n,
                                    void (*took)(uint32_t number, uint32_t bytes))
{
    for (unsigned i = 0; i < n; i++) {
        _Atomic uint64_t *word = group_stock_word((int)row - 1, numbers[i]);
        /* An open one is this group's: a number goes out of use with its stocks closed. */
        if (atomic_load_explicit(word, memory_order_relaxed) != 0)
            took(numbers[i],
                 (uint32_t)(atomic_exchange_explicit(word, 0, memory_order_relaxed) >> 32));
    }
}

static void group_stock_close_cpu(unsigned cpu, const uint32_t *numbers, unsigned n,
                                  void (*took)(uint32_t number, uint32_t bytes))
{
    bool any = false, fenced;

    for (unsigned i = 0; i < n; i++) {
        struct group_stock *stock = group_stock_at(cpu, numbers[i]);
        if (atomic_load_explicit(&stock->number, memory_order_relaxed) != 0) {
            atomic_store_explicit(&stock->number, GROUP_STOCK_CLOSING, memory_order_relaxed);
            any = true;
        }
    }
    if (!any)
        return;
    fenced = percpu_fence(cpu);
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
    for (unsigned row = 0; row <= group_stocks.cpus; row++)
        if (group_stock_row_used(row))
            group_stock_close_words(row, numbers, n, took);
    for (unsigned cpu = 0; group_stocks.sections && cpu < group_stocks.cpus; cpu++)
        if (group_stock_row_used(1 + group_stocks.cpus + cpu))
            group_stock_close_cpu(cpu, numbers, n, took);
}
