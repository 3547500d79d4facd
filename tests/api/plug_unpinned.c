/* SPDX-License-Identifier: MIT */
/* The same module without what pins it: rule 7 of the per-CPU protocol broken. */
#define STOOK_INLINE_NO_PIN
#include "api/plug_inline.c"
