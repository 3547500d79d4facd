/* SPDX-License-Identifier: MIT */
#include "variant.h"

#include <string.h>

#define BIT(mode) (1u << MODE_##mode)

struct variant_sink {
    struct variant *variants;
    size_t count;
};

static void variant_add(struct variant_sink *sink, struct variant variant)
{
    if (sink->count < VARIANTS_MAX)
        sink->variants[sink->count++] = variant;
}

static unsigned variant_modes(const struct roster_entry *entry)
{
    return entry->modes ? entry->modes : BIT(SINGLE);
}

/* What is said of whole slabs takes the place of plain bulk, and plain bulk that of single calls. */
static unsigned variant_slub_modes(const struct roster_entry *entry)
{
    static const unsigned ranks[] = {BIT(EMIT) | BIT(LINK_FIRST) | BIT(LINK_INSIDE), BIT(BULK),
                                     BIT(SINGLE)};
    unsigned modes = variant_modes(entry);
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        if (modes & ranks[i])
            return modes & ranks[i];
    return 0;
}

/*
 * Shuffled frees of memory this cold take most of the time, and single calls take longer than bulk
 * calls: the fewer rounds, the slower they are. Modes that are compared most closely have the most rounds.
 */
static unsigned variant_slub_rounds(int single, int shuffled, int quick)
{
    if (quick)
        return single || shuffled ? 1 : 3;
    return single ? (shuffled ? 1 : 3) : (shuffled ? 2 : 7);
}

static void variant_slub_bulk(const struct roster_entry *entry, int quick,
                              struct variant_sink *sink)
{
    unsigned modes = variant_slub_modes(entry);
    /* Only slabs have an order of their own. */
    int slabs = (modes & (BIT(BULK) | BIT(SINGLE))) == 0;

    for (int order = slabs ? ORDER_SEQUENTIAL : ORDER_NONE;
         order <= (slabs ? ORDER_RANDOM : ORDER_NONE); order++)
        for (int mode = 0; mode < MODE_COUNT; mode++)
            for (int free_order = FREE_ORDER_ORDERED; free_order <= FREE_ORDER_SHUFFLED;
                 free_order++) {
                int single = mode == MODE_SINGLE, shuffled = free_order == FREE_ORDER_SHUFFLED;
                struct variant variant = {
                    .mode = (enum mode)mode,
                    .order = (enum order)order,
                    .free_order = (enum free_order)free_order,
                    .rounds = variant_slub_rounds(single, shuffled, quick),
                    .raised = 1,
                };
                if (!(modes >> mode & 1) || (quick && single && shuffled))
                    continue;
                variant_add(sink, variant);
                variant.raised = 0;
                if (mode == MODE_EMIT && !shuffled && !quick)
                    variant_add(sink, variant);
            }
}

/* DPDK's mempool is a pool and has no single calls.  Floors and inlined code have no pool. */
static void variant_handoff_pool(const struct roster_entry *entry, struct variant_sink *sink)
{
    int pools = entry->kind != KIND_FLOOR && strcmp(entry->allocator, "stook-inline") != 0;

    if (entry->kind != KIND_POOL)
        variant_add(sink, (struct variant){.mode = MODE_SINGLE});
    if (pools)
        variant_add(sink, (struct variant){.mode = MODE_POOL});
}

size_t variant_list(const struct plan_case *plan, const struct roster_entry *entry, int quick,
                    struct variant *variants)
{
    static const enum mode columns[] = {MODE_OFF, MODE_GROUP, MODE_BOTH};
    struct variant_sink sink = {variants, 0};

    switch (plan->record) {
    case RECORD_SLAB_BULK:
    case RECORD_HANDOFF_BURST:
        for (int mode = MODE_SINGLE; mode <= MODE_BULK; mode++)
            if (variant_modes(entry) >> mode & 1)
                variant_add(&sink, (struct variant){.mode = (enum mode)mode});
        break;
    case RECORD_SLUB_BULK:
        variant_slub_bulk(entry, quick, &sink);
        break;
    case RECORD_KMALLOC:
        variant_add(&sink, (struct variant){.mode = MODE_SINGLE, .raised = 1});
        if (entry->kind == KIND_STOOK && !quick)
            variant_add(&sink, (struct variant){.mode = MODE_SINGLE});
        break;
    case RECORD_HANDOFF_POOL:
        variant_handoff_pool(entry, &sink);
        break;
    case RECORD_HANDOFF_RCU:
        for (int mode = MODE_MEMB; mode <= MODE_QSBR; mode++)
            variant_add(&sink, (struct variant){.mode = (enum mode)mode, .raised = 1});
        break;
    case RECORD_ACCOUNTED:
        for (int mode = MODE_OFF; mode <= MODE_BOTH; mode++)
            variant_add(&sink, (struct variant){.mode = (enum mode)mode});
        break;
    case RECORD_COLUMNS:
        for (size_t i = 0; plan->align[i]; i++)
            for (size_t j = 0; j < sizeof(columns) / sizeof(columns[0]); j++)
                variant_add(&sink, (struct variant){.mode = columns[j], .align = plan->align[i]});
        break;
    case RECORD_TIME:
    case RECORD_IDLE:
    case RECORD_MEMORY:
    case RECORD_LATENCY:
        variant_add(&sink, (struct variant){0});
    }
    return sink.count;
}
