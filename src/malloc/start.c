/* SPDX-License-Identifier: MIT */
#include "malloc/start.h"

#include "kmalloc/private.h"
#include "malloc/class.h"
#include "watch/exit.h"

#include <stook/stook.h>

#include <errno.h>
#include <stdint.h>

bool start_malloc(void)
{
    static bool started;
    int saved;

    if (__builtin_expect(__atomic_load_n(&started, __ATOMIC_ACQUIRE), 1))
        return true;
    saved = errno;
    stook_private_check(STOOK_PRIVATE_INTERFACE, STOOK_VERSION_STRING);
    if (!stook_private_start(class_make))
        return false;
    __atomic_store_n(&started, true, __ATOMIC_RELEASE);
    errno = saved;
    return true;
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

    (void)start_malloc();
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
