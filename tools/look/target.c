/* SPDX-License-Identifier: MIT */
/*
 * target.c - keeps the pages that were read of a target, within a budget of memory and time, and
 * lists the processes of this host.
 */
#include "look/target.h"

#include "text/writer.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    CACHE_BITS_LEAST = 10,
    CACHE_EXPECTED = 4096, /* pages that are read at one time at most */
    CACHE_BLOCK = 256,     /* pages of a piece of memory */
    TARGET_SECONDS = 4,    /* the CPU's time for a snapshot … */
    TARGET_SHIFT = 30, /* … and one more by so many bytes of the process, as powers of two … */
    TARGET_LONGEST = 60,           /* … up to this */
    CACHE_COST = TARGET_PAGE + 32, /* of a page that is kept, with its place */
    TARGET_STEPS = 512,            /* reads between looks at the clock */
};
#define TARGET_LEAST (UINT64_C(64) << 20) /* a budget, with an eighth of the process … */
#define TARGET_MOST (UINT64_C(2) << 30)   /* … up to this */

/* ---- memory of this process ------------------------------------------------------------------- */

void *target_need(void *memory)
{
    if (!memory) {
        fputs("stook: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void *target_row(void *rows, size_t n, size_t size)
{
    return (n & (n - 1)) == 0 ? target_need(realloc(rows, (n ? 2 * n : 1) * size)) : rows;
}

int target_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* ---- the budget ------------------------------------------------------------------------------- */

static uint64_t target_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void target_allow(struct target *target, unsigned snapshots)
{
    target->over = false;
    target->deadline = target_clock(CLOCK_PROCESS_CPUTIME_ID) +
                       snapshots * (target->seconds * UINT64_C(1000000000));
}

bool target_spend(struct target *target, uint64_t bytes)
{
    target->over |= bytes > target->budget - target->spent;
    target->spent += target->over ? 0 : bytes;
    return !target->over;
}

static bool target_step(struct target *target)
{
    if (++target->steps % TARGET_STEPS == 0)
        target->over |= target_clock(CLOCK_PROCESS_CPUTIME_ID) > target->deadline;
    return !target->over;
}

/* ---- pages ------------------------------------------------------------------------------------ */

/* An entry of the hash table: its page, once it was read or tried. */
struct target_page {
    uint64_t address; /* + 1; 0: a free place */
    char *bytes;      /* NULL: it cannot be read */
};

struct target_cache {
    struct target_page *place;
    unsigned bits;
    size_t used;
    char **blocks; /* memory of pages, by CACHE_BLOCK */
    size_t taken, nblocks;
    uint64_t expected[CACHE_EXPECTED];
    size_t nexpected;
};

static struct target_page *cache_place(struct target_cache *cache, uint64_t page)
{
    size_t mask = ((size_t)1 << cache->bits) - 1;
    size_t at = (size_t)((page / TARGET_PAGE) * 0x9e3779b97f4a7c15u >> (64 - cache->bits));

    while (cache->place[at].address && cache->place[at].address != page + 1)
        at = (at + 1) & mask;
    return &cache->place[at];
}

static void cache_grow(struct target_cache *cache)
{
    struct target_page *old = cache->place;
    size_t n = (size_t)1 << cache->bits;

    cache->bits++;
    cache->place = target_need(calloc((size_t)1 << cache->bits, sizeof(*cache->place)));
    for (size_t i = 0; i < n; i++)
        if (old[i].address)
            *cache_place(cache, old[i].address - 1) = old[i];
    free(old);
}

static void cache_put(struct target_cache *cache, uint64_t page, char *bytes)
{
    struct target_page *place = cache_place(cache, page);

    if (!place->address && ++cache->used * 2 > (size_t)1 << cache->bits) {
        cache_grow(cache);
        place = cache_place(cache, page);
    }
    *place = (struct target_page){page + 1, bytes};
}

static char *cache_take(struct target_cache *cache)
{
    size_t in = cache->taken % CACHE_BLOCK, block = cache->taken / CACHE_BLOCK;

    if (block == cache->nblocks) {
        cache->blocks =
            target_need(realloc(cache->blocks, (cache->nblocks + 1) * sizeof(*cache->blocks)));
        cache->blocks[cache->nblocks++] = target_need(malloc((size_t)CACHE_BLOCK * TARGET_PAGE));
    }
    cache->taken++;
    return cache->blocks[block] + in * TARGET_PAGE;
}

static void cache_clear(struct target_cache *cache)
{
    memset(cache->place, 0, sizeof(*cache->place) << cache->bits);
    cache->used = cache->taken = cache->nexpected = 0;
}

/* Reads what is expected and not there yet. */
static void cache_fill(struct target *target)
{
    struct target_cache *cache = target->cache;
    static char *to[CACHE_EXPECTED];
    static bool got[CACHE_EXPECTED];
    size_t n = 0;

    qsort(cache->expected, cache->nexpected, sizeof(cache->expected[0]), target_by_number);
    for (size_t i = 0; i < cache->nexpected; i++) {
        uint64_t page = cache->expected[i];
        if ((n > 0 && cache->expected[n - 1] == page) || cache_place(cache, page)->address)
            continue;
        cache->expected[n++] = page;
    }
    cache->nexpected = 0;
    if (!target_spend(target, n * CACHE_COST))
        return;
    for (size_t i = 0; i < n; i++) {
        to[i] = cache_take(cache);
        got[i] = false;
    }
    if (n > 0)
        target->ops->read_pages(target, cache->expected, to, got, n);
    for (size_t i = 0; i < n; i++)
        cache_put(cache, cache->expected[i], got[i] ? to[i] : NULL);
}

void target_expect(struct target *target, uint64_t address, size_t n)
{
    uint64_t page = address - address % TARGET_PAGE;

    for (uint64_t left = n + address % TARGET_PAGE; left > 0 && n > 0; page += TARGET_PAGE) {
        if (target->cache->nexpected == CACHE_EXPECTED)
            cache_fill(target);
        if (!target_step(target))
            return;
        target->cache->expected[target->cache->nexpected++] = page;
        left -= left < TARGET_PAGE ? left : TARGET_PAGE;
    }
}

bool target_read(struct target *target, uint64_t address, void *to, size_t room, size_t n)
{
    char *at = to;

    if (n > room || address + n < address || !target_step(target))
        return false;
    while (n > 0) {
        uint64_t page = address - address % TARGET_PAGE;
        size_t in = (size_t)(address - page), part = TARGET_PAGE - in < n ? TARGET_PAGE - in : n;
        struct target_page *place = cache_place(target->cache, page);
        if (!place->address) {
            target_expect(target, address, n);
            cache_fill(target);
            place = cache_place(target->cache, page);
        }
        if (target->over || !place->bytes)
            return false;
        memcpy(at, place->bytes + in, part);
        at += part;
        address += part;
        n -= part;
    }
    return true;
}

bool target_read_now(struct target *target, uint64_t address, void *to, size_t room, size_t n)
{
    return n <= room && address + n >= address && target_step(target) &&
           target->ops->read(target, address, to, n) == n;
}

void target_there(struct target *target, uint64_t address, bool *there, size_t n)
{
    uint64_t page[CACHE_BLOCK];

    for (size_t done = 0; done < n; done += CACHE_BLOCK) {
        size_t some = n - done < CACHE_BLOCK ? n - done : CACHE_BLOCK;
        for (size_t i = 0; i < some; i++)
            page[i] = address - address % TARGET_PAGE + (done + i) * TARGET_PAGE;
        target->ops->there(target, page, there + done, some);
    }
}

bool target_words(struct target *target, uint64_t page, uint64_t *word, size_t n)
{
    return target_step(target) && target->ops->words && target->ops->words(target, page, word, n);
}

/* ---- text ------------------------------------------------------------------------------------- */

void target_clean_text(char *text, size_t size)
{
    size_t length = strnlen(text, size), at = 0;
    char *given = target_need(strndup(text, length));

    for (size_t i = 0, n; i < length && at + 1 < size; i += n ? n : 1) {
        bool escape = given[i] == '\\' && given[i + 1] == 'x';
        n = escape ? 0 : writer_shown(given + i);
        if (at + (n ? n : 4) >= size)
            break;
        if (n)
            memcpy(text + at, given + i, n);
        else
            (void)snprintf(text + at, 5, "\\x%02x", (unsigned char)given[i]);
        at += n ? n : 4;
    }
    if (size > 0)
        text[at] = '\0';
    free(given);
}

bool target_read_text(struct target *target, uint64_t address, char *to, size_t size)
{
    size_t n = 0;

    while (n + 1 < size) {
        size_t part = TARGET_PAGE - (size_t)((address + n) % TARGET_PAGE);
        if (part > size - 1 - n)
            part = size - 1 - n;
        if (!target_read(target, address + n, to + n, part, part))
            return false;
        if (memchr(to + n, '\0', part))
            break;
        n += part;
    }
    to[size - 1] = '\0';
    target_clean_text(to, size);
    return true;
}

/* ---- the target ------------------------------------------------------------------------------- */

bool target_fail(struct target_error *error, const char *format, ...)
{
    va_list args;

    error->idle = error->refused = error->damaged = false;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return false;
}

bool target_damaged(const struct target *target, struct target_error *error)
{
    (void)target_fail(error, "process %d (%s): its tables are damaged%s", target->pid, target->name,
                      target->over ? ", or more than can be read" : "");
    error->damaged = true;
    return false;
}

/* A mapped file (a core file, a program of the process) may be truncated by its owner.  This maps zeros there, so that the
 * access does not end this program. */
static void target_file_was_cut(int number, siginfo_t *info, void *context)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE),
              page = (uintptr_t)info->si_addr / size * size;

    (void)context;
    if (info->si_code != BUS_ADRERR ||
        mmap((void *)page, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
        (void)signal(number, SIG_DFL);
}

struct target *target_new(const struct target_ops *ops, void *own, uint64_t resident)
{
    struct target *target = target_need(calloc(1, sizeof(*target)));
    struct sigaction cut = {.sa_sigaction = target_file_was_cut, .sa_flags = SA_SIGINFO};
    uint64_t more = resident >> TARGET_SHIFT;

    (void)sigaction(SIGBUS, &cut, NULL);
    target->ops = ops;
    target->own = own;
    target->budget = resident / 8 < TARGET_MOST ? TARGET_LEAST + resident / 8 : TARGET_MOST;
    target->seconds = TARGET_SECONDS + (unsigned)(more < TARGET_LONGEST ? more : TARGET_LONGEST);
    target->cache = target_need(calloc(1, sizeof(*target->cache)));
    target->cache->bits = CACHE_BITS_LEAST;
    target->cache->place =
        target_need(calloc((size_t)1 << CACHE_BITS_LEAST, sizeof(struct target_page)));
    target_renew(target);
    target_allow(target, 1);
    return target;
}

void target_renew(struct target *target)
{
    target->time = target_clock(CLOCK_MONOTONIC);
    target->spent = 0;
    cache_clear(target->cache);
}

bool target_alive(struct target *target)
{
    return target->ops->alive(target);
}

bool target_for_each_mapping(struct target *target,
                             bool (*fn)(const struct target_mapping *mapping, void *arg), void *arg)
{
    return target->ops->mappings(target, fn, arg, false);
}

bool target_for_each_resident(struct target *target,
                              bool (*fn)(const struct target_mapping *mapping, void *arg),
                              void *arg)
{
    return target->ops->mappings(target, fn, arg, true);
}

void target_close(struct target *target)
{
    if (!target)
        return;
    target->ops->close(target);
    for (size_t i = 0; i < target->cache->nblocks; i++)
        free(target->cache->blocks[i]);
    free(target->cache->blocks);
    free(target->cache->place);
    free(target->cache);
    free(target);
}

/* ---- all processes ---------------------------------------------------------------------------- */

static int process_order(const void *a, const void *b)
{
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

void target_for_each_process(bool (*fn)(int pid, void *arg), void *arg)
{
    DIR *proc = opendir("/proc");
    int *pids = NULL;
    size_t n = 0;

    if (!proc)
        return;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pids = target_row(pids, n, sizeof(*pids));
        pids[n++] = atoi(entry->d_name);
    }
    closedir(proc);
    qsort(pids, n, sizeof(*pids), process_order);
    for (size_t i = 0; i < n && fn(pids[i], arg); i++)
        ;
    free(pids);
}
