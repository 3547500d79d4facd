/* SPDX-License-Identifier: MIT */
/*
 * hotplug.h - CPUs and nodes that come and go while threads run (docs/topology.md).
 */
#ifndef STOOK_CACHE_HOTPLUG_H
#define STOOK_CACHE_HOTPLUG_H

/* After topology and arena, before the first allocation. */
void hotplug_init(void);
/* What an allocation that may wait does where it is due.  Inside the library, without locks. */
void hotplug_scan(void);
/* The forked child: who was at it is not here, unless it is this thread. */
void hotplug_child(void);

#endif
