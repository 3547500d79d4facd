/* SPDX-License-Identifier: MIT */
/*
 *   prog_sparse SIZE COUNT [end]     objects of which one byte is touched, the first or one near the end
 *   prog_sparse start                the virtual size, KiB
 *   prog_sparse heap GIB SIZE N      a heap of so many, of objects of SIZE to SIZE * 2^N bytes, evenly by the
 *                                    logarithm, not touched; then every other one is freed
 */
#include <malloc.h>

#include "surroundings/figures.h"

enum { OBJECTS_MAX = 65536 };

static char *object[OBJECTS_MAX];

static void sparse(size_t size, int count, int from_end)
{
    for (int i = 0; i < count; i++) {
        object[i] = malloc(size);
        if (!object[i])
            give_up("object %d is refused", i);
        object[i][from_end ? size - 100 : 0] = 1;
    }
}

static void heap(size_t bytes, size_t least, unsigned doublings)
{
    size_t sum = 0;
    int count = 0;

    for (unsigned random = 1; sum < bytes && count < OBJECTS_MAX; count++) {
        size_t size;
        random = random * 1664525u + 1013904223u;
        size = least << (random >> 24) % doublings;
        size += (random >> 8) % size;
        object[count] = malloc(size);
        if (!object[count])
            give_up("object %d is refused", count);
        sum += size;
    }
    say("objects %d\nfull %d\nused %zu\nvirtual %ld\n", count, mappings(), sum >> 10,
        virtual_kib());
    for (int i = 0; i < count; i += 2)
        free(object[i]);
    malloc_trim(0);
    say("half %d\n", mappings());
}

int main(int argc, char **argv)
{
    void *volatile first = malloc(100); /* which starts malloc, and no compiler leaves out */
    free(first);
    long before = resident_kib();
    long tables = proc_kib("/proc/self/status", "VmPTE:");
    int mapped = mappings();
    if (argc > 1 && strcmp(argv[1], "start") == 0)
        say("virtual %ld\n", virtual_kib());
    if (argc > 4 && strcmp(argv[1], "heap") == 0)
        heap(strtoul(argv[2], NULL, 10) << 30, strtoul(argv[3], NULL, 10), (unsigned)atoi(argv[4]));
    else if (argc > 2)
        sparse(strtoul(argv[1], NULL, 10), atoi(argv[2]), argc > 3);
    say("mappings %d\nbefore %ld\nresident %ld\ntables %ld\n", mappings() - mapped, before,
        resident_kib(), proc_kib("/proc/self/status", "VmPTE:") - tables);
    return 0;
}
