/* SPDX-License-Identifier: MIT */
/*
 * group.h - accounting domains: limits, charges, and the stocks that make charging a matter of one
 * CPU.  What the public calls mean: <stook/group.h>.  What charges for which object, and where its
 * owner is written: account/account.h.
 *
 * A charge is taken from this CPU's stock of the group by one section; where the stock is too small,
 * a batch is charged to the group and all its ancestors, under one lock.  What is in stocks counts as
 * used, so a limit is never exceeded; before a charge is refused all stocks that count against the
 * limit come back.
 */
#ifndef STOOK_ACCOUNT_GROUP_H
#define STOOK_ACCOUNT_GROUP_H

#include <stook/group.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The group whose number an owner column holds; numbers are not used again while charges remain. */
uint32_t group_number(const struct stook_group *group);
struct stook_group *group_by_number(uint32_t number);

/*
 * The group this thread charges now: what it entered, 0 for none; groups that were destroyed
 * meanwhile count as their nearest living ancestor.
 */
uint32_t group_current(void);

/*
 * Charges bytes to a group and its ancestors.  `flags`: STOOK_WAIT, NOWAIT, NOSPIN of the caller;
 * `nested`: it interrupted the library.  False with errno EDQUOT at a limit, ENOMEM where a lock
 * would have had to be waited for.  Called outside the context and without locks: reclaim callbacks
 * run from here.
 */
bool group_charge(uint32_t number, size_t bytes, unsigned flags);
/* Cannot fail; any context, within the library's context too. */
void group_uncharge(uint32_t number, size_t bytes);

/* Once, when the first group is made; what a forked child has to mend. */
void group_child(void);

#endif
