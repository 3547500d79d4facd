/* SPDX-License-Identifier: MIT */
/* A library that takes the place of malloc and is named lib*NAME.so: without its figure of version, ADAPTER_NAME. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

static inline void adapter_check(void)
{
    char name[] = ADAPTER_NAME;
    Dl_info library;

    name[strcspn(name, "0123456789")] = '\0';
    if (!dladdr((void *)malloc, &library) || !strstr(library.dli_fname, name))
        case_die("malloc is another library's");
}
