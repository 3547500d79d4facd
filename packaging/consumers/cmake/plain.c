/* SPDX-License-Identifier: MIT */
/* Knows of no Stook: with its malloc, STOOK_REPORT=1 writes what the objects cost. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    static char *held[1000];
    size_t n = 0;

    for (; n < sizeof(held) / sizeof(held[0]) && (held[n] = malloc(100)) != NULL; n++)
        held[n][0] = (char)n;
    printf("%zu objects\n", n);
    return n != sizeof(held) / sizeof(held[0]);
}
