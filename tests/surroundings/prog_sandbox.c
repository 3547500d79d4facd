/* SPDX-License-Identifier: MIT */
/*
 * prog_sandbox refuse LIST PROGRAM...   runs a program to which the kernel refuses these calls
 *                                       (EPERM); "fixed": mmap() with MAP_FIXED_NOREPLACE (EOPNOTSUPP)
 * prog_sandbox kill LIST                after the start, threads may make these calls alone, and then
 *                                       exercise malloc, free, calloc and realloc while they are moved
 *                                       from CPU to CPU; another call ends the process
 */
#include <sys/mman.h>

#include "surroundings/exercise.h"
#include "surroundings/filter.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { THREADS = 3, ROUNDS = 24, SHARED = 512 };

static int listed[FILTER_MAX];
static unsigned listed_count;
static _Atomic int inside, finished;
static _Atomic pid_t thread_id[THREADS];
static void *_Atomic shared[SHARED];

static void list(char *names, int fixed)
{
    char *rest = NULL;

    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        int number = filter_number(name);
        if (fixed && strcmp(name, "fixed") == 0)
            continue;
        if (number < 0 || listed_count == FILTER_MAX)
            give_up("%s is not known", name);
        listed[listed_count++] = number;
    }
}

static void refuse_fixed(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED_NOREPLACE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof(program) / sizeof(program[0]), program};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        _exit(77);
}

/* Ends like a kill, and prints the call first. */
static void forbidden(int signal, siginfo_t *info, void *context)
{
    for (size_t i = 0; i < sizeof(filter_calls) / sizeof(filter_calls[0]); i++)
        if (filter_calls[i].number == info->si_syscall)
            say("forbidden: %s\n", filter_calls[i].name);
    say("forbidden: system call %d\n", info->si_syscall);
    _exit(3);
}

/* Objects pass from thread to thread; each takes what it finds and frees it. */
static void pass(struct exercise *e)
{
    for (int i = 0; i < 2000; i++) {
        size_t size = exercise_random(e) % 4000 + 1;
        char *object = malloc(size);
        if (!object)
            give_up("%zu bytes were refused", size);
        memset(object, 1, size);
        free(__atomic_exchange_n((void **)&shared[exercise_random(e) % SHARED], object,
                                 __ATOMIC_ACQ_REL));
    }
}

static void *inside_main(void *context)
{
    static struct exercise all[THREADS];
    int number = (int)(intptr_t)context;
    struct exercise *e = &all[number];

    thread_id[number] = gettid();
    e->random = (unsigned)number + 1;
    exercise_steps(e, 100);
    inside++;
    while (inside < THREADS + 1) /* all threads have arrived, and main, which moves them */
        sched_yield();
    filter_install(listed, listed_count, SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP);
    for (int round = 0; round < ROUNDS; round++) {
        exercise_steps(e, 1000);
        pass(e);
        if (round % 8 == 7)
            exercise_end(e);
    }
    /* A large one grows, shrinks, and moves. */
    char *large = realloc(memset(malloc(3 << 20), 1, 3 << 20), 9 << 20);
    large = realloc(large, 40 << 20);
    large = realloc(large, 1 << 20);
    free(realloc(large, 100));
    exercise_end(e);
    finished++;
    return NULL;
}

static void inside_all(void)
{
    pthread_t thread[THREADS];
    struct sigaction action = {.sa_sigaction = forbidden, .sa_flags = SA_SIGINFO};
    unsigned moves = 0;

    sigaction(SIGSYS, &action, NULL);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, inside_main, (void *)(intptr_t)i))
            give_up("a thread cannot be made");
    while (inside < THREADS)
        usleep(1000);
    inside++;
    while (finished < THREADS) {
        pin_thread(thread_id[moves % THREADS], (int)(moves / THREADS));
        moves++;
        usleep(300);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SHARED; i++)
        free((void *)shared[i]);
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "refuse") == 0) {
        int fixed = strstr(argv[2], "fixed") != NULL;
        list(argv[2], 1);
        if (fixed)
            refuse_fixed();
        filter_install(listed, listed_count, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
        execvp(argv[3], argv + 3);
        give_up("%s: %s", argv[3], strerror(errno));
    }
    if (argc < 3 || strcmp(argv[1], "kill") != 0)
        give_up("prog_sandbox: what?");
    list(argv[2], 0);
    inside_all();
    say("done 1\n");
    return 0;
}
