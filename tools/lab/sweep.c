/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - many runs of ublk, one after the other, each in a child process: a process has one
 * topology.
 *
 * A machine of n CPUs is a part of the report's, or has more of its nodes: nodes of eight CPUs (four
 * cores), four nodes a socket, memory on the second of each four.
 */
#include "lab/sweep.h"
#include "stook/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SWEEP_NODE = 8, SWEEP_SOCKET = 4, SWEEP_OPERATIONS = 10000 /* of a queue, at most */ };

const struct sweep_series sweep_series[SWEEP_SERIES] = {
    {"stook", &lab_stook, false},
    {"cpu-partial", &lab_cpu_partial, false},
    {"upstream-first", &lab_upstream_first, false},
    {"upstream-first+refill", &lab_upstream_first, true},
    {"upstream", &lab_upstream, false},
};

static const char *const sweep_kinds[SWEEP_KINDS] = {
    "allocations that touch slabs", "frees that touch slabs",    "list locks of allocations",
    "list locks of frees",          "barn locks of allocations", "barn locks of frees",
};

/* What was found: 0 where there is no run. */
enum { SWEEP_POINTS = 16 };
struct sweep_table {
    unsigned points, cpus[SWEEP_POINTS];
    unsigned designs;
    struct sweep_result at[SWEEP_SERIES][SWEEP_POINTS];
    struct sweep_result report[SWEEP_SERIES]; /* on the machine of the report, 64 CPUs */
};

int sweep_find(const char *name)
{
    for (int i = 0; i < SWEEP_SERIES; i++)
        if (strcmp(sweep_series[i].name, name) == 0)
            return i;
    return -1;
}

int sweep_keep(const struct lab *lab, struct sweep_result *result)
{
    static const enum lab_event kinds[SWEEP_KINDS] = {
        LAB_ALLOC_OUTSIDE,   LAB_FREE_OUTSIDE,     LAB_ALLOC_LIST_LOCKS,
        LAB_FREE_LIST_LOCKS, LAB_ALLOC_BARN_LOCKS, LAB_FREE_BARN_LOCKS,
    };
    struct timing_result time;

    timing_result(lab, &time);
    result->rate = time.operations / time.seconds;
    for (unsigned i = 0; i < SWEEP_KINDS; i++)
        result->kind[i] = (double)(lab->end.all.event[kinds[i]] - lab->half.all.event[kinds[i]]) /
                          (double)(lab->end.operations - lab->half.operations);
    return 0;
}

/* ---- a process for each run ------------------------------------------------------------------ */

int sweep_begin(struct sweep_child *child, int (*run)(void *arg, FILE *to), void *arg)
{
    int ends[2], status;

    if (pipe(ends) != 0)
        return complain(STATUS_FAILED, "no pipe can be made: %s", strerror(errno));
    fflush(stdout); /* or the child has it, too */
    child->pid = fork();
    if (child->pid == 0) {
        FILE *to = fdopen(ends[1], "wb");
        close(ends[0]);
        status = to ? run(arg, to) : STATUS_FAILED;
        _exit(status == 0 && fclose(to) != 0 ? STATUS_FAILED : status);
    }
    close(ends[1]);
    child->from = fdopen(ends[0], "rb");
    return child->pid > 0 && child->from
               ? 0
               : complain(STATUS_FAILED, "no process can be made for a run: %s", strerror(errno));
}

int sweep_end(struct sweep_child *child, bool all, const char *name)
{
    int status;

    fclose(child->from);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return complain(STATUS_FAILED, "a run of %s is lost: %s", name, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && all)
        return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) != 0
               ? WEXITSTATUS(status) /* it has said why */
               : complain(STATUS_FAILED, "a run of %s ended by a signal", name);
}

struct sweep_call {
    const struct lab_options *options;
    sweep_one one;
};

static int sweep_call(void *arg, FILE *to)
{
    const struct sweep_call *call = arg;
    struct sweep_result result = {0};
    int status = call->one(call->options, &result);

    fwrite(&result, sizeof(result), 1, to);
    return status;
}

/* In a child, which has the topology to itself. */
static int sweep_apart(const struct lab_options *options, sweep_one one,
                       struct sweep_result *result)
{
    struct sweep_call call = {options, one};
    struct sweep_child child;
    int status = sweep_begin(&child, sweep_call, &call);

    return status ? status
                  : sweep_end(&child, fread(result, sizeof(*result), 1, child.from) == 1,
                              options->design->name);
}

/* ---- machines of n CPUs --------------------------------------------------------------------- */

static void sweep_machine(unsigned cpus, char *text, size_t size)
{
    unsigned nodes = (cpus + SWEEP_NODE - 1) / SWEEP_NODE;
    size_t at;

    if (cpus < SWEEP_NODE || cpus % SWEEP_NODE != 0) {
        snprintf(text, size, "node:1 core:%u memory:0=32G", cpus);
        return;
    }
    at = (size_t)snprintf(text, size, "node:%u core:%d smt:2 distance:*=32", nodes, SWEEP_NODE / 2);
    for (unsigned node = 0; node < nodes; node += SWEEP_SOCKET)
        at += (size_t)snprintf(text + at, size - at, " memory:%u=32G",
                               node + 1 < nodes ? node + 1 : node);
    for (unsigned node = 0; node + 1 < nodes; node += SWEEP_SOCKET)
        at += (size_t)snprintf(text + at, size - at, " distance:%u-%u=12", node,
                               node + SWEEP_SOCKET < nodes ? node + SWEEP_SOCKET - 1 : nodes - 1);
}

/* One CPU, and then doubling, up to the most. */
static void sweep_points(const struct sweep *sweep, struct sweep_table *table)
{
    for (unsigned cpus = sweep->least; table->points + 1 < SWEEP_POINTS && cpus < sweep->most;
         cpus *= 2)
        table->cpus[table->points++] = cpus;
    table->cpus[table->points++] = sweep->most;
}

static struct lab_options sweep_options(const struct lab_options *options, unsigned series,
                                        const char *machine, unsigned cpus)
{
    struct lab_options o = *options;

    o.design = sweep_series[series].design;
    o.refill = sweep_series[series].refill;
    if (machine) {
        o.topology = machine;
        /* As in the report one thread a core: half of the CPUs are at work. */
        o.queues = cpus >= 4 ? cpus / 4 : 1;
        if (o.operations > (uint64_t)SWEEP_OPERATIONS * o.queues)
            o.operations = (uint64_t)SWEEP_OPERATIONS * o.queues;
    }
    return o;
}

/* ---- what is printed ------------------------------------------------------------------------ */

static void sweep_line(const struct sweep_table *table, const char *what, unsigned point)
{
    printf("%14s", what);
    for (unsigned s = 0; s < SWEEP_SERIES; s++)
        if (table->designs >> s & 1)
            printf(" %22.2f",
                   (point < table->points ? table->at[s][point].rate : table->report[s].rate) /
                       1e6);
    printf("\n");
}

static int sweep_print(const struct sweep_table *table)
{
    char number[16];

    printf("%14s", "CPUs");
    for (unsigned s = 0; s < SWEEP_SERIES; s++)
        if (table->designs >> s & 1)
            printf(" %22s", sweep_series[s].name);
    printf("\n");
    for (unsigned p = 0; p < table->points; p++) {
        snprintf(number, sizeof(number), "%u", table->cpus[p]);
        sweep_line(table, number, p);
    }
    sweep_line(table, "the report's", table->points);
    printf(
        "\nmillion operations a second in the model of time; of the report's machine, an object:\n");
    for (unsigned k = 0; k < SWEEP_KINDS; k++) {
        printf("%s\n%14s", sweep_kinds[k], "");
        for (unsigned s = 0; s < SWEEP_SERIES; s++)
            if (table->designs >> s & 1)
                printf(" %22.4f", table->report[s].kind[k]);
        printf("\n");
    }
    return 0;
}

int sweep_run(const struct sweep *sweep, const struct lab_options *options, sweep_one one)
{
    struct sweep_table table = {.designs = sweep->designs};
    char machine[2048];
    int status = 0;

    sweep_points(sweep, &table);
    for (unsigned s = 0; s < SWEEP_SERIES && status == 0; s++) {
        struct lab_options o = sweep_options(options, s, NULL, 0);
        if (!(sweep->designs >> s & 1))
            continue;
        status = sweep_apart(&o, one, &table.report[s]);
        for (unsigned p = 0; p < table.points && status == 0; p++) {
            sweep_machine(table.cpus[p], machine, sizeof(machine));
            o = sweep_options(options, s, machine, table.cpus[p]);
            status = sweep_apart(&o, one, &table.at[s][p]);
        }
    }
    return status == 0 ? sweep_print(&table) : status;
}
