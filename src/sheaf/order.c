/* SPDX-License-Identifier: MIT */
/*
 * order.c - sorts a sheaf's objects by address, with a bitmap for each of their pages.
 */
#include "sheaf/order.h"

#include "page/pagemap.h"

#include <string.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#else
enum { __libc_single_threaded = 0 };
#endif

enum {
    ORDER_PAGES = 32,  /* pages whose objects are put in order together */
    ORDER_WORDS = 4,   /* of bits a page has: one for each 16 bytes */
    ORDER_BIT = 16,    /* bytes */
    ORDER_WORTH = 16,  /* objects a page, in the mean; of fewer the order does not matter */
    ORDER_FIRST = 32,  /* steps from object to object that are looked at first: … */
    ORDER_GLANCE = 8,  /* … fewer, if all of these are to a neighbour; … */
    ORDER_JUMPS = 6,   /* … at least so many are not to a neighbour … */
    ORDER_CROSSED = 8, /* … and at most so many to another page */
};

struct order {
    uintptr_t page[ORDER_PAGES];
    uint64_t bits[ORDER_PAGES][ORDER_WORDS];
    uint32_t pages;
};

/* Whether the sheaf is out of order, but not scattered, as far as ORDER_FIRST steps show. */
static bool order_is_lost(void *const *objects, uint32_t n, uintptr_t stride)
{
    uint32_t jumps = 0, crossed = 0;

    if (n <= ORDER_FIRST)
        return false;
    objects += (n - ORDER_FIRST) / 2;
    for (uint32_t i = 1; i <= ORDER_FIRST && crossed <= ORDER_CROSSED; i++) {
        uintptr_t from = (uintptr_t)objects[i - 1], to = (uintptr_t)objects[i];
        jumps += (to - from != stride) & (from - to != stride);
        crossed += (from ^ to) >= PAGE_SIZE;
        if (i == ORDER_GLANCE && jumps == 0)
            return false;
    }
    return jumps >= ORDER_JUMPS && crossed <= ORDER_CROSSED;
}

/* The page's place; it is new if it was none.  -1: there is no room for one more. */
static int order_find(struct order *order, uintptr_t page, uint32_t most)
{
    for (uint32_t at = order->pages; at > 0; at--)
        if (order->page[at - 1] == page)
            return (int)at - 1;
    if (order->pages == most)
        return -1;
    order->page[order->pages] = page;
    memset(order->bits[order->pages], 0, sizeof(order->bits[0]));
    return (int)order->pages++;
}

/*
 * Marks the objects of at most so many pages; how many these are.  0: one of them came twice or is
 * none, which the slabs will tell.
 */
static uint32_t order_mark(struct order *order, void *const *objects, uint32_t n, uint32_t most)
{
    uintptr_t page = 1;
    uint64_t *bits = NULL;
    uint32_t i;

    order->pages = 0;
    for (i = 0; i < n; i++) {
        uintptr_t object = (uintptr_t)objects[i], bit = object % PAGE_SIZE / ORDER_BIT;
        if (object - page >= PAGE_SIZE) {
            int at = order_find(order, object & -(uintptr_t)PAGE_SIZE, most);
            if (at < 0)
                break;
            page = order->page[at];
            bits = order->bits[at];
        }
        if (__builtin_expect((object % ORDER_BIT != 0) | ((bits[bit / 64] >> bit % 64 & 1) != 0),
                             0))
            return 0;
        bits[bit / 64] |= (uint64_t)1 << bit % 64;
    }
    return i;
}

/* Back into the array, up or down, as most of the sheaf goes. */
static void order_emit(const struct order *order, void **objects)
{
    bool down = order->page[order->pages - 1] < order->page[0];

    for (uint32_t i = 0; i < order->pages; i++) {
        for (uint32_t k = 0; k < ORDER_WORDS; k++) {
            uint32_t word = down ? ORDER_WORDS - 1 - k : k;
            char *base = (char *)order->page[i] + (size_t)word * 64 * ORDER_BIT;
            for (uint64_t bits = order->bits[i][word]; bits != 0;) {
                unsigned bit =
                    (unsigned)(down ? 63 - __builtin_clzll(bits) : __builtin_ctzll(bits));
                bits &= ~((uint64_t)1 << bit);
                *objects++ = base + (size_t)bit * ORDER_BIT;
            }
        }
    }
}

void order_restore(const struct stook_cache *cache, struct sheaf *sheaf)
{
    uint32_t n = sheaf->size, most = n / ORDER_WORTH + 1, done, k;
    struct order order;

    if (!__libc_single_threaded || !(cache->flags & CACHE_MALLOC) || cache->permutation ||
        !order_is_lost(sheaf->object, n, cache->layout.stride))
        return;
    if (most > ORDER_PAGES)
        most = ORDER_PAGES;
    for (done = 0; done < n; done += k) {
        k = order_mark(&order, sheaf->object + done, n - done, most);
        if (k < ORDER_WORTH * (order.pages - 1) || k == 0)
            return;
        order_emit(&order, sheaf->object + done);
    }
}
