/* SPDX-License-Identifier: MIT */
#include "malloc/start.h"

#include "base/once.h"
#include "malloc/class.h"
#include "watch/exit.h"

#include <stook/stook.h>

#include <errno.h>

static _Atomic uint32_t start_state;

void start_malloc(void)
{
    int saved = errno;

    if (once_is_done(&start_state))
        return;
    /* First, and outside of the state: registering for fork may allocate. */
    (void)stook_mode(NULL);
    if (once_begin(&start_state)) {
        class_make();
        once_end(&start_state);
    }
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
