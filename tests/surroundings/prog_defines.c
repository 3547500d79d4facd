/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/* needs: preload glibc */
/* prog_interpose with libstook-malloc.a inside, in a program that defines these functions itself. */
#include "surroundings/interpose.h"
#include "surroundings/prog_interpose.c"
