/* SPDX-License-Identifier: MIT */
/*
 * watch.h - an end for what waits for the process that is looked at, or for a file that it names.
 *
 * A page that the process serves itself (userfaultfd), or a file system that it serves (FUSE), can block a reader without
 * end, and only a fatal signal reaches it.  So a second thread polls the first one between watch_begin() and watch_end().  If
 * that makes no step and uses no CPU time for some seconds, the command ends with a message.  Commands that read many
 * processes read them in a child instead (apart.h).
 */
#ifndef STOOK_LOOK_WATCH_H
#define STOOK_LOOK_WATCH_H

/* These nest, and belong to one thread. */
void watch_begin(void);
void watch_end(void);

/* What is done first when the command ends so: the terminal as it was.  NULL: nothing. */
void watch_at_end(void (*fn)(void));

#endif
