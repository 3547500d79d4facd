/* SPDX-License-Identifier: MIT */
/*
 * topology_text.h - reading a topology in a test, and what holds of any that passes.
 */
#ifndef TESTS_SUPPORT_TOPOLOGY_TEXT_H
#define TESTS_SUPPORT_TOPOLOGY_TEXT_H

#include "sim/topology_text.h"
#include "../tools/stook/topology_print.h"
#include "support/test.h"

#define DOCUMENT "node:8 core:4 smt:2 memory:1,5=32G distance:*=32 distance:0-3=12 distance:4-7=12"

static char error[TOPOLOGY_TEXT_ERROR];
static struct topology parsed, again;

static inline bool parse(struct topology *t, const char *text)
{
    memset(t, 0, sizeof(*t));
    memset(error, 0, sizeof(error));
    return topology_text_parse(t, text, error);
}

static inline void good(const char *text)
{
    if (!parse(&parsed, text))
        fail_msg("\"%s\": %s", text, error);
    assert_true(parsed.simulated);
}

/* What follows from any topology that passes. */
static inline void check_parsed(const char *text)
{
    for (unsigned node = 0; node < parsed.nodes; node++) {
        uint64_t seen = 0;
        for (unsigned i = 0; i < parsed.memories; i++) {
            unsigned m = parsed.near[node][i];
            if (i > (parsed.near[node][0] == node) &&
                parsed.distance[node][m] < parsed.distance[node][parsed.near[node][i - 1]])
                fail_msg("\"%s\": node %u: %u is too late", text, node, m);
            seen |= (uint64_t)1 << m;
        }
        assert_int_equal(seen, parsed.memory_nodes);
        assert_int_equal(parsed.home_of_node[node], parsed.near[node][0]);
        if (parsed.memory_nodes >> node & 1)
            assert_int_equal(parsed.home_of_node[node], node);
        for (unsigned m = 0; m < parsed.nodes; m++)
            assert_int_equal(parsed.distance[node][m], parsed.distance[m][node]);
    }
}

/* What is printed reads as the same. */
static inline void print_and_parse(const char *text)
{
    static char printed[128 << 10], cut[32];
    size_t length;

    length = topology_print(&parsed, printed, sizeof(printed));
    assert_int_equal(length, strlen(printed));
    if (!parse(&again, printed))
        fail_msg("\"%s\" was printed as \"%s\": %s", text, printed, error);
    if (memcmp(&again, &parsed, sizeof(parsed)) != 0)
        fail_msg("\"%s\" was printed as \"%s\", which is another one", text, printed);
    assert_int_equal(topology_print(&parsed, NULL, 0), length);
    assert_int_equal(topology_print(&parsed, cut, sizeof(cut)), length);
    assert_true(strlen(cut) < sizeof(cut) && strncmp(cut, printed, strlen(cut)) == 0);
}

#endif
