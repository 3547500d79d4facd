/* SPDX-License-Identifier: MIT */
/*
 * traced.h - traces as the environment asks for them (stook/debug.h).
 */
#ifndef STOOK_FACE_TRACED_H
#define STOOK_FACE_TRACED_H

#include <stdbool.h>

/* Once, with the topology known, before the first cache.  True: this process is traced. */
bool traced_init(void);

/* Of hooks.fork_child: the forked child, when all else is in order: it is not traced any more, or by itself.  `nested`: a
 * handler forked that interrupted this library; not by itself then. */
void traced_child(bool nested);

#endif
