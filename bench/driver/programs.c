/* SPDX-License-Identifier: MIT */
#include "programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "roster.h"

_Noreturn void programs_exec(char **arguments)
{
    size_t count = 0;
    char **words;

    while (arguments[count])
        count++;
    words = calloc(count + 3, sizeof(*words));
    if (words && setenv("STOOK_BENCH_LIBEXEC", roster_folder(), 1) == 0) {
        words[0] = "python3";
        words[1] = PROGRAMS_SCRIPT;
        memcpy(words + 2, arguments, count * sizeof(*words));
        execvp("python3", words);
    }
    fprintf(stderr, "stook-bench: programs: python3: %s\n", strerror(errno));
    exit(2);
}
