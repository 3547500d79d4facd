/* SPDX-License-Identifier: MIT */
/*
 * kmem.h - the kernel's names for caches, bulk calls, prefilled sheaves, kmalloc, deferred frees and memory
 * pools: those of Linux 7.2, or of an older one.  With them, kernel code compiles in a program without changes.
 * docs/kernel-names.md has a table of all names and of the differences; docs/port-kernel-code.md is a guide.
 *
 * Everything here is an inline function or a macro: no symbol of these names exists in any library.  A struct
 * kmem_cache is a struct stook_cache, a struct slab_sheaf a struct stook_sheaf; kmem_stook_cache() converts
 * the pointer.  If a program includes stook/inline.h before this, kmem_cache_alloc() and kmem_cache_free()
 * are inlined down to the CPU's sheaf.
 *
 * On failure a call returns NULL or a negative errno, as in the kernel, and sets errno as well.
 *
 * A program that has some of these names itself leaves ours out, by a definition before the first of these headers:
 *
 *   STOOK_KMEM_LINUX        0x060100: the code is of Linux 6.1; the default is 0x070200
 *   STOOK_KMEM_GFP_TYPES    the name of its gfp_types.h, in quotes: gfp_t, its flags, gfpflags_allow_blocking(), …_spinning()
 *   STOOK_KMEM_NO_RCU       kfree_rcu() and its like
 *   STOOK_KMEM_NO_CLEANUP   __free() and what else <linux/cleanup.h> has
 *   STOOK_KMEM_NO_STRING    kmemdup(), kstrdup(), kasprintf() and their like
 *   STOOK_KMEM_NO_MEMPOOL   memory pools: of a program that compiles the kernel's mm/mempool.c
 *   STOOK_KMEM_NO_VMALLOC   vmalloc(), vfree() and their like
 *   STOOK_KMEM_NO_PAGES     alloc_pages(), __get_free_pages(), page_address() and pools of pages
 *   STOOK_KMEM_NO_ACCOUNT   SLAB_ACCOUNT and __GFP_ACCOUNT have no meaning then
 */
#ifndef STOOK_KMEM_H
#define STOOK_KMEM_H

#include <stook/kmem_cache.h>
#include <stook/kmem_gfp.h>
#include <stook/kmem_kmalloc.h>
#include <stook/kmem_obj.h>
#ifndef STOOK_KMEM_NO_STRING
#include <stook/kmem_string.h>
#endif
#ifndef STOOK_KMEM_NO_RCU
#include <stook/kmem_rcu.h>
#endif
#ifndef STOOK_KMEM_NO_VMALLOC
#include <stook/kmem_vmalloc.h>
#endif
#ifndef STOOK_KMEM_NO_PAGES
#include <stook/kmem_page.h>
#endif
#ifndef STOOK_KMEM_NO_MEMPOOL
#include <stook/kmem_pool.h>
#endif

#endif /* STOOK_KMEM_H */
