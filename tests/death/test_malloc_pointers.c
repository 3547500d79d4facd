/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * A pointer that malloc did not hand out, or that is free already where that is seen: a report
 * that names what is known, then SIGABRT.
 */
#include "support/malloc_calls.h"

#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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

static void free_inside_later(void)
{
    /* A multiple of 16 goes in with the others, and is seen on its way back to the slab. */
    t_free((char *)t_malloc(1000) + 16);
    t_malloc_trim(0);
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
     "^stook: free: pointer 0x[0-9a-f]+ is not of this malloc \\(.*\\)\n$"},
    {"a static variable", free_static, "^stook: free: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"mapped memory", free_mapped, "^stook: free: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"an odd address", free_odd,
     "^stook: bad free: cache malloc-112: pointer 0x[0-9a-f]+ is not the start of an object; it "
     "lies 1 bytes into object [0-9]+ of slab 0x[0-9a-f]+ of cache malloc-112 \\(object size 112"},
    {"the inside of an object", free_inside_later,
     "^stook: bad free: cache malloc-1024: pointer 0x[0-9a-f]+ is not the start of an object; it "
     "lies 16 bytes into object [0-9]+"},
    {"the inside of a run", free_inside_large,
     "^stook: free: pointer 0x[0-9a-f]+ lies 8192 bytes into the object 0x[0-9a-f]+ of 102400"},
    {"the inside of a span", free_inside_span,
     "^stook: free: pointer 0x[0-9a-f]+ lies 1048624 bytes into the object 0x[0-9a-f]+ of "},
    {"a large object twice", free_large_twice,
     "^stook: free: pointer 0x[0-9a-f]+ is in no object: freed already, or never handed out\n$"},
    {"a small object twice", free_small_twice,
     "^stook: bad free: cache malloc-208: pointer 0x[0-9a-f]+ is freed twice"},
    {"an address of the arena", free_never_handed_out,
     "^stook: free: pointer 0x[0-9a-f]+ is in no object"},
    {"realloc of a static variable", realloc_foreign,
     "^stook: realloc: pointer 0x[0-9a-f]+ is not of this malloc"},
    {"realloc of the inside", realloc_inside,
     "^stook: bad free: cache malloc-512: pointer 0x[0-9a-f]+ is not the start of an object"},
    {"the usable size of a static variable", usable_size_of_foreign,
     "^stook: malloc_usable_size: pointer 0x[0-9a-f]+ is not of this malloc"},
};

static void test_each_is_reported(void **state)
{
    char text[4096];

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_is_reported)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
