/* SPDX-License-Identifier: MIT */
#define MUST_FAILS abort()
#include "support/must.h"
#include "support/trace_decode.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DECODE_CACHES = 1 << 16 };

static unsigned char *decode_load(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY);
    unsigned char *bytes;
    struct stat st;
    size_t got = 0;

    MUST(fd >= 0 && fstat(fd, &st) == 0);
    bytes = malloc((size_t)st.st_size + 1);
    MUST(bytes);
    while (got < (size_t)st.st_size) {
        ssize_t n = read(fd, bytes + got, (size_t)st.st_size - got);
        MUST(n > 0);
        got += (size_t)n;
    }
    close(fd);
    *size = got;
    return bytes;
}

static uint64_t decode_number(const unsigned char **p, const unsigned char *end)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        MUST(*p < end && shift < 64);
        value |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128))
            return value;
    }
}

static void decode_cache(struct trace_decoded *t, const unsigned char **p, const unsigned char *end)
{
    const unsigned char *from = *p - 1;
    uint64_t number = decode_number(p, end), n;
    struct trace_decoded_cache *cache = &t->cache[number];

    MUST(number > 0 && number < DECODE_CACHES);
    cache->known = true;
    cache->size = decode_number(p, end);
    cache->stride = decode_number(p, end);
    cache->align = decode_number(p, end);
    n = decode_number(p, end);
    MUST(n < sizeof(cache->name) && n <= (size_t)(end - *p));
    memcpy(cache->name, *p, n);
    cache->name[n] = '\0';
    *p += n;
    MUST(*p - from <= TRACE_RECORD_MAX);
}

static void decode_asked(struct trace_decoded_event *event, const unsigned char **p,
                         const unsigned char *end)
{
    uint64_t twice = decode_number(p, end);

    event->bytes = twice >> 1;
    MUST(event->bytes > 0);
    if (twice & 1)
        event->align = (uint64_t)1 << decode_number(p, end);
}

static void decode_chunk(struct trace_decoded *t, const unsigned char *bytes,
                         const struct trace_chunk *chunk)
{
    const unsigned char *p = bytes, *end = bytes + chunk->used;
    uint64_t time = chunk->time, address = chunk->address;
    uint32_t cpu = chunk->cpu;

    MUST(chunk->thread > 0 && chunk->zero == 0);
    MUST(chunk->used <= TRACE_CHUNK_BYTES - sizeof(*chunk));
    while (p < end) {
        unsigned kind = *p++;
        if (kind == TRACE_CPU) {
            cpu = (uint32_t)decode_number(&p, end);
        } else if (kind == TRACE_CACHE) {
            decode_cache(t, &p, end);
        } else {
            struct trace_decoded_event *event = &t->event[t->n];
            uint64_t zigzag;
            MUST(kind == TRACE_ALLOC || kind == TRACE_FREE || kind == TRACE_ASKED);
            time += decode_number(&p, end);
            zigzag = decode_number(&p, end);
            address += zigzag >> 1 ^ -(zigzag & 1);
            *event = (struct trace_decoded_event){.time = time,
                                                  .address = (address % TRACE_REST << 3) +
                                                             address / TRACE_REST,
                                                  .thread = chunk->thread,
                                                  .cpu = cpu,
                                                  .alloc = kind != TRACE_FREE,
                                                  .place = t->n};
            if (event->alloc) {
                event->cache = (uint32_t)decode_number(&p, end);
                if (event->cache == 0)
                    event->bytes = decode_number(&p, end);
                MUST(event->cache < DECODE_CACHES && (kind == TRACE_ALLOC || event->cache > 0));
                if (kind == TRACE_ASKED)
                    decode_asked(event, &p, end);
            }
            MUST(address > 0);
            *(event->alloc ? &t->allocs : &t->frees) += 1;
            t->n++;
        }
        MUST(cpu < t->header.cpus);
    }
    MUST(p == end);
}

static int decode_by_time(const void *a, const void *b)
{
    const struct trace_decoded_event *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->alloc != y->alloc)
        return x->alloc ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

/* Open addressing; addresses that are gone leave a mark. */
static size_t *decode_slot(size_t *table, size_t mask, uintptr_t address)
{
    size_t i = address * 0x9e3779b97f4a7c15u >> 20 & mask;

    while (table[i] != 0 && table[i] >> 1 != address)
        i = (i + 1) & mask;
    return &table[i];
}

static void decode_balance(struct trace_decoded *t)
{
    size_t mask = 64, *table;

    while (mask < 3 * t->n)
        mask *= 2;
    table = calloc(mask, sizeof(*table));
    MUST(table);
    mask--;
    for (size_t i = 0; i < t->n; i++) { /* bit 0: it is there */
        const struct trace_decoded_event *event = &t->event[i];
        size_t *slot = decode_slot(table, mask, event->address);
        bool there = *slot & 1;
        t->twice += event->alloc && there;
        t->unknown += !event->alloc && !there;
        t->live += (uint64_t)event->alloc - there;
        *slot = event->address << 1 | event->alloc;
    }
    free(table);
}

void trace_decode(struct trace_decoded *t, const char *path)
{
    size_t size, at = TRACE_HEADER_BYTES;
    unsigned char *bytes = decode_load(path, &size);

    memset(t, 0, sizeof(*t));
    MUST(size >= TRACE_HEADER_BYTES);
    memcpy(&t->header, bytes, sizeof(t->header));
    MUST(memcmp(t->header.magic, TRACE_MAGIC, sizeof(t->header.magic)) == 0);
    MUST(t->header.version == TRACE_VERSION && t->header.header_bytes == TRACE_HEADER_BYTES);
    MUST(t->header.chunk_bytes == TRACE_CHUNK_BYTES && t->header.cpus > 0);
    MUST(memchr(t->header.program, 0, sizeof(t->header.program)));
    t->cache = calloc(DECODE_CACHES, sizeof(*t->cache));
    t->event = malloc((t->header.chunks + 1) * (TRACE_CHUNK_BYTES / 3) * sizeof(*t->event));
    MUST(t->cache && t->event);
    for (uint64_t i = 0; i < t->header.chunks; i++, at += TRACE_CHUNK_BYTES) {
        struct trace_chunk chunk;
        MUST(at + TRACE_CHUNK_BYTES <= size);
        memcpy(&chunk, bytes + at, sizeof(chunk));
        decode_chunk(t, bytes + at + sizeof(chunk), &chunk);
    }
    free(bytes);
    for (size_t i = 0; i < t->n; i++) /* by whichever thread */
        MUST(!t->event[i].alloc || t->event[i].cache == 0 || t->cache[t->event[i].cache].known);
    qsort(t->event, t->n, sizeof(*t->event), decode_by_time);
    decode_balance(t);
}

void trace_decoded_free(struct trace_decoded *t)
{
    free(t->event);
    free(t->cache);
}
