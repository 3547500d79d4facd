/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: preload glibc */
/*
 * Makes the library call what it calls: growth, trim, fork, reports, scans of the topology, profiles, traces, waits.
 * The last line says whether all went well.
 */
#include <stook/stook.h>
#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/stat.h>
#include <stook/topology.h>
#include <stook/debug.h>

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 800, ROUNDS = 2, THREADS = 2 };

#ifndef STOOK_TESTS_SURROUNDINGS_INTERPOSE_H
__attribute__((weak)) void interpose_churn(void);
__attribute__((weak)) bool interpose_report(void);
#define INTERPOSE_IS_THERE (interpose_churn && interpose_report)
#endif

static atomic_bool over;

static void *churns(void *arg)
{
    while (!atomic_load(&over) && INTERPOSE_IS_THERE) {
        interpose_churn();
        usleep(200);
    }
    return arg;
}

static void *grows(void *arg)
{
    static const size_t sizes[] = {24, 100, 700, 3000, 9000, 40000, 300000};
    void **object = calloc(OBJECTS, sizeof(*object));

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < OBJECTS; i++) {
            size_t size = sizes[i % 100 < 95 ? i % 5 : 5 + i % 2];
            object[i] = i % 3 ? malloc(size) : realloc(malloc(size), 2 * size);
            if (!object[i])
                exit(3);
            memset(object[i], 1, size);
        }
        for (unsigned i = 0; i < OBJECTS; i++)
            free(object[i]);
        malloc_trim(0);
    }
    free(object);
    return arg;
}

static void with_caches(int null)
{
    struct stook_cache *cache = stook_cache_create("interposed", 300, NULL);
    struct stook_pool *pool = cache ? stook_pool_create(cache, 2) : NULL;
    void *object[200], *two[2];
    struct stook_group group;

    if (!pool || stook_alloc_bulk(cache, 0, 200, object) != 0)
        exit(4);
    stook_free_bulk(cache, 200, object);
    two[0] = stook_pool_alloc(pool, 0, NULL);
    two[1] = stook_pool_alloc(pool, 0, NULL);
    stook_pool_free(pool, two[0]);
    stook_pool_free(pool, two[1]);
    (void)stook_cache_validate(cache);
    (void)stook_cache_shrink(cache);
    (void)stook_topology_update(NULL);
    (void)stook_report(null, STOOK_REPORT_TABLE);
    (void)stook_report(null, STOOK_REPORT_JSON);
    (void)stook_profile_write(null);
    group = stook_group_create("interposed", STOOK_NO_GROUP, 1 << 20);
    (void)stook_group_destroy(group);
    if (stook_trace_start("interpose.trace", STOOK_TRACE_LIMIT) == 0) {
        free(malloc(10));
        stook_free(cache, stook_alloc(cache, 0));
        (void)stook_trace_stop();
    }
    stook_pool_destroy(pool);
    if (stook_cache_destroy(cache) != 0)
        exit(5);
}

static void forks(void)
{
    for (int i = 0; i < 5; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            free(realloc(malloc(50), 100000));
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            exit(6);
    }
}

int main(void)
{
    pthread_t thread[THREADS + 1];
    int null = open("/dev/null", O_WRONLY);
    FILE *stream = fdopen(dup(null), "w");

    pthread_create(&thread[THREADS], NULL, churns, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, grows, NULL);
    forks();
    with_caches(null);
    (void)mallinfo2();
    malloc_info(0, stream);
    fclose(stream);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&over, true);
    pthread_join(thread[THREADS], NULL);
    forks();
    malloc_stats();
    if (INTERPOSE_IS_THERE && !interpose_report())
        return 7;
    printf("done\n");
    return 0;
}
