/* SPDX-License-Identifier: MIT */
/*
 * flags.c - reads STOOK_DEBUG and gives each cache its debug flags; stook_cache_debug_set() switches T and A later.
 */
#include "debug/flags.h"

#include "base/parse.h"
#include "base/placed.h"
#include "base/settings.h"
#include "cache/pin.h"
#include "debug/tools.h"

#include <stook/debug.h>

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* In the order of PARSE_LETTERS.  The kernel's O keeps debugging from making slabs larger.  Here it changes nothing,
 * since the data about objects lie outside the slabs. */
static const uint32_t debug_letters[] = {DEBUG_F, DEBUG_Z, DEBUG_P, DEBUG_U, DEBUG_T, DEBUG_A, 0};
_Static_assert(sizeof(debug_letters) / sizeof(debug_letters[0]) == sizeof(PARSE_LETTERS) - 1,
               "a flag a letter");

/* STOOK_DEBUG, which the program may overwrite in its environment.  Written once, before the first cache. */
static char debug_text[PARSE_LETTERS_MAX + 1] LARGE_BSS;
static bool debug_is_set;
bool debug_flags_large;
static bool debug_large_users;

/* The flags of a name: of the first block that names it, else of the last one for all. */
static uint32_t debug_flags_set(const char *name)
{
    const char *text = debug_text;
    struct parse_block block;
    unsigned letters = 0;
    uint32_t flags = 0;

    while (parse_block(&text, &block)) {
        if (block.length == 0)
            letters = block.letters;
        else if (name && parse_block_names(&block, name)) {
            letters = block.letters;
            break;
        }
    }
    for (unsigned i = 0; i < sizeof(debug_letters) / sizeof(debug_letters[0]); i++)
        if (letters & 1u << i)
            flags |= debug_letters[i];
    return flags;
}

FIRST_TEXT void debug_flags_start(void)
{
    const char *text = setting_text(SETTING_DEBUG);
    uint32_t large;

    tools_start();
    if (text) {
        debug_is_set = true;
        memcpy(debug_text, text, strnlen(text, PARSE_LETTERS_MAX));
    }
    large = debug_flags_of("large", 0);
    debug_flags_large = large & DEBUG_Z;
    debug_large_users = large & DEBUG_U;
}

FIRST_TEXT bool debug_flags_large_users(void)
{
    return debug_large_users;
}

FIRST_TEXT uint32_t debug_flags_of(const char *name, uint32_t asked)
{
    uint32_t set = debug_is_set ? debug_flags_set(name) : 0;

    asked &= DEBUG_FLAGS;
    /* STOOK_DEBUG=- keeps tools from it. */
    if (tools_watch && (!debug_is_set || set != 0))
        set |= DEBUG_F | DEBUG_Z | (tools_watch & TOOLS_ASAN ? DEBUG_U : 0);
    return asked | set;
}

bool debug_flags_everywhere(void)
{
    return debug_is_set && debug_flags_set(NULL) != 0;
}

int stook_cache_debug_set(struct stook_cache *cache, unsigned flags, int on)
{
    uint32_t was = atomic_load_explicit(&cache->switched, memory_order_relaxed), wanted;

    if ((flags & ~(unsigned)DEBUG_SWITCHED) != 0 || !pin_alive(cache)) {
        errno = EINVAL;
        return -1;
    }
    if (!(cache->flags & DEBUG_FLAGS)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    do {
        uint32_t differs = on ? ~cache->flags : cache->flags;
        wanted = (was & ~flags) | (flags & differs);
    } while (!atomic_compare_exchange_weak_explicit(&cache->switched, &was, wanted,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}
