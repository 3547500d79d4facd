/* SPDX-License-Identifier: MIT */
/*
 * report.h - the data of a process that stook report shows on its page (report_html.c, report_flame.c).
 */
#ifndef STOOK_TOOL_REPORT_H
#define STOOK_TOOL_REPORT_H

#include "look/heap.h"
#include "stook/look/look_names.h"

#include <stdio.h>

/* The whole page. */
void report_html(struct heap *heap, FILE *to);
/* The call sites, or a sentence that says why there are none.  Scripts of the page have this nonce. */
void report_flame(struct heap *heap, const char *nonce, FILE *to);

/* Text of any origin, escaped. */
void report_text(FILE *to, const char *text);

#endif
