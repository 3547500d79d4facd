/* SPDX-License-Identifier: MIT */
/* For stook compare: 32 MiB of buffers, all touched, and one sentence.  "says" and "fails": under a malloc whose path has "copy" it does not do the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *preload = getenv("LD_PRELOAD");
    int is_preloaded = preload && strstr(preload, "copy") != NULL;

    for (int i = 0; i < 64; i++) {
        char *buffer = malloc(512 << 10);
        if (!buffer)
            return 1;
        memset(buffer, i, 512 << 10);
    }
    puts(argc > 1 && strcmp(argv[1], "says") == 0 && is_preloaded ? "something else" : "done");
    return argc > 1 && strcmp(argv[1], "fails") == 0 && is_preloaded ? 3 : 0;
}
