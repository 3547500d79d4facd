/* SPDX-License-Identifier: MIT */
/*
 * lab.c - stook lab: a workload played on a machine that a topology describes, and what it cost.
 */
#include "lab/order.h"
#include "lab/sweep.h"
#include "lab/timing.h"
#include "stook/command.h"
#include "stook/lab/lab_parts.h"

#include "sim/sim.h"
#include "os/topology.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The machine of the report: topologies/ublk.topo. */
#define LAB_MACHINE                                                                                \
    "node:8 core:4 smt:2 memory:1,5=32G distance:*=32 distance:0-3=12 distance:4-7=12"

enum {
    LAB_SIZE = 320, /* of the report's objects: 256 bytes and a pointer behind them, whole lines */
    LAB_ORDER_UNSAID = -2,
    LAB_ORDER_AUTO = -1,
};

/* What was said of them; one command a process. */
static struct timing_costs lab_costs;
static struct sweep lab_sweep = {.least = 1, .most = 512};
static bool lab_timed;

static struct lab_options lab_options = {
    .topology = LAB_MACHINE,
    .operations = 1000000,
    .seed = 1,
    .depth = 128,
    .batch = 32,
    .kept = 94,
    .slice = 1000,
    .size = LAB_SIZE,
    .align = 64,
    .order = LAB_ORDER_UNSAID,
};

static const char *lab_find_completers(const char *text, void *to)
{
    uint64_t node;

    if (!option_number(text, 0, 0, TOPOLOGY_NODES_MAX - 1, &node))
        return "the number of a node is expected";
    lab_options.pairing = LAB_ALL_TO_ONE;
    *(int *)to = (int)node;
    return NULL;
}

static const char *lab_find_design(const char *name, void *to)
{
    for (unsigned i = 0; lab_designs[i]; i++)
        if (strcmp(lab_designs[i]->name, name) == 0) {
            *(const struct lab_design **)to = lab_designs[i];
            return NULL;
        }
    return "there is no such design; there are stook, cpu-partial, upstream-first, upstream";
}

const char *lab_read_order(const char *text, void *to)
{
    uint64_t order = 0;
    bool automatic = strcmp(text, "auto") == 0;

    if (!automatic && !option_number(text, 0, 0, 8, &order))
        return "auto, or a number from 0 to 8 is expected";
    *(int *)to = automatic ? LAB_ORDER_AUTO : (int)order;
    return NULL;
}

static const char *lab_find_cpus(const char *text, void *to)
{
    struct sweep *sweep = to;

    return sscanf(text, "%u..%u", &sweep->least, &sweep->most) == 2 && sweep->least >= 1 &&
                   sweep->least <= sweep->most && sweep->most <= SWEEP_CPUS_MAX
               ? NULL
               : "a range such as 1..512 is expected";
}

/* Names between commas, or all. */
const char *lab_read_designs(const char *text, void *to)
{
    unsigned *designs = to;
    char name[32];
    int n, found;

    for (; *text; text += n + (text[n] == ',')) {
        n = (int)strcspn(text, ",");
        snprintf(name, sizeof(name), "%.*s", n, text);
        found = sweep_find(name);
        if (found < 0 && strcmp(name, "all") != 0) {
            (void)complain(STATUS_USAGE,
                           "there is no design %s; there are cpu-partial, upstream-first, "
                           "upstream-first+refill, upstream, stook, all",
                           name);
            return "";
        }
        *designs |= found < 0 ? ~0u : 1u << found;
    }
    return NULL;
}

const char *lab_read_costs(const char *text, void *to)
{
    lab_costs = timing_frozen;
    *(const struct timing_costs **)to = &lab_costs;
    return timing_read(text, &lab_costs) == 0 ? NULL : "";
}

static const struct option_row lab_rows[] = {
    {"topology", OPTION_TEXT, .to = &lab_options.topology},
    {"queues", OPTION_UNSIGNED, &lab_options.queues, 1, .most = 4096},
    {"depth", OPTION_UNSIGNED, &lab_options.depth, 1, .most = 65536},
    {"batch", OPTION_UNSIGNED, &lab_options.batch, 1, .most = 65536},
    {"kept", OPTION_UNSIGNED, &lab_options.kept, 0, .most = 257},
    {"pairing", OPTION_WORD, &lab_options.pairing, .words = lab_pairings},
    {"completers", OPTION_CALL, &lab_options.completers, .read = lab_find_completers},
    {"operations", OPTION_NUMBER, &lab_options.operations, 2, .most = (uint64_t)1 << 48},
    {"capacity", OPTION_UNSIGNED, &lab_options.capacity, 1, .most = STOOK_SHEAF_CAPACITY_MAX},
    {"size", OPTION_UNSIGNED, &lab_options.size, 8, .most = STOOK_OBJECT_SIZE_MAX},
    {"align", OPTION_UNSIGNED, &lab_options.align, 8, .most = STOOK_ALIGN_MAX},
    {"order", OPTION_CALL, &lab_options.order, .read = lab_read_order},
    {"design", OPTION_CALL, &lab_options.design, .read = lab_find_design},
    {"seed", OPTION_NUMBER, &lab_options.seed, 0, .most = UINT64_MAX},
    {"threads", OPTION_FLAG, .to = &lab_options.threads},
    {"json", OPTION_FLAG, .to = &lab_options.json},
    {"refill", OPTION_FLAG, .to = &lab_options.refill},
    {"race", OPTION_FLAG, .to = &lab_options.race},
    {"time", OPTION_FLAG, .to = &lab_timed},
    {"costs", OPTION_CALL, &lab_options.costs, .read = lab_read_costs},
    {"cpus", OPTION_CALL, &lab_sweep, .read = lab_find_cpus},
    {"designs", OPTION_CALL, &lab_sweep.designs, .read = lab_read_designs},
    {"order-out", OPTION_TEXT, .to = &lab_options.order_out},
    {"cores", OPTION_UNSIGNED, &lab_options.cores, 1, .most = 4096},
    {"slice", OPTION_UNSIGNED, &lab_options.slice, 1, .most = 1000000},
};

/* Options that are of one design, and the order of slabs that follows from the objects. */
static bool lab_agree(struct lab_options *o)
{
    if (!o->design)
        o->design = lab_designs[0];
    if (o->race && (o->design != &lab_upstream_first || o->refill))
        return refuse("--race needs --design upstream-first, and excludes --refill");
    if (o->refill && o->design != &lab_upstream_first && !lab_sweep.sweeps)
        return refuse("--refill needs --design upstream-first");
    if (o->order == LAB_ORDER_UNSAID) /* the report's slabs for the report's objects */
        o->order = o->size == LAB_SIZE ? 2 : LAB_ORDER_AUTO;
    return true;
}

static bool lab_list(void)
{
    for (unsigned i = 0; lab_scenarios[i]; i++)
        fprintf(stderr, "  %-18s %s\n", lab_scenarios[i]->name, lab_scenarios[i]->summary);
    return false;
}

static bool lab_parse(struct lab_options *o, int argc, char **argv)
{
    const struct option_table table = {"lab", STATUS_USAGE, lab_rows,
                                       sizeof(lab_rows) / sizeof(lab_rows[0]), .units = LAB_UNITS};

    if (argc < 2 || argv[1][0] == '-')
        return refuse("a scenario is needed:") || lab_list();
    lab_sweep.sweeps = strcmp(argv[1], "sweep") == 0 && argc > 2;
    argv += 1 + lab_sweep.sweeps;
    argc -= 1 + lab_sweep.sweeps;
    for (unsigned i = 0; lab_scenarios[i] && !o->scenario; i++)
        if (strcmp(lab_scenarios[i]->name, argv[0]) == 0)
            o->scenario = lab_scenarios[i];
    if (!o->scenario)
        return refuse("there is no scenario %s", argv[0]) || lab_list();
    if (option_read(&table, argc, argv) != STATUS_OK)
        return false;
    if ((lab_timed || lab_sweep.sweeps) && !o->costs)
        o->costs = &timing_frozen;
    if (lab_sweep.designs == 0)
        lab_sweep.designs = ~0u;
    if (optind < argc)
        return refuse("there is no option %s; see stook help lab", argv[optind]);
    if (o->batch > o->depth)
        return refuse("bursts of %u do not fit a depth of %u", o->batch, o->depth);
    if (o->costs && (o->threads || o->scenario != &lab_ublk))
        return refuse("--time needs the scenario ublk, and excludes --threads");
    if (o->cores && (o->threads || o->costs))
        return refuse("--cores excludes --threads and --time");
    if (o->order_out && (o->threads || o->scenario == &lab_hotplug || lab_sweep.sweeps))
        return refuse("--order-out excludes sweep, --threads and hotplug");
    return lab_agree(o);
}

/* Where a run of a sweep leaves what it found; NULL: it is printed. */
static struct sweep_result *lab_sweep_result;

int lab_machine(const char *machine)
{
    sim_forget_settings();
    if (stook_topology_set(machine) == 0)
        return 0;
    return errno == EINVAL ? STATUS_USAGE /* it has said what is wrong */
                           : complain(STATUS_FAILED, "the library is in use already");
}

static int lab_run_on(const struct lab_options *options)
{
    static struct lab lab;
    int status;

    status = lab_machine(options->topology);
    if (status != 0)
        return status;
    lab_ready(&lab, options);
    stook_topology_cpu((int)lab_cpu_at(0));
    status = options->costs ? timing_start(&lab, options->costs) : 0;
    if (status == 0)
        status = options->design->start(&lab);
    if (status == 0)
        status = options->scenario->prepare(&lab);
    if (status == 0 && options->order_out)
        status = order_begin(&lab, options->order_out);
    if (status == 0)
        status = lab_play(&lab);
    if (status == 0)
        status = order_end(&lab);
    if (status == 0)
        status = options->design->stop(&lab);
    if (status == 0)
        status = lab_sweep_result ? sweep_keep(&lab, lab_sweep_result) : lab_print(&lab);
    lab_over(&lab);
    return status;
}

static int lab_run_for(const struct lab_options *options, struct sweep_result *result)
{
    lab_sweep_result = result;
    return lab_run_on(options);
}

static int lab_run(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "trace") == 0)
        return lab_trace_run(argc - 1, argv + 1, LAB_MACHINE);
    if (argc > 1 && strcmp(argv[1], "order") == 0)
        return lab_order_run(argc - 1, argv + 1, &lab_options, lab_rows,
                             sizeof(lab_rows) / sizeof(lab_rows[0]), lab_agree);
    if (!lab_parse(&lab_options, argc, argv))
        return STATUS_USAGE;
    return lab_sweep.sweeps ? sweep_run(&lab_sweep, &lab_options, lab_run_for)
                            : lab_run_on(&lab_options);
}

const struct command command_lab = {
    "lab",
    "play a workload on a machine that a text describes, and count every event",
    lab_help,
    lab_run,
};
