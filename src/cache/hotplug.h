/* SPDX-License-Identifier: MIT */
/*
 * hotplug.h - CPUs and nodes that come and go while threads run (docs/topology.md).
 */
#ifndef STOOK_CACHE_HOTPLUG_H
#define STOOK_CACHE_HOTPLUG_H

/* After topology and arena, before the first allocation. */
void hotplug_init(void);
/* The scan that an allocation that may wait makes when it is due.  Inside the library, without locks. */
void hotplug_scan(void);
/* In the forked child: a thread that was in a scan does not exist here, unless it is this thread. */
void hotplug_child(void);

#endif
