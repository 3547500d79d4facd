/* SPDX-License-Identifier: MIT */
#include "cache/traced.h"

#include "base/large_bss.h"
#include "account/account.h"
#include "account/trace.h"
#include "account/trace_file.h"
#include "base/context.h"
#include "base/report.h"
#include "cache/cache_list.h"
#include "cache/init.h"
#include "cache/private.h"
#include "os/os.h"
#include "slab/stat.h"

#include <stook/trace.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the environment asks for, of children too; `path` is absolute. */
static struct {
    char path[PATH_MAX];
    size_t limit;
    bool all;
} traced_wish LARGE_BSS;

/* Every cache's calls go by the hooks, or no more.  Under the cache list's lock. */
static void traced_close(bool close)
{
    cache_list.traced = close;
    account_large_switch(CACHE_CLOSED_TRACE, close);
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *each = LIST_ENTRY(l, struct stook_cache, link);
        if (!(each->flags & CACHE_INTERNAL))
            stat_close(each, CACHE_CLOSED_TRACE, close);
    }
    accounted_tell_malloc();
}

int stook_trace_start(const char *path, size_t limit)
{
    int error;

    if (!path || !*path) {
        errno = EINVAL;
        return -1;
    }
    init_once();
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    error = trace_begin(path, limit);
    if (error == 0)
        traced_close(true);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (error != 0)
        errno = error;
    return error == 0 ? 0 : -1;
}

int stook_trace_stop(void)
{
    bool ended;

    init_once();
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    ended = trace_end();
    if (ended)
        traced_close(false);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (!ended)
        errno = EINVAL;
    return ended ? 0 : -1;
}

/* ---- what the environment asks for ------------------------------------------------------------ */

static bool traced_numbered(char *path, size_t size)
{
    int n = snprintf(path, size, "%s.%d", traced_wish.path, (int)getpid());

    return n > 0 && (size_t)n < size;
}

static bool traced_begin(const char *path)
{
    int error = trace_begin(path, traced_wish.limit);

    if (error != 0)
        report_warn("%s: this process is not traced: %s", path,
                    error == EBUSY ? "another one writes to that file" : strerror(error));
    return error == 0;
}

/* FILE.PID: of processes that are not the first. */
static bool traced_begin_numbered(void)
{
    char path[PATH_MAX];

    if (!traced_numbered(path, sizeof(path))) {
        report_warn("STOOK_TRACE: the path is too long");
        return false;
    }
    return traced_begin(path);
}

static bool traced_begin_first(bool named)
{
    int error;

    if (named)
        return traced_begin(traced_wish.path);
    error = trace_begin(traced_wish.path, traced_wish.limit);
    if (error == 0)
        return true;
    /* The one that started us, or started it, has that file. */
    if (error == EBUSY)
        return traced_wish.all && traced_begin_numbered();
    report_warn("%s: this process is not traced: %s", traced_wish.path, strerror(error));
    return false;
}

void traced_init(void)
{
    const char *file = os_getenv("STOOK_TRACE"), *limit = os_getenv("STOOK_TRACE_LIMIT");
    const char *only = os_getenv("STOOK_TRACE_PID"), *all = os_getenv("STOOK_TRACE_ALL");
    int saved = errno, error;
    bool begun;

    if (!file || !*file)
        return;
    traced_wish.limit = STOOK_TRACE_LIMIT;
    traced_wish.all = all && strcmp(all, "1") == 0;
    error = trace_file_absolute(file, traced_wish.path, sizeof(traced_wish.path));
    if (error != 0) {
        report_warn("STOOK_TRACE=%s: this process is not traced: %s", file, strerror(error));
        traced_wish.path[0] = '\0';
        return;
    }
    if (limit &&
        (!os_parse_size(limit, &traced_wish.limit) || traced_wish.limit < STOOK_TRACE_LIMIT_MIN)) {
        report_warn("STOOK_TRACE_LIMIT=%s is no size such as 512M, from %zu on: it is 1G", limit,
                    STOOK_TRACE_LIMIT_MIN);
        traced_wish.limit = STOOK_TRACE_LIMIT;
    }
    if (!only || strtol(only, NULL, 10) == (long)getpid())
        begun = traced_begin_first(only != NULL);
    else
        begun = traced_wish.all && traced_begin_numbered();
    if (begun)
        account_large_switch(CACHE_CLOSED_TRACE,
                             true); /* caches are made after this: cache_boot() */
    errno = saved;
}

void traced_child(bool nested)
{
    int saved = errno;

    if (trace_child() && !nested &&
        !(traced_wish.path[0] && traced_wish.all && traced_begin_numbered()))
        traced_close(false);
    errno = saved;
}
