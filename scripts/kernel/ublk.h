/* SPDX-License-Identifier: MIT */
/*
 * ublk.h - a block device served by this process, and reads of it.
 */
#ifndef STOOK_KERNEL_UBLK_H
#define STOOK_KERNEL_UBLK_H

/*
 * So many reads, rounded down to bursts, by the first `pairs` odd CPUs, each completed by the even CPU
 * below it, or below the submitter `apart` pairs further; 0 or a negative errno; *done of them succeeded.
 * The device stays for the next run.
 */
int ublk_run(unsigned cpus, unsigned pairs, unsigned apart, unsigned long operations,
             unsigned long *done);

#endif
