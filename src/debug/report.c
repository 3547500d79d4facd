/* SPDX-License-Identifier: MIT */
/*
 * report.c - writes a report to standard error and to the file of STOOK_ON_CORRUPTION, each in one write.  The buffers are static
 * and one thread's at a time (report_owner), so that a report needs no memory.
 */
#include "debug/tools.h"
#include "debug/report.h"

#include "text/file.h"
#include "base/grow.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"
#include "base/settings.h"
#include "debug/facts.h"
#include "debug/flags.h"
#include "debug/sentence.h"
#include "slab/wrong.h"

#include <stook/debug.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPORT_TEXT =
        48 << 10,      /* the longest report: three stacks, 800 bytes shown, with room to spare */
    REPORT_FULL = 256, /* reports of a process that are whole; later ones have one line */
    REPORT_PATIENCE = 2000000000, /* ns that a thread waits for one that reports */
    REPORT_NAP = 10 << 20,        /* ns */
};

static _Atomic unsigned long report_count;

/* The thread that reports, by the kernel's number; 0: none. */
static _Atomic uint32_t report_owner;

/* Of that thread. */
static struct {
    struct facts facts;
    struct writer writer;
    size_t used;
    char text[REPORT_TEXT];
} report LARGE_BSS;

/* The file of STOOK_ON_CORRUPTION, which the program may overwrite in its environment. */
static char report_file[PATH_MAX] LARGE_BSS;

unsigned long debug_reports(void)
{
    return atomic_load_explicit(&report_count, memory_order_relaxed);
}

bool debug_goes_on(const struct stook_cache *cache)
{
    if (setting_number(SETTING_ON_CORRUPTION) != 0) /* flags, abort, continue */
        return setting_number(SETTING_ON_CORRUPTION) == 2;
    return cache ? (cache->flags & DEBUG_FLAGS) != 0
                 : debug_flags_everywhere() || debug_flags_large;
}

static bool report_goes_on(const struct debug_finding *finding)
{
    return finding->what == DEBUG_STILL_OUT || finding->done == DEBUG_PASSED ||
           (finding->done != DEBUG_ABORTED && debug_goes_on(finding->cache));
}

FIRST_TEXT bool debug_report_start(void)
{
    const char *file = setting_file(SETTING_ON_CORRUPTION);

    if (!file)
        return true;
    if (strlen(file) >= sizeof(report_file))
        return false;
    strcpy(report_file, file);
    return true;
}

/* One write each, behind what other processes wrote.  A file that cannot be written to is no reason to stop. */
static void report_append(const char *text, size_t size)
{
    int fd;

    if (!*report_file)
        return;
    fd = file_open_write(report_file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0)
        return;
    (void)report_write(fd, text, size);
    (void)raw_close(fd);
}

SECOND_TEXT void debug_report_child(void)
{
    atomic_store_explicit(&report_owner, 0, memory_order_relaxed);
}

/* True: the buffers are this thread's.  False: they are already, and a handler interrupted their use, or another
 * thread has had them for too long. */
static bool report_take(uint32_t self)
{
    uint64_t start = raw_clock();
    uint32_t owner = 0;

    while (!atomic_compare_exchange_strong_explicit(&report_owner, &owner, self,
                                                    memory_order_acquire, memory_order_relaxed)) {
        if (owner == self || raw_clock() - start > REPORT_PATIENCE)
            return false;
        raw_wait(&report_owner, owner, REPORT_NAP);
        owner = 0;
    }
    return true;
}

static void report_drop(void)
{
    atomic_store_explicit(&report_owner, 0, memory_order_release);
    raw_wake(&report_owner, 1);
}

static int report_put(void *context, const char *text, size_t size)
{
    size_t room = sizeof(report.text) - 1 - report.used;

    (void)context;
    if (size > room)
        size = room;
    memcpy(report.text + report.used, text, size);
    report.used += size;
    return 0;
}

static bool report_json(void)
{
    return setting_number(SETTING_REPORT) & 2;
}

/* All of it, by one call. */
static void report_whole(const struct debug_finding *finding, unsigned long number, bool goes_on)
{
    int level = goes_on ? STOOK_MESSAGE_WARNING : STOOK_MESSAGE_FATAL;

    tools_quiet(true); /* bytes are shown that the program has not written yet */
    facts_gather(&report.facts, finding);
    report.facts.number = number;
    report.facts.goes_on = goes_on;
    report.used = 0;
    writer_init_put(&report.writer, report_put, NULL);
    if (report_json())
        form_json(&report.writer, &report.facts);
    else
        form_text(&report.writer, &report.facts);
    (void)writer_finish(&report.writer);
    report_append(report.text, report.used);
    report_lines(level, report.text, report.used);
    tools_quiet(false);
}

/* What needs no buffer but the stack. */
static void report_short(const struct debug_finding *finding)
{
    struct writer w;

    writer_init(&w, -1);
    sentence_write(&w, finding);
    report_warn("%s", w.buffer);
    writer_print(&w, "\n");
    report_append(w.buffer, w.used);
}

__attribute__((cold)) bool debug_report(const struct debug_finding *finding)
{
    unsigned long number = atomic_fetch_add_explicit(&report_count, 1, memory_order_relaxed) + 1;
    uint32_t self = (uint32_t)raw_gettid();
    bool goes_on = report_goes_on(finding), whole = false;
    int saved = errno;

    if (number <= REPORT_FULL || !goes_on)
        whole = report_take(self);
    if (whole)
        report_whole(finding, number, goes_on);
    else
        report_short(finding);
    if (!goes_on)
        abort(); /* the buffers stay taken: other threads' reports wait for the end */
    if (whole)
        report_drop();
    errno = saved;
    return whole;
}

int stook_object_track(const void *object, int which, struct stook_object_track *to)
{
    struct stook_object_track known = {0};
    const struct stook_cache *cache = slab_user_cache(object);
    const struct track_head *head;
    const struct slab *slab;
    struct track track;
    uint32_t index;
    uint64_t now;

    if (!grow_is_sized(to->size) || which < STOOK_TRACK_ALLOC || which > STOOK_TRACK_FREE) {
        errno = EINVAL;
        return -1;
    }
    if (!cache || !wrong_place(object, &slab, &index) ||
        !track_get(cache, slab, index, (enum track_which)which, &track)) {
        errno = ENOENT;
        return -1;
    }
    now = raw_clock();
    head = track_head(cache, slab, index);
    known.requested = head->requested ? head->requested : cache->object_size;
    known.age = now > track.time ? now - track.time : 0;
    known.depth = depot_get(track.stack, known.stack);
    known.thread = (int)track.thread;
    known.cpu = (int)track.cpu;
    grow_write(to, &known, sizeof(known));
    return 0;
}
