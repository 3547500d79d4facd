/* SPDX-License-Identifier: MIT */
/*
 * group.h - accounting domains: limits, charges, and the stocks that make charging a matter of one
 * CPU.  What the public calls mean: <stook/group.h>.  What charges for which object, and where its
 * owner is written: charge/account.h.
 *
 * A charge is taken from this CPU's stock of the group by one section (charge/group_stock.h); where
 * the stock is too small, a batch is charged to the group and all its ancestors, under one lock.
 * What is in stocks counts as charged, so a limit is never exceeded; before a charge is refused all
 * stocks that count against the limit come back.
 */
#ifndef STOOK_CHARGE_GROUP_H
#define STOOK_CHARGE_GROUP_H

#include <stook/group.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The number of a group, which is all that there is to its handle: a place in the table (12 bits)
 * and how often it was used before (20 bits), so that a number that is out of date is known as such.
 * An owner column holds all 32 bits.  A number is not used again while charges to it remain.
 * 0: no group; group_number() says so of a destroyed one too.
 */
uint32_t group_number(struct stook_group group);
/* For who asks whose an object is: the nearest ancestor that lives, or NULL. */
struct stook_group group_by_number(uint32_t number);

/*
 * What this thread entered, 0 for none.  It may have been destroyed since: group_charge() sees to it.
 */
uint32_t group_current(void);

/*
 * Charges bytes (above 0) to a group and its ancestors.  *number is 0, group_current() or
 * group_number() of a group, and afterwards the group that was charged, which is the one to write
 * down and to uncharge: the nearest ancestor that lives of one that was destroyed, or 0, and nothing
 * was charged.  `flags`: STOOK_WAIT, NORECLAIM, SIGNAL_SAFE of the caller, others are not looked at;
 * `nested`: it interrupted the library.  False with errno EDQUOT at a limit, ENOMEM where a lock
 * would have had to be waited for.  Called outside the context and without locks: callbacks of
 * groups run from here.  errno is kept on success.
 */
bool group_charge(uint32_t *number, size_t bytes, unsigned flags, bool nested);

/* Gives back what was charged, at once or in pieces; number 0 is accepted.  Cannot fail; any context,
 * within the library's context and with its locks held too.  errno is kept. */
void group_uncharge(uint32_t number, size_t bytes);

/* fork(): the lock is the last in the order, so taken last and dropped first; the child makes it
 * anew.  Before the first group these do next to nothing. */
void group_fork_take(void);
void group_fork_drop(void);
void group_child(void);

#endif
