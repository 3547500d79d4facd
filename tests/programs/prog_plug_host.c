/* SPDX-License-Identifier: MIT */
/* A host in C that keeps its plug-in's symbols, and so the C++ library's, local. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plug = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(void) = plug ? (int (*)(void))(uintptr_t)dlsym(plug, "plug_throws") : NULL;

    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    return run();
}
