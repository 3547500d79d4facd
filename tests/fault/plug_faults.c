/* SPDX-License-Identifier: MIT */
/*
 * Loaded before libstook-malloc.so (LD_PRELOAD), it lets the library's system calls fail in a program as
 * STOOK_TEST_FAULT=AT,LENGTH says, and no others.  The first one that fails makes the file
 * STOOK_TEST_FAULT_FILE.
 */
#define FAULTS_OF_LIBRARY "/libstook"
#include "support/faults.h"
