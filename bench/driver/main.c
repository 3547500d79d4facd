/* SPDX-License-Identifier: MIT */
/*
 * stook-bench CASE: every allocator in a process of its own, interleaved over the repeats, so that a
 * disturbance of the machine meets all of them and none alone.  With --against, two builds of Stook
 * instead (against.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "against.h"
#include "options.h"
#include "output.h"
#include "plan.h"
#include "programs.h"
#include "roster.h"
#include "run.h"
#include "sample.h"

static struct options options;

/* What one record's runs reported, by metric. */
struct samples {
    double value[METRIC_COUNT][REPEATS_MAX];
    unsigned count[METRIC_COUNT];
};

static void main_take(struct samples *samples, const struct run_figures *figures)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        if (!isnan(figures->value[metric]))
            samples->value[metric][samples->count[metric]++] = figures->value[metric];
}

static void main_summarise(struct output_record *record, struct samples *samples)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        record->median.value[metric] =
            sample_median(samples->value[metric], samples->count[metric]);
    /* Sorted now. */
    unsigned pairs = samples->count[METRIC_pair_ns];
    record->pair_min = pairs ? samples->value[METRIC_pair_ns][0] : NAN;
    record->pair_max = pairs ? samples->value[METRIC_pair_ns][pairs - 1] : NAN;
}

/* Returns how many runs failed, which is not the same as being missing. */
static int main_run_case(const struct plan_case *plan, size_t object_size, size_t n)
{
    static struct output_record records[RECORDS_MAX];
    static struct samples samples[RECORDS_MAX];
    unsigned repeats = options.repeats ? options.repeats : options.quick ? 1 : plan->repeats;
    size_t count = sample_list(&options, plan, object_size, n, records);
    int failures = 0;

    memset(samples, 0, sizeof(samples));
    for (unsigned round = 0; round < repeats; round++) {
        for (size_t i = 0; i < count; i++) {
            /* Each round begins with another one: no allocator is always first or last. */
            size_t at = (i + round * (count / repeats + 1)) % count;
            struct output_record *record = &records[at];
            const char *missing = "";
            if (!record->measured)
                continue;
            const char *worker = roster_worker(record->entry, &missing);
            enum run_status status = RUN_CANNOT;
            struct run_figures figures;
            if (worker)
                status = sample_run(&options, plan, worker, record, NULL, &figures);
            if (status == RUN_OK) {
                main_take(&samples[at], &figures);
                continue;
            }
            record->measured = 0;
            snprintf(record->missing, sizeof(record->missing), "%s",
                     !worker                ? missing
                     : status == RUN_CANNOT ? "cannot run here"
                                            : "failed");
            failures += status == RUN_FAILED;
        }
    }
    for (size_t i = 0; i < count; i++)
        main_summarise(&records[i], &samples[i]);
    if (options.json)
        output_json(plan, records, count);
    else
        output_table(plan, records, count);
    return failures;
}

/* The batch that the case pairs with that size, or 0. */
static size_t main_pair(const struct plan_case *plan, size_t object_size)
{
    for (size_t i = 0; plan->paired && plan->object_size[i]; i++)
        if (plan->object_size[i] == object_size)
            return plan->n[i];
    return 0;
}

static int main_run_one(const struct plan_case *plan, size_t object_size, size_t n)
{
    return options.against ? against_run_case(&options, plan, object_size, n)
                           : main_run_case(plan, object_size, n);
}

static int main_run_plan(const struct plan_case *plan)
{
    int failures = 0;
    /* Records of mixed sizes still run once. */
    const size_t *sizes =
        options.object_size[0] && plan->object_size[0] ? options.object_size : plan->object_size;
    /* Cases of one object, and those of mixed sizes, have no n to set. */
    const size_t *ns = options.n[0] && (plan->n[0] > 1 || plan->n[1]) ? options.n : plan->n;

    for (size_t i = 0; i == 0 || sizes[i]; i++) {
        size_t pair = options.n[0] ? 0 : main_pair(plan, sizes[i]);
        if (pair) {
            failures += main_run_one(plan, sizes[i], pair);
            continue;
        }
        /* A size that is not the case's own has no batch but the last of its list. */
        size_t j = 0;
        while (plan->paired && !options.n[0] && ns[j + 1])
            j++;
        do
            failures += main_run_one(plan, sizes[i], ns[j]);
        while (ns[j] && ns[++j]);
    }
    return failures;
}

int main(int argc, char **argv)
{
    int failures = 0, ran = 0;

    if (argc > 1)
        programs_exec(argv[1], argv + 2);
    options_parse(&options, argc, argv);
    if (options.repeats > REPEATS_MAX)
        options.repeats = REPEATS_MAX;
    if (options.against)
        against_open(options.against);
    for (size_t i = 0; i < plan_case_count; i++) {
        const struct plan_case *plan = &plan_cases[i];
        int named =
            !strcmp(options.family, "all") ||
            ((!strcmp(options.family, plan->name) || !strcmp(options.family, plan->family)) &&
             options_listed(options.subcases, plan->name));
        if (!named)
            continue;
        failures += main_run_plan(plan);
        ran = 1;
    }
    if (!ran) {
        fprintf(stderr, "stook-bench: no such case: %s%s%s\n", options.family,
                options.subcases ? " --case " : "", options.subcases ? options.subcases : "");
        return 2;
    }
    return failures ? 1 : 0;
}
