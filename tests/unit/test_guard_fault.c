/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * The guard's handler and the program's.  The guard calls an earlier handler of the program as the kernel would, with its
 * flags, mask and stack.  Faults outside the pool pass through, and nothing is reported twice.
 */
#include "base/settings.h"
#include "guard/guard.h"
#include "kmalloc/kmalloc.h"
#include "support/test.h"

#include <stook/kmalloc.h>

#include <signal.h>
#include <sys/mman.h>

enum { STACK = 64 << 10 };

static sigjmp_buf back;
static volatile int called;
static void *volatile address;
static char stack[STACK];

/* A live object at the right end of its page; sampling begins here, behind the program's handler. */
static volatile char *take(size_t size)
{
    guard_begin(1);
    stook_kmalloc_doors();
    for (int i = 0; i < 1000; i++) {
        char *object = stook_kmalloc(size, STOOK_NORECLAIM);
        if (guard_covers(object) && (uintptr_t)object % 4096 != 0)
            return object;
        if (guard_covers(object))
            stook_free_any(object);
    }
    _exit(8);
}

static bool on_stack(const void *local)
{
    return (uintptr_t)local - (uintptr_t)stack < STACK;
}

static void install(int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags};

    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK}, NULL) ||
        sigaction(SIGSEGV, &action, NULL))
        _exit(9);
}

static int plain(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    return sigaction(SIGSEGV, &action, NULL) ? 9 : 0;
}

/* ---- the program's handler was there before --------------------------------------------------- */

static void jump(int number, siginfo_t *info, void *context)
{
    sigset_t mask;

    sigprocmask(SIG_BLOCK, NULL, &mask);
    called = number == SIGSEGV && on_stack(&mask) && sigismember(&mask, SIGUSR1) &&
                     sigismember(&mask, SIGSEGV)
                 ? called + 1
                 : 100;
    address = info->si_addr;
    siglongjmp(back, 1);
}

static int chained(void *unused)
{
    volatile char *object;

    install(SA_SIGINFO | SA_ONSTACK, jump);
    object = take(64);
    for (volatile int turn = 0; turn < 3; turn++)
        if (sigsetjmp(back, 1) == 0) {
            object[64 + turn] = 1;
            return 1;
        } else if (address != &object[64 + turn]) {
            return 2;
        }
    if (called != 3)
        return 3;
    stook_free_any((char *)object); /* it is as it was */
    return 0;
}

TEST(test_chained)
{
    struct child child;
    const char *first;

    child_run(&child, chained, NULL);
    assert_true(child_passed(&child));
    first = strstr(child.error, "overflow: ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "overflow: ")); /* one report an object */
}

static void plain_handler(int number)
{
    called = number;
    siglongjmp(back, 1);
}

static int chained_plain(void *unused)
{
    if (plain(plain_handler))
        return 9;
    if (sigsetjmp(back, 1) == 0)
        take(64)[64] = 1;
    return called == SIGSEGV ? 0 : 1;
}

TEST(test_chained_plain)
{
    struct child child;

    child_run(&child, chained_plain, NULL);
    assert_true(child_passed(&child));
    assert_non_null(strstr(child.error, "overflow: "));
}

/* ---- faults that are none of the guard's -------------------------------------------------------- */

static int foreign(void *unused)
{
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    install(SA_SIGINFO | SA_ONSTACK, jump);
    (void)take(64);
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)page = 1;
    if (called != 1 || address != page)
        return 1;
    if (sigsetjmp(back, 1) == 0)
        raise(SIGSEGV);
    return called == 2 ? 0 : 2;
}

TEST(test_foreign)
{
    struct child child;

    child_run(&child, foreign, NULL);
    assert_true(child_passed(&child));
    assert_string_equal(child.error, "");
}

/* A handler that repairs and returns, as those of virtual machines do: the access is made again. */
static char *repaired;

static void repair(int number, siginfo_t *info, void *context)
{
    if (info->si_addr == repaired)
        called += mprotect(repaired, 4096, PROT_READ | PROT_WRITE) == 0;
}

TEST_IN_CHILD(test_returning)
{
    repaired = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SA_SIGINFO | SA_ONSTACK | SA_NODEFER, repair);
    (void)take(64);
    *(volatile char *)repaired = 7;
    return called == 1 && *repaired == 7 ? 0 : 1;
}

/* ---- no handler --------------------------------------------------------------------------------- */

static int none_foreign(void *unused)
{
    (void)take(64);
    *(volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    return 0;
}

static int none_sent(void *unused)
{
    (void)take(64);
    raise(SIGSEGV);
    return 0;
}

static int ignored_sent(void *unused)
{
    if (plain(SIG_IGN))
        return 9;
    (void)take(64);
    raise(SIGSEGV);
    return 0;
}

static int ignored_fault(void *unused)
{
    if (plain(SIG_IGN))
        return 9;
    take(64)[64] = 1; /* the kernel does not let it be ignored */
    return 0;
}

static __attribute__((noinline)) int deeper(int depth)
{
    volatile char room[1000];

    room[0] = (char)depth;
    return depth < 0 ? 0 : deeper(depth + 1) + room[0];
}

static int too_deep(void *unused)
{
    (void)take(64);
    return deeper(0);
}

static int own_later(void *unused)
{
    volatile char *object = take(64);

    install(SA_SIGINFO | SA_ONSTACK, jump);
    if (sigsetjmp(back, 1) == 0)
        object[64] = 1;
    return called == 1 ? 0 : 1;
}

TEST(test_others)
{
    static const struct {
        int (*call)(void *);
        int signal; /* 0: it ends well */
        const char *says;
    } others[] = {
        {none_foreign, SIGSEGV, NULL},  {none_sent, SIGSEGV, NULL}, {ignored_sent, 0, NULL},
        {ignored_fault, SIGSEGV, NULL}, {too_deep, SIGSEGV, NULL},  {own_later, 0, NULL},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct child child;
        child_run(&child, others[i].call, NULL);
        if (others[i].signal
                ? !WIFSIGNALED(child.status) || WTERMSIG(child.status) != others[i].signal
                : !child_passed(&child))
            fail_msg("%zu: status %#x", i, (unsigned)child.status);
        if (others[i].says ? !strstr(child.error, others[i].says) : child.error[0] != '\0')
            fail_msg("%zu: \"%s\"", i, child.error);
    }
}

/* ---- the program goes on ------------------------------------------------------------------------ */

static int continued(void *unused)
{
    volatile char *object;

    settings_read((char *[]){(char[]){"STOOK_ON_CORRUPTION=continue"}, NULL}, false);
    object = take(64);
    for (int turn = 0; turn < 2; turn++) /* the second has no report */
        for (int i = 0; i < 100; i++)
            object[64 + i] = (char)i;
    if (object[64 + 99] != 99)
        return 1;
    stook_free_any((char *)object); /* its slot is not used again */
    for (int i = 0; i < 100; i++) {
        volatile char *other = take(64);
        if (guard_slot_of((char *)other) == guard_slot_of((char *)object))
            return 2;
        stook_free_any((char *)other);
    }
    object = take(64);
    stook_free_any((char *)object);
    called = object[3]; /* zeros */
    stook_free_any((char *)object);
    object = take(64);
    stook_free_any((char *)object + 8);
    stook_free_any((char *)object);
    return called;
}

TEST(test_continued)
{
    static const char *const says[] = {"overflow: ", "use after free: ", "is free already",
                                       "is not the start of an object, 8 bytes into"};
    struct child child;
    const char *at = child.error;

    child_run(&child, continued, NULL);
    assert_true(child_passed(&child));
    for (int i = 0; i < 4; i++) {
        at = strstr(at, says[i]);
        if (!at)
            fail_msg("no \"%s\": %s", says[i], child.error);
        at++;
    }
    assert_null(strstr(strstr(child.error, says[0]) + 1, says[0]));
}
