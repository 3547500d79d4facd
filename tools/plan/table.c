/* SPDX-License-Identifier: MIT */
/*
 * table.c - bytes an object that an owner, a tag and both cost, over sizes and alignments.
 */
#include "plan/plan.h"

#include "stook/command.h"

static const size_t table_sizes[] = {
    8,   16,   24,   32,   40,   48,   64,   80,   96,   120,  128,  160,  184, 192,
    248, 256,  320,  384,  448,  512,  576,  640,  696,  704,  768,  832,  896, 960,
    992, 1016, 1024, 1120, 1240, 1536, 1600, 2000, 2048, 2304, 3072, 4000, 4096};
static const size_t table_aligns[] = {8, 16, 64};
enum {
    TABLE_SIZES = sizeof(table_sizes) / sizeof(table_sizes[0]),
    TABLE_ALIGNS = sizeof(table_aligns) / sizeof(table_aligns[0]),
    TABLE_CHOICES = 3,
};
static const char *const table_names[TABLE_CHOICES] = {"group", "tag", "both"};

/* Places of what was chosen, as one letter each. */
static void table_places(const struct plan *plan, char places[3])
{
    static const char letters[] = {[LAYOUT_PADDING] = 'p',
                                   [LAYOUT_LEFTOVER] = 'l',
                                   [LAYOUT_OUTSIDE] = 'o',
                                   [LAYOUT_DEDICATED] = 'd'};
    unsigned n = 0;

    for (unsigned i = LAYOUT_GROUP; i <= LAYOUT_TAG; i++) {
        struct layout_column column = layout_column(&plan->chosen.layout, i, false);
        if (column.element)
            places[n++] = letters[column.place];
    }
    places[n] = '\0';
}

/* The columns of a choice, on an object for which there is always a layout. */
static void table_make(struct plan *plan, struct plan_options *o, size_t size, size_t align,
                       unsigned choice)
{
    o->size = size;
    o->align = align;
    o->element[LAYOUT_GROUP] = choice == 1 ? 0 : 8;
    o->element[LAYOUT_TAG] = choice == 0 ? 0 : 8;
    if (!plan_make(plan, o))
        __builtin_trap();
}

static void table_json(struct plan_options *o)
{
    const char *comma = "";
    struct plan plan;

    printf("[");
    for (unsigned s = 0; s < TABLE_SIZES; s++)
        for (unsigned a = 0; a < TABLE_ALIGNS; a++) {
            printf("%s\n  {\"size\": %zu, \"align\": %zu", comma, table_sizes[s], table_aligns[a]);
            for (unsigned c = 0; c < TABLE_CHOICES; c++) {
                char places[3];
                table_make(&plan, o, table_sizes[s], table_aligns[a], c);
                table_places(&plan, places);
                printf(", \"%s\": %.12g, \"%s_outside\": %.12g, \"%s_places\": \"%s\"",
                       table_names[c], plan.extra, table_names[c], plan.extra_outside,
                       table_names[c], places);
            }
            printf("}");
            comma = ",";
        }
    printf("\n]\n");
}

int plan_table(const struct plan_options *options)
{
    struct plan_options o = *options;
    unsigned free_of_cost[TABLE_ALIGNS][TABLE_CHOICES] = {0};
    struct plan plan;

    o.order = PLAN_ORDER_AUTO;
    if (o.json) {
        table_json(&o);
        return STATUS_OK;
    }
    printf(
        "bytes an object that columns of 8 bytes cost, and their places: p padding, l leftover,\n"
        "o outside, d bytes taken from the objects (arrays outside cost 8, 8 and 16)\n\n  align");
    for (unsigned a = 0; a < TABLE_ALIGNS; a++)
        printf("  %10zu%22s", table_aligns[a], "");
    printf("\n   size");
    for (unsigned a = 0; a < TABLE_ALIGNS; a++)
        printf("  %10s%10s%12s", table_names[0], table_names[1], table_names[2]);
    putchar('\n');
    for (unsigned s = 0; s < TABLE_SIZES; s++) {
        printf("%7zu", table_sizes[s]);
        for (unsigned a = 0; a < TABLE_ALIGNS; a++) {
            printf("  ");
            for (unsigned c = 0; c < TABLE_CHOICES; c++) {
                char places[3];
                table_make(&plan, &o, table_sizes[s], table_aligns[a], c);
                table_places(&plan, places);
                printf("%*.4g %-2s", 7, plan.extra + 0.0 < 1e-9 ? 0.0 : plan.extra, places);
                if (c == 2)
                    printf("  ");
                free_of_cost[a][c] += plan.extra < 1e-9;
            }
        }
        putchar('\n');
    }
    printf("\nwithout cost, of %d sizes:\n", TABLE_SIZES);
    for (unsigned a = 0; a < TABLE_ALIGNS; a++)
        printf("  align %2zu: group %u, tag %u, both %u\n", table_aligns[a], free_of_cost[a][0],
               free_of_cost[a][1], free_of_cost[a][2]);
    return STATUS_OK;
}
