/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* link: static */
/*
 * A process with sites of all kinds and known counts.  It writes its profile to standard output and,
 * where the environment asks for it, at its end and at signals; arguments:
 *
 *   signals N    sends itself N signals SIGUSR2 first, each followed by 100 objects more
 *   many N       N sites by address
 *   stacks N     4 * N objects of 100 bytes at one site, three of four from prog_left, the others from
 *                prog_right; all from prog_right are freed
 */
#include "site/tag.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct stook_site sites[] = {
    {"src/plain.c", "plain", 12, 0},
    {"src/odd \"name\"\\\n\xc3\xa9\xff.c", "odd<int>", 7, 0},
    {"src/gone.c", "gone", 1, 0},
};

__attribute__((noinline)) static uint32_t called(void)
{
    return tag_of_address(__builtin_return_address(0));
}

__attribute__((noinline)) uint32_t prog_caller(void);
__attribute__((noinline)) uint32_t prog_caller(void)
{
    uint32_t tag = called(); /* the line that test_profile.py looks for */

    __asm__ volatile("" : "+r"(tag)); /* no tail call */
    return tag;
}

#define PROG_FUNCTION __attribute__((noinline, noclone, noipa))

PROG_FUNCTION static uint32_t stacked(void)
{
    return tag_of_call(__builtin_return_address(0), 100);
}

PROG_FUNCTION uint32_t prog_inner(void);
PROG_FUNCTION uint32_t prog_inner(void)
{
    uint32_t tag = stacked();

    tag_count_alloc(tag, 1, 100);
    return tag;
}

PROG_FUNCTION void prog_left(void);
PROG_FUNCTION void prog_left(void)
{
    (void)prog_inner();
    __asm__ volatile("");
}

PROG_FUNCTION void prog_right(void);
PROG_FUNCTION void prog_right(void)
{
    tag_count_free(prog_inner(), 1, 100);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 0;

    (void)stook_mode(NULL);
    tag_count_alloc(tag_of_site(&sites[0]), 500, 500 * 256);
    tag_count_free(tag_of_site(&sites[0]), 100, 100 * 256);
    tag_count_alloc(tag_of_site(&sites[1]), 1, 48);
    tag_count_alloc(tag_of_site(&sites[2]), 9, 900);
    tag_count_free(tag_of_site(&sites[2]), 9, 900);
    tag_count_alloc(prog_caller(), 3, 3 << 20);
    if (argc > 2 && strcmp(argv[1], "signals") == 0)
        for (int i = 0; i < n; i++) {
            raise(SIGUSR2);
            tag_count_alloc(tag_of_site(&sites[0]), 100, 100 * 256);
        }
    if (argc > 2 && strcmp(argv[1], "stacks") == 0)
        for (int i = 0; i < 4 * n; i++)
            i % 4 ? prog_left() : prog_right();
    if (argc > 2 && strcmp(argv[1], "many") == 0)
        for (int i = 0; i < n; i++)
            tag_count_alloc(tag_of_address((void *)(0x7000000000 + (uintptr_t)i)), 1, 16);
    return stook_profile_write(STDOUT_FILENO) != 0;
}
