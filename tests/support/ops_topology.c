/* SPDX-License-Identifier: MIT */
#include "support/ops.h"
#include "support/random.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static size_t ops_add_text(char *text, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t ops_add_text(char *text, size_t at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    at += (size_t)vsnprintf(text + at, OPS_TOPOLOGY_TEXT - at, format, args);
    va_end(args);
    return at;
}

void ops_topology_text(uint64_t seed, char *text)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u;
    unsigned nodes = 1 + random_below(&state, 8), number[8], cpu = 0;
    unsigned must_run = random_below(&state, nodes), must_store = random_below(&state, nodes);
    size_t at = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < nodes; i++) {
        bool runs = i == must_run || random_below(&state, 4) > 0;
        bool stores = i == must_store || !runs || random_below(&state, 3) > 0;
        /* Numbers with gaps. */
        number[i] = (i ? number[i - 1] + 1 : 0) + random_below(&state, 3) * random_below(&state, 2);
        if (runs) {
            unsigned from = cpu + random_below(&state, 3) * random_below(&state, 2);
            cpu = from + 1 + random_below(&state, 4);
            at = ops_add_text(text, at, "cpus:%u=%u-%u ", number[i], from, cpu - 1);
        }
        if (stores)
            at = ops_add_text(text, at, "memory:%u=%uG ", number[i], 1 + random_below(&state, 64));
    }
    for (unsigned i = random_below(&state, 4); i > 0 && nodes > 1; i--) {
        unsigned a = random_below(&state, nodes), b = random_below(&state, nodes);
        if (a != b)
            at = ops_add_text(text, at, "distance:%u/%u=%u ", number[a], number[b],
                              11 + random_below(&state, 60));
    }
}
