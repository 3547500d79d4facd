/* SPDX-License-Identifier: MIT */
/*
 * chain.c - stook-bench-chain: the cost on this CPU of each piece of the way from a freed object to the next allocated
 * one, by forms of the sections (chain_sections.h).  It has no library behind it; one JSON object a line.
 *
 *   as malloc   page map -> slot, a mark in the freed object, and size -> slot
 *   typed       the slot is known; "checked": and the object's slot is asked of the page map
 *
 * ns is a pair's time, the least of many short rounds, which run in turns: the machine may have other work.  Compare the
 * code of two forms before their times: one line of 64 bytes more that a function's code reaches into costs a cycle.
 */
#include "chain_sections.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if !defined(__x86_64__)
#error "its sections are written for x86-64 only"
#endif

enum {
    ROUNDS = 150,
    COUNT = 1500, /* of a round */
    FILLED = 16,
    ROOM = 32,
    STRIDE = 256,
    CLASSES = 64,
    OWN = 32, /* the class of the typed calls, and of the loops' objects */
};

static struct {
    char *slots; /* CPU 0's, of all classes */
    char *arena;
    uint64_t key;
    uint16_t map[1024]; /* a page's class */
    const void *slot[CLASSES + 1];
    struct {
        const void *slots;
        uint16_t index;
    } cache;
} chain;
static int chain_cpu;

#define NOINLINE static __attribute__((noinline))

#define FORM(name)                                                                                 \
    NOINLINE void *name##_malloc(size_t size)                                                      \
    {                                                                                              \
        void *object;                                                                              \
        if (__builtin_expect(size > 256, 0))                                                       \
            abort();                                                                               \
        while (                                                                                    \
            __builtin_expect(!name##_pop(chain.slot[(size + 7) / 8], __rseq_offset, &object), 0))  \
            continue;                                                                              \
        ((uint64_t *)object)[1] = 0;                                                               \
        return object;                                                                             \
    }                                                                                              \
    NOINLINE void name##_free(void *object)                                                        \
    {                                                                                              \
        uintptr_t index = chain.map[(uintptr_t)((char *)object - chain.arena) >> 12];              \
        uint64_t marked = chain.key ^ (uintptr_t)object;                                           \
        if (__builtin_expect(((uint64_t *)object)[1] == marked, 0))                                \
            abort();                                                                               \
        ((uint64_t *)object)[1] = marked;                                                          \
        while (                                                                                    \
            __builtin_expect(!name##_push(chain.slots + (index << 6), __rseq_offset, object), 0))  \
            continue;                                                                              \
    }                                                                                              \
    NOINLINE void *name##_typed_alloc(size_t size)                                                 \
    {                                                                                              \
        void *object;                                                                              \
        (void)size;                                                                                \
        while (__builtin_expect(!name##_pop(chain.cache.slots, __rseq_offset, &object), 0))        \
            continue;                                                                              \
        return object;                                                                             \
    }                                                                                              \
    NOINLINE void name##_typed_free(void *object)                                                  \
    {                                                                                              \
        while (__builtin_expect(!name##_push(chain.cache.slots, __rseq_offset, object), 0))        \
            continue;                                                                              \
    }                                                                                              \
    NOINLINE void name##_checked_free(void *object)                                                \
    {                                                                                              \
        if (__builtin_expect(chain.map[(uintptr_t)((char *)object - chain.arena) >> 12] !=         \
                                 chain.cache.index,                                                \
                             0))                                                                   \
            abort();                                                                               \
        while (__builtin_expect(!name##_push(chain.cache.slots, __rseq_offset, object), 0))        \
            continue;                                                                              \
    }
FORM(library)
FORM(sheaf_size)
FORM(sheaf_size_store)
FORM(sheaf_size_first)
FORM(sheaf_size_bare)
FORM(sheaf_top)
FORM(slot_size)
FORM(slot_top)
FORM(slot_top_index)
FORM(slot_top_base)
FORM(slot_front)

enum memory { SHEAF_SIZE, SHEAF_SIZE_FIRST, SHEAF_TOP, SLOT_SIZES, SLOT_TOP, LIBRARY = SLOT_TOP };

/* The words of one slot of this CPU and of its sheaf, whose objects begin at word 2, or 4 behind pointers. */
static void chain_fill(enum memory memory)
{
    static _Alignas(64) uint64_t sheaf[64];
    uint64_t *slot = (uint64_t *)(void *)(chain.slots + ((size_t)chain_cpu << STOOK_AREA_SHIFT) +
                                          ((size_t)OWN << 6));
    uint64_t *objects = sheaf + (memory == SHEAF_TOP ? 4 : 2);
    uint64_t size = FILLED, room = (uint64_t)ROOM << 32;

    memset(slot, 0, 64);
    slot[0] = (uintptr_t)sheaf;
    for (size_t i = 0; i < ROOM; i++)
        objects[i] = (uintptr_t)(chain.arena + 4096 * OWN + i * STRIDE);
    for (size_t i = 0; i < ROOM; i++)
        ((uint64_t *)objects[i])[1] = 0;
    sheaf[0] = sheaf[1] = 0;
    if (memory == SHEAF_SIZE)
        sheaf[1] = size | room;
    if (memory == SHEAF_SIZE_FIRST) {
        sheaf[0] = size;
        sheaf[1] = room;
    }
    if (memory == SHEAF_TOP) {
        sheaf[1] = (uintptr_t)(objects + FILLED);
        sheaf[2] = (uintptr_t)objects;
        sheaf[3] = (uintptr_t)(objects + ROOM);
    }
    if (memory == SLOT_SIZES)
        slot[1] = size | room;
    if (memory == SLOT_TOP) {
        slot[0] = (uintptr_t)objects;
        slot[1] = (uintptr_t)(objects + FILLED);
        slot[2] = (uintptr_t)(objects + ROOM);
    }
}

static double chain_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One round: depth objects at a time, last out first in; or, FIFO, each returned when 8 others are out. */
#define ROUND(name, alloc, free)                                                                   \
    NOINLINE double name(unsigned depth, int fifo)                                                 \
    {                                                                                              \
        void *held[8];                                                                             \
        double start;                                                                              \
        if (fifo) {                                                                                \
            for (unsigned j = 0; j < 8; j++)                                                       \
                held[j] = alloc(STRIDE);                                                           \
            start = chain_now();                                                                   \
            for (unsigned i = 0; i < COUNT; i++) {                                                 \
                free(held[i % 8]);                                                                 \
                held[i % 8] = alloc(STRIDE);                                                       \
            }                                                                                      \
            return (chain_now() - start) / COUNT;                                                  \
        }                                                                                          \
        start = chain_now();                                                                       \
        for (unsigned i = 0; i < COUNT; i += depth) {                                              \
            for (unsigned j = 0; j < depth; j++)                                                   \
                held[j] = alloc(STRIDE);                                                           \
            for (unsigned j = depth; j-- > 0;)                                                     \
                free(held[j]);                                                                     \
        }                                                                                          \
        return (chain_now() - start) / COUNT;                                                      \
    }
#define ROUNDS_OF(name)                                                                            \
    ROUND(name##_round_malloc, name##_malloc, name##_free)                                         \
    ROUND(name##_round_typed, name##_typed_alloc, name##_typed_free)                               \
    ROUND(name##_round_checked, name##_typed_alloc, name##_checked_free)
ROUNDS_OF(library)
ROUNDS_OF(sheaf_size)
ROUNDS_OF(sheaf_size_store)
ROUNDS_OF(sheaf_size_first)
ROUNDS_OF(sheaf_size_bare)
ROUNDS_OF(sheaf_top)
ROUNDS_OF(slot_size)
ROUNDS_OF(slot_top)
ROUNDS_OF(slot_top_index)
ROUNDS_OF(slot_top_base)
ROUNDS_OF(slot_front)

#define ROW(name, memory, what)                                                                    \
    {                                                                                              \
#name, what, memory,                                                                       \
        {                                                                                          \
            name##_round_malloc, name##_round_typed, name##_round_checked                          \
        }                                                                                          \
    }
static const struct form {
    const char *name, *what;
    enum memory memory;
    double (*round[3])(unsigned depth, int fifo);
} forms[] = {
    ROW(library, LIBRARY,
        "the library's own: a top pointer in the slot, which push loads and stores"),
    ROW(sheaf_size, SHEAF_SIZE, "size and index, in the sheaf"),
    ROW(sheaf_size_store, SHEAF_SIZE, "… push loads and stores instead of a read-modify-write"),
    ROW(sheaf_size_first, SHEAF_SIZE_FIRST, "… size without displacement"),
    ROW(sheaf_size_bare, SHEAF_SIZE, "… no descriptor is stored"),
    ROW(sheaf_top, SHEAF_TOP, "a top pointer, in the sheaf"),
    ROW(slot_size, SLOT_SIZES, "size in the slot, index into the sheaf"),
    ROW(slot_top, SLOT_TOP, "a top pointer, in the slot; push by a read-modify-write"),
    ROW(slot_top_index, SLOT_TOP, "… by base and index"),
    ROW(slot_top_base, SLOT_TOP, "… pop stores by another register than it loads by"),
    ROW(slot_front, SLOT_TOP, "… and one object in front"),
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]), KINDS = 3, SHAPES = 5 };
static const char *const kinds[KINDS] = {"malloc", "typed", "typed-checked"};
static const struct shape {
    const char *name;
    unsigned depth;
    int fifo;
} shapes[SHAPES] = {
    {"lifo1", 1, 0}, {"lifo2", 2, 0}, {"lifo4", 4, 0}, {"lifo8", 8, 0}, {"fifo8", 8, 1}};

/* The value of the first line of a file of /proc that begins with `key`; "" where there is none. */
static const char *chain_field(const char *path, const char *key, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[4096];

    text[0] = '\0';
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');
        size_t n = strlen(key);
        if (!value || strncmp(line, key, n) != 0 ||
            (line[n] != '\t' && line[n] != ':' && line[n] != ' '))
            continue;
        value += strspn(value, ": \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(text, size, "%s", value);
        break;
    }
    if (file)
        fclose(file);
    return text;
}

static void chain_machine(char *out, size_t size)
{
    static const struct {
        const char *key, *line;
    } words[] = {{"cpu", "model name"}, {"vendor", "vendor_id"},  {"family", "cpu family"},
                 {"model", "model"},    {"stepping", "stepping"}, {"microcode", "microcode"}};
    static char text[4096];
    size_t at = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        at += (size_t)snprintf(out + at, size - at, "\"%s\": \"%s\", ", words[i].key,
                               chain_field("/proc/cpuinfo", words[i].line, text, sizeof(text)));
    chain_field("/proc/cpuinfo", "flags", text, sizeof(text));
    at += (size_t)snprintf(out + at, size - at, "\"hypervisor\": %s, ",
                           strstr(text, " hypervisor") ? "true" : "false");
    snprintf(out + at, size - at, "\"speculation_store_bypass\": \"%s\"",
             chain_field("/proc/self/status", "Speculation_Store_Bypass", text, sizeof(text)));
}

static void chain_pin(void)
{
    cpu_set_t one;

    chain_cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET((size_t)chain_cpu, &one);
    if (chain_cpu < 0 || sched_setaffinity(0, sizeof(one), &one)) {
        perror("stook-bench-chain");
        exit(1);
    }
}

static void chain_open(void)
{
    size_t size = (size_t)(chain_cpu + 1) << STOOK_AREA_SHIFT;

    chain.slots = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    chain.arena = mmap(NULL, (size_t)(CLASSES + 4) << 12, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (chain.slots == MAP_FAILED || chain.arena == MAP_FAILED) {
        perror("stook-bench-chain");
        exit(1);
    }
    chain.key = 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < 1024; i++) /* the objects lie in pages OWN and the next */
        chain.map[i] = (uint16_t)(i == OWN + 1 ? OWN : i % CLASSES);
    for (size_t i = 0; i <= CLASSES; i++)
        chain.slot[i] = chain.slots + (i << 6);
    chain.cache.slots = chain.slots + (OWN << 6);
    chain.cache.index = OWN;
}

int main(void)
{
    static double least[FORMS][KINDS][SHAPES];
    static char machine[8192];

    chain_pin();
    chain_open();
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned f = 0; f < FORMS; f++)
            for (unsigned k = 0; k < KINDS; k++)
                for (unsigned s = 0; s < SHAPES; s++) {
                    double ns, *best = &least[f][k][s];
                    chain_fill(forms[f].memory);
                    ns = forms[f].round[k](shapes[s].depth, shapes[s].fifo);
                    if (round == 0 || ns < *best)
                        *best = ns;
                }
    chain_machine(machine, sizeof(machine));
    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned k = 0; k < KINDS; k++)
            for (unsigned s = 0; s < SHAPES; s++)
                printf(
                    "{\"case\": \"chain\", \"form\": \"%s\", \"what\": \"%s\", \"calls\": \"%s\", "
                    "\"shape\": \"%s\", \"ns\": %.3f, %s}\n",
                    forms[f].name, forms[f].what, kinds[k], shapes[s].name, least[f][k][s],
                    machine);
    return 0;
}
