/* SPDX-License-Identifier: MIT */
/*
 * profile.h - what the parts of the profile's writer know of each other (docs/profile.md).
 *
 * All of it runs in signal handlers too: no memory, no stdio, no lock that could be the victim's.
 */
#ifndef STOOK_WATCH_PROFILE_H
#define STOOK_WATCH_PROFILE_H

#include "text/writer.h"

#include <stdbool.h>

/* Elements of an array: the sites that objects are counted by.  `kind` is text that each begins with; if it is not
 * empty, each has a stack. */
void profile_sites_write(struct writer *writer, bool first, const char *kind);

/* The files whose code is mapped, as a JSON array: where, and which build. */
void profile_maps_write(struct writer *writer);

/* The members of the document for the sampled profile. */
void profile_samples_write(struct writer *writer);

#endif
