/* SPDX-License-Identifier: MIT */
/*
 * prog_policy NUMBER PROGRAM...   runs a program with this task policy on node 0
 * prog_policy                     says the task's policy, mmap()'s, and those of malloc's memory
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "surroundings/figures.h"

enum { OF_ADDRESS = 2 };

static int policy_at(void *address)
{
    int policy = -1;

    syscall(SYS_get_mempolicy, &policy, NULL, 0, address, address ? OF_ADDRESS : 0);
    return policy;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {100, 3000, 100000, 3000000};
    unsigned long nodes = 1;

    if (argc > 2) {
        if (syscall(SYS_set_mempolicy, atoi(argv[1]), &nodes, 64))
            return 77;
        execvp(argv[2], argv + 2);
        return 1;
    }
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped[0] = 1;
    say("task %d\nmapped %d\n", policy_at(NULL), policy_at(mapped));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *object = malloc(sizes[i]);
        object[0] = 1;
        say("malloc-%zu %d\n", sizes[i], policy_at(object));
    }
    return 0;
}
