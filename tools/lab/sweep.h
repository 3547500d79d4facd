/* SPDX-License-Identifier: MIT */
/*
 * sweep.h - `stook lab sweep`: all designs over numbers of CPUs, each run in a process of its own.
 */
#ifndef STOOK_LAB_SWEEP_H
#define STOOK_LAB_SWEEP_H

#include "lab/timing.h"

#include <stdio.h>
#include <sys/types.h>

enum { SWEEP_CPUS_MAX = 512, SWEEP_SERIES = 5, SWEEP_KINDS = 6 };

struct sweep {
    bool sweeps;
    unsigned least, most;
    unsigned designs; /* bit per series */
};

/* Of one run: rates, and events of each object. */
struct sweep_result {
    double rate;
    double kind[SWEEP_KINDS];
};

struct sweep_series {
    const char *name;
    const struct lab_design *design;
    bool refill;
};
extern const struct sweep_series sweep_series[SWEEP_SERIES];

/* A process for a run, since a process has one topology: `run` writes what it found to `to`, which is read from
 * `from`.  Statuses; `all`: it was read as a whole. */
struct sweep_child {
    pid_t pid;
    FILE *from;
};
int sweep_begin(struct sweep_child *child, int (*run)(void *arg, FILE *to), void *arg);
int sweep_end(struct sweep_child *child, bool all, const char *name);

typedef int (*sweep_one)(const struct lab_options *options, struct sweep_result *result);

/* The number of a series, or -1. */
int sweep_find(const char *name);
/* Fills the result of a run that was played; a status. */
int sweep_keep(const struct lab *lab, struct sweep_result *result);
/* The table to standard output; a status. */
int sweep_run(const struct sweep *sweep, const struct lab_options *options, sweep_one one);

#endif
