/* SPDX-License-Identifier: MIT */
#include "page/arena_left.h"

#include "base/hooks.h"
#include "base/lock.h"

/* In the first bytes of what is left, which nothing else uses any more. */
struct left {
    struct left *next;
    size_t pages, blocks; /* blocks 0: a run */
    void *meta;
    size_t meta_bytes;
};

static _Atomic(struct left *) left_list;

/* Pushed one at a time, and taken all at once: none comes back between two looks. */
static void left_push(struct left *left, struct left what)
{
    what.next = atomic_load_explicit(&left_list, memory_order_relaxed);
    do
        *left = what;
    while (!atomic_compare_exchange_weak_explicit(&left_list, &what.next, left,
                                                  memory_order_acq_rel, memory_order_relaxed));
}

static void left_settle(struct left *left)
{
    while (left) {
        struct left own = *left; /* once given back, the pages may be another's, or read as zero */
        bool done = own.blocks > 0 ? hooks.span_free_now(left, own.blocks)
                                   : arena_free_now(left, own.pages, own.meta, own.meta_bytes);
        if (!done)
            left_push(left, own);
        left = own.next;
    }
}

/* Pairs with the end of a fork: it finds what was left before, or this thread sees that it has ended. */
void arena_settle_left(void)
{
    while (atomic_load_explicit(&left_list, memory_order_acquire) && !lock_forked())
        left_settle(atomic_exchange_explicit(&left_list, NULL, memory_order_acq_rel));
}

/* Of its own: arena_free() lies in the deepest calls of malloc, where its frame counts. */
static __attribute__((noinline)) void left_run(void *run, size_t pages, void *meta,
                                               size_t meta_bytes)
{
    left_push(run, (struct left){NULL, pages, 0, meta, meta_bytes});
    arena_settle_left();
}

void arena_free(void *run, size_t pages, void *meta, size_t meta_bytes)
{
    if (__builtin_expect(!arena_free_now(run, pages, meta, meta_bytes), 0))
        left_run(run, pages, meta, meta_bytes);
}

void arena_leave_span(void *span, size_t blocks)
{
    left_push(span, (struct left){NULL, 0, blocks, NULL, 0});
    arena_settle_left();
}
