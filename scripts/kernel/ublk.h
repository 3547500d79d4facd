/* SPDX-License-Identifier: MIT */
/*
 * ublk.h - a block device served by this process, and reads of it.
 */
#ifndef STOOK_KERNEL_UBLK_H
#define STOOK_KERNEL_UBLK_H

/* So many reads, rounded down to bursts, by the first `pairs` odd CPUs; 0 or a negative errno; *done of them succeeded. */
int ublk_run(unsigned cpus, unsigned pairs, unsigned long operations, unsigned long *done);

#endif
