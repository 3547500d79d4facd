/* SPDX-License-Identifier: MIT */
#include "output_accounted.h"

#include <stdio.h>

/* The same allocator's record with nothing kept about objects. */
static const struct output_record *accounted_off(const struct output_record *records, size_t count,
                                                 const struct output_record *record)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].measured && records[i].entry == record->entry &&
            records[i].variant.mode == MODE_OFF &&
            records[i].variant.align == record->variant.align)
            return &records[i];
    return NULL;
}

double output_accounted_extra(const struct output_record *records, size_t count,
                              const struct output_record *record)
{
    const struct output_record *off = accounted_off(records, count, record);

    return off ? (VALUE(record, pair_ns) - VALUE(off, pair_ns)) / 2 : NAN;
}

void output_accounted(const struct output_record *records, size_t count)
{
    printf("  %-12s %-6s %-6s %8s %8s %8s %8s %8s %12s\n", "allocator", "linked", "kept", "alloc",
           "free", "pair", "min", "max", "operation");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        if (!record->measured)
            continue;
        printf("  %-12s %-6s %-6s", record->entry->allocator, record->entry->linked,
               mode_names[record->variant.mode]);
        output_cell(VALUE(record, alloc_ns), 8, 2);
        output_cell(VALUE(record, free_ns), 8, 2);
        output_cell(VALUE(record, pair_ns), 8, 2);
        output_cell(record->pair_min, 8, 2);
        output_cell(record->pair_max, 8, 2);
        if (record->variant.mode != MODE_OFF)
            printf("     %+7.2f", output_accounted_extra(records, count, record));
        printf("\n");
    }
    printf("  operation: what an allocation or a free takes more than with nothing kept\n");
}

double output_columns_extra(const struct output_record *records, size_t count,
                            const struct output_record *record, enum metric metric)
{
    const struct output_record *off = accounted_off(records, count, record);

    return off ? record->median.value[metric] - off->median.value[metric] : NAN;
}

void output_columns(const struct output_record *records, size_t count)
{
    printf("  %5s %-14s %10s %8s %10s %8s\n", "align", "kept", "resident", "extra", "counted",
           "extra");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        if (!record->measured)
            continue;
        printf("  %5zu %-14s", record->variant.align, mode_names[record->variant.mode]);
        output_cell(VALUE(record, resident_bytes), 10, 3);
        output_cell(output_columns_extra(records, count, record, METRIC_resident_bytes), 8, 3);
        output_cell(VALUE(record, counted_bytes), 10, 3);
        output_cell(output_columns_extra(records, count, record, METRIC_counted_bytes), 8, 3);
        printf("\n");
    }
}
