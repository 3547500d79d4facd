/* SPDX-License-Identifier: MIT */
/* debug: no */
/* link: sim */
/*
 * stook_cache_show() and stook_cache_show_json(): the form of every kind of value, to the letter, on the machine
 * of 64 CPUs and 8 nodes of which nodes 1 and 5 have memory.  Both have the same values, and the documents name
 * all of them.
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

    MUST(stook_cache_stat_clear(cache) == 0);
    SAYS("alloc_slab", "0\n");
    on_cpu(52, 3);
    MUST(stook_topology_cpu(5) >= 0);
    MUST(stook_alloc_bulk(cache, 0, 3, kept) == 0);
    SAYS("alloc_cpu_sheaf", "6 C5=3 C52=3\n");
    SAYS("free_cpu_sheaf", "3 C52=3\n");
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

/* ---- both say the same --------------------------------------------------------------------------- */

/* Rebuilds every text of stook_cache_show() from the JSON document. */
static const char compare[] =
    "import json, sys\n"
    "caches = json.load(open(sys.argv[1]))['caches']\n"
    "cache, = [c for c in caches if c['name'] == 'two \"quoted\" words']\n"
    "values = {**cache['attributes'], **cache['counters']}\n"
    "texts = dict(line.rstrip('\\n').split('|') for line in open(sys.argv[2]))\n"
    "assert values.keys() == texts.keys(), values.keys() ^ texts.keys()\n"
    "for name, value in values.items():\n"
    "    text = '' if value is None else str(value)\n"
    "    if isinstance(value, dict):\n"
    "        (letter, parts), = [i for i in value.items() if i[0] != 'sum']\n"
    "        assert sum(parts.values()) == value['sum'], name\n"
    "        text = ' '.join([str(value['sum'])] + [f'{letter}{n}={v}' for n, v in parts.items()])\n"
    "    assert text == texts[name], (name, text, texts[name])\n"
    "assert values['alloc_fastpath']['C'] and values['slabs']['N'] and len(values) > 70\n"
    "assert (len(caches) == 1) == (sys.argv[3] == 'one'), len(caches)\n";

static void write_texts(const char *path)
{
    FILE *file = fopen(path, "w");
    char text[4096];

    MUST(file);
    for (unsigned i = 0; stook_cache_show_name(i); i++) {
        MUST(stook_cache_show(cache, stook_cache_show_name(i), text, sizeof(text)) >= 0);
        text[strcspn(text, "\n")] = '\0';
        fprintf(file, "%s|%s\n", stook_cache_show_name(i), text);
    }
    fclose(file);
}

static int run_compare(void *arg)
{
    struct stook_cache *others[8];
    char base[] = "/tmp/test_cache_show.XXXXXX", texts[64], json[64], script[64], command[256];
    FILE *file;

    MUST(stook_topology_set(MACHINE) == 0);
    MUST(mkdtemp(base));
    snprintf(texts, sizeof(texts), "%s/texts", base);
    snprintf(json, sizeof(json), "%s/json", base);
    snprintf(script, sizeof(script), "%s/compare.py", base);
    MUST((file = fopen(script, "w")) && fputs(compare, file) >= 0 && fclose(file) == 0);
    cache = stook_cache_create("two \"quoted\" words", 320, NULL);
    MUST(cache && stook_cache_stat_enable(cache, STOOK_STATS_ALL) == 0);
    for (unsigned i = 0; i < 8; i++)
        MUST((others[i] = stook_cache_create("other", 100 + i, NULL)) != NULL);
    for (int cpu = 0; cpu < 64; cpu++)
        for (unsigned n = 1; n <= 64; n *= 2)
            on_cpu(cpu, n);
    write_texts(texts);
    for (unsigned all = 0; all < 2; all++) {
        MUST((file = fopen(json, "w")) != NULL);
        MUST(stook_cache_show_json(all ? NULL : cache, fileno(file)) == 0);
        fclose(file);
        snprintf(command, sizeof(command), "python3 %s %s %s %s 1>&2", script, json, texts,
                 all ? "all" : "one");
        MUST(system(command) == 0);
    }
    MUST(unlink(texts) == 0 && unlink(json) == 0 && unlink(script) == 0 && rmdir(base) == 0);
    for (unsigned i = 0; i < 8; i++)
        MUST(stook_cache_destroy(others[i]) == 0);
    MUST(stook_cache_destroy(cache) == 0);
    return 0;
}

TEST(test_json)
{
    if (system("python3 -c '' 2>/dev/null") != 0)
        skip();
    in_child(run_compare, NULL);
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
    errno = 0;
    assert_int_equal(stook_cache_show_json(cache, -1), -1);
    assert_int_equal(errno, EBADF);
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
