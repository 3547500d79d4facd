/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * How a process comes to its mode, and what becomes of threads and contexts that cannot run
 * sections: not registered, single-stepped, or in a sandbox that was entered late.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#define HAS_SECTIONS PERCPU_HAS_SECTIONS

enum { SLOT = 1 };

static uintptr_t offset;
static struct sheaf *sheaf;
static char **arguments;

static void *token(uintptr_t i)
{
    return (void *)(0x10000 + i * 16);
}

/* A slot of this CPU with `size` tokens. */
static void slot_fill(uint32_t size)
{
    struct slot *slot;

    percpu_slot_init(SLOT);
    for (uint32_t i = 0; i < size; i++)
        sheaf->object[i] = token(i);
    assert_non_null(slot_close(offset, &slot, false));
    sheaf->size = size; /* which the closing said, if it was there already */
    slot_open(slot, sheaf);
}

static bool asked_for_locked(void)
{
    const char *mode = getenv("STOOK_MODE");

    return mode && strcmp(mode, "locked") == 0;
}

TEST(test_mode_as_asked)
{
    assert_non_null(percpu.why);
    assert_true(strlen(percpu.why) > 0);
    if (asked_for_locked() || !HAS_SECTIONS)
        assert_false(percpu.rseq);
    if (percpu.rseq)
        assert_true(percpu_cpu() >= 0);
}

/* This program again, with another environment: its mode, as main() says it. */
static int mode_of(const char *variable, const char *value)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        unsetenv("STOOK_MODE");
        setenv(variable, value, 1);
        execl("/proc/self/exe", arguments[0], "--mode", (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

enum { MODE_LOCKED = 10, MODE_RSEQ = 11, MODE_OWN = 12 };

TEST(test_mode_is_fixed_at_start)
{
    if (!HAS_SECTIONS) {
        assert_false(percpu.rseq);
        return;
    }
    assert_int_equal(mode_of("STOOK_MODE", "locked"), MODE_LOCKED);
    if (!percpu.rseq)
        return;
    assert_int_equal(mode_of("GLIBC_TUNABLES", "glibc.pthread.rseq=1"),
                     &__rseq_size ? MODE_RSEQ : MODE_OWN);
    /* glibc's switch: the library registers an area of its own. */
    assert_int_equal(mode_of("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), MODE_OWN);
}

/* From here on a system call fails with EPERM. */
static bool sandbox(unsigned call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum { CHILD_GOOD = 0, CHILD_BAD = 1, CHILD_SKIP = 77 };

static int child_of(int (*body)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int slot_works(void)
{
    struct slot *slot;
    void *object;

    percpu_slot_init(SLOT);
    if (slot_close(offset, &slot, false) != SHEAF_NONE)
        return CHILD_BAD;
    sheaf->size = 0;
    slot_open(slot, sheaf);
    if (!slot_push(offset, token(3)) || !slot_pop(offset, &object) || object != token(3))
        return CHILD_BAD;
    return CHILD_GOOD;
}

/* A sandbox that is there at start means locked mode, and the slots work. */
static int start_in_sandbox(void)
{
    if (!sandbox(SYS_membarrier))
        return CHILD_SKIP;
    memset(&percpu, 0, sizeof(percpu));
    percpu_init();
    percpu_map();
    if (percpu.rseq || !strstr(percpu.why, "membarrier"))
        return CHILD_BAD;
    return slot_works();
}

/* Where the kernel does not say how many CPUs there may be, there are rows enough, and all works. */
static int start_without_affinity(void)
{
    if (!sandbox(SYS_sched_getaffinity))
        return CHILD_SKIP;
    memset(&percpu, 0, sizeof(percpu));
    errno = 5;
    if (!topology.simulated) {
        memset(&topology, 0, sizeof(topology));
        topology_init();
    }
    percpu_init();
    percpu_map();
    if (errno != 5 || (percpu.rows < PERCPU_ROWS_UNKNOWN && !topology.simulated))
        return CHILD_BAD;
    return slot_works();
}

/* A later refusal: a refused fence is reported to the caller, which then does not read the sheaf. */
static int enter_sandbox_late(void)
{
    if (!percpu_fence(fixture_cpu[0]))
        return CHILD_BAD;
    if (!sandbox(SYS_membarrier))
        return CHILD_SKIP;
    errno = 5;
    if (percpu_fence(fixture_cpu[0]) == percpu.rseq || errno != 5)
        return CHILD_BAD;
    return CHILD_GOOD;
}

static void child_passes(int (*body)(void))
{
    int result = child_of(body);

    if (result == CHILD_SKIP)
        skip();
    assert_int_equal(result, CHILD_GOOD);
}

TEST(test_sandbox_at_start)
{
    if (asked_for_locked() || !HAS_SECTIONS)
        skip();
    child_passes(start_in_sandbox);
}

TEST(test_no_affinity)
{
    child_passes(start_without_affinity);
}

TEST(test_sandbox_later)
{
    child_passes(enter_sandbox_late);
}

/* Every call of a thread that is not registered; NULL, or what it should not have done. */
static void *unregistered_thread(void *arg)
{
    void *objects[4] = {0};
    struct slot *slot;

    if (!fixture_pin(fixture_cpu[0]) || percpu_cpu() < 0 || !rseq_unregister())
        return "could not unregister";
    if (percpu_cpu() >= 0)
        return "has a CPU number";
    if (slot_pop(offset, objects) || slot_pop_bulk(offset, objects, 4) != 0)
        return "popped";
    if (slot_push(offset, token(9)) || slot_push_bulk(offset, objects, 4) != 0)
        return "pushed";
    if (slot_close(offset, &slot, false))
        return "closed";
    if (stook_rseq_pop(percpu.areas + offset, percpu.rseq_offset, objects) ||
        stook_rseq_push(percpu.areas + offset, percpu.rseq_offset, objects))
        return "ran an inlined section";
    /* It may take, as any thread may. */
    slot = percpu_slot(fixture_cpu[0], offset);
    if (slot_take(slot, true) != sheaf || !percpu_fence(fixture_cpu[0]) ||
        slot_taken(slot)->size != 4)
        return "did not take";
    slot_open(slot, sheaf);
    /* -2 is what a failed registration leaves; only this thread reads it here. */
    *(volatile int32_t *)((char *)__builtin_thread_pointer() + percpu.rseq_offset + 4) = -2;
    if (percpu_cpu() != -2 || slot_pop(offset, objects) || slot_close(offset, &slot, false))
        return "took -2 for a CPU";
    *(volatile int32_t *)((char *)__builtin_thread_pointer() + percpu.rseq_offset + 4) = -1;
    if (!rseq_register())
        return "could not register again";
    if (!slot_pop(offset, objects) || objects[0] != token(3))
        return "did not pop once registered";
    return NULL;
}

TEST(test_unregistered_thread)
{
    pthread_t thread;
    void *wrong = "did not run";

    if (!percpu.rseq)
        skip();
    assert_true(fixture_pin(fixture_cpu[0]));
    slot_fill(4);
    assert_int_equal(pthread_create(&thread, NULL, unregistered_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    if (wrong)
        fail_msg("an unregistered thread %s", (const char *)wrong);
    assert_int_equal(slot_look_size(offset), 3);
}

/* In locked mode registration plays no part. */
TEST(test_unregistered_thread_in_locked_mode)
{
    void *object = NULL;

    if (percpu.rseq || !HAS_SECTIONS || !rseq_unregister())
        skip();
    assert_true(fixture_pin(fixture_cpu[0]));
    slot_fill(4);
    assert_true(slot_pop(offset, &object));
    assert_ptr_equal(object, token(3));
    assert_true(slot_push(offset, object));
    assert_true(rseq_register());
}

#if defined(__x86_64__)
enum { TRAP_FLAG = 0x100, STEPS_MAX = 20000 };

static volatile sig_atomic_t steps;

static void count_step(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;

    if (++steps >= STEPS_MAX) /* without a bound it would not end */
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static inline void single_step(bool on)
{
    if (on)
        __asm__ __volatile__("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                             "leaq 128(%%rsp), %%rsp" ::
                                 : "memory", "cc");
    else
        __asm__ __volatile__(
            "leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
            "leaq 128(%%rsp), %%rsp" ::
                : "memory", "cc");
}

/* Under a debugger's single-stepping no section completes: calls return empty-handed, all of them. */
TEST(test_single_stepped)
{
    struct sigaction action = {.sa_sigaction = count_step, .sa_flags = SA_SIGINFO}, old;
    void *objects[4] = {0};
    struct slot *slot = NULL;
    struct sheaf *closed = NULL;
    uint32_t popped = 0, pushed = 0;
    int each[5];

    assert_true(fixture_pin(fixture_cpu[0]));
    slot_fill(4);
    assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
    for (int call = 0; call < 5; call++) {
        steps = 0;
        single_step(true);
        switch (call) {
        case 0:
            popped += slot_pop(offset, objects);
            break;
        case 1:
            pushed += slot_push(offset, token(4));
            break;
        case 2:
            popped += slot_pop_bulk(offset, objects + 1, 2);
            break;
        case 3:
            pushed += slot_push_bulk(offset, objects + 1, 2);
            break;
        default:
            closed = slot_close(offset, &slot, false);
            break;
        }
        single_step(false);
        each[call] = steps;
    }
    sigaction(SIGTRAP, &old, NULL);
    for (int call = 0; call < 5; call++) {
        assert_true(each[call] > 10); /* it was stepped */
        assert_true(each[call] < STEPS_MAX);
    }
    if (percpu.rseq) {
        assert_int_equal(popped, 0);
        assert_int_equal(pushed, 0);
        assert_null(closed);
    } else {
        assert_int_equal(popped, 3);
        assert_int_equal(pushed, 3);
        assert_ptr_equal(closed, sheaf);
        slot_open(slot, sheaf);
    }
    assert_int_equal(slot_look_size(offset), 4);
    assert_true(slot_pop(offset, objects));
    assert_true(slot_push(offset, objects[0]));
    assert_ptr_equal(slot_close(offset, &slot, false), sheaf);
    slot_open(slot, SHEAF_NONE);
}
#endif

int main(int argc, char **argv)
{
    arguments = argv;
    fixture_start();
    if (argc > 1 && strcmp(argv[1], "--mode") == 0)
        return !percpu.rseq                               ? MODE_LOCKED
               : percpu.rseq_offset == registration_own() ? MODE_OWN
                                                          : MODE_RSEQ;
    offset = percpu_offset(SLOT);
    sheaf = fixture_sheaf(8);
    return tests_run(NULL, NULL);
}
