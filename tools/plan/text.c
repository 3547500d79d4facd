/* SPDX-License-Identifier: MIT */
/*
 * text.c - a layout in a terminal, and as JSON.
 */
#include "plan/plan.h"

#include <string.h>

enum { TEXT_WIDTH = 72 }; /* characters of a bar */

/* One stretch of a bar. */
struct text_part {
    const char *name;
    char letter;
    uint64_t from, bytes;
};
enum { TEXT_PARTS = 2 * LAYOUT_COLUMNS + 5 };

static const char text_letters[LAYOUT_COLUMNS] = {
#define TEXT_ROW(id, name, letter, bytes) [LAYOUT_##id] = (letter),
    PLAN_COLUMNS(TEXT_ROW)
#undef TEXT_ROW
};

/* A column, and what lies unused before it. */
static unsigned text_add(struct text_part *parts, unsigned n, uint64_t *at, const char *name,
                         char letter, uint64_t from, uint64_t bytes)
{
    if (from > *at)
        parts[n++] = (struct text_part){"unused", '.', *at, from - *at};
    if (bytes > 0)
        parts[n++] = (struct text_part){name, letter, from, bytes};
    *at = from + bytes;
    return n;
}

/* Characters of each part: at least one, the rest in proportion. */
static void text_bar(const struct text_part *parts, unsigned n)
{
    unsigned width[TEXT_PARTS], used = 0, widest = 0;
    uint64_t bytes = parts[n - 1].from + parts[n - 1].bytes;

    for (unsigned i = 0; i < n; i++) {
        width[i] = (unsigned)(parts[i].bytes * TEXT_WIDTH / bytes);
        if (width[i] == 0)
            width[i] = 1;
        used += width[i];
        if (width[i] > width[widest])
            widest = i;
    }
    width[widest] += TEXT_WIDTH - used;
    fputs("  |", stdout);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < width[i]; k++)
            putchar(parts[i].letter);
    fputs("|\n", stdout);
    for (unsigned i = 0; i < n; i++)
        printf("  %c  %8lu - %-8lu %8lu bytes  %s\n", parts[i].letter, parts[i].from,
               (parts[i].from + parts[i].bytes), parts[i].bytes, parts[i].name);
}

static void text_object(const struct plan *plan)
{
    const struct layout *layout = &plan->chosen.layout;
    unsigned which[LAYOUT_COLUMNS], columns = plan_columns(layout, false, which), n = 0;
    struct text_part parts[TEXT_PARTS];
    uint64_t at = 0;

    n = text_add(parts, n, &at, "object", '#', 0, plan->chosen.request.size);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout->column[false][which[i]];
        if (plan_in_object(layout, &column) && column.place != LAYOUT_FREE)
            n = text_add(parts, n, &at, plan_column_names[which[i]], text_letters[which[i]],
                         column.offset, column.element);
    }
    n = text_add(parts, n, &at, "", 0, layout->stride, 0);
    printf("\nan object's stride, %u bytes\n", layout->stride);
    text_bar(parts, n);
}

static void text_slab(const struct plan *plan)
{
    const struct layout *layout = &plan->chosen.layout;
    uint64_t slab = plan->chosen.account.slab, at = 0;
    unsigned which[LAYOUT_COLUMNS], columns = plan_columns(layout, false, which), n = 0;
    struct text_part parts[TEXT_PARTS];
    char name[40];

    snprintf(name, sizeof(name), "%u objects", layout->objects);
    n = text_add(parts, n, &at, name, '#', 0, (uint64_t)layout->objects * layout->stride);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout->column[false][which[i]];
        if (!plan_in_object(layout, &column))
            n = text_add(parts, n, &at, plan_column_names[which[i]], text_letters[which[i]],
                         column.offset, (uint64_t)layout->objects * column.element);
    }
    n = text_add(parts, n, &at, "", 0, slab, 0);
    printf("\na slab, order %u, %lu bytes\n", layout->order, slab);
    text_bar(parts, n);
    n = 0;
    at = 0;
    n = text_add(parts, n, &at, "descriptor", '@', 0, LAYOUT_DESCRIPTOR);
    n = text_add(parts, n, &at, "marks", 'M', LAYOUT_DESCRIPTOR,
                 (uint64_t)layout->marks * layout->objects);
    columns = plan_columns(layout, true, which);
    for (unsigned i = 0; i < columns; i++) {
        struct layout_column column = layout->column[false][which[i]];
        n = text_add(parts, n, &at, plan_column_names[which[i]], text_letters[which[i]],
                     column.offset, (uint64_t)layout->objects * column.element);
    }
    printf("\noutside the slab, %lu bytes\n", at);
    text_bar(parts, n);
}

static void text_waste_line(const char *cause, uint64_t bytes, const struct plan *plan)
{
    printf("  %-30s %9lu  %9.4g  %5.2f %%\n", cause, bytes,
           (double)bytes / plan->chosen.layout.objects,
           100.0 * (double)bytes / (plan->chosen.bytes * plan->chosen.layout.objects));
}

static void text_waste(const struct plan *plan)
{
    const struct layout_account *account = &plan->chosen.account;
    const struct layout *layout = &plan->chosen.layout;

    printf("\n%-32s %9s  %9s\n", "where the bytes are", "a slab", "an object");
    text_waste_line("objects", account->objects, plan);
    text_waste_line("columns in the slab", account->columns_inside + account->columns_leftover,
                    plan);
    text_waste_line("columns outside", account->columns_outside, plan);
    text_waste_line("wasted by alignment", account->rounding, plan);
    text_waste_line("wasted at the slab's end", account->leftover, plan);
    text_waste_line("wasted between outside arrays", account->gaps_outside, plan);
    text_waste_line("descriptor", account->descriptor, plan);
    if (layout->marks)
        printf(
            "\n%u byte of the columns outside is each object's mark, which says whether it is free\n",
            layout->marks);
    printf("\nthe columns cost %.4g bytes an object; in arrays outside %.4g\n", plan->extra,
           plan->extra_outside);
}

static void text_columns(const struct plan *plan)
{
    const struct layout *layout = &plan->chosen.layout;
    bool any = false;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column column = layout->column[false][i];
        struct layout_column least = layout->column[true][i];
        if (!column.element)
            continue;
        if (!any)
            printf("\ncolumn  place        base        offset  stride   bytes\n");
        any = true;
        printf("%-6s  %-11s  %-10s  %6u  %6u  %6u", plan_column_names[i],
               plan_place_names[column.place], column.outside ? "descriptor" : "slab",
               column.offset, column.stride, column.element);
        if (least.outside != column.outside || least.offset != column.offset)
            printf("   (order %u: %s, offset %u)", layout->min_order, plan_place_names[least.place],
                   least.offset);
        putchar('\n');
    }
}

static void text_explain(const struct plan *plan)
{
    const struct layout *layout = &plan->chosen.layout;
    char why[400];

    plan_why_order(plan, why, sizeof(why));
    printf("\nwhy\n  order %u: %s.\n", layout->order, why);
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column column = layout->column[false][i];
        if (!column.element)
            continue;
        plan_why(plan, i, why, sizeof(why));
        printf("  %s, %s: %s.\n", plan_column_names[i], plan_place_names[column.place], why);
    }
}

void plan_print(const struct plan *plan)
{
    const struct layout *layout = &plan->chosen.layout;

    printf("%zu bytes aligned to %zu: %u objects in 2^%u pages of %u bytes", plan->options->size,
           plan->options->align, layout->objects, layout->order, 1u << plan->options->page_shift);
    if (layout->min_order != layout->order)
        printf("; when memory is short %u in 2^%u", layout->min_objects, layout->min_order);
    putchar('\n');
    text_object(plan);
    text_slab(plan);
    text_columns(plan);
    text_waste(plan);
    if (plan->options->explain)
        text_explain(plan);
}

static void text_json_place(const struct layout_column *column)
{
    printf("\"place\": \"%s\", \"base\": \"%s\", \"offset\": %u, \"stride\": %u",
           plan_place_names[column->place], column->outside ? "descriptor" : "slab", column->offset,
           column->stride);
}

/* The reasons have no character that JSON would want escaped. */
void plan_print_json(const struct plan *plan)
{
    const struct layout_account *account = &plan->chosen.account;
    const struct plan_options *options = plan->options;
    const struct layout *layout = &plan->chosen.layout;
    const char *comma = "";
    char why[400];

    plan_why_order(plan, why, sizeof(why));
    printf("{\n  \"size\": %zu,\n  \"align\": %zu,\n  \"page_size\": %u,\n  \"links\": \"%s\",\n"
           "  \"writable\": %s,\n  \"stride\": %u,\n  \"order\": %u,\n  \"objects\": %u,\n"
           "  \"min_order\": %u,\n  \"min_objects\": %u,\n  \"slab_bytes\": %lu,\n"
           "  \"leftover\": %lu,\n  \"outside_bytes\": %lu,\n  \"mark_bytes\": %u,\n",
           options->size, options->align, 1u << options->page_shift,
           options->as_library ? "library" : "bytes", plan_writable(options) ? "true" : "false",
           layout->stride, layout->order, layout->objects, layout->min_order, layout->min_objects,
           account->slab, (account->slab - (uint64_t)layout->objects * layout->stride),
           (layout_meta(layout, false, true) - LAYOUT_DESCRIPTOR), layout->marks);
    printf("  \"bytes_per_object\": %.12g,\n  \"extra_bytes_per_object\": %.12g,\n"
           "  \"extra_bytes_per_object_outside\": %.12g,\n"
           "  \"waste\": {\"alignment\": %lu, \"leftover\": %lu, \"gaps_outside\": %lu, "
           "\"descriptor\": %lu},\n  \"why_order\": \"%s\",\n  \"columns\": [",
           plan->chosen.bytes, plan->extra, plan->extra_outside, account->rounding,
           account->leftover, account->gaps_outside, account->descriptor, why);
    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++) {
        struct layout_column column = layout->column[false][i];
        struct layout_column least = layout->column[true][i];
        if (!column.element)
            continue;
        plan_why(plan, i, why, sizeof(why));
        printf("%s\n    {\"name\": \"%s\", \"bytes\": %u, ", comma, plan_column_names[i],
               column.element);
        text_json_place(&column);
        fputs(", \"min\": {", stdout);
        text_json_place(&least);
        printf("}, \"why\": \"%s\"}", why);
        comma = ",";
    }
    printf("%s]\n}\n", *comma ? "\n  " : "");
}
