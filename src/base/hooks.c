/* SPDX-License-Identifier: MIT */
#include "base/hooks.h"

#include "base/init.h"

struct once init_state;
struct hooks_set hooks_set;
