/* SPDX-License-Identifier: MIT */
#include "output_handoff.h"

#include <stdio.h>
#include <string.h>

static double handoff_pair(const struct output_record *records, size_t count, const char *allocator,
                           const char *linked, enum mode mode)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].measured && records[i].variant.mode == mode &&
            !strcmp(records[i].entry->allocator, allocator) &&
            (!linked || !strcmp(records[i].entry->linked, linked)))
            return VALUE(&records[i], pair_ns);
    return NAN;
}

/* A floor has one way to be asked, whatever the others have. */
static double handoff_floor(const struct output_record *records, size_t count, enum mode mode)
{
    double floor = handoff_pair(records, count, "floor-ring", NULL, mode);

    return isnan(floor) ? handoff_pair(records, count, "floor-ring", NULL, MODE_SINGLE) : floor;
}

/* The fastest malloc: asked the same way or, where it knows no such way, by single calls. */
static double handoff_best(const struct output_record *records, size_t count,
                           const struct output_record *record)
{
    const char *linked = output_peers_of(record);
    enum mode mode = record->variant.mode == MODE_BULK ? MODE_SINGLE : record->variant.mode;
    double best = NAN;

    for (size_t i = 0; i < count; i++) {
        double pair = VALUE(&records[i], pair_ns);
        if (!records[i].measured || records[i].entry->kind != KIND_PEER ||
            records[i].variant.mode != mode ||
            (linked && strcmp(records[i].entry->linked, linked) != 0))
            continue;
        if (isnan(best) || pair < best)
            best = pair;
    }
    return best;
}

void output_handoff(const struct output_record *records, size_t count)
{
    printf("  %-12s %-6s %-6s %8s %8s %8s %8s %8s %8s %8s %8s\n", "allocator", "linked", "mode",
           "defer", "pair", "min", "max", "/ floor", "/ dpdk", "/ best", "/ single");
    for (size_t i = 0; i < count; i++) {
        const struct output_record *record = &records[i];
        double pair = VALUE(record, pair_ns);
        enum mode mode = record->variant.mode;
        if (!record->measured)
            continue;
        double dpdk = handoff_pair(records, count, "dpdk", NULL, mode);
        if (isnan(dpdk))
            dpdk = handoff_pair(records, count, "dpdk", NULL, MODE_POOL);
        printf("  %-12s %-6s %-6s", record->entry->allocator, record->entry->linked,
               mode_names[mode]);
        output_cell(VALUE(record, free_ns), 8, 2);
        output_cell(pair, 8, 2);
        output_cell(record->pair_min, 8, 2);
        output_cell(record->pair_max, 8, 2);
        output_cell(pair / handoff_floor(records, count, mode), 8, 2);
        output_cell(pair / dpdk, 8, 2);
        output_cell(pair / handoff_best(records, count, record), 8, 2);
        output_cell(mode == MODE_SINGLE
                        ? NAN
                        : pair / handoff_pair(records, count, record->entry->allocator,
                                              record->entry->linked, MODE_SINGLE),
                    8, 2);
        printf("\n");
    }
}

void output_handoff_target(const struct output_record *records, size_t count, double addition_ns)
{
    static const double target_ns = 3.3, target_addition_ns = 1 / 4.4;
    double dpdk = handoff_pair(records, count, "dpdk", NULL, MODE_NONE);
    double scaled = target_ns * addition_ns / target_addition_ns;

    printf("  single calls are to cost %.1f ns where an addition takes %.2f, %.2f here, or what"
           " DPDK's do\n",
           target_ns, target_addition_ns, scaled);
    for (size_t i = 0; i < count; i++) {
        double pair = VALUE(&records[i], pair_ns);
        if (!records[i].measured || records[i].entry->kind != KIND_STOOK)
            continue;
        printf("  %-14s %-7s x %.2f of that", records[i].entry->allocator, records[i].entry->linked,
               pair / scaled);
        if (!isnan(dpdk))
            printf(", x %.2f of DPDK's %.2f", pair / dpdk, dpdk);
        printf("\n");
    }
}
