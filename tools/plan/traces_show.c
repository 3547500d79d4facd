/* SPDX-License-Identifier: MIT */
/*
 * traces_show.c - the cost of a table of size classes in each trace, as text or JSON.
 */
#include "plan/traces.h"

#include "look/target.h"
#include "stook/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COST_OBJECT = 1,
    COST_SLAB = 64
}; /* bytes that each counts as in the cost: docs/capacity.md */

/* What a trace cost. */
struct show {
    const struct traces_trace *trace;
    uint64_t made, gone, through, peak;
    struct traces_bytes at_peak;
    struct traces_bytes by_class[TRACES_CLASSES]; /* at the trace's peak */
};

static void show_add(struct traces_bytes *to, const struct traces_bytes *bytes)
{
    to->requested += bytes->requested;
    to->rounding += bytes->rounding;
    to->free += bytes->free;
    to->meta += bytes->meta;
    to->sheaves += bytes->sheaves;
}

/* The part in which the classes together have the most bytes; of several, where the program has asked for the most. */
static unsigned show_peak(const struct traces_cost *cost, unsigned classes, uint64_t *peak)
{
    uint64_t asked = 0;
    unsigned most = 0;

    *peak = 0;
    for (unsigned part = 0; part < TRACES_PARTS; part++) {
        uint64_t bytes = 0, requested = 0;
        for (unsigned i = 0; i < classes; i++) {
            bytes += cost[i].bytes[part];
            requested += cost[i].requested[part];
        }
        if (bytes < *peak || (bytes == *peak && requested <= asked))
            continue;
        *peak = bytes;
        asked = requested;
        most = part;
    }
    return most;
}

static void show_play(struct show *s, const struct traces_trace *trace,
                      const struct traces_table *table)
{
    struct traces_cost *cost = target_need(calloc(table->classes, sizeof(*cost)));
    struct traces_bytes(*detail)[TRACES_PARTS] =
        target_need(calloc(table->classes, sizeof(*detail)));
    unsigned above = 0, part;

    memset(s, 0, sizeof(*s));
    s->trace = trace;
    for (unsigned i = 0; i < table->classes; above = table->class[i++].size) {
        traces_play(trace, above, &table->class[i], &cost[i], detail[i]);
        s->made += cost[i].made;
        s->gone += cost[i].gone;
        s->through += cost[i].through;
    }
    part = show_peak(cost, table->classes, &s->peak);
    for (unsigned i = 0; i < table->classes; i++) {
        s->by_class[i] = detail[i][part];
        show_add(&s->at_peak, &detail[i][part]);
    }
    free(detail);
    free(cost);
}

static uint64_t show_cost(const struct show *s)
{
    return s->peak + COST_OBJECT * s->through + COST_SLAB * (s->made + s->gone);
}

/* ---- text ----------------------------------------------------------------------------------- */

static uint64_t show_kib(uint64_t bytes)
{
    return (bytes + 1023) / 1024;
}

static void show_text_head(const struct traces_table *table)
{
    printf(
        "%u classes; KiB at each trace's peak; cost: %d bytes an object through slabs, %d a slab "
        "made or unmade\n\n",
        table->classes, COST_OBJECT, COST_SLAB);
    printf("%-16s %8s %9s %8s %8s %7s %8s %8s %8s %10s %8s\n", "program", "peak", "requested",
           "rounding", "free", "meta", "sheaves", "made", "unmade", "through", "cost");
}

static void show_text(const struct show *s)
{
    const struct traces_bytes *b = &s->at_peak;

    printf("%-16.16s %8lu %9lu %8lu %8lu %7lu %8lu %8lu %8lu %10lu %8lu\n", s->trace->program,
           show_kib(s->peak), show_kib(b->requested), show_kib(b->rounding), show_kib(b->free),
           show_kib(b->meta), show_kib(b->sheaves), s->made, s->gone, s->through,
           show_cost(s) / 1024);
}

static void show_text_table(const struct traces_table *table)
{
    printf("\nclasses, as SIZE:ORDER:CAPACITY\n");
    for (unsigned i = 0; i < table->classes; i++)
        printf("%u:%d:%d%s", table->class[i].size, table->class[i].order, table->class[i].capacity,
               i + 1 == table->classes ? "\n"
               : i % 8 == 7            ? ",\n"
                                       : ",");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void show_json_bytes(const struct traces_bytes *b)
{
    printf("\"requested\": %lu, \"rounding\": %lu, \"free\": %lu, \"meta\": %lu, \"sheaves\": %lu",
           b->requested, b->rounding, b->free, b->meta, b->sheaves);
}

static void show_json(const struct show *s, const struct traces_table *table)
{
    const struct traces_trace *trace = s->trace;
    const char *comma = "";

    printf("{\"file\": ");
    output_string(stdout, trace->file);
    printf(", \"program\": ");
    output_string(stdout, trace->program);
    printf(
        ",\n   \"allocs\": %lu, \"classed\": %lu, \"large\": %lu,\n   \"before\": {\"peak\": %lu, ",
        trace->allocs, trace->classed, trace->large, s->peak);
    show_json_bytes(&s->at_peak);
    printf(",\n    \"slabs_made\": %lu, \"slabs_unmade\": %lu, \"objects_through_slabs\": %lu, "
           "\"cost\": %lu},\n   \"at_peak\": [",
           s->made, s->gone, s->through, show_cost(s));
    for (unsigned i = 0; i < table->classes; i++) {
        if (s->by_class[i].meta == 0)
            continue;
        printf("%s{\"size\": %u, ", comma, table->class[i].size);
        show_json_bytes(&s->by_class[i]);
        printf("}");
        comma = ",\n    ";
    }
    printf("]}");
}

static void show_json_table(const struct traces_table *table)
{
    printf("],\n \"classes_before\": [");
    for (unsigned i = 0; i < table->classes; i++)
        printf("%s{\"size\": %u, \"order\": %d, \"capacity\": %d}", i ? ",\n  " : "",
               table->class[i].size, table->class[i].order, table->class[i].capacity);
    printf("]}\n");
}

void traces_show(const struct traces_trace *trace, unsigned traces,
                 const struct traces_table *table, bool json)
{
    struct show *s = target_need(malloc(sizeof(*s)));

    if (json)
        printf("{\"object_bytes\": %d, \"slab_bytes\": %d,\n \"traces\": [", COST_OBJECT,
               COST_SLAB);
    else
        show_text_head(table);
    for (unsigned t = 0; t < traces; t++) {
        show_play(s, &trace[t], table);
        if (json) {
            printf(t ? ",\n  " : "");
            show_json(s, table);
        } else {
            show_text(s);
        }
    }
    if (json)
        show_json_table(table);
    else
        show_text_table(table);
    free(s);
}
