/* SPDX-License-Identifier: MIT */
/*
 * For a shared library this build's worker runs with the other library in LD_LIBRARY_PATH, so the two sides differ in the
 * library alone.  Statically linked and inlined code is part of the program, so the other build's own worker runs it: an
 * inlined fast path cannot be loaded with a library of another layout.
 */
#include "against.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample.h"

#define AGAINST_REPEATS 15 /* of the timed cases, whose runs take a tenth of a second */

/* One row: the figures of both sides, run by run. */
struct against_row {
    double here[METRIC_COUNT][REPEATS_MAX];
    double there[METRIC_COUNT][REPEATS_MAX];
    char worker[PATH_MAX];
    unsigned runs;
};

/* What is compared of a metric. */
struct against_figures {
    double here, there, ratio, ratio_min, ratio_max, difference;
    double least; /* the ratio of the two least figures: what a busy machine disturbs least */
};

static char against_libraries[PATH_MAX];
static char against_setting[PATH_MAX + 32];

void against_open(const char *folder)
{
    char path[PATH_MAX + 16];

    if (!realpath(folder, against_libraries)) {
        fprintf(stderr, "stook-bench: --against %s: no such folder\n", folder);
        exit(2);
    }
    snprintf(path, sizeof(path), "%s/libstook.so", against_libraries);
    if (access(path, R_OK)) {
        fprintf(stderr, "stook-bench: --against %s: there is no libstook.so\n", folder);
        exit(2);
    }
    snprintf(against_setting, sizeof(against_setting), "LD_LIBRARY_PATH=%s", against_libraries);
}

/*
 * Whether the worker, started with the other libraries' folder, takes its libraries of ours from
 * there. The loader is asked: a missing file name would silently compare this build with itself.
 */
static int against_loads(const char *worker)
{
    char command[2 * PATH_MAX], line[2 * PATH_MAX], wanted[PATH_MAX + 8];
    int found = 0, wrong = 0;

    snprintf(command, sizeof(command), "LD_TRACE_LOADED_OBJECTS=1 LD_LIBRARY_PATH='%s' '%s' 2>&1",
             against_libraries, worker);
    snprintf(wanted, sizeof(wanted), "=> %s/", against_libraries);
    FILE *lines = popen(command, "re");
    if (!lines)
        return 0;
    while (fgets(line, sizeof(line), lines)) {
        int of_ours = strstr(line, "\tlibstook") == line;
        found += of_ours && strstr(line, wanted);
        wrong += (of_ours && !strstr(line, wanted)) || strstr(line, "not found");
    }
    return pclose(lines) == 0 && found && !wrong;
}

/* The other side's worker of a row; false with the reason why there is none. */
static int against_worker(struct output_record *record, const char *here, char *worker)
{
    const struct roster_entry *entry = record->entry;
    int shared = !strcmp(entry->linked, "shared");
    const char *which = "loads nothing from there";

    if (shared && strcmp(entry->allocator, "stook-inline") != 0) {
        snprintf(worker, PATH_MAX, "%s", here);
    } else {
        int length = snprintf(worker, PATH_MAX, "%s/../libexec/stook-bench/%s.%s",
                              against_libraries, entry->allocator, entry->linked);
        which = "has no worker of its own for what is compiled in (../libexec/stook-bench)";
        if (length >= PATH_MAX || access(worker, X_OK))
            shared = 0, *worker = '\0';
    }
    if (*worker && (!shared || against_loads(worker)))
        return 1;
    snprintf(record->missing, sizeof(record->missing), "the other build: %s", which);
    return 0;
}

/* One run of one side; a side that does not run takes its row out. Returns 1 where a run failed. */
static int against_once(const struct options *options, const struct plan_case *plan, int there,
                        struct output_record *record, struct against_row *row, const char *worker)
{
    double(*side)[REPEATS_MAX] = there ? row->there : row->here;
    struct run_figures figures;
    enum run_status status =
        sample_run(options, plan, worker, record, there ? against_setting : NULL, &figures);

    for (int metric = 0; metric < METRIC_COUNT; metric++)
        side[metric][row->runs] = status == RUN_OK ? figures.value[metric] : NAN;
    if (status == RUN_OK)
        return 0;
    record->measured = 0;
    snprintf(record->missing, sizeof(record->missing), "%s: %s",
             there ? "the other build" : "this build",
             status == RUN_CANNOT ? "cannot run here" : "failed");
    return status == RUN_FAILED;
}

/* The next pair of a row: which side is first alternates. */
static int against_pair(const struct options *options, const struct plan_case *plan,
                        struct output_record *record, struct against_row *row)
{
    const char *missing = "";
    const char *here = roster_worker(record->entry, &missing);
    int failures = 0;

    if (!here)
        snprintf(record->missing, sizeof(record->missing), "this build: %s", missing);
    if (!here || (!*row->worker && !against_worker(record, here, row->worker))) {
        record->measured = 0;
        return 0;
    }
    for (unsigned turn = 0; turn < 2 && record->measured; turn++) {
        int there = (turn + row->runs) % 2 != 0;
        failures += against_once(options, plan, there, record, row, there ? row->worker : here);
    }
    row->runs += record->measured != 0;
    return failures;
}

/* Zero over zero is no change; a ratio to nothing is none. */
static double against_ratio(double here, double there)
{
    if (here == there)
        return 1;
    return there > 0 ? here / there : NAN;
}

/* False where the row has no such figure. */
static int against_compare(struct against_row *row, enum metric metric,
                           struct against_figures *figures)
{
    double ratios[REPEATS_MAX], differences[REPEATS_MAX];
    unsigned count = 0, pairs = 0;

    for (unsigned i = 0; i < row->runs; i++) {
        double here = row->here[metric][i], there = row->there[metric][i];
        double ratio = against_ratio(here, there);
        if (isnan(here) || isnan(there))
            continue;
        differences[pairs++] = here - there;
        if (!isnan(ratio))
            ratios[count++] = ratio;
    }
    if (!pairs)
        return 0;
    *figures = (struct against_figures){
        .here = sample_median(row->here[metric], row->runs),
        .there = sample_median(row->there[metric], row->runs),
        .ratio = sample_median(ratios, count),
        .difference = sample_median(differences, pairs),
    };
    /* Sorted now. */
    figures->least = against_ratio(row->here[metric][0], row->there[metric][0]);
    figures->ratio_min = count ? ratios[0] : NAN;
    figures->ratio_max = count ? ratios[count - 1] : NAN;
    return 1;
}

/* Halves that no clock of their own has timed are left out. */
static int against_shows(const struct plan_case *plan, int metric)
{
    switch (metric) {
    case METRIC_alloc_ns:
    case METRIC_free_ns:
        return plan->record == RECORD_SLUB_BULK || plan->record == RECORD_KMALLOC ||
               plan->record == RECORD_HANDOFF_RCU;
    case METRIC_reserve_mib:
    case METRIC_objects:
    case METRIC_clock_ns:
        return 0;
    default:
        return 1;
    }
}

static void against_number(const char *key, double value, int decimals)
{
    if (isnan(value))
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %.*f", key, decimals, value);
}

static void against_word(const char *key, const char *word)
{
    printf(*word ? ", \"%s\": \"%s\"" : ", \"%s\": null", key, word);
}

static void against_json(const struct plan_case *plan, const struct output_record *record,
                         const char *metric, unsigned runs, const struct against_figures *figures)
{
    printf("{\"case\": \"%s\", \"allocator\": \"%s\", \"linked\": \"%s\", \"object_size\": %zu, "
           "\"n\": %zu",
           plan->name, record->entry->allocator, record->entry->linked, record->object_size,
           record->n);
    against_word("mode", mode_names[record->variant.mode]);
    against_word("order", order_names[record->variant.order]);
    against_word("free_order", free_order_names[record->variant.free_order]);
    printf(", \"align\": %zu, \"raised\": %s, \"metric\": \"%s\", \"runs\": %u",
           record->variant.align, record->variant.raised ? "true" : "false", metric, runs);
    against_number("this", figures->here, 3);
    against_number("against", figures->there, 3);
    against_number("difference", figures->difference, 3);
    against_number("ratio", figures->ratio, 4);
    against_number("ratio_min", figures->ratio_min, 4);
    against_number("ratio_max", figures->ratio_max, 4);
    against_number("ratio_of_least", figures->least, 4);
    printf("}\n");
}

static void against_table_row(const struct output_record *record, const char *metric,
                              const struct against_figures *figures)
{
    const struct variant *variant = &record->variant;
    char how[64];

    snprintf(how, sizeof(how), "%s%s%s%s%s%s", mode_names[variant->mode], variant->order ? " " : "",
             order_names[variant->order], variant->free_order ? " " : "",
             free_order_names[variant->free_order], variant->raised ? " kept" : "");
    printf("  %-12s %-6s %-28s %-18s", record->entry->allocator, record->entry->linked, how,
           metric);
    output_cell(figures->here, 9, 3);
    output_cell(figures->there, 9, 3);
    output_cell(figures->difference, 8, 3);
    output_cell(figures->ratio, 6, 3);
    output_cell(figures->ratio_min, 6, 3);
    output_cell(figures->ratio_max, 6, 3);
    output_cell(figures->least, 6, 3);
    printf("\n");
}

static void against_head(const struct plan_case *plan, size_t object_size, size_t n)
{
    printf("%s: %s\n", plan->name, plan->what);
    printf("  (%zu bytes, n = %zu; against %s)\n", object_size, n, against_libraries);
    printf("  %-12s %-6s %-28s %-18s %9s %9s %8s %6s %6s %6s %6s\n", "allocator", "linked", "mode",
           "figure", "this", "against", "diff", "ratio", "min", "max", "least");
}

static void against_print(const struct options *options, const struct plan_case *plan,
                          const struct output_record *record, struct against_row *row)
{
    struct against_figures figures;

    if (!record->measured) {
        fprintf(options->json ? stderr : stdout, "%s: %s: %s (%s): %s\n",
                options->json ? "missing" : "  missing", plan->name, record->entry->allocator,
                record->entry->linked, record->missing);
        return;
    }
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        const char *name = metric_name((enum metric)metric);
        if (!against_shows(plan, metric) || !against_compare(row, (enum metric)metric, &figures))
            continue;
        if (options->json)
            against_json(plan, record, name, row->runs, &figures);
        else
            against_table_row(record, name, &figures);
    }
}

static unsigned against_repeats(const struct options *options, const struct plan_case *plan)
{
    if (options->repeats)
        return options->repeats;
    if (options->quick)
        return 1;
    /* The others take seconds a run, and their figures are bytes, faults, or long rounds. */
    return plan->ms ? AGAINST_REPEATS : plan->repeats < 3 ? 3 : plan->repeats;
}

int against_run_case(const struct options *options, const struct plan_case *plan,
                     size_t object_size, size_t n)
{
    static struct output_record records[RECORDS_MAX];
    static struct against_row rows[RECORDS_MAX];
    size_t count = sample_list(options, plan, object_size, n, records);
    unsigned repeats = against_repeats(options, plan);
    int failures = 0;

    for (size_t i = 0; i < count; i++) {
        rows[i].runs = 0;
        *rows[i].worker = '\0';
    }
    for (unsigned round = 0; round < repeats; round++)
        for (size_t i = 0; i < count; i++)
            if (records[i].measured)
                failures += against_pair(options, plan, &records[i], &rows[i]);
    if (!options->json && count)
        against_head(plan, object_size, n);
    for (size_t i = 0; i < count; i++)
        against_print(options, plan, &records[i], &rows[i]);
    if (!options->json && count)
        printf("\n");
    fflush(stdout);
    return failures;
}
