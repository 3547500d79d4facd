/* SPDX-License-Identifier: MIT */
#include "output.h"

#include "output_accounted.h"
#include "output_bulk.h"
#include "output_handoff.h"
#include "output_latency.h"
#include "pace.h"

#include <stdio.h>
#include <string.h>

static void output_json_number(const char *key, double value)
{
    if (isnan(value))
        printf(", \"%s\": null", key);
    else
        printf(", \"%s\": %.3f", key, value);
}

/* null where the record has no such choice. */
static void output_json_word(const char *key, const char *word)
{
    if (*word)
        printf(", \"%s\": \"%s\"", key, word);
    else
        printf(", \"%s\": null", key);
}

static void output_json_variant(const struct plan_case *plan, const struct output_record *records,
                                size_t count, const struct output_record *record)
{
    const struct variant *variant = &record->variant;

    output_json_word("mode", mode_names[variant->mode]);
    if (plan->record == RECORD_ACCOUNTED)
        output_json_number("extra_ns", output_accounted_extra(records, count, record));
    if (plan->record == RECORD_SLUB_BULK) {
        output_json_word("order", order_names[variant->order]);
        output_json_word("free_order", free_order_names[variant->free_order]);
    }
    if (plan->record == RECORD_SLUB_BULK || plan->record == RECORD_KMALLOC ||
        plan->record == RECORD_HANDOFF_RCU)
        output_json_number("reserve_mib", VALUE(record, reserve_mib));
}

static void output_json_times(const struct output_record *record)
{
    printf(", \"linked\": \"%s\", \"object_size\": %zu, \"n\": %zu", record->entry->linked,
           record->object_size, record->n);
    output_json_number("alloc_ns", VALUE(record, alloc_ns));
    output_json_number("free_ns", VALUE(record, free_ns));
    output_json_number("pair_ns", VALUE(record, pair_ns));
    output_json_number("pair_min", record->pair_min);
    output_json_number("pair_max", record->pair_max);
}

/* Variants of one allocator lack for the same reason: it is said once. */
static int output_says_missing(const struct output_record *records, size_t at)
{
    const struct output_record *record = &records[at];

    if (record->measured)
        return 0;
    return at == 0 || record[-1].entry != record->entry ||
           strcmp(record[-1].missing, record->missing) != 0;
}

/* Bytes an object, and by how many more than with nothing kept. */
static void output_json_columns(const struct output_record *records, size_t count,
                                const struct output_record *record)
{
    printf(", \"object_size\": %zu, \"align\": %zu, \"n\": %.0f", record->object_size,
           record->variant.align, VALUE(record, objects));
    output_json_word("mode", mode_names[record->variant.mode]);
    output_json_number("resident_bytes", VALUE(record, resident_bytes));
    output_json_number("counted_bytes", VALUE(record, counted_bytes));
    output_json_number("extra_resident",
                       output_columns_extra(records, count, record, METRIC_resident_bytes));
    output_json_number("extra_counted",
                       output_columns_extra(records, count, record, METRIC_counted_bytes));
}

void output_json(const struct plan_case *plan, const struct output_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        if (!record->measured) {
            /* Not among the records: their readers may rely on the keys. */
            if (output_says_missing(records, i))
                fprintf(stderr, "missing: %s: %s (%s): %s\n", plan->name, record->entry->allocator,
                        record->entry->linked, record->missing);
            continue;
        }
        printf("{\"case\": \"%s\", \"allocator\": \"%s\"", plan->name, record->entry->allocator);
        if (plan->record == RECORD_COLUMNS) {
            output_json_columns(records, count, record);
            printf("}\n");
            continue;
        }
        if (plan->record == RECORD_LATENCY) {
            output_latency_json(record);
            printf("}\n");
            continue;
        }
        if (plan->record != RECORD_MEMORY)
            output_json_times(record);
        if (plan->record == RECORD_IDLE) {
            output_json_number("kib_per_thread", VALUE(record, kib_per_thread));
            output_json_number("kib_at_once", VALUE(record, kib_at_once));
        }
        if (plan->record == RECORD_MEMORY) {
            output_json_number("resident_over_live", VALUE(record, resident_over_live));
            output_json_number("resident_mib", VALUE(record, resident_mib));
            output_json_number("faults_per_1000", VALUE(record, faults_per_1000));
        }
        if (plan->record >= RECORD_SLAB_BULK)
            output_json_variant(plan, records, count, record);
        else if (plan->record != RECORD_TIME && !isnan(VALUE(record, reserve_mib)))
            output_json_number("reserve_mib", VALUE(record, reserve_mib));
        printf("}\n");
    }
    fflush(stdout);
}

void output_cell(double value, int width, int decimals)
{
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, decimals, value);
}

double output_best_peer(const struct output_record *records, size_t count, const char *linked)
{
    double best = NAN;
    for (size_t i = 0; i < count; i++) {
        double pair = VALUE(&records[i], pair_ns);
        if (!records[i].measured || records[i].entry->kind != KIND_PEER)
            continue;
        if (linked && strcmp(records[i].entry->linked, linked))
            continue;
        if (isnan(best) || pair < best)
            best = pair;
    }
    return best;
}

const char *output_peers_of(const struct output_record *record)
{
    const struct roster_entry *entry = record->entry;
    int is_inline = !strcmp(entry->allocator, "stook-inline");

    return is_inline || entry->kind == KIND_FLOOR || entry->kind == KIND_POOL ? NULL
                                                                              : entry->linked;
}

static void output_table_row(const struct plan_case *plan, const struct output_record *record,
                             const struct output_record *records, size_t count)
{
    const struct roster_entry *entry = record->entry;

    printf("  %-14s %-7s", entry->allocator, plan->record == RECORD_MEMORY ? "" : entry->linked);
    switch (plan->record) {
    case RECORD_TIME:
        output_cell(VALUE(record, alloc_ns), 9, 2);
        output_cell(VALUE(record, free_ns), 9, 2);
        output_cell(VALUE(record, pair_ns), 9, 2);
        output_cell(record->pair_min, 9, 2);
        output_cell(record->pair_max, 9, 2);
        output_cell(VALUE(record, pair_ns) /
                        output_best_peer(records, count, output_peers_of(record)),
                    9, 2);
        break;
    case RECORD_IDLE:
        output_cell(VALUE(record, kib_per_thread), 9, 2);
        output_cell(VALUE(record, kib_at_once), 9, 2);
        output_cell(VALUE(record, reserve_mib), 9, 1);
        break;
    case RECORD_MEMORY:
        output_cell(VALUE(record, resident_over_live), 9, 3);
        output_cell(VALUE(record, resident_mib), 9, 1);
        output_cell(VALUE(record, faults_per_1000), 9, 3);
        output_cell(VALUE(record, reserve_mib), 9, 1);
        break;
    case RECORD_LATENCY:
    case RECORD_SLAB_BULK:
    case RECORD_SLUB_BULK:
    case RECORD_KMALLOC:
    case RECORD_HANDOFF_BURST:
    case RECORD_HANDOFF_POOL:
    case RECORD_HANDOFF_RCU:
    case RECORD_ACCOUNTED:
    case RECORD_COLUMNS:
        break;
    }
    printf("\n");
}

/* Heads and rows. */
static void output_table_body(const struct plan_case *plan, const struct output_record *records,
                              size_t count)
{
    switch (plan->record) {
    case RECORD_TIME:
        printf("  %-14s %-7s %9s %9s %9s %9s %9s %9s\n", "allocator", "linked", "alloc", "free",
               "pair", "min", "max", "/ best");
        break;
    case RECORD_IDLE:
        printf("  %-14s %-7s %9s %9s %9s\n", "allocator", "linked", "in turn", "at once",
               "reserve");
        break;
    case RECORD_MEMORY:
        printf("  %-14s %-7s %9s %9s %9s %9s\n", "allocator", "", "/ live", "MiB", "flt/1000",
               "reserve");
        break;
    case RECORD_LATENCY:
        output_latency(records, count);
        return;
    case RECORD_SLAB_BULK:
        output_slab_bulk(records, count);
        return;
    case RECORD_SLUB_BULK:
        output_slub_bulk(records, count);
        return;
    case RECORD_KMALLOC:
        output_kmalloc(records, count);
        return;
    case RECORD_HANDOFF_BURST:
    case RECORD_HANDOFF_POOL:
    case RECORD_HANDOFF_RCU:
        output_handoff(records, count);
        return;
    case RECORD_ACCOUNTED:
        output_accounted(records, count);
        return;
    case RECORD_COLUMNS:
        output_columns(records, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (records[i].measured)
            output_table_row(plan, &records[i], records, count);
}

void output_table(const struct plan_case *plan, const struct output_record *records, size_t count)
{
    double addition_ns = pace_addition_ns();

    printf("%s: %s\n", plan->name, plan->what);
    if (plan->record == RECORD_COLUMNS && count)
        printf("  (%zu bytes, %.0f objects)\n", records[0].object_size,
               VALUE(&records[0], objects));
    else if ((plan->record == RECORD_TIME || plan->record >= RECORD_SLAB_BULK) && count)
        printf("  (%zu bytes, n = %zu; an addition takes %.2f ns now)\n", records[0].object_size,
               records[0].n, addition_ns);
    output_table_body(plan, records, count);
    if (plan->group == GROUP_HANDOFF)
        output_handoff_target(records, count, addition_ns);
    for (size_t i = 0; i < count; i++)
        if (output_says_missing(records, i))
            printf("  %-14s %-7s missing: %s\n", records[i].entry->allocator,
                   records[i].entry->linked, records[i].missing);
    printf("\n");
    fflush(stdout);
}
