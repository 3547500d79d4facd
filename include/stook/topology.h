/* SPDX-License-Identifier: MIT */
/*
 * topology.h - CPUs and nodes that come and go, and simulated topologies (docs/topology.md).
 */
#ifndef STOOK_TOPOLOGY_H
#define STOOK_TOPOLOGY_H

#include <stook/stook.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- CPUs and nodes that come and go (docs/topology.md) ---------------------------------------- */

/*
 * Look now whether the machine, or what of it the process may use, has changed: CPUs and nodes that
 * came or went, memory of a node, a cpuset or affinities that were cut.  The library looks by itself,
 * after every 1024th allocation on a CPU that finds the CPU's sheaf empty, with the next one that may wait;
 * malloc never does.  This call is for a program that knows, that calls malloc only, or that is about to
 * sleep.  Sheaves of CPUs on which no thread may run any more go back, and those of nodes where none may;
 * the node that a CPU takes memory from follows the machine.
 *
 * *changes, which may be NULL, becomes how many CPUs and nodes are other than before.
 * errors:  EDEADLK  from a handler that interrupted the library, or from a destructor that it runs
 * context: beside any other call; not from a signal handler.  locks: all, in turn.  cost: some files
 * of sysfs, 0.2 us a thread of the process, and one fence (membarrier) a CPU that was left.
 */
STOOK_API int stook_topology_update(unsigned *changes);

/* ---- simulated topology ---------------------------------------------------------------------- */

/*
 * Let the process believe that it runs on the machine that a text, or the file of that name,
 * describes: CPUs, nodes, memory and distances, e.g. "node:2 core:4 memory:0=16G"
 * (docs/topology.md).  The environment variable STOOK_TOPOLOGY does the same from the start; this
 * call replaces what that said.  A process with a simulated topology runs in locked mode.
 *
 * errors:  EINVAL   no such file, or the text is wrong: stderr was told what is, and where
 *          EBUSY    something was allocated or a cache made already (where malloc is this
 *                   library's, that is before main)
 * context: no other thread may be in a call of the library.  cost: the library starts once more.
 */
STOOK_API int stook_topology_set(const char *text_or_file);

/*
 * This thread is on that CPU of the simulated topology from here on.  Threads that never call it
 * are dealt out to the CPUs in turn.  Gives the CPU it was on before, or -1.
 *
 * errors:  EINVAL   the topology has no such CPU, or it is offline
 *          ENOTSUP  the topology is not simulated
 * context: not from a signal handler.  locks: none.
 */
STOOK_API int stook_topology_cpu(int cpu);

/*
 * A CPU of the simulated topology goes offline (online = 0), or comes back: all are there at the
 * start.  Its sheaves go back; threads that stated it are dealt another one with their next call.
 *
 * The memory of a node goes, or comes (back): new slabs are no more, or again, made there; its empty
 * slabs and warm pages go back.  Objects that are in use stay where they are.
 *
 * Saying what is so already is fine.
 *
 * errors:  EINVAL   the topology has no such CPU, or no such node
 *          EBUSY    it is the last CPU that is online, or the last memory
 *          ENOTSUP  the topology is not simulated
 *          EDEADLK  as stook_topology_update()
 * context: beside any other call; not from a signal handler.  locks: all, in turn.
 */
STOOK_API int stook_topology_cpu_online(int cpu, int online);
STOOK_API int stook_topology_memory_online(int node, int online);

#ifdef __cplusplus
}
#endif

#endif /* STOOK_TOPOLOGY_H */
