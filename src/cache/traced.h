/* SPDX-License-Identifier: MIT */
/*
 * traced.h - traces as the environment asks for them (stook/trace.h).
 */
#ifndef STOOK_CACHE_TRACED_H
#define STOOK_CACHE_TRACED_H

#include <stdbool.h>

/* Once, with the topology known, before the first cache. */
void traced_init(void);

/* The forked child, when all else is in order: it is not traced any more, or by itself.  `nested`: a
 * handler forked that interrupted this library; not by itself then. */
void traced_child(bool nested);

#endif
