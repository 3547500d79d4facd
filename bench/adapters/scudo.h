/* SPDX-License-Identifier: MIT */
/* LLVM's standalone scudo, as a replacement of malloc. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MALLOC_ALLOC malloc
#define MALLOC_FREE free
#include "malloc_calls.h"

static inline void adapter_check(void)
{
    Dl_info library;
    if (!dladdr((void *)malloc, &library) || !strstr(library.dli_fname, "scudo"))
        case_die("malloc is not scudo");
}
