/* SPDX-License-Identifier: MIT */
/*
 * outside.c - large objects that are mappings of their own, and the atomic table of their addresses.
 */
#include "large/outside.h"

#include "base/lock.h"
#include "os/os.h"
#include "page/pagemap.h"

#include <errno.h>
#include <limits.h>

static _Atomic(_Atomic uintptr_t *) outside_table; /* OUTSIDE_MAX entries, with the first object */
static _Atomic uint32_t outside_high;              /* entries that were ever used */
static _Atomic uint32_t outside_used;              /* objects, and those on their way in */

static struct outside *outside_header(uintptr_t object)
{
    return (struct outside *)(object - sizeof(struct outside)); /* the page before is its alone */
}

/* Pairs with itself: of two threads that map the table one unmaps its own. */
static _Atomic uintptr_t *outside_entries(void)
{
    _Atomic uintptr_t *table = atomic_load_explicit(&outside_table, memory_order_acquire);
    _Atomic uintptr_t *none = NULL, *mapped;

    if (table)
        return table;
    mapped = os_map(OUTSIDE_MAX * sizeof(*table));
    if (mapped && !atomic_compare_exchange_strong_explicit(
                      &outside_table, &none, mapped, memory_order_acq_rel, memory_order_acquire)) {
        os_unmap((void *)mapped, OUTSIDE_MAX * sizeof(*table));
        return none;
    }
    return mapped;
}

/* Free entries are searched for from the number of objects on: where none was freed, that is the first. */
static bool outside_list(uintptr_t object, uint32_t used)
{
    _Atomic uintptr_t *table = outside_entries();

    for (uint32_t n = 0; table && n < OUTSIDE_MAX; n++) {
        uint32_t i = (used + n) % OUTSIDE_MAX;
        uint32_t high = atomic_load_explicit(&outside_high, memory_order_relaxed);
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(&table[i], &none, object, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        while (high <= i &&
               !atomic_compare_exchange_weak_explicit(&outside_high, &high, i + 1,
                                                      memory_order_release, memory_order_relaxed))
            ;
        return true;
    }
    return false;
}

static void outside_forget(void)
{
    atomic_fetch_sub_explicit(&outside_used, 1, memory_order_relaxed);
}

void *outside_alloc(size_t size, size_t align)
{
    size_t page = os_page_size(), bytes, mapped;
    uint32_t used;
    uintptr_t object;
    char *map;

    if (align < page)
        align = page;
    if (size == 0)
        size = 1;
    if (size > PTRDIFF_MAX - align - 2 * page || align > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    bytes = (size + page - 1) / page * page;
    mapped = bytes + align; /* a page for the header, and the object's first multiple behind it */
    map = os_map(mapped);
    if (!map)
        return NULL;
    used = atomic_fetch_add_explicit(&outside_used, 1, memory_order_relaxed);
    if (used >= OUTSIDE_MANY)
        lock_pause(UINT_MAX);
    object = ((uintptr_t)map + page + align - 1) & ~(uintptr_t)(align - 1);
    *outside_header(object) = (struct outside){.map = map, .mapped = mapped, .bytes = bytes};
    if (!outside_list(object, used)) {
        outside_forget();
        os_unmap(map, mapped);
        errno = ENOMEM;
        return NULL;
    }
    return (void *)object;
}

static _Atomic uintptr_t *outside_find(uintptr_t object)
{
    /* Acquire: the table. */
    uint32_t high = atomic_load_explicit(&outside_high, memory_order_acquire);
    _Atomic uintptr_t *table = atomic_load_explicit(&outside_table, memory_order_relaxed);

    if (object == 0 || object % PAGE_SIZE != 0)
        return NULL;
    for (uint32_t i = 0; i < high; i++)
        if (atomic_load_explicit(&table[i], memory_order_acquire) == object)
            return &table[i];
    return NULL;
}

struct outside *outside_of(const void *object)
{
    return outside_find((uintptr_t)object) ? outside_header((uintptr_t)object) : NULL;
}

size_t outside_free(void *object)
{
    uintptr_t listed = (uintptr_t)object;
    _Atomic uintptr_t *at = outside_find(listed);
    struct outside own;

    if (!at)
        return 0;
    own = *outside_header(listed);
    if (!atomic_compare_exchange_strong_explicit(at, &listed, 0, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return 0;
    outside_forget();
    os_unmap(own.map, own.mapped);
    return own.bytes;
}
