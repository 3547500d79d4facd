/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* link: static */
/*
 * A process with sites of all kinds and known counts.  It writes its profile to standard output and,
 * where the environment asks for it, at its end and at signals; arguments:
 *
 *   signals N    sends itself N signals SIGUSR2 first, each followed by 100 objects more
 *   many N       N sites by address
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
    if (argc > 2 && strcmp(argv[1], "many") == 0)
        for (int i = 0; i < n; i++)
            tag_count_alloc(tag_of_address((void *)(0x7000000000 + (uintptr_t)i)), 1, 16);
    return stook_profile_write(STDOUT_FILENO) != 0;
}
