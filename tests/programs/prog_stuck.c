/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * A process that blocks its readers without end.  The faults of the page with a cache's description are its own to serve
 * (userfaultfd), and it never does.  It prints "ready", or "none" if the kernel does not permit that.
 */
#include <stook/stook.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    struct stook_cache *cache = stook_cache_create("stuck", 64, NULL);
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)cache & ~(uintptr_t)4095, .len = 4096},
        .mode = UFFDIO_REGISTER_MODE_MISSING};

    if (!cache || !stook_alloc(cache, 0))
        return 1;
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || ioctl(fd, UFFDIO_REGISTER, &range) != 0 ||
        madvise((void *)(uintptr_t)range.range.start, 4096, MADV_DONTNEED) != 0) {
        puts("none");
        return 0;
    }
    puts("ready");
    fflush(stdout);
    (void)getchar();
    _exit(0);
}
