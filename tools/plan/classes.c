/* SPDX-License-Identifier: MIT */
/*
 * classes.c - stook plan --slabinfo: which class of links each cache has, where 8 and 16 bytes an
 * object would go, and what that saves.
 *
 * The classes are those of the document of 2016: the index array lies in one free object, in the
 * slab's leftover, outside, or in bytes that objects could have had.  Before it none lay in a free
 * object.  Beside them stands the place that this library's planner finds, where a link may
 * also lie in each free object or in padding.
 */
#include "plan/plan.h"
#include "plan/slabinfo.h"
#include "stook/command.h"

#include <string.h>

enum classes_link { CLASS_OBJFREELIST, CLASS_LEFTOVER, CLASS_DEDICATED, CLASS_OFF, CLASSES };
static const char *const classes_names[CLASSES] = {"objfreelist", "leftover", "dedicated", "off"};

enum { CLASSES_METADATA = 2, CLASSES_PLACES = LAYOUT_DEDICATED + 1 };
static const uint16_t classes_bytes[CLASSES_METADATA] = {8, 16};

/* One cache, planned. */
struct classes_cache {
    const struct slabinfo_cache *cache;
    struct plan_options options;
    enum classes_link before, after;
    struct plan links, metadata[CLASSES_METADATA];
    double saved[CLASSES_METADATA]; /* bytes, of its active objects */
};

struct classes_sum {
    unsigned caches, left_out;
    unsigned before[CLASSES], after[CLASSES], links[CLASSES_PLACES];
    unsigned places[CLASSES_METADATA][CLASSES_PLACES];
    double saved[CLASSES_METADATA], outside[CLASSES_METADATA];
    uint64_t active;
};

/* What an array of so many bytes takes of the kernel's caches of round sizes. */
static uint64_t classes_kmalloc(uint64_t bytes)
{
    uint64_t size = 8;

    if (bytes > 64 && bytes <= 96)
        return 96;
    if (bytes > 128 && bytes <= 192)
        return 192;
    while (size < bytes)
        size *= 2;
    return size;
}

/* The document's rules, with links of two bytes. */
static enum classes_link classes_of(const struct plan *plan, bool in_objects)
{
    const struct layout *without = &plan->without.layout;
    uint64_t slab = plan->without.account.slab, stride = without->stride;
    uint64_t n = without->objects, array = n * LAYOUT_LINK_SIZE;
    uint64_t fewer = slab / (stride + LAYOUT_LINK_SIZE);

    if (in_objects && plan_writable(plan->options) && array <= plan->options->size)
        return CLASS_OBJFREELIST;
    if (array <= slab - n * stride)
        return CLASS_LEFTOVER;
    if ((slab + classes_kmalloc(array)) * fewer < slab * n)
        return CLASS_OFF;
    return CLASS_DEDICATED;
}

/* False: the planner has no such slabs. */
static bool classes_plan(struct classes_cache *c, const struct slabinfo_cache *cache,
                         const struct plan_options *options)
{
    c->cache = cache;
    c->options = *options;
    c->options.size = cache->size;
    c->options.align = cache->align;
    c->options.order = (int)cache->order;
    c->options.ctor = cache->constructed;
    if (cache->order > LAYOUT_ORDER_BLOCK)
        return false;
    for (int i = 0; i < CLASSES_METADATA; i++) {
        memset(c->options.element, 0, sizeof(c->options.element));
        c->options.element[LAYOUT_GROUP] = classes_bytes[i];
        if (!plan_make(&c->metadata[i], &c->options))
            return false;
        c->saved[i] = (double)cache->active * (c->metadata[i].extra_outside - c->metadata[i].extra);
    }
    memset(c->options.element, 0, sizeof(c->options.element));
    c->options.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    if (!plan_make(&c->links, &c->options))
        return false;
    c->before = classes_of(&c->links, false);
    c->after = classes_of(&c->links, true);
    return true;
}

static unsigned classes_place(const struct plan *plan, unsigned which)
{
    return plan->chosen.layout.column[false][which].place;
}

static void classes_add(struct classes_sum *sum, const struct classes_cache *c)
{
    sum->caches++;
    sum->active += c->cache->active;
    sum->before[c->before]++;
    sum->after[c->after]++;
    sum->links[classes_place(&c->links, LAYOUT_LINK)]++;
    for (int i = 0; i < CLASSES_METADATA; i++) {
        sum->places[i][classes_place(&c->metadata[i], LAYOUT_GROUP)]++;
        sum->saved[i] += c->saved[i];
        sum->outside[i] += (double)c->cache->active * c->metadata[i].extra_outside;
    }
}

/* ---- a table ---------------------------------------------------------------------------------- */

static void classes_head(void)
{
    printf("%-24s %6s %5s %6s %2s %5s %8s  %-11s %-11s", "cache", "size", "align", "stride", "2^",
           "objs", "active", "link class", "link");
    for (int i = 0; i < CLASSES_METADATA; i++)
        printf("  %2u bytes in %9s", classes_bytes[i], "saved");
    putchar('\n');
}

static void classes_line(const struct classes_cache *c)
{
    const struct layout *layout = &c->links.without.layout;

    printf("%-24s %6zu %5zu %6u %2u %5u %8lu  %-11s %-11s", c->cache->name, c->cache->size,
           c->cache->align, layout->stride, layout->order, layout->objects, c->cache->active,
           classes_names[c->after], plan_place_names[classes_place(&c->links, LAYOUT_LINK)]);
    for (int i = 0; i < CLASSES_METADATA; i++)
        printf("  %-11s %9.0f", plan_place_names[classes_place(&c->metadata[i], LAYOUT_GROUP)],
               c->saved[i]);
    putchar('\n');
}

static void classes_counts(const char *what, unsigned caches, const unsigned count[CLASSES])
{
    printf("  %-28s %4u = %u in one free object + %u leftover + %u dedicated + %u outside\n", what,
           caches, count[CLASS_OBJFREELIST], count[CLASS_LEFTOVER], count[CLASS_DEDICATED],
           count[CLASS_OFF]);
}

static void classes_places_line(const unsigned *count)
{
    static const enum layout_place order[] = {LAYOUT_FREE, LAYOUT_PADDING, LAYOUT_LEFTOVER,
                                              LAYOUT_OUTSIDE, LAYOUT_DEDICATED};
    const char *separator = "";

    for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (count[order[i]] > 0) {
            printf("%s%u %s", separator, count[order[i]], plan_place_names[order[i]]);
            separator = " + ";
        }
    putchar('\n');
}

static void classes_print_sum(const struct classes_sum *sum, bool sized)
{
    printf("\nlinks, classes of 2016\n");
    classes_counts("before", sum->caches, sum->before);
    classes_counts("with arrays in free objects", sum->caches, sum->after);
    printf("  %-28s %4u = ", "stook's planner", sum->caches);
    classes_places_line(sum->links);
    for (int i = 0; i < CLASSES_METADATA; i++) {
        printf("\n%u bytes an object: ", classes_bytes[i]);
        classes_places_line(sum->places[i]);
        printf(
            "  %.0f bytes in arrays outside for %lu active objects, %.0f of them saved (%.1f %%)\n",
            sum->outside[i], sum->active, sum->saved[i],
            sum->outside[i] > 0 ? 100 * sum->saved[i] / sum->outside[i] : 0.0);
    }
    if (sum->left_out > 0)
        printf("\n%u caches left out: slabs or objects that are too large here\n", sum->left_out);
    if (!sized)
        printf("\nA slabinfo has strides only: padding that objects have is not seen.\n");
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void classes_json_cache(const struct classes_cache *c)
{
    const struct layout *layout = &c->links.without.layout;

    fputs("    {\"name\": ", stdout);
    output_string(stdout, c->cache->name);
    printf(", \"size\": %zu, \"align\": %zu, \"writable\": %s, \"stride\": %u, "
           "\"listed_stride\": %zu, \"order\": %u, \"objects\": %u, \"active\": %lu, "
           "\"link_class\": \"%s\", \"link_class_before\": \"%s\", \"link_place\": \"%s\", "
           "\"link_extra\": %.12g",
           c->cache->size, c->cache->align, c->cache->constructed ? "false" : "true",
           layout->stride, c->cache->stride, layout->order, layout->objects, c->cache->active,
           classes_names[c->after], classes_names[c->before],
           plan_place_names[classes_place(&c->links, LAYOUT_LINK)], c->links.extra);
    for (int i = 0; i < CLASSES_METADATA; i++)
        printf(", \"metadata_%u\": {\"place\": \"%s\", \"extra_bytes_per_object\": %.12g, "
               "\"saved_bytes\": %.0f}",
               classes_bytes[i], plan_place_names[classes_place(&c->metadata[i], LAYOUT_GROUP)],
               c->metadata[i].extra, c->saved[i]);
    putchar('}');
}

static void classes_json_counts(const char *name, const char *const *names, const unsigned *count,
                                unsigned from, unsigned n)
{
    printf("\"%s\": {", name);
    for (unsigned i = from; i < n; i++)
        printf("%s\"%s\": %u", i > from ? ", " : "", names[i], count[i]);
    putchar('}');
}

static void classes_json_sum(const struct classes_sum *sum)
{
    printf("\n  ],\n  \"sum\": {\n    \"caches\": %u, \"left_out\": %u, \"active\": %lu,\n    ",
           sum->caches, sum->left_out, sum->active);
    classes_json_counts("link_classes_before", classes_names, sum->before, 0, CLASSES);
    printf(",\n    ");
    classes_json_counts("link_classes", classes_names, sum->after, 0, CLASSES);
    printf(",\n    ");
    classes_json_counts("link_places", plan_place_names, sum->links, 1, CLASSES_PLACES);
    for (int i = 0; i < CLASSES_METADATA; i++) {
        printf(",\n    \"metadata_%u\": {", classes_bytes[i]);
        classes_json_counts("places", plan_place_names, sum->places[i], 1, CLASSES_PLACES);
        printf(", \"outside_bytes\": %.0f, \"saved_bytes\": %.0f}", sum->outside[i], sum->saved[i]);
    }
    printf("\n  }\n}\n");
}

int plan_slabinfo(const struct plan_options *options, const char *path)
{
    struct classes_sum sum = {0};
    struct slabinfo info;
    bool sized = true;

    if (!slabinfo_read(&info, path)) {
        slabinfo_free(&info);
        return STATUS_FAILED;
    }
    if (options->json)
        printf("{\n  \"format\": \"%s\",\n  \"page_size\": %u,\n  \"caches\": [", info.format,
               1u << options->page_shift);
    else
        classes_head();
    for (size_t i = 0; i < info.count; i++) {
        struct classes_cache c;
        if (!classes_plan(&c, &info.caches[i], options)) {
            sum.left_out++;
            continue;
        }
        sized &= info.caches[i].sized;
        if (options->json) {
            printf("%s\n", sum.caches > 0 ? "," : "");
            classes_json_cache(&c);
        } else {
            classes_line(&c);
        }
        classes_add(&sum, &c);
    }
    if (options->json)
        classes_json_sum(&sum);
    else
        classes_print_sum(&sum, sized);
    slabinfo_free(&info);
    return STATUS_OK;
}
