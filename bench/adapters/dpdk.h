/* SPDX-License-Identifier: MIT */
/*
 * DPDK's rte_mempool: a pool of objects made beforehand, with the largest per-lcore cache there is.
 * Get and put are inline functions of its headers, so the linking says little of them. It runs
 * without huge pages, on the CPU that the case has pinned the worker to. Its main lcore is the thread that
 * opens it; another thread registers as an lcore of its own, and so has a cache of its own.
 */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A program of DPDK's would have its calls where it makes them, and so do the loops. */
#define DPDK_INLINE static inline __attribute__((always_inline))

#define ADAPTER_BULK 1
#define ADAPTER_OPENS_AS 1
#define ADAPTER_JOINS 1
#define ADAPTER_IS_POOL 1

#define DPDK_CACHE 512 /* RTE_MEMPOOL_CACHE_MAX_SIZE: of get and put without the shared ring */

typedef struct rte_mempool *adapter_t;

static inline _Noreturn void dpdk_cannot(const char *what)
{
    dprintf(STDERR_FILENO, "dpdk: %s: %s\n", what, rte_strerror(rte_errno));
    _exit(WORKER_CANNOT);
}

/* EAL writes pages of help to standard output, which is for figures, when it cannot start. */
static inline void dpdk_start(int argc, char **argv)
{
    int figures = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    if (figures < 0 || nowhere < 0)
        case_die("no descriptor to be had");
    dup2(nowhere, STDOUT_FILENO);
    if (rte_eal_init(argc, argv) < 0)
        dpdk_cannot("EAL does not start");
    fflush(stdout);
    dup2(figures, STDOUT_FILENO);
    close(figures);
    close(nowhere);
}

static inline adapter_t adapter_open_as(const struct case_params *params, size_t count)
{
    char lcores[32], memory[32];
    struct rte_mempool_objsz sizes;
    cpu_set_t pinned;
    size_t cpu = 0;

    /* EAL moves the thread that starts it: to where it is already. */
    if (sched_getaffinity(0, sizeof(pinned), &pinned))
        case_die("sched_getaffinity failed");
    while (!CPU_ISSET(cpu, &pinned))
        cpu++;
    /* A pool refuses what a full cache could hold back, and the cache may hold half as much again. */
    size_t objects = count + 2 * DPDK_CACHE;
    /* Its default makes 128 bytes of an object of 16; no case touches an object of a pool. */
    unsigned flags = params->object_size < RTE_CACHE_LINE_SIZE ? RTE_MEMPOOL_F_NO_CACHE_ALIGN : 0;
    size_t object_bytes = rte_mempool_calc_obj_size((uint32_t)params->object_size, flags, &sizes);
    /* Where objects fit a page they do not cross one. */
    size_t bytes =
        object_bytes > 4096 ? objects * object_bytes : (objects / (4096 / object_bytes) + 1) * 4096;
    size_t ring = sizeof(void *);
    while (ring < (objects + 1) * sizeof(void *))
        ring *= 2;
    snprintf(lcores, sizeof(lcores), "--lcores=0@%zu", cpu);
    snprintf(memory, sizeof(memory), "%zu", ((bytes + ring) * 9 / 8 >> 20) + 64);
    char *arguments[] = {"bench",
                         "--no-huge",
                         "--no-pci",
                         "--no-shconf",
                         "--no-telemetry",
                         "--log-level=1",
                         "--iova-mode=va",
                         lcores,
                         "-m",
                         memory,
                         NULL};
    dpdk_start((int)(sizeof(arguments) / sizeof(arguments[0])) - 1, arguments);
    adapter_t pool =
        rte_mempool_create("bench", (unsigned)objects, (unsigned)params->object_size, DPDK_CACHE, 0,
                           NULL, NULL, NULL, NULL, SOCKET_ID_ANY, flags);
    if (!pool)
        dpdk_cannot("the pool cannot be made");
    return pool;
}

static inline adapter_t adapter_open(size_t object_size)
{
    struct case_params params = {.object_size = object_size};
    return adapter_open_as(&params, 100000);
}

static inline void adapter_join(void)
{
    if (rte_thread_register())
        dpdk_cannot("a second thread cannot be an lcore");
}

DPDK_INLINE void *adapter_alloc(adapter_t pool)
{
    void *object;
    return rte_mempool_get(pool, &object) ? NULL : object;
}

DPDK_INLINE void adapter_free(adapter_t pool, void *object)
{
    rte_mempool_put(pool, object);
}

DPDK_INLINE size_t adapter_alloc_bulk(adapter_t pool, void **objects, size_t n)
{
    return rte_mempool_get_bulk(pool, objects, (unsigned)n) ? 0 : n;
}

DPDK_INLINE void adapter_free_bulk(adapter_t pool, void **objects, size_t n)
{
    rte_mempool_put_bulk(pool, objects, (unsigned)n);
}

static inline void adapter_check(void)
{
}
