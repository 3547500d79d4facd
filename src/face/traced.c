/* SPDX-License-Identifier: MIT */
#include "face/traced.h"

#include "text/file.h"
#include "base/placed.h"
#include "observe/observe.h"
#include "trace/trace.h"
#include "trace/trace_file.h"
#include "base/context.h"
#include "base/report.h"
#include "watch/settings_show.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "base/raw.h"

#include <stook/trace.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* What the environment asks for, of children too; `path` is absolute. */
static struct {
    char path[PATH_MAX];
    size_t limit;
    bool all;
} traced_wish LARGE_BSS;

int stook_trace_start(const char *path, size_t limit)
{
    int error;

    if (!path || !*path) {
        errno = EINVAL;
        return -1;
    }
    if (!init_once()) {
        errno = ENOMEM;
        return -1;
    }
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    error = trace_begin(path, limit);
    if (error == 0)
        observe_changed();
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

int stook_trace_stop(void)
{
    bool ended;

    if (!init_once()) {
        errno = EINVAL;
        return -1;
    }
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    ended = trace_end();
    if (ended)
        observe_changed();
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (!ended)
        errno = EINVAL;
    return ended ? 0 : -1;
}

/* ---- what the environment asks for ------------------------------------------------------------ */

static bool traced_begin_numbered(void);

/* `named`: the file is this process's. */
static bool traced_begin(const char *path, bool named)
{
    int error = trace_begin(path, traced_wish.limit);

    /* The process that started this one, or started its parent, has that file. */
    if (error == EBUSY && !named)
        return traced_wish.all && traced_begin_numbered();
    if (error != 0)
        report_warn("%s: this process is not traced: %s", path,
                    error == EBUSY ? "another one writes to that file" : file_error(error));
    return error == 0;
}

/* FILE.PID: of processes that are not the first. */
static bool traced_begin_numbered(void)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s.%d", traced_wish.path, (int)raw_getpid());

    if (n <= 0 || (size_t)n >= sizeof(path)) {
        report_warn("STOOK_TRACE: the path is too long; this process is not traced");
        return false;
    }
    return traced_begin(path, true);
}

FIRST_TEXT bool traced_init(void)
{
    const char *file = setting_text(SETTING_TRACE);
    size_t only = setting_number(SETTING_TRACE_PID);
    int saved = errno, error;
    bool begun;

    if (!file)
        return false;
    traced_wish.limit = setting_number(SETTING_TRACE_LIMIT);
    traced_wish.all = setting_number(SETTING_TRACE_ALL);
    error = trace_file_absolute(file, traced_wish.path, sizeof(traced_wish.path));
    if (error != 0) {
        setting_refuse(SETTING_TRACE, strerror(error));
        traced_wish.path[0] = '\0';
        return false;
    }
    if (only == 0 || only == (size_t)raw_getpid())
        begun = traced_begin(traced_wish.path, only != 0);
    else
        begun = traced_wish.all && traced_begin_numbered();
    errno = saved;
    return begun;
}

FIRST_TEXT void traced_child(bool nested)
{
    int saved = errno;

    if (trace_child() && !nested &&
        !(traced_wish.path[0] && traced_wish.all && traced_begin_numbered()))
        observe_changed();
    errno = saved;
}
