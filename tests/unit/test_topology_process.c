/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* timeout: 120 */
/*
 * Processes on simulated machines: how they come to one, and which CPUs their threads are on.
 */
#include "sheaf/slot.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "sheaf/sheaf.h"
#include "slab/cache.h"
#include "support/check.h"
#include "support/slot_look.h"
#include "support/test.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <pthread.h>

static char **arguments;

/* What a report says, into `text`. */
static int report(char *text, size_t size)
{
    FILE *file = tmpfile();
    size_t n;

    if (!file || stook_report(fileno(file), STOOK_REPORT_JSON) != 0)
        return 1;
    rewind(file);
    n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
    return 0;
}

/* ---- how a process comes to it --------------------------------------------------------------- */

static int set_by_call(void *arg)
{
    static char text[64 << 10];
    struct stook_cache *cache;
    const char *why;
    void *object;

    MUST(stook_topology_set(arg) == 0);
    MUST(strcmp(stook_mode(&why), "locked") == 0);
    MUST(strcmp(why, "the topology is simulated") == 0);
    MUST(!percpu.rseq && percpu.rows == 64);
    cache = stook_cache_create("x", 256, NULL);
    MUST(cache && (object = stook_alloc(cache, 0)) != NULL);
    stook_free(cache, object);
    MUST(report(text, sizeof(text)) == 0);
    MUST(strstr(text, "\"mode\": \"locked\", \"mode_why\": \"the topology is simulated\""));
    MUST(strstr(text, "\"cpus_possible\": 64, \"cpus_allowed\": 64, \"cpus_used\": 1, "
                      "\"nodes\": 8"));
    check_all(NULL, 0);
    return 0;
}

TEST(by_call)
{
    char path[600];

    in_child(set_by_call, (void *)(uintptr_t)DOCUMENT);
    snprintf(path, sizeof(path), "%s/ublk.topo", folder);
    in_child(set_by_call, path);
}

static int set_wrong(void *arg)
{
    const char *before = percpu.why, *mode = stook_mode(NULL);
    struct stook_cache *cache;

    MUST(!topology.simulated);
    errno = 0;
    MUST(stook_topology_cpu(0) == -1 && errno == ENOTSUP);
    MUST(stook_topology_set(NULL) == -1 && errno == EINVAL);
    errno = 0;
    MUST(stook_topology_set("node:2\ncore:2 cpus:0=0") == -1 && errno == EINVAL);
    /* It is where it was, and works. */
    MUST(!topology.simulated && percpu.why == before && stook_mode(NULL) == mode);
    cache = stook_cache_create("x", 64, NULL);
    MUST(cache != NULL);
    stook_free(cache, stook_alloc(cache, 0));
    MUST(stook_cache_destroy(cache) == 0);
    return 0;
}

TEST(wrong_text)
{
    static struct child child;

    child_run(&child, set_wrong, NULL);
    assert_true(child_passed(&child));
    assert_non_null(
        strstr(child.error, "stook: topology: line 2, column 8: CPU 0 is in node 0 already"));
}

TEST_IN_CHILD(too_late)
{
    struct stook_cache *cache = stook_cache_create("x", 64, NULL);

    MUST(cache);
    errno = 0;
    MUST(stook_topology_set("node:2") == -1 && errno == EBUSY);
    MUST(stook_cache_destroy(cache) == 0);
    MUST(stook_topology_set("node:2") == -1 && errno == EBUSY); /* slabs were made */
    MUST(!topology.simulated);
    return 0;
}

/* Pages of address space. */
static long address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = -1;

    if (file && fscanf(file, "%ld", &pages) != 1)
        pages = -1;
    if (file)
        fclose(file);
    return pages;
}

/* Before anything is made the last one counts; nothing is left of the others. */
static int set_often(void *arg)
{
    static const char *const texts[] = {DOCUMENT, "node:64", "cpus:5=100 memory:5=1G", "node:2",
                                        "node:16 core:16 smt:2"};
    struct stook_cache *cache;
    long before = 0;
    void *object;

    for (int i = 0; i < 100; i++) {
        MUST(stook_topology_set(texts[i % 5]) == 0);
        if (i == 4)
            before = address_space();
    }
    /* Descriptors of the library's own caches stay; areas and the arena would be much more. */
    MUST(before > 0 && address_space() - before < (64 << 20) / 4096);
    MUST(topology.nodes == 16 && topology.cpus == 512 && percpu.rows == 512);
    MUST(pagemap.zones == 32);
    check_all(NULL, 0);
    MUST((cache = stook_cache_create("x", 64, NULL)) != NULL);
    MUST((object = stook_alloc(cache, 0)) != NULL);
    stook_free(cache, object);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

TEST(the_last_counts)
{
    if (getenv("STOOK_EMULATED"))
        skip(); /* its address space is the emulator's, too */
    in_child(set_often, NULL);
}

/* This program once more, with STOOK_TOPOLOGY. */
static int start_anew(void *value)
{
    setenv("STOOK_TOPOLOGY", value, 1);
    execl("/proc/self/exe", arguments[0], "--environment", (char *)NULL);
    return 99;
}

static int say_topology(void)
{
    const char *why;

    stook_mode(&why);
    dprintf(STDERR_FILENO, "%u nodes, %u CPUs: %s\n", topology.nodes, topology.cpus, why);
    return 0;
}

TEST(by_environment)
{
    static struct child child;
    char path[600];

    if (getenv("STOOK_EMULATED"))
        skip(); /* exec() of this program fails there */
    child_run(&child, start_anew, (void *)(uintptr_t) "node:3 core:7");
    assert_true(child_passed(&child));
    assert_string_equal(child.error, "3 nodes, 21 CPUs: the topology is simulated\n");
    snprintf(path, sizeof(path), "%s/cxl.topo", folder);
    child_run(&child, start_anew, path);
    assert_true(child_passed(&child));
    assert_string_equal(child.error, "4 nodes, 32 CPUs: the topology is simulated\n");
    /* A wrong one is said, and the machine's own is used. */
    child_run(&child, start_anew, (void *)(uintptr_t) "node:3 core:x");
    assert_true(child_passed(&child));
    assert_non_null(
        strstr(child.error, "stook: topology: line 1, column 8: \"x\" is not a number"));
    assert_non_null(strstr(
        child.error, "stook: STOOK_TOPOLOGY=node:3 core:x is ignored: it describes no machine"));
    assert_null(strstr(child.error, "simulated"));
    child_run(&child, start_anew, (void *)(uintptr_t) "");
    assert_true(child_passed(&child));
    assert_null(strstr(child.error, "stook:"));
}

/* ---- threads and CPUs ------------------------------------------------------------------------ */

TEST_IN_CHILD(stated_cpus)
{
    struct stook_cache *cache;
    void *zero, *one;

    MUST(stook_topology_set("node:2 core:2 cpus:1=64 memory:0-1=1G") == 0);
    MUST(stook_topology_cpu(1) == 0); /* the first thread was on the first CPU */
    MUST(stook_topology_cpu(64) == 1);
    errno = 0;
    MUST(stook_topology_cpu(4) == -1 && errno == EINVAL); /* a gap */
    MUST(stook_topology_cpu(-1) == -1 && stook_topology_cpu(65) == -1);
    MUST(stook_topology_cpu(1 << 30) == -1 && errno == EINVAL);
    MUST(percpu_cpu() == 64);
    MUST(stook_topology_cpu(0) == 64);

    /* An object freed on one CPU stays there, and is that CPU's next. */
    MUST((cache = stook_cache_create("x", 256, NULL)) != NULL);
    MUST((zero = stook_alloc(cache, 0)) != NULL);
    stook_free(cache, zero);
    MUST(stook_topology_cpu(1) == 0);
    MUST((one = stook_alloc(cache, 0)) != NULL && one != zero);
    stook_free(cache, one);
    MUST(stook_topology_cpu(0) == 1);
    MUST(stook_alloc(cache, 0) == zero);
    MUST(stook_topology_cpu(1) == 0);
    MUST(stook_alloc(cache, 0) == one);
    stook_free(cache, one);
    stook_free(cache, zero); /* on CPU 1 now */
    MUST(stook_alloc(cache, 0) == zero);
    stook_free(cache, zero);
    MUST(slot_look(percpu_slot(0, percpu_offset(cache->index))) !=
         slot_look(percpu_slot(1, percpu_offset(cache->index))));
    MUST(!percpu_slot(2, 0) && !percpu_slot(64, 0));
    check_all(NULL, 0);
    return 0;
}

enum { CROWD = 6 };

static struct {
    struct stook_cache *cache;
    pthread_barrier_t barrier;
    int cpu[CROWD];
    struct sheaf *sheaf[CROWD];
} crowd;

/* Where a thread is that states a CPU (arg >= 0), or none. */
static void *crowd_thread(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    void *object;

    if (me % 2 == 0)
        stook_topology_cpu((int)(60 - me));
    pthread_barrier_wait(&crowd.barrier);
    object = stook_alloc(crowd.cache, 0);
    pthread_barrier_wait(&crowd.barrier);
    stook_free(crowd.cache, object);
    crowd.cpu[me] = percpu_cpu();
    if (crowd.cpu[me] >= 0)
        crowd.sheaf[me] =
            slot_look(percpu_slot_at(crowd.cpu[me], percpu_offset(crowd.cache->index)));
    return object;
}

TEST_IN_CHILD(threads_in_turn)
{
    pthread_t thread[CROWD];
    unsigned dealt = 0;

    MUST(stook_topology_set(DOCUMENT) == 0);
    MUST(percpu_cpu() == 0);
    MUST((crowd.cache = stook_cache_create("x", 256, NULL)) != NULL);
    MUST(pthread_barrier_init(&crowd.barrier, NULL, CROWD) == 0);
    for (uintptr_t i = 0; i < CROWD; i++)
        MUST(pthread_create(&thread[i], NULL, crowd_thread, (void *)i) == 0);
    for (unsigned i = 0; i < CROWD; i++) {
        void *object;
        MUST(pthread_join(thread[i], &object) == 0 && object);
    }
    for (unsigned i = 0; i < CROWD; i++) {
        if (i % 2 == 0)
            MUST(crowd.cpu[i] == (int)(60 - i));
        else
            dealt |= 1u << crowd.cpu[i];
        MUST(percpu_slot((unsigned)crowd.cpu[i], 0) && crowd.sheaf[i]);
        for (unsigned j = 0; j < i; j++)
            MUST(crowd.cpu[j] != crowd.cpu[i] && crowd.sheaf[j] != crowd.sheaf[i]);
    }
    /* Of the six each asked once for where it was: those that state a CPU had one before. */
    MUST(__builtin_popcount(dealt) == CROWD / 2 && (dealt & ~0x7eu) == 0);
    check_all(NULL, 0);
    return 0;
}

/* A forked child goes on where its parent was. */
TEST_IN_CHILD(forked)
{
    struct stook_cache *cache;
    void *object;
    int status;
    pid_t child;

    MUST(stook_topology_set(DOCUMENT) == 0 && stook_topology_cpu(33) == 0);
    MUST((cache = stook_cache_create("x", 256, NULL)) != NULL);
    MUST((object = stook_alloc(cache, 0)) != NULL);
    child = fork();
    if (child == 0) {
        void *other = stook_alloc(cache, 0);
        bool good = percpu_cpu() == 33 && other && other != object && !percpu.rseq;
        stook_free(cache, other);
        stook_free(cache, object);
        check_all(NULL, 0);
        _exit(good ? 0 : 1);
    }
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stook_free(cache, object);
    check_all(NULL, 0);
    return 0;
}

/* What a CPU holds back leaves with its cache, also if sysfs does not name that CPU, as in some containers. */
static int hold_back(void *machine)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_QUARANTINE};
    struct stook_cache *cache;

    MUST(stook_topology_set(machine) == 0);
    MUST((cache = stook_cache_create("x", 320, &args)) != NULL);
    MUST(stook_topology_cpu(50) >= 0);
    topology.cpus = 1;
    for (unsigned i = 0; i < 100; i++)
        stook_free(cache, stook_alloc(cache, 0));
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

TEST(strange_cpu)
{
    in_child(hold_back, (void *)(uintptr_t) "node:1 core:64");
}

int main(int argc, char **argv)
{
    arguments = argv;
    if (argc > 1 && strcmp(argv[1], "--environment") == 0)
        return say_topology();
    topology_find_folder();
    return tests_run(NULL, NULL);
}
