/* SPDX-License-Identifier: MIT */
#include "output_bulk.h"

#include <stdio.h>
#include <string.h>

static double bulk_pair(const struct output_record *record)
{
    return record ? VALUE(record, pair_ns) : NAN;
}

static double bulk_alloc(const struct output_record *record)
{
    return record ? VALUE(record, alloc_ns) : NAN;
}

static double bulk_free(const struct output_record *record)
{
    return record ? VALUE(record, free_ns) : NAN;
}

static void bulk_name(const struct output_record *record)
{
    printf("  %-12s %-6s", record->entry->allocator, record->entry->linked);
}

/* What a pair of bulk calls for n objects is to cost at most (issue of bulk calls). */
static double slab_bulk_target(size_t n)
{
    return 4 + 0.2 * (double)n;
}

static const struct output_record *slab_bulk_find(const struct output_record *records, size_t count,
                                                  const char *allocator, const char *linked,
                                                  enum mode mode)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].measured && records[i].variant.mode == mode &&
            !strcmp(records[i].entry->allocator, allocator) &&
            (!linked || !strcmp(records[i].entry->linked, linked)))
            return &records[i];
    return NULL;
}

void output_slab_bulk(const struct output_record *records, size_t count)
{
    double dpdk = bulk_pair(slab_bulk_find(records, count, "dpdk", NULL, MODE_BULK));

    printf("  %-12s %-6s %-6s %8s %8s %8s %8s %8s %9s %8s %8s %8s\n", "allocator", "linked", "mode",
           "alloc", "free", "pair", "min", "max", "n pairs", "target", "/ dpdk", "/ single");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        double pair = VALUE(record, pair_ns);
        int bulk = record->variant.mode == MODE_BULK;
        if (!record->measured)
            continue;
        bulk_name(record);
        printf(" %-6s", mode_names[record->variant.mode]);
        output_cell(VALUE(record, alloc_ns), 8, 2);
        output_cell(VALUE(record, free_ns), 8, 2);
        output_cell(pair, 8, 2);
        output_cell(record->pair_min, 8, 2);
        output_cell(record->pair_max, 8, 2);
        output_cell(pair * (double)record->n, 9, 2);
        output_cell(bulk ? slab_bulk_target(record->n) : NAN, 8, 1);
        output_cell(bulk ? pair / dpdk : NAN, 8, 2);
        output_cell(bulk ? pair / bulk_pair(slab_bulk_find(records, count, record->entry->allocator,
                                                           record->entry->linked, MODE_SINGLE))
                         : NAN,
                    8, 2);
        printf("\n");
    }
}

static const struct output_record *slub_bulk_find(const struct output_record *records, size_t count,
                                                  const char *allocator, enum mode mode,
                                                  enum order order, enum free_order free_order)
{
    for (size_t i = 0; i < count; i++) {
        const struct variant *variant = &records[i].variant;
        if (records[i].measured && variant->mode == mode && variant->order == order &&
            variant->free_order == free_order && variant->raised &&
            !strcmp(records[i].entry->allocator, allocator))
            return &records[i];
    }
    return NULL;
}

/* "alloc  emit 0.60, link-first 6.10: 90 % less"; nothing where one of them was not measured. */
static void slub_bulk_compare(const char *what, const char *one, double one_ns, const char *other,
                              double other_ns, int ratio)
{
    if (isnan(one_ns) || isnan(other_ns))
        return;
    printf("  %-28s %s %.2f, %s %.2f: ", what, one, one_ns, other, other_ns);
    if (ratio)
        printf("x %.2f\n", one_ns / other_ns);
    else
        printf("%.0f %% less\n", 100 * (1 - one_ns / other_ns));
}

static void slub_bulk_compare_all(const struct output_record *records, size_t count)
{
    for (int i = ORDER_SEQUENTIAL; i <= ORDER_RANDOM; i++) {
        enum order order = (enum order)i;
        char what[64];
        const struct output_record *emit =
            slub_bulk_find(records, count, "stook", MODE_EMIT, order, FREE_ORDER_ORDERED);
        const struct output_record *floor = slub_bulk_find(
            records, count, "floor-link", MODE_LINK_FIRST, order, FREE_ORDER_ORDERED);
        snprintf(what, sizeof(what), "alloc, %s", order_names[order]);
        slub_bulk_compare(what, "emit", bulk_alloc(emit), "link-first", bulk_alloc(floor), 0);
        for (int j = FREE_ORDER_ORDERED; j <= FREE_ORDER_SHUFFLED; j++) {
            snprintf(what, sizeof(what), "free %s, %s", free_order_names[j], order_names[order]);
            slub_bulk_compare(what, "emit",
                              bulk_free(slub_bulk_find(records, count, "stook", MODE_EMIT, order,
                                                       (enum free_order)j)),
                              "link-inside",
                              bulk_free(slub_bulk_find(records, count, "stook", MODE_LINK_INSIDE,
                                                       order, (enum free_order)j)),
                              1);
        }
    }
}

void output_slub_bulk(const struct output_record *records, size_t count)
{
    printf("  %-12s %-6s %-11s %-10s %-8s %7s %8s %8s %8s %8s %8s\n", "allocator", "linked", "mode",
           "order", "freed", "reserve", "alloc", "free", "pair", "min", "max");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        if (!record->measured)
            continue;
        bulk_name(record);
        printf(" %-11s %-10s %-8s", mode_names[record->variant.mode],
               record->variant.order ? order_names[record->variant.order] : "-",
               free_order_names[record->variant.free_order]);
        output_cell(VALUE(record, reserve_mib), 7, 0);
        output_cell(VALUE(record, alloc_ns), 8, 2);
        output_cell(VALUE(record, free_ns), 8, 2);
        output_cell(VALUE(record, pair_ns), 8, 2);
        output_cell(record->pair_min, 8, 2);
        output_cell(record->pair_max, 8, 2);
        printf("\n");
    }
    slub_bulk_compare_all(records, count);
}

void output_kmalloc(const struct output_record *records, size_t count)
{
    printf("  %-12s %-6s %7s %8s %8s %8s %8s %8s %8s\n", "allocator", "linked", "reserve", "alloc",
           "free", "pair", "min", "max", "/ best");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        if (!record->measured)
            continue;
        bulk_name(record);
        output_cell(VALUE(record, reserve_mib), 7, 0);
        output_cell(VALUE(record, alloc_ns), 8, 2);
        output_cell(VALUE(record, free_ns), 8, 2);
        output_cell(VALUE(record, pair_ns), 8, 2);
        output_cell(record->pair_min, 8, 2);
        output_cell(record->pair_max, 8, 2);
        output_cell(VALUE(record, pair_ns) /
                        output_best_peer(records, count, output_peers_of(record)),
                    8, 2);
        printf("\n");
    }
}
