/* SPDX-License-Identifier: MIT */
/*
 * idle: the memory that stays resident for a thread that allocated and freed n objects and then idles.  The
 * threads do so one after the other, and, in a process of its own, all at the same time.  All threads exist and
 * have touched their stacks and pointers before the first reading, so that only the allocator's memory is
 * counted.  The first thread's run is not counted, since it includes the costs of the process.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../worker/adapter.h"
#include "../worker/resident.h"
#include "../worker/timing.h"

#define THREADS_MAX 4096
#define STACK_TOUCHED (48 * 1024)

enum idle_step { IDLE_READY, IDLE_RUN, IDLE_ALLOC, IDLE_FREE, IDLE_END };

struct idle_thread {
    pthread_t thread;
    sem_t go;
    enum idle_step step;
    void **objects;
};

#if !ADAPTER_HANDOFF_ONLY

static adapter_t adapter;
static size_t objects_a_thread;
static struct idle_thread threads[THREADS_MAX];
static sem_t done;

static void idle_touch_stack(void)
{
    volatile char stack[STACK_TOUCHED];
    for (size_t i = 0; i < sizeof(stack); i += 1024)
        stack[i] = 1;
}

static void idle_alloc(struct idle_thread *self)
{
    for (size_t i = 0; i < objects_a_thread; i++) {
        char *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        *(volatile char *)object = 1;
        self->objects[i] = object;
    }
}

static void idle_free(struct idle_thread *self)
{
    for (size_t i = 0; i < objects_a_thread; i++)
        adapter_free(adapter, self->objects[i]);
}

static void *idle_main(void *context)
{
    struct idle_thread *self = context;

    idle_touch_stack();
    for (;;) {
        sem_post(&done);
        while (sem_wait(&self->go))
            ;
        if (self->step == IDLE_END)
            return NULL;
        if (self->step == IDLE_RUN || self->step == IDLE_ALLOC)
            idle_alloc(self);
        if (self->step == IDLE_RUN || self->step == IDLE_FREE)
            idle_free(self);
    }
}

static void idle_wait(size_t count)
{
    for (size_t i = 0; i < count; i++)
        while (sem_wait(&done))
            ;
}

static void idle_step(size_t first, size_t last, enum idle_step step)
{
    for (size_t i = first; i < last; i++) {
        threads[i].step = step;
        sem_post(&threads[i].go);
    }
    if (step != IDLE_END)
        idle_wait(last - first);
}

/* Starts the threads, lets them run, and returns what they left resident. */
static double idle_resident(const struct case_params *params, int at_once, long *reserve)
{
    size_t count = params->threads;
    pthread_attr_t attr;

    adapter = adapter_open(params->object_size);
    objects_a_thread = params->n;
    void **objects = resident_map(count * objects_a_thread * sizeof(void *));
    sem_init(&done, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    for (size_t i = 0; i < count; i++) {
        threads[i].objects = objects + i * objects_a_thread;
        sem_init(&threads[i].go, 0, 0);
        if (pthread_create(&threads[i].thread, &attr, idle_main, &threads[i]))
            case_die("pthread_create failed");
    }
    idle_wait(count);

    idle_step(0, 1, IDLE_RUN);
    double base = (double)resident_bytes();
    if (at_once) {
        idle_step(1, count, IDLE_ALLOC);
        idle_step(1, count, IDLE_FREE);
    } else {
        for (size_t i = 1; i < count; i++)
            idle_step(i, i + 1, IDLE_RUN);
    }
    double resident = (double)resident_bytes() - base;
    *reserve = adapter_reserve();
    idle_step(0, count, IDLE_END);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i].thread, NULL);
    return resident;
}

int case_idle(const struct case_params *params, struct case_result *result)
{
    double kib = 1024 * (double)(params->threads - 1);
    double *at_once = resident_map(sizeof(*at_once));
    long *reserve = resident_map(sizeof(*reserve));
    int status;

    if (params->threads < 2 || params->threads > THREADS_MAX)
        case_die("idle needs 2 to 4096 threads");
    pid_t child = fork();
    if (child == 0) {
        *at_once = idle_resident(params, 1, reserve);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        case_die("the process of the threads that run at once failed");
    adapter_report_reserve(result, *reserve);
    if (*reserve >= 0)
        *at_once -= (double)*reserve; /* what is warm for all belongs to no thread */
    CASE_SET(result, kib_at_once, *at_once > 0 ? *at_once / kib : 0);
    CASE_SET(result, kib_per_thread, idle_resident(params, 0, reserve) / kib);
    return 0;
}

#endif
