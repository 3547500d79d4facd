/* SPDX-License-Identifier: MIT */
/* The interpreter of calls on a simulated machine: gaps in the numbers, a node without CPUs, one without memory. */
#include "fuzz_ops.h"

FUZZ_SETTINGS({"STOOK_TOPOLOGY",
               "cpus:0=0-1 cpus:1=2 cpus:4=4-6 memory:0=1G memory:3=1G memory:4=2G "
               "distance:0/3=12 distance:1/4=17 distance:0/1=21 distance:3/4=31"})
