/* SPDX-License-Identifier: MIT */
/*
 * probe_notes.h - the USDT probes of this very program, by its .note.stapsdt, and the values of their arguments at a
 * stop of a traced child (x86-64).
 */
#ifndef TESTS_SUPPORT_PROBE_NOTES_H
#define TESTS_SUPPORT_PROBE_NOTES_H

#include <sys/types.h>

#include <stdint.h>

enum { PROBE_NOTES_MAX = 64, PROBE_ARGS_MAX = 6 };

struct probe_note {
    uint64_t at, semaphore; /* in the file; 0: it has none */
    const char *provider, *name, *args;
};

/* Those of /proc/self/exe; the text stays.  -1: they cannot be read. */
int probe_notes_read(struct probe_note notes[PROBE_NOTES_MAX]);

/* How much higher than in its file this program lies. */
uint64_t probe_notes_bias(void);

/* The arguments of a note in the stopped child; how many, or -1: an argument has an unknown form. */
int probe_notes_args(pid_t child, const char *args, uint64_t values[PROBE_ARGS_MAX]);

#endif
