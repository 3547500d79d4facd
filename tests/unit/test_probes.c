/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * USDT probes: their notes, and the arguments that a tracer reads.  It puts a breakpoint in each nop's place, as the
 * kernel's uprobes do.  The sums of the arguments are those of the cache's own counters.
 */
#include "base/probe.h"
#include "guard/guard.h"
#include "kmalloc/kmalloc.h"
#include "sample/otel.h"

#include "support/environment.h"
#include "support/probe_notes.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { OBJECTS = 3000, ROUNDS = 3, HUNGRY = 4096, LIMIT = 100000, OTHERS = 100 };

static struct probe_note notes[PROBE_NOTES_MAX];
static int notes_count;

static const struct {
    const char *provider, *name;
    int args;
} expected[] = {
    {"stook", "slab_made", 6},      {"stook", "slab_refused", 2},  {"stook", "slab_released", 4},
    {"stook", "sheaf_refilled", 3}, {"stook", "sheaf_flushed", 2}, {"stook", "barn_get", 3},
    {"stook", "barn_put", 4},       {"stook", "limit_hit", 4},     {"stook", "reclaim_begin", 2},
    {"stook", "reclaim_end", 2},    {"otel_memory", "alloc", 3},   {"otel_memory", "free", 1},
};
enum { EXPECTED = sizeof(expected) / sizeof(expected[0]) };

/* The place in `expected`, or -1. */
static int probe_find(const struct probe_note *note)
{
    for (int i = 0; i < EXPECTED; i++)
        if (strcmp(note->provider, expected[i].provider) == 0 &&
            strcmp(note->name, expected[i].name) == 0)
            return i;
    return -1;
}

TEST(test_notes)
{
    unsigned seen = 0;

#if !STOOK_PROBES
    assert_int_equal(notes_count, 0);
    skip();
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* without the tests below nothing of the library is linked here */
#endif
    for (int i = 0; i < notes_count; i++) {
        int place = probe_find(&notes[i]), args = 0;
        if (strcmp(notes[i].provider, "libc") == 0) /* a static libc has its own */
            continue;
        if (place < 0)
            fail_msg("probe %s:%s is not known here", notes[i].provider, notes[i].name);
        seen |= 1u << place;
        for (const char *at = notes[i].args; at; at = strchr(at + 1, '@'))
            args += *at == '@';
        if (args != expected[place].args)
            fail_msg("probe %s has %d arguments: %s", notes[i].name, args, notes[i].args);
        assert_int_equal(notes[i].semaphore, 0);
#ifdef __x86_64__
        assert_int_equal(*(const uint8_t *)(notes[i].at + probe_notes_bias()), 0x90);
        if (strcmp(notes[i].provider, "otel_memory") == 0)
            assert_string_equal(notes[i].args, args == 3 ? "8@%rdi 8@%rsi 8@%rdx" : "8@%rdi");
#endif
    }
    assert_int_equal(seen, (1u << EXPECTED) - 1);
}

#if STOOK_PROBES && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)

/* What the child says it did, in memory that both have. */
struct said {
    struct stook_stat stat;
    void *sampled, *released;
};
static struct said *said;

static void child_limit(void)
{
    struct stook_group group = stook_group_create("small", STOOK_NO_GROUP, LIMIT), before;
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *cache = stook_cache_create("charged", 512, &args);
    static void *object[LIMIT / 512 + 1];
    int n = 0;

    before = stook_group_enter(group);
    while ((object[n] = stook_alloc(cache, STOOK_WAIT)) != NULL)
        n++;
    stook_group_leave(before);
    for (int i = 0; i < n; i++)
        stook_free(cache, object[i]);
}

static int child_body(void)
{
    static void *object[OBJECTS], *chain;
    struct stook_cache *cache, *hungry;

    (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    (void)raise(SIGSTOP);
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka's would run the parent's tests here */
    cache = stook_cache_create("probed", 200, NULL);
    if (stook_cache_stat_enable(cache, STOOK_STATS_SLOW) != 0)
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++)
            object[i] = stook_alloc(cache, STOOK_WAIT);
        for (int i = 0; i < OBJECTS; i++)
            stook_free(cache, object[i]);
    }
    (void)stook_cache_shrink(cache);
    said->stat.size = sizeof(said->stat);
    if (stook_cache_stat(cache, &said->stat) != 0)
        return 2;
    child_limit();
    hungry = stook_cache_create("hungry", HUNGRY, NULL);
    for (void **more; (more = stook_alloc(hungry, STOOK_WAIT)) != NULL; chain = more)
        *more = chain;
    while (chain) {
        void **object_now = chain;
        chain = *object_now;
        stook_free(hungry, object_now);
    }
    (void)stook_cache_shrink(hungry);
    guard_begin(1);
    stook_kmalloc_doors();
    for (int i = 0; i < OTHERS && !said->sampled; i++) {
        void *maybe = stook_kmalloc(96, STOOK_NORECLAIM);
        if (guard_covers(maybe))
            said->sampled = maybe;
    }
    stook_free_any(said->sampled);
    return 0;
}

/* What was seen at the probes. */
struct seen {
    uint64_t hits[EXPECTED];
    uint64_t made, released, refilled, flushed, got, missed, put, refused;
    uint64_t slab_bytes, last_made;
    uint64_t limit_bytes, limit_charged, limit;
    uint64_t wanted, done;
    uint64_t object, size, weight, freed;
};

static bool is_name(pid_t child, uint64_t address, const char *name)
{
    char text[32] = "";
    struct iovec here = {text, sizeof(text) - 1}, there = {(void *)address, sizeof(text) - 1};

    assert_true(process_vm_readv(child, &here, 1, &there, 1, 0) > 0);
    return strcmp(text, name) == 0;
}

static void see(pid_t child, const struct probe_note *note, struct seen *seen)
{
    uint64_t arg[PROBE_ARGS_MAX] = {0};
    int place = probe_find(note), n = probe_notes_args(child, note->args, arg);
    const char *name;

    if (place < 0 || n != expected[place].args)
        fail_msg("the arguments of %s cannot be read: %s", note->name, note->args);
    name = expected[place].name;
    seen->hits[place]++;
    if (strcmp(expected[place].provider, "otel_memory") == 0) {
        struct user_regs_struct regs;
        assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &regs), 0);
        assert_true(arg[0] == regs.rdi && (n == 1 || (arg[1] == regs.rsi && arg[2] == regs.rdx)));
    }
    if (strcmp(expected[place].provider, "otel_memory") == 0) {
        if (n == 3) {
            seen->object = arg[0];
            seen->size = arg[1];
            seen->weight = arg[2];
        } else {
            seen->freed = arg[0];
        }
    } else if (strcmp(name, "limit_hit") == 0) {
        assert_true(is_name(child, arg[0], "small"));
        seen->limit_bytes = arg[1];
        seen->limit_charged = arg[2];
        seen->limit = arg[3];
    } else if (strcmp(name, "reclaim_begin") == 0) {
        assert_true(is_name(child, arg[0], "hungry"));
        seen->wanted = arg[1];
        seen->done = 2;
    } else if (strcmp(name, "reclaim_end") == 0) {
        assert_true(is_name(child, arg[0], "hungry"));
        seen->done = arg[1];
    } else if (strcmp(name, "slab_refused") == 0) {
        assert_int_equal(arg[1], 0);
    } else if (is_name(child, arg[0], "probed")) {
        if (strcmp(name, "slab_made") == 0) {
            seen->made++;
            seen->last_made = arg[1];
            assert_int_equal(arg[2] % 4096, 0);
            assert_true(arg[3] * 200 <= (uint64_t)4096 << arg[4]);
            assert_int_equal(arg[5], 0); /* node */
        } else if (strcmp(name, "slab_released") == 0) {
            seen->released++;
            assert_true(arg[1] != 0 && arg[2] * 200 <= (uint64_t)4096 << arg[3]);
        } else if (strcmp(name, "sheaf_refilled") == 0) {
            seen->refilled += arg[1];
        } else if (strcmp(name, "sheaf_flushed") == 0) {
            seen->flushed += arg[1];
        } else if (strcmp(name, "barn_get") == 0) {
            seen->got += arg[2] != 0;
            seen->missed += arg[2] == 0;
        } else if (strcmp(name, "barn_put") == 0) {
            assert_true(arg[2] != 0 && arg[3] <= 1);
            seen->put += arg[3];
            seen->refused += !arg[3];
        }
    }
}

/* Breakpoints in place of all nops, or the nops again. */
static void patch(pid_t child, uint8_t byte)
{
    for (int i = 0; i < notes_count; i++) {
        uint64_t at = notes[i].at + probe_notes_bias(), word;
        if (probe_find(&notes[i]) < 0)
            continue;
        word = (uint64_t)ptrace(PTRACE_PEEKTEXT, child, (void *)at, NULL);
        assert_int_equal(ptrace(PTRACE_POKETEXT, child, (void *)at, (word & ~0xffull) | byte), 0);
    }
}

static const struct probe_note *probe_at(uint64_t address)
{
    for (int i = 0; i < notes_count; i++)
        if (notes[i].at + probe_notes_bias() == address)
            return &notes[i];
    return NULL;
}

/* Until the child ends; what it ended with. */
static int watch(pid_t child, struct seen *seen)
{
    int status, pass = 0;

    while (ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)pass) == 0) {
        struct user_regs_struct regs;
        const struct probe_note *note;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status))
            return status;
        pass = WSTOPSIG(status);
        if (pass != SIGTRAP)
            continue;
        pass = 0;
        assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &regs), 0);
        note = probe_at(regs.rip - 1); /* behind the breakpoint, and that is behind the nop */
        if (!note)
            fail_msg("a stop at %llx, which is no probe", regs.rip);
        see(child, note, seen);
    }
    return -1;
}

TEST(test_attached)
{
    static struct seen seen;
    int status;
    pid_t child;

    said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(said != MAP_FAILED);
    child = fork();
    if (child == 0)
        _exit(child_body());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) /* ptrace is forbidden here */
        skip();
    patch(child, 0xcc);
    status = watch(child, &seen);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);

    for (int i = 0; i < EXPECTED; i++)
        if (seen.hits[i] == 0)
            fail_msg("%s was not met", expected[i].name);
    assert_true(seen.made > 10 && seen.refilled >= OBJECTS && seen.flushed > 0 && seen.put > 0);
    assert_int_equal(seen.made, said->stat.alloc_slab);
    assert_int_equal(seen.released, said->stat.free_slab);
    assert_int_equal(seen.refilled, said->stat.sheaf_refill);
    assert_int_equal(seen.flushed, said->stat.sheaf_flush);
    assert_int_equal(seen.got, said->stat.barn_get);
    assert_int_equal(seen.missed, said->stat.barn_get_fail);
    assert_int_equal(seen.put, said->stat.barn_put);
    assert_int_equal(seen.refused, said->stat.barn_put_fail);
    assert_int_equal(seen.limit, LIMIT);
    assert_true(seen.limit_bytes >= 512 && seen.limit_charged <= LIMIT &&
                seen.limit_charged + seen.limit_bytes > LIMIT);
    assert_true(seen.wanted >= HUNGRY);
    assert_int_equal(seen.done, 0);
    assert_non_null(said->sampled);
    assert_ptr_equal((void *)seen.object, said->sampled);
    assert_ptr_equal((void *)seen.freed, said->sampled);
    assert_int_equal(seen.size, 96);
    assert_true(seen.weight >= 96 && seen.weight <= (uint64_t)OTHERS * 96);
}

/* Detached again, nothing stops it, and it does what it did. */
TEST(test_detached)
{
    int status;
    pid_t child;

    memset(said, 0, sizeof(*said));
    child = fork();
    if (child == 0)
        _exit(child_body());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status))
        skip();
    patch(child, 0xcc);
    patch(child, 0x90);
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(said->stat.alloc_slab > 10);
}

#endif

int main(int argc, char **argv)
{
    environment_need("STOOK_ARENA", "32M", argv);
    notes_count = probe_notes_read(notes);
    if (notes_count < 0)
        return 1;
    return tests_run(NULL, NULL);
}
