/* SPDX-License-Identifier: MIT */
/*
 * lab_order.c - stook lab order FILE: its options, and the replay of a recorded order of calls under the
 * design and on the machine that they name.
 */
#include "stook/lab/lab_parts.h"

#include "lab/order.h"
#include "stook/command.h"

#include "os/topology.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <getopt.h>
#include <string.h>

/* Those of a run that a replay has, too. */
static const char *const lab_order_options[] = {"topology", "design", "capacity", "size", "align",
                                                "order",    "seed",   "refill",   "race", "json"};
enum { LAB_ORDER_OPTIONS = sizeof(lab_order_options) / sizeof(lab_order_options[0]) };

static bool lab_order_parse(int argc, char **argv, const struct option_row *rows, unsigned n,
                            const char **file)
{
    struct option_row own[LAB_ORDER_OPTIONS];
    const struct option_table table = {"lab order", STATUS_USAGE, own, LAB_ORDER_OPTIONS,
                                       .units = LAB_UNITS};

    for (unsigned i = 0; i < LAB_ORDER_OPTIONS; i++)
        for (unsigned k = 0; k < n; k++)
            if (strcmp(rows[k].name, lab_order_options[i]) == 0)
                own[i] = rows[k];
    if (option_read(&table, argc, argv) != STATUS_OK)
        return false;
    if (optind + 1 != argc)
        return refuse(optind == argc ? "order: a file is needed" : "order: one file at a time");
    *file = argv[optind];
    return true;
}

static int lab_order_play(const struct lab_options *options, const struct order *order,
                          const char *file)
{
    static struct lab lab;
    struct order_result result;
    int status;

    status = lab_machine(options->topology);
    if (status != 0)
        return status;
    lab_ready(&lab, options);
    stook_topology_cpu((int)lab_cpu_at(0));
    status = options->design->start(&lab);
    if (status == 0)
        status = order_play(&lab, order, &result);
    if (status == 0)
        status = options->design->stop(&lab);
    if (status == 0)
        status = order_show(&lab, order, &result, file);
    lab_over(&lab);
    return status;
}

int lab_order_run(int argc, char **argv, struct lab_options *options, const struct option_row *rows,
                  unsigned n, bool (*agree)(struct lab_options *options))
{
    struct order order;
    const char *file;
    int status;

    options->size = 0;
    if (!lab_order_parse(argc, argv, rows, n, &file))
        return STATUS_USAGE;
    status = order_read(&order, file);
    if (status == 0) {
        if (options->size == 0) /* not said: as it was recorded, in whole units of the alignment */
            options->size =
                (order.header.object_size + options->align - 1) / options->align * options->align;
        status = agree(options) ? lab_order_play(options, &order, file) : STATUS_USAGE;
    }
    order_close(&order);
    return status;
}
