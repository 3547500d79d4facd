/* SPDX-License-Identifier: MIT */
/*
 * pressure: gives memory back when the kernel says that tasks wait for memory (PSI), from the program's own event loop: no
 * thread, and no call while all is well.
 *
 *     pressure [FILE [SECONDS]]     FILE is /proc/pressure/memory, or memory.pressure of a cgroup with a memory.high
 *
 * A trigger of 100 ms in 2 s may be set without privileges (Linux 6.6).  Without PSI the loop wakes by its timeout alone.
 */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stook/stook.h>

enum { ENTRIES = 100000, FREED = ENTRIES / 10 * 9 };

struct entry {
    char bytes[500];
};

static struct entry *entries[ENTRIES];

static const char trigger[] = "some 100000 2000000";

/* A burst: most entries are freed again. */
static int burst(struct stook_cache *cache)
{
    for (int i = 0; i < ENTRIES; i++) {
        entries[i] = stook_alloc(cache, 0);
        if (!entries[i])
            return -1;
        memset(entries[i], 1, sizeof(*entries[i]));
    }
    for (int i = 0; i < FREED; i++)
        stook_free(cache, entries[i]);
    return 0;
}

int main(int argc, char **argv)
{
    const char *file = argc > 1 ? argv[1] : "/proc/pressure/memory";
    int ms = argc > 2 ? atoi(argv[2]) * 1000 : 100;
    struct stook_cache *cache = stook_cache_create("entry", sizeof(struct entry), NULL);
    struct pollfd pressure = {.fd = open(file, O_RDWR | O_NONBLOCK | O_CLOEXEC), .events = POLLPRI};

    if (!cache || burst(cache) < 0)
        return 1;
    if (pressure.fd >= 0 && write(pressure.fd, trigger, sizeof(trigger)) < 0) {
        close(pressure.fd);
        pressure.fd = -1; /* poll() passes it over */
    }
    printf("%s: %s\n", file, pressure.fd >= 0 ? "watched" : "cannot be watched");
    int woken = poll(&pressure, 1, ms);
    size_t bytes = stook_cache_shrink(cache); /* each cache of the program */
#ifdef __GLIBC__
    malloc_trim(0); /* and malloc's, where that is Stook's */
#endif
    printf("%s: %zu KiB went back\n", woken > 0 ? "pressure" : "idle", bytes >> 10);
    for (int i = FREED; i < ENTRIES; i++)
        stook_free(cache, entries[i]);
    return stook_cache_destroy(cache);
}
