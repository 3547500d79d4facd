/* SPDX-License-Identifier: MIT */
/*
 * A machine as text (STOOK_TOPOLOGY, stook_topology_set()).  What is accepted describes a machine: each CPU lies on a
 * node, each node's home has memory, distances are the same both ways; and it can be printed and read again.
 */
#include "support/fuzz.h"

#include "sim/topology_text.h"

#include <string.h>

static void topology_check(const struct topology *t)
{
    unsigned cpus = 0;

    FUZZ_CHECK(t->nodes > 0 && t->nodes <= TOPOLOGY_NODES_MAX && t->simulated);
    FUZZ_CHECK(t->cpus > 0 && t->cpus <= TOPOLOGY_CPUS_MAX);
    FUZZ_CHECK(t->memory_nodes && !(t->memory_nodes & ~t->online_nodes));
    FUZZ_CHECK((unsigned)__builtin_popcountll(t->memory_nodes) == t->memories);
    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX; cpu++) {
        if (!topology_has_cpu(t, cpu))
            continue;
        cpus++;
        FUZZ_CHECK(cpu < t->cpus && t->node_of_cpu[cpu] < t->nodes);
        FUZZ_CHECK(t->online_nodes >> t->node_of_cpu[cpu] & 1);
        FUZZ_CHECK(topology_is_online(t, cpu));
    }
    FUZZ_CHECK(cpus == t->allowed_cpus);
    for (unsigned node = 0; node < t->nodes; node++) {
        FUZZ_CHECK(t->home_of_node[node] < t->nodes);
        FUZZ_CHECK(t->memory_nodes >> t->home_of_node[node] & 1);
        for (unsigned other = 0; other < t->nodes; other++)
            FUZZ_CHECK(t->distance[node][other] == t->distance[other][node]);
        for (unsigned i = 0; i < t->memories && t->memories > 1; i++)
            FUZZ_CHECK(t->memory_nodes >> t->near[node][i] & 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct topology machine, again;
    char error[TOPOLOGY_TEXT_ERROR] = "", *text = fuzz_text(bytes, n);

    memset((void *)&machine, 0, sizeof(machine));
    if (topology_text_parse(&machine, text, error)) {
        FUZZ_CHECK(!*error);
        topology_check(&machine);
        memset((void *)&again, 0, sizeof(again));
        FUZZ_CHECK(topology_text_parse(&again, text, error));
        FUZZ_CHECK(memcmp((void *)&machine, (void *)&again, sizeof(machine)) == 0);
    } else {
        /* It says where, in printable characters, except words of the text itself. */
        FUZZ_CHECK(strncmp(error, "line ", 5) == 0 && strlen(error) < sizeof(error));
    }
    free(text);
    return 0;
}
