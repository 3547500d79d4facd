/* SPDX-License-Identifier: MIT */
/*
 * timing_costs.c - what things take: without a file as topologies/ublk.costs has it, where each cost has
 * its source; and what a file says.
 */
#include "lab/timing.h"
#include "stook/command.h"

#include "text/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TIMING_NAME(name, key, cost, what) key,
static const char *const timing_names[TIMING_COST_COUNT] = {TIMING_COSTS(TIMING_NAME)};

#define TIMING_VALUE(name, key, cost, what) cost,
const struct timing_costs timing_frozen = {{TIMING_COSTS(TIMING_VALUE)}};

static bool timing_set(struct timing_costs *costs, const char *key, double value)
{
    for (unsigned i = 0; i < TIMING_COST_COUNT; i++)
        if (strcmp(timing_names[i], key) == 0) {
            costs->cost[i] = value;
            return value >= 0 && value <= 1e9;
        }
    return false;
}

int timing_read(const char *name, struct timing_costs *costs)
{
    char line[256], key[32], end;
    double value;
    FILE *file = file_stream(name);
    unsigned number = 0;

    if (!file)
        return complain(STATUS_USAGE, "%s: %s", name, file_error(errno));
    while (fgets(line, sizeof(line), file)) {
        number++;
        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        if (sscanf(line, "%31s %lf %c", key, &value, &end) == 2 && timing_set(costs, key, value))
            continue;
        fclose(file);
        return complain(STATUS_USAGE, "%s: line %u: a cost's name and a number are expected", name,
                        number);
    }
    fclose(file);
    if (costs->cost[TIMING_POLL] < 1)
        return complain(STATUS_USAGE, "%s: poll must be one nanosecond at least", name);
    return 0;
}
