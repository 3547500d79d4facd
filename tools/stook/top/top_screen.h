/* SPDX-License-Identifier: MIT */
/*
 * top_screen.h - the screen and the keys of stook top, by ncurses.
 */
#ifndef STOOK_TOOL_TOP_SCREEN_H
#define STOOK_TOOL_TOP_SCREEN_H

#include "stook/top/top_data.h"

enum top_action {
    TOP_RENEW, /* the time has come, or a key asks for it */
    TOP_DRAW,  /* the same data in another way */
    TOP_ENTER, /* the selected row */
    TOP_BACK,
    TOP_QUIT,
};

struct top_screen {
    double delay;
    enum top_sort sort;
    bool inverted, internal, help;
    bool host;             /* the list of processes was there first */
    size_t selected, from; /* rows: the one that is marked, the first on the screen */
    uint64_t selected_key;
    char filter[32], message[256];
    bool typing;   /* what is typed goes to the filter */
    uint64_t next; /* when the next snapshot is due: CLOCK_MONOTONIC, ns */
};

/* False: there is no terminal. */
bool top_screen_begin(struct top_screen *screen, double delay, enum top_sort sort);
/* The terminal as it was.  Also without a beginning. */
void top_screen_end(void);
void top_screen_draw(struct top_screen *screen, struct top_data *data);
/* The next thing to do. */
enum top_action top_screen_wait(struct top_screen *screen, const struct top_data *data);
/* A line below the rows, until the next snapshot. */
void top_screen_say(struct top_screen *screen, const char *text);
/* The first row is selected, and nothing is filtered. */
void top_screen_home(struct top_screen *screen);

/* For top_keys.c: a signal asks for the end; rows that are shown, without those filtered out; lines for rows. */
bool top_screen_ended(void);
size_t top_screen_count(const struct top_screen *screen, const struct top_data *data);
int top_screen_lines(void);

#endif
