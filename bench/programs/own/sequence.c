/* SPDX-License-Identifier: MIT */
/* Objects of one size after the other, freed in order, in reverse, and with a part left for the next round. */
#include "own.h"

enum { SIZES = 1000, EACH = 100 };

uint64_t own_sequence(unsigned scale)
{
    unsigned char **object = own_alloc(SIZES * EACH * sizeof(*object));
    uint64_t sum = 0;

    memset(object, 0, SIZES * EACH * sizeof(*object));
    for (unsigned n = 0; n < scale * 2; n++) {
        size_t at = 0;
        for (size_t size = 1; size <= SIZES; size++)
            for (unsigned i = 0; i < (SIZES - size) * EACH / SIZES; i++, at++) {
                if (object[at]) { /* left by the last round */
                    sum += object[at][0];
                    free(object[at]);
                }
                object[at] = own_alloc(size);
                object[at][0] = (unsigned char)size;
            }
        for (size_t i = 0; i < at; i++) {
            size_t which = n % 3 == 0 ? i : n % 3 == 1 ? at - 1 - i : i ^ 1;
            if (which < at && which % 16 != n % 16 && object[which]) {
                sum += object[which][0];
                free(object[which]);
                object[which] = NULL;
            }
        }
    }
    for (size_t i = 0; i < SIZES * EACH; i++)
        free(object[i]);
    free(object);
    return sum;
}
