/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * Objects in known places, for test_gdb.py: prints a line for each, then waits for its input's end.
 *
 *   live N         objects that the program has
 *   main, barn     the last object that was freed; one freed long before, whose sheaf went to the barn
 *   slab           one that is free in its slab
 *   large, span    objects of 300 KiB and 5 MiB
 *   buffer, spare  a cache's object of 3 MiB, and where one was
 */
#include <stook/kmalloc.h>
#include <stook/stook.h>

#include <stdio.h>
#include <unistd.h>

enum { OBJECTS = 4000, FREED = 1500 };

static void *object[OBJECTS];

int main(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = 70};
    struct stook_cache *cache = stook_cache_create("widgets", 200, &args);
    struct stook_cache *buffers = stook_cache_create("buffers", 3 << 20, NULL);
    void *large = stook_kmalloc(300 << 10, 0), *span = stook_kmalloc(5 << 20, 0);
    void *buffer = stook_alloc(buffers, 0), *spare = stook_alloc(buffers, 0);

    stook_free(buffers, spare);

    for (int i = 0; i < OBJECTS; i++)
        object[i] = stook_alloc(cache, 0);
    for (int i = 0; i < FREED; i++)
        stook_free(cache, object[i]);
    printf("live %p\nmain %p\nslab %p\n", object[OBJECTS - 1], object[FREED - 1], object[0]);
    for (int i = 0; i < FREED; i++)
        printf("freed %p\n", object[i]);
    printf("large %p\nspan %p\nstack %p\n", large, span, (void *)&args);
    printf("buffer %p\nspare %p\nready\n", buffer, spare);
    fflush(stdout);
    for (char c; read(STDIN_FILENO, &c, 1) > 0;)
        ;
    return 0;
}
