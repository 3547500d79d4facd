/* SPDX-License-Identifier: MIT */
/*
 * child.h - runs a function in a forked child and keeps what it says and how it ends.
 */
#ifndef TESTS_SUPPORT_CHILD_H
#define TESTS_SUPPORT_CHILD_H

#ifdef __cplusplus
extern "C" {
#endif

struct child {
    int status;        /* as waitpid() gives it */
    char error[16384]; /* its standard error */
};

/* The child ends with what `body` returns. */
void child_run(struct child *child, int (*body)(void *arg), void *arg);

/* It aborted, and its standard error contains the text; else says what it was. */
int child_died_saying(const struct child *child, const char *text);
/* It ended with 0. */
int child_passed(const struct child *child);

#ifdef __cplusplus
}
#endif

#endif
