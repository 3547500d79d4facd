/* SPDX-License-Identifier: MIT */
/*
 * topology.h - CPUs and nodes that come and go, and simulated topologies (docs/topology.md).
 * stook/stook.h has the conventions.
 */
#ifndef STOOK_TOPOLOGY_H
#define STOOK_TOPOLOGY_H

#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

/*
 * Check now whether the machine, or the part of it that the process may use, has changed.
 *
 * That is CPUs and nodes that came or went, memory of a node, a cpuset, or affinities.  The library checks by
 * itself after every 1024th allocation on a CPU that finds the CPU's sheaf empty, with the next allocation
 * that may wait; malloc never does.  This call is for a program that knows of a change, that calls malloc
 * only, or that is about to sleep.  Sheaves of CPUs on which no thread may run any more are flushed, and
 * those of nodes where none may; the node that a CPU takes memory from follows the machine.
 *
 * returns: 0 and in *changes, unless changes is NULL, how many CPUs and nodes differ from before; or -1
 * errors:  EDEADLK  called by a handler that interrupted the library, or by a destructor that it runs
 * context: not in a signal handler; beside any other call
 * locks:   all, in turn
 * cost:    some files of sysfs, 0.2 us a thread of the process, and one membarrier a CPU that was left
 */
STOOK_API int stook_topology_update(unsigned *changes);

/*
 * Simulate the machine described by a string or a file.
 *
 * The text has statements, separated by spaces and new lines, in any order, e.g. "node:2 core:4
 * memory:0=16G"; "#" begins a comment.  A text that begins with no statement is the name of a file.
 *
 *   node:N core:N smt:N       N nodes with CPUs, cores a node, threads a core (1 where not given).  CPUs are
 *                             numbered as on most machines: the first threads of all cores, node by
 *                             node, then the second threads.
 *   cpus:NODE=LIST            further CPUs of a node, such as cpus:2=8-11,40; numbers may have gaps
 *   memory:NODES=SIZE         memory of each of these nodes, with K, M, G or T.  Nodes without CPUs may have
 *                             some.  Other nodes have none; without such a statement each node has 1G.
 *   distance:NODES=D          between each two of these nodes; * is all nodes
 *   distance:NODES/NODES=D    between each node of the first and each of the second list
 *
 * The size of memory is shown, not enforced.  A CPU takes memory from its own node if that has some, else
 * from the nearest that has.  If several statements name a pair, the last distance holds; the default is 20.
 * A node has the distance 10 to itself, and from a to b it is as far as from b to a.
 *
 * This call and those below are in the library of lib/stook/sim alone, which takes the place of libstook.so by -L
 * or LD_LIBRARY_PATH.  There the variable STOOK_TOPOLOGY of the environment does the same from the start; this call
 * replaces it.  A process with a simulated topology runs in locked mode.
 *
 * errors:  EINVAL   no such file, or the text is wrong: a message says where
 *          EBUSY    something was allocated or a cache was made already (where malloc is this library's,
 *                   that is before main)
 * context: no other thread may be in a call of the library
 * locks:   none
 * cost:    the library starts once more
 */
STOOK_API int stook_topology_set(const char *text_or_file);

/*
 * Put this thread on a CPU of the simulated topology.
 *
 * Threads that never call it are distributed over the CPUs in turn, with their first call that needs a CPU.
 *
 * returns: the CPU that the thread was on before, or -1
 * errors:  EINVAL   the topology has no such CPU, or it is offline
 *          ENOTSUP  the topology is not simulated
 * context: not in a signal handler
 * locks:   none
 */
STOOK_API int stook_topology_cpu(int cpu);

/*
 * Take a CPU, or a node's memory, of the simulated topology offline (online = 0) or online.
 *
 * All are online at the start.  The sheaves of a CPU that goes offline are flushed; threads that stated it
 * get another one with their next call.  On a node whose memory goes offline no new slabs are made; its empty
 * slabs and warm pages are given back, and objects that are in use stay where they are.  A node that was
 * simulated without memory can be given some.  Setting the current
 * state again is a no-op.
 *
 * errors:  EINVAL   the topology has no such CPU, or no such node
 *          EBUSY    it is the last CPU that is online, or the last memory
 *          ENOTSUP  the topology is not simulated
 *          EDEADLK  as stook_topology_update()
 * context: not in a signal handler; beside any other call
 * locks:   all, in turn
 */
STOOK_API int stook_topology_cpu_online(int cpu, int online);
STOOK_API int stook_topology_memory_online(int node, int online);

STOOK_C_END

#endif /* STOOK_TOPOLOGY_H */
