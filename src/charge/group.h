/* SPDX-License-Identifier: MIT */
/*
 * group.h - accounting domains: limits, charges, and the stocks that make charging a matter of one
 * CPU.  <stook/group.h> describes the public calls.  charge/account.h charges objects, and writes their owners.
 *
 * One section takes a charge from this CPU's stock of the group (charge/group_stock.h).  If the stock is too
 * small, a batch is charged to the group and all its ancestors, under one lock.  Bytes in stocks count as
 * charged, so a limit is never exceeded.  Before a charge is refused, all stocks that count against the limit
 * are drained.
 */
#ifndef STOOK_CHARGE_GROUP_H
#define STOOK_CHARGE_GROUP_H

#include <stook/group.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The number of a group, the only member of its handle: a place in the table (12 bits) and how often the place
 * was used before (20 bits).  So the library detects a number that is out of date.  An owner column holds all
 * 32 bits.  A number is not used again while charges to it remain.  0: no group, or a destroyed one.
 */
uint32_t group_number(struct stook_group group);
/* NULL and STOOK_NO_GROUP if it was destroyed. */
const char *group_name_of(struct stook_group group);
struct stook_group group_parent_of(struct stook_group group);
/* The owner of an object, for the public calls: the group or its nearest living ancestor, or NULL. */
struct stook_group group_by_number(uint32_t number);

/*
 * The group that this thread entered, 0 for none.  It may have been destroyed since: group_charge() checks.
 */
uint32_t group_current(void);

/*
 * Charges bytes (above 0) to a group and its ancestors.  *number is 0, group_current() or group_number() of a
 * group.  Afterwards it is the group that was charged, which the caller records and uncharges later: for a
 * destroyed group its nearest living ancestor.  If it is 0, nothing was charged.  `flags`: STOOK_WAIT,
 * NORECLAIM, SIGNAL_SAFE of the caller; others are ignored.  `nested`: the caller interrupted the library.
 * False with errno EDQUOT at a limit, ENOMEM if the thread would have to wait for a lock.  Called outside the
 * context and without locks: callbacks of groups run from here.  errno is kept on success.
 */
bool group_charge(uint32_t *number, size_t bytes, unsigned flags, bool nested);

/* Returns a charge, at once or in pieces; number 0 is accepted.  Cannot fail.  Any context, also within the
 * library's context and with its locks held.  errno is kept. */
void group_uncharge(uint32_t number, size_t bytes);

/* fork(): the lock is the last in the order, so taken last and dropped first; the child makes it
 * anew.  Before the first group these do next to nothing. */
void group_fork_take(void);
void group_unlock(void);
void group_child(void);

#endif
