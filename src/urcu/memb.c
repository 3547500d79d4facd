/* SPDX-License-Identifier: MIT */
/* liburcu's default flavour: readers take rcu_read_lock(). */
#include <urcu/urcu-memb.h>

#define FLAVOUR(call) urcu_memb_##call
#include "urcu/flavour.def"

#include <stook/urcu.h>

int stook_urcu_use_memb(void)
{
    return flavour_use();
}
