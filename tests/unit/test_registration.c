/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/* modes: own */
/* wrap: raw_call6 dlsym */
/*
 * The library's own rseq registration: one system call a thread, however the thread begins and ends.  Also in a
 * forked child, beside threads in which the program has registered an area before, and where the kernel refuses.
 */
#include "support/must.h"
#undef MUST_FAILS
#define MUST_FAILS abort()
#include "base/init.h"
#include "support/percpu_fixture.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/inline.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#ifndef REGISTRATION_THREADS
#define REGISTRATION_THREADS 10200
#endif

enum { ROUNDS = 4, HELD = 40, EXCHANGE = 16, AT_ONCE = 6, UNREGISTER = 1, AREA = 32 };

/* ---- what the library asks the kernel and the loader ----------------------------------------- */

static _Atomic unsigned asked, undone;
static _Atomic long refusal; /* 0, or what rseq() is to return */

long __real_raw_call6(long number, long a, long b, long c, long d, long e, long f);
long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f);

long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_rseq) {
        atomic_fetch_add(c == UNREGISTER ? &undone : &asked, 1);
        if (atomic_load(&refusal) != 0)
            return atomic_load(&refusal);
    }
    return __real_raw_call6(number, a, b, c, d, e, f);
}

/* The program's own area, as librseq and TCMalloc have one. */
static __thread char area[AREA] __attribute__((aligned(AREA), tls_model("initial-exec")));
static void *known; /* what __rseq_abi is found to be */

void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
    (void)handle;
    return strcmp(name, "__rseq_abi") == 0 ? known : NULL;
}

static int area_cpu(void)
{
    return *(volatile int32_t *)(area + 4);
}

static bool area_call(int flags)
{
    if (flags != UNREGISTER)
        *(volatile int32_t *)(area + 4) = -1;
    return syscall(SYS_rseq, area, AREA, flags, RSEQ_SIGNATURE) == 0;
}

/* ---- objects with owners --------------------------------------------------------------------- */

static struct stook_cache *cache;
static void *_Atomic exchange[EXCHANGE];
static pthread_key_t key;

static void construct(void *object, void *arg)
{
    atomic_init((_Atomic uintptr_t *)object, 0);
}

static void own(void *object, uintptr_t from, uintptr_t to)
{
    MUST(atomic_exchange((_Atomic uintptr_t *)object, to) == from);
}

static void *take(uintptr_t me)
{
    void *object = me % 2 ? stook_alloc(cache, 0) : stook_alloc_inline(cache, 0);

    MUST(object);
    own(object, 0, me);
    return object;
}

static void give(void *object, uintptr_t me)
{
    own(object, me, 0);
    if (me % 3)
        stook_free(cache, object);
    else
        stook_free_inline(cache, object);
}

/* Some are freed by other threads. */
static void work(uintptr_t me)
{
    void *held[HELD];

    for (unsigned i = 0; i < HELD; i++)
        held[i] = take(me);
    for (unsigned i = 0; i < HELD; i++) {
        void *object = held[i];
        if (i % 8 == 0) {
            own(object, me, UINTPTR_MAX);
            object = atomic_exchange(&exchange[(me + i) % EXCHANGE], object);
            if (object)
                own(object, UINTPTR_MAX, me);
        }
        if (object)
            give(object, me);
    }
}

static void cache_begin(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct};

    assert_non_null(cache = stook_cache_create("register", 64, &args));
}

static void cache_end(void)
{
    for (unsigned i = 0; i < EXCHANGE; i++) {
        void *object = atomic_exchange(&exchange[i], NULL);
        if (object)
            give(object, UINTPTR_MAX);
    }
    stook_cache_shrink(cache);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- threads that come and go ---------------------------------------------------------------- */

struct visit {
    uintptr_t me;
    unsigned round;
    bool first; /* the destructors make the first calls */
};

static _Atomic unsigned ended;

/* In four rounds of destructors; the last is where a thread may be that has not called before. */
static void destruct(void *value)
{
    struct visit *visit = value;

    visit->round++;
    if (!visit->first || visit->round == ROUNDS)
        work(visit->me);
    if (visit->round < ROUNDS)
        MUST(pthread_setspecific(key, visit) == 0);
    else
        free(visit);
}

static void visit_later(uintptr_t me, bool first)
{
    struct visit *visit = malloc(sizeof(*visit));

    MUST(visit);
    *visit = (struct visit){.me = me, .first = first};
    MUST(pthread_setspecific(key, visit) == 0);
}

static void handle(int signal)
{
    (void)signal;
    work(7);
}

enum kind { JOINED, DETACHED, DESTRUCTED, LATE, CANCELLED, HANDLED, CUT, KINDS };

static void *come_and_go(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    enum kind kind = me % KINDS;

    if (kind == HANDLED)
        raise(SIGUSR1);
    if (kind != LATE) {
        work(me);
        MUST(percpu_cpu() >= 0);
    }
    if (kind == DESTRUCTED || kind == LATE)
        visit_later(me, kind == LATE);
    if (kind == CANCELLED) {
        MUST(pthread_cancel(pthread_self()) == 0);
        pthread_testcancel();
        MUST(false);
    }
    if (kind == DETACHED)
        atomic_fetch_add(&ended, 1); /* its last instructions may still be to come */
#ifdef __GLIBC__
    if (kind == CUT) /* no destructor runs; in musl pthread_join() would not return */
        syscall(SYS_exit, 0);
#endif
    return arg;
}

TEST(test_threads_come_and_go)
{
    struct sigaction action = {.sa_handler = handle};
    unsigned detached = 0;
    unsigned threads = (unsigned)scaled(REGISTRATION_THREADS);

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_key_create(&key, destruct), 0);
    cache_begin();
    work(1);
    atomic_store(&asked, 0);
    for (unsigned i = 0; i < threads; i += AT_ONCE) {
        pthread_t thread[AT_ONCE];
        unsigned n = threads - i < AT_ONCE ? threads - i : AT_ONCE;
        for (unsigned t = 0; t < n; t++)
            assert_int_equal(
                pthread_create(&thread[t], NULL, come_and_go, (void *)(uintptr_t)(i + t)), 0);
        for (unsigned t = 0; t < n; t++)
            if ((i + t) % KINDS == DETACHED) {
                pthread_detach(thread[t]);
                detached++;
            } else {
                pthread_join(thread[t], NULL);
            }
    }
    while (atomic_load(&ended) < detached)
        sched_yield();
    print_message("%u threads, %u registrations, %u undone\n", threads, atomic_load(&asked),
                  atomic_load(&undone));
#ifdef __GLIBC__
    assert_int_equal(atomic_load(&asked), threads);
    assert_int_equal(atomic_load(&undone), 0);
#else /* a thread in its last destructors does not register */
    assert_int_equal(atomic_load(&asked), threads - (threads + KINDS - 1 - LATE) / KINDS);
    while (atomic_load(&undone) < atomic_load(&asked))
        sched_yield();
#endif
    cache_end();
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void *ask_once(void *arg)
{
    unsigned before = atomic_load(&asked);

    work(3);
    MUST(percpu_cpu() >= 0 && atomic_load(&asked) == before + 1);
    return arg;
}

/* The child's only thread has what the forking thread had. */
static int child_goes_on(bool registered)
{
    unsigned before = atomic_load(&asked);
    pthread_t thread;

    for (unsigned i = 0; i < fixture_cpus; i++) {
        MUST(fixture_pin(fixture_cpu[i]));
        work(5);
        MUST(percpu_cpu() == (int)fixture_cpu[i]);
    }
    MUST(atomic_load(&asked) == before + !registered);
    MUST(pthread_create(&thread, NULL, ask_once, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    return 0;
}

static void *fork_from_here(void *arg)
{
    bool registered = arg != NULL;
    pid_t child;
    int status;

    if (registered)
        work(9);
    child = fork();
    MUST(child >= 0);
    if (child == 0)
        _exit(child_goes_on(registered));
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    work(9);
    return arg;
}

static atomic_bool stop;

static void *work_on(void *arg)
{
    while (!atomic_load(&stop))
        work((uintptr_t)arg);
    return arg;
}

TEST(test_fork_in_the_middle)
{
    pthread_t others[2], thread;

    cache_begin();
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&others[i], NULL, work_on, (void *)(11 + i)), 0);
    for (uintptr_t i = 0; i < scaled(60); i++) {
        assert_int_equal(pthread_create(&thread, NULL, fork_from_here, (void *)(i % 2)), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    cache_end();
}

/* The memory is the parent's, the registration is not: no number may stay behind in the parent's area. */
static void *vfork_from_here(void *arg)
{
    unsigned before = atomic_load(&asked);
    pid_t child = vfork();
    int status;

    if (child == 0) {
        work(13);
        _exit(percpu_cpu() >= 0);
    }
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(registration_cpu(registration_own()) < 0 && atomic_load(&asked) == before);
    work(13);
    MUST(percpu_cpu() >= 0 && atomic_load(&asked) == before + 1);
    return arg;
}

TEST(test_vfork)
{
    pthread_t thread;

    cache_begin();
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, vfork_from_here, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    cache_end();
}

/* ---- a program that registers and unregisters its own ---------------------------------------- */

static _Atomic unsigned theirs, ours;

/* Neither the library nor the program undoes the other's registration; threads of both kinds work. */
static void *mixed(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    uint64_t random = me * 0x9e3779b97f4a7c15u;
    bool first = random >> 40 & 1, registered = first && area_call(0);

    MUST(registered == first);
    atomic_fetch_add(registered ? &theirs : &ours, 1);
    for (unsigned i = 0; i < 40; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        work(me);
        MUST((percpu_cpu() >= 0) == !first);
        MUST(!registered || area_cpu() >= 0);
        if (!first)
            MUST(!area_call(0));
        else if (random % 4 == 0) {
            MUST(area_call(registered ? UNREGISTER : 0));
            registered = !registered;
        }
    }
    if (registered)
        MUST(area_call(UNREGISTER));
    return arg;
}

TEST(test_program_registers)
{
    unsigned threads = (unsigned)scaled(600);

    cache_begin();
    work(1);
    atomic_store(&asked, 0);
    for (unsigned i = 0; i < threads; i += AT_ONCE) {
        pthread_t thread[AT_ONCE];
        for (unsigned t = 0; t < AT_ONCE; t++)
            assert_int_equal(
                pthread_create(&thread[t], NULL, mixed, (void *)(uintptr_t)(i + t + 1)), 0);
        for (unsigned t = 0; t < AT_ONCE; t++)
            pthread_join(thread[t], NULL);
    }
    print_message("%u threads of the program's, %u of the library's\n", atomic_load(&theirs),
                  atomic_load(&ours));
    assert_true(atomic_load(&theirs) > threads / 4 && atomic_load(&ours) > threads / 4);
    assert_int_equal(atomic_load(&asked), atomic_load(&theirs) + atomic_load(&ours));
    cache_end();
}

/* ---- the mode at the start ------------------------------------------------------------------- */

/* Its own process, in a thread that has not called: what percpu_init() finds. */
static void starts(void *(*body)(void *))
{
    pid_t child = fork();
    pthread_t thread;
    int status;

    if (child == 0) {
        MUST(pthread_create(&thread, NULL, body, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void start(bool rseq, const char *why)
{
    memset(&percpu, 0, sizeof(percpu));
    percpu_init();
    percpu_map();
    printf("%s: %s\n", percpu.rseq ? "rseq" : "locked", percpu.why);
    MUST(percpu.rseq == rseq && strstr(percpu.why, why));
}

static void slot_goes(bool registered)
{
    uintptr_t offset = percpu_offset(1);
    struct sheaf *sheaf = fixture_sheaf(8), *held;
    struct slot *slot;
    void *object = NULL;

    percpu_slot_init(1);
    held = slot_close(offset, &slot, false);
    MUST((held != NULL) == registered);
    if (!held)
        return;
    slot_open(slot, sheaf);
    MUST(slot_push(offset, sheaf) && slot_pop(offset, &object) && object == sheaf);
    MUST(slot_close(offset, &slot, false) == sheaf);
    slot_open(slot, SHEAF_NONE);
}

static void *start_alone(void *arg)
{
    start(true, "own registration");
    slot_goes(true);
    return arg;
}

static void *start_refused(void *arg)
{
    atomic_store(&refusal, -EPERM);
    start(false, "sandbox");
    slot_goes(true);
    return arg;
}

static void *start_unknown(void *arg)
{
    MUST(area_call(0));
    start(false, "keeps to itself");
    slot_goes(true);
    MUST(area_cpu() >= 0);
    return arg;
}

static void *start_elsewhere(void *arg)
{
    MUST(area_call(0));
    known = aligned_alloc(AREA, AREA); /* as in a module that was loaded later */
    MUST(known);
    memset(known, 0, AREA);
    start(false, "keeps to itself");
    return arg;
}

static void *use_known(void *arg)
{
    unsigned before = atomic_load(&asked);

    *(volatile int32_t *)(area + 4) = -1;
    slot_goes(false);
    MUST(area_call(0));
    slot_goes(true);
    MUST(area_call(UNREGISTER));
    slot_goes(false);
    MUST(atomic_load(&asked) == before);
    return arg;
}

static void *start_known(void *arg)
{
    pthread_t thread;

    MUST(area_call(0));
    known = area;
#ifndef __GLIBC__ /* musl's errno does not say where the program's variables end */
    start(false, "keeps to itself");
    return arg;
#endif
    start(true, "__rseq_abi");
    MUST(percpu.rseq_offset == area - (char *)__builtin_thread_pointer());
    slot_goes(true);
    MUST(pthread_create(&thread, NULL, use_known, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    return arg;
}

TEST(test_start)
{
    starts(start_alone);
    starts(start_refused);
    starts(start_unknown);
    starts(start_elsewhere);
    starts(start_known);
}

/* A sandbox that is entered later: threads from then on have no sections. */
static void *refused_later(void *arg)
{
    work(3);
    MUST(percpu_cpu() < 0);
    return arg;
}

TEST(test_refused_later)
{
    pthread_t thread;

    cache_begin();
    work(1);
    atomic_store(&refusal, -EPERM);
    assert_int_equal(pthread_create(&thread, NULL, refused_later, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    atomic_store(&refusal, 0);
    cache_end();
}

int main(void)
{
    (void)init_once();
    fixture_start();
    if (!percpu.rseq || percpu.rseq_offset != registration_own()) {
        printf("%s\n", percpu.why);
        return 77;
    }
    return tests_run(NULL, NULL);
}
