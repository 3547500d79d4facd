/* SPDX-License-Identifier: MIT */
/*
 * order_show.c - what the replay of an order counted: behind the last record, as the kernel's counters are
 * read, and again when what was left had been freed.  Neither has what the cache's end gives back.
 */
#include "lab/order.h"
#include "stook/command.h"

#include "os/topology.h"
#include "text/writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void order_text(const struct lab *lab, const struct order *order,
                       const struct order_result *result, const char *file, struct writer *w)
{
    writer_print(w, "stook lab order: %lu allocations and %lu frees on %u CPUs of %u nodes\n",
                 order->allocs, order->frees, lab_cpus(),
                 (unsigned)__builtin_popcountll(topology.online_nodes));
    writer_print(w, "file             ");
    writer_cell(w, file, 0);
    writer_print(w, "\ntopology         ");
    writer_cell(w, lab->options->topology, 0);
    writer_print(w, "\ndesign           %s, seed %lu\n", lab->options->design->name,
                 lab->options->seed);
    if (order->failed > 0)
        writer_print(w, "left out         %lu allocations that had failed\n", order->failed);
    lab_list_objects(lab, w);
    writer_print(w, "slabs:%lu\n", result->slabs_before);
    lab_list_counters(lab, result->before, w);
    if (result->left == 0)
        return;
    writer_print(w, "\nafter CPU %u had freed the %lu objects that were left:\nslabs:%lu\n",
                 lab_cpu_at(0), result->left, result->slabs_after);
    lab_list_counters(lab, result->after, w);
}

static void order_json(const struct lab *lab, const struct order *order,
                       const struct order_result *result, const char *file, struct writer *w)
{
    const struct lab_options *o = lab->options;

    writer_print(w, "{");
    output_word(w, "file", file, ",\n ");
    output_word(w, "topology", o->topology, ",\n ");
    output_word(w, "design", o->design->name, ", ");
    writer_print(w, "\"seed\": %lu, \"cpus\": %u, \"nodes\": %u, \"memory_nodes\": %u,\n ", o->seed,
                 lab_cpus(), (unsigned)__builtin_popcountll(topology.online_nodes),
                 topology.memories);
    writer_print(w,
                 "\"records\": %lu, \"allocs\": %lu, \"frees\": %lu, \"failed\": %lu, "
                 "\"left\": %lu,\n ",
                 order->header.records, order->allocs, order->frees, order->failed, result->left);
    writer_print(w,
                 "\"object_size\": %u, \"slab_size\": %u, \"order\": %u, \"objs_per_slab\": %u, "
                 "\"sheaf_capacity\": %u,\n ",
                 o->size, lab->stride, lab->order, lab->slab_objects, lab->sheaf_capacity);
    writer_print(w, "\"slabs_before\": %lu, \"slabs_after\": %lu,\n \"before\": ",
                 result->slabs_before, result->slabs_after);
    lab_json_sums(lab, result->before, w);
    writer_print(w, ",\n \"after\": ");
    lab_json_sums(lab, result->after, w);
    writer_print(w, ",\n \"per_cpu_before\": ");
    lab_json_cpus(lab, result->before, w);
    writer_print(w, ",\n \"per_cpu\": ");
    lab_json_cpus(lab, result->after, w);
    writer_print(w, "}\n");
}

int order_show(const struct lab *lab, const struct order *order, const struct order_result *result,
               const char *file)
{
    struct writer writer;

    output_writer(&writer);
    if (lab->options->json)
        order_json(lab, order, result, file, &writer);
    else
        order_text(lab, order, result, file, &writer);
    (void)writer_finish(&writer);
    return 0;
}
