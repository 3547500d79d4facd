/* SPDX-License-Identifier: MIT */
/* debug: no */
/* STOOK_STATS of the environment, and docs/statistics.md, which names every counter. */
#include "support/test.h"

#include <stook/stat.h>
#include <stook/stook.h>

/* ---- the environment ----------------------------------------------------------------------------- */

/* The library has started before main() and read it: in a program of its own. */
TEST(test_environment)
{
    static const char *const value[] = {"1", "slow", "0"}, *const says[] = {"1 slabs, 1 fast\n",
                                                                            "1 slabs, 0 fast\n",
                                                                            "0 slabs, 0 fast\n"};
    char path[4096], command[4200], text[32];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    assert_true(n > 0);
    path[n] = '\0';
    if (getenv("STOOK_EMULATED"))
        skip();
    for (unsigned i = 0; i < 3; i++) {
        FILE *out;
        snprintf(command, sizeof(command), "STOOK_STATS=%s TEST_CACHE_STAT=1 '%s'", value[i], path);
        out = popen(command, "r");
        assert_non_null(out);
        assert_non_null(fgets(text, sizeof(text), out));
        assert_int_equal(pclose(out), 0);
        assert_string_equal(text, says[i]);
    }
}

static int say(void)
{
    struct stook_stat stat = {.size = sizeof(stat)};
    struct stook_cache *cache = stook_cache_create("environment", 64, NULL);
    void *object = cache ? stook_alloc(cache, 0) : NULL;

    if (!object)
        return 1;
    stook_free(cache, object);
    if (stook_cache_stat(cache, &stat) != 0)
        return 1;
    printf("%d slabs, %d fast\n", (int)stat.alloc_slab, (int)stat.free_fastpath);
    return 0;
}

/* ---- documents ----------------------------------------------------------------------------------- */

TEST(test_documented)
{
    static const char *const names[] = {
#define NAME(name, what) "`" #name "`",
        STOOK_STAT_EVENTS(NAME)
#undef NAME
    };
    static char text[200000];
    const char *source = getenv("STOOK_SOURCE_DIR");
    char path[4096];
    FILE *file;

    if (!source)
        skip();
    snprintf(path, sizeof(path), "%s/docs/statistics.md", source);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strstr(text, names[i]))
            print_error("%s is not in docs/statistics.md\n", names[i]);
        assert_non_null(strstr(text, names[i]));
    }
}

int main(void)
{
    return getenv("TEST_CACHE_STAT") ? say() : tests_run(NULL, NULL);
}
