/* SPDX-License-Identifier: MIT */
#include "base/hooks.h"

#include "base/init.h"
#include "base/mailbox.h"

struct once init_state;
struct hooks_set hooks_set;
_Atomic uint32_t mailbox_waiting;
