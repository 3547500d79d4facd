/* SPDX-License-Identifier: MIT */
/* modes: default */
/* needs: whole */
/* settings.def and what reads it: values of each type, refusals, unknown names, raised privileges. */
#include "watch/settings_show.h"
#include "sim/sim.h"

#include "base/parse.h"
#include "os/topology.h"
#include "support/must.h"
#include "support/test.h"

#include <stook/stat.h>
#include <stook/debug.h>

#include <signal.h>

/* ---- texts ------------------------------------------------------------------------------------ */

TEST(sizes)
{
    static const struct {
        const char *text;
        size_t size;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1k", 1 << 10},
        {"64M", 64u << 20},
        {"64m", 64u << 20},
        {"2G", (size_t)2 << 30},
        {"007K", 7 << 10},
        {"18446744073709551615", SIZE_MAX},
        {"17179869183G", (size_t)17179869183u << 30},
    };
    static const char *const bad[] = {"",
                                      "M",
                                      " 1",
                                      "1 ",
                                      "-1",
                                      "1MB",
                                      "1.5M",
                                      "0x10",
                                      "12T",
                                      "18446744073709551616",
                                      "17179869184G",
                                      "99999999999999999999999"};
    size_t size;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(parse_size(good[i].text, &size));
        assert_int_equal(size, good[i].size);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size = 17;
        if (parse_size(bad[i], &size) || size != 17)
            fail_msg("\"%s\" passed as a size", bad[i]);
    }
}

TEST(numbers)
{
    static const char *const bad[] = {
        "", "0x", "x1", "-1", "+1", " 1", "1 ", "1K", "12g", "0xg", "18446744073709551616"};
    size_t number = 1;

    assert_true(parse_number("0", &number) && number == 0);
    assert_true(parse_number("010", &number) && number == 10);
    assert_true(parse_number("0xfF", &number) && number == 255);
    assert_true(parse_number("18446744073709551615", &number) && number == SIZE_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse_number(bad[i], &number) || number != SIZE_MAX)
            fail_msg("\"%s\" passed as a number", bad[i]);
}

TEST(signals)
{
    static const char *const bad[] = {"",        "SIG", "usr2", "KILL", "9",
                                      "SIGSTOP", "0",   "65",   "-1",   "USR2 "};

    assert_int_equal(parse_signal("USR2"), SIGUSR2);
    assert_int_equal(parse_signal("SIGVTALRM"), SIGVTALRM);
    assert_int_equal(parse_signal("34"), 34);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse_signal(bad[i]) != 0)
            fail_msg("\"%s\" passed as a signal", bad[i]);
    assert_int_equal(parse_signal("19"), 0); /* SIGSTOP */
}

TEST(types)
{
    static const struct {
        enum setting_id id;
        const char *text;
        long number; /* -1: refused */
    } cases[] = {
        {SETTING_TAGS, "1", 1},
        {SETTING_TAGS, "0", 0},
        {SETTING_TAGS, "yes", -1},
        {SETTING_TAGS, "2", -1},
        {SETTING_PERTURB, "0x55", 0x55},
        {SETTING_PERTURB, "255", 255},
        {SETTING_PERTURB, "256", -1},
        {SETTING_PID, "1", 1},
        {SETTING_PID, "0", -1},
        {SETTING_PID, "2147483648", -1},
        {SETTING_RESERVE, "0", 0},
        {SETTING_RESERVE, "3k", 3072},
        {SETTING_RESERVE, "3 K", -1},
        {SETTING_LIMIT, "0", -1},
        {SETTING_LIMIT, "1", 1},
        {SETTING_ARENA, "16383K", -1},
        {SETTING_ARENA, "16M", 16 << 20},
        {SETTING_ARENA, "4096G", (long)4096 << 30},
        {SETTING_ARENA, "4097G", -1},
        {SETTING_TRACE, "68K,a", 68 << 10},
        {SETTING_TRACE, "69631,a", -1},
        {SETTING_TRACE, "68K,", -1},
        {SETTING_TRACE, ",a", -1},
        {SETTING_TRACE, "a,b", -1},
        {SETTING_TRACE, "./a,b", 0},
        {SETTING_TRACE, "68K", 0}, /* a file */
        {SETTING_HUGE_PAGES, "never", 0},
        {SETTING_HUGE_PAGES, "full", 1},
        {SETTING_HUGE_PAGES, "always", 2},
        {SETTING_HUGE_PAGES, "alwaysx", -1},
        {SETTING_HUGE_PAGES, "never full", -1},
        {SETTING_REPORT, "json", 2},
        {SETTING_REPORT, "1,json", 3},
        {SETTING_REPORT, "js", -1},
        {SETTING_TAGS, "json", -1},
        {SETTING_ON_CORRUPTION, "flags", 0},
        {SETTING_ON_CORRUPTION, "abort", 1},
        {SETTING_ON_CORRUPTION, "continue", 2},
        {SETTING_ON_CORRUPTION, "continue,reports", 2},
        {SETTING_ON_CORRUPTION, "/var/tmp/abort,reports", 0},
        {SETTING_ON_CORRUPTION, "contiune", -1},
        {SETTING_ON_CORRUPTION, "contiune,reports", -1},
        {SETTING_ON_CORRUPTION, "continue,", -1},
        {SETTING_DEBUG, "FZ,trees*;U", 0},
        {SETTING_DEBUG, "FX", -1},
        {SETTING_STATS, "0", STOOK_STATS_OFF},
        {SETTING_STATS, "1", STOOK_STATS_ALL},
        {SETTING_STATS, "slow", STOOK_STATS_SLOW},
        {SETTING_STATS, "2", -1},
        {SETTING_PROFILE, "SIGUSR1,a", SIGUSR1},
        {SETTING_PROFILE, "9,a", -1},
        {SETTING_ISOLATED_CPUS, "0-8191", 0},
        {SETTING_ISOLATED_CPUS, "8192", -1},
        {SETTING_ISOLATED_CPUS, "2-", -1},
        {SETTING_FAIL, "any, text", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t number = 17;
        bool good = setting_check(cases[i].id, cases[i].text, &number);
        if (good != (cases[i].number >= 0) || number != (good ? (size_t)cases[i].number : 17))
            fail_msg("%s=%s: %d, %zu", setting_table[cases[i].id].name, cases[i].text, good,
                     number);
    }
}

/* ---- the table -------------------------------------------------------------------------------- */

TEST(every_row)
{
    char accepted[SETTING_ACCEPTED_MAX];

    for (unsigned i = 0; i < SETTINGS; i++) {
        enum setting_id id = (enum setting_id)i;
        const char *name = setting_table[id].name;
        size_t number;
        assert_true(strnlen(name, 24) < 24 && strnlen(setting_table[id].initial, 8) < 8);
        assert_true(strncmp(name, "STOOK_", 6) == 0 || strcmp(name, "MALLOC_PERTURB_") == 0);
        for (unsigned other = 0; other < i; other++)
            assert_string_not_equal(name, setting_table[other].name);
        if (*setting_table[id].initial)
            assert_true(setting_check(id, setting_table[id].initial, &number));
        memset(accepted, 'x', sizeof(accepted));
        setting_accepted(id, accepted);
        /* It fits: snprintf() has not cut it. */
        assert_true(strnlen(accepted, sizeof(accepted)) < sizeof(accepted) - 1);
    }
}

TEST(same_as_elsewhere)
{
    char accepted[SETTING_ACCEPTED_MAX];
    size_t number;

    setting_accepted(SETTING_PERTURB, accepted);
    assert_string_equal(accepted, "a byte from 0 to 255");
    assert_true(setting_check(SETTING_TRACE, "69632,a", &number) &&
                number == STOOK_TRACE_LIMIT_MIN);
    assert_int_equal(TOPOLOGY_CPUS_MAX, 8192); /* the bound of ISOLATED_CPUS */
}

/* ---- reading an environment, each time in a child whose stderr is caught ----------------------- */

static struct child child;

struct reading {
    const char *environment[12];
    bool secure;
    int (*look)(void);
};

static int read_it(void *arg)
{
    struct reading *reading = arg;

    settings_read((char *const *)(uintptr_t)reading->environment, reading->secure);
    settings_warn();
    settings_warn(); /* says nothing more */
    return reading->look();
}

static const char *said_by(struct reading reading)
{
    child_run(&child, read_it, &reading);
    if (!child_passed(&child))
        fail_msg("the child: status %#x: %s", (unsigned)child.status, child.error);
    return child.error;
}

static int all_defaults(void)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        enum setting_id id = (enum setting_id)i;
        MUST(setting_source(id) == SETTING_BY_DEFAULT && !setting_written(id));
        MUST(setting_number(id) == setting_initial_number(id) && !setting_text(id));
    }
    return 0;
}

static int looks_good(void)
{
    MUST(setting_number(SETTING_RESERVE) == 3 << 20);
    MUST(strcmp(setting_written(SETTING_RESERVE), "3M") == 0);
    MUST(setting_source(SETTING_RESERVE) == SETTING_BY_ENVIRONMENT);
    MUST(setting_number(SETTING_HUGE_PAGES) == 2);
    MUST(strcmp(setting_file(SETTING_TRACE), "a=b") == 0);
    MUST(strcmp(setting_file(SETTING_PROFILE), "c,d") == 0);
    MUST(setting_number(SETTING_ON_CORRUPTION) == 2 && !setting_file(SETTING_ON_CORRUPTION));
    MUST(setting_source(SETTING_TAGS) == SETTING_BY_DEFAULT);
    MUST(setting_number(SETTING_PERTURB) == 165);
    return 0;
}

TEST(values)
{
    assert_string_equal(said_by((struct reading){.look = all_defaults}), "");
    /* The first of two counts, as getenv() finds it; nothing is as if it were not set. */
    assert_string_equal(
        said_by((struct reading){{"STOOK_RESERVE=3M", "STOOK_RESERVE=bad", "STOOK_TRACE=a=b",
                                  "STOOK_PROFILE=USR1,c,d", "STOOK_ON_CORRUPTION=continue",
                                  "STOOK_TAGS=", "STOOK_HUGE_PAGES=always", "STOOKX=1", "STOOK_",
                                  "MALLOC_PERTURB_=165"},
                                 .look = looks_good}),
        "");
}

static int raised(void)
{
    size_t length;

    MUST(!settings_unknown(0, &length));
    return all_defaults();
}

TEST(raised_privileges)
{
    assert_string_equal(said_by((struct reading){{"STOOK_RESERVE=bad", "STOOK_TAGS=1",
                                                  "STOOK_RESEVE=1", "MALLOC_PERTURB_=3"},
                                                 .secure = true,
                                                 .look = raised}),
                        "");
}

static int looks_refused(void)
{
    MUST(setting_number(SETTING_RESERVE) == 32 << 20 && !setting_text(SETTING_RESERVE));
    MUST(strcmp(setting_written(SETTING_RESERVE), "much") == 0);
    MUST(setting_source(SETTING_RESERVE) == SETTING_REFUSED);
    MUST(setting_number(SETTING_LIMIT) == 0 && setting_number(SETTING_MODE) == 0);
    MUST(!setting_text(SETTING_ISOLATED_CPUS));
    MUST(setting_number(SETTING_TRACE) == 0 && !setting_file(SETTING_TRACE));
    return 0;
}

TEST(refusals)
{
    assert_string_equal(
        said_by((struct reading){{"STOOK_RESERVE=much", "STOOK_LIMIT=0", "STOOK_MODE=lockd",
                                  "STOOK_ISOLATED_CPUS=1-", "STOOK_TRACE=1K,a"},
                                 .look = looks_refused}),
        "stook: STOOK_RESERVE=much is ignored: it takes bytes such as 64M (K, M or G may follow); "
        "the default, 32M, is used\n"
        "stook: STOOK_LIMIT=0 is ignored: it takes bytes such as 64M (K, M or G may follow), not 0; "
        "it counts as not set\n"
        "stook: STOOK_MODE=lockd is ignored: it takes rseq or locked; the default, rseq, is used\n"
        "stook: STOOK_ISOLATED_CPUS=1- is ignored: it takes a list of CPUs such as 2-3,8, up to "
        "8191; it counts as not set\n"
        "stook: STOOK_TRACE=1K,a is ignored: it takes [WORD,]FILE; WORD: bytes such as 64M (K, M or "
        "G may follow), at least 68K; it counts as not set\n");
}

static int refuses(void)
{
    MUST(setting_text(SETTING_TRACE));
    setting_refuse(SETTING_TRACE, "it is odd");
    MUST(!setting_text(SETTING_TRACE) && setting_source(SETTING_TRACE) == SETTING_REFUSED);
    return 0;
}

TEST(refused_by_its_user)
{
    assert_string_equal(said_by((struct reading){{"STOOK_TRACE=x"}, .look = refuses}),
                        "stook: STOOK_TRACE=x is ignored: it is odd; it counts as not set\n");
}

static int knows_them(void)
{
    size_t length = 0;
    const char *name = settings_unknown(1, &length);

    MUST(name && length == 9 && strncmp(name, "STOOK_LOG=", 10) == 0);
    MUST(settings_unknown(2, &length) && !settings_unknown(3, &length));
    return 0;
}

static int only_reserve(void)
{
    MUST(setting_source(SETTING_RESERVE) == SETTING_BY_RUN);
    MUST(setting_source(SETTING_LIMIT) == SETTING_BY_ENVIRONMENT);
    return 0;
}

TEST(unknown_names)
{
    assert_string_equal(
        said_by(
            (struct reading){{"STOOK_RESEVE=1", "STOOK_LOG=2", "STOOK_CACHEMAX=3", "STOOK_TEST_X=1",
                              "STOOK_SLOW=1", "STOOK_KERNEL_CACHE=x", "MALLOC_ARENA_MAX=1"},
                             .look = knows_them}),
        "stook: STOOK_RESEVE is no setting: the nearest is STOOK_RESERVE (stook info --settings "
        "lists all)\n"
        "stook: STOOK_LOG is no setting: the nearest is STOOK_MODE (stook info --settings lists "
        "all)\n"
        "stook: STOOK_CACHEMAX is no setting: the nearest is STOOK_CACHED_MAX (stook info "
        "--settings lists all)\n");
    /* What stook run has named is not named again; what its options set is known as such. */
    assert_string_equal(
        said_by((struct reading){{"STOOK_RUN=STOOK_RESEVE,STOOK_RESERVE", "STOOK_RESEVE=1",
                                  "STOOK_RESERVE=1M", "STOOK_LIMIT=1M"},
                                 .look = only_reserve}),
        "");
}

static int simulates(void)
{
    sim_forget_settings();
    MUST(setting_number(SETTING_RESERVE) == 32 << 20 && setting_number(SETTING_TAGS) == 0);
    MUST(!setting_text(SETTING_DEBUG));
    MUST(setting_number(SETTING_MODE) == 0);
    return 0;
}

TEST(simulations)
{
    assert_string_equal(said_by((struct reading){{"STOOK_RESERVE=3M", "STOOK_TAGS=1",
                                                  "STOOK_DEBUG=F", "STOOK_MODE=locked"},
                                                 .look = simulates}),
                        "");
}
