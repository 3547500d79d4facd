/* SPDX-License-Identifier: MIT */
/*
 * The contract test again over sections compiled with -O1, at which GCC 12.2 miscompiled the
 * values behind an asm goto with outputs (STOOK_SECTION_EDGE says how).
 */
#pragma GCC optimize("O1")
#define STOOK_SECTION_CLOBBERS "memory",
#include "sheaf/slot.c"
#include "unit/test_percpu.c"
