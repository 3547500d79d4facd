/* SPDX-License-Identifier: MIT */
/*
 * element.h - an object's element in a column (slab/column.h): the group that is charged for it, or the call
 * site that allocated it.
 *
 * An element is a number from 1 on.  It is stored xor the cache's key and the object's address with its halves
 * exchanged.  When it is decoded, the upper half must be zeros, and depends on the object.  So bytes that an
 * overrun wrote, another object's element, or a pointer into an object give no number.  All zeros are
 * "none", and no number is stored so: bit 32 of the key is set, and an object's address is even.
 */
#ifndef STOOK_CHARGE_ELEMENT_H
#define STOOK_CHARGE_ELEMENT_H

#include "slab/column.h"

static inline uint64_t column_mask(const struct stook_cache *cache, const void *object)
{
    uint64_t address = (uintptr_t)object;

    return cache->account.key ^ (address << 32 | address >> 32);
}

#define COLUMN_KEY ((uint64_t)1 << 32) /* set in every cache's */

static inline uint64_t column_encode(const struct stook_cache *cache, const void *object,
                                     uint32_t number)
{
    return number ? number ^ column_mask(cache, object) : 0;
}

/* False: nothing, or no number that was ever stored there. */
static inline bool column_decode(const struct stook_cache *cache, const void *object,
                                 uint64_t stored, uint32_t *number)
{
    uint64_t value = stored ^ column_mask(cache, object);

    *number = (uint32_t)value;
    return value >> 32 == 0;
}

#endif
