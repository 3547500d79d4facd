/* SPDX-License-Identifier: MIT */
/* A program that does what it must not with malloc's objects, and goes on to its end if it is let. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) char *grow(size_t size)
{
    char *object = malloc(size);

    __asm__ volatile("" : "+r"(object)); /* no tail call, and nothing is known of it */
    return object;
}

static __attribute__((noinline)) void drop(char *object)
{
    __asm__ volatile("" : "+r"(object));
    free(object);
    __asm__ volatile("");
}

static void *drop_elsewhere(void *object)
{
    drop(object);
    return NULL;
}

int main(void)
{
    char *first = grow(18), *second = grow(18), local = 0, *nothing = &local;
    pthread_t thread;

    first[18] = 1; /* behind what was asked for */
    drop(first);
    drop(first); /* again */
    if (pthread_create(&thread, NULL, drop_elsewhere, second) != 0 ||
        pthread_join(thread, NULL) != 0)
        return 1;
    drop(second); /* of another thread */
    drop(&local);
    drop(grow(100) + 16);
    __asm__ volatile("" : "+r"(nothing));
    if (realloc(nothing, 20))
        return 2;
    for (int i = 0; i < 1000; i++) /* all is well */
        drop(memset(grow((size_t)i), 1, (size_t)i));
    puts("at the end");
    return 0;
}
