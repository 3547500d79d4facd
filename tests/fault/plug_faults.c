/* SPDX-License-Identifier: MIT */
/* link: static */
/* wrap: raw_call6 */
/*
 * A libstook.so whose system calls fail as STOOK_TEST_FAULT=AT,LENGTH says (support/faults.h).  Loaded before
 * libstook-malloc.so (LD_PRELOAD), it is the one that serves.
 */
#include "support/faults.h"
