/* SPDX-License-Identifier: MIT */
#include "base/hooks.h"

#include "base/init.h"

_Atomic uint32_t init_state;
struct hooks_set hooks_set;
