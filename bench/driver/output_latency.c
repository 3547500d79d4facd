/* SPDX-License-Identifier: MIT */
#include "output_latency.h"

#include <stdio.h>

void output_latency_json(const struct output_record *record)
{
    printf(", \"linked\": \"%s\", \"n\": %zu", record->entry->linked, record->n);
    for (int metric = (int)METRIC_alloc_p50; metric <= (int)METRIC_slow_switches; metric++)
        printf(", \"%s\": %.0f", metric_name((enum metric)metric), record->median.value[metric]);
}

static void latency_table(const char *what, enum metric first, const struct output_record *records,
                          size_t count)
{
    printf("  %-14s %-7s %9s %9s %9s %9s %9s %9s\n", what, "linked", "p50", "p99", "p99.9",
           "p99.99", "p99.999", "largest");
    for (size_t i = 0; i < count; i++) {
        if (!records[i].measured)
            continue;
        printf("  %-14s %-7s", records[i].entry->allocator, records[i].entry->linked);
        for (unsigned metric = 0; metric <= METRIC_alloc_max - METRIC_alloc_p50; metric++)
            output_cell(records[i].median.value[first + metric], 9, 0);
        printf("\n");
    }
}

void output_latency(const struct output_record *records, size_t count)
{
    latency_table("allocation", METRIC_alloc_p50, records, count);
    latency_table("free", METRIC_free_p50, records, count);
    printf("  %-14s %-7s %9s %9s %9s\n", "of 10 us, more", "", "count", "faults", "switches");
    for (size_t i = 0; i < count; i++) {
        if (!records[i].measured)
            continue;
        printf("  %-14s %-7s", records[i].entry->allocator, records[i].entry->linked);
        output_cell(VALUE(&records[i], slow), 9, 0);
        output_cell(VALUE(&records[i], slow_faults), 9, 0);
        output_cell(VALUE(&records[i], slow_switches), 9, 0);
        printf("\n");
    }
}
