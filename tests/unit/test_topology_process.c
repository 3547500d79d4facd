/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Processes on simulated machines: how they come to one, which CPUs their threads are on, and on
 * whose node their objects are.  Each case is a child of its own: a process has one topology.
 */
#include "os/percpu.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "sheaf/sheaf.h"
#include "slab/cache.h"
#include "support/check.h"
#include "support/child.h"
#include "support/random.h"

#include <stook/stook.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DOCUMENT "node:8 core:4 smt:2 memory:1,5=32G distance:*=32 distance:0-3=12 distance:4-7=12"

static char **arguments;
static char folder[512]; /* of the project's topologies */

/* In a child: cmocka's assertions belong to the parent. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void in_child(int (*body)(void *arg), void *arg)
{
    static struct child child;

    child_run(&child, body, arg);
    assert_true(child_passed(&child));
}

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

static void by_call(void **unused)
{
    char path[600];

    (void)unused;
    in_child(set_by_call, (void *)(uintptr_t)DOCUMENT);
    snprintf(path, sizeof(path), "%s/ublk.topo", folder);
    in_child(set_by_call, path);
}

static int set_wrong(void *arg)
{
    const char *before = percpu.why, *mode = stook_mode(NULL);
    struct stook_cache *cache;

    (void)arg;
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

static void wrong_text(void **unused)
{
    static struct child child;

    (void)unused;
    child_run(&child, set_wrong, NULL);
    assert_true(child_passed(&child));
    assert_non_null(
        strstr(child.error, "stook: topology: line 2, column 15: CPU 0 is in node 0 already"));
}

static int set_late(void *arg)
{
    struct stook_cache *cache = stook_cache_create("x", 64, NULL);

    (void)arg;
    MUST(cache);
    errno = 0;
    MUST(stook_topology_set("node:2") == -1 && errno == EBUSY);
    MUST(stook_cache_destroy(cache) == 0);
    MUST(stook_topology_set("node:2") == -1 && errno == EBUSY); /* slabs were made */
    MUST(!topology.simulated);
    return 0;
}

static void too_late(void **unused)
{
    (void)unused;
    in_child(set_late, NULL);
}

/* Before anything is made the last one counts; nothing is left of the others. */
static int set_often(void *arg)
{
    static const char *const texts[] = {DOCUMENT, "node:64", "cpus:5=100 memory:5=1G", "node:2",
                                        "node:16 core:16 smt:2"};
    struct stook_cache *cache;
    void *object;

    (void)arg;
    for (int i = 0; i < 100; i++)
        MUST(stook_topology_set(texts[i % 5]) == 0);
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

static void the_last_counts(void **unused)
{
    (void)unused;
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

static void by_environment(void **unused)
{
    static struct child child;
    char path[600];

    (void)unused;
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
    assert_non_null(strstr(child.error, "stook: topology: line 1, column 13: a number is"));
    assert_non_null(strstr(child.error, "stook: STOOK_TOPOLOGY is no topology"));
    assert_null(strstr(child.error, "simulated"));
    child_run(&child, start_anew, (void *)(uintptr_t) "");
    assert_true(child_passed(&child));
    assert_null(strstr(child.error, "stook:"));
}

/* ---- threads and CPUs ------------------------------------------------------------------------ */

static int state_cpus(void *arg)
{
    struct stook_cache *cache;
    void *zero, *one;

    (void)arg;
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
    MUST(percpu_slot(0, percpu_offset(cache->index))->held !=
         percpu_slot(1, percpu_offset(cache->index))->held);
    MUST(!percpu_slot(2, 0) && !percpu_slot(64, 0));
    check_all(NULL, 0);
    return 0;
}

static void stated_cpus(void **unused)
{
    (void)unused;
    in_child(state_cpus, NULL);
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
        crowd.sheaf[me] = percpu_slot_at(crowd.cpu[me], percpu_offset(crowd.cache->index))->held;
    return object;
}

static int run_crowd(void *arg)
{
    pthread_t thread[CROWD];
    unsigned dealt = 0;

    (void)arg;
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

static void threads_in_turn(void **unused)
{
    (void)unused;
    in_child(run_crowd, NULL);
}

/* A forked child goes on where its parent was. */
static int fork_there(void *arg)
{
    struct stook_cache *cache;
    void *object;
    int status;
    pid_t child;

    (void)arg;
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

static void forked(void **unused)
{
    (void)unused;
    in_child(fork_there, NULL);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* From every CPU objects come from its home; two sizes, so that slabs of several orders are there. */
static int take_everywhere(void *arg)
{
    enum { EACH = 3 };
    static struct check_object held[2 * EACH * 512];
    struct stook_cache *cache[2];
    unsigned zones = 1;
    size_t n = 0;

    MUST(stook_topology_set(arg) == 0);
    while (zones < topology.nodes)
        zones *= 2;
    MUST(pagemap.zones == 2 * zones);
    MUST(pagemap.size / pagemap.zones == (size_t)1 << pagemap.zone_shift);
    MUST((cache[0] = stook_cache_create("small", 320, NULL)) != NULL);
    MUST((cache[1] = stook_cache_create("large", 20000, NULL)) != NULL);
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        unsigned home = topology_home(cpu);
        if (!topology_has_cpu(&topology, cpu))
            continue;
        MUST(stook_topology_cpu((int)cpu) >= 0);
        MUST(topology.memory_nodes >> home & 1);
        for (unsigned i = 0; i < 2 * EACH && n < sizeof(held) / sizeof(held[0]); i++) {
            void *object = stook_alloc(cache[i % 2], 0);
            MUST(object && pagemap_covers(object));
            if (pagemap_node(object) != home) {
                fprintf(stderr, "%s: CPU %u: node %u, home %u\n", (const char *)arg, cpu,
                        pagemap_node(object), home);
                return 1;
            }
            memset(object, 0xa5, stook_usable_size(object));
            held[n++] = (struct check_object){cache[i % 2], object};
        }
    }
    check_all(held, n);
    /* All of them freed from one CPU, and everything goes back. */
    while (n > 0) {
        n--;
        stook_free(held[n].cache, held[n].object);
    }
    check_all(NULL, 0);
    MUST(stook_cache_destroy(cache[0]) == 0 && stook_cache_destroy(cache[1]) == 0);
    check_all(NULL, 0);
    return 0;
}

static void objects_come_from_home(void **unused)
{
    static const char *const texts[] = {
        "node:1",
        "node:8",
        "node:16",
        "node:64 core:2",
        "cpus:0=0-1 memory:1=1G",
        "cpus:7=3 memory:2=1G memory:9=1G distance:*=30 distance:7/9=29"};
    static const char *const files[] = {"ublk",        "one-node",       "two-sockets",
                                        "eight-nodes", "one-memoryless", "sub-numa",
                                        "cxl",         "large",          "gaps"};
    char path[600];

    (void)unused;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        in_child(take_everywhere, (void *)(uintptr_t)texts[i]);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s.topo", folder, files[i]);
        in_child(take_everywhere, path);
    }
}

/* ---- threads that wander --------------------------------------------------------------------- */

enum { WANDERERS = 4, EXCHANGE = 256, STEPS = 40000 };

static struct {
    struct stook_cache *cache;
    _Atomic(uint64_t *) exchange[EXCHANGE];
    _Atomic unsigned wrong;
} wander;

/* Objects change hands in the exchange; each carries its own address while it is out. */
static void *wander_thread(void *arg)
{
    uint64_t state = (uintptr_t)arg;

    for (int i = 0; i < STEPS; i++) {
        uint64_t *object = NULL;
        if (random_below(&state, 4) == 0) /* some CPUs are gaps: it stays where it was */
            stook_topology_cpu((int)random_below(&state, topology.cpus));
        if (random_below(&state, 2)) {
            object = stook_alloc(wander.cache, 0);
            if (!object || *object == (uintptr_t)object)
                wander.wrong++;
            if (object)
                *object = (uintptr_t)object;
        }
        object = atomic_exchange(&wander.exchange[random_below(&state, EXCHANGE)], object);
        if (object) {
            if (*object != (uintptr_t)object)
                wander.wrong++;
            *object = 0;
            stook_free(wander.cache, object);
        }
    }
    return NULL;
}

static void wander_construct(void *object)
{
    *(uint64_t *)object = 0; /* nobody has it */
}

static int run_wanderers(void *arg)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = wander_construct};
    pthread_t thread[WANDERERS];

    MUST(stook_topology_set(arg) == 0);
    MUST((wander.cache = stook_cache_create("x", 320, &args)) != NULL);
    for (uintptr_t i = 0; i < WANDERERS; i++)
        MUST(pthread_create(&thread[i], NULL, wander_thread, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < WANDERERS; i++)
        MUST(pthread_join(thread[i], NULL) == 0);
    for (unsigned i = 0; i < EXCHANGE; i++)
        if (wander.exchange[i]) {
            *wander.exchange[i] = 0;
            stook_free(wander.cache, wander.exchange[i]);
        }
    MUST(wander.wrong == 0);
    check_all(NULL, 0);
    MUST(stook_cache_destroy(wander.cache) == 0);
    check_all(NULL, 0);
    return 0;
}

static void wanderers(void **unused)
{
    char path[600];

    (void)unused;
    in_child(run_wanderers, (void *)(uintptr_t)DOCUMENT);
    snprintf(path, sizeof(path), "%s/gaps.topo", folder);
    in_child(run_wanderers, path);
}

int main(int argc, char **argv)
{
    const char *source = getenv("STOOK_SOURCE_DIR");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_call),         cmocka_unit_test(wrong_text),
        cmocka_unit_test(too_late),        cmocka_unit_test(the_last_counts),
        cmocka_unit_test(by_environment),  cmocka_unit_test(stated_cpus),
        cmocka_unit_test(threads_in_turn), cmocka_unit_test(forked),
        cmocka_unit_test(wanderers),       cmocka_unit_test(objects_come_from_home),
    };

    arguments = argv;
    if (argc > 1 && strcmp(argv[1], "--environment") == 0)
        return say_topology();
    snprintf(folder, sizeof(folder), "%s/topologies", source ? source : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
