/* SPDX-License-Identifier: MIT */
/* Seccomp filters from lists of system calls, and the names of those that matter here. */
#ifndef STOOK_TESTS_SURROUNDINGS_FILTER_H
#define STOOK_TESTS_SURROUNDINGS_FILTER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "surroundings/figures.h"

enum { FILTER_MAX = 64 };

#define FILTER_CALL(name)                                                                          \
    {                                                                                              \
#name, __NR_##name                                                                         \
    }

static const struct filter_call {
    const char *name;
    int number;
} filter_calls[] = {
    FILTER_CALL(brk),
    FILTER_CALL(clock_gettime),
    FILTER_CALL(close),
    FILTER_CALL(exit),
    FILTER_CALL(exit_group),
    FILTER_CALL(fstat),
    FILTER_CALL(ftruncate),
    FILTER_CALL(futex),
    FILTER_CALL(get_mempolicy),
    FILTER_CALL(getcpu),
    FILTER_CALL(getpid),
    FILTER_CALL(getrandom),
    FILTER_CALL(gettid),
    FILTER_CALL(madvise),
    FILTER_CALL(mbind),
    FILTER_CALL(membarrier),
    FILTER_CALL(memfd_create),
    FILTER_CALL(mmap),
    FILTER_CALL(mprotect),
    FILTER_CALL(mremap),
    FILTER_CALL(munmap),
    FILTER_CALL(openat),
    FILTER_CALL(prctl),
    FILTER_CALL(prlimit64),
    FILTER_CALL(process_vm_readv),
    FILTER_CALL(ptrace),
    FILTER_CALL(read),
    FILTER_CALL(rseq),
    FILTER_CALL(rt_sigaction),
    FILTER_CALL(rt_sigprocmask),
    FILTER_CALL(rt_sigreturn),
    FILTER_CALL(sched_getaffinity),
    FILTER_CALL(sched_setaffinity),
    FILTER_CALL(sched_yield),
    FILTER_CALL(set_mempolicy),
    FILTER_CALL(sysinfo),
    FILTER_CALL(uname),
    FILTER_CALL(write),
};

static inline int filter_number(const char *name)
{
    for (size_t i = 0; i < sizeof(filter_calls) / sizeof(filter_calls[0]); i++)
        if (strcmp(filter_calls[i].name, name) == 0)
            return filter_calls[i].number;
    return -1;
}

/* What becomes of the calls in the list, and of those that are not; a stay of this thread, and its children's. */
static inline void filter_install(const int *numbers, unsigned count, unsigned listed,
                                  unsigned others)
{
    static struct sock_filter program[2 + 2 * FILTER_MAX];
    struct sock_fprog all = {.filter = program};
    unsigned n = 0;

    program[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count && i < FILTER_MAX; i++) {
        program[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    all.len = (unsigned short)n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) {
        say("no filter can be installed: %s\n", strerror(errno));
        _exit(77);
    }
}

#endif
