/* SPDX-License-Identifier: MIT */
/*
 * reader.h - which processes may look inside this one.
 */
#ifndef STOOK_VIEW_READER_H
#define STOOK_VIEW_READER_H

/* STOOK_VIEW: any process of the same user may, where Yama lets only a process's parents do so.  At the start, and in
 * a forked child, which does not inherit that. */
void reader_allow(void);

#endif
