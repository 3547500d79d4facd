/* SPDX-License-Identifier: MIT */
#include <stook/kmem.h>
