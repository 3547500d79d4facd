/* SPDX-License-Identifier: MIT */
/*
 * A live set of some 130 MiB whose objects are replaced at random.  Sizes are log-uniform from 16 bytes to 1 KiB, one
 * of 64 to 16 KiB, one of 2048 to 256 KiB.  Three quarters are freed now and then, and the set fills up again.
 */
#include "own.h"

enum { OBJECTS = 150000 };

static size_t some_size(struct own_random *random)
{
    unsigned kind = own_below(random, 2048);

    return kind == 0 ? own_log_uniform(random, 14, 18)
                     : own_log_uniform(random, kind < 32 ? 10 : 4, kind < 32 ? 14 : 10);
}

uint64_t own_mixed(unsigned scale)
{
    struct own_random random = {9};
    struct {
        unsigned char *at;
        size_t size;
    } *object = own_alloc(OBJECTS * sizeof(*object));
    uint64_t sum = 0;

    memset(object, 0, OBJECTS * sizeof(*object));
    for (unsigned n = 0; n < scale * 40000; n++) {
        unsigned i = own_below(&random, OBJECTS);
        if (object[i].at) {
            sum += object[i].at[0] + object[i].at[object[i].size - 1];
            free(object[i].at);
        }
        object[i].size = some_size(&random);
        object[i].at = own_alloc(object[i].size);
        object[i].at[0] = object[i].at[object[i].size - 1] = (unsigned char)n;
        if (n % 1000000 == 999999)
            for (i = 0; i < OBJECTS; i++)
                if (i % 4) {
                    free(object[i].at);
                    object[i].at = NULL;
                }
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        free(object[i].at);
    free(object);
    return sum;
}
