/* SPDX-License-Identifier: MIT */
/* An allocator that is built from its crate. */
#include <stddef.h>
#include <string.h>

#include "../peers/names.h"

void *PEER(malloc)(size_t size);
void PEER(free)(void *object);

#define MALLOC_ALLOC PEER(malloc)
#define MALLOC_FREE PEER(free)
#include "malloc_calls.h"

/* Two of them have the same names as another version. */
#if defined(PEER_mimalloc23) || defined(PEER_mimalloc3)
int mi_version(void);

/* Versions are written 302 or 30302, by age. */
static inline void adapter_check(void)
{
    int version = mi_version();
    if (version >= 10000)
        version /= 100;
#ifdef PEER_mimalloc3
    if (version / 100 != 3)
        case_die("mimalloc is not 3.x");
#else
    if (version / 100 != 2)
        case_die("mimalloc is not 2.x");
#endif
}
#elif defined(PEER_jemalloc531)
int _rjem_mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);

static inline void adapter_check(void)
{
    const char *version = NULL;
    size_t length = sizeof(version);
    if (_rjem_mallctl("version", &version, &length, NULL, 0) || strncmp(version, "5.3.1", 5))
        case_die("jemalloc is not 5.3.1");
}
#elif defined(PEER_hardened)
size_t malloc_object_size(const void *object);

static inline void adapter_check(void)
{
    void *object = malloc(64);
    if (malloc_object_size(object) < 64 || malloc_object_size(object) > 4096)
        case_die("malloc is not hardened_malloc");
    free(object);
}
#else
static inline void adapter_check(void)
{
}
#endif
