/* SPDX-License-Identifier: MIT */
/* SQLite's malloc over stook_kmalloc(), and the call that configures both adapters. */
#include "stook_sqlite.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>

/*
 * SQLite allocates while it holds mutexes of connections, and a reclaim callback of the program may use
 * another connection.  So all allocations are NORECLAIM: they run no callback.
 */
static void *mem_malloc(int size)
{
    return stook_kmalloc((size_t)size, STOOK_NORECLAIM);
}

static void mem_free(void *object)
{
    stook_free_any(object);
}

static void *mem_realloc(void *object, int size)
{
    return stook_krealloc(object, (size_t)size, STOOK_NORECLAIM);
}

static int mem_size(void *object)
{
    return (int)stook_usable_size(object);
}

/* What mem_size() returns later: SQLite's count of used bytes relies on it. */
static int mem_roundup(int size)
{
    size_t rounded = stook_kmalloc_size((size_t)size);

    return rounded > 0x7ffffff8 ? size : (int)rounded;
}

static int mem_init(void *arg)
{
    (void)arg;
    return SQLITE_OK;
}

static void mem_shutdown(void *arg)
{
    (void)arg;
}

const sqlite3_mem_methods *stook_sqlite_mem_methods(void)
{
    static const sqlite3_mem_methods methods = {mem_malloc,  mem_free, mem_realloc,  mem_size,
                                                mem_roundup, mem_init, mem_shutdown, NULL};

    return &methods;
}

int stook_sqlite_configure(unsigned what)
{
    int result = SQLITE_OK;

    if (what & ~STOOK_SQLITE_ALL)
        return SQLITE_MISUSE;
    if (what & STOOK_SQLITE_MALLOC)
        result = sqlite3_config(SQLITE_CONFIG_MALLOC, stook_sqlite_mem_methods());
    if (result == SQLITE_OK && what & STOOK_SQLITE_PAGES)
        result = sqlite3_config(SQLITE_CONFIG_PCACHE2, stook_sqlite_pcache_methods());
    return result;
}
