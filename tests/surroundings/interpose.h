/* SPDX-License-Identifier: MIT */
/*
 * interpose.h - stands before libc in all that Stook calls of it (support/libc_calls.def), and in what allocators
 * usually call.  Each function allocates, moves and frees, and then jumps to libc's.  Included by a module for LD_PRELOAD
 * and by a program that defines these functions itself.
 *
 * INTERPOSE=lock    a lock is held meanwhile, under which interpose_churn() allocates, too
 * INTERPOSE=fork    the first call forks; its child allocates and ends
 * INTERPOSE=thread  the first call starts a thread that allocates
 */
#ifndef STOOK_TESTS_SURROUNDINGS_INTERPOSE_H
#define STOOK_TESTS_SURROUNDINGS_INTERPOSE_H

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What Stook calls no more, or never did. */
#define INTERPOSE_OTHERS(X)                                                                        \
    X(mmap)                                                                                        \
    X(munmap)                                                                                      \
    X(mprotect)                                                                                    \
    X(mremap)                                                                                      \
    X(madvise)                                                                                     \
    X(mincore)                                                                                     \
    X(getrandom)                                                                                   \
    X(getrlimit)                                                                                   \
    X(setrlimit)                                                                                   \
    X(prlimit)                                                                                     \
    X(sysconf)                                                                                     \
    X(syscall)                                                                                     \
    X(prctl)                                                                                       \
    X(open)                                                                                        \
    X(openat)                                                                                      \
    X(read)                                                                                        \
    X(pread)                                                                                       \
    X(write)                                                                                       \
    X(close)                                                                                       \
    X(fcntl)                                                                                       \
    X(flock)                                                                                       \
    X(fstat)                                                                                       \
    X(ftruncate)                                                                                   \
    X(unlink)                                                                                      \
    X(readlink)                                                                                    \
    X(getcwd)                                                                                      \
    X(getpid)                                                                                      \
    X(gettid)                                                                                      \
    X(getpgrp)                                                                                     \
    X(getenv)                                                                                      \
    X(secure_getenv)                                                                               \
    X(raise)                                                                                       \
    X(sigprocmask)                                                                                 \
    X(pthread_sigmask)                                                                             \
    X(pthread_mutex_lock)                                                                          \
    X(pthread_once)                                                                                \
    X(pthread_key_create)                                                                          \
    X(pthread_setspecific)                                                                         \
    X(pthread_getspecific)                                                                         \
    X(pthread_getattr_np)                                                                          \
    X(sched_getcpu)                                                                                \
    X(sched_yield)                                                                                 \
    X(sched_getaffinity)                                                                           \
    X(nanosleep)                                                                                   \
    X(clock_nanosleep)                                                                             \
    X(dl_iterate_phdr)                                                                             \
    X(get_nprocs)                                                                                  \
    X(get_nprocs_conf)                                                                             \
    X(sscanf)                                                                                      \
    X(__isoc99_sscanf)                                                                             \
    X(backtrace)

/* A function saves the registers of its arguments, asks for its number's address, and jumps there. */
#if defined(__x86_64__)
#define INTERPOSE_CODE(name)                                                                       \
    ".globl " name "\n.type " name ", @function\n" name ":\n"                                      \
    "endbr64\nmovl $interpose_n, %r11d\njmp interpose_any\n.set interpose_n, interpose_n + 1\n"
#define INTERPOSE_ANY                                                                              \
    "interpose_any:\npushq %rbp\nmovq %rsp, %rbp\nandq $-16, %rsp\nsubq $192, %rsp\n"              \
    "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\nmovups %xmm2, 32(%rsp)\n"                       \
    "movups %xmm3, 48(%rsp)\nmovups %xmm4, 64(%rsp)\nmovups %xmm5, 80(%rsp)\n"                     \
    "movups %xmm6, 96(%rsp)\nmovups %xmm7, 112(%rsp)\n"                                            \
    "movq %rdi, 128(%rsp)\nmovq %rsi, 136(%rsp)\nmovq %rdx, 144(%rsp)\nmovq %rcx, 152(%rsp)\n"     \
    "movq %r8, 160(%rsp)\nmovq %r9, 168(%rsp)\nmovq %rax, 176(%rsp)\n"                             \
    "movl %r11d, %edi\nmovq 8(%rbp), %rsi\ncall interpose_call\nmovq %rax, %r11\n"                 \
    "movups (%rsp), %xmm0\nmovups 16(%rsp), %xmm1\nmovups 32(%rsp), %xmm2\n"                       \
    "movups 48(%rsp), %xmm3\nmovups 64(%rsp), %xmm4\nmovups 80(%rsp), %xmm5\n"                     \
    "movups 96(%rsp), %xmm6\nmovups 112(%rsp), %xmm7\n"                                            \
    "movq 128(%rsp), %rdi\nmovq 136(%rsp), %rsi\nmovq 144(%rsp), %rdx\nmovq 152(%rsp), %rcx\n"     \
    "movq 160(%rsp), %r8\nmovq 168(%rsp), %r9\nmovq 176(%rsp), %rax\n"                             \
    "movq %rbp, %rsp\npopq %rbp\njmp *%r11\n"
#elif defined(__aarch64__)
#define INTERPOSE_CODE(name)                                                                       \
    ".globl " name "\n.type " name ", %function\n" name ":\n"                                      \
    "mov w16, interpose_n\nb interpose_any\n.set interpose_n, interpose_n + 1\n"
#define INTERPOSE_ANY                                                                              \
    "interpose_any:\nstp x29, x30, [sp, -208]!\nmov x29, sp\n"                                     \
    "stp x0, x1, [sp, 16]\nstp x2, x3, [sp, 32]\nstp x4, x5, [sp, 48]\nstp x6, x7, [sp, 64]\n"     \
    "stp q0, q1, [sp, 80]\nstp q2, q3, [sp, 112]\nstp q4, q5, [sp, 144]\nstp q6, q7, [sp, 176]\n"  \
    "mov w0, w16\nmov x1, x30\nbl interpose_call\nmov x16, x0\n"                                   \
    "ldp x0, x1, [sp, 16]\nldp x2, x3, [sp, 32]\nldp x4, x5, [sp, 48]\nldp x6, x7, [sp, 64]\n"     \
    "ldp q0, q1, [sp, 80]\nldp q2, q3, [sp, 112]\nldp q4, q5, [sp, 144]\nldp q6, q7, [sp, 176]\n"  \
    "ldp x29, x30, [sp], 208\nbr x16\n"
#else /* no code for this processor: nothing is interposed */
#define INTERPOSE_CODE(name) ""
#define INTERPOSE_ANY ""
#endif

__asm__(".text\n.set interpose_n, 0\n" INTERPOSE_ANY
#define CALL(name, why) INTERPOSE_CODE(#name)
#define PURE(name, why)
#define DATA(name, why)
#include "support/libc_calls.def"
#undef CALL
#define OTHER(name) INTERPOSE_CODE(#name)
            INTERPOSE_OTHERS(OTHER)
#undef OTHER
                ".previous\n");

static const char *const interpose_name[] = {
#define CALL(name, why) #name,
#include "support/libc_calls.def"
#undef CALL
#define OTHER(name) #name,
    INTERPOSE_OTHERS(OTHER)
#undef OTHER
};
#undef PURE
#undef DATA

#define INTERPOSE_IS_THERE true
enum { INTERPOSED = sizeof(interpose_name) / sizeof(interpose_name[0]) };

static void *interpose_real[INTERPOSED];
static unsigned interpose_made[INTERPOSED],
    interpose_calls[INTERPOSED]; /* the latter by the libraries */
static bool interpose_locks, interpose_broken;
static pthread_mutex_t interpose_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread __attribute__((tls_model("initial-exec"))) bool interpose_inside;

void *interpose_call(unsigned number, const void *from);
__attribute__((visibility("default"))) void interpose_churn(void);
__attribute__((visibility("default"))) bool interpose_report(void);

/* Small, large and aligned objects; those that the library's start hands out live on. */
static void interpose_objects(bool small)
{
    static char *kept[16];
    static _Atomic unsigned next;
    char **keep = &kept[next++ % 16], *a = malloc(78), *b = calloc(3, 1000),
         *c = aligned_alloc(64, 200);
    size_t large = small ? 500 : 40000;
    bool good = a && b && c && (uintptr_t)c % 64 == 0 && malloc_usable_size(a) >= 78;

    for (unsigned i = 0; good && i < 3000; i++)
        good = b[i] == 0;
    if (good) {
        memset(a, 1, 78);
        memset(b, 2, 3000);
        a = realloc(a, large);
        good = a && a[0] == 1 && a[77] == 1 && malloc_usable_size(a) >= large;
    }
    if (good) {
        memset(a, 1, large);
        a = realloc(a, 100);
        good = a && a[99] == 1;
    }
    free(c);
    free(b);
    b = __atomic_exchange_n(keep, a, __ATOMIC_SEQ_CST);
    free(b);
    if (!good)
        __atomic_store_n(&interpose_broken, true, __ATOMIC_SEQ_CST);
}

static void *interpose_thread(void *arg)
{
    interpose_inside = true;
    for (int i = 0; i < 100; i++)
        interpose_objects(false);
    return arg;
}

static const char *interpose_asked(void)
{
    extern char **environ;

    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "INTERPOSE=", 10) == 0)
            return *e + 10;
    return "";
}

static void interpose_take(void)
{
    pthread_mutex_lock(&interpose_lock);
}

static void interpose_drop(void)
{
    pthread_mutex_unlock(&interpose_lock);
}

static void interpose_first(void)
{
    static bool done;
    const char *asked = interpose_asked();
    pthread_t thread;
    int status = 0;

    if (__atomic_exchange_n(&done, true, __ATOMIC_SEQ_CST))
        return;
    if (strcmp(asked, "lock") == 0)
        interpose_locks = pthread_atfork(interpose_take, interpose_drop, interpose_drop) == 0;
    if (strcmp(asked, "thread") == 0 && pthread_create(&thread, NULL, interpose_thread, NULL) == 0)
        pthread_detach(thread);
    if (strcmp(asked, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            interpose_objects(false);
            _exit(interpose_broken);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            interpose_broken = true;
    }
}

static void interpose_find(unsigned number)
{
    const char *name = interpose_name[number];

    if (!interpose_real[number])
        interpose_real[number] = strcmp(name, "dlsym") == 0 ? dlvsym(RTLD_NEXT, name, "GLIBC_2.34")
                                                            : dlsym(RTLD_NEXT, name);
}

/* Where to jump to.  errno stays: getauxval() and others set it only where they fail. */
void *interpose_call(unsigned number, const void *from)
{
    int saved = errno;
    unsigned made;
    Dl_info info;

    if (!interpose_inside) {
        interpose_inside = true;
        interpose_find(number);
        if (dladdr(from, &info) && strstr(info.dli_fname, "/libstook"))
            __atomic_fetch_add(&interpose_calls[number], 1, __ATOMIC_SEQ_CST);
        interpose_first();
        if (interpose_locks)
            pthread_mutex_lock(&interpose_lock);
        made = __atomic_fetch_add(&interpose_made[number], 1, __ATOMIC_SEQ_CST);
        if (made < 100)
            interpose_objects(made > 2);
        else
            free(malloc(78));
        if (interpose_locks)
            pthread_mutex_unlock(&interpose_lock);
        interpose_inside = false;
    }
    interpose_find(number);
    errno = saved;
    return interpose_real[number];
}

/* Of a thread of the program's: what waits for the lock of this library, and what has it, allocate. */
void interpose_churn(void)
{
    interpose_inside = true;
    pthread_mutex_lock(&interpose_lock);
    interpose_objects(true);
    pthread_mutex_unlock(&interpose_lock);
    interpose_inside = false;
}

/* Says which of its functions Stook called; false: an object was not what it should be. */
bool interpose_report(void)
{
    interpose_inside = true;
    for (unsigned i = 0; i < INTERPOSED; i++)
        if (interpose_calls[i] > 0)
            dprintf(STDOUT_FILENO, "%s %u\n", interpose_name[i], interpose_calls[i]);
    interpose_inside = false;
    return !interpose_broken;
}

#endif
