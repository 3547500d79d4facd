/* SPDX-License-Identifier: MIT */
/*
 * Memory is allocated and freed on stacks that the C library does not know.  Coroutines run in mappings of their own, in
 * objects of malloc and below the first thread's stack.  Handlers run on alternate stacks.  Threads run on memory of the
 * program, and some were not made by the C library.  Each case runs in a child, and is printed with its result.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "surroundings/figures.h"

enum { OBJECTS = 1500, SIZE = 64 << 10, PAGE = 4096 };

static __attribute__((noinline)) void work(void)
{
    void **kept = mmap(NULL, OBJECTS * sizeof(*kept), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (int i = 0; i < OBJECTS; i++)
        kept[i] = malloc(i % 100 ? 256 : 100000);
    for (int i = 0; i < OBJECTS; i++)
        free(kept[i]);
    munmap(kept, OBJECTS * sizeof(*kept));
}

/* As coroutines written by hand: the rule of its frame leads beyond `top`. */
static __attribute__((noinline)) void on_stack(char *top, void (*call)(void))
{
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tcall *%1\n\tmov %%rbx, %%rsp"
                     :
                     : "r"(top), "r"(call)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
                       "cc");
#else
    __asm__ volatile("mov x19, sp\n\tmov sp, %0\n\tblr %1\n\tmov sp, x19"
                     :
                     : "r"(top), "r"(call)
                     : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                       "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30", "memory",
                       "cc");
#endif
}

/* The top of a stack; nothing can be read above it, nor below. */
static char *guarded(void)
{
    char *at = mmap(NULL, SIZE + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || mprotect(at + PAGE, SIZE, PROT_READ | PROT_WRITE))
        give_up("no memory for a stack");
    return at + PAGE + SIZE;
}

static void coroutines(void)
{
    on_stack(guarded(), work);
    for (size_t size = 16 << 10; size <= 1 << 20; size *= 4) {
        char *object = malloc(size);
        on_stack(object + size, work);
        free(object);
    }
}

static void contexts(void)
{
    static ucontext_t own, other;

    getcontext(&other);
    other.uc_stack.ss_sp = guarded() - SIZE;
    other.uc_stack.ss_size = SIZE;
    other.uc_link = &own;
    makecontext(&other, work, 0);
    swapcontext(&own, &other);
}

static void handler(int signal)
{
    work();
}

static void interrupted(void)
{
    raise(SIGUSR1);
    work();
}

static void handlers(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = guarded() - SIZE, .ss_size = SIZE};

    sigaction(SIGUSR1, &action, NULL);
    if (sigaltstack(&stack, NULL))
        give_up("no alternate stack");
    interrupted();
    on_stack(guarded(), interrupted);
}

static void end(int signal)
{
    work();
    _exit(0);
}

static __attribute__((noinline)) int fill(int n)
{
    volatile char room[1024];

    room[0] = (char)n;
    return n == 0 ? 0 : fill(n - 1) + room[0];
}

/* The stack pointer of what was interrupted lies where nothing can be read. */
static void overflow(void)
{
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = guarded() - SIZE, .ss_size = SIZE};

    sigaction(SIGSEGV, &action, NULL);
    if (sigaltstack(&stack, NULL) || fill(-1) == 0)
        give_up("no alternate stack");
}

static void all(void)
{
    work();
    coroutines();
    contexts();
    handlers();
}

static void *thread_main(void *call)
{
    ((void (*)(void))call)();
    return NULL;
}

static void thread_on(char *memory, size_t size, void (*call)(void))
{
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    if ((memory && pthread_attr_setstack(&attributes, memory, size)) ||
        pthread_create(&thread, &attributes, thread_main, (void *)call) ||
        pthread_join(thread, NULL))
        give_up("no thread");
}

static void threads(void)
{
    char *mapped = mmap(NULL, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    thread_on(NULL, 0, all);
    thread_on(mapped, 4 * SIZE, all);
    for (size_t odd = 0; odd < 2 * PAGE; odd += 16 * 43)
        thread_on((char *)malloc(4 * SIZE + odd) + odd, 4 * SIZE, all);
}

static void overflow_in_thread(void)
{
    thread_on(NULL, 0, overflow);
}

static int clone_main(void *call)
{
    ((void (*)(void))call)();
    return 0;
}

/* With its creator's thread-local memory, and with memory of which the C library knows no thread. */
static void clones(void)
{
    void *(*make)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD, status = 0;

    for (int own = 0; own < (make ? 2 : 1) && status == 0; own++) {
        uintptr_t *memory = own ? make(NULL) : NULL;
#if defined(__x86_64__)
        if (own)
            memory[0] = (uintptr_t)memory;
#endif
        pid_t child = clone(clone_main, guarded(), flags | (own ? CLONE_SETTLS : 0), (void *)work,
                            NULL, memory);
        if (child < 0 || waitpid(child, &status, 0) != child)
            give_up("no child");
    }
    if (status)
        give_up("clone");
}

/* Where the first thread's stack would grow to: right below it, a page further, and far below. */
static void below(void)
{
    static const size_t gaps[] = {0, PAGE, 2 << 20};
    FILE *maps = fopen("/proc/self/maps", "r");
    uintptr_t start = 0;
    char line[512];

    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "[stack]"))
            start = strtoul(line, NULL, 16);
    for (size_t i = 0; start && i < 3; i++) {
        char *at = mmap((void *)(start - gaps[i] - SIZE), SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        on_stack(at + SIZE, work);
        if (i > 0 && mprotect(at + SIZE - PAGE, PAGE, PROT_NONE) == 0)
            on_stack(at + SIZE - PAGE, work);
        munmap(at, SIZE);
    }
}

static __attribute__((noinline)) int deeper(int n)
{
    volatile char room[1024];

    room[0] = 0;
    if (n > 0)
        return deeper(n - 1) + room[0];
    work();
    return room[0];
}

static void deep(void)
{
    deeper(500);
    deeper(5000);
}

static const struct {
    const char *name;
    void (*call)(void);
} ways[] = {
    {"coroutines", coroutines},
    {"contexts", contexts},
    {"handlers", handlers},
    {"threads", threads},
    {"clones", clones},
    {"below", below},
    {"deep", deep},
    {"overflow", overflow},
    {"overflow_in_thread", overflow_in_thread},
};

int main(void)
{
    work();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            ways[i].call();
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            give_up("no child");
        say("%s %d\n", ways[i].name, status);
    }
    return 0;
}
