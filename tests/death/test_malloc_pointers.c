/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * A pointer that malloc did not hand out, or that is free already where that is seen: a report
 * that names what is known, then SIGABRT.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Whether a free was taken without a word: asked in a child, and of that nothing is heard. */
static bool freed_quietly(void *p)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        close(STDERR_FILENO);
        t_free(p);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) != pid)
        continue;
    return WIFEXITED(status);
}

static void free_stack(void)
{
    char local[64] __attribute__((aligned(16)));

    t_free(local);
}

static void free_static(void)
{
    static char data[64] __attribute__((aligned(16)));

    t_free(data);
}

static void free_mapped(void)
{
    t_free(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void free_odd(void)
{
    t_free((char *)t_malloc(100) + 1);
}

static void free_inside(void)
{
    t_free((char *)t_malloc(1000) + 16);
}

/* No step of 16, but every class's stride and every order of slabs meets the same test. */
static void free_inside_any_class(void)
{
    static const int steps[] = {16, 8, -16, 48, 1};
    char *p[2];

    for (size_t size = 16; size <= 32768; size += size / 16 + 8) {
        for (int i = 0; i < 5; i++) {
            size_t usable;
            for (int k = 0; k < 2; k++)
                p[k] = t_malloc(size);
            usable = t_malloc_usable_size(p[1]);
            if ((size_t)(steps[i] < 0 ? -steps[i] : steps[i]) % usable == 0)
                continue;
            if (freed_quietly(p[1] + steps[i]))
                _exit(9);
        }
    }
    abort();
}

static void free_inside_large(void)
{
    t_free((char *)t_malloc(100000) + 8192);
}

static void free_inside_span(void)
{
    t_free((char *)t_malloc(9 << 20) + (1 << 20) + 48);
}

static void free_large_twice(void)
{
    void *p = t_malloc(100000);

    t_free(p);
    t_free(p);
}

static void free_small_twice(void)
{
    void *p = t_malloc(200);

    t_free(p);
    t_free(p);
    t_malloc_trim(0);
}

static void free_repeated(void)
{
    void *p = t_malloc(200);

    t_free(p);
    t_free(p);
}

static void free_p_q_p(void)
{
    void *p = t_malloc(200), *q = t_malloc(200);

    t_free(p);
    t_free(q);
    t_free(p);
}

/* Deep in a sheaf, too. */
static void free_p_q_r_p(void)
{
    void *p = t_malloc(200), *q = t_malloc(200), *r = t_malloc(200);

    t_free(p);
    t_free(q);
    t_free(r);
    t_free(p);
}

/* Whatever was allocated and freed meanwhile, as long as the object was not handed out again. */
static void free_after_traffic(void)
{
    for (size_t size = 8; size <= 32768; size += size / 16 + 8) {
        void *p = t_malloc(size), *q[9];
        for (int i = 0; i < 9; i++)
            q[i] = t_malloc(size);
        t_free(p);
        for (int i = 0; i < 9; i++)
            t_free(q[i]);
        for (int i = 0; i < 100; i++)
            t_free(t_malloc(size));
        if (freed_quietly(p))
            _exit(9);
    }
    abort();
}

static void *free_it(void *p)
{
    t_free(p);
    return NULL;
}

static void free_in_another_thread(void)
{
    void *p = t_malloc(200);
    pthread_t thread;

    pthread_create(&thread, NULL, free_it, p);
    pthread_join(thread, NULL);
    t_free(p);
}

static void usable_size_of_freed(void)
{
    void *p = t_malloc(200);

    t_free(p);
    t_malloc_usable_size(p);
}

/*
 * An object on whose page another one lives: of the same slab, which stays.  Two in a row need not be
 * of one slab, as the first may be the last one of the sheaf.
 */
static void *with_neighbour(size_t size)
{
    static void *taken[1000];

    for (int n = 0; n < 1000; n++) {
        taken[n] = t_malloc(size);
        for (int i = 0; i < n; i++)
            if (((uintptr_t)taken[i] ^ (uintptr_t)taken[n]) < 4096)
                return taken[i];
    }
    _exit(8);
}

/* Back in its slab, where a neighbour lives: the slab's count would not tell. */
static void free_at_rest_of(size_t size)
{
    void *p = with_neighbour(size);

    t_free(p);
    t_malloc_trim(0);
    t_free(p);
    t_malloc_trim(0);
}

static void free_at_rest(void)
{
    free_at_rest_of(200);
}

static void free_at_rest_small(void)
{
    free_at_rest_of(16);
}

static void realloc_moves_freed(void)
{
    void *p = t_malloc(200);

    t_free(p);
    t_realloc(p, 10000);
}

static void free_of_the_library(void)
{
    t_free(stook_cache_create("mine", 40, NULL));
}

static void free_never_handed_out(void)
{
    t_free((char *)t_malloc(3 << 20) + ((size_t)1 << 33));
}

static void realloc_foreign(void)
{
    static char data[64] __attribute__((aligned(16)));

    t_realloc(data, 100);
}

static void realloc_inside(void)
{
    t_realloc((char *)t_malloc(500) + 32, 1000);
}

static void usable_size_of_foreign(void)
{
    static char data[64] __attribute__((aligned(16)));

    t_malloc_usable_size(data);
}

/* What a sheaf's top tells, it tells of one CPU. */
static void stay(void)
{
    cpu_set_t one;
    int cpu = sched_getcpu();

    CPU_ZERO(&one);
    CPU_SET(cpu < 0 ? 0 : (unsigned)cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* Runs a call in a child; its standard error, and how it ended. */
static int die(void (*call)(void), char *text, size_t size)
{
    size_t got = 0;
    int ends[2], status;
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        alarm(240);
        stay();
        call();
        _exit(0);
    }
    close(ends[1]);
    while (got < size - 1 && (n = read(ends[0], text + got, size - 1 - got)) > 0)
        got += (size_t)n;
    text[got] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static const struct {
    const char *name;
    void (*call)(void);
    const char *pattern;
} deaths[] = {
    {"a local variable", free_stack,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is not of this malloc \\(.*\\)\n"},
    {"a static variable", free_static,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"mapped memory", free_mapped, "^stook: BUG: free: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"an odd address", free_odd,
     "^stook: BUG malloc-112: bad free: pointer 0x[0-9a-f]+ is not the start of an object; it "
     "lies 1 bytes into object [0-9]+ of slab 0x[0-9a-f]+ of cache malloc-112 \\(object size 112"},
    {"the inside of an object", free_inside,
     "^stook: BUG malloc-1024: bad free: pointer 0x[0-9a-f]+ is not the start of an object; it "
     "lies 16 bytes into object [0-9]+"},
    {"the inside of a run", free_inside_large,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is not the start of an object; it lies 8192 bytes into object 0x[0-9a-f]+ of 102400"},
    {"the inside of a span", free_inside_span,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is not the start of an object; it lies 1048624 bytes into object 0x[0-9a-f]+ of "},
    {"a large object twice", free_large_twice,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is in no object: freed already, or never handed out\n"},
    {"a small object twice", free_small_twice,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice"},
    {"an object twice at once", free_repeated,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"an object again behind another one", free_p_q_p,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"an object again behind two", free_p_q_r_p,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"an object at rest in its slab", free_at_rest,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"a small object at rest in its slab", free_at_rest_small,
     "^stook: BUG malloc-16: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"realloc of what was freed", realloc_moves_freed,
     "^stook: BUG malloc-208: realloc: pointer 0x[0-9a-f]+ is free already; it lies 0 bytes into object "},
    {"an object of each class after other traffic", free_after_traffic, "^$"},
    {"an object that another thread freed", free_in_another_thread,
     "^stook: BUG malloc-208: bad free: pointer 0x[0-9a-f]+ is freed twice; it lies 0 bytes into "},
    {"the usable size of what was freed", usable_size_of_freed,
     "^stook: BUG malloc-208: malloc_usable_size: pointer 0x[0-9a-f]+ is free already; it lies 0 bytes into object "},
    {"the library's own object", free_of_the_library,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ cannot be freed: it is the library's own memory \\(its cache [a-z-]+\\)\n"},
    {"the insides of all classes", free_inside_any_class, "^$"},
    {"an address of the arena", free_never_handed_out,
     "^stook: BUG: free: pointer 0x[0-9a-f]+ is in no object"},
    {"realloc of a static variable", realloc_foreign,
     "^stook: BUG: realloc: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"realloc of the inside", realloc_inside,
     "^stook: BUG malloc-512: bad free: pointer 0x[0-9a-f]+ is not the start of an object"},
    {"the usable size of a static variable", usable_size_of_foreign,
     "^stook: BUG: malloc_usable_size: pointer 0x[0-9a-f]+ is not of this malloc"},
};

TEST(test_each_is_reported)
{
    char text[4096];

    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        int status = die(deaths[i].call, text, sizeof(text));
        regex_t regex;
        assert_int_equal(regcomp(&regex, deaths[i].pattern, REG_EXTENDED | REG_NOSUB), 0);
        if (regexec(&regex, text, 0, NULL, 0) != 0)
            fail_msg("%s: \"%s\" is not like \"%s\"", deaths[i].name, text, deaths[i].pattern);
        regfree(&regex);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("%s: status 0x%x is no abort", deaths[i].name, status);
    }
}

/* Descriptors, sheaves in use and kept, and what lies between them. */
TEST(test_no_memory_of_the_library_is_taken)
{
    enum { AROUND = 128 << 10, STEP = 13 * 64 };
    char *own = (char *)stook_cache_create("mine", 40, NULL);

    assert_non_null(own);
    for (ptrdiff_t at = -AROUND; at < AROUND; at += STEP)
        if (freed_quietly(own + at))
            fail_msg("%p is taken, %td bytes from a cache", (void *)(own + at), at);
}

int main(void)
{
    calls_make_classes();
    return tests_run(NULL, NULL);
}
