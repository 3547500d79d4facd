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
    const char *pid, *cache;
};

static int caches_parse(int argc, char **argv, struct caches_options *options)
{
    const struct option_row rows[] = {
        {"json", OPTION_FLAG, &options->json, .letter = 'j'},
        {"all", OPTION_FLAG, &options->all, .letter = 'a'},
    };

    *options = (struct caches_options){0};
    if (look_take_core(&argc, argv) != STATUS_OK ||
        option_take("caches", rows, argc, argv) != STATUS_OK)
        return STATUS_USAGE;
    if (argc - optind < 1 || argc - optind > 2)
        return complain(STATUS_USAGE, "caches takes a process number, and perhaps a cache");
    options->pid = argv[optind];
    options->cache = argv[optind + 1];
    return STATUS_OK;
}

/* ---- table ------------------------------------------------------------------------------------ */

static void caches_count(struct writer *w, const struct heap_count *n)
{
    writer_print(w, " %10lu %10lu %10lu %10lu", n->active, n->in_sheaves, n->in_slabs, n->total);
    writer_print(w, " %7lu %7lu %7lu %7lu %6lu", n->slabs, n->partial, n->empty, n->sheaves,
                 n->barns);
}

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

static int caches_width(const struct heap *heap, bool all)
{
    size_t width = 16;

    for (size_t i = 0; i < heap->caches; i++)
        if ((all || heap->cache[i].count.slabs > 0) && strlen(heap->cache[i].name) > width)
            width = strlen(heap->cache[i].name);
    return (int)width;
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

static void caches_table(struct writer *w, const struct heap *heap, bool all)
{
    int width = caches_width(heap, all);
    unsigned left_out = 0;

    caches_head(w, heap);
    writer_print(w, "\n%-*s %7s %7s %5s %8s %10s %10s %10s %10s", width, "cache", "size", "stride",
                 "order", "obj/slab", "active", "in sheaves", "in slabs", "total");
    writer_print(w, " %7s %7s %7s %7s %6s %8s %8s %8s %8s %8s  %s\n", "slabs", "partial", "empty",
                 "sheaves", "barns", "resident", "in use", "cached", "wasted", "peak", "flags");
    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_cache *cache = &heap->cache[i];
        char flags[LOOK_FLAGS];
        if (cache->count.slabs == 0 && !all) {
            left_out++;
            continue;
        }
        writer_cell(w, cache->name, width);
        writer_print(w, " %7lu %7u %5u %8u", cache->object_size, cache->stride, cache->order,
                     cache->slab_objects);
        caches_count(w, &cache->count);
        caches_bytes(w, &cache->count.bytes);
        look_flags(heap, cache, flags);
        writer_print(w, "%s %s\n", cache->torn ? "~" : " ", flags);
    }
    if (heap->large_objects > 0 || all) {
        struct heap_count large = {.active = heap->large_objects, .total = heap->large_objects};
        large.bytes.resident = large.bytes.in_use = heap->large_bytes;
        writer_print(w, "%-*s %7s %7s %5s %8s", width, "(large)", "-", "-", "-", "-");
        caches_count(w, &large);
        caches_bytes(w, &large.bytes);
        writer_print(w, "\n");
    }
    writer_print(w, "%-*s %7s %7s %5s %8s", width, "total", "", "", "", "");
    caches_count(w, &heap->total);
    caches_bytes(w, &heap->total.bytes);
    writer_print(w, "\n");
    if (left_out)
        writer_print(w, "(%u caches without slabs are left out; --all shows them)\n", left_out);
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
        caches_table(&w, heap, options.all);
    }
    heap_close(heap);
    (void)writer_finish(&w);
    return STATUS_OK;
}

static const char caches_help[] =
    "usage: stook caches [--json] [--all] {PID | --core FILE [--exe FILE]} [CACHE]\n"
    "\n"
    "Shows the caches of a running process as they are now, or one of them by node and CPU.  The process needs\n"
    "no option at its start, is not stopped, and runs nothing for it.\n"
    "\n"
    "  --json   as one JSON object; docs/look-inside.md has its keys\n"
    "  --all    also caches without slabs\n"
    "  --core   of a process that has ended: its core file, and where its program lies now\n"
    "\n"
    "Of the bytes: resident = in use + cached + wasted; of the objects: total = active + in sheaves + in slabs.\n";

const struct command command_caches = {"caches", "the caches of a running process", caches_help,
                                       caches_run};
