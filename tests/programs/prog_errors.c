/* SPDX-License-Identifier: MIT */
/* link: shared */
/* needs: malloc */
/*
 * prog_errors.c - makes each kind of heap error at each size in each stage of an object's life, each in a
 * child, and prints the result.  scripts/check-errors.py makes a table of modes from that.
 *
 *   prog_errors STEP FIRST [KIND]   each STEP-th case from FIRST on; of one kind
 *
 * A child fills memory with objects of the size, brings one of them to the stage, and makes the error.  Then it
 * allocates and frees as many again, in one of two orders, frees all and returns memory.  At last it validates.  A
 * line is
 *
 *   API KIND SIZE STAGE ORDER PHASE STATUS REUSED
 *
 * PHASE in which it was seen: error, traffic, trim, check, or none.  STATUS is the signal that ended the child;
 * 0: it went on.  REUSED 1: an object that was in use had been handed out again before.
 */
#include <stook/kmalloc.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

enum api { MALLOC, KMALLOC, TYPED, APIS };
enum stage { LIVE, MAIN, SPARE, BARN, PARTIAL, EMPTY, STAGES };
enum phase { SETUP, ERROR, TRAFFIC, TRIM, CHECK, NONE };

static const char *const api_name[] = {"malloc", "kmalloc", "typed"};
static const char *const stage_name[] = {"live", "main", "spare", "barn", "partial", "empty"};
static const char *const phase_name[] = {"setup", "error", "traffic", "trim", "check", "none"};

enum { MOST = 640 };

/* Of the child; the parent reads it. */
static struct said {
    volatile int phase, seen, reused;
} * said;

static struct stook_cache *typed, *other, *cache; /* cache: of the victim */
static enum api api;
static size_t size; /* asked for */
static void *live[MOST];
static unsigned n, capacity;
static char *victim, *before, *behind; /* before and behind: neighbours by address, in use */

static bool is_stook; /* malloc is */

/* ---- the calls ------------------------------------------------------------------------------ */

static void *get(void)
{
    return api == MALLOC    ? malloc(size)
           : api == KMALLOC ? stook_kmalloc(size, STOOK_WAIT)
                            : stook_alloc(typed, STOOK_WAIT);
}

/* Not seen by the compiler, which knows what is wrong with these frees. */
static void (*volatile release)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;

static void put(void *object)
{
    if (api == MALLOC)
        release(object);
    else if (api == KMALLOC)
        stook_free_any(object);
    else
        stook_free(typed, object);
}

static void give_back(void)
{
    if (api == MALLOC)
        malloc_trim(0);
    else if (api == TYPED)
        (void)stook_cache_shrink(typed);
    else if (cache)
        (void)stook_cache_shrink(cache);
}

static bool is_large(void)
{
    return size > (api == MALLOC ? 32768 : api == KMALLOC ? 8192 : STOOK_OBJECT_SIZE_MAX);
}

static void fill(void *object, int byte)
{
    size_t part = size > 8192 ? 4096 : size;

    memset(object, byte, part);
    memset((char *)object + size - part, byte, part);
}

static volatile unsigned reports;

static void heard(int level, const char *text, size_t length, void *arg)
{
    reports++;
}

static void phase(enum phase next)
{
    if (!said->seen && reports > 0)
        said->seen = said->phase;
    said->phase = next;
}

/* ---- before --------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return x < y ? -1 : x > y;
}

static unsigned wanted(void)
{
    return is_large() ? 6 : size <= 512 ? MOST : size <= 4096 ? 240 : 100;
}

static void make(void)
{
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    if (api == TYPED) {
        typed = stook_cache_create("errors", size, NULL);
        other = stook_cache_create("others", size * 2 + 24, NULL); /* they are not merged */
    }
    for (n = 0; n < wanted(); n++) {
        live[n] = get();
        fill(live[n], 0x11);
    }
    qsort(live, n, sizeof(live[0]), by_address);
    victim = live[n / 2];
    before = live[n / 2 - 1];
    behind = live[n / 2 + 1];
    cache = is_stook ? stook_cache_of(victim) : NULL;
    capacity = cache && stook_cache_usage(cache, &usage) == 0 ? (unsigned)usage.capacity : 8;
    if (capacity > n / 4 || is_large())
        capacity = is_large() ? 0 : n / 4;
}

/* Frees some of what is left, and not these three. */
static void put_some(unsigned some)
{
    for (unsigned i = 0; i < n && some > 0; i++) {
        if (!live[i] || live[i] == victim || live[i] == before || live[i] == behind)
            continue;
        put(live[i]);
        live[i] = NULL;
        some--;
    }
}

static void forget(const void *object)
{
    for (unsigned i = 0; i < n; i++)
        if (live[i] == object)
            live[i] = NULL;
}

static void bring(char *object, enum stage to)
{
    if (to == LIVE)
        return;
    put(object);
    forget(object);
    if (to == SPARE)
        put_some(capacity);
    else if (to == BARN)
        put_some(capacity * 5 / 2);
    else if (to == EMPTY)
        put_some(n);
    if (to >= PARTIAL)
        give_back();
}

/* ---- the errors ----------------------------------------------------------------------------- */

static void *put_victim(void *arg)
{
    put(victim);
    return NULL;
}

static void in_thread(void *(*fn)(void *))
{
    pthread_t thread;

    pthread_create(&thread, NULL, fn, NULL);
    pthread_join(thread, NULL);
}

static void flip(char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((volatile char *)at)[i] ^= (char)0x5a;
}

/* C++'s, of the library or of libstdc++. */
static void *cpp(const char *name)
{
    void *call = dlsym(RTLD_DEFAULT, name);

    return call ? call : dlsym(dlopen("libstdc++.so.6", RTLD_NOW), name);
}

static char outside[256] __attribute__((aligned(64)));

#define OVER(name, bytes)                                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        flip(victim + size, bytes);                                                                \
    }
OVER(over_1, 1)
OVER(over_8, 8)
OVER(over_16, 16)
OVER(over_64, 64)
OVER(over_page, 8192) /* beyond the page, too */

#define UNDER(name, bytes)                                                                         \
    static void name(void)                                                                         \
    {                                                                                              \
        flip(victim - (bytes), bytes);                                                             \
    }
UNDER(under_1, 1)
UNDER(under_8, 8)
UNDER(under_16, 16)

static void after_first(void)
{
    flip(victim, 1);
}

static void after_50(void)
{
    flip(victim + 50, 1);
}

static void link_overwritten(void)
{
    memset(victim, 0x41, 16);
}

static void double_again(void)
{
    put(victim);
}

static void double_between(void)
{
    put(behind);
    forget(behind);
    put(victim);
}

/* The program goes on for a while, and does not get the object again. */
static void double_later(void)
{
    void *mine[8];

    put_some(9);
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 4; i++)
            mine[i] = get();
        for (int i = 0; i < 4; i++) {
            fill(mine[i], turn);
            put(mine[i]);
        }
    }
    put(victim);
}

static void double_thread(void)
{
    in_thread(put_victim);
}

static void inside_16(void)
{
    put(victim + 16);
}

static void inside_half(void)
{
    put(victim + size / 2 / 16 * 16);
}

static void misaligned(void)
{
    put(victim + 1);
}

static void on_stack(void)
{
    char local[128] __attribute__((aligned(64)));

    put(local + 64);
}

static void in_data(void)
{
    put(outside + 64);
}

static void mapped(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    put(page + 64);
}

static void wild(void)
{
    put((void *)(uintptr_t)0x123456789ab0);
}

static void wrong_cache(void)
{
    stook_free(other, victim);
    forget(victim);
}

static void sized_wrong(void)
{
    void *object = ((void *(*)(size_t))cpp("_Znwm"))(size);

    fill(object, 1);
    ((void (*)(void *, size_t))cpp("_ZdlPvm"))(object, size / 2 + 4);
}

static void malloc_delete(void)
{
    ((void (*)(void *))cpp("_ZdlPv"))(victim);
    forget(victim);
}

static void new_free(void)
{
    void *object = ((void *(*)(size_t))cpp("_Znwm"))(size);

    fill(object, 1);
    release(object);
}

static void array_delete(void)
{
    void *object = ((void *(*)(size_t))cpp("_Znam"))(size);

    fill(object, 1);
    ((void (*)(void *))cpp("_ZdlPv"))(object);
}

static void gone(void)
{
    put_some(n);
    put(victim);
    put(before);
    put(behind);
    memset(live, 0, sizeof(live));
    (void)stook_cache_destroy(typed);
}

static void destroyed_alloc(void)
{
    gone();
    (void)!stook_alloc(typed, STOOK_WAIT);
    phase(NONE);
    _exit(0);
}

static void destroyed_free(void)
{
    gone();
    stook_free(typed, victim);
    phase(NONE);
    _exit(0);
}

static void destroyed_again(void)
{
    gone();
    (void)stook_cache_destroy(typed);
    phase(NONE);
    _exit(0);
}

static void realloc_freed(void)
{
    if (api == MALLOC)
        (void)!resize(victim, size * 2);
    else
        (void)!stook_krealloc(victim, size * 2, 0);
}

/* ---- which error where ---------------------------------------------------------------------- */

enum at {
    NEIGHBOUR = 1, /* the stage is that of the object behind the victim, or before it */
    BEFORE = 2,
    ITSELF = 4,
    ALIVE = 8, /* the victim is in use, whatever the stage: that one alone */
};

static const struct kind {
    const char *name;
    void (*fn)(void);
    unsigned at, apis, stages;
    size_t least, most;
} kinds[] = {
#define ALL ((1 << APIS) - 1)
#define ANY ((1 << STAGES) - 1)
#define FREED (ANY & ~(1 << LIVE))
#define TOP (1 << MAIN)
#define HEAP (1 << MALLOC | 1 << KMALLOC)
    {"over_1", over_1, NEIGHBOUR, ALL, ANY, 1, 1 << 30},
    {"over_8", over_8, NEIGHBOUR, ALL, ANY, 1, 1 << 30},
    {"over_16", over_16, NEIGHBOUR, ALL, ANY, 1, 1 << 30},
    {"over_64", over_64, NEIGHBOUR, ALL, ANY, 1, 1 << 30},
    {"over_page", over_page, NEIGHBOUR, HEAP, ANY, 32769, 1 << 30},
    {"under_1", under_1, BEFORE, ALL, ANY, 1, 1 << 30},
    {"under_8", under_8, BEFORE, ALL, ANY, 1, 1 << 30},
    {"under_16", under_16, BEFORE, ALL, ANY, 1, 1 << 30},
    {"after_first", after_first, ITSELF, ALL, FREED, 1, 1 << 30},
    {"after_50", after_50, ITSELF, ALL, FREED, 51, 1 << 30},
    {"link", link_overwritten, ITSELF, ALL, FREED, 16, 1 << 30},
    {"double_p_p", double_again, ITSELF, ALL, TOP, 1, 1 << 30},
    {"double_p_q_p", double_between, ITSELF, ALL, TOP, 1, 1 << 30},
    {"double_later", double_later, ITSELF, ALL, TOP, 1, 32768},
    {"double_deep", double_again, ITSELF, ALL, FREED & ~TOP, 1, 1 << 30},
    {"double_thread", double_thread, ITSELF, ALL, FREED, 1, 1 << 30},
    {"inside_16", inside_16, ITSELF, ALL, ANY, 17, 1 << 30},
    {"inside_half", inside_half, ITSELF, ALL, ANY, 32, 1 << 30},
    {"misaligned", misaligned, ITSELF, ALL, ANY, 2, 1 << 30},
    {"on_stack", on_stack, ALIVE, ALL, 1, 1, 1 << 30},
    {"in_data", in_data, ALIVE, ALL, 1, 1, 1 << 30},
    {"mapped", mapped, ALIVE, ALL, 1, 1, 1 << 30},
    {"wild", wild, ALIVE, ALL, 1, 1, 1 << 30},
    {"wrong_cache", wrong_cache, ALIVE, 1 << TYPED, 1, 1, 1 << 30},
    {"sized_wrong", sized_wrong, ALIVE, 1 << MALLOC, 1, 16, 1 << 30},
    {"malloc_delete", malloc_delete, ALIVE, 1 << MALLOC, 1, 1, 1 << 30},
    {"new_free", new_free, ALIVE, 1 << MALLOC, 1, 1, 1 << 30},
    {"array_delete", array_delete, ALIVE, 1 << MALLOC, 1, 1, 1 << 30},
    {"destroyed_alloc", destroyed_alloc, ALIVE, 1 << TYPED, 1, 1, 1 << 30},
    {"destroyed_free", destroyed_free, ALIVE, 1 << TYPED, 1, 1, 1 << 30},
    {"destroyed_again", destroyed_again, ALIVE, 1 << TYPED, 1, 1, 1 << 30},
    {"realloc_freed", realloc_freed, ITSELF, HEAP, FREED, 1, 1 << 30},
};

static const size_t large_sizes[] = {40000,   70000,    150000,   300000,  600000,
                                     1000000, 1500000,  2500000,  3000000, 5000000,
                                     9000000, 14000000, 20000000, 4194304};
static const size_t typed_sizes[] = {8,   16,  24,  40,   48,   64,   100,  152,
                                     192, 320, 504, 1000, 2048, 4096, 9000, 40000};

/* Sizes of an API, one after the other; 0 behind the last. */
static size_t size_of(enum api of, unsigned i)
{
    size_t at = of == MALLOC ? 16 : 8, most = of == MALLOC ? 32768 : 8192;

    if (of == TYPED)
        return i < sizeof(typed_sizes) / sizeof(*typed_sizes) ? typed_sizes[i] : 0;
    /* malloc's classes: every 16 up to 256, then 8 a doubling; kmalloc's: powers of two and between. */
    for (; at <= most; i--) {
        if (i == 0)
            return at;
        if (of == MALLOC)
            at += at < 256 ? 16 : ((size_t)1 << (63 - __builtin_clzll(at))) / 8;
        else
            at = at == 64 ? 96 : at == 96 ? 128 : at == 128 ? 192 : at == 192 ? 256 : at * 2;
    }
    return i < sizeof(large_sizes) / sizeof(*large_sizes) ? large_sizes[i] : 0;
}

/* ---- a child -------------------------------------------------------------------------------- */

static void take(bool check)
{
    void *object = get();
    unsigned free_place = MOST;

    if (!object)
        return;
    for (unsigned i = 0; i < MOST && check; i++)
        if (live[i] == object)
            said->reused = 1;
        else if (!live[i])
            free_place = i;
    fill(object, 0x22);
    if (free_place < MOST)
        live[free_place] = object;
    else
        put(object);
}

static void live_on(unsigned order)
{
    unsigned some = is_large() ? 3 : n / 2;

    n = MOST;
    for (unsigned i = 0; order == 0 && i < some; i++)
        take(true);
    before = behind = NULL;
    for (unsigned i = 0; i < MOST; i++)
        if (live[i] == victim)
            victim = NULL; /* it is like others from here on */
    put_some(some);
    for (unsigned i = 0; order == 1 && i < some; i++)
        take(true);
    phase(TRIM);
    put_some(MOST);
    give_back();
    phase(CHECK);
    if (getenv("STOOK_DEBUG"))
        (void)stook_cache_validate(NULL);
    phase(NONE);
}

static void child(const struct kind *kind, enum stage stage, unsigned order)
{
    int null = open("/dev/null", O_WRONLY);

    dup2(null, 2);
    alarm(20);
    stook_message_set(heard, NULL);
    make();
    bring(kind->at == NEIGHBOUR ? behind : kind->at == BEFORE ? before : victim, stage);
    phase(ERROR);
    kind->fn();
    if (kind->at == ALIVE || stage == LIVE)
        phase(TRAFFIC);
    phase(TRAFFIC);
    live_on(order);
    _exit(0);
}

static void one(const struct kind *kind, enum stage stage, unsigned order)
{
    char line[160];
    int status, length;
    pid_t pid;

    memset((void *)said, 0, sizeof(*said));
    pid = fork();
    if (pid == 0)
        child(kind, stage, order);
    while (waitpid(pid, &status, 0) != pid)
        continue;
    status = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (status)
        said->seen = said->seen ? said->seen : status == SIGALRM ? NONE : said->phase;
    length = snprintf(line, sizeof(line), "%s %s %zu %s %u %s %d %d\n", api_name[api], kind->name,
                      size, stage_name[stage], order, phase_name[said->seen ? said->seen : NONE],
                      status, said->reused);
    if (said->phase == SETUP)
        length = snprintf(line, sizeof(line), "setup failed: %s %s %zu %s status %d\n",
                          api_name[api], kind->name, size, stage_name[stage], status);
    if (write(1, line, (size_t)length) != length)
        _exit(1);
}

int main(int argc, char **argv)
{
    unsigned step = argc > 1 ? (unsigned)atoi(argv[1]) : 1, at = 0;
    unsigned first = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    struct rlimit none = {0, 0};
    void *probe = malloc(20);

    setrlimit(RLIMIT_CORE, &none);
    is_stook = stook_cache_of(probe) != NULL;
    free(probe);
    /* Far from what a child may write to. */
    said = mmap((void *)(uintptr_t)0x10000000, 4096, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (said == MAP_FAILED)
        return 1;
    for (const struct kind *kind = kinds; kind < kinds + sizeof(kinds) / sizeof(*kinds); kind++) {
        if (argc > 3 && strcmp(argv[3], kind->name) != 0)
            continue;
        for (unsigned a = 0; a < APIS; a++) {
            api = (enum api)a;
            if (!(kind->apis >> a & 1) || (!is_stook && api != MALLOC))
                continue;
            for (unsigned i = 0; size_of(api, i) > 0; i++)
                for (unsigned s = 0; s < STAGES; s++) {
                    size = size_of(api, i);
                    if (size < kind->least || size > kind->most || !(kind->stages >> s & 1))
                        continue;
                    if (i % 3 == 2 && api != TYPED && size > kind->least + 6)
                        size -= 6; /* less than its class has */
                    if (at++ % step == first)
                        one(kind, (enum stage)s, (i + s) & 1);
                }
        }
    }
    return 0;
}
