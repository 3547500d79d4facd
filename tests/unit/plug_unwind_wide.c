/* SPDX-License-Identifier: MIT */
/* link: none */
#define PLUG_BYTES 0x800
#include "plug_unwind_narrow.c"
