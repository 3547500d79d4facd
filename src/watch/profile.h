/* SPDX-License-Identifier: MIT */
/*
 * profile.h - the interface between the files that write the profile (docs/profile.md).
 *
 * All of it also runs in signal handlers.  It allocates no memory, uses no stdio, and takes no lock that the interrupted
 * thread may hold.
 */
#ifndef STOOK_WATCH_PROFILE_H
#define STOOK_WATCH_PROFILE_H

#include "text/writer.h"

#include <stdbool.h>

/* Elements of an array: the sites that objects are counted by.  `kind` is text that each begins with; if it is not
 * empty, each has a stack. */
void profile_samples_sites(struct writer *writer, bool first, const char *kind);

/* The files whose code is mapped, as a JSON array: where, and which build. */
void profile_maps_write(struct writer *writer);

/* The members of the document for the sampled profile. */
void profile_samples_write(struct writer *writer);

#endif
