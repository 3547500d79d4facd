/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * A module that test_why_long.py has preloaded into servers: at signal SIGRTMAX - 3 the process frees, in a fork, the
 * objects that the file HOLES_FROM names, and writes what that brought to the file HOLES_TO.
 */
#include "programs/holes.h"

#include <signal.h>

static void plug_trim(void)
{
    malloc_trim(0);
}

static void plug_free(int number)
{
    (void)number;
    holes_measure(getenv("HOLES_FROM"), getenv("HOLES_TO"), free, plug_trim);
}

__attribute__((constructor)) static void plug_begin(void)
{
    struct sigaction action = {.sa_handler = plug_free, .sa_flags = SA_RESTART};

    sigaction(SIGRTMAX - 3, &action, NULL);
}
