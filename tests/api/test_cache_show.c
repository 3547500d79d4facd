/* SPDX-License-Identifier: MIT */
/* debug: no */
/* link: sim */
/*
 * stook_cache_show(): the form of every kind of value, to the letter, on the machine
 * of 64 CPUs and 8 nodes of which nodes 1 and 5 have memory.  The documents name all of them.
 */
#define MUST_FAILS abort()
#include "support/must.h"
#include "support/test.h"

#include <stook/stat.h>
#include <stook/stook.h>
#include <stook/topology.h>

#define MACHINE                                                                                    \
    "node:8 core:4 smt:2 memory:1,5=32G distance:0-3=12 distance:4-7=12 distance:0-3/4-7=32"

#define SAYS(name, wanted) must_say(cache, name, wanted, __LINE__)

static struct stook_cache *cache;

static void must_say(struct stook_cache *of, const char *name, const char *wanted, int line)
{
    char text[4096];
    ssize_t n = stook_cache_show(of, name, text, sizeof(text));

    if (n != (int)strlen(wanted) || strcmp(text, wanted) != 0) {
        fprintf(stderr, "line %d: %s says \"%s\" (%zd), not \"%s\"\n", line, name, text, n, wanted);
        abort();
    }
}

static void construct(void *object, void *arg)
{
    memset(object, 0, 8);
}

static void on_cpu(int cpu, unsigned n)
{
    void *objects[64];

    MUST(stook_topology_cpu(cpu) >= 0);
    for (unsigned i = 0; i < n; i++)
        MUST((objects[i] = stook_alloc(cache, 0)) != NULL);
    for (unsigned i = 0; i < n; i++)
        stook_free(cache, objects[i]);
}

/* ---- to the letter ------------------------------------------------------------------------------- */

TEST_IN_CHILD(test_golden)
{
    struct stook_cache_args args = {.size = sizeof(args),
                                    .align = 64,
                                    .sheaf_capacity = 28,
                                    .flags = STOOK_CACHE_HWALIGN,
                                    .ctor = construct};
    char wanted[64];
    void *kept[3];

    MUST(stook_topology_set(MACHINE) == 0);
    cache = stook_cache_create("bio-256", 300, &args);
    MUST(cache);
    SAYS("object_size", "300\n");
    SAYS("slab_size", "320\n");
    SAYS("align", "64\n");
    SAYS("hwcache_align", "1\n");
    SAYS("destroy_by_rcu", "0\n");
    SAYS("sheaf_capacity", "28\n");
    SAYS("statistics", "0\n");
    snprintf(wanted, sizeof(wanted), "0x%llx\n", (unsigned long long)(uintptr_t)construct);
    SAYS("ctor", wanted);
    SAYS("slabs", "0\n");
    SAYS("total_objects", "0\n");
    SAYS("sheaves", "0\n");

    MUST(stook_cache_stat_enable(cache, STOOK_STATS_ALL) == 0);
    SAYS("statistics", "1\n");
    SAYS("alloc_fastpath", "0\n");
    on_cpu(5, 6);  /* node 1 */
    on_cpu(52, 6); /* node 5 */
    SAYS("alloc_slab", "2 C5=1 C52=1\n");
    SAYS("slabs", "2 N1=1 N5=1\n");
    SAYS("alloc_slowpath", "2 C5=1 C52=1\n");
    SAYS("alloc_fastpath", "10 C5=5 C52=5\n");
    SAYS("free_fastpath", "12 C5=6 C52=6\n");
    SAYS("free_slowpath", "0\n");
    SAYS("partial", "2 N1=1 N5=1\n");
    SAYS("empty", "0\n");
    SAYS("active", "0\n");

    on_cpu(52, 3);
    MUST(stook_topology_cpu(5) >= 0);
    MUST(stook_alloc_bulk(cache, 0, 3, kept) == 0);
    SAYS("alloc_cpu_sheaf", "16 C5=8 C52=8\n");
    SAYS("free_cpu_sheaf", "15 C5=6 C52=9\n");
    SAYS("active", "3\n");
    stook_free_bulk(cache, 3, kept);
    MUST(stook_cache_shrink(cache) > 0);
    SAYS("slabs", "0\n");
    SAYS("free_slab", "2 C5=2\n");
    SAYS("sheaf_objects", "0\n");
    MUST(stook_cache_destroy(cache) == 0);

    cache = stook_cache_create("plain", 64, NULL);
    MUST(cache);
    SAYS("ctor", "");
    SAYS("hwcache_align", "0\n");
    MUST(stook_cache_destroy(cache) == 0);
    return 0;
}

/* ---- the environment ----------------------------------------------------------------------------- */

/* The library has started before main() and read it: in a program of its own. */
TEST(test_environment)
{
    static const char *const value[] = {"1", "slow", "0"}, *const says[] = {"1\n", "2\n", "0\n"};
    char path[4096], command[4200], text[16];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    assert_true(n > 0);
    path[n] = '\0';
    if (getenv("STOOK_EMULATED"))
        skip();
    for (unsigned i = 0; i < 3; i++) {
        FILE *out;
        snprintf(command, sizeof(command), "STOOK_STATS=%s TEST_CACHE_SHOW=statistics '%s'",
                 value[i], path);
        out = popen(command, "r");
        assert_non_null(out);
        assert_non_null(fgets(text, sizeof(text), out));
        assert_int_equal(pclose(out), 0);
        assert_string_equal(text, says[i]);
    }
}

static int say(const char *name)
{
    char text[64];

    cache = stook_cache_create("environment", 64, NULL);
    if (!cache || stook_cache_show(cache, name, text, sizeof(text)) <= 0)
        return 1;
    printf("%s", text);
    return 0;
}

/* ---- errors and ends ----------------------------------------------------------------------------- */

TEST(test_ends)
{
    char text[8];

    cache = stook_cache_create("ends", 123456, NULL);
    assert_non_null(cache);
    errno = 0;
    assert_int_equal(stook_cache_show(cache, "no_such_name", text, sizeof(text)), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(stook_cache_show(cache, "", text, sizeof(text)), -1);
    /* Cut as snprintf() does, and never beyond. */
    memset(text, '#', sizeof(text));
    assert_int_equal(stook_cache_show(cache, "object_size", text, 4), 7);
    assert_memory_equal(text, "123\0####", 8);
    assert_int_equal(stook_cache_show(cache, "object_size", text, sizeof(text)), 7);
    assert_string_equal(text, "123456\n");
    assert_int_equal(stook_cache_show(cache, "object_size", text, 7), 7);
    assert_string_equal(text, "123456");
    assert_int_equal(stook_cache_show(cache, "object_size", NULL, 0), 7);
    assert_int_equal(stook_cache_show(cache, "object_size", text, 1), 7);
    assert_string_equal(text, "");
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* docs/statistics.md explains every name. */
TEST(test_documented)
{
    static char text[200000];
    const char *source = getenv("STOOK_SOURCE_DIR");
    char path[4096], quoted[80];
    FILE *file;

    if (!source)
        skip();
    snprintf(path, sizeof(path), "%s/docs/statistics.md", source);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    for (unsigned i = 0; stook_cache_show_name(i); i++) {
        snprintf(quoted, sizeof(quoted), "`%s`", stook_cache_show_name(i));
        if (!strstr(text, quoted))
            print_error("%s is not in docs/statistics.md\n", quoted);
        assert_non_null(strstr(text, quoted));
    }
}

int main(void)
{
    const char *name = getenv("TEST_CACHE_SHOW");

    return name ? say(name) : tests_run(NULL, NULL);
}
