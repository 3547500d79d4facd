/* SPDX-License-Identifier: MIT */
/*
 * stook-bench CASE: every allocator in a process of its own, interleaved over the repeats, so that a
 * disturbance of the machine meets all of them and none alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "output.h"
#include "plan.h"
#include "roster.h"
#include "run.h"
#include "variant.h"

#define RECORDS_MAX 256
#define REPEATS_MAX 101

static struct options options;

static double main_median(double *values, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        for (unsigned j = i; j > 0 && values[j - 1] > values[j]; j--) {
            double swap = values[j];
            values[j] = values[j - 1];
            values[j - 1] = swap;
        }
    if (!count)
        return NAN;
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* What one record's runs reported, by metric. */
struct samples {
    double value[METRIC_COUNT][REPEATS_MAX];
    unsigned count[METRIC_COUNT];
};

static enum run_status main_run_once(const struct plan_case *plan, const char *worker,
                                     const struct output_record *record, struct samples *samples)
{
    char text[12][48], name[32], path[4200];
    char *argv[2 + 12 + 1] = {path, name};
    struct run_figures figures;
    const struct variant *variant = &record->variant;
    int count = 0;

    snprintf(path, sizeof(path), "%s", worker);
    snprintf(name, sizeof(name), "%s", plan->name);
    snprintf(text[count++], sizeof(text[0]), "object_size=%zu", record->object_size);
    snprintf(text[count++], sizeof(text[0]), "n=%zu", record->n);
    snprintf(text[count++], sizeof(text[0]), "threads=%zu",
             options.threads ? options.threads : plan->threads);
    snprintf(text[count++], sizeof(text[0]), "mib=%zu", options.mib ? options.mib : plan->mib);
    snprintf(text[count++], sizeof(text[0]), "rounds=%u",
             options.rounds    ? options.rounds
             : variant->rounds ? variant->rounds
                               : plan->rounds);
    snprintf(text[count++], sizeof(text[0]), "ms=%u", options.ms ? options.ms : plan->ms);
    snprintf(text[count++], sizeof(text[0]), "settle=%g", options.settle);
    snprintf(text[count++], sizeof(text[0]), "in_order=%d", options.in_order);
    snprintf(text[count++], sizeof(text[0]), "mode=%s", mode_names[variant->mode]);
    snprintf(text[count++], sizeof(text[0]), "order=%s", order_names[variant->order]);
    snprintf(text[count++], sizeof(text[0]), "free_order=%s",
             free_order_names[variant->free_order]);
    snprintf(text[count++], sizeof(text[0]), "align=%zu", variant->align);
    for (int i = 0; i < count; i++)
        argv[2 + i] = text[i];
    enum run_status status =
        run_worker(argv, variant->raised ? roster_keep(record->entry) : NULL, &figures);
    if (status == RUN_OK)
        for (int metric = 0; metric < METRIC_COUNT; metric++)
            if (!isnan(figures.value[metric]))
                samples->value[metric][samples->count[metric]++] = figures.value[metric];
    return status;
}

static void main_summarise(struct output_record *record, struct samples *samples)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++)
        record->median.value[metric] = main_median(samples->value[metric], samples->count[metric]);
    /* Sorted now. */
    unsigned pairs = samples->count[METRIC_pair_ns];
    record->pair_min = pairs ? samples->value[METRIC_pair_ns][0] : NAN;
    record->pair_max = pairs ? samples->value[METRIC_pair_ns][pairs - 1] : NAN;
}

static int main_wants(const struct plan_case *plan, const struct roster_entry *entry)
{
    return (entry->groups & (unsigned)plan->group) &&
           options_listed(options.allocators, entry->allocator) &&
           (plan->record == RECORD_MEMORY || options_listed(options.linked, entry->linked));
}

/* A choice that a record does not have cannot leave it out. */
static int main_wants_variant(const struct variant *variant)
{
    int aligned = !variant->align || !options.align[0];

    for (size_t i = 0; options.align[i]; i++)
        aligned |= options.align[i] == variant->align;
    return aligned &&
           (!variant->mode || options_listed(options.modes, mode_names[variant->mode])) &&
           (!variant->order || options_listed(options.orders, order_names[variant->order])) &&
           (!variant->free_order ||
            options_listed(options.free_orders, free_order_names[variant->free_order]));
}

static size_t main_list(const struct plan_case *plan, size_t object_size, size_t n,
                        struct output_record *records)
{
    struct variant variants[VARIANTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < roster_count; i++) {
        if (!main_wants(plan, &roster[i]))
            continue;
        size_t found = variant_list(plan, &roster[i], options.quick, variants);
        for (size_t j = 0; j < found && count < RECORDS_MAX; j++)
            if (main_wants_variant(&variants[j]))
                records[count++] = (struct output_record){
                    .entry = &roster[i],
                    .variant = variants[j],
                    .object_size = object_size,
                    .n = n,
                    .measured = 1,
                };
    }
    return count;
}

/* Returns how many runs failed, which is not the same as being missing. */
static int main_run_case(const struct plan_case *plan, size_t object_size, size_t n)
{
    static struct output_record records[RECORDS_MAX];
    static struct samples samples[RECORDS_MAX];
    unsigned repeats = options.repeats ? options.repeats : options.quick ? 1 : plan->repeats;
    size_t count = main_list(plan, object_size, n, records);
    int failures = 0;

    memset(samples, 0, sizeof(samples));
    for (unsigned round = 0; round < repeats; round++) {
        for (size_t i = 0; i < count; i++) {
            /* Each round begins with another one: being first or last is nobody's lot. */
            size_t at = (i + round * (count / repeats + 1)) % count;
            struct output_record *record = &records[at];
            const char *missing = "";
            if (!record->measured)
                continue;
            const char *worker = roster_worker(record->entry, &missing);
            enum run_status status = RUN_CANNOT;
            if (worker)
                status = main_run_once(plan, worker, record, &samples[at]);
            if (status == RUN_OK)
                continue;
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
            failures += main_run_case(plan, sizes[i], pair);
            continue;
        }
        /* A size that is not the case's own has no batch but the last of its list. */
        size_t j = 0;
        while (plan->paired && !options.n[0] && ns[j + 1])
            j++;
        do
            failures += main_run_case(plan, sizes[i], ns[j]);
        while (ns[j] && ns[++j]);
    }
    return failures;
}

int main(int argc, char **argv)
{
    int failures = 0, ran = 0;

    options_parse(&options, argc, argv);
    if (options.repeats > REPEATS_MAX)
        options.repeats = REPEATS_MAX;
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
