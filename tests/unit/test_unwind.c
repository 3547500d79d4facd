/* SPDX-License-Identifier: MIT */
/* needs: whole, glibc, native */
/*
 * Call stacks by kept rules are those of the compiler's unwinder.  They are deep, without frame pointers, with frames of
 * any size, through the C library, on other stacks, through signal handlers, and through a file in whose place another one
 * lay.  Stacks that cannot be walked are reported, and bytes that are no tables are not read beyond their end.
 */
#include "site/unwind.h"

#include "site/tag.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unwind.h>

#ifdef DLFO_STRUCT_HAS_EH_DBASE
enum { WALKS = 1 };
#else
enum { WALKS = 0 };
#endif

enum { FRAMES = 256 };

struct stack {
    unsigned depth;
    uint64_t frames[FRAMES];
};

static bool stack_visit(uint64_t address, void *arg)
{
    struct stack *stack = arg;

    stack->frames[stack->depth++] = address;
    return stack->depth < FRAMES;
}

static _Unwind_Reason_Code stack_frame(struct _Unwind_Context *context, void *arg)
{
    uint64_t address = _Unwind_GetIP(context);

    return address != 0 && stack_visit(address, arg) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Both walks of this stack; *arg: the depth that there is at least. */
static __attribute__((noinline)) void compare(void *arg)
{
    static struct stack ours, theirs;
    unsigned at_least = *(unsigned *)arg;

    for (int i = 0; i < 2; i++) { /* rules found, and rules kept */
        ours.depth = theirs.depth = 0;
        assert_true(unwind_walk(unwind_here(), stack_visit, &ours));
        (void)_Unwind_Backtrace(stack_frame, &theirs);
        assert_true(theirs.depth >= at_least);
        assert_int_equal(ours.depth, theirs.depth);
        /* Except this function's own. */
        assert_memory_equal(ours.frames + 1, theirs.frames + 1,
                            (ours.depth - 1) * sizeof(ours.frames[0]));
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static volatile unsigned volatile_size = 3000;
static void (*volatile volatile_call)(void *) = compare;

static __attribute__((noinline)) unsigned recurse(unsigned depth, unsigned *most)
{
    volatile unsigned one = 1;

    if (depth == 0)
        volatile_call(most);
    else
        one += recurse(depth - 1, most);
    return one;
}

static void deep(void **state)
{
    unsigned most = 101;

    assert_int_equal(recurse(100, &most), 101);
}

static __attribute__((noinline)) int with_alloca(unsigned *most)
{
    volatile char *room = alloca(volatile_size);

    room[0] = 1;
    volatile_call(most);
    return room[0];
}

static __attribute__((noinline)) int with_megabyte(unsigned *most)
{
    volatile char room[1 << 20];

    room[0] = 1;
    volatile_call(most);
    return room[0];
}

static __attribute__((noinline)) int with_realigned(unsigned *most)
{
    _Alignas(64) volatile char room[128];
    volatile char *more = alloca(volatile_size);

    more[0] = 1;
    room[0] = (char)((uintptr_t)room % 64);
    volatile_call(most);
    return more[0] + room[0];
}

static void of_any_size(void **state)
{
    unsigned most = 4;

    assert_int_equal(with_alloca(&most), 1);
    assert_int_equal(with_megabyte(&most), 1);
    assert_int_equal(with_realigned(&most), 1);
}

static int compare_elements(const void *a, const void *b)
{
    unsigned most = 6;

    volatile_call(&most);
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void through_the_library(void **state)
{
    int numbers[] = {5, 3, 9, 1};

    qsort(numbers, 4, sizeof(numbers[0]), compare_elements);
    assert_int_equal(numbers[3], 9);
}

static __attribute__((noinline)) bool walk(struct stack *stack)
{
    return unwind_walk(unwind_here(), stack_visit, stack);
}

static bool (*volatile volatile_walk)(struct stack *) = walk;

/* ---- other stacks ---------------------------------------------------------------------------- */

static void *thread(void *most)
{
    (void)recurse(5, most);
    return NULL;
}

static void of_a_thread(void **state)
{
    unsigned most = 7;
    pthread_t id;

    assert_int_equal(pthread_create(&id, NULL, thread, &most), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
}

/* A stack that the program gives to a thread is known as well, also where it lies within another thread's. */
static void *thread_with_room(void *most)
{
    _Alignas(4096) char room[2 << 20]; /* ThreadSanitizer wants almost 1 MiB */
    pthread_attr_t attributes;
    pthread_t id;

    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, room, sizeof(room)), 0);
    assert_int_equal(pthread_create(&id, &attributes, thread, most), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
    assert_int_equal(pthread_attr_destroy(&attributes), 0);
    return NULL;
}

static void of_a_thread_on_given_memory(void **state)
{
    unsigned most = 7;
    pthread_t id;

    assert_int_equal(pthread_create(&id, NULL, thread_with_room, &most), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
}

/* A stack that the program made: nothing is known of it, and nothing read. */
static struct stack context_ours;
static bool context_walked;

static void context_begin(void)
{
    context_walked = unwind_walk(unwind_here(), stack_visit, &context_ours);
}

static void context_switch(char *room, size_t size)
{
    static ucontext_t own, other;

    assert_int_equal(getcontext(&other), 0);
    other.uc_stack.ss_sp = room;
    other.uc_stack.ss_size = size;
    other.uc_link = &own;
    makecontext(&other, context_begin, 0);
    context_walked = true;
    context_ours.depth = 0;
    assert_int_equal(swapcontext(&own, &other), 0);
    assert_false(context_walked);
    assert_int_equal(context_ours.depth, 0);
}

static void *of_contexts(void *size)
{
    char *stack = mmap(NULL, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(stack, MAP_FAILED);
    context_switch(stack, *(size_t *)size);
    assert_int_equal(munmap(stack, 256 << 10), 0);
    return NULL;
}

static void of_a_context(void **state)
{
    size_t size = 256 << 10;
    pthread_t id;

    (void)of_contexts(&size);
    assert_int_equal(pthread_create(&id, NULL, of_contexts, &size), 0);
    assert_int_equal(pthread_join(id, NULL), 0);
}

/* Where the first thread's stack may grow to: with all between readable, with a hole, and where only the top is out
 * of reach. */
static void of_a_context_below(void **state)
{
    enum { ROOM = 64 << 10 };
    uint64_t top = (getauxval(AT_RANDOM) & ~(uint64_t)4095) - (2 << 20);
    char *room = mmap((void *)(uintptr_t)top, ROOM, PROT_READ | PROT_WRITE, // NOLINT
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (room == MAP_FAILED)
        skip();
    context_switch(room, ROOM);
    assert_int_equal(mprotect(room + ROOM - 4096, 4096, PROT_NONE), 0);
    context_switch(room, ROOM - 4096);
    assert_int_equal(munmap(room, ROOM), 0);
}

static struct stack handler_ours, handler_theirs;
static bool handler_walked;
static unsigned handler_tagged;
static uint64_t handler_frames[FRAMES];
static _Atomic uint64_t handler_signals;

static void handler(int signal)
{
    handler_ours.depth = handler_theirs.depth = 0;
    handler_walked = unwind_walk(unwind_here(), stack_visit, &handler_ours);
    (void)_Unwind_Backtrace(stack_frame, &handler_theirs);
    handler_tagged =
        tag_stack_walk((void *)(uintptr_t)handler_theirs.frames[1], handler_frames, FRAMES);
    handler_signals++;
}

static void check_handler(unsigned at_least)
{
    assert_true(handler_walked);
    assert_true(handler_theirs.depth > at_least);
    assert_int_equal(handler_ours.depth, handler_theirs.depth);
    assert_memory_equal(handler_ours.frames + 1, handler_theirs.frames + 1,
                        (handler_ours.depth - 1) * sizeof(uint64_t));
    assert_int_equal(handler_tagged, handler_theirs.depth - 1);
    assert_memory_equal(handler_frames, handler_theirs.frames + 1,
                        handler_tagged * sizeof(uint64_t));
}

static void of_a_handler(void **state)
{
    struct sigaction action = {.sa_handler = handler};

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    check_handler(4);
}

/* The handler's stack is one that nothing is known of, or lies within main()'s frames, above the interrupted one. */
static void of_a_stack_of_its_own(void **state)
{
    static char below[64 << 10];
    char above[64 << 10];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    stack_t stacks[] = {{.ss_sp = below, .ss_size = sizeof(below)},
                        {.ss_sp = above, .ss_size = sizeof(above)}},
            before;

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sigaltstack(&stacks[i], i == 0 ? &before : NULL), 0);
        assert_int_equal(raise(SIGUSR1), 0);
        if (i == 1)
            check_handler(4);
        else
            assert_true(!handler_walked && handler_ours.depth == 0 && handler_tagged == 0);
    }
    assert_int_equal(sigaltstack(&before, NULL), 0);
}

/* A function without a frame, which a timer interrupts at any of its instructions. */
static __attribute__((noinline)) uint64_t spin(uint64_t rounds, uint64_t seed)
{
    for (; rounds > 0; rounds--)
        seed = seed * 6364136223846793005u + (seed >> 33);
    return seed;
}

static void of_any_instruction(void **state)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 0}, {0, 500}};
    uint64_t sum = 0, seen = handler_signals;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    for (uint64_t wanted = seen + scaled(500); handler_signals < wanted;) {
        uint64_t before = handler_signals;
        assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
        while (handler_signals == before)
            sum += spin(100, sum);
        check_handler(3);
    }
    assert_int_not_equal(sum, 1);
}

/* A function that no tables know, as compilers at run time make them: the stack ends with it. */
static void of_no_file(void **state)
{
#if defined(__x86_64__)
    static const unsigned char code[] = {
        0x55, 0x31, 0xed, 0x48, 0x89, 0xf8, 0x48,
        0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3}; /* push; no frame pointer; call *%rdi; pop; ret */
#else
    static const uint32_t code[] = {0xa9bf7bfd, 0xaa0003e2, 0xaa0103e0,
                                    0xd63f0040, 0xa8c17bfd, 0xd65f03c0}; /* stp; blr; ldp; ret */
#endif
    static struct stack stack;
    void (*trampoline)(bool (*)(struct stack *), struct stack *);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(page, MAP_FAILED);
    memcpy(page, code, sizeof(code));
    __builtin___clear_cache((char *)page, (char *)page + sizeof(code));
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    *(void **)&trampoline = page;
    trampoline(volatile_walk, &stack);
    assert_int_equal(stack.depth, 2);
    assert_in_range(stack.frames[1], (uintptr_t)page, (uintptr_t)page + sizeof(code));
    assert_int_equal(munmap(page, 4096), 0);
}

static void beyond_the_stack(void **state)
{
    struct unwind_frame here = unwind_here();
    struct stack stack = {0};

    for (unsigned i = 0; i < 4; i++) {
        here.sp =
            (uint64_t[]){UINT64_MAX - 7, 8, getauxval(AT_RANDOM), (uintptr_t)pthread_self()}[i];
        assert_false(unwind_walk(here, stack_visit, &stack));
        assert_int_equal(stack.depth, 0);
    }
}

/* ---- a file in the place of another ---------------------------------------------------------- */

/* Where the function lay. */
static uint64_t through_plug(const char *name)
{
    unsigned most = 5;
    char path[4096];
    void (*call)(void (*)(void *), void *);
    void *plug;

    (void)snprintf(path, sizeof(path), "%s/plug_unwind_%s.so", getenv("STOOK_TEST_DIR"), name);
    plug = dlopen(path, RTLD_NOW);
    assert_non_null(plug);
    *(void **)&call = dlsym(plug, "plug_call");
    assert_non_null(call);
    call(volatile_call, &most);
    assert_int_equal(dlclose(plug), 0);
    return (uintptr_t)call;
}

static void through_plugs(void **state)
{
    uint64_t narrow, wide;

    if (!getenv("STOOK_TEST_DIR"))
        skip();
    narrow = through_plug("narrow");
    wide = through_plug("wide");
    assert_true(narrow != 0 && wide != 0);
    if (narrow != wide)
        print_message("the other file lies elsewhere: %#lx, %#lx\n", (unsigned long)narrow,
                      (unsigned long)wide);
    (void)through_plug("narrow");
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The header with a function's entry, as assemblers write it: at the end of a page behind which nothing is. */
static unsigned char *tables_page;
enum { TABLES = 4096, TABLES_CODE = 0x1000 };

#if defined(__x86_64__)
enum { CIE_RETURN = 16, CIE_SP = 7, CIE_FP = 6 };
#else
enum { CIE_RETURN = 30, CIE_SP = 31, CIE_FP = 29 };
#endif

static const unsigned char tables_start[] = {
    /* the header: version, encodings, where .eh_frame is, one entry: code and FDE, both from the header on */
    1, 0x1b, 3, 0x3b, 16, 0, 0, 0, 1, 0, 0, 0, 0, TABLES_CODE >> 8, 0, 0, 48, 0, 0, 0,
    /* CIE at 20: length, id 0, version 1, "zR", alignments 1 and -8, register, pcrel sdata4, CFA = sp + 8, return
     * address at CFA - 8 */
    24, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, CIE_RETURN, 1, 0x1b, 0x0c, CIE_SP, 8,
    0x80 | CIE_RETURN, 1, 0, 0, 0, 0, 0, 0};

/* The tables with a program of the function, which has 256 bytes of code; what may be read ends with them. */
static struct unwind_tables tables_make(const unsigned char *program, size_t size)
{
    size_t whole = sizeof(tables_start) + 17 + size;
    unsigned char *at = tables_page + TABLES - whole, *fde = at + 48;
    uint32_t words[] = {(uint32_t)(13 + size), 32, (uint32_t)(TABLES_CODE - 56), 256};

    memset(tables_page, 0, TABLES);
    memcpy(at, tables_start, sizeof(tables_start));
    memcpy(fde, words, sizeof(words));
    memcpy(fde + 17, program, size);
    return (struct unwind_tables){.header = at, .start = at, .end = at + whole};
}

static uint64_t rule_at(const struct unwind_tables *tables, unsigned offset)
{
    return unwind_rules_find(tables, (uintptr_t)tables->header + TABLES_CODE + offset);
}

static void check_rule(uint64_t rule, enum unwind_kind kind, int64_t cfa, enum unwind_fp fp,
                       int64_t fp_at)
{
    assert_int_equal(unwind_kind(rule), kind);
    assert_int_equal(unwind_cfa_at(rule), cfa);
    assert_int_equal(unwind_fp(rule), fp);
    assert_int_equal(unwind_fp_at(rule), fp_at);
    assert_int_equal(unwind_return_at(rule), -8);
}

static void of_bytes(void **state)
{
    /* push fp; mov sp, fp; ...; pop; ret; then as before; then what a realigned stack has */
    static const unsigned char program[] = {
        0x41, 0x0e,      16,     0x80 | CIE_FP, 2, /* 1: CFA = sp + 16, fp at CFA - 16 */
        0x43, 0x0d,      CIE_FP,                   /* 4: CFA = fp + 16 */
        0x02, 16,        0x0a,                     /* 20: remembered */
        0x0c, CIE_SP,    8,      0xc0 | CIE_FP,    /* CFA = sp + 8, fp as at first */
        0x41, 0x0b,                                /* 21: as remembered */
        0x03, 0,         1,                        /* 277: beyond */
        0x07, CIE_RETURN};
    static const unsigned char realigned[] = {0x41,          0x10, CIE_FP, 2,
                                              0x70 + CIE_FP, 0, /* fp at fp + 0 */
                                              0x41,          0x0f, 3,      0x70 + CIE_FP,
                                              0x78,          6}; /* CFA = what lies at fp - 8 */
    static const unsigned char outermost[] = {0x07, CIE_RETURN};
    static const unsigned char strange[] = {0x41, 0x0f, 3, 0x70 + CIE_SP, 8, 6, 0x41, 0x3f};
    static const unsigned char large[] = {
        0x41,          0x0e, 0x90, 0x80, 0x40, 0x80 | CIE_RETURN,
        0x81,          0x80, 8,        /* CFA = sp + 1 MiB + 16, */
        0x80 | CIE_FP, 0x82, 0x80, 8}; /* return address at sp + 8, fp at sp */
    static const unsigned char moved[] = {0x09, CIE_FP, 3};
    struct unwind_tables tables = tables_make(program, sizeof(program));

    check_rule(rule_at(&tables, 0), UNWIND_SP, 8, UNWIND_FP_SAME, 0);
    check_rule(rule_at(&tables, 1), UNWIND_SP, 16, UNWIND_FP_CFA, -16);
    check_rule(rule_at(&tables, 3), UNWIND_SP, 16, UNWIND_FP_CFA, -16);
    check_rule(rule_at(&tables, 4), UNWIND_FP, 16, UNWIND_FP_CFA, -16);
    check_rule(rule_at(&tables, 19), UNWIND_FP, 16, UNWIND_FP_CFA, -16);
    check_rule(rule_at(&tables, 20), UNWIND_SP, 8, UNWIND_FP_SAME, 0);
    check_rule(rule_at(&tables, 21), UNWIND_FP, 16, UNWIND_FP_CFA, -16);
    check_rule(rule_at(&tables, 255), UNWIND_FP, 16, UNWIND_FP_CFA, -16);
    assert_int_equal(rule_at(&tables, 256), UNWIND_END); /* no function */
    assert_int_equal(unwind_rules_find(&tables, 0), UNWIND_END);

    tables = tables_make(realigned, sizeof(realigned));
    check_rule(rule_at(&tables, 1), UNWIND_SP, 8, UNWIND_FP_FP, 0);
    check_rule(rule_at(&tables, 2), UNWIND_FP_MEM, -8, UNWIND_FP_FP, 0);
    tables = tables_make(outermost, sizeof(outermost));
    assert_int_equal(rule_at(&tables, 9), UNWIND_END);
    tables = tables_make(strange, sizeof(strange));
    check_rule(rule_at(&tables, 0), UNWIND_SP, 8, UNWIND_FP_SAME, 0);
    assert_int_equal(rule_at(&tables, 1), UNWIND_UNKNOWN); /* another expression */
    assert_int_equal(rule_at(&tables, 2), UNWIND_UNKNOWN); /* another instruction */
    tables = tables_make(large, sizeof(large));
    assert_true(rule_at(&tables, 1) & UNWIND_LOW);
    assert_int_equal(unwind_kind(rule_at(&tables, 1)), UNWIND_SP);
    assert_int_equal(unwind_cfa_at(rule_at(&tables, 1)), (1 << 20) + 16);
    assert_int_equal(unwind_return_at(rule_at(&tables, 1)), 8);
    assert_int_equal(unwind_fp(rule_at(&tables, 1)), UNWIND_FP_CFA);
    assert_int_equal(unwind_fp_at(rule_at(&tables, 1)), 0);
    tables = tables_make(moved, sizeof(moved));
    assert_int_equal(rule_at(&tables, 2), UNWIND_UNKNOWN);
}

/* A page between pages without access.  The test changes a good table a byte at a time, and ends it at any byte. */
static void of_no_tables(void **state)
{
    uint64_t seed = 20261123, known = 0, rounds = scaled(300000);

    for (uint64_t i = 0; i < rounds; i++) {
        unsigned char program[64];
        struct unwind_tables tables;
        uint64_t rule;
        size_t size = random_below(&seed, sizeof(program)), cut;
        for (size_t j = 0; j < size; j++)
            program[j] = (unsigned char)random_next(&seed);
        tables = tables_make(program, size);
        for (uint32_t n = random_below(&seed, 4); n > 0; n--)
            tables_page[(size_t)(tables.start - tables_page) +
                        random_below(&seed, 96) % (size_t)(tables.end - tables.start)] =
                (unsigned char)random_next(&seed);
        if (i % 4 == 0) {
            cut = random_below(&seed, (uint32_t)(tables.end - tables.start));
            memmove(tables_page + TABLES - cut, tables.start, cut);
            tables.header = tables.start = tables_page + TABLES - cut;
            tables.end = tables_page + TABLES;
        }
        rule = rule_at(&tables, random_below(&seed, 300));
        assert_true(unwind_kind(rule) >= UNWIND_UNKNOWN && unwind_kind(rule) <= UNWIND_SIGNAL);
        known += unwind_kind(rule) > UNWIND_END;
    }
    assert_true(known > 0);
}

static int tables_map(void **state)
{
    char *pages = mmap(NULL, 3 * TABLES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED || sysconf(_SC_PAGESIZE) != TABLES ||
        mprotect(pages + TABLES, TABLES, PROT_READ | PROT_WRITE) != 0)
        return -1;
    tables_page = (unsigned char *)pages + TABLES;
    return 0;
}

int main(void)
{
    const struct CMUnitTest walks[] = {
        cmocka_unit_test(deep),
        cmocka_unit_test(of_any_size),
        cmocka_unit_test(through_the_library),
        cmocka_unit_test(of_a_thread),
        cmocka_unit_test(of_a_thread_on_given_memory),
        cmocka_unit_test(of_a_context),
        cmocka_unit_test(of_a_context_below),
        cmocka_unit_test(of_a_handler),
        cmocka_unit_test(of_a_stack_of_its_own),
        cmocka_unit_test(of_any_instruction),
        cmocka_unit_test(of_no_file),
        cmocka_unit_test(beyond_the_stack),
        cmocka_unit_test(through_plugs),
    };
    const struct CMUnitTest bytes[] = {
        cmocka_unit_test(of_bytes),
        cmocka_unit_test(of_no_tables),
    };
    int failed = cmocka_run_group_tests_name("tables of unwinding", bytes, tables_map, NULL);

    if (WALKS)
        failed += cmocka_run_group_tests_name("call stacks", walks, NULL, NULL);
    return failed;
}
