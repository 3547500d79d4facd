/* SPDX-License-Identifier: MIT */
/* link: shared */
/*
 * Objects that are in use at the end, for test_leaks.py: prog_leaks [clean] [threads] [busy] [wait] [END].
 *
 * Lost: 3 points; a string; a list of two; a ring of two; 300 KiB of whole pages.  Possible: an array of which only
 * the second element is pointed to.  In reach: objects that a global, another thread's stack and register, a
 * thread-local variable and another object point to.  Free: in sheaves, and behind readers.
 *
 * END is how the process ends: _exit, abort, or in a thread: exit-thread, last-thread, exec-thread, which becomes `true`.
 * Otherwise main() returns.  fork: a child loses one string more and ends by _exit(), and a child of vfork() ends.
 *
 * busy: a thread moves pointers all the time.  The top of a stack is always younger than the search that meets it, and a
 * list goes from one global to another, a part at a time.
 */
#include <stook/stook.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct point {
    struct point *next;
    char name[40];
};

static struct stook_cache *points, *hidden;
static char *volatile middle;
static void *volatile global;
static __thread void *volatile local;

/* The compiler knows neither the object nor that its address is not used. */
static inline void *escape(void *object)
{
    __asm__ volatile("" : "+r"(object) : : "memory");
    return object;
}

__attribute__((noinline)) static void *lose_point(void)
{
    return memset(escape(stook_alloc(points, 0)), 0, sizeof(struct point));
}

__attribute__((noinline)) static char *lose_string(void)
{
    return strcpy(escape(malloc(100)), "a string that is lost");
}

__attribute__((noinline)) static struct point *lose_chain(void)
{
    struct point *first = escape(calloc(1, 700));

    first->next = escape(calloc(1, 600));
    return first;
}

__attribute__((noinline)) static struct point *lose_ring(void)
{
    struct point *first = escape(calloc(1, 1500));

    first->next = escape(calloc(1, 1500));
    first->next->next = first;
    return first;
}

__attribute__((noinline)) static void *lose_pages(void)
{
    return memset(escape(malloc(300 << 10)), 0, 16);
}

__attribute__((noinline)) static void keep_some(void)
{
    struct point *chain = calloc(1, 2200);

    chain->next = calloc(1, 2200);
    global = chain;
    local = calloc(1, 2700);
    middle = (char *)calloc(10, 320) + 320;
}

/* Words of earlier frames and registers do not stay where the search finds them. */
__attribute__((noinline)) static void wipe(void)
{
    volatile char space[96 << 10];

    memset((char *)space, 0, sizeof(space));
#if defined(__x86_64__)
    __asm__ volatile("" : : "r"(space) : "memory", "rbx", "r12", "r13", "r14", "r15");
#else
    __asm__ volatile(""
                     :
                     : "r"(space)
                     : "memory", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
                       "x28");
#endif
}

__attribute__((noinline)) static void plant(void)
{
    for (int i = 0; i < 3; i++)
        (void)escape(lose_point());
    (void)escape(lose_string());
    (void)escape(lose_chain());
    (void)escape(lose_ring());
    (void)escape(lose_pages());
}

/* More than a slot has, so that some are in barns and some in slabs. */
__attribute__((noinline)) static void churn(void)
{
    static void *object[4000];

    for (int i = 0; i < 4000; i++)
        object[i] = stook_alloc(points, 0);
    for (int i = 0; i < 4000; i++)
        stook_free(points, object[i]);
    for (int i = 0; i < 4000; i++)
        object[i] = malloc((size_t)i % 900);
    for (int i = 0; i < 4000; i++)
        free(object[i]);
    memset(object, 0, sizeof(object));
}

/* Not an address: its complement. */
static volatile unsigned long masked;

__attribute__((noinline)) static void mask(void)
{
    masked = ~(unsigned long)stook_alloc(hidden, 0);
}

/* The address of an object is in a register that calls preserve, and nowhere else. */
static void *hold(void *arg)
{
    int *tube = arg;

    local = calloc(1, 3300);
    mask();
    wipe();
#ifdef __x86_64__
    __asm__ volatile("mov %0, %%rbx\n\tnot %%rbx\n\t"
                     "mov $1, %%eax\n\tmov $1, %%edx\n\tsyscall\n" /* write */
                     "1:\tmov $34, %%eax\n\tsyscall\n\tjmp 1b"     /* pause */
                     :
                     : "m"(masked), "D"((long)tube[1]), "S"("r")
                     : "rax", "rbx", "rcx", "rdx", "r11", "memory");
#else
    global = (void *)~masked; /* not what is tested */
    (void)!write(tube[1], "r", 1);
    for (;;)
        pause();
#endif
    return NULL;
}

struct link {
    struct link *next;
    char name[56];
};

enum { STACK = 20000, STACK_MAX = 5000000, LIST = 20000 };

static struct link *volatile stack, *volatile list[2];

static void push(struct link *volatile *top)
{
    struct link *link = malloc(sizeof(*link));

    link->next = *top;
    *top = link;
}

/* The first `n` of a list, which lie in no global for a moment. */
static void move(struct link *volatile *from, struct link *volatile *to, int n)
{
    for (struct link *link; n > 0 && (link = *from); n--) {
        *from = link->next;
        link->next = *to;
        *to = link;
    }
}

static void *work(void *arg)
{
    struct timespec nap = {.tv_nsec = 100000};
    int pushed = STACK;

    for (unsigned from = 0;; from ^= !list[from]) {
        for (int i = 0; i < 10 && pushed < STACK_MAX; i++, pushed++)
            push(&stack);
        move(&list[from], &list[from ^ 1], 500);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static void begin_work(void)
{
    pthread_t thread;

    for (int i = 0; i < STACK; i++)
        push(&stack);
    for (int i = 0; i < LIST; i++)
        push(&list[0]);
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        exit(2);
}

static const char *end;

/* Loses a string, or has this process's memory (vfork()) and does nothing. */
static void fork_child(void)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        (void)escape(lose_string());
        wipe();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(3);
    if ((child = vfork()) == 0)
        _exit(0);
    if (waitpid(child, &status, 0) != child)
        exit(3);
}

static void *end_thread(void *first)
{
    if (!strcmp(end, "exit-thread"))
        exit(0);
    if (!strcmp(end, "exec-thread"))
        execlp("true", "true", (char *)NULL);
    if (pthread_join(*(pthread_t *)first, NULL) != 0)
        exit(3);
    return NULL;
}

static void end_by(void)
{
    static pthread_t first;
    pthread_t thread;

    first = pthread_self();
    if (!strcmp(end, "_exit"))
        _exit(0);
    if (!strcmp(end, "abort"))
        abort();
    if (pthread_create(&thread, NULL, end_thread, &first) != 0)
        exit(3);
    if (!strcmp(end, "last-thread"))
        pthread_exit(NULL);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    bool clean = false, threads = false, wait = false, busy = false;

    for (int i = 1; i < argc; i++) {
        clean |= !strcmp(argv[i], "clean");
        threads |= !strcmp(argv[i], "threads");
        busy |= !strcmp(argv[i], "busy");
        wait |= !strcmp(argv[i], "wait"); /* "ready", then until its input ends */
    }
    points = stook_cache_create("points", sizeof(struct point), NULL);
    hidden = stook_cache_create("hidden", 200, NULL);
    keep_some();
    if (!clean)
        plant();
    churn();
    if (threads) {
        static int tube[2];
        pthread_t thread;
        char c;
        if (pipe(tube) != 0)
            return 2;
        if (pthread_create(&thread, NULL, hold, tube) != 0 || read(tube[0], &c, 1) != 1)
            return 2;
    }
    if (busy)
        begin_work();
    if (!strcmp(argv[argc - 1], "fork"))
        fork_child();
    else if (strstr("_exit abort exit-thread last-thread exec-thread", argv[argc - 1]))
        end = argv[argc - 1];
    wipe();
    if (wait && write(STDOUT_FILENO, "ready\n", 6) == 6)
        for (char c; read(STDIN_FILENO, &c, 1) > 0;)
            ;
    if (end)
        end_by();
    return 0;
}
