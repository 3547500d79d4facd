/* SPDX-License-Identifier: MIT */
/* liburcu's flavour of quiescent states: a thread that is online may be reading at any time. */
#include <urcu/urcu-qsbr.h>

#define FLAVOUR(call) urcu_qsbr_##call
#include "urcu/flavour.def"

#include <stook/urcu.h>

int stook_urcu_use_qsbr(void)
{
    return flavour_use();
}
