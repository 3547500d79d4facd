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
/* In the forked child: a thread that was in a scan does not exist here, unless it is this thread. */
void hotplug_child(void);

#endif
