/* SPDX-License-Identifier: MIT */
/* prog_core [abort | bare]: 50 MB of mixed objects, half of them free, or none; then waits for its end, or aborts. */
#include <stdbool.h>

#include "surroundings/figures.h"

enum { OBJECTS = 20000 };

static char *object[OBJECTS];

int main(int argc, char **argv)
{
    bool bare = argc > 1 && strcmp(argv[1], "bare") == 0;

    for (int i = 0; !bare && i < OBJECTS; i++) {
        size_t size = (size_t)(i % 100 == 0 ? 100000 : 200 + i % 3000);
        object[i] = memset(malloc(size), 0x5a, size);
    }
    for (int i = 0; i < OBJECTS; i += 2)
        free(object[i]);
    say("ready 1\n");
    if (argc > 1 && !bare)
        abort();
    for (char c; read(STDIN_FILENO, &c, 1) > 0;)
        ;
    return 0;
}
