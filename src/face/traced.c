/* SPDX-License-Identifier: MIT */
/*
 * traced.c - starts and ends a trace, as the program or STOOK_TRACE asks for it: caches are closed and opened under the
 * cache list's lock.  trace/trace.c records.
 */
#include "face/traced.h"

#include "text/file.h"
#include "base/placed.h"
#include "observe/observe.h"
#include "trace/trace.h"
#include "trace/trace_file.h"
#include "base/context.h"
#include "base/report.h"
#include "watch/exit.h"
#include "watch/settings_show.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "base/raw.h"

#include <stook/debug.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

/* What the environment asks for, of children too; `path` is absolute, and a pattern behind its first `folder` bytes. */
static struct {
    char path[PATH_MAX];
    size_t folder, limit;
    bool each; /* the pattern has %p: each process has a file of its own */
} traced_wish LARGE_BSS;

/* Begins a trace; NULL: ends it. */
static int traced_switch(const char *path, size_t limit)
{
    int error = EINVAL;

    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    if (path)
        error = trace_begin(path, limit);
    else if (trace_end())
        error = 0;
    if (error == 0)
        observe_changed();
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

int stook_trace_start(const char *path, size_t limit)
{
    if (!path || !*path) {
        errno = EINVAL;
        return -1;
    }
    if (!init_once()) {
        errno = ENOMEM;
        return -1;
    }
    return traced_switch(path, limit);
}

int stook_trace_stop(void)
{
    if (!init_once()) {
        errno = EINVAL;
        return -1;
    }
    return traced_switch(NULL, 0);
}

/* ---- what the environment asks for ------------------------------------------------------------ */

static bool traced_begin(void)
{
    size_t folder = traced_wish.folder;
    char path[PATH_MAX];
    int error;

    memcpy(path, traced_wish.path, folder);
    if (exit_expand(traced_wish.path + folder, (int)raw_getpid(), path + folder,
                    sizeof(path) - folder) == 0) {
        report_warn("STOOK_TRACE: the path is too long; this process is not traced");
        return false;
    }
    error = trace_begin(path, traced_wish.limit);
    /* The process that started this one, or started its parent, may have that file. */
    if (error != 0 && (error != EBUSY || traced_wish.each || setting_number(SETTING_PID) != 0))
        report_warn("%s: this process is not traced: %s", path,
                    error == EBUSY ? "another one writes to that file" : file_error(error));
    return error == 0;
}

FIRST_TEXT bool traced_init(void)
{
    const char *file = setting_file(SETTING_TRACE);
    int saved = errno, error;
    bool begun;

    if (!file)
        return false;
    traced_wish.limit = setting_number(SETTING_TRACE) ?: STOOK_TRACE_LIMIT;
    error = trace_file_absolute(file, traced_wish.path, sizeof(traced_wish.path));
    if (error != 0) {
        setting_refuse(SETTING_TRACE, strerror(error));
        return false;
    }
    traced_wish.each = exit_is_numbered(file);
    traced_wish.folder = strlen(traced_wish.path) - strlen(file);
    begun = (traced_wish.each || exit_writes()) && traced_begin();
    errno = saved;
    return begun;
}

SECOND_TEXT void traced_child(bool nested)
{
    int saved = errno;

    if (trace_child() && !nested && !(traced_wish.each && traced_begin()))
        observe_changed();
    errno = saved;
}
