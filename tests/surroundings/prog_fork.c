/* SPDX-License-Identifier: MIT */
/*
 * prog_fork CLASS N      N forks by a thread of a scheduling class, beside a thread of the ordinary class
 *                        on its CPU that takes and gives back pages; says how often fork() yielded
 */
#include "surroundings/exercise.h"
#include "surroundings/filter.h"

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

enum { OBJECTS = 300, RESET_ON_FORK = 1 };

/* The kernel's struct sched_attr, whose header goes with few C libraries' own. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static _Atomic int stop;
static _Atomic unsigned yields;

static void *pages_main(void *context)
{
    static char *object[OBJECTS];

    if (context)
        pin(0);
    while (!stop) {
        for (int i = 0; i < OBJECTS; i++)
            object[i] = memset(malloc(200000), 1, 200000);
        for (int i = 0; i < OBJECTS; i++)
            free(object[i]);
    }
    return NULL;
}

/* The call does not happen: what waits by yielding waits all the longer. */
static void yielded(int signal)
{
    yields++;
}

static void child_main(void)
{
    static struct exercise e = {.random = 5};

    exercise_steps(&e, 30);
    exercise_end(&e);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    _exit(0);
}

static void forks(int times)
{
    struct timespec pause = {.tv_nsec = 1000000};
    int status;

    for (int i = 0; i < times; i++) {
        pause.tv_nsec = 1000000 + i % 37 * 50000;
        nanosleep(&pause, NULL);
        pid_t child = fork();
        if (child == 0)
            child_main();
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            give_up("fork %d: status %x", i, status);
    }
}

static int enter(const char *name)
{
    static const struct {
        const char *name;
        unsigned policy, priority;
    } classes[] = {
        {"other", SCHED_OTHER, 0}, {"batch", SCHED_BATCH, 0}, {"idle", SCHED_IDLE, 0},
        {"fifo", SCHED_FIFO, 10},  {"rr", SCHED_RR, 10},      {"deadline", SCHED_DEADLINE, 0},
    };

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        struct attributes attr = {.size = sizeof(attr), .policy = classes[i].policy};
        if (strcmp(classes[i].name, name) != 0)
            continue;
        attr.priority = classes[i].priority;
        if (attr.policy == SCHED_DEADLINE) {
            attr.flags = RESET_ON_FORK; /* others may not fork at all */
            attr.runtime = 5000000;
            attr.deadline = attr.period = 20000000;
        } else {
            pin(0);
        }
        return syscall(SYS_sched_setattr, 0, &attr, 0) == 0;
    }
    return 0;
}

static void by_class(const char *name, int times)
{
    static const int yield[] = {__NR_sched_yield};
    struct sigaction action = {.sa_handler = yielded};
    pthread_t worker;

    sigaction(SIGSYS, &action, NULL);
    pthread_create(&worker, NULL, pages_main, strcmp(name, "deadline") ? "pinned" : NULL);
    usleep(100000);
    if (!enter(name))
        _exit(77);
    filter_install(yield, 1, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
    forks(times);
    stop = 1;
    pthread_join(worker, NULL);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("prog_fork: what?");
    by_class(argv[1], atoi(argv[2]));
    say("yields %u\ndone 1\n", yields);
    return 0;
}
