/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* timeout: 120 */
/*
 * The real machine: threads fill sheaves on two CPUs, then none of them may run on one of the two any
 * more.  What lies there comes back while the program goes on, without a call of its own: it allocates
 * and frees on the other CPU, and how often it may until then is bounded.
 */
#include "percpu/percpu.h"
#include "sheaf/slot_drain.h"
#include "support/check.h"
#include "support/topology_child.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What an update says; -1 where it fails. */
static int changes(void)
{
    unsigned n;

    return stook_topology_update(&n) == 0 ? (int)n : -1;
}

enum { CAPACITY = 8, BATCH = 64, BATCHES_MAX = 8000, LOOKS = 400, THREADS = 4 };

static struct stook_cache *cache;
static int cpu_a, cpu_b; /* stays, goes */
static _Atomic unsigned filled, phase;

/* Two CPUs that this process may use; false: there is one. */
static bool two_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return false;
    cpu_a = cpu_b = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpu_b < 0; cpu++)
        if (CPU_ISSET(cpu, &set)) {
            if (cpu_a < 0)
                cpu_a = cpu;
            else
                cpu_b = cpu;
        }
    return cpu_b >= 0;
}

static bool pin(pid_t tid, int a, int b)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(a, &set);
    CPU_SET(b, &set);
    return sched_setaffinity(tid, sizeof(set), &set) == 0;
}

/* All threads, those of a sanitizer's among them: any of them may run where it may. */
static bool pin_all(int cpu)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    bool ok = tasks != NULL;

    while (tasks && (entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.')
            ok &= pin((pid_t)atoi(entry->d_name), cpu, cpu);
    if (tasks)
        closedir(tasks);
    return ok;
}

static void work(void)
{
    void *objects[BATCH];

    for (unsigned i = 0; i < BATCH; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            abort();
    for (unsigned i = 0; i < BATCH; i++)
        stook_free(cache, objects[i]);
}

static uint64_t cached(int cpu)
{
    struct slot_counts counts = {0};

    slot_count_cpu(cache, (unsigned)cpu, &counts);
    return counts.objects;
}

/* On the CPU that goes, until something lies there (others may be at it, or a section abort). */
static void fill(int cpu)
{
    if (!pin(0, cpu, cpu))
        abort();
    percpu_kept = -1; /* locked mode: a thread keeps its CPU's number, wherever it runs */
    for (unsigned i = 0; cached(cpu) == 0 && i < BATCHES_MAX; i++)
        work();
}

static bool make_cache(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = CAPACITY};

    cache = stook_cache_create("cpuset", 256, &args);
    return cache != NULL;
}

/* Goes on until it has come back by itself. */
static bool comes_back(void)
{
    for (unsigned i = 0; i < BATCHES_MAX; i++) {
        if (cached(cpu_b) == 0)
            return true;
        work();
    }
    fprintf(stderr, "%llu objects still lie on CPU %d\n", (unsigned long long)cached(cpu_b), cpu_b);
    return false;
}

static int end(void)
{
    check_all(NULL, 0);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
    return 0;
}

/* ---- affinities ----------------------------------------------------------------------------- */

TEST_IN_CHILD(one_thread)
{
    MUST(make_cache() && pin_all(cpu_a));
    fill(cpu_b);
    MUST(cached(cpu_b) > 0);
    MUST(pin(0, cpu_a, cpu_b));
    for (unsigned i = 0; i < LOOKS; i++) /* it may run there: nothing is taken */
        work();
    MUST(percpu_use_of((unsigned)cpu_b) == PERCPU_USED);
    fill(cpu_b);
    MUST(pin(0, cpu_a, cpu_a));
    MUST(comes_back());
    MUST(percpu_use_of((unsigned)cpu_b) == PERCPU_LEFT);
    /* And is used again when it may be. */
    fill(cpu_b);
    MUST(cached(cpu_b) > 0 && percpu_use_of((unsigned)cpu_b) == PERCPU_USED);
    MUST(pin(0, cpu_a, cpu_a));
    MUST(comes_back());
    return end();
}

TEST_IN_CHILD(asked_for)
{
    MUST(make_cache() && pin_all(cpu_a));
    fill(cpu_b);
    MUST(pin(0, cpu_a, cpu_b));
    MUST(stook_topology_update(NULL) == 0);
    fill(cpu_b);
    MUST(cached(cpu_b) > 0);
    MUST(pin(0, cpu_a, cpu_a));
    MUST(changes() >= 1);
    MUST(cached(cpu_b) == 0 && topology.allowed_cpus == 1);
    MUST(changes() == 0);
    return end();
}

/* A thread with a CPU of its own, which fills it, and waits there, or ends. */
static void *on_b(void *arg)
{
    fill(cpu_b);
    atomic_store(&filled, 1);
    while (arg && atomic_load(&phase) == 0)
        usleep(1000);
    return NULL;
}

/* All are pinned one by one, as on machines that run a thread a CPU. */
TEST_IN_CHILD(pinned_thread_ends)
{
    pthread_t thread;

    MUST(make_cache() && pin_all(cpu_a));
    MUST(pthread_create(&thread, NULL, on_b, "waits") == 0);
    while (atomic_load(&filled) == 0)
        sched_yield();
    for (unsigned i = 0; i < LOOKS; i++) /* a thread may run there */
        work();
    MUST(cached(cpu_b) > 0);
    atomic_store(&phase, 1);
    MUST(pthread_join(thread, NULL) == 0);
    MUST(comes_back());
    return end();
}

static void *works_until(void *arg)
{
    fill(cpu_b);
    atomic_fetch_add(&filled, 1);
    while (atomic_load(&phase) == 0)
        usleep(1000);
    while (atomic_load(&phase) == 1)
        work();
    return NULL;
}

/* ---- a cpuset ------------------------------------------------------------------------------- */

static char group[128];

static bool put(const char *name, const char *text)
{
    char path[256];
    int fd;
    bool ok;

    snprintf(path, sizeof(path), "%s/%s", group, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Of this process, with both CPUs: cgroup v1's hierarchy, or v2's; false where that may not be. */
static bool make_group(const char *both)
{
    static const char *const roots[] = {"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"};
    char pid[32];

    snprintf(pid, sizeof(pid), "%d", getpid());
    for (unsigned i = 0; i < 2; i++) {
        snprintf(group, sizeof(group), "%s/stook-test-%d", roots[i], getpid());
        if (mkdir(group, 0755) != 0)
            continue;
        if (put("cpuset.mems", "0") && put("cpuset.cpus", both) && put("cgroup.procs", pid))
            return true;
        (void)rmdir(group);
    }
    return false;
}

static void unmake_group(void)
{
    char pid[32], *slash = strrchr(group, '/');
    struct timespec moment = {0, 10000000};

    snprintf(pid, sizeof(pid), "%d", getpid());
    *slash = '\0';
    (void)put("cgroup.procs", pid);
    *slash = '/';
    for (unsigned i = 0; rmdir(group) != 0 && errno == EBUSY && i < 100; i++)
        nanosleep(&moment, NULL);
}

/*
 * The container: threads that may run anywhere in it, on both CPUs, and one of these is cut off (by
 * every thread's affinity where no cpuset can be made).
 */
TEST_IN_CHILD(container)
{
    pthread_t thread[THREADS];
    char both[32], one[16];
    bool grouped, back;

    MUST(make_cache());
    snprintf(both, sizeof(both), "%d,%d", cpu_a, cpu_b);
    snprintf(one, sizeof(one), "%d", cpu_a);
    grouped = make_group(both);
    for (unsigned i = 0; i < THREADS; i++)
        MUST(pthread_create(&thread[i], NULL, works_until, NULL) == 0);
    while (atomic_load(&filled) < THREADS)
        usleep(1000);
    fill(cpu_b);
    if (grouped) {
        grouped = put("cpuset.cpus", one);
    } else { /* the threads are pinned to the CPU that goes */
        atomic_store(&phase, 2);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        MUST(pin_all(cpu_a) && comes_back());
        return end();
    }
    atomic_store(&phase, 1);
    back = comes_back();
    atomic_store(&phase, 2);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    unmake_group();
    MUST(grouped && back);
    return end();
}

int main(void)
{
    return two_cpus() ? tests_run(NULL, NULL) : 77;
}
