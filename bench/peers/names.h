/* SPDX-License-Identifier: MIT */
/* How the allocators that are built from crates name their C functions: PEER(malloc) is the malloc() of the one that is compiled. */
#ifndef STOOK_BENCH_PEERS_NAMES_H
#define STOOK_BENCH_PEERS_NAMES_H

#if defined(PEER_snmalloc)
#define PEER(name) sn_##name
#define PEER_USABLE sn_malloc_usable_size
#elif defined(PEER_mimalloc23) || defined(PEER_mimalloc3)
#define PEER(name) mi_##name
#define PEER_USABLE mi_usable_size
#elif defined(PEER_jemalloc531)
#define PEER(name) _rjem_##name
#define PEER_USABLE _rjem_malloc_usable_size
#elif defined(PEER_rpmalloc)
#define PEER(name) rp##name
#define PEER_USABLE rpmalloc_usable_size
#elif defined(PEER_tcg)
#define PEER(name) TCG_##name
#define TCG_malloc TCMallocInternalMalloc
#define TCG_calloc TCMallocInternalCalloc
#define TCG_realloc TCMallocInternalRealloc
#define TCG_free TCMallocInternalFree
#define TCG_memalign TCMallocInternalMemalign
#define TCG_posix_memalign TCMallocInternalPosixMemalign
#define TCG_aligned_alloc TCMallocInternalAlignedAlloc
#define PEER_USABLE TCMallocInternalMallocSize
#elif defined(PEER_hardened)
#define PEER(name) name /* it is a malloc by these names, and needs no preload.c */
#else
#error "which allocator?"
#endif

#endif
