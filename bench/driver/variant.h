/* SPDX-License-Identifier: MIT */
/* The ways in which one allocator is put through one case: each makes a record of its own. */
#ifndef STOOK_BENCH_VARIANT_H
#define STOOK_BENCH_VARIANT_H

#include <stddef.h>

#include "../modes.h"
#include "plan.h"
#include "roster.h"

#define VARIANTS_MAX 32

struct variant {
    enum mode mode;
    enum order order;
    enum free_order free_order;
    unsigned rounds; /* in place of the case's; 0: as the case has it */
    size_t align;    /* of the objects; 0: as the allocator has it */
    int raised;      /* told to keep all the memory it had: roster_keep() */
};

/* Writes up to VARIANTS_MAX of them and returns how many; one with no choices for most cases. */
size_t variant_list(const struct plan_case *plan, const struct roster_entry *entry, int quick,
                    struct variant *variants);

#endif
