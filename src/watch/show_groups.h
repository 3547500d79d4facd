/* SPDX-License-Identifier: MIT */
/*
 * show_groups.h - the groups in a report.
 */
#ifndef STOOK_WATCH_SHOW_GROUPS_H
#define STOOK_WATCH_SHOW_GROUPS_H

#include "text/writer.h"

/* A table with an empty line before it; nothing where there are no groups. */
void show_groups_table(struct writer *w);
/* A JSON array. */
void show_groups_json(struct writer *w);

#endif
