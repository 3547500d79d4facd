/* SPDX-License-Identifier: MIT */
#ifndef STOOK_TOOL_LAB_ORDER_H
#define STOOK_TOOL_LAB_ORDER_H

#include "lab/lab.h"

/* One option of a run by its name; false after complain(). */
typedef bool (*lab_order_option)(struct lab_options *options, const char *name, const char *text);

/*
 * stook lab order FILE, with the defaults of a run; `agree` says whether options go together, and what
 * follows from them.  A status.
 */
int lab_order_run(int argc, char **argv, struct lab_options *options, lab_order_option option,
                  bool (*agree)(struct lab_options *options));

#endif
