/* SPDX-License-Identifier: MIT */
/* traces_show.c - a table's cost in each trace, before and after a search, as text or JSON. */
#include "plan/traces.h"

#include "look/target.h"
#include "stook/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct show {
    const struct traces_plan *plan;
    struct traces_table table[2];  /* before and after the search */
    struct traces_sum *sum[2];     /* by trace */
    struct traces_bytes *bytes[2]; /* by trace, at its peak */
    struct traces_bytes *by_class; /* with the last table: by trace and class */
    unsigned tables;
    struct traces_change change[TRACES_CHANGES];
    unsigned changes;
};

static const char *const show_when[2] = {"before", "after"};

/* What the bytes at the peak are. */
static void show_account(struct show *s, unsigned which, unsigned t)
{
    const struct traces_table *table = &s->table[which];
    struct traces_bytes *to = &s->bytes[which][t], *detail;
    struct traces_cost cost;
    unsigned above = 0, part = s->sum[which][t].part;

    memset(&s->by_class[t * TRACES_CLASSES], 0, TRACES_CLASSES * sizeof(s->by_class[0]));
    detail = target_need(calloc(TRACES_PARTS, sizeof(*detail)));
    for (unsigned i = 0; i < table->classes; above = table->class[i++].size) {
        if (!traces_play(&s->plan->trace[t], above, &table->class[i], &cost, detail))
            continue;
        s->by_class[t * TRACES_CLASSES + i] = detail[part];
        to->requested += detail[part].requested;
        to->rounding += detail[part].rounding;
        to->free += detail[part].free;
        to->meta += detail[part].meta;
        to->sheaves += detail[part].sheaves;
    }
    free(detail);
}

static void show_sums(struct show *s, unsigned which)
{
    for (unsigned t = 0; t < s->plan->traces; t++) {
        traces_sum(s->plan, t, &s->table[which], &s->sum[which][t]);
        show_account(s, which, t);
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

static uint64_t show_kib(uint64_t bytes)
{
    return (bytes + 1023) / 1024;
}

static double show_mean(const struct show *s, bool judged)
{
    unsigned searched = s->plan->traces - s->plan->judged;

    return judged ? traces_mean(s->sum[1], s->sum[0], searched, s->plan->traces)
                  : traces_mean(s->sum[1], s->sum[0], 0, searched);
}

static void show_trace(const struct show *s, unsigned which, unsigned t)
{
    const struct traces_trace *trace = &s->plan->trace[t];
    const struct traces_sum *sum = &s->sum[which][t];
    const struct traces_bytes *b = &s->bytes[which][t];

    printf("%-16.16s %8lu %9lu %8lu %8lu %7lu %8lu %8lu %8lu %10lu %8.0f\n", trace->program,
           show_kib(sum->peak), show_kib(b->requested), show_kib(b->rounding), show_kib(b->free),
           show_kib(b->meta), show_kib(b->sheaves), sum->cost.made, sum->cost.gone,
           sum->cost.through, sum->weighed / 1024);
}

static void show_table(const struct traces_table *table)
{
    for (unsigned i = 0; i < table->classes; i++)
        printf("%u:%d:%d%s", table->class[i].size, table->class[i].order, table->class[i].capacity,
               i + 1 == table->classes ? "\n"
               : i % 8 == 7            ? ",\n"
                                       : ",");
}

static void show_text(const struct show *s)
{
    unsigned searched = s->plan->traces - s->plan->judged;

    for (unsigned which = 0; which < s->tables; which++) {
        printf(
            "%s%u classes%s; KiB at each trace's peak; cost: %g bytes an object through slabs, %g a slab "
            "made or unmade\n\n",
            which ? "\n" : "", s->table[which].classes,
            s->tables == 1 ? ""
            : which        ? " after the search"
                           : " before the search",
            s->plan->object, s->plan->slab);
        printf("%-16s %8s %9s %8s %8s %7s %8s %8s %8s %10s %8s\n", "program", "peak", "requested",
               "rounding", "free", "meta", "sheaves", "made", "unmade", "through", "cost");
        for (unsigned t = 0; t < s->plan->traces; t++) {
            if (t == searched && t > 0)
                printf("judged only:\n");
            show_trace(s, which, t);
        }
    }
    if (s->tables == 2) {
        printf("\n%u changes, gain in %% of the cost of traces searched%s:\n", s->changes,
               s->plan->judged ? ", and of those judged only" : "");
        for (unsigned i = 0; i < s->changes; i++)
            if (s->plan->judged)
                printf("  %7.3f %7.3f  %s\n", 100 * s->change[i].gain, 100 * s->change[i].judged,
                       s->change[i].what);
            else
                printf("  %7.3f  %s\n", 100 * s->change[i].gain, s->change[i].what);
        printf("cost of the traces searched: %.4f of what it was\n", show_mean(s, false));
        if (s->plan->judged)
            printf("cost of the traces judged only: %.4f of what it was\n", show_mean(s, true));
    }
    printf("\nclasses, as SIZE:ORDER:CAPACITY\n");
    show_table(&s->table[s->tables - 1]);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void show_json_sum(const struct show *s, unsigned which, unsigned t)
{
    const struct traces_sum *sum = &s->sum[which][t];
    const struct traces_bytes *b = &s->bytes[which][t];

    printf(",\n   \"%s\": {\"peak\": %lu, \"requested\": %lu, \"rounding\": %lu, \"free\": %lu, "
           "\"meta\": %lu, \"sheaves\": %lu,\n    \"slabs_made\": %lu, \"slabs_unmade\": %lu, "
           "\"objects_through_slabs\": %lu, \"cost\": %.0f}",
           show_when[which], sum->peak, b->requested, b->rounding, b->free, b->meta, b->sheaves,
           sum->cost.made, sum->cost.gone, sum->cost.through, sum->weighed);
}

static void show_json_table(const struct show *s, unsigned which)
{
    const struct traces_table *table = &s->table[which];

    printf(" \"classes_%s\": [", show_when[which]);
    for (unsigned i = 0; i < table->classes; i++)
        printf("%s{\"size\": %u, \"order\": %d, \"capacity\": %d}", i ? ",\n  " : "",
               table->class[i].size, table->class[i].order, table->class[i].capacity);
    printf("]");
}

static void show_json_classes(const struct show *s, unsigned t)
{
    const struct traces_table *table = &s->table[s->tables - 1];
    const char *comma = "";

    printf(",\n   \"at_peak\": [");
    for (unsigned i = 0; i < table->classes; i++) {
        const struct traces_bytes *b = &s->by_class[t * TRACES_CLASSES + i];
        if (b->meta == 0)
            continue;
        printf("%s{\"size\": %u, \"requested\": %lu, \"rounding\": %lu, \"free\": %lu, "
               "\"meta\": %lu, \"sheaves\": %lu}",
               comma, table->class[i].size, b->requested, b->rounding, b->free, b->meta,
               b->sheaves);
        comma = ",\n    ";
    }
    printf("]");
}

static void show_json(const struct show *s)
{
    printf("{\"object_bytes\": %g, \"slab_bytes\": %g,\n \"traces\": [", s->plan->object,
           s->plan->slab);
    for (unsigned t = 0; t < s->plan->traces; t++) {
        const struct traces_trace *trace = &s->plan->trace[t];
        printf("%s{\"file\": ", t ? ",\n  " : "");
        output_string(stdout, trace->file);
        printf(", \"program\": ");
        output_string(stdout, trace->program);
        printf(", \"searched\": %s,\n   \"allocs\": %lu, \"classed\": %lu, \"large\": %lu",
               t < s->plan->traces - s->plan->judged ? "true" : "false", trace->allocs,
               trace->classed, trace->large);
        for (unsigned which = 0; which < s->tables; which++)
            show_json_sum(s, which, t);
        show_json_classes(s, t);
        printf("}");
    }
    printf("],\n \"changes\": [");
    for (unsigned i = 0; i < s->changes; i++)
        printf("%s{\"what\": \"%s\", \"gain\": %.9g, \"judged\": %.9g}", i ? ",\n  " : "",
               s->change[i].what, s->change[i].gain, s->change[i].judged);
    printf("],\n");
    if (s->tables == 2)
        printf(" \"cost\": %.9g, \"cost_judged\": %.9g,\n", show_mean(s, false),
               show_mean(s, true));
    for (unsigned which = 0; which < s->tables; which++) {
        show_json_table(s, which);
        printf(which + 1 == s->tables ? "}\n" : ",\n");
    }
}

void traces_run(const struct traces_plan *plan, struct traces_table *table)
{
    struct show *s = target_need(calloc(1, sizeof(*s)));
    struct traces_sum *sums = target_need(calloc((size_t)2 * plan->traces, sizeof(*sums)));
    struct traces_bytes *bytes = target_need(calloc((size_t)2 * plan->traces, sizeof(*bytes)));

    *s = (struct show){
        .plan = plan,
        .table = {*table, *table},
        .sum = {sums, sums + plan->traces},
        .bytes = {bytes, bytes + plan->traces},
        .by_class = target_need(calloc((size_t)TRACES_CLASSES * plan->traces, sizeof(*bytes))),
        .tables = plan->search ? 2 : 1,
    };
    show_sums(s, 0);
    if (plan->search) {
        traces_search(plan, &s->table[1], s->change, &s->changes);
        show_sums(s, 1);
    }
    if (plan->json)
        show_json(s);
    else
        show_text(s);
    free(s->by_class);
    free(bytes);
    free(sums);
    free(s);
}
