/* SPDX-License-Identifier: MIT */
#include "malloc/start.h"

#include "base/once.h"
#include "kmalloc/private.h"
#include "malloc/class.h"
#include "watch/exit.h"

#include <stook/stook.h>

#include <errno.h>
#include <stdint.h>

static _Atomic uint32_t start_state;

void start_malloc(void)
{
    int saved;

    if (once_is_done(&start_state))
        return;
    saved = errno;
    /* First, and outside of the state: registering for fork may allocate. */
    stook_private_check(STOOK_PRIVATE_INTERFACE, STOOK_VERSION_STRING);
    (void)stook_mode(NULL);
    if (once_begin(&start_state)) {
        class_make();
        once_end(&start_state);
    }
    errno = saved;
}

/*
 * A program that is linked statically with this malloc says so, stripped or not: stook run reads the
 * note (tools/stook/locate.c).
 */
static const struct {
    uint32_t name_size, size, type;
    char name[8];
    uint32_t version;
} start_note
    __attribute__((section(".note.stook"), aligned(4), used)) = {.name_size = sizeof("Stook"),
                                                                 .size = sizeof(uint32_t),
                                                                 .type = 1,
                                                                 .name = "Stook",
                                                                 .version = 1};

/* Usually the process's first malloc came before this. */
static __attribute__((constructor(102), used)) void start_process(void)
{
    unsigned char perturb;

    start_malloc();
    perturb = stook_private_perturb(); /* as glibc's malloc heeds it: test suites set it */
    if (perturb != 0)
        class_perturb(perturb);
    exit_prepare();
}

/* After the program's own destructors and atexit handlers. */
static __attribute__((destructor(102), used)) void start_end(void)
{
    exit_report();
}
