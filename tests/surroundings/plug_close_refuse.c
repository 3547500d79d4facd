/* SPDX-License-Identifier: MIT */
/* link: none */
/* Preloaded: no object can be kept. */
#include <dlfcn.h>
#include <stdlib.h>

void *dlopen(const char *name, int flags)
{
    void *(*next)(const char *, int);

    *(void **)(void *)&next = dlsym(RTLD_NEXT, "dlopen");
    return flags & RTLD_NODELETE ? NULL : next(name, flags);
}
