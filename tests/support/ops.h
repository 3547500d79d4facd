/* SPDX-License-Identifier: MIT */
/*
 * ops.h - a byte string is a program of calls, run against the library and a model beside it.
 *
 * The model knows every object that is out: it overlaps no other, is aligned, keeps its contents,
 * comes back constructed.  check_all() runs every `every` steps and at the end, when all was freed
 * and destroyed.  Dies with a message, so that it serves cmocka and a fuzzer alike.
 */
#ifndef TESTS_SUPPORT_OPS_H
#define TESTS_SUPPORT_OPS_H

#include <stddef.h>
#include <stdint.h>

struct ops_counts {
    uint64_t steps, allocated, freed, refused, destroyed, checked;
};

void ops_run(const uint8_t *bytes, size_t n, unsigned every, struct ops_counts *counts);

#endif
