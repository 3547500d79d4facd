/* SPDX-License-Identifier: MIT */
/* needs: malloc */
/* link: malloc-static */
/* A module with libstook-malloc.a in it, for prog_close, which asks it for its malloc. */
#include <stdlib.h>

void *plug_first(void);

void *plug_first(void)
{
    return malloc(96);
}
