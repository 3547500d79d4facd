/* SPDX-License-Identifier: MIT */
/*
 * musl_unwind.c - lets Debian's libgcc_eh unwind on musl.  It was compiled for glibc 2.35 and later and finds
 * unwind tables by glibc's _dl_find_object() alone; a compiler made for musl walks the objects itself and needs
 * none of this.  Part of scripts/musl-root.sh's folder, never of the library.
 */
#include <link.h>
#include <stdint.h>

/* glibc's ABI (dlfcn.h). */
struct dl_find_object {
    unsigned long long dlfo_flags;
    void *dlfo_map_start, *dlfo_map_end;
    struct link_map *dlfo_link_map;
    void *dlfo_eh_frame;
#if defined(__i386__)
    void *dlfo_eh_dbase;
    int dlfo_eh_count;
#endif
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct dl_find_object *found;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    uintptr_t frame = 0, start = 0, end = 0;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_GNU_EH_FRAME)
            frame = at;
        if (p->p_type == PT_LOAD && search->address >= at && search->address < at + p->p_memsz) {
            start = at;
            end = at + p->p_memsz;
        }
    }
    if (!start || !frame)
        return 0;
    search->found->dlfo_map_start = (void *)start;
    search->found->dlfo_map_end = (void *)end;
    search->found->dlfo_eh_frame = (void *)frame;
    return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void *address,
                                                          struct dl_find_object *found);

int _dl_find_object(void *address, struct dl_find_object *found)
{
    struct search search = {(uintptr_t)address, found};

    *found = (struct dl_find_object){0};
    return dl_iterate_phdr(search_object, &search) ? 0 : -1;
}
