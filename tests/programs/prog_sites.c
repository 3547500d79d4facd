/* SPDX-License-Identifier: MIT */
/*
 * Allocations of known numbers at known places, for tool_profile.sh:
 *
 *   exit N, _exit N   100 and 300 objects that are kept, 500 that are freed, a large one; then ends so
 *   grow              200 objects more for each line of standard input, and a line of output
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not to be inlined, cloned, or called by a jump. */
#define APART __attribute__((noinline, noclone, noipa))

static void *volatile kept[100000]; /* volatile: the program never reads it */
static unsigned keeping;

static void keep(void *object)
{
    memset(object, 1, 1000);
    kept[keeping++] = object;
}

APART void keep_100(void);
APART void keep_100(void)
{
    for (int i = 0; i < 100; i++)
        keep(malloc(1000));
}

APART void keep_300(void);
APART void keep_300(void)
{
    for (int i = 0; i < 300; i++)
        keep(calloc(10, 100));
}

APART void drop_500(void);
APART void drop_500(void)
{
    void *object[500];

    for (int i = 0; i < 500; i++)
        object[i] = malloc(1000);
    for (int i = 0; i < 500; i++) {
        memset(object[i], 1, 1000);
        free(object[i]);
    }
}

APART void large(void);
APART void large(void)
{
    keep(malloc(8 << 20));
}

APART void grow_200(void);
APART void grow_200(void)
{
    for (int i = 0; i < 200; i++)
        keep(realloc(NULL, 1000));
}

APART void both(void);
APART void both(void)
{
    keep_100();
    keep_300();
    drop_500();
    large();
}

int main(int argc, char **argv)
{
    char line[100];

    if (argc > 1 && strcmp(argv[1], "grow") == 0) {
        while (fgets(line, sizeof(line), stdin)) {
            grow_200();
            puts("grown");
            fflush(stdout);
        }
        return 0;
    }
    both();
    puts("made 100, 300 and 500");
    fflush(stdout);
    if (argc > 2 && strcmp(argv[1], "_exit") == 0)
        _exit(atoi(argv[2]));
    return argc > 2 ? atoi(argv[2]) : 0;
}
