/* SPDX-License-Identifier: MIT */
#include "base/parse.h"
#include "os/topology.h"
#include "support/test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

/* ---- lists ---------------------------------------------------------------------------------- */

static uint64_t bits[TOPOLOGY_CPUS_MAX / 64];

static int parse(const char *text)
{
    memset(bits, 0, sizeof(bits));
    return parse_list(text, TOPOLOGY_CPUS_MAX, bits);
}

TEST(lists)
{
    assert_int_equal(parse("0\n"), 0);
    assert_int_equal(bits[0], 1);
    assert_int_equal(parse("0-3"), 3);
    assert_int_equal(bits[0], 0xf);
    assert_int_equal(parse("0-3,8,10-11\n"), 11);
    assert_int_equal(bits[0], 0xd0f);
    assert_int_equal(parse("62-65"), 65); /* across words */
    assert_int_equal(bits[0], (uint64_t)3 << 62);
    assert_int_equal(bits[1], 3);
    assert_int_equal(parse("10,2"), 10); /* the highest need not be last */
    assert_int_equal(parse("8191"), 8191);
    assert_int_equal(parse_list("5-6", TOPOLOGY_CPUS_MAX, NULL), 6);
}

TEST(garbage_is_no_list)
{
    static const char *const garbage[] = {"",     "\n",   "x",    "-1",     "1-",
                                          "3-1",  "1-x",  "1;2",  "1 2",    "1,,2",
                                          ",1",   "0x10", "8192", "0-8192", "99999999999999999999",
                                          "1-2-3"};

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
        if (parse(garbage[i]) != -1)
            fail_msg("\"%s\" passed as a list", garbage[i]);
}

/* ---- a sysfs of our own --------------------------------------------------------------------- */

static char root[] = "/tmp/stook-topology-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void remove_root(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

static int setup(void **unused)
{
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(root));
    topology_root = root;
    return 0;
}

static int teardown(void **unused)
{
    remove_root();
    topology_root = "";
    return 0;
}

static void init(void)
{
    memset(&topology, 0, sizeof(topology));
    errno = 17;
    topology_init();
    assert_int_equal(errno, 17);
}

TEST_WITH(nothing_there, setup, teardown)
{
    init();
    assert_true(topology.cpus >= 1 && topology.cpus <= TOPOLOGY_CPUS_MAX);
    assert_int_equal(topology.nodes, 1);
    assert_int_equal(topology.memory_nodes, 1);
    assert_true(topology.allowed_cpus >= 1);
    assert_int_equal(topology_home(topology.cpus - 1), 0);
}

TEST_WITH(garbage_there, setup, teardown)
{
    put("/sys/devices/system/cpu/possible", "what?\n");
    put("/sys/devices/system/node/online", "none");
    nothing_there(NULL);
}

TEST_WITH(one_node, setup, teardown)
{
    put("/sys/devices/system/cpu/possible", "0-7\n");
    put("/sys/devices/system/node/online", "0\n");
    init();
    assert_int_equal(topology.cpus, 8);
    assert_int_equal(topology.nodes, 1);
}

/* Nodes 0, 2 and 5; CPUs with a gap; node 2 has CPUs and no memory, and is nearer to node 5. */
TEST_WITH(gaps_and_a_memoryless_node, setup, teardown)
{
    put("/sys/devices/system/cpu/possible", "0-3,64-67\n");
    put("/sys/devices/system/node/online", "0,2,5\n");
    put("/sys/devices/system/node/has_memory", "0,5\n");
    put("/sys/devices/system/node/node0/cpulist", "0-1\n");
    put("/sys/devices/system/node/node2/cpulist", "2-3,66\n");
    put("/sys/devices/system/node/node5/cpulist", "64-65,67\n");
    put("/sys/devices/system/node/node2/distance", "30 10 20\n");
    init();
    assert_int_equal(topology.cpus, 68);
    assert_int_equal(topology.nodes, 6);
    assert_int_equal(topology.online_nodes, 0x25);
    assert_int_equal(topology.memory_nodes, 0x21);
    assert_int_equal(topology_node(1), 0);
    assert_int_equal(topology_node(3), 2);
    assert_int_equal(topology_node(66), 2);
    assert_int_equal(topology_node(67), 5);
    assert_int_equal(topology_home(0), 0);
    assert_int_equal(topology_home(66), 5);
    assert_int_equal(topology_home(67), 5);
    assert_int_equal(topology.home_of_node[1], 0); /* not there: anything with memory */
    assert_int_equal(topology.memories, 2);
    assert_true(topology_has_cpu(&topology, 3) && topology_has_cpu(&topology, 67));
    assert_false(topology_has_cpu(&topology, 4) || topology_has_cpu(&topology, 63));
    assert_int_equal(topology_distance(2, 0), 30);
    assert_int_equal(topology_distance(2, 2), TOPOLOGY_LOCAL);
    assert_int_equal(topology_distance(2, 5), 20);
    assert_int_equal(topology_distance(0, 5), TOPOLOGY_FAR); /* no file says it */
    assert_int_equal(topology_distance(0, 0), TOPOLOGY_LOCAL);
    assert_int_equal(topology_near(2, 0), 5);
    assert_int_equal(topology_near(2, 1), 0);
    assert_int_equal(topology_near(5, 0), 5);
    assert_int_equal(topology_near(5, 1), 0);
    put("/sys/devices/system/node/node2/distance", "15 10 20\n");
    init();
    assert_int_equal(topology_home(66), 0);
    put("/sys/devices/system/node/node2/distance", "30"); /* cut short */
    init();
    assert_int_equal(topology_home(66), 0);
    put("/sys/devices/system/node/node2/distance", "");
    init();
    assert_int_equal(topology_home(66), 0);
}

/* Four nodes with memory: their own first whatever the kernel says of others, then by
 * distance, equals by number. */
TEST_WITH(nearest_first, setup, teardown)
{
    static const char *const rows[] = {"10 40 5 30", "20 10 20 20", "99999 12 10 12",
                                       "10 10 10 10"};
    static const unsigned near[4][4] = {{0, 2, 3, 1}, {1, 0, 2, 3}, {2, 1, 3, 0}, {3, 0, 1, 2}};
    char name[64];

    put("/sys/devices/system/node/online", "0-3");
    put("/sys/devices/system/node/has_memory", "0-3");
    for (unsigned node = 0; node < 4; node++) {
        snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", node);
        put(name, rows[node]);
    }
    init();
    assert_int_equal(topology.memories, 4);
    assert_int_equal(topology_distance(2, 0), TOPOLOGY_FAR);
    assert_int_equal(topology_distance(1, 3), 20);
    for (unsigned node = 0; node < 4; node++) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(topology_near(node, i), near[node][i]);
        assert_int_equal(topology.home_of_node[node], node);
    }
}

TEST_WITH(only_node_one, setup, teardown)
{
    put("/sys/devices/system/cpu/possible", "0-1");
    put("/sys/devices/system/node/online", "1");
    put("/sys/devices/system/node/has_memory", "1");
    put("/sys/devices/system/node/node1/cpulist", "1");
    init();
    assert_int_equal(topology.nodes, 2);
    assert_int_equal(topology_home(0), 1); /* a CPU of no node that is there */
    assert_int_equal(topology_home(1), 1);
}

/* A container hides has_memory, or names nodes that are not online. */
TEST_WITH(memory_unknown, setup, teardown)
{
    put("/sys/devices/system/node/online", "0-1");
    put("/sys/devices/system/node/node1/cpulist", "1");
    init();
    assert_int_equal(topology.memory_nodes, 3);
    put("/sys/devices/system/node/has_memory", "7");
    init();
    assert_int_equal(topology.memory_nodes, 3);
    assert_int_equal(topology_home(1), 1);
}

TEST(this_machine)
{
    cpu_set_t set;

    init();
    assert_true(topology.nodes >= 1 && topology.nodes <= TOPOLOGY_NODES_MAX);
    assert_true((topology.memory_nodes & ~topology.online_nodes) == 0 && topology.memory_nodes);
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    assert_int_equal(topology.allowed_cpus, CPU_COUNT(&set));
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        assert_true(topology.memory_nodes >> topology_home(cpu) & 1);
    topology_learn(); /* what a start on one node leaves out */
    assert_true(!topology.by_masks && topology.cpus <= topology.mask_cpus);
    assert_true(topology_has_cpu(&topology, topology.cpus - 1));
    assert_true(sched_getcpu() < (int)topology.cpus);
}
