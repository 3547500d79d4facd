/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * Says whether the process is set-uid, how Stook runs in it, and that it serves malloc; weakly, so
 * that it also runs where Stook is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

__attribute__((weak)) const char *stook_mode(const char **why);
__attribute__((weak)) int stook_report(int fd, unsigned format);

int main(void)
{
    void *volatile object = malloc(100);
    const char *why;

    printf("secure=%lu stook=%d mode=%s\n", getauxval(AT_SECURE), stook_report != NULL,
           stook_mode ? stook_mode(&why) : "none");
    free(object);
    return 0;
}
