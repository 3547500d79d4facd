/* SPDX-License-Identifier: MIT */
/*
 * hotplug.h - CPUs and nodes that come and go while threads run (docs/topology.md).
 */
#ifndef STOOK_FACE_HOTPLUG_H
#define STOOK_FACE_HOTPLUG_H

/* The library starts once more, on another topology. */
void hotplug_again(void);
/* hooks.scan */
void hotplug_scan(void);
/* The forked child: who was at it is not here, unless it is this thread. */
void hotplug_child(void);

#endif
