/* SPDX-License-Identifier: MIT */
/*
 * prog_lock figures               what a process has at its start
 * prog_lock all|future BYTES      as an ordinary user with RLIMIT_MEMLOCK of so many, or with the right to
 *                                 lock all (0): mlockall(), then 20 MB of malloc, and all of the family
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "surroundings/exercise.h"

int main(int argc, char **argv)
{
    int all = argc > 2 && strcmp(argv[1], "all") == 0;

    free(malloc(100000));
    if (argc > 2) {
        rlim_t bytes = strtoul(argv[2], NULL, 10);
        if (bytes && setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){bytes, bytes}))
            return 77;
        if (bytes && geteuid() == 0 && setresuid(65534, 65534, 65534))
            give_up("the user cannot be changed");
        if (mlockall(all ? MCL_CURRENT | MCL_FUTURE : MCL_FUTURE)) {
            say("mlockall: %s\n", strerror(errno));
            return bytes ? 1 : 77;
        }
    }
    say("virtual %ld\nresident %ld\n", virtual_kib(), proc_kib("/proc/self/status", "VmRSS:"));
    if (argc > 2) {
        for (int i = 0; i < 200; i++) {
            char *object = malloc(100000);
            if (!object)
                give_up("object %d is refused", i);
            memset(object, 1, 100000);
            if (i % 2)
                free(object);
        }
        exercise_all();
    }
    say("done 1\n");
    return 0;
}
