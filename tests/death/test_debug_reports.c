/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * The report of each kind of finding, made by hand, against golden/report_NAME: a pattern of fnmatch(3).
 * Each is made in a child.  Its standard error is a socket that keeps writes apart: a report is one write.
 * STOOK_TEST_UPDATE=1 prints what is said instead.
 */
#include "debug/facts.h"
#include "debug/report.h"
#include "debug/zone.h"

#include "base/settings.h"

#include <stook/debug.h>
#include <stook/stook.h>

#include <fnmatch.h>
#include <signal.h>
#include <sys/socket.h>

#include "support/golden.h"
#include "support/make.h"
#include "support/test.h"

static const unsigned all_flags = DEBUG_F | DEBUG_Z | DEBUG_P | DEBUG_U;

/* A cache with all flags, of 40 bytes an object; the fourth object, which was freed and allocated again, and whose
 * neighbours are live. */
static struct debug_finding live_object(void)
{
    struct debug_finding f = {.cache = make("trees", 40, all_flags)};
    uint8_t *object = NULL;

    for (int i = 0; i < 4; i++)
        object = stook_alloc((struct stook_cache *)(uintptr_t)f.cache, 0);
    stook_free((struct stook_cache *)(uintptr_t)f.cache, object);
    object = stook_alloc((struct stook_cache *)(uintptr_t)f.cache, 0);
    memset(object, 'o', 40);
    f.object = f.at = object;
    f.slab = slab_find(f.cache, object, &f.index);
    return f;
}

static struct debug_finding free_object_of(struct debug_finding f)
{
    stook_free((struct stook_cache *)(uintptr_t)f.cache, (void *)(uintptr_t)f.object);
    return f;
}

/* Writes bytes; they are what is found. */
static void overwrite(struct debug_finding *f, ptrdiff_t from, const char *text, uint8_t expected)
{
    char *at = (char *)(uintptr_t)f->object + from;

    memcpy(at, text, strlen(text));
    f->at = at;
    f->changed = strlen(text);
    f->expected = expected;
    f->done = DEBUG_RESTORED;
}

/* A report that changes nothing that it shows, so that the library finds it sound afterwards. */
static struct debug_finding finding_of(enum debug_what what)
{
    static struct stook_cache *other;
    struct debug_finding f = live_object();

    f.what = what;
    f.done = DEBUG_REFUSED;
    switch (what) {
    case DEBUG_RIGHT_ZONE:
        overwrite(&f, 40, "12\xcc", ZONE_LIVE);
        break;
    case DEBUG_LEFT_ZONE:
        overwrite(&f, -3, "abc", ZONE_LIVE);
        break;
    case DEBUG_POISON:
        f = free_object_of(f);
        f.what = what;
        overwrite(&f, 38, "xy", POISON_FREE);
        break;
    case DEBUG_LINK:
        f.value = 0x7777;
        f.objects = slab_objects(f.cache, f.slab->state);
        f.done = DEBUG_QUARANTINED;
        break;
    case DEBUG_COLUMN:
        f.text = "owner";
        f.done = DEBUG_RESTORED;
        break;
    case DEBUG_COUNT:
        f.value = 5;
        f.objects = 4;
        f.done = DEBUG_ACCEPTED;
        break;
    case DEBUG_INTERIOR:
        f.at = (const char *)f.object + 7;
        break;
    case DEBUG_WRONG_CACHE:
        other = make("leaves", 40, all_flags);
        f.cache = other;
        break;
    case DEBUG_SIZE:
        f.value = 48;
        break;
    case DEBUG_MISMATCH:
        f.text = "allocated by malloc, freed by operator delete[]";
        break;
    case DEBUG_DESTROYED:
        f.object = NULL;
        f.slab = NULL;
        f.call = "stook_alloc";
        break;
    case DEBUG_REALLOC_FREED:
        f = free_object_of(f);
        f.what = what;
        f.call = "krealloc";
        break;
    case DEBUG_FOREIGN:
    case DEBUG_NO_OBJECT:
    case DEBUG_AT_ONCE:
        f = (struct debug_finding){
            .what = what, .done = DEBUG_REFUSED, .at = &other, .call = "free"};
        break;
    case DEBUG_LIBRARY:
        f = (struct debug_finding){.what = what,
                                   .done = DEBUG_REFUSED,
                                   .at = f.cache,
                                   .call = "free",
                                   .text = "stook-cache"};
        break;
    default:
        break;
    }
    return f;
}

/* Restores what was written, so that nothing else finds it. */
static void restore(const struct debug_finding *f)
{
    if (f->what <= DEBUG_POISON)
        memset((void *)(uintptr_t)f->at, f->expected, f->changed);
}

/* ---- in a child ------------------------------------------------------------------------------ */

struct said {
    char text[64 << 10];
    unsigned writes;
    int status;
};

static void run(struct said *said, int (*body)(enum debug_what), enum debug_what what,
                const char *setting)
{
    char *environment[] = {(char *)(uintptr_t)setting, NULL};
    size_t got = 0;
    int ends[2];
    ssize_t n;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        settings_read(environment, false);
        _exit(body(what));
    }
    close(ends[1]);
    said->writes = 0;
    while ((n = recv(ends[0], said->text + got, sizeof(said->text) - 1 - got, 0)) > 0) {
        got += (size_t)n;
        said->writes++;
    }
    said->text[got] = '\0';
    close(ends[0]);
    if (waitpid(pid, &said->status, 0) != pid)
        abort();
}

static int report_one(enum debug_what what)
{
    struct debug_finding f = finding_of(what);
    unsigned long before = debug_reports();

    errno = 17;
    if (!debug_report(&f) || errno != 17 || debug_reports() != before + 1)
        return 1;
    restore(&f);
    return 0;
}

static unsigned compare(const char *prefix, const char *name, const struct said *said)
{
    char golden[16384], file[128];

    if (getenv("STOOK_TEST_UPDATE")) {
        printf("%s_%s: %s", prefix, name, said->text);
        return 0;
    }
    snprintf(file, sizeof(file), "%s_%s", prefix, name);
    golden_read("", file, golden, sizeof(golden));
    if (said->writes == 1 && WIFEXITED(said->status) && WEXITSTATUS(said->status) == 0 &&
        fnmatch(golden, said->text, 0) == 0)
        return 0;
    printf("%s_%s: status %#x, %u writes\nwanted: %sgot:    %s", prefix, name,
           (unsigned)said->status, said->writes, golden, said->text);
    return 1;
}

TEST(each_kind)
{
    static struct said said;
    unsigned failed = 0;

    for (unsigned what = 0; what < DEBUG_WHATS; what++) {
        run(&said, report_one, (enum debug_what)what, "STOOK_ON_CORRUPTION=continue");
        failed += compare("report", facts_name((enum debug_what)what), &said);
    }
    assert_int_equal(failed, 0);
}

/* What the last check of a slab finds, which goes with its cache and is no slab's memory to others any more. */
static int gone_with_slab(enum debug_what what)
{
    struct stook_cache *cache = make("trees", 40, all_flags);
    char *object = stook_alloc(cache, 0);

    stook_free(cache, object);
    object[what == DEBUG_RIGHT_ZONE ? 40 : what == DEBUG_LEFT_ZONE ? -1 : 3] = 'w';
    return stook_cache_destroy(cache) == 0 && debug_reports() == 1 ? 0 : 1;
}

TEST(with_their_slab)
{
    static const enum debug_what some[] = {DEBUG_RIGHT_ZONE, DEBUG_LEFT_ZONE, DEBUG_POISON};
    static struct said said;
    unsigned failed = 0;

    for (unsigned i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        run(&said, gone_with_slab, some[i], "STOOK_ON_CORRUPTION=continue");
        failed += compare("report_gone", facts_name(some[i]), &said);
    }
    assert_int_equal(failed, 0);
}

TEST(as_json)
{
    static const enum debug_what some[] = {DEBUG_RIGHT_ZONE, DEBUG_DOUBLE_FREE, DEBUG_FOREIGN};
    static struct said said;
    unsigned failed = 0;

    for (unsigned i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        run(&said, report_one, some[i], "STOOK_REPORT=json");
        if (some[i] == DEBUG_FOREIGN) { /* of no cache that goes on */
            assert_true(WIFSIGNALED(said.status) && WTERMSIG(said.status) == SIGABRT);
            said.status = 0;
        }
        failed += compare("json", facts_name(some[i]), &said);
        assert_ptr_equal(strchr(said.text, '\n'), said.text + strlen(said.text) - 1);
    }
    assert_int_equal(failed, 0);
}

/* ---- what follows it -------------------------------------------------------------------------- */

static const struct {
    const char *setting;
    unsigned flags;
    bool goes_on;
} policies[] = {
    {"", 0, false},
    {"", DEBUG_F, true},
    {"STOOK_ON_CORRUPTION=abort", DEBUG_F, false},
    {"STOOK_ON_CORRUPTION=continue", 0, true},
};
static unsigned policy;

static int one_policy(enum debug_what what)
{
    struct debug_finding f = {
        .what = what, .done = DEBUG_REFUSED, .cache = make("policy", 40, policies[policy].flags)};

    f.at = stook_alloc((struct stook_cache *)(uintptr_t)f.cache, 0);
    (void)debug_report(&f);
    f.done = DEBUG_ABORTED; /* whatever the setting says */
    if (what == DEBUG_DOUBLE_FREE && policies[policy].goes_on)
        (void)debug_report(&f);
    return 0;
}

TEST(aborts_or_goes_on)
{
    static struct said said;

    for (policy = 0; policy < sizeof(policies) / sizeof(policies[0]); policy++) {
        run(&said, one_policy, DEBUG_DOUBLE_FREE, policies[policy].setting);
        assert_true(WIFSIGNALED(said.status) && WTERMSIG(said.status) == SIGABRT);
        assert_int_equal(said.writes, policies[policy].goes_on ? 2 : 1);
        run(&said, one_policy, DEBUG_STILL_OUT, policies[policy].setting);
        assert_true(WIFEXITED(said.status) && WEXITSTATUS(said.status) == 0);
        assert_int_equal(said.writes, 1);
    }
}

/* ---- while it is made ------------------------------------------------------------------------- */

static unsigned heard, nested;

/* A program's own log frees what it must not: a finding comes up while this thread reports. */
static void hear(int level, const char *text, size_t length, void *arg)
{
    struct debug_finding f = {.what = DEBUG_FOREIGN, .done = DEBUG_REFUSED, .at = &heard};

    if (strlen(text) != length || strncmp(text, "BUG", 3) != 0 || text[length - 1] == '\n')
        _exit(7);
    heard += level == STOOK_MESSAGE_WARNING;
    if (heard == 1) {
        nested += !debug_report(&f);
        nested += strchr(text, '\n') != NULL; /* the first one is still whole */
    }
}

static int nest(enum debug_what what)
{
    struct debug_finding f = finding_of(what);

    stook_message_set(hear, NULL);
    if (!debug_report(&f))
        return 1;
    restore(&f);
    if (heard != 2 || nested != 2 || debug_reports() != 2)
        return 2;
    return debug_report(&f) && heard == 3 ? 0 : 3; /* the buffers are free again */
}

TEST(nested_ones)
{
    static struct said said;

    run(&said, nest, DEBUG_RIGHT_ZONE, "STOOK_ON_CORRUPTION=continue");
    assert_true(WIFEXITED(said.status));
    assert_int_equal(WEXITSTATUS(said.status), 0);
    assert_int_equal(said.writes, 0);
}

/* After many of them a report has one line, and each is counted. */
static unsigned whole, all;

static void count(int level, const char *text, size_t length, void *arg)
{
    whole += strchr(text, '\n') != NULL;
    all++;
}

static int flood(enum debug_what what)
{
    struct debug_finding f = finding_of(what);

    stook_message_set(count, NULL);
    for (unsigned i = 0; i < 300; i++)
        (void)debug_report(&f);
    return debug_reports() == 300 && all == 300 && whole == 256 ? 0 : 1;
}

TEST(many)
{
    static struct said said;

    run(&said, flood, DEBUG_DESTROYED, "STOOK_ON_CORRUPTION=continue");
    assert_true(WIFEXITED(said.status));
    assert_int_equal(WEXITSTATUS(said.status), 0);
}
