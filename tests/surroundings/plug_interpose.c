/* SPDX-License-Identifier: MIT */
/* link: none */
/* needs: preload glibc */
/* For LD_PRELOAD: a library that interposes functions of libc and allocates in them. */
#include "surroundings/interpose.h"
