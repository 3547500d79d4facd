/* SPDX-License-Identifier: MIT */
/* The C library's own malloc. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

#ifdef ADAPTER_STATIC
static inline void adapter_check(void)
{
}
#else
/* A preloaded allocator would answer in the C library's name. */
static inline void adapter_check(void)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (!symbol || !dladdr(symbol, &info) || !strstr(info.dli_fname, "libc.so"))
        case_die("malloc is not the C library's; is something preloaded?");
}
#endif
