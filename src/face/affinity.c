/* SPDX-License-Identifier: MIT */
/*
 * affinity.c - reads the affinity of threads from the kernel, of one thread or of all threads of the process.
 */
#include "face/affinity.h"

#include "base/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* What getdents64 gives; libc's readdir() would allocate. */
struct affinity_entry {
    uint64_t inode, offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Adds a thread's CPUs; false: it is no more, or may not be asked. */
static bool affinity_add(int tid, uint64_t cpus[AFFINITY_WORDS])
{
    uint64_t mask[AFFINITY_WORDS];
    int saved = errno;
    long bytes = raw_call(SYS_sched_getaffinity, tid, sizeof(mask), mask);

    errno = saved;
    for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++)
        cpus[i] |= mask[i];
    return bytes > 0;
}

bool affinity_thread(uint64_t cpus[AFFINITY_WORDS])
{
    memset(cpus, 0, AFFINITY_WORDS * sizeof(cpus[0]));
    return affinity_add(0, cpus);
}

static bool affinity_enough(const uint64_t cpus[AFFINITY_WORDS], const uint64_t *enough)
{
    for (unsigned i = 0; enough && i < AFFINITY_WORDS; i++)
        if (enough[i] & ~cpus[i])
            return false;
    return enough != NULL;
}

static int affinity_number(const char *name)
{
    int number = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + (*name - '0');
    return *name == '\0' ? number : 0; /* "." and ".." */
}

/* One buffer of the directory; how many threads were asked. */
static unsigned affinity_read(const char *buffer, long bytes, uint64_t cpus[AFFINITY_WORDS],
                              const uint64_t *enough, bool *done)
{
    const struct affinity_entry *entry;
    unsigned threads = 0;

    for (long at = 0; at < bytes && !*done; at += entry->length) {
        int tid;
        entry = (const struct affinity_entry *)(const void *)(buffer + at);
        tid = affinity_number(entry->name);
        if (tid > 0 && affinity_add(tid, cpus)) {
            threads++;
            *done = affinity_enough(cpus, enough);
        }
    }
    return threads;
}

unsigned affinity_process(uint64_t cpus[AFFINITY_WORDS], const uint64_t *enough, unsigned most)
{
    char buffer[2048] __attribute__((aligned(8)));
    int saved = errno,
        folder = raw_openat(AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    unsigned threads = 0;
    bool done = false;
    long bytes = -1;

    memset(cpus, 0, AFFINITY_WORDS * sizeof(cpus[0]));
    while (folder >= 0 && !done && threads <= most &&
           (bytes = raw_call(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0)
        threads += affinity_read(buffer, bytes, cpus, enough, &done);
    if (folder >= 0)
        (void)raw_close(folder);
    errno = saved;
    /* Not to the end, or an error on the way: some thread's CPUs are missing. */
    return done || bytes == 0 ? threads : 0;
}
