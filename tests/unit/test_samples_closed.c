/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * The bytes in use by the sampled profile, where caches of kmalloc are plain, are traced for a while, or have debug
 * flags (make check-debug).  Without plain caches frees of samples are not seen: the cache's own count is shared out.
 */
#include "kmalloc/kmalloc.h"
#include "sample/sample.h"
#include "sample/shadow.h"

#include "support/check.h"
#include "support/test.h"

#include <stook/kmalloc.h>
#include <stook/stook.h>
#include <stook/stat.h>
#include <stook/debug.h>

#include <fcntl.h>

enum { MEAN = 4 << 10, SIZE = 64, KEPT = 100000, TRACED = 10000, ROUNDS = 10 };

static void *kept[KEPT + TRACED];

/* Objects in use of kmalloc-64, by all of the profile's sites. */
static double live(void)
{
    char path[] = "/tmp/test_samples_closed.XXXXXX", line[8192];
    int fd = mkstemp(path);
    double objects = 0;
    bool ours = false;
    FILE *file;

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stook_profile_write(fd), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    file = fdopen(fd, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        const char *at;
        if (strstr(line, "{\"cache\": "))
            ours = strstr(line, "{\"cache\": \"kmalloc-64\"") != NULL;
        if (ours && (at = strstr(line, "\"live_objects\": ")))
            objects += strtod(at + strlen("\"live_objects\": "), NULL);
    }
    (void)fclose(file);
    return objects;
}

static void check_live(const char *what, double wanted)
{
    double found = live();

    /* Of plain caches about 1600 samples: six of their deviations are 15 %. */
    if (found < wanted * 0.85 - 10 || found > wanted * 1.15 + 10)
        fail_msg("%s: %.0f in use, where %.0f are", what, found, wanted);
}

static void keep(int from, int to)
{
    for (int i = from; i < to; i++)
        assert_non_null(kept[i] = stook_kmalloc(SIZE, STOOK_WAIT));
}

static void let_go(int from, int to)
{
    for (int i = from; i < to; i++)
        stook_free_any(kept[i]);
}

/* However often memory is allocated and freed, what is in use is what was not freed. */
TEST(in_use_does_not_grow)
{
    for (int round = 0; round < ROUNDS; round++) {
        keep(0, KEPT);
        check_live("all", KEPT);
        let_go(0, KEPT);
        check_live("none", 0);
    }
}

/* Sites of both kinds do not count an object twice. */
TEST(traced_for_a_while)
{
    char path[] = "/tmp/test_samples_closed.XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0 && close(fd) == 0);
    keep(0, KEPT);
    assert_int_equal(stook_trace_start(path, STOOK_TRACE_LIMIT), 0);
    keep(KEPT, KEPT + TRACED);
    assert_int_equal(stook_trace_stop(), 0);
    check_live("with the traced ones", KEPT + TRACED);
    let_go(KEPT, KEPT + TRACED);
    check_live("without the traced ones", KEPT);
    let_go(0, KEPT);
    check_live("none", 0);
    assert_int_equal(unlink(path), 0);
}

static int setup(void **unused)
{
    shadow_begin(MEAN);
    stook_kmalloc_doors();
    return 0;
}

int main(void)
{
    return tests_run(setup, NULL);
}
