/* SPDX-License-Identifier: MIT */
/*
 * ops.h - a byte string is a program of calls, run against the library and a model beside it.
 *
 * The calls are all that allocate and free objects, with any flags; prefilled sheaves, pools, and deferred frees
 * with an RCU whose grace periods end when the bytes say so.  Caches are made and destroyed, shrink, get another
 * capacity, adapt, charge groups, and have tags that are switched on and off.  Calls move from CPU to CPU, on a
 * simulated topology to any of its CPUs.  Handlers interrupt a call after so many instructions, and make calls of
 * their own, which other handlers interrupt.
 *
 * The model knows every object in use.  It overlaps no other, is aligned, keeps its contents, also while it is
 * deferred, and stays constructed.  A free object of a type-stable cache keeps its type.  The group that is charged
 * for an object stays the same, and groups are charged nothing else.  Cheap checks run after each step, check_all() and the sums of statistics every `every`
 * steps and at the end, when all was freed and destroyed.  Dies with a message, so that it serves
 * cmocka and a fuzzer alike.
 */
#ifndef TESTS_SUPPORT_OPS_H
#define TESTS_SUPPORT_OPS_H

#include <stddef.h>
#include <stdint.h>

struct ops_counts {
    uint64_t steps, allocated, freed, refused, destroyed, checked;
    uint64_t deferred, sheaves, pools, moved, of_node, capacities, charged;
    uint64_t handled, inside, nested; /* handlers; that interrupted the library; another handler */
};

void ops_run(const uint8_t *bytes, size_t n, unsigned every, struct ops_counts *counts);

enum { OPS_TOPOLOGY_TEXT = 2048 };

/* A machine: 1 to 8 nodes with gaps in their numbers, some without memory, some without CPUs. */
void ops_topology_text(uint64_t seed, char *text);

void ops_add(struct ops_counts *sum, const struct ops_counts *more);
void ops_print(const struct ops_counts *counts);

#endif
