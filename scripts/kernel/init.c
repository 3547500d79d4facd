/* SPDX-License-Identifier: MIT */
/*
 * init.c - the first and only process of the emulated machine: runs the workloads of /plan and writes
 * what they left to the disk as a tar archive.
 *
 * A line of the plan is a command of /proc/stook: `run NAME ...`, `again NAME` or `follow NAME`.  For
 * the last one /NAME.order is the order to follow.  A run leaves in the archive NAME.status, NAME.order,
 * NAME.counters (when the last call was made) and NAME.end (when CPU 0 has freed what was left).
 * A line `ublk NAME READS [APART]` runs ublk.c instead, and leaves NAME.before-CACHE and NAME.after-CACHE of
 * each cache of bios: they are the kernel's own, and had calls before.
 * `machine` is last: without it the archive is of a machine that did not come to the end.
 */
#define _GNU_SOURCE
#include "ublk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 512, TEXT_MAX = 1 << 20, CHUNK = 1 << 16 };

static int disk = -1;

static void die(const char *what)
{
    printf("stook-init: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

static long uptime(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (long)t.tv_sec;
}

/* ---- the archive ---------------------------------------------------------------------------- */

static void disk_write(const void *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = write(disk, (const char *)bytes + at, size - at);
        if (n <= 0)
            die("the disk");
        at += (size_t)n;
    }
}

static void disk_head(const char *name, size_t size)
{
    char head[BLOCK] = {0};
    unsigned sum = 0;

    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644", 8);
    memcpy(head + 108, "0000000", 8);
    memcpy(head + 116, "0000000", 8);
    snprintf(head + 124, 12, "%011zo", size);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (unsigned i = 0; i < BLOCK; i++)
        sum += (unsigned char)head[i];
    snprintf(head + 148, 7, "%06o", sum);
    disk_write(head, BLOCK);
}

static void disk_pad(size_t size)
{
    static const char zero[BLOCK];

    disk_write(zero, (BLOCK - size % BLOCK) % BLOCK);
}

static void disk_text(const char *name, const char *text)
{
    disk_head(name, strlen(text));
    disk_write(text, strlen(text));
    disk_pad(strlen(text));
}

/* ---- text ----------------------------------------------------------------------------------- */

static char text[TEXT_MAX];
static size_t text_size;

static void text_add(const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text + text_size, TEXT_MAX - text_size, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= TEXT_MAX - text_size)
        die("a text is too long");
    text_size += (size_t)n;
}

/* The contents of a file, one line of them; false: it cannot be read. */
static int text_file(const char *path, const char *before)
{
    char bytes[8192];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes) - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    bytes[n] = 0;
    bytes[strcspn(bytes, "\n")] = 0;
    text_add("%s%s\n", before, bytes);
    return 1;
}

/* All files of the cache's folder, as name:contents. */
static void counters(const char *cache, const char *name)
{
    char path[512], before[300];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/sys/kernel/slab/%s", cache);
    if (!(dir = opendir(path)))
        die(path);
    text_size = 0;
    while ((entry = readdir(dir))) {
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof(path), "/sys/kernel/slab/%s/%s", cache, entry->d_name);
        snprintf(before, sizeof(before), "%s:", entry->d_name);
        text_file(path, before);
    }
    closedir(dir);
    disk_text(name, text);
}

/* ---- a run ---------------------------------------------------------------------------------- */

static void copy_order_in(const char *path)
{
    static char bytes[CHUNK];
    int from = open(path, O_RDONLY), to = open("/proc/stook-order", O_WRONLY);
    ssize_t n;

    if (from < 0 || to < 0)
        die(path);
    while ((n = read(from, bytes, sizeof(bytes))) > 0)
        for (ssize_t at = 0, m; at < n; at += m)
            if ((m = write(to, bytes + at, (size_t)(n - at))) <= 0)
                die("/proc/stook-order");
    close(from);
    close(to);
}

static void copy_order_out(const char *name, unsigned long long records)
{
    static char bytes[CHUNK];
    size_t left = 32 + (size_t)records * 8, size = left;
    int from = open("/proc/stook-order", O_RDONLY);

    disk_head(name, left);
    while (left > 0) {
        ssize_t n = read(from, bytes, sizeof(bytes));
        if (n <= 0)
            die("/proc/stook-order");
        disk_write(bytes, (size_t)n);
        left -= (size_t)n;
    }
    disk_pad(size);
    close(from);
}

static int command(const char *line)
{
    int fd = open("/proc/stook", O_WRONLY);
    ssize_t n;

    if (fd < 0)
        die("/proc/stook");
    n = write(fd, line, strlen(line));
    close(fd);
    return n == (ssize_t)strlen(line) ? 0 : -1;
}

static unsigned long long status(const char *name, long seconds)
{
    unsigned long long records = 0;
    char line[256], file[300];
    FILE *f = fopen("/proc/stook", "r");

    text_size = 0;
    text_add("seconds:%ld\n", seconds);
    while (f && fgets(line, sizeof(line), f)) {
        sscanf(line, "records:%llu", &records);
        text_add("%s", line);
    }
    if (f)
        fclose(f);
    snprintf(file, sizeof(file), "%s.status", name);
    disk_text(file, text);
    return records;
}

static void bios(const char *name, const char *when)
{
    struct dirent *entry;
    DIR *dir = opendir("/sys/kernel/slab");
    char file[600];

    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, "bio-", 4) != 0)
            continue;
        snprintf(file, sizeof(file), "%s.%s-%s", name, when, entry->d_name);
        counters(entry->d_name, file);
    }
    if (dir)
        closedir(dir);
}

static void run_ublk(const char *line)
{
    unsigned long operations, done = 0;
    unsigned apart = 0;
    long began = uptime();
    char name[32], file[64];
    int result;

    if (sscanf(line, "ublk %31s %lu %u", name, &operations, &apart) < 2)
        return;
    bios(name, "before");
    result = ublk_run((unsigned)sysconf(_SC_NPROCESSORS_CONF), 16, apart, operations, &done);
    bios(name, "after");
    printf("stook-init: %s: %d, %lu of %lu reads after %ld s\n", name, result, done, operations,
           uptime() - began);
    fflush(stdout);
    text_size = 0;
    text_add("status:%d\nreads:%lu\nseconds:%ld\n", result, done, uptime() - began);
    snprintf(file, sizeof(file), "%s.status", name);
    disk_text(file, text);
}

static void run(const char *line)
{
    char verb[16], name[32], file[300];
    unsigned long long records;
    long began = uptime();
    int failed;

    if (sscanf(line, "%15s %31s", verb, name) != 2)
        return;
    if (strcmp(verb, "follow") == 0) {
        snprintf(file, sizeof(file), "/%s.order", name);
        copy_order_in(file);
    }
    failed = command(line);
    printf("stook-init: %s: %s after %ld s\n", name, failed ? strerror(errno) : "done",
           uptime() - began);
    fflush(stdout);
    if (failed) {
        status(name, uptime() - began);
        command("drop\n");
        return;
    }
    snprintf(file, sizeof(file), "%s.counters", name);
    counters(name, file);
    command("finish\n");
    snprintf(file, sizeof(file), "%s.end", name);
    counters(name, file);
    records = status(name, uptime() - began);
    snprintf(file, sizeof(file), "%s.order", name);
    copy_order_out(file, records);
    command("drop\n");
}

static void machine(void)
{
    static const char *const files[][2] = {
        {"/proc/version", "version:"},
        {"/sys/devices/system/cpu/online", "cpus:"},
        {"/sys/devices/system/node/online", "nodes:"},
        {"/sys/devices/system/node/has_memory", "memory:"},
    };
    char path[64], before[64];

    text_size = 0;
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        text_file(files[i][0], files[i][1]);
    for (unsigned node = 0; node < 64; node++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
        snprintf(before, sizeof(before), "node%u:", node);
        text_file(path, before);
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/distance", node);
        snprintf(before, sizeof(before), "distance%u:", node);
        text_file(path, before);
    }
    text_add("seconds:%ld\n", uptime());
    disk_text("machine", text);
}

int main(void)
{
    char line[256];
    FILE *plan;

    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("dev", "/dev", "devtmpfs", 0, NULL);
    printf("stook-init: up after %ld s\n", uptime());
    fflush(stdout);
    if ((disk = open("/dev/vda", O_WRONLY)) < 0)
        die("/dev/vda");
    if (!(plan = fopen("/plan", "r")))
        die("/plan");
    while (fgets(line, sizeof(line), plan))
        if (strncmp(line, "ublk ", 5) == 0)
            run_ublk(line);
        else
            run(line);
    machine();
    disk_write((char[2 *BLOCK]){0}, 2 * BLOCK);
    printf("stook-init: all done after %ld s\n", uptime());
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
