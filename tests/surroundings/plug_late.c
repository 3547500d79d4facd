/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * For LD_AUDIT: no page of libstook-malloc.so's code from LATE_REGION on (BEGIN-END, offsets) may be touched, from
 * before the library's own start.  A touch is reported with its offset and ends the process.
 */
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static uintptr_t late_base, late_begin, late_end;

static void late_touched(int signal, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    char line[64];

    if (at >= late_base + late_begin && at < late_base + late_end) {
        int n = snprintf(line, sizeof(line), "late: %#lx is touched\n",
                         (unsigned long)(at - late_base));
        (void)!write(STDERR_FILENO, line, (size_t)n);
        _exit(99);
    }
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

unsigned la_version(unsigned version)
{
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t list, uintptr_t *cookie)
{
    struct sigaction action = {.sa_sigaction = late_touched, .sa_flags = SA_SIGINFO};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const char *region = getenv("LATE_REGION");

    if (!strstr(map->l_name, "/libstook-malloc.so") || !region ||
        sscanf(region, "%lx-%lx", &late_begin, &late_end) != 2)
        return 0;
    late_base = map->l_addr;
    late_begin = (late_begin + page - 1) & -page;
    late_end &= -page;
    if (sigaction(SIGSEGV, &action, NULL) != 0 ||
        mprotect((void *)(late_base + late_begin), late_end - late_begin, PROT_NONE) != 0) {
        (void)!write(STDERR_FILENO, "late: not protected\n", 20);
        _exit(98);
    }
    return 0;
}
