/* SPDX-License-Identifier: MIT */
#include "malloc/start.h"

#include "malloc/class.h"
#include "watch/exit.h"

#include <stook/stook.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

static _Atomic unsigned start_state;
enum { START_NONE, START_RUNNING, START_DONE };

void start_malloc(void)
{
    unsigned state = START_NONE;
    int saved = errno;

    /* Pairs with the release below. */
    if (__builtin_expect(atomic_load_explicit(&start_state, memory_order_acquire) == START_DONE, 1))
        return;
    /* First, and outside of the state: registering for fork may allocate. */
    (void)stook_mode(NULL);
    if (atomic_compare_exchange_strong_explicit(&start_state, &state, START_RUNNING,
                                                memory_order_acquire, memory_order_acquire)) {
        class_make();
        atomic_store_explicit(&start_state, START_DONE, memory_order_release);
    }
    while (atomic_load_explicit(&start_state, memory_order_acquire) != START_DONE)
        sched_yield();
    errno = saved;
}

/* Usually somebody's first malloc came before this. */
static __attribute__((constructor(102), used)) void start_process(void)
{
    start_malloc();
    exit_prepare();
}

/* After the program's own destructors and atexit handlers. */
static __attribute__((destructor(102), used)) void start_end(void)
{
    exit_report();
}
