/* SPDX-License-Identifier: MIT */
/*
 * Programs that live long, in minutes: resident over live bytes, hour by hour, and when the work is done.
 *
 *   stook-bench-long drift MIB HOURS SECONDS   a live set of so many MiB, whose sizes change from hour to hour
 *   stook-bench-long mixed MIB HOURS SECONDS   the same with sizes that do not change
 *   stook-bench-long prefork MIB CHILDREN 0    a parent's objects; each child replaces some of them
 *   stook-bench-long trace FILE TIMES SECONDS  a recorded program, again and again
 *
 * Output, in bytes: lines "hour N live resident"; "huge" and all anonymous memory at the last hour; "after live
 * resident" so many seconds after the work, when a sixteenth is live still; "child private shared-out" for prefork.
 * Resident is what the kernel counts by walking the page tables, less what was resident before the first object.
 */
#include "../own/own.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/trace_read.h"

enum { HOUR_TURNS = 2, KEEP = 16 };

struct object {
    unsigned char *at;
    size_t size;
};

static struct object *objects; /* mapped: no malloc has them */
static size_t count, most;
static uint64_t live, resident_before;
static unsigned after_seconds;
static struct own_random randoms = {11};

static void give_up(const char *why)
{
    fprintf(stderr, "stook-bench-long: %s\n", why);
    exit(1);
}

/* A line of /proc/self/smaps_rollup, in bytes.  Without malloc: the file is read by one read(). */
static uint64_t rollup(const char *key)
{
    char text[4096];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    const char *line;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        give_up("/proc/self/smaps_rollup cannot be read");
    text[n] = '\0';
    line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) << 10 : 0;
}

static uint64_t resident(void)
{
    uint64_t now = rollup("Rss:");

    return now > resident_before ? now - resident_before : 0;
}

static void say(const char *text, uint64_t a, uint64_t b)
{
    char line[128];
    int n = snprintf(line, sizeof(line), "%s %llu %llu\n", text, (unsigned long long)a,
                     (unsigned long long)b);

    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        exit(1);
}

static void *map_table(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                    -1, 0);

    if (at == MAP_FAILED)
        give_up("no memory for the table");
    return at;
}

static void object_take(struct object *object, size_t size)
{
    object->at = own_alloc(size);
    object->size = size;
    for (size_t i = 0; i < size; i += 4096)
        object->at[i] = 1;
    object->at[size - 1] = 1;
    live += size;
}

static void object_drop(struct object *object)
{
    live -= object->size;
    free(object->at);
    object->at = NULL;
    object->size = 0;
}

/* ---- a live set ---- */

/* Mostly near a middle that wanders from 24 bytes to some KiB and back; one of 32 anywhere. */
static size_t drift_size(unsigned hour, int drifts)
{
    double log = drifts ? 6.5 + 2.5 * sin(hour * 0.8) : 6.5;
    double spread = (own_below(&randoms, 2001) + own_below(&randoms, 2001)) / 1000.0 - 2;

    if (own_below(&randoms, 32) == 0)
        return own_log_uniform(&randoms, 4, 15);
    return (size_t)exp2(log + spread * 1.2) + 1;
}

static void work(uint64_t bytes, unsigned hours, int drifts)
{
    for (unsigned hour = 0; hour < hours; hour++) {
        char name[24];
        uint64_t taken = 0;
        while (taken < bytes * HOUR_TURNS) {
            size_t size = drift_size(hour, drifts);
            /* As long as it is full, random objects go. */
            while (live + size > bytes || count == most) {
                size_t at = own_below(&randoms, (uint32_t)count);
                object_drop(&objects[at]);
                objects[at] = objects[--count];
            }
            object_take(&objects[count++], size);
            taken += size;
        }
        snprintf(name, sizeof(name), "hour %u", hour + 1);
        say(name, live, resident());
    }
    say("huge", rollup("AnonHugePages:"), rollup("Anonymous:"));
}

static void after(void)
{
    for (size_t i = 0; i < count; i++)
        if (i % KEEP != 0)
            object_drop(&objects[i]);
    sleep(after_seconds);
    say("after", live, resident());
}

static int drift_main(uint64_t mib, unsigned hours, int drifts)
{
    uint64_t bytes = mib << 20;

    most = bytes / 16;
    objects = map_table(most * sizeof(*objects));
    free(own_alloc(100));
    resident_before = rollup("Rss:");
    work(bytes, hours, drifts);
    after();
    return 0;
}

/* ---- children of one parent ---- */

static int prefork_main(uint64_t mib, unsigned children)
{
    uint64_t bytes = mib << 20;
    int go[2], done[2];
    char one;

    most = bytes / 16;
    objects = map_table(most * sizeof(*objects));
    for (; live < bytes; count++)
        object_take(&objects[count], drift_size((unsigned)(count % 24), 1));
    if (pipe(go) != 0 || pipe(done) != 0)
        give_up("no pipe");
    for (unsigned c = 0; c < children; c++) {
        pid_t child = fork();
        if (child < 0)
            give_up("fork");
        if (child > 0)
            continue;
        close(go[1]);
        randoms.state = c + 100;
        for (size_t n = 0; n < count / 20;
             n++) { /* a request's work: objects that come and go, a few stay */
            struct object some[8];
            for (int i = 0; i < 8; i++)
                object_take(&some[i], drift_size((unsigned)(n % 24), 1));
            for (int i = 0; i < 8; i++)
                object_drop(&some[i]);
            if (n % 10 == 0) {
                size_t at = own_below(&randoms, (uint32_t)count);
                object_drop(&objects[at]);
                object_take(&objects[at], drift_size((unsigned)(n % 24), 1));
            }
        }
        if (write(done[1], "d", 1) != 1 || read(go[0], &one, 1) != 0)
            _exit(1);
        say("child", rollup("Private_Dirty:"), rollup("Pss:"));
        _exit(0);
    }
    close(go[0]);
    for (unsigned c = 0; c < children; c++)
        if (read(done[0], &one, 1) != 1)
            give_up("a child ended early");
    close(go[1]); /* all are done: now they look */
    for (unsigned c = 0; c < children; c++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            give_up("a child failed");
    }
    return 0;
}

/* ---- a recorded program ---- */

/* Objects by their recorded address, in a table with open addressing. */
struct played {
    uint64_t address;
    struct object object;
};

static struct played *played;
static size_t played_mask;

static struct played *played_find(uint64_t address)
{
    size_t at = (address * 0x9e3779b97f4a7c15u) >> 20 & played_mask;

    while (played[at].address != 0 && played[at].address != address)
        at = (at + 1) & played_mask;
    return &played[at];
}

static void played_forget(struct played *gap)
{
    size_t at = (size_t)(gap - played), next = at;

    object_drop(&gap->object);
    gap->address = 0;
    for (;;) { /* what was moved on for its sake comes back */
        size_t home;
        next = (next + 1) & played_mask;
        if (played[next].address == 0)
            return;
        home = (played[next].address * 0x9e3779b97f4a7c15u) >> 20 & played_mask;
        if (((next - home) & played_mask) >= ((next - at) & played_mask)) {
            played[at] = played[next];
            played[next].address = 0;
            played[next].object = (struct object){NULL, 0};
            at = next;
        }
    }
}

/*
 * A trace knows the size class of a malloc, not the requested size.  This draws a size above the next smaller class.
 */
static size_t trace_size(const struct trace *trace, const struct trace_event *event)
{
    uint32_t size, below = 0;

    if (event->class == TRACE_LARGE)
        return event->bytes;
    size = trace->class[event->class].size;
    if (strncmp(trace->class[event->class].name, "malloc-", 7) != 0)
        return size;
    for (unsigned i = 0; i < trace->classes; i++)
        if (strncmp(trace->class[i].name, "malloc-", 7) == 0 && trace->class[i].size < size &&
            trace->class[i].size > below)
            below = trace->class[i].size;
    return below + 1 + own_below(&randoms, size - below);
}

static int trace_main(const char *file, unsigned times)
{
    struct trace trace;
    struct trace_event event;
    uint64_t events, hour = 0, n = 0;

    if (!trace_open(&trace, file))
        give_up(trace.error);
    played_mask = 1;
    while (played_mask < trace.summary.allocs * 2 && played_mask < (size_t)1 << 26)
        played_mask *= 2;
    played = map_table(played_mask-- * sizeof(*played));
    events = (trace.summary.allocs + trace.summary.frees) * times;
    resident_before = rollup("Rss:");
    for (unsigned turn = 0; turn < times; turn++) {
        if (!trace_rewind(&trace))
            give_up(trace.error);
        while (trace_next(&trace, &event)) {
            struct played *known = played_find(event.address);
            if (known->address != 0)
                played_forget(known); /* freed, or its free was not recorded */
            if (!event.free) {
                known = played_find(event.address);
                known->address = event.address;
                object_take(&known->object, trace_size(&trace, &event));
            }
            if (++n * 24 / events > hour) {
                char name[24];
                snprintf(name, sizeof(name), "hour %u", (unsigned)++hour);
                say(name, live, resident());
            }
        }
        if (trace.error[0])
            give_up(trace.error);
        for (size_t i = 0; i <= played_mask; i++) /* the program ends */
            while (played[i].address != 0)
                played_forget(&played[i]);
    }
    say("huge", rollup("AnonHugePages:"), rollup("Anonymous:"));
    sleep(after_seconds);
    say("after", live, resident());
    trace_close(&trace);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long a = argc == 5 ? strtoul(argv[2], NULL, 10) : 0,
                  b = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    const char *what = b > 0 ? argv[1] : "";

    after_seconds = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    if (a > 0 && strcmp(what, "drift") == 0)
        return drift_main(a, (unsigned)b, 1);
    if (a > 0 && strcmp(what, "mixed") == 0)
        return drift_main(a, (unsigned)b, 0);
    if (a > 0 && strcmp(what, "prefork") == 0)
        return prefork_main(a, (unsigned)b);
    if (strcmp(what, "trace") == 0)
        return trace_main(argv[2], (unsigned)b);
    fprintf(stderr, "usage: stook-bench-long drift|mixed MIB HOURS SECONDS\n"
                    "       stook-bench-long prefork MIB CHILDREN 0\n"
                    "       stook-bench-long trace FILE TIMES SECONDS\n");
    return 2;
}
