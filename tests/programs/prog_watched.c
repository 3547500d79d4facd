/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * One fault with a typed object of 40 bytes, for test_tools.py, which compiles this with AddressSanitizer too and runs
 * it under Valgrind: prog_watched clean|over|under|after|leak|size|pages|freed_pages|reserve.
 */
#include <stook/inline.h>
#include <stook/kmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stook_cache *parcels;

__attribute__((noinline)) static char *make_parcel(void)
{
    char *parcel = stook_alloc_inline(parcels, 0);

    memset(parcel, 1, 40);
    return parcel;
}

__attribute__((noinline)) static void drop_parcel(char *parcel)
{
    stook_free_inline(parcels, parcel);
    __asm__ volatile(""); /* no tail call: reports name this function */
}

__attribute__((noinline)) static void wipe(void)
{
    volatile char space[64 << 10];

    memset((char *)space, 0, sizeof(space));
}

static void clean(void)
{
    static char *parcel[500];
    struct stook_cache *zeroed = stook_cache_create("zeroed", 100, NULL);
    char *grown = stook_kmalloc(10, 0);

    for (int i = 0; i < 500; i++)
        parcel[i] = make_parcel();
    for (int i = 0; i < 500; i++)
        drop_parcel(parcel[i]);
    for (int i = 0; i < 500; i++)
        parcel[i] = make_parcel();
    stook_free_bulk(parcels, 500, (void **)parcel);
    parcel[0] = stook_alloc(zeroed, STOOK_ZERO);
    for (int i = 0; i < 100; i++)
        if (parcel[0][i])
            exit(3);
    stook_free(zeroed, parcel[0]);
    memset(grown, 2, 10);
    grown = stook_krealloc(grown, 30, 0);
    memset(grown + 10, 3, 20);
    for (int i = 0; i < 30; i++)
        if (grown[i] != (i < 10 ? 2 : 3))
            exit(4);
    stook_free_any(grown);
    stook_cache_destroy(zeroed);
}

/* Of whole pages: each that is held back after its free leaves in the end. */
static void clean_pages(void)
{
    static char *pages[20];
    char *grown;

    for (size_t size = 9000; size < 1000000; size *= 30) {
        for (int i = 0; i < 20; i++)
            memset(pages[i] = stook_kmalloc(size, 0), 4, size);
        for (int i = 0; i < 20; i++)
            stook_free_any(pages[i]);
        grown = stook_kmalloc(size, STOOK_ZERO);
        grown = stook_krealloc(grown, size - 500, STOOK_ZERO);
        grown = stook_krealloc(grown, 2 * size, STOOK_ZERO);
        for (size_t i = 0; i < 2 * size; i++)
            if (grown[i])
                exit(5);
        stook_free_any(grown);
    }
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    char *volatile parcel; /* cleared where it lies */

    parcels = stook_cache_create("parcels", 40, NULL);
    clean();
    if (!strcmp(fault, "clean"))
        clean_pages();
    parcel = make_parcel();
    if (!strcmp(fault, "over"))
        ((volatile char *)parcel)[43] = 1;
    if (!strcmp(fault, "under"))
        ((volatile char *)parcel)[-3] = 1;
    if (!strcmp(fault, "size")) {
        volatile char *asked = stook_kmalloc(18, 0);
        __asm__("" : "+r"(asked)); /* compilers know the size */
        asked[18] = 1;
        stook_free_any((void *)asked);
    }
    if (!strcmp(fault, "pages") || !strcmp(fault, "freed_pages")) {
        volatile char *asked = stook_kmalloc(20000, 0);
        __asm__("" : "+r"(asked));
        asked[19999] = 1;
        if (!strcmp(fault, "pages"))
            asked[20000] = 1;
        stook_free_any((void *)asked);
        if (!strcmp(fault, "freed_pages"))
            asked[7] = 1;
    }
    if (!strcmp(fault, "reserve")) {
        mempool_t *pool = mempool_create_kmalloc_pool(1, 24);
        volatile char *element = mempool_alloc_preallocated(pool);
        mempool_free((void *)element, pool);
        element[7] = 1;
        mempool_destroy(pool);
    }
    if (!strcmp(fault, "leak"))
        parcel = NULL;
    wipe();
    if (parcel)
        drop_parcel(parcel);
    if (!strcmp(fault, "after"))
        ((volatile char *)parcel)[5] = 1;
    puts("at the end");
    if (!strcmp(fault, "leak")) { /* until its input ends */
        fflush(stdout);
        (void)getchar();
    }
    return 0;
}
