/* SPDX-License-Identifier: MIT */
/*
 * profile_fold.c - wrappers of malloc, and the standard libraries of C++ and Rust, are no call sites that say anything: their
 * allocations are their callers'.  Inlined ones are frames of a site; of others the stack must be known, as it is in profiles of
 * samples.
 */
#include "stook/profile/profile.h"

#include <fnmatch.h>
#include <string.h>

/* Patterns of the shell, between commas. */
static const char fold_known[] =
    "malloc,calloc,realloc,reallocarray,aligned_alloc,posix_memalign,memalign,strdup,strndup,"
    "operator new*,std::*,void std::*,__gnu_cxx::*,__rust_alloc*,__rust_realloc,__rdl_*,__rg_*,"
    "alloc::*,core::*,<alloc::*,<core::*,<std::*,"
    "zmalloc*,zcalloc*,zrealloc*,ztrymalloc*,ztrycalloc*,ztryrealloc*,zstrdup,"
    "g_malloc*,g_realloc*,g_try_malloc*,g_try_realloc*,g_slice_alloc*,g_strdup,g_strndup,"
    "xmalloc*,xcalloc*,xrealloc*,xstrdup*,x2realloc,xmemdup*,emalloc*,ecalloc*,safe_malloc*,"
    "palloc*,MemoryContextAlloc*,PyMem_*,PyObject_Malloc,PyObject_Calloc,PyObject_Realloc,_PyMem_*,"
    "_PyObject_Malloc,CRYPTO_malloc,CRYPTO_zalloc,sqlite3Malloc*,sqlite3MemMalloc,sqlite3DbMalloc*";

static bool fold_lists(const char *list, const char *function)
{
    char pattern[128];
    size_t n;

    for (; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n >= sizeof(pattern))
            continue;
        memcpy(pattern, list, n);
        pattern[n] = '\0';
        if (fnmatch(pattern, function, 0) == 0)
            return true;
    }
    return false;
}

static bool fold_frame(const struct profile_frame *frame, const char *more)
{
    return frame->function &&
           (fold_lists(fold_known, frame->function) || fold_lists(more, frame->function));
}

size_t profile_wraps(const struct profile_site *place, const char *more)
{
    size_t n = 0;

    while (n < place->nr_frames && fold_frame(&place->frames[n], more))
        n++;
    return n;
}

/* Wrappers that were inlined into what is left; whether what is left is a wrapper, too. */
static bool fold_place(struct profile_site *place, const char *more)
{
    size_t n = profile_wraps(place, more);
    bool all = n > 0 && n == place->nr_frames;

    n -= all; /* the outermost one stays: it says most */
    place->nr_frames -= n;
    memmove(place->frames, place->frames + n, place->nr_frames * sizeof(place->frames[0]));
    return all;
}

void profile_fold(struct profile *profile, const char *more)
{
    for (size_t i = 0; i < profile->nr_sites; i++)
        (void)fold_place(&profile->sites[i], more);
    for (size_t i = 0; i < profile->nr_places; i++)
        profile->places[i].wraps = fold_place(&profile->places[i], more);
    for (size_t i = 0; i < profile->nr_stacks; i++) {
        struct profile_stack *stack = &profile->stacks[i];
        struct profile_site *site = &profile->sites[stack->site];
        struct profile_counts counts = site->counts;
        size_t n = 0;
        while (n < stack->depth && profile->places[stack->places[n]].wraps)
            n++;
        if (n == 0 || n == stack->depth)
            continue;
        stack->depth -= n;
        memmove(stack->places, stack->places + n, stack->depth * sizeof(stack->places[0]));
        *site = profile->places[stack->places[0]];
        site->counts = counts;
    }
}
