/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef STOOK_BENCH_OPTIONS_H
#define STOOK_BENCH_OPTIONS_H

#include <stddef.h>

#include "plan.h"

struct options {
    int json;
    int quick;
    unsigned repeats; /* 0 here and below: the case's default */
    size_t object_size[PLAN_VALUES_MAX];
    size_t n[PLAN_VALUES_MAX];
    size_t align[PLAN_VALUES_MAX];
    size_t threads;
    size_t mib;
    unsigned rounds;
    unsigned ms;
    double settle;
    int in_order;
    const char *allocators; /* comma lists; NULL: all */
    const char *linked;
    const char *subcases;
    const char *modes;
    const char *orders;
    const char *free_orders;
    const char *against; /* the other build's folder of libraries; NULL: other allocators */
    const char *family;  /* the CASE argument */
};

/* Ends the program where the command line is wrong, or only asks for help. */
void options_parse(struct options *options, int argc, char **argv);

/* Whether a comma list names the word; a list that is NULL names all. */
int options_listed(const char *list, const char *word);

#endif
