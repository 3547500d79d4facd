/* SPDX-License-Identifier: MIT */
#include "base/context.h"
#include "cache/init.h"
#include "cache/reclaim.h"
#include "sheaf/slot.h"

#include <errno.h>
#include <string.h>

/* Everything but "the main sheaf holds an object". */
static __attribute__((noinline, cold)) void *alloc_slow(struct stook_cache *cache, unsigned flags)
{
    int saved = errno;
    void *object = NULL;
    bool nested;

    if ((flags & ~(STOOK_NOWAIT | STOOK_NOSPIN | STOOK_ZERO)) ||
        ((flags & STOOK_ZERO) && cache->ctor)) {
        errno = EINVAL;
        return NULL;
    }
    nested = context_enter();
    slot_alloc(cache, &object, 1, nested || (flags & STOOK_NOSPIN));
    context_leave();
    if (__builtin_expect(!object, 0) && reclaim_may(flags, nested) &&
        reclaim_alloc(cache, &object, 1) == 1)
        errno = saved;
    if (object && (flags & STOOK_ZERO))
        memset(object, 0, cache->object_size);
    return object;
}

/* Aligned, as stook_free(): two lines of code each, not three. */
__attribute__((aligned(64))) void *stook_alloc(struct stook_cache *cache, unsigned flags)
{
#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
    void *object;

    if (__builtin_expect((flags & ~(STOOK_NOWAIT | STOOK_NOSPIN)) == 0, 1) &&
        __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, &object), 1))
        return object;
#endif
    return alloc_slow(cache, flags);
}
