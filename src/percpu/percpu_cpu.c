/* SPDX-License-Identifier: MIT */
/*
 * percpu_cpu.c - the CPU of a thread in locked mode: the machine's.  The composition with simulated machines has
 * sim/sim.c instead.
 */
#include "percpu/percpu.h"

int percpu_cpu_asked(void)
{
    return registration_machine_cpu();
}
