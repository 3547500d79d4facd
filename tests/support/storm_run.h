/* SPDX-License-Identifier: MIT */
/*
 * storm_run.h - the threads of a storm (storm.h) and the count at its end.
 *
 * Workers pop, push and take the slow paths, interrupted by timers whose handler does the same;
 * some are not registered with rseq.  Takers take all slots of a CPU from wherever they run, under
 * one fence.  Migrators move the workers from CPU to CPU, also in the middle of a section.
 */
#ifndef TESTS_SUPPORT_STORM_RUN_H
#define TESTS_SUPPORT_STORM_RUN_H

#include "support/libc_names.h"
#include "support/storm.h"

#include <sys/syscall.h>
#include <sys/wait.h>

static int storm_stale_child(void *arg)
{
    struct storm_thread *self = arg;
    int stale = percpu_cpu();

    for (unsigned i = 0; i < fixture_cpus; i++)
        if ((int)fixture_cpu[i] != stale)
            fixture_pin(fixture_cpu[i]);
    for (int i = 0; i < 20000 && !atomic_load(&storm_stop); i++)
        storm_operation(self);
    syscall(SYS_exit, 0);
    return 0;
}

/* Rule 6 broken: a child that shares memory and TLS runs sections with its parent's CPU number. */
static void storm_vfork(struct storm_thread *self)
{
    static char stack[STORM_THREADS_MAX][64 << 10] __attribute__((aligned(64)));
    int status;
    pid_t child = clone(storm_stale_child, stack[self->number] + sizeof(stack[0]),
                        CLONE_VM | CLONE_VFORK | SIGCHLD, self);

    if (child > 0)
        waitpid(child, &status, 0);
}

static void *storm_worker(void *arg)
{
    struct storm_thread *self = storm_self = arg;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    long period = 120000 + (long)(self->random % 200) * 1000;
    struct itimerspec often = {{0, period}, {0, period}};
    timer_t timer;
    bool timed;

    if (self->unregistered && !rseq_unregister())
        self->unregistered = false;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    timed = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
            timer_settime(timer, 0, &often, NULL) == 0;
    atomic_store(&self->tid, event.sigev_notify_thread_id);
    do { /* once at least, however late it runs */
        for (int i = 0; i < 64; i++)
            storm_operation(self);
        if (self->stale)
            storm_vfork(self);
    } while (!atomic_load_explicit(&storm_stop, memory_order_relaxed));
    atomic_store(&self->tid, 0);
    if (timed)
        timer_delete(timer);
    if (self->unregistered)
        rseq_register();
    storm_self = NULL;
    return NULL;
}

/* ---- takers --------------------------------------------------------------------------------- */

/* What a taker does with one slot while it has it: the sheaf to open with. */
static struct sheaf *storm_work(struct storm_thread *self, unsigned cache, struct slot *slot,
                                struct sheaf *main, struct sheaf **out)
{
    uint64_t r = storm_next(&self->random);
    unsigned *n = &self->stash[cache];
    struct sheaf *spare = slot->spare;

    if (main->size > main->capacity)
        storm_error("a sheaf of %u holds %u", main->capacity, main->size);
    for (uint32_t i = 0; i < main->size && i < STORM_CAPACITY; i++) {
        struct storm_token *token = main->object[i];
        if (token < storm_tokens[cache] || token >= storm_tokens[cache] + STORM_TOKENS)
            storm_error("a sheaf of cache %u holds %p", cache, (void *)token);
        else if (atomic_load(&token->owner) != 0)
            storm_error("a token in a sheaf belongs to %u", atomic_load(&token->owner));
    }
    storm_pause(r);
    switch (r >> 50 & 3) {
    case 0: /* drained */
        out[0] = storm_real(main);
        out[1] = spare;
        slot->spare = NULL;
        return SHEAF_NONE;
    case 1:
        while (main->size > 0 && *n < 3) {
            struct storm_token *token =
                storm_receive(cache, main->object[--main->size], self->number);
            if (token)
                self->stashed[cache][(*n)++] = token;
        }
        return main;
    case 2:
        while (main->size<main->capacity && * n> 0)
            main->object[main->size++] = storm_give(self->stashed[cache][--*n], self->number);
        return main;
    default:
        if (!spare)
            return main;
        slot->spare = storm_real(main);
        return spare;
    }
}

static void storm_take_cpu(struct storm_thread *self, unsigned cpu)
{
    struct sheaf *main[STORM_CACHES], *out[STORM_CACHES][2] = {{NULL}};
    struct slot *slot[STORM_CACHES];
    unsigned taken = 0;

    for (unsigned cache = 0; cache < STORM_CACHES; cache++) {
        slot[cache] = percpu_slot(cpu, storm_offset(cache));
        main[cache] = slot[cache] ? slot_take(slot[cache], true) : NULL;
        taken += main[cache] != NULL;
    }
    if (taken == 0)
        return;
    atomic_fetch_add_explicit(&self->takes, taken, memory_order_relaxed);
    self->fences++;
    if (storm.broken != BREAK_READ_BEFORE_FENCE && !percpu_fence(cpu))
        storm_error("a fence was refused");
    for (unsigned cache = 0; cache < STORM_CACHES; cache++)
        if (main[cache])
            slot_open(slot[cache],
                      storm_work(self, cache, slot[cache], slot_taken(slot[cache]), out[cache]));
    if (storm.broken == BREAK_READ_BEFORE_FENCE)
        (void)percpu_fence(cpu);
    for (unsigned cache = 0; cache < STORM_CACHES; cache++)
        for (int i = 0; i < 2; i++)
            depot_put(cache, out[cache][i]);
}

static void *storm_taker(void *arg)
{
    struct storm_thread *self = arg;

    while (!atomic_load_explicit(&storm_stop, memory_order_relaxed)) {
        for (unsigned i = 0; i < fixture_cpus; i++)
            storm_take_cpu(self, fixture_cpu[(i + self->number) % fixture_cpus]);
        if ((storm_next(&self->random) & 7) == 0)
            usleep(50);
    }
    return NULL;
}

static void *storm_migrator(void *arg)
{
    struct storm_thread *self = arg;

    while (!atomic_load_explicit(&storm_stop, memory_order_relaxed)) {
        uint64_t r = storm_next(&self->random);
        pid_t tid = atomic_load(&storm_threads[r % storm.threads].tid);
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(fixture_cpu[(r >> 20) % fixture_cpus], &set);
        if (tid && sched_setaffinity(tid, sizeof(set), &set) == 0)
            atomic_fetch_add_explicit(&self->migrations, 1, memory_order_relaxed);
    }
    return NULL;
}

/* ---- begin and end ---------------------------------------------------------------------------- */

static void storm_see(unsigned cache, void *object)
{
    struct storm_token *token = object;

    if (token < storm_tokens[cache] || token >= storm_tokens[cache] + STORM_TOKENS)
        storm_error("cache %u holds %p at the end", cache, object);
    else if (token->seen++ == 1)
        storm_error("token %td of cache %u is there twice", token - storm_tokens[cache], cache);
}

static unsigned storm_see_sheaf(unsigned cache, const struct sheaf *sheaf)
{
    if (!sheaf || sheaf == SHEAF_NONE)
        return 0;
    if (sheaf->size > sheaf->capacity)
        storm_error("a sheaf of %u holds %u at the end", sheaf->capacity, sheaf->size);
    for (uint32_t i = 0; i < sheaf->size && i < sheaf->capacity; i++)
        storm_see(cache, sheaf->object[i]);
    return 1;
}

static void storm_prepare_cache(unsigned cache)
{
    static struct sheaf *sheaves[STORM_CACHES][STORM_SHEAVES];
    struct storm_depot *depot = &storm_depots[cache];
    unsigned next = 0;

    percpu_slot_init(STORM_SLOT + cache);
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, storm_offset(cache));
        if (slot) { /* as an earlier storm left it */
            slot->spare = NULL;
            slot_open(slot, SHEAF_NONE);
        }
    }
    memset(depot, 0, sizeof(*depot));
    pthread_mutex_init(&depot->mutex, NULL);
    for (unsigned t = 0; t < STORM_TOKENS; t++) {
        storm_tokens[cache][t].cache = cache;
        storm_tokens[cache][t].seen = 0;
        atomic_store(&storm_tokens[cache][t].owner, 0);
    }
    for (unsigned s = 0; s < STORM_SHEAVES; s++) {
        struct sheaf *sheaf = sheaves[cache][s];
        if (!sheaf) /* with room behind the capacity, for what violations do */
            sheaf = sheaves[cache][s] = fixture_sheaf(STORM_CAPACITY + 50);
        sheaf->capacity = STORM_CAPACITY;
        sheaf->size = 0;
        while (s < STORM_SHEAVES / 3 && sheaf->size < STORM_CAPACITY)
            sheaf->object[sheaf->size++] = &storm_tokens[cache][next++];
        depot_put(cache, sheaf);
    }
    while (next < STORM_TOKENS)
        depot_put_loose(cache, &storm_tokens[cache][next++]);
}

static void storm_count_cache(unsigned cache)
{
    struct storm_depot *depot = &storm_depots[cache];
    unsigned sheaves = 0;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, storm_offset(cache));
        struct sheaf *main = slot ? slot_take(slot, true) : NULL;
        if (!slot)
            continue;
        if (!main) {
            storm_error("cache %u has its slot of CPU %u closed for ever", cache, cpu);
            continue;
        }
        (void)percpu_fence(cpu);
        main = slot_taken(slot);
        sheaves += storm_see_sheaf(cache, main) + storm_see_sheaf(cache, slot->spare);
        slot->spare = NULL;
        slot_open(slot, SHEAF_NONE);
    }
    for (struct sheaf *s = depot->full; s && sheaves < 2 * STORM_SHEAVES; s = s->next)
        sheaves += storm_see_sheaf(cache, s);
    for (struct sheaf *s = depot->empty; s && sheaves < 2 * STORM_SHEAVES; s = s->next)
        sheaves += storm_see_sheaf(cache, s);
    if (sheaves != STORM_SHEAVES)
        storm_error("cache %u has %u sheaves of %d", cache, sheaves, STORM_SHEAVES);
    for (unsigned i = 0; i < depot->loose; i++)
        storm_see(cache, depot->loose_token[i]);
    for (unsigned t = 0; t < storm_started; t++) {
        struct storm_thread *thread = &storm_threads[t];
        for (unsigned i = 0; i < thread->stash[cache]; i++)
            storm_see(cache, storm_give(thread->stashed[cache][i], thread->number));
        for (unsigned i = 0; i < thread->handler_stash[cache]; i++)
            storm_see(cache, storm_give(thread->handler_stashed[cache][i], thread->number));
    }
    for (unsigned t = 0; t < STORM_TOKENS; t++) {
        if (storm_tokens[cache][t].seen == 0)
            storm_error("token %u of cache %u is lost", t, cache);
        if (atomic_load(&storm_tokens[cache][t].owner) != 0)
            storm_error("token %u of cache %u belongs to somebody", t, cache);
    }
}

static bool storm_start(void *(*body)(void *))
{
    struct storm_thread *thread = &storm_threads[storm_started];

    thread->number = storm_started + 1;
    thread->random = 0x9e3779b97f4a7c15u * (storm_started + 1);
    thread->handler_random = ~thread->random;
    if (pthread_create(&thread->thread, NULL, body, thread) != 0)
        return false;
    storm_started++;
    return true;
}

/* What the threads have done so far of what a storm may have to go on for. */
static void storm_progress(struct storm_result *result)
{
    result->migrations = result->takes = result->signals = 0;
    for (unsigned t = 0; t < storm_started; t++) {
        result->migrations += atomic_load(&storm_threads[t].migrations);
        result->takes += atomic_load(&storm_threads[t].takes);
        result->signals += atomic_load(&storm_threads[t].signals);
    }
}

static bool storm_enough(const struct storm_args *args, struct storm_result *result)
{
    storm_progress(result);
    return result->migrations >= args->migrations && result->takes >= args->takes &&
           result->signals >= args->signals;
}

/* Once the threads are joined. */
static void storm_sum(struct storm_result *result)
{
    memset(result, 0, sizeof(*result));
    for (unsigned t = 0; t < storm_started; t++) {
        const struct storm_thread *thread = &storm_threads[t];
        result->operations += thread->operations;
        result->slow += thread->slow;
        result->fences += thread->fences;
    }
    storm_progress(result);
    result->errors = atomic_load(&storm_errors);
    memcpy(result->first, storm_first, sizeof(result->first));
}

/* Runs one storm; false if its threads could not be started. */
static bool storm_run(const struct storm_args *args, struct storm_result *result)
{
    struct sigaction action = {.sa_handler = storm_handler, .sa_flags = SA_RESTART}, old;
    uint64_t fences = atomic_load(&percpu.fences);
    bool good = true;

    storm = *args;
    atomic_store(&storm_stop, false);
    atomic_store(&storm_errors, 0);
    storm_started = 0;
    storm_first[0] = '\0';
    memset(storm_threads, 0, sizeof(storm_threads));
    for (unsigned cache = 0; cache < STORM_CACHES; cache++)
        storm_prepare_cache(cache);
    sigaction(SIGUSR1, &action, &old);
    for (unsigned i = 0; i < args->threads && good; i++) {
        storm_threads[i].unregistered = i < args->unregistered;
        storm_threads[i].mixed = args->broken == BREAK_MIXED_MODES && i < 4;
        storm_threads[i].stale = args->broken == BREAK_STALE_CPU && i < 2;
        good = storm_start(storm_worker);
    }
    for (unsigned i = 0; i < args->takers && good; i++)
        good = storm_start(storm_taker);
    for (unsigned i = 0; i < args->migrators && good; i++)
        good = storm_start(storm_migrator);
    for (unsigned tenths = 0; !atomic_load(&storm_stop); tenths++) {
        usleep(100000);
        if (tenths >= args->seconds_tenths && storm_enough(args, result))
            atomic_store(&storm_stop, true);
    }
    for (unsigned t = 0; t < storm_started; t++)
        pthread_join(storm_threads[t].thread, NULL);
    sigaction(SIGUSR1, &old, NULL);
    fixture_unpin();
    fences = atomic_load(&percpu.fences) - fences;
    for (unsigned cache = 0; cache < STORM_CACHES; cache++)
        storm_count_cache(cache);
    storm_sum(result);
    if (fences != (percpu.rseq ? result->fences : 0)) {
        storm_error("%lu membarriers for %lu fences", (unsigned long)fences,
                    (unsigned long)result->fences);
        storm_sum(result);
    }
    return good;
}

static inline void storm_print(const char *name, const struct storm_result *r)
{
    printf("%s: %lu operations, %lu slow, %lu signals, %lu migrations, %lu takes under %lu fences, "
           "%lu errors%s%s\n",
           name, (unsigned long)r->operations, (unsigned long)r->slow, (unsigned long)r->signals,
           (unsigned long)r->migrations, (unsigned long)r->takes, (unsigned long)r->fences,
           (unsigned long)r->errors, r->errors ? "; first: " : "", r->errors ? r->first : "");
    fflush(stdout);
}

#endif
