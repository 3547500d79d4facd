/* SPDX-License-Identifier: MIT */
#ifndef STOOK_TOOL_LAB_TRACE_H
#define STOOK_TOOL_LAB_TRACE_H

/* stook lab trace: argv[0] is "trace".  `machine` is the topology where none is said.  A status. */
int lab_trace_run(int argc, char **argv, const char *machine);

#endif
