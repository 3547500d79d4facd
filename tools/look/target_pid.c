/* SPDX-License-Identifier: MIT */
/*
 * target_pid.c - a live process: process_vm_readv() and /proc.  The kernel stops no thread of it for that.
 */
#include "look/target.h"
#include "look/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    PID_VECTORS = 1024, /* the kernel's most in one call */
    PID_WORDS = 512,    /* of pagemap, that are read at a time */
};

struct pid {
    int folder; /* in /proc: it stays the process's that it was opened of, whatever its number becomes */
    int pagemap; /* -1: it cannot be read */
    struct pid_part {
        uint64_t begin, end;
    } * own; /* memory that belongs to no file and to this process alone, in the order of addresses */
    size_t owns;
    uint64_t listed; /* target->time when that was read */
};

static int pid_folder(const struct target *target)
{
    return ((const struct pid *)target->own)->folder;
}

/* A file of it; how much of it was read, or -1. */
static ssize_t pid_file(int folder, const char *name, char *text, size_t size)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0, more = 1;

    if (fd < 0)
        return -1;
    watch_begin();
    while ((size_t)n < size - 1 && (more = read(fd, text + n, size - 1 - (size_t)n)) > 0)
        n += more;
    watch_end();
    close(fd);
    text[n] = '\0';
    return more < 0 ? -1 : n;
}

char target_task(int folder, const char *path, unsigned *flags)
{
    char text[1024], state, *end;

    return pid_file(folder, path, text, sizeof(text)) > 0 && (end = strrchr(text, ')')) &&
                   sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u", &state, flags) == 2
               ? state
               : 0;
}

static char pid_state(int folder)
{
    unsigned flags;

    return target_task(folder, "stat", &flags);
}

/* Whether it is a thread of the kernel: they have no memory, as processes that are about to end. */
static bool pid_is_kernel(int folder)
{
    enum { KERNEL_THREAD = 0x200000 }; /* PF_KTHREAD */
    unsigned flags;

    return target_task(folder, "stat", &flags) && (flags & KERNEL_THREAD);
}

static bool pid_alive(struct target *target)
{
    char state = pid_state(pid_folder(target));

    return state != 0 && state != 'Z' && state != 'X';
}

/* A line of `maps`: "begin-end rwxp offset major:minor inode   path". */
static bool pid_parse(char *line, struct target_mapping *m)
{
    char flags[5];
    int path = 0;

    *m = (struct target_mapping){0};
    if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m->begin, &m->end, flags, &m->offset,
               &m->device_major, &m->device_minor, &m->inode, &path) < 7)
        return false;
    m->read = flags[0] == 'r';
    m->write = flags[1] == 'w';
    m->execute = flags[2] == 'x';
    m->shared = flags[3] == 's';
    m->path = path > 0 ? line + path : "";
    return true;
}

/* A line of `smaps` behind that of its mapping. */
static void pid_parse_resident(const char *line, struct target_mapping *m)
{
    uint64_t kib;

    if (sscanf(line, "Rss: %lu", &kib) == 1)
        m->resident = kib << 10;
    else if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
        m->huge = kib << 10;
    else if (strncmp(line, "VmFlags:", 8) == 0)
        m->never_huge = strstr(line, " nh") != NULL;
}

/* Of `maps`, or of `smaps`, where lines follow that of each mapping. */
static bool pid_mappings(struct target *target,
                         bool (*fn)(const struct target_mapping *mapping, void *arg), void *arg,
                         bool resident)
{
    int fd = openat(pid_folder(target), resident ? "smaps" : "maps", O_RDONLY | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct target_mapping mapping = {0}, next;
    char *line = NULL, path[4096 + 32] = ""; /* of the mapping whose lines are read */
    size_t size = 0;
    bool any = false, more = true;

    if (!file)
        return false;
    watch_begin();
    while (more && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!pid_parse(line, &next)) {
            pid_parse_resident(line, &mapping);
            continue;
        }
        more = !any || fn(&mapping, arg);
        any = true;
        mapping = next;
        mapping.path = strncpy(path, next.path, sizeof(path) - 1);
    }
    if (any && more)
        (void)fn(&mapping, arg);
    watch_end();
    free(line);
    fclose(file);
    return any;
}

/* ---- what was never touched -------------------------------------------------------------------- */

static bool pid_list_own(const struct target_mapping *mapping, void *arg)
{
    struct pid *pid = arg;

    if (!mapping->read || mapping->shared || mapping->inode != 0 ||
        strncmp(mapping->path, "[v", 2) == 0)
        return true; /* of [vvar] and [vdso] the kernel has no words */
    pid->own = target_row(pid->own, pid->owns, sizeof(*pid->own));
    pid->own[pid->owns++] = (struct pid_part){mapping->begin, mapping->end};
    return true;
}

static bool pid_is_own(struct target *target, uint64_t page)
{
    struct pid *pid = target->own;
    size_t n;

    if (pid->listed != target->time) {
        pid->owns = 0;
        pid->listed = target->time;
        (void)pid_mappings(target, pid_list_own, pid, false);
    }
    n = target_rows_to(pid->own, pid->owns, begin, page);
    return n > 0 && page < pid->own[n - 1].end;
}

static bool pid_words(struct target *target, uint64_t page, uint64_t *word, size_t n)
{
    return pread(((struct pid *)target->own)->pagemap, word, n * sizeof(*word),
                 (off_t)(page * sizeof(*word))) == (ssize_t)(n * sizeof(*word));
}

/* A file's page may be there for others alone, so it counts as there. */
static void pid_there(struct target *target, const uint64_t *pages, bool *there, size_t n)
{
    uint64_t word[PID_WORDS], size = (uint64_t)sysconf(_SC_PAGESIZE);

    memset(there, 1, n);
    for (size_t i = 0, end; i < n; i = end) {
        uint64_t first = pages[i] / size;
        for (end = i + 1; end < n && pages[end] / size - first < PID_WORDS; end++)
            ;
        if (!target_words(target, first, word, pages[end - 1] / size - first + 1))
            continue;
        for (size_t j = i; j < end; j++)
            there[j] =
                (word[pages[j] / size - first] & TARGET_PRESENT) || !pid_is_own(target, pages[j]);
    }
}

/* ---- reading ---------------------------------------------------------------------------------- */

static size_t pid_read(struct target *target, uint64_t address, void *to, size_t n)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)address, n};
    ssize_t got;

    watch_begin();
    got = process_vm_readv(target->pid, &local, 1, &remote, 1, 0);
    watch_end();
    target->reads++;
    target->read_bytes += got > 0 ? (size_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

/* From page `i` on as many as one call takes; how many were read, and *asked how many were tried. */
static size_t pid_read_some(struct target *target, const uint64_t *pages, char *const *to, size_t i,
                            size_t n, size_t *asked)
{
    static struct iovec local[PID_VECTORS], remote[PID_VECTORS];
    size_t vectors = 0, first = i;
    ssize_t got;

    for (; i < n; i++) {
        if (i > first && pages[i] == pages[i - 1] + TARGET_PAGE &&
            to[i] == to[i - 1] + TARGET_PAGE) {
            local[vectors - 1].iov_len += TARGET_PAGE;
            remote[vectors - 1].iov_len += TARGET_PAGE;
            continue;
        }
        if (vectors == PID_VECTORS)
            break;
        local[vectors] = (struct iovec){to[i], TARGET_PAGE};
        remote[vectors++] = (struct iovec){(void *)(uintptr_t)pages[i], TARGET_PAGE};
    }
    watch_begin();
    got = process_vm_readv(target->pid, local, vectors, remote, vectors, 0);
    watch_end();
    target->reads++;
    target->read_bytes += got > 0 ? (size_t)got : 0;
    *asked = i - first;
    if (got < 0 && errno == ESRCH)
        return SIZE_MAX;
    return got > 0 ? (size_t)got / TARGET_PAGE : 0;
}

static void pid_read_pages(struct target *target, const uint64_t *pages, char *const *to, bool *got,
                           size_t n)
{
    pid_there(target, pages, got, n);
    for (size_t i = 0; i < n;) {
        size_t asked, done, end = i + 1;
        if (!got[i]) {
            memset(to[i], 0, TARGET_PAGE);
            got[i++] = true;
            continue;
        }
        while (end < n && got[end])
            end++;
        done = pid_read_some(target, pages, to, i, end, &asked);
        if (done == SIZE_MAX) {
            memset(got + i, 0, n - i);
            return;
        }
        if (done < asked)
            got[i + done++] = false; /* it cannot be read */
        i += done;
    }
}

static void pid_close(struct target *target)
{
    struct pid *pid = target->own;

    close(pid->folder);
    if (pid->pagemap >= 0)
        close(pid->pagemap);
    free(pid->own);
    free(pid);
}

static const struct target_ops pid_ops = {
    .read = pid_read,
    .read_pages = pid_read_pages,
    .there = pid_there,
    .words = pid_words,
    .mappings = pid_mappings,
    .alive = pid_alive,
    .close = pid_close,
};

/* ---- what to do where the kernel refuses ------------------------------------------------------ */

static const char *pid_user(unsigned uid, char name[64])
{
    const struct passwd *user = getpwuid(uid);

    if (user)
        snprintf(name, 64, "%.60s", user->pw_name);
    else
        snprintf(name, 64, "user %u", uid);
    return name;
}

int target_yama(void)
{
    char text[16];

    return pid_file(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) > 0
               ? atoi(text)
               : 0;
}

static bool pid_say_refused(int folder, int pid, const char *name, struct target_error *error)
{
    char status[4096], who[64], *at;
    unsigned uid = geteuid();
    int yama = target_yama();

    if (pid_file(folder, "status", status, sizeof(status)) > 0 && (at = strstr(status, "\nUid:")))
        uid = (unsigned)strtoul(at + 5, NULL, 10);
    if (yama >= 3)
        return target_fail(error,
                           "no process can look into process %d (%s) before the next boot: "
                           "kernel.yama.ptrace_scope is %d",
                           pid, name, yama);
    if (uid != geteuid() && geteuid() != 0)
        return target_fail(
            error,
            "process %d (%s) is of %s: run stook as that user, or with CAP_SYS_PTRACE (as root)",
            pid, name, pid_user(uid, who));
    if (yama == 1)
        return target_fail(
            error,
            "the kernel does not let you look into process %d (%s): kernel.yama.ptrace_scope is 1.  "
            "Start it with STOOK_VIEW=1, or run stook with CAP_SYS_PTRACE (as root)",
            pid, name);
    if (yama == 2)
        return target_fail(
            error,
            "the kernel does not let you look into process %d (%s): kernel.yama.ptrace_scope is 2.  "
            "Run stook with CAP_SYS_PTRACE (as root)",
            pid, name);
    return target_fail(
        error,
        "the kernel does not let you look into process %d (%s): it has raised privileges, made "
        "itself not dumpable, or is in another user namespace, or a sandbox refuses "
        "process_vm_readv().  Run stook with CAP_SYS_PTRACE (as root)",
        pid, name);
}

static bool pid_refused(int folder, int pid, const char *name, struct target_error *error)
{
    (void)pid_say_refused(folder, pid, name, error);
    error->refused = true;
    return false;
}

static bool pid_first(const struct target_mapping *mapping, void *arg)
{
    *(uint64_t *)arg = mapping->read ? mapping->begin : 0;
    return !mapping->read;
}

/* Whether its memory can be read. */
static bool pid_try(struct target *target, struct target_error *error)
{
    uint64_t address = 0;
    int folder = pid_folder(target);
    char byte, state;

    errno = 0;
    if (!target_for_each_mapping(target, pid_first, &address)) {
        if (errno == EACCES || errno == EPERM)
            return pid_refused(folder, target->pid, target->name, error);
        state = pid_state(folder);
        if (state == 0 || state == 'Z' || state == 'X')
            return target_fail(error, "process %d (%s) has ended", target->pid, target->name);
        if (pid_is_kernel(folder))
            return target_fail(error, "process %d (%s) has no memory: it is a thread of the kernel",
                               target->pid, target->name);
        return target_fail(error, "process %d (%s) ended, or became another program, just now",
                           target->pid, target->name);
    }
    errno = 0;
    if (target_read_now(target, address, &byte, 1, 1))
        return true;
    if (errno == EPERM || errno == EACCES)
        return pid_refused(folder, target->pid, target->name, error);
    if (errno == ENOSYS)
        return target_fail(error, "a sandbox, or this kernel, keeps stook from process_vm_readv()");
    return target_fail(error, "process %d (%s) ended, or became another program, just now",
                       target->pid, target->name);
}

/* The most that was ever resident of it. */
static uint64_t pid_peak(int folder)
{
    char status[4096], *at;

    return pid_file(folder, "status", status, sizeof(status)) > 0 &&
                   (at = strstr(status, "\nVmHWM:"))
               ? strtoull(at + 7, NULL, 10) << 10
               : 0;
}

struct target *target_open_pid(int pid, struct target_error *error)
{
    struct target *target;
    struct pid *own = calloc(1, sizeof(*own));
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d", pid);
    if (own)
        own->folder = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!own || own->folder < 0) {
        free(own);
        (void)target_fail(error, "there is no process %d", pid);
        return NULL;
    }
    own->pagemap = openat(own->folder, "pagemap", O_RDONLY | O_CLOEXEC);
    target = target_new(&pid_ops, own, pid_peak(own->folder));
    target->pid = pid;
    target->live = true;
    if (pid_file(own->folder, "comm", target->name, sizeof(target->name)) > 0)
        target->name[strcspn(target->name, "\n")] = '\0';
    target_clean_text(target->name, sizeof(target->name));
    if (pid_try(target, error))
        return target;
    target_close(target);
    return NULL;
}
