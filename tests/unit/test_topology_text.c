/* SPDX-License-Identifier: MIT */
/*
 * Topologies as text: texts that are read, texts that are refused and the place, and the printed form.
 */
#include "base/settings.h"
#include "support/test.h"
#include "support/topology_text.h"

#include <dirent.h>

static bool cpu_on(unsigned cpu, unsigned node)
{
    return topology_has_cpu(&parsed, cpu) && parsed.node_of_cpu[cpu] == node;
}

static uint64_t gib(uint64_t n)
{
    return n << 30;
}

/* ---- what is read ---------------------------------------------------------------------------- */

TEST(the_documents_machine)
{
    good(DOCUMENT);
    assert_int_equal(parsed.cpus, 64);
    assert_int_equal(parsed.allowed_cpus, 64);
    assert_int_equal(parsed.nodes, 8);
    assert_int_equal(parsed.memories, 2);
    assert_int_equal(parsed.online_nodes, 0xff);
    assert_int_equal(parsed.memory_nodes, 1 << 1 | 1 << 5);
    for (unsigned n = 0; n < 8; n++) {
        assert_int_equal(parsed.memory[n], n == 1 || n == 5 ? gib(32) : 0);
        for (unsigned i = 0; i < 4; i++)
            assert_true(cpu_on(4 * n + i, n) && cpu_on(32 + 4 * n + i, n));
        assert_int_equal(parsed.home_of_node[n], n < 4 ? 1 : 5);
        assert_int_equal(parsed.near[n][0], n < 4 ? 1 : 5);
        assert_int_equal(parsed.near[n][1], n < 4 ? 5 : 1);
        for (unsigned m = 0; m < 8; m++)
            assert_int_equal(parsed.distance[n][m], n == m ? 10 : n / 4 == m / 4 ? 12 : 32);
    }
}

TEST(defaults)
{
    good("node:2");
    assert_int_equal(parsed.cpus, 2);
    assert_true(cpu_on(0, 0) && cpu_on(1, 1));
    assert_int_equal(parsed.memory[0], gib(1));
    assert_int_equal(parsed.memory_nodes, 3);
    assert_int_equal(parsed.distance[0][1], 20);
    assert_int_equal(parsed.distance[1][1], 10);
    good("node:2 core:3");
    assert_true(cpu_on(2, 0) && cpu_on(3, 1) && parsed.cpus == 6);
    good("smt:2 node:2"); /* in any order */
    assert_true(cpu_on(0, 0) && cpu_on(1, 1) && cpu_on(2, 0) && cpu_on(3, 1));
    good("node:1 distance:*=20");
    assert_int_equal(parsed.nodes, 1);
}

TEST(numbers_with_gaps)
{
    good("cpus:0=0-3,8 cpus:63=8190-8191 memory:0=1 memory:63=1T cpus:0=5");
    assert_int_equal(parsed.cpus, 8192);
    assert_int_equal(parsed.allowed_cpus, 8);
    assert_int_equal(parsed.nodes, 64);
    assert_int_equal(parsed.online_nodes, (uint64_t)1 << 63 | 1);
    assert_true(cpu_on(8, 0) && cpu_on(5, 0) && cpu_on(8191, 63));
    assert_false(topology_has_cpu(&parsed, 4) || topology_has_cpu(&parsed, 8189));
    assert_int_equal(parsed.memory[0], 1);
    assert_int_equal(parsed.memory[63], gib(1024));
    /* Those of a shape and others beside. */
    good("node:2 core:2 cpus:5=100 cpus:0=50");
    assert_true(cpu_on(3, 1) && cpu_on(100, 5) && cpu_on(50, 0) && parsed.nodes == 6);
}

TEST(memory_without_cpus)
{
    good("node:2 core:2 memory:0=16G memory:2=64G distance:0/2=17 distance:1/0=30 "
         "distance:1/2=25");
    assert_int_equal(parsed.nodes, 3);
    assert_int_equal(parsed.memory_nodes, 5);
    assert_int_equal(parsed.home_of_node[0], 0);
    assert_int_equal(parsed.home_of_node[1], 2); /* it is nearer than node 0 */
    assert_int_equal(parsed.home_of_node[2], 2);
    assert_int_equal(parsed.distance[2][0], 17);
    assert_int_equal(parsed.distance[0][1], 30);
    good("node:2 memory:0=1G memory:1=0");
    assert_int_equal(parsed.memory_nodes, 1);
}

TEST(sizes)
{
    good("node:5 memory:0=7 memory:1=7K memory:2=7M memory:3=7G memory:4=7T");
    for (unsigned node = 0; node < 5; node++)
        assert_int_equal(parsed.memory[node], (uint64_t)7 << 10 * node);
    good("node:1 memory:0=1048576T");
}

TEST(distances)
{
    good(
        "distance:*=40 node:4 distance:0-1=11 distance:0-1/2-3=30 distance:1/2=15"); /* last wins */
    assert_int_equal(parsed.distance[0][1], 11);
    assert_int_equal(parsed.distance[2][3], 40);
    assert_int_equal(parsed.distance[3][0], 30);
    assert_int_equal(parsed.distance[2][1], 15);
    assert_int_equal(parsed.distance[1][2], 15);
    good("cpus:1=0 cpus:4=1 cpus:9=2 distance:1/4=11 distance:1/9=12 distance:4/9=13");
    assert_int_equal(parsed.distance[1][4], 11);
    assert_int_equal(parsed.distance[9][1], 12);
    assert_int_equal(parsed.distance[4][9], 13);
    assert_int_equal(parsed.distance[9][9], 10);
    good("node:3 distance:0/*=50");
    assert_int_equal(parsed.distance[2][0], 50);
    assert_int_equal(parsed.distance[2][1], 20);
    /* Of two that are equally near the lower number is the home. */
    good("node:4 memory:1,3=1G distance:*=30 distance:2/1=12 distance:2/3=12");
    assert_int_equal(parsed.home_of_node[2], 1);
    assert_int_equal(parsed.home_of_node[0], 1);
    good("node:2 distance:*=10"); /* its own all the same */
    assert_int_equal(parsed.home_of_node[1], 1);
}

TEST(white_space)
{
    good("# a comment\n\n\tnode:2 # another: node:3\r\n  core:2#end\nmemory:1=1G# x");
    assert_int_equal(parsed.cpus, 4);
    assert_int_equal(parsed.memory_nodes, 2);
}

TEST(the_largest)
{
    good("node:64 core:64 smt:2");
    assert_int_equal(parsed.cpus, 8192);
    assert_int_equal(parsed.nodes, 64);
    assert_true(cpu_on(8191, 63) && cpu_on(4095, 63) && cpu_on(4096, 0));
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(parsed.near[63][i], i == 0 ? 63 : i - 1);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(wrong_texts)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "line 1, column 1: there is no CPU"},
        {"# nothing", "column 10: there is no CPU"},
        {"nodes:2",
         "column 1: \"nodes:2\" is none of node:, core:, smt:, cpus:, memory:, distance:"},
        {"node:2 nod:3", "column 8: \"nod:3\" is none of"},
        {"node=2", "column 1: \"node=2\" is none of"},
        {"node", "column 1: \"node\" is none of"},
        {"node:", "column 1: \"\" is not a number from 1 to 64"},
        {"node: 2", "column 1: \"\" is not a number"},
        {"node:2,", "column 1: \"2,\" is not a number"},
        {"node:-2", "column 1: \"-2\" is not a number"},
        {"node:\x01", "column 1: \"\x01\" is not a number"},
        {"node:2 \xff", "column 8: \"\xff\" is none of"},
        {"node:0", "column 1: \"0\" is not a number from 1 to 64"},
        {"node:65", "column 1: \"65\" is not a number from 1 to 64"},
        {"node:18446744073709551617", "column 1: \"18446744073709551617\" is not a number"},
        {"node:2 node:2", "column 8: node: is said twice"},
        {"core:4", "column 1: core: and smt: are of each node: node: is missing"},
        {"cpus:0=0 smt:2", "column 10: core: and smt:"},
        {"node:64\ncore:129", "line 2, column 1: these are 8256 CPUs; there can be 8192"},
        {"node:1 core:8193", "column 8: \"8193\" is not a number from 1 to 8192"},
        {"cpus:0=", "column 1: \"\" is not a list of CPUs from 0 to 8191"},
        {"cpus:0", "column 1: \"cpus:0\" has no '='"},
        {"cpus:64=0", "column 1: \"64\" is not a node from 0 to 63"},
        {"cpus:0=8192", "column 1: \"8192\" is not a list of CPUs from 0 to 8191"},
        {"cpus:0=0-8192", "column 1: \"0-8192\" is not a list of CPUs"},
        {"cpus:0=3-1", "column 1: \"3-1\" is not a list of CPUs"},
        {"cpus:0=1,", "column 1: \"1,\" is not a list of CPUs"},
        {"cpus:0=1-", "column 1: \"1-\" is not a list of CPUs"},
        {"cpus:0=1-2-3", "column 1: \"1-2-3\" is not a list of CPUs"},
        {"cpus:0=0-3\n cpus:1=3", "line 2, column 2: CPU 3 is in node 0 already"},
        {"node:2 core:2 cpus:0=3", "column 15: CPU 3 is in node 1 already"},
        {"cpus:0=0 cpus:0=0", "column 10: CPU 0 is in node 0 already"},
        {"memory:0=1G", "column 12: there is no CPU"},
        {"node:2 memory:0=0", "column 18: no node has memory"},
        {"node:2 memory:0=1G memory:2=0", "node 2 has neither CPUs nor memory"},
        {"node:2 memory:0=1G memory:0-1=2G", "column 20: the memory of node 0 is said twice"},
        {"node:2 memory:0=x", "column 8: \"x\" is not a size of memory"},
        {"node:2 memory:0=1X", "column 8: \"1X\" is not a size of memory"},
        {"node:2 memory:0=1GB", "column 8: \"1GB\" is not a size of memory"},
        {"node:2 memory:0=1TB", "column 8: \"1TB\" is not a size of memory"},
        {"node:2 memory:0=9999999T", "column 8: \"9999999T\" is not a size of memory"},
        {"node:2 memory:0=99999999999999999999",
         "column 8: \"99999999999999999999\" is not a size"},
        {"node:2 memory:*=1G", "column 8: \"*\" is not a list of nodes from 0 to 63"},
        {"node:2 memory:0-64=1G", "column 8: \"0-64\" is not a list of nodes from 0 to 63"},
        {"node:2 distance:0-1=9", "column 8: \"9\" is not a distance from 10 to 254"},
        {"node:2 distance:0-1=255", "column 8: \"255\" is not a distance from 10 to 254"},
        {"node:2 distance:0-1=", "column 8: \"\" is not a distance from 10 to 254"},
        {"node:2 distance:0-2=12", "column 8: node 2 is not there"},
        {"node:2 distance:0/2=12", "column 8: node 2 is not there"},
        {"node:2 distance:0=12", "column 8: a distance is between two nodes"},
        {"node:2 distance:1/1=12", "column 8: a distance is between two nodes"},
        {"node:2 distance:0/=12", "column 8: \"\" is not a list of nodes"},
        {"node:2 distance:*", "column 8: \"distance:*\" has no '='"},
        {"node:2 distance:", "column 8: \"distance:\" has no '='"},
        {"node:2 distance:10,20/20,10", "column 8: \"distance:10,20/20,10\" has no '='"},
        {"distance:0-1=12", "column 16: there is no CPU"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (parse(&parsed, wrong[i].text))
            fail_msg("\"%s\" passed", wrong[i].text);
        if (!strstr(error, wrong[i].says) || strncmp(error, "line ", 5) != 0)
            fail_msg("\"%s\": \"%s\", not \"%s\"", wrong[i].text, error, wrong[i].says);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

TEST(printed)
{
    char text[512];

    good(DOCUMENT);
    topology_print(&parsed, text, sizeof(text));
    assert_string_equal(
        text, "cpus:0=0-3,32-35 cpus:1=4-7,36-39 cpus:2=8-11,40-43 cpus:3=12-15,44-47 "
              "cpus:4=16-19,48-51 cpus:5=20-23,52-55 cpus:6=24-27,56-59 cpus:7=28-31,60-63 "
              "memory:1,5=32G distance:0/1-3=12 distance:0/4-7=32 distance:1/2-3=12 "
              "distance:1/4-7=32 distance:2/3=12 distance:2/4-7=32 distance:3/4-7=32 "
              "distance:4/5-7=12 distance:5/6-7=12 distance:6/7=12");
    good("cpus:3=7 memory:0=1536M memory:3=1537");
    topology_print(&parsed, text, sizeof(text));
    assert_string_equal(text, "cpus:3=7 memory:0=1536M memory:3=1537 distance:0/3=20");
    good("node:1");
    topology_print(&parsed, text, sizeof(text));
    assert_string_equal(text, "cpus:0=0 memory:0=1G");
}

/* The machine's own can be printed, and read elsewhere. */
TEST(this_machine)
{
    static char text[128 << 10];

    memset(&topology, 0, sizeof(topology));
    unsetenv("STOOK_TOPOLOGY");
    settings_read(environ, false);
    topology_init();
    assert_false(topology.simulated);
    assert_true(topology_print(&topology, text, sizeof(text)) < sizeof(text));
    good(text);
    assert_int_equal(parsed.cpus, topology.cpus);
    assert_int_equal(parsed.memory_nodes, topology.memory_nodes);
    assert_memory_equal(parsed.possible_cpus, topology.possible_cpus, sizeof(parsed.possible_cpus));
    assert_memory_equal(parsed.home_of_node, topology.home_of_node, topology.nodes);
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST(files_of_the_project)
{
    const char *source = getenv("STOOK_SOURCE_DIR");
    char folder[512], path[1024];
    unsigned n = 0;
    DIR *dir;

    if (!source)
        skip();
    snprintf(folder, sizeof(folder), "%s/topologies", source);
    assert_non_null(dir = opendir(folder));
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".topo") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        memset(&parsed, 0, sizeof(parsed));
        assert_true(topology_text_load(path, &parsed));
        check_parsed(path);
        print_and_parse(path);
        n++;
    }
    closedir(dir);
    assert_true(n >= 8);
    snprintf(path, sizeof(path), "%s/ublk.topo", folder);
    assert_true(topology_text_load(path, &parsed));
    good(DOCUMENT);
    again = parsed;
    assert_true(topology_text_load(path, &parsed));
    assert_memory_equal(&parsed, &again, sizeof(parsed));
}

/* What was there stays when a text or a file is none. */
TEST(files_that_are_none)
{
    char path[] = "/tmp/stook-topology-XXXXXX", *large = calloc(1, TOPOLOGY_TEXT_MAX + 1);
    int fd = mkstemp(path);

    assert_true(fd >= 0 && large);
    good("node:3");
    again = parsed;
    errno = 5;
    assert_false(topology_text_load("/nowhere/at/all", &parsed));
    assert_false(topology_text_load("2 nodes", &parsed));
    assert_false(topology_text_load("node:2 core:x", &parsed));
    assert_int_equal(errno, 5);
    assert_false(topology_text_load("/tmp", &parsed)); /* a folder */
    assert_int_equal(write(fd, "node:2\0", 7), 7);
    assert_false(topology_text_load(path, &parsed)); /* a NUL byte */
    memset(large, '\n', TOPOLOGY_TEXT_MAX);
    assert_int_equal(pwrite(fd, large, TOPOLOGY_TEXT_MAX, 0), TOPOLOGY_TEXT_MAX);
    assert_int_equal(pwrite(fd, "node:2", 6, 0), 6);
    assert_false(topology_text_load(path, &parsed)); /* what follows would be cut */
    assert_memory_equal(&parsed, &again, sizeof(parsed));
    assert_int_equal(ftruncate(fd, TOPOLOGY_TEXT_MAX - 2), 0);
    assert_true(topology_text_load(path, &parsed));
    assert_int_equal(parsed.nodes, 2);
    close(fd);
    unlink(path);
    free(large);
}
