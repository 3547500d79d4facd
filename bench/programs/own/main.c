/* SPDX-License-Identifier: MIT */
/*
 * main.c - chooses one of the allocation programs by its name.
 */
#include "own.h"

static const struct {
    const char *name;
    uint64_t (*run)(unsigned scale);
} programs[] = {
    {"nbody", own_nbody},     {"factor", own_factor},     {"minimise", own_minimise},
    {"large", own_large},     {"larson", own_larson},     {"relay", own_relay},
    {"stages", own_stages},   {"thrash", own_thrash},     {"sequence", own_sequence},
    {"strings", own_strings}, {"document", own_document}, {"mixed", own_mixed},
};

int main(int argc, char **argv)
{
    unsigned scale = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;

    for (size_t i = 0; argc > 1 && scale > 0 && i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (strcmp(argv[1], programs[i].name) == 0) {
            printf("%llu\n", (unsigned long long)programs[i].run(scale));
            return 0;
        }
    }
    fprintf(stderr, "usage: stook-bench-own PROGRAM [SCALE]\n");
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        fprintf(stderr, "  %s\n", programs[i].name);
    return 2;
}
