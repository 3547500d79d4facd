/* SPDX-License-Identifier: MIT */
/* A handler on an alternate stack of 8 KiB, with memory below that must stay as it is, allocates; on a CPU
 * that is new to the process, and beside its other calls. */
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "surroundings/figures.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum { OBJECTS = 4000, BELOW = 32768, STACK = 8192, PAINT = 0xa5 };

static void *object[OBJECTS];

static void rounds(int count)
{
    for (int round = 0; round < count; round++) {
        for (int i = 0; i < OBJECTS; i++)
            object[i] = malloc((size_t)(i % 50 ? 200 : 40000));
        for (int i = 0; i < OBJECTS; i++)
            free(object[i]);
    }
}

static void handler(int signal)
{
    rounds(60);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    unsigned char *memory =
        mmap(NULL, BELOW + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t untouched = 0;

    memset(memory, PAINT, BELOW + STACK);
    if (sigaltstack(&(stack_t){.ss_sp = memory + BELOW, .ss_size = STACK}, NULL))
        give_up("no alternate stack");
    sigaction(SIGUSR1, &action, NULL);
    pin(0);
    rounds(1);
    pin(1);
    raise(SIGUSR1);
    while (memory[untouched] == PAINT)
        untouched++;
    say("frame %lu\nused %zu\n", getauxval(AT_MINSIGSTKSZ), BELOW + STACK - untouched);
    return 0;
}
