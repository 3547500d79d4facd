/* SPDX-License-Identifier: MIT */
/*
 * caches.c - stook caches: the caches of a running process, all columns.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include "text/writer.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct caches_options {
    bool json, all;
    enum heap_sort sort;
    const char *pid, *cache;
};

static int caches_parse(int argc, char **argv, struct caches_options *options)
{
    const struct option_row rows[] = {
        {"json", OPTION_FLAG, &options->json, .letter = 'j'},
        {"all", OPTION_FLAG, &options->all, .letter = 'a'},
        {"sort", OPTION_WORD, &options->sort, .words = heap_sort_names, .letter = 's'},
        LOOK_CORE_ROWS,
    };

    *options = (struct caches_options){0};
    if (option_take("caches", rows, argc, argv) != STATUS_OK)
        return STATUS_USAGE;
    options->pid = look_whom(argc, argv);
    if (!options->pid || argc - optind > 1)
        return complain(STATUS_USAGE, "a process is needed, and perhaps a cache");
    options->cache = argv[optind];
    return STATUS_OK;
}

/* ---- table ------------------------------------------------------------------------------------ */

static void caches_bytes(struct writer *w, const struct heap_bytes *bytes)
{
    writer_size(w, bytes->resident);
    writer_size(w, bytes->in_use);
    writer_size(w, bytes->cached);
    writer_size(w, bytes->wasted);
    if (bytes->peak)
        writer_size(w, bytes->peak);
    else
        writer_print(w, " %8s", "-");
}

/* `all`: what only those need who know how the library works, too. */
static void caches_row(struct writer *w, const struct heap *heap, const struct heap_row *row,
                       int width, bool all)
{
    const struct heap_count *n = &row->count;
    const struct heap_cache *cache = row->cache;
    char flags[LOOK_FLAGS] = "";

    writer_cell(w, row->name, width);
    caches_bytes(w, &n->bytes);
    writer_print(w, " %10lu %10lu", n->active, n->total);
    if (cache)
        writer_print(w, " %7lu %7lu", cache->object_size, n->slabs);
    else
        writer_print(w, " %7s %7lu", "-", n->slabs);
    if (all && cache)
        writer_print(w, " %7u %5u %8u", cache->stride, cache->order, cache->slab_objects);
    else if (all)
        writer_print(w, " %7s %5s %8s", "-", "-", "-");
    if (all) {
        writer_print(w, " %10lu %10lu", n->in_sheaves, n->in_slabs);
        writer_print(w, " %7lu %7lu %7lu %6lu", n->partial, n->empty, n->sheaves, n->barns);
    }
    if (cache)
        look_flags(heap, cache, flags);
    writer_print(w, "%s %s\n", cache && cache->torn ? "~" : " ", flags);
}

static void caches_head(struct writer *w, const struct heap *heap)
{
    look_show_process(w, heap);
    writer_print(w, "mode %s: %s; %lu membarriers sent; %u of %u CPUs used, %u node%s\n",
                 heap->mode, heap->why, heap->membarriers, heap->cpus_used, heap->cpus,
                 heap->nodes_online, heap->nodes_online == 1 ? "" : "s");
    if (heap->torn > 0)
        writer_print(
            w, "%u caches changed faster than they could be read: theirs are no exact sums (~)\n",
            heap->torn);
}

static void caches_table(struct writer *w, const struct heap *heap,
                         const struct caches_options *options)
{
    const struct heap_row total = {"total", NULL, heap->total};
    size_t rows, width = 16;
    struct heap_row *row = heap_rows(heap, options->all, options->sort, &rows);

    for (size_t i = 0; i < rows; i++)
        width = strlen(row[i].name) > width ? strlen(row[i].name) : width;
    caches_head(w, heap);
    writer_print(w, "\n%-*s %8s %8s %8s %8s %8s %10s %10s %7s %7s", (int)width, "cache", "resident",
                 "in use", "cached", "wasted", "peak", "objects", "total", "size", "slabs");
    if (options->all)
        writer_print(w, " %7s %5s %8s %10s %10s %7s %7s %7s %6s", "stride", "order", "obj/slab",
                     "in sheaves", "in slabs", "partial", "empty", "sheaves", "barns");
    writer_print(w, "  flags\n");
    for (size_t i = 0; i < rows; i++)
        caches_row(w, heap, &row[i], (int)width, options->all);
    caches_row(w, heap, &total, (int)width, options->all);
    if (!options->all)
        writer_print(w, "(--all shows the caches of " HEAP_ROW_LIBRARY
                        ", those without pages, and all columns)\n");
    look_next(w, heap, "report --html FILE", "");
    free(row);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void caches_json_count(struct writer *w, const struct heap_count *n)
{
    output_counts(w, "", {"active_objects", n->active}, {"total_objects", n->total},
                  {"sheaf_objects", n->in_sheaves}, {"slab_free_objects", n->in_slabs},
                  {"slabs", n->slabs}, {"slabs_partial", n->partial}, {"slabs_empty", n->empty},
                  {"sheaves", n->sheaves}, {"barns", n->barns},
                  {"resident_bytes", n->bytes.resident}, {"in_use_bytes", n->bytes.in_use},
                  {"cached_bytes", n->bytes.cached}, {"wasted_bytes", n->bytes.wasted},
                  {"peak_bytes", n->bytes.peak});
}

static void caches_json_nodes(struct writer *w, const struct heap *heap,
                              const struct heap_cache *cache)
{
    const char *comma = "";

    writer_print(w, ",\n   \"nodes\": [");
    for (unsigned i = 0; i < heap->nodes; i++) {
        const struct heap_node *node = &cache->node[i];
        if (node->made == 0 && node->barn_full == 0 && node->barn_empty == 0)
            continue;
        writer_print(w, "%s{", comma);
        comma = ", ";
        output_counts(w, "}", {"node", i}, {"slabs", node->slabs}, {"slabs_partial", node->partial},
                      {"slabs_empty", node->empty}, {"objects", node->objects},
                      {"objects_out", node->out}, {"resident_bytes", node->bytes},
                      {"barn_full", node->barn_full}, {"barn_empty", node->barn_empty},
                      {"barn_objects", node->barn_objects});
    }
    writer_print(w, "],\n   \"cpus\": [");
    comma = "";
    for (unsigned cpu = 0; cpu < heap->rows; cpu++) {
        struct heap_cpu n = heap_cpu(heap, cache, cpu);
        if (n.sheaves == 0)
            continue;
        writer_print(w, "%s{", comma);
        comma = ", ";
        output_counts(w, "}", {"cpu", cpu}, {"sheaves", n.sheaves}, {"objects", n.objects},
                      {"remote_objects", n.remote});
    }
    writer_print(w, "]");
}

static void caches_json_cache(struct writer *w, const struct heap *heap,
                              const struct heap_cache *cache)
{
    char flags[LOOK_FLAGS];
    const char *comma = "";

    look_flags(heap, cache, flags);
    writer_print(w, "{");
    output_word(w, "name", cache->name, ", ");
    output_flag(w, "internal", cache->internal, ", ");
    output_word(w, "flags", flags, ", ");
    output_counts(w, ",\n   ", {"number", cache->index}, {"object_size", cache->object_size},
                  {"align", cache->align}, {"stride", cache->stride}, {"order", cache->order},
                  {"objects_per_slab", cache->slab_objects}, {"sheaf_capacity", cache->capacity});
    caches_json_count(w, &cache->count);
    writer_print(w, ", ");
    output_flag(w, "moved", cache->moved, "");
    caches_json_nodes(w, heap, cache);
    if (cache->stat) {
        writer_print(w, ",\n   \"counters\": {");
        for (unsigned event = 0; event < heap->view.stats; event++) {
            writer_print(w, "%s", comma);
            comma = ", ";
            writer_key(w, heap->view.stat[event], heap_stat_sum(heap, cache, event), "");
        }
        writer_print(w, "}");
    }
    writer_print(w, "}");
}

static void caches_json(struct writer *w, const struct heap *heap)
{
    const char *comma = "\n  ";

    look_json_process(w, heap);
    writer_print(w, ",\n \"caches\": [");
    for (size_t i = 0; i < heap->caches; i++) {
        writer_print(w, "%s", comma);
        comma = ",\n  ";
        caches_json_cache(w, heap, &heap->cache[i]);
    }
    writer_print(w, "],\n \"large\": {");
    output_counts(w, "},\n \"totals\": {", {"objects", heap->large_objects},
                  {"resident_bytes", heap->large_bytes});
    caches_json_count(w, &heap->total);
    writer_print(w, "},\n \"guard\": {");
    output_counts(w, "},\n \"arena\": {", {"objects", heap->guarded_objects},
                  {"bytes", heap->guarded_bytes}, {"sampled_objects", heap->guarded_ever});
    output_counts(w, "}}\n", {"used_bytes", heap->arena.used}, {"warm_bytes", heap->arena.warm},
                  {"warm_limit_bytes", heap->arena.limit}, {"blocks", heap->arena.blocks},
                  {"purged_bytes", heap->arena.purged}, {"committed_bytes", heap->arena.committed});
}

/* ---- one cache: by node and CPU, and its slabs ------------------------------------------------ */

static void caches_one(struct writer *w, const struct heap *heap, const struct heap_cache *cache)
{
    char flags[LOOK_FLAGS];
    const struct heap_count *n = &cache->count;

    look_show_process(w, heap);
    look_flags(heap, cache, flags);
    writer_print(w, "\ncache %s (%u)%s%s\n", cache->name, cache->index, *flags ? ": " : "", flags);
    writer_print(w, "objects of %lu bytes, %u apart, aligned to %lu; %u in a slab of %u KiB\n",
                 cache->object_size, cache->stride, cache->align, cache->slab_objects,
                 4u << cache->order);
    writer_print(w, "%lu in use, %lu in sheaves, %lu free in slabs; %lu slabs: ", n->active,
                 n->in_sheaves, n->in_slabs, n->slabs);
    writer_print(w, "%lu full, %lu partial, %lu empty\n\n", (n->slabs - n->partial - n->empty),
                 n->partial, n->empty);
    writer_print(w, "%-8s %7s %7s %7s %10s %10s %7s %7s %10s\n", "node", "slabs", "partial",
                 "empty", "objects", "out", "full", "empty", "in barn");
    for (unsigned i = 0; i < heap->nodes; i++) {
        const struct heap_node *node = &cache->node[i];
        if (node->made == 0 && node->barn_full == 0 && node->barn_empty == 0)
            continue;
        writer_print(w, "%-8u %7lu %7lu %7lu %10lu %10lu", i, node->slabs, node->partial,
                     node->empty, node->objects, node->out);
        writer_print(w, " %7lu %7lu %10lu\n", node->barn_full, node->barn_empty,
                     node->barn_objects);
    }
    writer_print(w, "\n%-8s %7s %10s %10s\n", "CPU", "sheaves", "in sheaves", "remote");
    for (unsigned cpu = 0; cpu < heap->rows; cpu++) {
        struct heap_cpu of = heap_cpu(heap, cache, cpu);
        if (of.sheaves > 0)
            writer_print(w, "%-8u %7lu %10lu %10lu\n", cpu, of.sheaves, of.objects, of.remote);
    }
    look_next(w, heap, "walk", " CACHE");
}

static int caches_run(int argc, char **argv)
{
    struct caches_options options;
    const struct heap_cache *cache;
    struct heap *heap;
    struct writer w;
    int status = caches_parse(argc, argv, &options);

    if (status != STATUS_OK ||
        (status = look_open_cache(options.pid, options.cache, &heap, &cache)) != STATUS_OK)
        return status;
    output_writer(&w);
    if (options.json && cache) {
        caches_json_cache(&w, heap, cache);
        writer_print(&w, "\n");
    } else if (options.json) {
        caches_json(&w, heap);
    } else if (cache) {
        caches_one(&w, heap, cache);
    } else {
        caches_table(&w, heap, &options);
    }
    heap_close(heap);
    (void)writer_finish(&w);
    return STATUS_OK;
}

static const char caches_help[] =
    "usage: stook caches [--json] [--all] [--sort KEY] {PID | --core FILE [--exe FILE]} [CACHE]\n"
    "\n"
    "Shows the caches of a running process as they are now, the largest first, or one of them by node and CPU.  The\n"
    "process needs no option at its start, is not stopped, and runs nothing for it.\n"
    "\n"
    "  --json       as one JSON object; docs/look-inside.md has its keys\n"
    "  --all        all columns, caches without pages, and the library's own one by one\n"
    "  --sort KEY   resident, in-use, cached, wasted, peak, objects or name\n" HELP_CORE "\n"
    "Of the bytes: resident = in use + cached + wasted; of the objects: total = objects + free ones, in sheaves and slabs.\n"
    "docs/report.md says what each word means.\n" HELP_END("caches --sort wasted redis-server");

const struct command command_caches = {"caches", "the caches of a running process, by bytes",
                                       caches_help, caches_run};
