/* SPDX-License-Identifier: MIT */
/*
 * tag_stack.c - which callers a site is called for: every so many bytes that a thread allocates, an
 * object gets the tag of its whole call stack instead of its site's.
 *
 * It is counted off like any other when it is freed, so a stack has what lives of the objects that were
 * sampled with it; the sites' sums stay exact, each over its own tag and those of its stacks.
 */
#include "site/tag.h"
#include "base/placed.h"
#include "base/settings.h"
#include "site/stack.h"

enum { TAG_STACK_DEPTH = 48 };

uint64_t tag_stack_every;

static __thread int64_t tag_stack_left __attribute__((tls_model("initial-exec")));
static __thread bool tag_stack_busy __attribute__((tls_model("initial-exec")));
static __thread uint64_t tag_stack_seed __attribute__((tls_model("initial-exec")));

/* A half to one and a half times the distance, so that no pattern of a program falls in step. */
static int64_t tag_stack_next(uint64_t every)
{
    uint64_t z = tag_stack_seed += 0x9e3779b97f4a7c15u ^ (uintptr_t)&tag_stack_seed;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)(every / 2 + (z >> 11) % (every + 1));
}

__attribute__((noinline)) uint32_t tag_stack_sample(const void *address, uint64_t bytes)
{
    uint64_t every = __atomic_load_n(&tag_stack_every, __ATOMIC_RELAXED);
    uint64_t frames[TAG_STACK_DEPTH];
    unsigned depth;

    if (__builtin_expect(tag_stack_seed == 0, 0)) /* not every thread's first object */
        tag_stack_left = tag_stack_next(every);
    tag_stack_left -= (int64_t)bytes;
    if (__builtin_expect(tag_stack_left > 0, 1) || tag_stack_busy)
        return 0;
    tag_stack_left = tag_stack_next(every);
    tag_stack_busy = true; /* a handler that comes meanwhile, or what the unwinder might allocate */
    depth = stack_walk((uintptr_t)address, frames, TAG_STACK_DEPTH);
    tag_stack_busy = false;
    return depth > 1 ? tag_of_stack(frames, depth) : 0;
}

static FIRST_TEXT __attribute__((constructor(103), used)) void tag_stack_start(void)
{
    size_t every = setting_number(SETTING_PROFILE_STACKS);

    if (every > 0)
        tag_stack_every = every;
}
