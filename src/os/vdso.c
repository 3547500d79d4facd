/* SPDX-License-Identifier: MIT */
/*
 * vdso.c - finds functions of the vDSO by name in its ELF image, which the auxiliary vector points to.
 */
#include "os/vdso.h"

#include "base/raw.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef __aarch64__
#define VDSO_PREFIX "__kernel_"
#else
#define VDSO_PREFIX "__vdso_"
#endif

enum { VDSO_UNKNOWN, VDSO_NONE }; /* else an address */

/* The names lie behind the symbols. */
static uintptr_t vdso_find(const char *name)
{
    const char *file = (const char *)getauxval(AT_SYSINFO_EHDR), *names = NULL; // NOLINT
    const ElfW(Phdr) *header = (const void *)(file + ((const ElfW(Ehdr) *)file)->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Sym) *symbol = NULL;

    for (unsigned i = 0; i < ((const ElfW(Ehdr) *)file)->e_phnum; i++)
        if (header[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(file + header[i].p_offset);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_STRTAB)
            names = file + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_SYMTAB)
            symbol = (const void *)(file + dynamic->d_un.d_ptr);
    for (; names && symbol && (const char *)(symbol + 1) <= names; symbol++)
        if (symbol->st_shndx != SHN_UNDEF && strcmp(names + symbol->st_name, name) == 0)
            return (uintptr_t)file + symbol->st_value;
    return VDSO_NONE;
}

static uintptr_t vdso_get(_Atomic uintptr_t *found, const char *name)
{
    uintptr_t at = atomic_load_explicit(found, memory_order_relaxed);

    if (__builtin_expect(at == VDSO_UNKNOWN, 0)) {
        at = getauxval(AT_SYSINFO_EHDR) ? vdso_find(name) : VDSO_NONE;
        atomic_store_explicit(found, at, memory_order_relaxed);
    }
    return at;
}

int vdso_cpu(void)
{
    static _Atomic uintptr_t found;
    uintptr_t at = vdso_get(&found, VDSO_PREFIX "getcpu");
    unsigned cpu;
    bool known = at != VDSO_NONE
                     ? ((int (*)(unsigned *, void *, void *))at)(&cpu, NULL, NULL) == 0 // NOLINT
                     : raw_result(SYS_getcpu, &cpu, NULL, NULL) == 0;

    return known ? (int)cpu : -1;
}

uint64_t vdso_clock(clockid_t coarse)
{
    static _Atomic uintptr_t found;
    uintptr_t at = vdso_get(&found, VDSO_PREFIX "clock_gettime");
    struct timespec now = {0};

    if (at != VDSO_NONE)
        (void)((int (*)(clockid_t, struct timespec *))at)(coarse, &now); // NOLINT
    else
        (void)raw_result(SYS_clock_gettime, coarse, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
