/* SPDX-License-Identifier: MIT */
/*
 * The main program of every worker: one process, one allocator, one case, one line of figures.
 * Arguments: CASE key=value...; the driver writes them, so there are no defaults here but zero.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter.h"
#include "case.h"

static const struct {
    const char *name;
    int (*run)(const struct case_params *params, struct case_result *result);
} cases[] = {
    {"pace", case_pace},
    {"handoff", case_handoff},
    {"handoff-burst", case_handoff_burst},
    {"handoff-pool", case_handoff},
#if ADAPTER_DEFERS
    {"handoff-rcu", case_handoff_rcu},
#endif
#if !ADAPTER_HANDOFF_ONLY
    {"pair", case_pair},
    {"batch", case_slab_bulk},
    {"slab_bulk", case_slab_bulk},
    {"slub_bulk", case_slub_bulk},
    {"kmalloc", case_kmalloc},
    {"idle", case_idle},
    {"parked", case_parked},
#endif
#if ADAPTER_ACCOUNTS
    {"tags", case_accounted},
    {"groups", case_accounted},
    {"columns", case_columns},
    {"columns-table", case_columns},
#endif
#if ADAPTER_ANY_SIZE
    {"latency", case_latency},
    {"latency-phases", case_latency_phases},
    {"latency-threads", case_latency},
    {"large-fixed", case_large_fixed},
    {"large-alternating", case_large_alternating},
    {"large-growing", case_large_growing},
    {"large-random", case_large_random},
    {"returned", case_returned},
    {"breathing", case_breathing},
    {"remote-ordered", case_remote_ordered},
    {"remote-random", case_remote_random},
#endif
};

void case_die(const char *what)
{
    dprintf(STDERR_FILENO, "%s: %s\n", ADAPTER_NAME, what);
    _exit(1);
}

/* One of a list of words; the worker ends at any other. */
static int worker_word(const char *const *names, int count, const char *word)
{
    int found = modes_find(names, count, word);
    if (found < 0)
        case_die("an argument has an unknown value");
    return found;
}

static void worker_parse(struct case_params *params, char *argument)
{
    char *value = strchr(argument, '=');
    if (!value)
        case_die("an argument is not key=value");
    *value++ = '\0';
    double number = strtod(value, NULL);
    if (!strcmp(argument, "object_size"))
        params->object_size = (size_t)number;
    else if (!strcmp(argument, "n"))
        params->n = (size_t)number;
    else if (!strcmp(argument, "align"))
        params->align = (size_t)number;
    else if (!strcmp(argument, "threads"))
        params->threads = (size_t)number;
    else if (!strcmp(argument, "mib"))
        params->mib = (size_t)number;
    else if (!strcmp(argument, "rounds"))
        params->rounds = (unsigned)number;
    else if (!strcmp(argument, "ms"))
        params->ms = (unsigned)number;
    else if (!strcmp(argument, "settle"))
        params->settle = number;
    else if (!strcmp(argument, "litter"))
        params->litter = number;
    else if (!strcmp(argument, "in_order"))
        params->in_order = (int)number;
    else if (!strcmp(argument, "mode"))
        params->mode = (enum mode)worker_word(mode_names, MODE_COUNT, value);
    else if (!strcmp(argument, "order"))
        params->order = (enum order)worker_word(order_names, ORDER_COUNT, value);
    else if (!strcmp(argument, "free_order"))
        params->free_order =
            (enum free_order)worker_word(free_order_names, FREE_ORDER_COUNT, value);
    else
        case_die("an argument has an unknown key");
}

int main(int argc, char **argv)
{
    struct case_params params = {0};
    struct case_result result;

    if (argc < 2)
        case_die("no case given");
    for (int i = 2; i < argc; i++)
        worker_parse(&params, argv[i]);
    for (int i = 0; i < METRIC_COUNT; i++)
        result.value[i] = NAN;
    adapter_check();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]))
            continue;
        int status = cases[i].run(&params, &result);
        if (status)
            return status;
        for (int metric = 0; metric < METRIC_COUNT; metric++)
            if (!isnan(result.value[metric]))
                printf("%s=%.9g ", metric_name((enum metric)metric), result.value[metric]);
        printf("\n");
        return 0;
    }
    dprintf(STDERR_FILENO, ADAPTER_NAME " has no case %s\n", argv[1]);
    return WORKER_CANNOT;
}
