#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# A program that is linked with another malloc, and asks it for objects by calls of its own, as redis 8 does of jemalloc:
# free, realloc and malloc_usable_size hand these back to it.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need gcc

cat >"$work/other.c" <<'C'
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static _Alignas(16) char heap[1 << 20];
static size_t used;
int other_freed;
void *other_alloc(size_t n)
{
    size_t *at = (size_t *)(void *)(heap + used);
    used += 32 + (n + 15) / 16 * 16;
    *at = n;
    return at + 2;
}
size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-2] : 0; }
void free(void *p) { other_freed += p != NULL; }
void *malloc(size_t n) { return other_alloc(n); }
void *calloc(size_t n, size_t size) { return other_alloc(n * size); } /* never used twice: zeros */
void *realloc(void *p, size_t n)
{
    void *to = other_alloc(n);
    if (p)
        memcpy(to, p, malloc_usable_size(p) < n ? malloc_usable_size(p) : n);
    free(p);
    return to;
}
C
cat >"$work/program.c" <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern int other_freed;
void *other_alloc(size_t n);
int main(void)
{
    char *theirs = other_alloc(100), *ours = malloc(1000);
    memset(theirs, 'x', 100);
    memset(ours, 'y', 1000);
    printf("%zu %d\n", malloc_usable_size(theirs), malloc_usable_size(ours) >= 1000);
    theirs = realloc(theirs, 300);
    printf("%zu %c\n", malloc_usable_size(theirs), theirs[99]);
    int before = other_freed;
    free(theirs);
    printf("%d\n", other_freed - before);
    free(ours);
    return 0;
}
C
gcc -O1 -fno-builtin -shared -fPIC -o "$work/libother.so" "$work/other.c"
gcc -O1 -fno-builtin -o "$work/program" "$work/program.c" -L"$work" -lother -Wl,-rpath,"$work"
same other program "$work/program"
