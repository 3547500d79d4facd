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
static inline STOOK_WARN_UNUSED struct page *alloc_pages_node(int node, gfp_t gfp, unsigned order)
{
    if (order > KMEM_PAGE_ORDER_MAX)
        return NULL;
    return (struct page *)kmalloc_node((size_t)1 << (KMEM_PAGE_SHIFT + order), gfp, node);
}

static inline STOOK_WARN_UNUSED struct page *alloc_pages(gfp_t gfp, unsigned order)
{
    return alloc_pages_node(NUMA_NO_NODE, gfp, order);
}

/* Single pages for the elements that are NULL, until one cannot be had: how many elements from the first on have one. */
static inline STOOK_WARN_UNUSED unsigned long alloc_pages_bulk_node(gfp_t gfp, int node,
                                                                    unsigned long n,
                                                                    struct page **pages)
{
    unsigned long i = 0;

    while (i < n && (pages[i] || (pages[i] = alloc_pages_node(node, gfp, 0)) != NULL))
        i++;
    return i;
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

/* By address, 0 for none. */
static inline STOOK_WARN_UNUSED unsigned long __get_free_pages(gfp_t gfp, unsigned order)
{
    return (unsigned long)page_address(alloc_pages(gfp, order));
}

static inline void free_pages(unsigned long address, unsigned order)
{
    __free_pages(virt_to_page((const void *)address), order);
}

/* Of a size that is no power of two. */
static inline STOOK_MALLOC(1) void *alloc_pages_exact(size_t size, gfp_t gfp)
{
    return kvmalloc_node_align(size, (size_t)1 << KMEM_PAGE_SHIFT, gfp, NUMA_NO_NODE);
}

#define alloc_page(gfp) alloc_pages(gfp, 0)
#define __free_page(page) __free_pages(page, 0)
#define __get_free_page(gfp) __get_free_pages(gfp, 0)
#define get_zeroed_page(gfp) __get_free_pages((gfp) | __GFP_ZERO, 0)
#define free_page(address) free_pages(address, 0)
#define free_pages_exact(address, size) ((void)(size), kfree(address))
#define alloc_pages_bulk(gfp, n, pages) alloc_pages_bulk_node(gfp, NUMA_NO_NODE, n, pages)
#define alloc_pages_bulk_array alloc_pages_bulk /* before Linux 6.14 */
#define alloc_pages_noprof alloc_pages
#define alloc_pages_node_noprof alloc_pages_node
#define alloc_pages_bulk_node_noprof alloc_pages_bulk_node
#define alloc_pages_exact_noprof alloc_pages_exact
#define get_free_pages_noprof __get_free_pages
#define get_zeroed_page_noprof get_zeroed_page

STOOK_C_END

#endif /* STOOK_KMEM_PAGE_H */
