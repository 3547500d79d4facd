/* SPDX-License-Identifier: MIT */
/*
 * lab_parts.h - types and calls that the files of stook lab share.
 */
#ifndef STOOK_TOOL_LAB_PARTS_H
#define STOOK_TOOL_LAB_PARTS_H

#include "lab/lab.h"
#include "stook/option.h"

extern const char lab_help[];

enum { LAB_UNITS = 1000 }; /* of numbers: what k stands for */

/* This process simulates the machine of that text or file from now on.  A status. */
int lab_machine(const char *machine);
/* For tables of options: costs from a file, designs of sweep.h between commas, besides those named before; an order. */
const char *lab_read_costs(const char *text, void *to);
const char *lab_read_designs(const char *text, void *to);
const char *lab_read_order(const char *text, void *to);

/* stook lab order FILE, with a run's options and the table that reads into them; `agree` says whether options go
 * together, and what follows from them.  A status. */
int lab_order_run(int argc, char **argv, struct lab_options *options, const struct option_row *rows,
                  unsigned n, bool (*agree)(struct lab_options *options));

/* stook lab trace: argv[0] is "trace".  `machine` is the topology where none is said.  A status. */
int lab_trace_run(int argc, char **argv, const char *machine);

#endif
