/* SPDX-License-Identifier: MIT */
#include "sample.h"

#include <stdio.h>
#include <string.h>

double sample_median(double *values, unsigned count)
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

enum run_status sample_run(const struct options *options, const struct plan_case *plan,
                           const char *worker, const struct output_record *record,
                           const char *setting, struct run_figures *figures)
{
    char text[12][48], name[32], path[4200];
    char *argv[2 + 12 + 1] = {path, name};
    const struct variant *variant = &record->variant;
    const char *const settings[] = {variant->raised ? roster_keep(record->entry) : NULL, setting};
    int count = 0;

    snprintf(path, sizeof(path), "%s", worker);
    snprintf(name, sizeof(name), "%s", plan->name);
    snprintf(text[count++], sizeof(text[0]), "object_size=%zu", record->object_size);
    snprintf(text[count++], sizeof(text[0]), "n=%zu", record->n);
    snprintf(text[count++], sizeof(text[0]), "threads=%zu",
             options->threads ? options->threads : plan->threads);
    snprintf(text[count++], sizeof(text[0]), "mib=%zu", options->mib ? options->mib : plan->mib);
    snprintf(text[count++], sizeof(text[0]), "rounds=%u",
             options->rounds   ? options->rounds
             : variant->rounds ? variant->rounds
                               : plan->rounds);
    snprintf(text[count++], sizeof(text[0]), "ms=%u", options->ms ? options->ms : plan->ms);
    snprintf(text[count++], sizeof(text[0]), "settle=%g", options->settle);
    snprintf(text[count++], sizeof(text[0]), "in_order=%d", options->in_order);
    snprintf(text[count++], sizeof(text[0]), "mode=%s", mode_names[variant->mode]);
    snprintf(text[count++], sizeof(text[0]), "order=%s", order_names[variant->order]);
    snprintf(text[count++], sizeof(text[0]), "free_order=%s",
             free_order_names[variant->free_order]);
    snprintf(text[count++], sizeof(text[0]), "align=%zu", variant->align);
    for (int i = 0; i < count; i++)
        argv[2 + i] = text[i];
    return run_worker(argv, settings, sizeof(settings) / sizeof(settings[0]), figures);
}

static int sample_wants(const struct options *options, const struct plan_case *plan,
                        const struct roster_entry *entry)
{
    return (entry->groups & (unsigned)plan->group) &&
           (!options->against || entry->kind == KIND_STOOK) &&
           options_listed(options->allocators, entry->allocator) &&
           (plan->record == RECORD_MEMORY || options_listed(options->linked, entry->linked));
}

/* A choice that a record does not have cannot leave it out. */
static int sample_wants_variant(const struct options *options, const struct variant *variant)
{
    int aligned = !variant->align || !options->align[0];

    for (size_t i = 0; options->align[i]; i++)
        aligned |= options->align[i] == variant->align;
    return aligned &&
           (!variant->mode || options_listed(options->modes, mode_names[variant->mode])) &&
           (!variant->order || options_listed(options->orders, order_names[variant->order])) &&
           (!variant->free_order ||
            options_listed(options->free_orders, free_order_names[variant->free_order]));
}

size_t sample_list(const struct options *options, const struct plan_case *plan, size_t object_size,
                   size_t n, struct output_record *records)
{
    struct variant variants[VARIANTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < roster_count; i++) {
        if (!sample_wants(options, plan, &roster[i]))
            continue;
        size_t found = variant_list(plan, &roster[i], options->quick, variants);
        for (size_t j = 0; j < found && count < RECORDS_MAX; j++)
            if (sample_wants_variant(options, &variants[j]))
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
