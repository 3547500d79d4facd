/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * How deep the calls go: each on a painted stack of its own, in every situation that takes another
 * path, and none deeper than STACK_MOST.  Programs call malloc on stacks of a few KiB: coroutines,
 * handlers on an alternate stack of SIGSTKSZ, threads of PTHREAD_STACK_MIN.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

/* Elsewhere frames have another size. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&    \
    !defined(STOOK_ASSERTIONS)

enum {
    STACK_MOST = 3712,
    STACK_SIZE = 256 << 10,
    PAINT = 0xa5,
    OBJECTS = 20000,
    SIZES = 8,
};

static const size_t sizes[SIZES] = {16, 64, 512, 1000, 4000, 20000, 100000, 3000000};
static unsigned char *stack;
static ucontext_t test_context, call_context;
static void *objects[OBJECTS];
static struct stook_cache *cache;

static size_t unused_bytes(void)
{
    size_t unused = 0;

    while (unused < STACK_SIZE && stack[unused] == PAINT)
        unused++;
    return unused;
}

static void call_on_stack(void (*body)(void), const char *what)
{
    memset(stack, PAINT, STACK_SIZE);
    assert_int_equal(getcontext(&call_context), 0);
    call_context.uc_stack.ss_sp = stack;
    call_context.uc_stack.ss_size = STACK_SIZE;
    call_context.uc_link = &test_context;
    makecontext(&call_context, body, 0);
    assert_int_equal(swapcontext(&test_context, &call_context), 0);
    print_message("%-28s %5zu bytes\n", what, STACK_SIZE - unused_bytes());
    assert_true(STACK_SIZE - unused_bytes() <= STACK_MOST);
    assert_true(STACK_SIZE - unused_bytes() > 64); /* it was called at all */
}

static unsigned count_of(size_t size)
{
    return size >= 1000000 ? 12 : size >= 20000 ? 400 : OBJECTS / 4;
}

static void shuffle(unsigned n)
{
    for (unsigned i = n - 1; i > 0; i--) {
        unsigned j = (i * 2654435761u) % (i + 1);
        void *object = objects[i];
        objects[i] = objects[j];
        objects[j] = object;
    }
}

/* Up and down, in order and shuffled. */
static void use_malloc(void)
{
    for (unsigned round = 0; round < 4; round++)
        for (unsigned s = 0; s < SIZES; s++) {
            unsigned n = count_of(sizes[s]);
            for (unsigned i = 0; i < n; i++)
                objects[i] = round % 2 ? t_calloc(1, sizes[s]) : t_malloc(sizes[s]);
            if (round > 1)
                shuffle(n);
            for (unsigned i = 0; i < n; i++)
                t_free(objects[i]);
        }
}

static void use_realloc(void)
{
    for (unsigned i = 0; i < 200; i++)
        objects[i] = NULL;
    for (unsigned s = 0; s < 2 * SIZES; s++)
        for (unsigned i = 0; i < 200; i++) /* up and down again */
            objects[i] =
                t_realloc(objects[i], sizes[s < SIZES ? s : 2 * SIZES - 1 - s] / (1 + i % 2));
    for (unsigned i = 0; i < 200; i++)
        t_free(objects[i]);
}

static void use_aligned(void)
{
    for (size_t align = 16; align <= (size_t)4 << 20; align *= 4) {
        for (unsigned i = 0; i < 16; i++)
            if (t_posix_memalign(&objects[i], align, 100 + 3 * i) != 0)
                abort();
        for (unsigned i = 0; i < 16; i++)
            t_free(objects[i]);
    }
}

static void use_trim(void)
{
    use_malloc();
    (void)t_malloc_trim(0);
}

/* Memory is refused: what reclaims, and what fails. */
static void use_refused(void)
{
    unsigned n = 0;

    objects[OBJECTS - 1] = NULL;
    while (n < OBJECTS - 1 && (objects[n] = t_malloc(60000 + 16 * n)) != NULL)
        n++;
    if (n == OBJECTS - 1 || errno != ENOMEM)
        abort();
    for (unsigned s = 0; s < 5; s++)
        for (void *last; (last = t_malloc(sizes[s])) != NULL;)
            *(void **)last = objects[OBJECTS - 1], objects[OBJECTS - 1] = last;
    if (t_realloc(objects[0], 1u << 30))
        abort();
    for (void *last = objects[OBJECTS - 1], *next; last; last = next) {
        next = *(void **)last;
        t_free(last);
    }
    while (n > 0)
        t_free(objects[--n]);
}

static void use_cache(void)
{
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < OBJECTS; i++)
            if (!(objects[i] = stook_alloc(cache, round % 2 ? STOOK_NORECLAIM : STOOK_SIGNAL_SAFE)))
                abort();
        if (round > 1)
            shuffle(OBJECTS);
        for (unsigned i = 0; i < OBJECTS; i++)
            stook_free(cache, objects[i]);
        for (unsigned i = 0; i < OBJECTS; i += 200)
            if (stook_alloc_bulk(cache, STOOK_NORECLAIM, 200, objects + i) != 0)
                abort();
        for (unsigned i = 0; i < OBJECTS; i += 200)
            stook_free_bulk(cache, 200, objects + i);
    }
}

TEST(test_malloc_calls)
{
    call_on_stack(use_malloc, "malloc, calloc, free");
    call_on_stack(use_realloc, "realloc");
    call_on_stack(use_aligned, "posix_memalign");
    call_on_stack(use_trim, "malloc_trim");
    call_on_stack(use_malloc, "malloc after it");
}

/* On another CPU than before. */
TEST(test_after_a_migration)
{
    cpu_set_t all, one;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof(one), &one) == 0)
            call_on_stack(use_malloc, "malloc after a migration");
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST(test_stook)
{
    static const size_t of[] = {32, 200, 3000};

    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        cache = stook_cache_create("stack", of[i], NULL);
        assert_non_null(cache);
        call_on_stack(use_cache, "stook_alloc, stook_free");
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

TEST(test_refused)
{
    struct rlimit before, limit;

    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)192 << 20;
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    call_on_stack(use_refused, "malloc that fails");
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
}

int main(void)
{
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return 1;
    return tests_run(NULL, NULL);
}
#endif
