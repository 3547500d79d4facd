/* SPDX-License-Identifier: MIT */
/* link: none */
/* A C program that loads and unloads a C++ module, over and over, beside threads that allocate. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 60, THREADS = 4, KEPT = 500 };

static atomic_bool stop;

static void *churn(void *arg)
{
    char *kept[100] = {0};
    unsigned long n = 0;

    while (!stop) {
        unsigned i = (unsigned)(n * 7919 % 100);
        free(kept[i]);
        kept[i] = malloc(1 + n * 31 % 3000);
        kept[i][0] = (char)n++;
    }
    for (int i = 0; i < 100; i++)
        free(kept[i]);
    return arg;
}

int main(int argc, char **argv)
{
    static char *kept[KEPT]; /* made by a module that is gone when they are read and freed */
    pthread_t thread[THREADS];
    unsigned long length = 0;
    int refused = 0;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, churn, NULL);
    for (int round = 0; argc > 1 && round < ROUNDS; round++) {
        void *module = dlopen(argv[1], round % 2 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
        if (!module) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        char *(*add)(int) = (char *(*)(int))dlsym(module, "shapes_add");
        int (*refuse)(void) = (int (*)(void))dlsym(module, "shapes_refuse");
        for (int i = 0; i < 100; i++) {
            char **slot = &kept[(round * 100 + i) % KEPT];
            if (*slot)
                length += strlen(*slot);
            free(*slot);
            *slot = add(round * 7 + i);
        }
        refused += refuse();
        dlclose(module);
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < KEPT; i++) {
        length += kept[i] ? strlen(kept[i]) : 0;
        free(kept[i]);
    }
    printf("%d refused, %lu letters\n", refused, length);
    return 0;
}
