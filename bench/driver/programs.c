/* SPDX-License-Identifier: MIT */
#include "programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "roster.h"

void programs_exec(const char *name, char **arguments)
{
    const char *script = strcmp(name, "programs") == 0 ? PROGRAMS_FOLDER "/main.py"
                         : strcmp(name, "long") == 0   ? PROGRAMS_FOLDER "/long.py"
                                                       : NULL;
    size_t count = 0;
    char **words;

    if (!script)
        return;
    while (arguments[count])
        count++;
    words = calloc(count + 3, sizeof(*words));
    if (words && setenv("STOOK_BENCH_LIBEXEC", roster_folder(), 1) == 0) {
        words[0] = "python3";
        words[1] = strdup(script);
        memcpy(words + 2, arguments, count * sizeof(*words));
        execvp("python3", words);
    }
    fprintf(stderr, "stook-bench: %s: python3: %s\n", name, strerror(errno));
    exit(2);
}
