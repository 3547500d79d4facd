/* SPDX-License-Identifier: MIT */
/* prog_start [CPU]: what a process has at its start; with CPU, allocates there as well. */
#include "surroundings/figures.h"

int main(int argc, char **argv)
{
    free(malloc(100));
    say("mappings %d\nvirtual %ld\nresident %ld\n", mappings(), virtual_kib(), resident_kib());
    if (argc > 1) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(atoi(argv[1]), &one);
        if (sched_setaffinity(0, sizeof(one), &one))
            give_up("the thread cannot run on CPU %s", argv[1]);
    }
    for (int i = 0; i < 1000; i++) {
        char *object = malloc(64);
        memset(object, 1, 64);
        free(object);
    }
    say("done 1\n");
    return 0;
}
