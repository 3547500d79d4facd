/* SPDX-License-Identifier: MIT */
/*
 * kmem_gfp.h - gfp_t, the flags of an allocation, with the bits of Linux 7.2 (built without lockdep and KASAN's
 * hardware tags).  Bits that mean nothing here are ignored, so code may keep flags of its own in a gfp_t: at and above
 * __GFP_BITS_SHIFT, and in GFP_ZONEMASK.
 *
 * A program with its own gfp_types.h, the one of the kernel that the code is of, includes it before this header, or
 * defines STOOK_KMEM_GFP_TYPES as its name: '-DSTOOK_KMEM_GFP_TYPES="linux/gfp_types.h"' (with quotes: gcc knows a
 * macro linux).  This header then takes those values.  It defines no flag, no gfp_t, which that file or one before it
 * has, and neither gfpflags_allow_blocking() nor gfpflags_allow_spinning().  The flags are macros, and at least the six
 * that are asked for below.
 */
#ifndef STOOK_KMEM_GFP_H
#define STOOK_KMEM_GFP_H

#include <stook/group.h>
#include <stook/stook.h>

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* The Linux whose code this is for, as LINUX_VERSION_CODE: some functions have changed. */
#ifndef STOOK_KMEM_LINUX
#define STOOK_KMEM_LINUX 0x070200
#endif

#ifdef STOOK_KMEM_GFP_TYPES
#include STOOK_KMEM_GFP_TYPES
#ifndef GFP_KERNEL
#error "the header that STOOK_KMEM_GFP_TYPES names does not define GFP_KERNEL"
#endif
#endif

STOOK_C_BEGIN

#ifndef GFP_KERNEL

typedef unsigned gfp_t;

/* The zones: no meaning here. */
#define __GFP_DMA 0x1u
#define __GFP_HIGHMEM 0x2u
#define __GFP_DMA32 0x4u
#define __GFP_MOVABLE 0x8u
#define GFP_ZONEMASK (__GFP_DMA | __GFP_HIGHMEM | __GFP_DMA32 | __GFP_MOVABLE)

/* Those with a meaning here. */
#define __GFP_IO 0x40u    /* reclaim callbacks run only with all of DIRECT_RECLAIM, … */
#define __GFP_FS 0x80u    /* … IO and FS: they cannot tell which locks the caller holds */
#define __GFP_ZERO 0x100u /* STOOK_ZERO */
#define __GFP_DIRECT_RECLAIM 0x400u /* may wait: for pools, for memory that must be had */
#define __GFP_KSWAPD_RECLAIM 0x800u /* may take locks; with neither of the two STOOK_SIGNAL_SAFE */
#define __GFP_NOFAIL 0x8000u        /* with DIRECT_RECLAIM: naps and tries until there is memory */
#define __GFP_THISNODE 0x200000u    /* STOOK_THISNODE, where a node is named */
#define __GFP_ACCOUNT 0x400000u     /* kmalloc's objects are charged to the thread's group */

/* Those without: accepted everywhere.  A failed allocation prints nothing, with __GFP_NOWARN or without. */
#define __GFP_RECLAIMABLE 0x10u
#define __GFP_HIGH 0x20u
#define __GFP_WRITE 0x1000u
#define __GFP_NOWARN 0x2000u
#define __GFP_RETRY_MAYFAIL 0x4000u
#define __GFP_NORETRY 0x10000u
#define __GFP_MEMALLOC 0x20000u
#define __GFP_COMP 0x40000u
#define __GFP_NOMEMALLOC 0x80000u
#define __GFP_HARDWALL 0x100000u
#define __GFP_ZEROTAGS 0x800000u
#define __GFP_NO_OBJ_EXT 0x1000000u
#define __GFP_SKIP_ZERO 0u
#define __GFP_SKIP_KASAN 0u
#define __GFP_NOLOCKDEP 0u

#define __GFP_BITS_SHIFT 25
#define __GFP_BITS_MASK ((1u << __GFP_BITS_SHIFT) - 1)

#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS) /* STOOK_WAIT */
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)              /* STOOK_NORECLAIM; pools wait */
#define GFP_NOIO __GFP_RECLAIM                           /* STOOK_NORECLAIM; pools wait */
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN) /* STOOK_NORECLAIM */
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)   /* STOOK_NORECLAIM */
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_USER (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER (GFP_USER | __GFP_HIGHMEM)
#define GFP_HIGHUSER_MOVABLE (GFP_HIGHUSER | __GFP_MOVABLE | __GFP_SKIP_KASAN)
#define GFP_DMA __GFP_DMA
#define GFP_DMA32 __GFP_DMA32
#define GFP_TRANSHUGE_LIGHT                                                                        \
    ((GFP_HIGHUSER_MOVABLE | __GFP_COMP | __GFP_NOMEMALLOC | __GFP_NOWARN) & ~__GFP_RECLAIM)
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | __GFP_DIRECT_RECLAIM)

static inline bool gfpflags_allow_blocking(const gfp_t gfp)
{
    return (gfp & __GFP_DIRECT_RECLAIM) != 0;
}

static inline bool gfpflags_allow_spinning(const gfp_t gfp)
{
    return (gfp & __GFP_RECLAIM) != 0;
}

#elif !defined(__GFP_IO) || !defined(__GFP_FS) || !defined(__GFP_ZERO) ||                          \
    !defined(__GFP_DIRECT_RECLAIM) || !defined(__GFP_KSWAPD_RECLAIM) || !defined(__GFP_NOFAIL)
#error                                                                                             \
    "stook/kmem_gfp.h: GFP_KERNEL is defined, but not __GFP_IO, _FS, _ZERO, _DIRECT_RECLAIM, _KSWAPD_RECLAIM, _NOFAIL"
#endif

/* What a program's own gfp_types.h may lack: older kernels had fewer. */
#ifdef __GFP_THISNODE
#define KMEM_GFP_THISNODE __GFP_THISNODE
#else
#define KMEM_GFP_THISNODE 0u
#endif
#if defined(__GFP_ACCOUNT) && !defined(STOOK_KMEM_NO_ACCOUNT)
#define KMEM_GFP_ACCOUNT __GFP_ACCOUNT
#else
#define KMEM_GFP_ACCOUNT 0u
#endif
#if defined(__GFP_NOWARN) && defined(__GFP_NORETRY) && defined(__GFP_NOMEMALLOC)
#define KMEM_GFP_MODEST (__GFP_NOWARN | __GFP_NORETRY | __GFP_NOMEMALLOC)
#else
#define KMEM_GFP_MODEST 0u
#endif

/* STOOK_* of a gfp_t.  All of this folds where it is a constant. */
static inline unsigned kmem_stook_flags(gfp_t gfp)
{
    const gfp_t all = __GFP_DIRECT_RECLAIM | __GFP_IO | __GFP_FS;
    const gfp_t locks = __GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM;
    unsigned zero = gfp & __GFP_ZERO ? STOOK_ZERO : 0;

    if ((gfp & all) == all)
        return zero | STOOK_WAIT;
    return zero | (gfp & locks ? STOOK_NORECLAIM : STOOK_SIGNAL_SAFE);
}

static inline unsigned kmem_stook_node_flags(gfp_t gfp)
{
    return gfp & KMEM_GFP_THISNODE ? STOOK_THISNODE : 0;
}

/* __GFP_NOFAIL, of a caller that may wait. */
static inline bool kmem_stook_must(gfp_t gfp)
{
    return (gfp & __GFP_NOFAIL) && (gfp & __GFP_DIRECT_RECLAIM);
}

/* Sleeps before try number `tries` (1, 2, ...) of a call that must not fail: 2 to 64 ms, or until a signal comes. */
static inline void kmem_stook_nap(unsigned tries)
{
    int saved = errno;

    (void)poll(NULL, 0, 1 << (tries < 6 ? tries : 6));
    errno = saved;
}

/* The tries of a call that must not fail; of zeros at the start. */
struct kmem_tries {
    unsigned naps;
    bool outside; /* of the thread's group, which was */
    struct stook_group group;
};
#define KMEM_TRIES                                                                                 \
    {                                                                                              \
        0, false,                                                                                  \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/*
 * Whether a call that failed is to be made once more: it must not fail, and memory was missing, or room in a group.
 * In the second case it is made outside of all groups: the kernel, too, goes beyond a limit then.
 * kmem_stook_done() follows.
 */
static inline bool kmem_stook_again(gfp_t gfp, struct kmem_tries *tries)
{
    if (!kmem_stook_must(gfp))
        return false;
    if (errno == EDQUOT && !tries->outside) {
        tries->group = stook_group_enter(STOOK_NO_GROUP);
        tries->outside = true;
        return true;
    }
    if (errno != ENOMEM)
        return false;
    kmem_stook_nap(++tries->naps);
    return true;
}

static inline void kmem_stook_done(const struct kmem_tries *tries)
{
    if (tries->outside)
        stook_group_leave(tries->group);
}

STOOK_C_END

#endif /* STOOK_KMEM_GFP_H */
