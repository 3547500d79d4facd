/* SPDX-License-Identifier: MIT */
/*
 *   prog_frees NUMBER     a wrong free; if that is not found, prints the result and ends with 0
 *   prog_frees            prints how many there are
 *   prog_frees probe      frees addresses in all writable memory that are no objects, each in a child;
 *                         prints how many were accepted
 */
#include <malloc.h>
#include <stdint.h>
#include <sys/wait.h>

#include "surroundings/figures.h"

#pragma GCC diagnostic ignored "-Wuse-after-free"
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"

enum { OBJECTS = 3000, LIVE = 1000, REGIONS_MAX = 64, PROBES = 96 };

static void *object[OBJECTS];

/* The compiler does not know what is freed. */
static void wrong_free(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer));
    free(pointer);
}

static int same_twice(size_t size)
{
    int same = 0;

    for (int i = 0; i < 100; i++)
        object[i] = malloc(size);
    for (int i = 0; i < 100; i++)
        for (int j = 0; j < i; j++)
            same += object[i] == object[j];
    return same;
}

static void twice(size_t size)
{
    void *p = malloc(size);

    wrong_free(p);
    wrong_free(p);
    say("%d pairs of objects are the same\n", same_twice(size));
}

static void twice_between(size_t size)
{
    void *p = malloc(size), *q = malloc(size);

    wrong_free(p);
    wrong_free(q);
    wrong_free(p);
    say("%d pairs of objects are the same\n", same_twice(size));
}

static void twice_trim(size_t size)
{
    void *p = malloc(size);

    wrong_free(p);
    wrong_free(p);
    malloc_trim(0);
    say("malloc_trim() passed; %d pairs of objects are the same\n", same_twice(size));
}

static void between_trim(size_t size)
{
    void *p = malloc(size), *q = malloc(size);

    wrong_free(p);
    wrong_free(q);
    wrong_free(p);
    malloc_trim(0);
    say("malloc_trim() passed; %d pairs of objects are the same\n", same_twice(size));
}

static void inside(size_t size, size_t offset)
{
    char *p = malloc(size);

    wrong_free(p + offset);
    char *q = malloc(size);
    say("%zu bytes inside is accepted, and handed out: %td\n", offset, q - p);
}

static void inside_8(size_t size)
{
    inside(size, 8);
}

static void inside_16(size_t size)
{
    inside(size, 16);
}

/* The neighbour of a live object has been free for long. */
static void at_rest(size_t size)
{
    char *live, *neighbour;
    int seen = 0;

    for (int i = 0; i < OBJECTS; i++)
        object[i] = malloc(size);
    live = object[OBJECTS / 2];
    neighbour = object[OBJECTS / 2 + 1];
    memset(live, 0x5a, size);
    for (int i = 0; i < OBJECTS; i++)
        if (object[i] != live)
            free(object[i]);
    malloc_trim(0);
    wrong_free(neighbour);
    malloc_trim(0);
    say("live[0] is %#x after the second free, 0x5a was written\n", (unsigned char)live[0]);
    for (int i = 0; i < OBJECTS; i++)
        seen += malloc(size) == live;
    say("the live object is handed out %d times\n", seen);
}

static const struct {
    const char *name;
    void (*run)(size_t size);
    size_t size;
} cases[] = {
    {"free(p) free(p)", twice, 64},
    {"free(p) free(p)", twice, 20},
    {"free(p) free(p)", twice, 3000},
    {"free(p) free(p)", twice, 24000},
    {"free(p) free(p)", twice, 100000},
    {"free(p) free(p)", twice, 3000000},
    {"free(p) free(q) free(p)", twice_between, 64},
    {"free(p) free(q) free(p)", twice_between, 1000},
    {"free(p) free(q) free(p)", twice_between, 100000},
    {"free(p) free(p) malloc_trim", twice_trim, 64},
    {"free(p) free(p) malloc_trim", twice_trim, 8000},
    {"free(p) free(q) free(p) malloc_trim", between_trim, 64},
    {"free(p) free(q) free(p) malloc_trim", between_trim, 2000},
    {"free(p + 8)", inside_8, 64},
    {"free(p + 8)", inside_8, 8000},
    {"free(p + 8)", inside_8, 100000},
    {"free(p + 16)", inside_16, 64},
    {"free(p + 16)", inside_16, 48},
    {"free(p + 16)", inside_16, 3000},
    {"free(p + 16)", inside_16, 24000},
    {"free(p + 16)", inside_16, 100000},
    {"free of what has been free for long", at_rest, 64},
    {"free of what has been free for long", at_rest, 1000},
    {"free of what has been free for long", at_rest, 24000},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static int is_live(uintptr_t address)
{
    for (int i = 0; i < LIVE; i++)
        if ((uintptr_t)object[i] == address)
            return 1;
    return 0;
}

/* Whether free() says nothing about it. */
static int accepts(uintptr_t address)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        close(STDERR_FILENO);
        wrong_free((void *)address);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Bytes of the library's own, and of the program's: of each region some at its start, and all over. */
static void probe(void)
{
    static char maps[1 << 16];
    static struct {
        uintptr_t from, to;
    } region[REGIONS_MAX];
    int count = 0, accepted = 0, probes = 0, fd;
    unsigned random = 1;
    size_t n = 0;
    ssize_t got;

    for (int i = 0; i < OBJECTS; i++)
        object[i] = malloc((size_t)(16 << i % 12));
    for (int i = LIVE; i < OBJECTS; i++)
        free(object[i]);
    /* A second free of an object deep in a sheaf would be accepted (docs/malloc.md): no sheaf has objects from here on. */
    malloc_trim(0);
    fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while ((got = read(fd, maps + n, sizeof(maps) - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    for (char *line = maps; line && *line && count < REGIONS_MAX; line = strchr(line, '\n') + 1) {
        char *end;
        uintptr_t from = strtoul(line, &end, 16), to = strtoul(end + 1, &end, 16);
        if (strncmp(end, " rw", 3) == 0) {
            region[count].from = from;
            region[count++].to = to;
        }
        if (!strchr(line, '\n'))
            break;
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < PROBES; j++) {
            size_t span = region[i].to - region[i].from;
            random = random * 1664525u + 1013904223u;
            /* Half of them in the first 256 KiB, where descriptors lie. */
            size_t within = j % 2 && span > 1 << 18 ? 1 << 18 : span;
            uintptr_t at = region[i].from + ((size_t)(random >> 4) << 4) % within / 64 * 64;
            if (is_live(at))
                continue;
            probes++;
            if (accepts(at)) {
                accepted++;
                say("accepted: %lx, of %lx-%lx\n", (unsigned long)at, (unsigned long)region[i].from,
                    (unsigned long)region[i].to);
            }
        }
    say("probes %d\naccepted %d\n", probes, accepted);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        say("cases %d\n", CASES);
    } else if (strcmp(argv[1], "probe") == 0) {
        probe();
    } else {
        int number = atoi(argv[1]);
        if (number >= CASES)
            return 2;
        say("%s, %zu bytes: ", cases[number].name, cases[number].size);
        cases[number].run(cases[number].size);
    }
    return 0;
}
