/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/*
 * A process that test_set.py changes while it runs.  It prints "ready", does what each line of its input says, and prints
 * what comes of it:
 *
 *   busy          allocates and frees meanwhile, until the next line
 *   rest          allocates nothing until the next line
 *   capacity      of the cache "widgets"
 *   limit         of the group "tenants"
 *   counted       objects of widgets that were freed, as its counters say
 *   fork          a child that allocates, too, as long as its parent lives
 *   seccomp       installs a filter that allows everything
 */
#include <stook/group.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { OBJECTS = 5000, PAUSE = 1000 /* us */ };

static struct stook_cache *widgets;
static struct stook_group tenants;
static _Atomic bool busy, quiet;
static void *volatile kept; /* or the compiler does without malloc */

static void work(void)
{
    static void *object[OBJECTS];

    for (int i = 0; i < OBJECTS; i++)
        object[i] = stook_alloc(widgets, 0);
    for (int i = 0; i < OBJECTS; i++)
        stook_free(widgets, object[i]);
    kept = malloc(100);
    free(kept);
}

static void *worker(void *unused)
{
    for (;;) {
        if (busy)
            work();
        quiet = !busy;
        (void)usleep(PAUSE);
    }
    return unused;
}

static void child_main(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        work();
        (void)usleep(PAUSE);
    }
}

static int filter_all(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
               ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
               : -1;
}

static void answer(const char *line)
{
    struct stook_group_stat group = {.size = sizeof(group)};
    struct stook_stat stat = {.size = sizeof(stat)};
    pid_t child;

    if (strcmp(line, "busy\n") == 0) {
        busy = true;
        puts("done");
    } else if (strcmp(line, "rest\n") == 0) {
        busy = quiet = false;
        while (!quiet)
            (void)usleep(PAUSE);
        puts("done");
    } else if (strcmp(line, "capacity\n") == 0) {
        printf("%u\n", stook_cache_capacity(widgets));
    } else if (strcmp(line, "limit\n") == 0) {
        (void)stook_group_stat(tenants, &group);
        printf("%zu\n", (size_t)group.limit);
    } else if (strcmp(line, "counted\n") == 0) {
        (void)stook_cache_stat(widgets, &stat);
        printf("%llu\n", (unsigned long long)(stat.free_fastpath + stat.free_slowpath));
    } else if (strcmp(line, "fork\n") == 0) {
        child = fork();
        if (child == 0)
            child_main();
        printf("%d\n", (int)child);
    } else if (strcmp(line, "seccomp\n") == 0) {
        puts(filter_all() == 0 ? "done" : "refused");
    } else {
        puts("what?");
    }
}

int main(void)
{
    char line[64];
    pthread_t thread;

    widgets = stook_cache_create("widgets", 200, NULL);
    tenants = stook_group_create("tenants", STOOK_NO_GROUP, 1 << 30);
    work();
    if (pthread_create(&thread, NULL, worker, NULL) != 0)
        return 1;
    puts("ready");
    while (fflush(stdout) == 0 && fgets(line, sizeof(line), stdin))
        answer(line);
    return 0;
}
