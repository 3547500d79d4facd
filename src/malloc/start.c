/* SPDX-License-Identifier: MIT */
/*
 * start.c - starts malloc at its first call, and does what is left at the process's end.
 */
#include "malloc/start.h"

#include "base/placed.h"
#include "cache/init.h"
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
    if (!stook_private_start(STOOK_PRIVATE_INTERFACE, STOOK_VERSION_STRING, class_make))
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

/* The first of the constructors: malloc's objects are linked before the library's.  glibc allocates for each thread before
 * that runs, so no thread forks while another one starts malloc. */
static FIRST_TEXT __attribute__((constructor(101), used)) void start_later(void)
{
#ifdef __GLIBC__
    init_later = true;
#endif
}

/* Often the process's first malloc came before this; a program without one starts neither malloc nor the library. */
static __attribute__((constructor(102), used)) void start_process(void)
{
    if (!init_later)
        (void)start_malloc();
    exit_prepare();
}

/* After the program's own destructors and atexit handlers. */
static FIRST_TEXT __attribute__((destructor(102), used)) void start_end(void)
{
    exit_report();
}
