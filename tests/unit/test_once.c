/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* wrap: topology_init */
#include "base/init.h"
#include "base/once.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>
#include <stook/stat.h>
#include <stook/topology.h>
#include <stook/debug.h>

#include <pthread.h>
void __real_topology_init(void);
void __wrap_topology_init(void);

static unsigned asked, refused;

static void refuses(bool yes)
{
    asked++;
    refused += yes;
}

/* Within the library's start, as a function of libc's would be that allocates. */
void __wrap_topology_init(void)
{
    __real_topology_init();
    refuses(!init_once());
    refuses(!stook_cache_create("early", 64, NULL) && errno == ENOMEM);
    refuses(!stook_kmalloc(100, 0) && errno == ENOMEM);
    refuses(!stook_kmalloc(100000, 0) && errno == ENOMEM);
    refuses(stook_group_create("early", STOOK_NO_GROUP, 1 << 20).id == 0 && errno == ENOMEM);
    refuses(!stook_cache_by_name("early"));
    refuses(stook_cache_validate(NULL) == -1 && errno == EDEADLK);
    refuses(stook_tags_enable(NULL, 1) == -1 && errno == ENOMEM);
    refuses(stook_topology_update(NULL) == -1 && errno == EDEADLK);
    refuses(stook_topology_set("no machine") == -1 && errno == EBUSY);
    refuses(stook_trace_start("/dev/null", STOOK_TRACE_LIMIT) == -1 && errno == ENOMEM);
    refuses(stook_trace_stop() == -1 && errno == EINVAL);
}

TEST(test_start_comes_back)
{
    struct stook_cache *cache = stook_cache_create("late", 64, NULL);

    assert_int_equal(asked, 12);
    assert_int_equal(refused, asked);
    assert_non_null(cache);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static struct once once;
static unsigned done;

static void *other(void *arg)
{
    if (once_begin(&once)) {
        done += 100;
        once_end(&once);
    }
    return once_is_done(&once) && done == 1 ? arg : NULL;
}

TEST(test_once)
{
    pthread_t thread;
    void *waited;

    assert_true(once_begin(&once));
    assert_int_equal(pthread_create(&thread, NULL, other, &once), 0);
    errno = 5;
    assert_false(once_begin(&once)); /* would wait for itself */
    assert_false(once_is_done(&once));
    assert_int_equal(errno, 5);
    done++;
    once_end(&once);
    assert_int_equal(pthread_join(thread, &waited), 0);
    assert_ptr_equal(waited, &once);
    assert_false(once_begin(&once));
    assert_true(once_is_done(&once));
}
