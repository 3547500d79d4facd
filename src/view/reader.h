/* SPDX-License-Identifier: MIT */
/*
 * reader.h - which processes may read the memory of this process.
 */
#ifndef STOOK_VIEW_READER_H
#define STOOK_VIEW_READER_H

/* With STOOK_VIEW any process of the same user may, even if Yama allows only a process's ancestors.  Called at the start,
 * and in each forked child, which does not inherit the permission. */
void reader_allow(void);

#endif
