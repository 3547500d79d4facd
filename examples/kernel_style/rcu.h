/* SPDX-License-Identifier: MIT */
#ifndef KERNEL_STYLE_RCU_H
#define KERNEL_STYLE_RCU_H

/* Starts the small RCU and tells Stook of it; 0 or -1.  The end waits for what was called. */
int rcu_start(void);
void rcu_end(void);

#endif
