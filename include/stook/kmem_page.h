/* SPDX-License-Identifier: MIT */
/*
 * kmem_page.h - stook/kmem.h's pages: 2^order of 4 KiB, in kmalloc()'s memory.  A program has no memory map, so a
 * struct page * is the address of the pages, and page_address() returns it.  The pages are aligned to their size up to
 * 2 MiB; Linux aligns those of order 10 to 4 MiB.
 *
 * STOOK_KMEM_NO_PAGES leaves this out, and memory pools of pages, for programs with a struct page of their own.
 */
#ifndef STOOK_KMEM_PAGE_H
#define STOOK_KMEM_PAGE_H

#include <stook/kmem_kmalloc.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

#define KMEM_PAGE_SHIFT 12
#define KMEM_PAGE_ORDER_MAX 10

struct page;

/* NULL beyond order 10, as in the kernel. */
static inline struct page *alloc_pages(gfp_t gfp, unsigned order)
{
    return order > KMEM_PAGE_ORDER_MAX
               ? NULL
               : (struct page *)kmalloc((size_t)1 << (KMEM_PAGE_SHIFT + order), gfp);
}

static inline void __free_pages(struct page *pages, unsigned order)
{
    (void)order;
    kfree(pages);
}

static inline void *page_address(const struct page *pages)
{
    return (void *)(uintptr_t)pages;
}

/* Of the address that page_address() gave. */
static inline struct page *virt_to_page(const void *address)
{
    return (struct page *)(uintptr_t)address;
}

#define alloc_page(gfp) alloc_pages(gfp, 0)
#define __free_page(page) __free_pages(page, 0)
#define alloc_pages_noprof alloc_pages

STOOK_C_END

#endif /* STOOK_KMEM_PAGE_H */
