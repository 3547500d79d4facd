/* SPDX-License-Identifier: MIT */
/*
 * lab.c - stook lab: a workload played on a machine that a topology describes, and what it cost.
 */
#include "lab/order.h"
#include "lab/sweep.h"
#include "lab/timing.h"
#include "stook/command.h"
#include "stook/lab_help.h"
#include "stook/lab_order.h"
#include "stook/lab_trace.h"

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

enum {
    OPTION_TOPOLOGY = 1,
    OPTION_QUEUES,
    OPTION_DEPTH,
    OPTION_BATCH,
    OPTION_KEPT,
    OPTION_PAIRING,
    OPTION_COMPLETERS,
    OPTION_OPERATIONS,
    OPTION_CAPACITY,
    OPTION_SIZE,
    OPTION_ALIGN,
    OPTION_ORDER,
    OPTION_DESIGN,
    OPTION_SEED,
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_REFILL,
    OPTION_RACE,
    OPTION_TIME,
    OPTION_COSTS,
    OPTION_SENSITIVITY,
    OPTION_CPUS,
    OPTION_DESIGNS,
    OPTION_SVG,
    OPTION_EVENTS_SVG,
    OPTION_ORDER_OUT,
    OPTION_CORES,
    OPTION_SLICE,
};

/* What was said of them; one command a process. */
static struct timing_costs lab_costs;
static struct sweep lab_sweep = {.least = 1, .most = 512, .designs = ~0u};

static const struct option lab_long_options[] = {
    {"topology", required_argument, NULL, OPTION_TOPOLOGY},
    {"queues", required_argument, NULL, OPTION_QUEUES},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"kept", required_argument, NULL, OPTION_KEPT},
    {"pairing", required_argument, NULL, OPTION_PAIRING},
    {"completers", required_argument, NULL, OPTION_COMPLETERS},
    {"operations", required_argument, NULL, OPTION_OPERATIONS},
    {"capacity", required_argument, NULL, OPTION_CAPACITY},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"align", required_argument, NULL, OPTION_ALIGN},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"design", required_argument, NULL, OPTION_DESIGN},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"threads", no_argument, NULL, OPTION_THREADS},
    {"json", no_argument, NULL, OPTION_JSON},
    {"refill", no_argument, NULL, OPTION_REFILL},
    {"race", no_argument, NULL, OPTION_RACE},
    {"time", no_argument, NULL, OPTION_TIME},
    {"costs", required_argument, NULL, OPTION_COSTS},
    {"sensitivity", no_argument, NULL, OPTION_SENSITIVITY},
    {"cpus", required_argument, NULL, OPTION_CPUS},
    {"designs", required_argument, NULL, OPTION_DESIGNS},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"events-svg", required_argument, NULL, OPTION_EVENTS_SVG},
    {"order-out", required_argument, NULL, OPTION_ORDER_OUT},
    {"cores", required_argument, NULL, OPTION_CORES},
    {"slice", required_argument, NULL, OPTION_SLICE},
    {NULL, 0, NULL, 0},
};

/* A whole number from least to most, with k, M or G behind it perhaps; false after complain(). */
static bool lab_number(const char *option, const char *text, uint64_t least, uint64_t most,
                       uint64_t *number)
{
    static const struct {
        char letter;
        uint64_t times;
    } units[] = {{'\0', 1}, {'k', 1000}, {'M', 1000000}, {'G', 1000000000}};
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        uint64_t n;
        if (end == text || errno || *text == '-' || *end != units[i].letter ||
            (*end && end[1] != '\0') || __builtin_mul_overflow(*number, units[i].times, &n) ||
            n < least || n > most)
            continue;
        *number = n;
        return true;
    }
    complain(STATUS_USAGE, "lab: --%s %s: a number from %llu to %llu is expected", option, text,
             (unsigned long long)least, (unsigned long long)most);
    return false;
}

static bool lab_unsigned(const char *option, const char *text, unsigned least, unsigned most,
                         unsigned *number)
{
    uint64_t n;

    if (!lab_number(option, text, least, most, &n))
        return false;
    *number = (unsigned)n;
    return true;
}

static bool lab_find_pairing(const char *name, enum lab_pairing *pairing)
{
    for (unsigned i = 0; lab_pairings[i]; i++)
        if (strcmp(lab_pairings[i], name) == 0) {
            *pairing = (enum lab_pairing)i;
            return true;
        }
    complain(STATUS_USAGE,
             "lab: --pairing %s: adjacent, same, cross-node or all-to-one is expected", name);
    return false;
}

static bool lab_find_design(const char *name, const struct lab_design **design)
{
    for (unsigned i = 0; lab_designs[i]; i++)
        if (strcmp(lab_designs[i]->name, name) == 0) {
            *design = lab_designs[i];
            return true;
        }
    complain(
        STATUS_USAGE,
        "lab: --design %s: there is no such design; there are stook, cpu-partial, upstream-first, "
        "upstream",
        name);
    return false;
}

static bool lab_find_order(const char *text, int *order)
{
    unsigned n;

    if (strcmp(text, "auto") == 0) {
        *order = LAB_ORDER_AUTO;
        return true;
    }
    if (!lab_unsigned("order", text, 0, 8, &n))
        return false;
    *order = (int)n;
    return true;
}

static bool lab_find_cpus(const char *text)
{
    if (sscanf(text, "%u..%u", &lab_sweep.least, &lab_sweep.most) == 2 && lab_sweep.least >= 1 &&
        lab_sweep.least <= lab_sweep.most && lab_sweep.most <= SWEEP_CPUS_MAX)
        return true;
    complain(STATUS_USAGE, "lab: --cpus %s: a range such as 1..512 is expected", text);
    return false;
}

/* Names between commas, or all. */
static bool lab_find_designs(const char *text)
{
    char name[32];
    int n;

    lab_sweep.designs = 0;
    for (; *text; text += n + (text[n] == ',')) {
        n = (int)strcspn(text, ",");
        snprintf(name, sizeof(name), "%.*s", n, text);
        if (strcmp(name, "all") == 0 || sweep_find(name) >= 0)
            lab_sweep.designs |= *name == 'a' ? ~0u : 1u << sweep_find(name);
        else
            return complain(STATUS_USAGE, "lab: --designs: there is no design %s", name) == 0;
    }
    return true;
}

static bool lab_option(struct lab_options *o, int option, const char *text)
{
    unsigned node;

    switch (option) {
    case OPTION_TOPOLOGY:
        o->topology = text;
        return true;
    case OPTION_QUEUES:
        return lab_unsigned("queues", text, 1, 4096, &o->queues);
    case OPTION_DEPTH:
        return lab_unsigned("depth", text, 1, 65536, &o->depth);
    case OPTION_BATCH:
        return lab_unsigned("batch", text, 1, 65536, &o->batch);
    case OPTION_KEPT:
        return lab_unsigned("kept", text, 0, 257, &o->kept);
    case OPTION_PAIRING:
        return lab_find_pairing(text, &o->pairing);
    case OPTION_COMPLETERS:
        o->pairing = LAB_ALL_TO_ONE;
        if (!lab_unsigned("completers", text, 0, TOPOLOGY_NODES_MAX - 1, &node))
            return false;
        o->completers = (int)node;
        return true;
    case OPTION_OPERATIONS:
        return lab_number("operations", text, 2, (uint64_t)1 << 48, &o->operations);
    case OPTION_CAPACITY:
        return lab_unsigned("capacity", text, 1, STOOK_SHEAF_CAPACITY_MAX, &o->capacity);
    case OPTION_SIZE:
        return lab_unsigned("size", text, 8, STOOK_OBJECT_SIZE_MAX, &o->size);
    case OPTION_ALIGN:
        return lab_unsigned("align", text, 8, STOOK_ALIGN_MAX, &o->align);
    case OPTION_ORDER:
        return lab_find_order(text, &o->order);
    case OPTION_DESIGN:
        return lab_find_design(text, &o->design);
    case OPTION_SEED:
        return lab_number("seed", text, 0, UINT64_MAX, &o->seed);
    case OPTION_THREADS:
        o->threads = true;
        return true;
    case OPTION_JSON:
        o->json = true;
        return true;
    case OPTION_REFILL:
        o->refill = true;
        return true;
    case OPTION_RACE:
        o->race = true;
        return true;
    case OPTION_TIME:
        o->costs = o->costs ? o->costs : &timing_frozen;
        return true;
    case OPTION_COSTS:
        lab_costs = timing_frozen;
        o->costs = &lab_costs;
        return timing_read(text, &lab_costs) == 0;
    case OPTION_SENSITIVITY:
        lab_sweep.sensitivity = true;
        o->costs = o->costs ? o->costs : &timing_frozen;
        return true;
    case OPTION_CPUS:
        return lab_find_cpus(text);
    case OPTION_DESIGNS:
        return lab_find_designs(text);
    case OPTION_SVG:
        lab_sweep.picture = text;
        return true;
    case OPTION_EVENTS_SVG:
        lab_sweep.events_picture = text;
        return true;
    case OPTION_CORES:
        return lab_unsigned("cores", text, 1, 4096, &o->cores);
    case OPTION_SLICE:
        return lab_unsigned("slice", text, 1, 1000000, &o->slice);
    case OPTION_ORDER_OUT:
        o->order_out = text;
        return true;
    default:
        return false; /* getopt has said why */
    }
}

static bool lab_option_named(struct lab_options *o, const char *name, const char *text)
{
    const struct option *option = lab_long_options;

    while (strcmp(option->name, name) != 0)
        option++;
    return lab_option(o, option->val, text);
}

/* Options that are of one design, and the order of slabs that follows from the objects. */
static bool lab_agree(struct lab_options *o)
{
    if (o->race && (o->design != &lab_upstream_first || o->refill)) {
        complain(STATUS_USAGE, "lab: --race needs --design upstream-first, and excludes --refill");
        return false;
    }
    if (o->refill && o->design != &lab_upstream_first && !lab_sweep.sweeps) {
        complain(STATUS_USAGE, "lab: --refill needs --design upstream-first");
        return false;
    }
    if (o->order == LAB_ORDER_UNSAID) /* the report's slabs for the report's objects */
        o->order = o->size == LAB_SIZE ? 2 : LAB_ORDER_AUTO;
    return true;
}

static void lab_list(void)
{
    for (unsigned i = 0; lab_scenarios[i]; i++)
        fprintf(stderr, "  %-18s %s\n", lab_scenarios[i]->name, lab_scenarios[i]->summary);
}

static bool lab_parse(struct lab_options *o, int argc, char **argv)
{
    int option;

    if (argc < 2 || argv[1][0] == '-') {
        complain(STATUS_USAGE, "lab: a scenario is needed:");
        lab_list();
        return false;
    }
    if (strcmp(argv[1], "sweep") == 0 && argc > 2) {
        lab_sweep.sweeps = true;
        o->costs = &timing_frozen;
        argv++;
        argc--;
    }
    for (unsigned i = 0; lab_scenarios[i] && !o->scenario; i++)
        if (strcmp(lab_scenarios[i]->name, argv[1]) == 0)
            o->scenario = lab_scenarios[i];
    if (!o->scenario) {
        complain(STATUS_USAGE, "lab: there is no scenario %s", argv[1]);
        lab_list();
        return false;
    }
    optind = 2;
    while ((option = getopt_long(argc, argv, "", lab_long_options, NULL)) != -1)
        if (!lab_option(o, option, optarg))
            return false;
    if (optind < argc) {
        complain(STATUS_USAGE, "lab: there is no option %s; see stook help lab", argv[optind]);
        return false;
    }
    if (o->batch > o->depth) {
        complain(STATUS_USAGE, "lab: bursts of %u do not fit a depth of %u", o->batch, o->depth);
        return false;
    }
    if (o->costs && (o->threads || o->scenario != &lab_ublk)) {
        complain(STATUS_USAGE, "lab: --time needs the scenario ublk, and excludes --threads");
        return false;
    }
    if (o->cores && (o->threads || o->costs)) {
        complain(STATUS_USAGE, "lab: --cores excludes --threads and --time");
        return false;
    }
    if (o->order_out &&
        (o->threads || o->scenario == &lab_hotplug || lab_sweep.sweeps || lab_sweep.sensitivity)) {
        complain(STATUS_USAGE, "lab: --order-out excludes sweep, --threads and hotplug");
        return false;
    }
    return lab_agree(o);
}

/* Where a run of a sweep leaves what it found; NULL: it is printed. */
static struct sweep_result *lab_sweep_result;

static int lab_run_on(const struct lab_options *options)
{
    static struct lab lab;
    int status;

    sim_forget_settings();
    if (stook_topology_set(options->topology) != 0)
        return errno == EINVAL ? STATUS_USAGE /* it has said what is wrong */
                               : complain(STATUS_FAILED, "the library is in use already");
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
    struct lab_options options = {
        .design = lab_designs[0],
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

    if (argc > 1 && strcmp(argv[1], "trace") == 0)
        return lab_trace_run(argc - 1, argv + 1, LAB_MACHINE);
    if (argc > 1 && strcmp(argv[1], "order") == 0)
        return lab_order_run(argc - 1, argv + 1, &options, lab_option_named, lab_agree);
    if (!lab_parse(&options, argc, argv))
        return STATUS_USAGE;
    return lab_sweep.sweeps || lab_sweep.sensitivity ? sweep_run(&lab_sweep, &options, lab_run_for)
                                                     : lab_run_on(&options);
}

const struct command command_lab = {
    "lab",
    "play a workload on a machine that a text describes, and count every event",
    lab_help,
    lab_run,
};
