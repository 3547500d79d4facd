/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * A process that test_look.py looks into.  It prints "ready", then does what each line of its input says, and prints
 * "done":
 *
 *   report FILE     stook_report() as JSON to the file
 *   table FILE      the same as a table
 *   charge          30 objects to the group "tenants", and 10 to one below it
 *   busy N          N threads allocate and free, and make and destroy caches, until the process ends
 *   fork N          N children, one after the other, that allocate and end
 *   exec            the program once more, with nothing but what it begins with
 */
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECTS = 30000, LARGE = 20, ROUND = 400 };

static struct stook_cache *widgets, *gadgets, *tiny;
static void *object[OBJECTS];
static struct stook_group tenants;

static void *allocate(void *unused)
{
    void *some[100];

    for (int i = 0; i < 100; i++)
        some[i] = stook_alloc(tiny, 0);
    for (int i = 0; i < 90; i++)
        stook_free(tiny, some[i]);
    return unused;
}

static void begin(void)
{
    struct stook_cache_args constructed = {.size = sizeof(constructed),
                                           .flags = STOOK_CACHE_LINK_INSIDE};
    pthread_t thread;

    tenants = stook_group_create("tenants", STOOK_NO_GROUP, 1 << 30);
    widgets = stook_cache_create("widgets", 200, NULL);
    gadgets = stook_cache_create("gadgets \"\xc3\xa9\xe2\x82\xac\"", 3000, NULL);
    tiny = stook_cache_create("tiny", 24, &constructed);
    stook_cache_stat_enable(widgets, STOOK_STATS_ALL);
    for (int i = 0; i < OBJECTS; i++)
        object[i] = stook_alloc(i % 10 ? widgets : gadgets, 0);
    for (int i = 0; i < OBJECTS; i++)
        if (i % 7 == 0 || i < OBJECTS / 3)
            stook_free(i % 10 ? widgets : gadgets, object[i]);
    for (int i = 0; i < LARGE; i++) { /* runs, big runs and spans */
        void *p = stook_kmalloc((size_t)(40 << 10) << i % 9, 0);
        if (i % 3 == 0)
            stook_free_any(p);
    }
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, allocate, NULL);
        pthread_join(thread, NULL);
    }
}

static void *busy(void *argument)
{
    void *mine[ROUND] = {NULL};
    unsigned seed = (unsigned)(size_t)argument;
    char name[32];

    for (unsigned turn = 1;; turn++) {
        unsigned i = (unsigned)rand_r(&seed) % ROUND;
        if (mine[i]) {
            stook_free(widgets, mine[i]);
            mine[i] = NULL;
        } else {
            mine[i] = stook_alloc(widgets, 0);
        }
        if (turn % 50000 == 0) {
            struct stook_cache *cache;
            snprintf(name, sizeof(name), "passing-%u", turn / 50000 % 10);
            cache = stook_cache_create(name, 64 + turn / 50000 % 7 * 40, NULL);
            if (cache) {
                stook_free(cache, stook_alloc(cache, 0));
                stook_cache_destroy(cache);
            }
        }
    }
    return NULL;
}

static void charge(void)
{
    struct stook_cache_args accounted = {.size = sizeof(accounted), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *leases = stook_cache_create("leases", 64, &accounted);
    struct stook_group below = stook_group_create("subtenant", tenants, STOOK_UNLIMITED);

    for (int i = 0; i < 40; i++)
        if (!stook_alloc_with(leases, STOOK_WAIT,
                              &(struct stook_alloc_args){.size = sizeof(struct stook_alloc_args),
                                                         .group = i < 30 ? &tenants : &below}))
            abort();
}

static void make_children(int n)
{
    for (int i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 100; j++)
                stook_free(gadgets, stook_alloc(gadgets, 0));
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void report(const char *file, unsigned format)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || stook_report(fd, format) != 0)
        abort();
    close(fd);
}

int main(int argc, char **argv)
{
    char line[4096];

    begin();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        pthread_t thread;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "report ", 7) == 0)
            report(line + 7, STOOK_REPORT_JSON | STOOK_REPORT_ALL);
        if (strncmp(line, "table ", 6) == 0)
            report(line + 6, STOOK_REPORT_TABLE);
        for (int i = strncmp(line, "busy ", 5) == 0 ? atoi(line + 5) : 0; i > 0; i--)
            pthread_create(&thread, NULL, busy, (void *)(size_t)i);
        if (strncmp(line, "fork ", 5) == 0)
            make_children(atoi(line + 5));
        if (strcmp(line, "charge") == 0)
            charge();
        if (strcmp(line, "exec") == 0)
            execv("/proc/self/exe", argv);
        printf("done\n");
        fflush(stdout);
    }
    return 0;
}
