/* SPDX-License-Identifier: MIT */
/*
 * scenarios.c - the tables of scenarios, designs, pairings and events, in the order of their names
 * in the lab.
 */
#include "lab/lab.h"

const struct lab_scenario *const lab_scenarios[] = {
    &lab_ublk,    &lab_local, &lab_producer_consumer, &lab_fork_exec, &lab_random_walk,
    &lab_hotplug, NULL,
};

const struct lab_design *const lab_designs[] = {
    &lab_stook, &lab_cpu_partial, &lab_upstream_first, &lab_upstream, NULL,
};

const char *const lab_pairings[] = {"adjacent", "same", "cross-node", "all-to-one", NULL};

const char *const lab_events[LAB_EVENTS] = {
    "allocs",           "frees",           "alloc_outside",    "free_outside",
    "alloc_barn_locks", "free_barn_locks", "alloc_list_locks", "free_list_locks",
};
