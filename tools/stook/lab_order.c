/* SPDX-License-Identifier: MIT */
/*
 * lab_order.c - stook lab order FILE: its options, and the replay of a recorded order of calls under the
 * design and on the machine that they name.
 */
#include "stook/lab_order.h"

#include "lab/order.h"
#include "stook/command.h"

#include "sim/sim.h"
#include "os/topology.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <getopt.h>
#include <string.h>

/* Those of a run that a replay has, too. */
static const struct option lab_order_options[] = {
    {"topology", required_argument, NULL, 1},
    {"design", required_argument, NULL, 1},
    {"capacity", required_argument, NULL, 1},
    {"size", required_argument, NULL, 1},
    {"align", required_argument, NULL, 1},
    {"order", required_argument, NULL, 1},
    {"seed", required_argument, NULL, 1},
    {"refill", no_argument, NULL, 1},
    {"race", no_argument, NULL, 1},
    {"json", no_argument, NULL, 1},
    {NULL, 0, NULL, 0},
};

static bool lab_order_parse(struct lab_options *options, int argc, char **argv,
                            lab_order_option option, const char **file)
{
    int found, which;

    while ((found = getopt_long(argc, argv, "", lab_order_options, &which)) != -1)
        if (found != 1 || !option(options, lab_order_options[which].name, optarg))
            return false; /* it or getopt has said why */
    if (optind + 1 != argc) {
        complain(STATUS_USAGE,
                 optind == argc ? "lab order: a file is needed" : "lab order: one file at a time");
        return false;
    }
    *file = argv[optind];
    return true;
}

static int lab_order_play(const struct lab_options *options, const struct order *order,
                          const char *file)
{
    static struct lab lab;
    struct order_result result;
    int status;

    sim_forget_settings();
    if (stook_topology_set(options->topology) != 0)
        return errno == EINVAL ? STATUS_USAGE /* it has said what is wrong */
                               : complain(STATUS_FAILED, "the library is in use already");
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

int lab_order_run(int argc, char **argv, struct lab_options *options, lab_order_option option,
                  bool (*agree)(struct lab_options *options))
{
    struct order order;
    const char *file;
    int status;

    options->size = 0;
    if (!lab_order_parse(options, argc, argv, option, &file))
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
