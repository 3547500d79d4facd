/* SPDX-License-Identifier: MIT */
/*
 * tag_stack.c - the call stack of a thread, from a call of the library outwards: for samples, for the guard and for the
 * debug letter U.
 *
 * Stacks are unwound by the tables of the program (unwind.h): frame pointers are nowhere to be relied on.
 */
#include "site/tag.h"
#include "site/unwind.h"

#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>

enum {
    TAG_STACK_SKIP = 32, /* frames of ours, at most, before the caller's */
};

struct tag_stack_walk {
    uint64_t address, *frames; /* address 0: without the first ones, and then as many as are ours */
    unsigned most, depth, skipped, first;
};

/* Of this library's code: bounds 0 where it is part of the program. */
static struct {
    _Atomic bool known;
    _Atomic uint64_t start, end;
} tag_stack_ours;

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static void tag_stack_find_ours(void)
{
    uint64_t base = (uintptr_t)&__ehdr_start, entry = getauxval(AT_ENTRY), end = 0;
    const ElfW(Phdr) *phdr = (const void *)(base + __ehdr_start.e_phoff);

    __asm__(""
            : "+r"(phdr)); /* it lies behind the header, which is all that the compiler knows of */
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++)
        if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_X))
            end = base + phdr[i].p_vaddr + phdr[i].p_memsz;
    if (__ehdr_start.e_type == ET_DYN && !(entry >= base && entry < end)) {
        atomic_store_explicit(&tag_stack_ours.start, base, memory_order_relaxed);
        atomic_store_explicit(&tag_stack_ours.end, end, memory_order_relaxed);
    }
    atomic_store_explicit(&tag_stack_ours.known, true, memory_order_release);
}

static bool tag_stack_is_ours(uint64_t address)
{
    if (!atomic_load_explicit(&tag_stack_ours.known, memory_order_acquire))
        tag_stack_find_ours();
    return address >= atomic_load_explicit(&tag_stack_ours.start, memory_order_relaxed) &&
           address < atomic_load_explicit(&tag_stack_ours.end, memory_order_relaxed);
}

static bool tag_stack_visit(uint64_t address, void *arg)
{
    struct tag_stack_walk *walk = arg;

    if (address == 0)
        return false;
    if (walk->depth == 0 &&
        (walk->address ? address != walk->address
                       : walk->skipped < walk->first || tag_stack_is_ours(address)))
        return ++walk->skipped < TAG_STACK_SKIP;
    walk->frames[walk->depth++] = address;
    return walk->depth < walk->most;
}

__attribute__((noinline)) unsigned tag_stack_walk(const void *address, uint64_t *frames,
                                                  unsigned most)
{
    /* Without the frames of this function, its caller and the caller's caller. */
    struct tag_stack_walk walk = {
        .address = (uintptr_t)address, .frames = frames, .most = most, .first = 3};

    (void)unwind_walk(unwind_here(), tag_stack_visit, &walk); /* what there is of it */
    return walk.depth;
}
