/* SPDX-License-Identifier: MIT */
/*
 * trace_read.c - the reader of traces.  Each thread has a cursor that stands on its next event; a queue
 * says which thread's is first.  Records without a time (a CPU, a cache) take effect when the cursor
 * passes them, which is with the event before.
 */
#include "trace_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRACE_SIZE_MAX = 4 << 20, /* bytes of an object of a cache: STOOK_OBJECT_SIZE_MAX */
    TRACE_ALIGN_MAX = 4096,
    TRACE_ASKED_ALIGN = 6 + 6, /* log2 of the largest alignment that a class has */
};

static bool trace_fail(struct trace *trace, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool trace_fail(struct trace *trace, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(trace->error, sizeof(trace->error), format, args);
    va_end(args);
    return false;
}

static bool trace_fail_at(struct trace *trace, uint64_t at, const char *what)
{
    return trace_fail(trace, "offset %llu: %s", (unsigned long long)at, what);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool trace_number(struct trace *trace, struct trace_cursor *c, uint64_t *number)
{
    uint64_t n = 0, begin = c->at;

    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte;
        if (c->at >= c->end)
            return trace_fail_at(trace, begin, "a number goes beyond its chunk");
        byte = trace->map[c->at++];
        if (shift == 63 && byte > 1)
            return trace_fail_at(trace, begin, "a number has more than 64 bits");
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
        if (shift == 63)
            return trace_fail_at(trace, begin, "a number has more than 64 bits");
    }
    *number = n;
    return true;
}

static bool trace_time_of(struct trace *trace, struct trace_cursor *c)
{
    uint64_t at = c->at, delta;

    if (!trace_number(trace, c, &delta))
        return false;
    if (__builtin_add_overflow(c->event.time, delta, &c->event.time))
        return trace_fail_at(trace, at, "a time is beyond 64 bits");
    return true;
}

static bool trace_address_of(struct trace *trace, struct trace_cursor *c)
{
    uint64_t at = c->at, zigzag;

    if (!trace_number(trace, c, &zigzag))
        return false;
    c->event.address += zigzag >> 1 ^ (0 - (zigzag & 1));
    if (c->event.address == 0 || c->event.address >> 61)
        return trace_fail_at(trace, at, "an address that is none");
    return true;
}

static bool trace_cpu_of(struct trace *trace, struct trace_cursor *c)
{
    uint64_t at = c->at, cpu;

    if (!trace_number(trace, c, &cpu))
        return false;
    if (cpu >= TRACE_CPUS_MAX)
        return trace_fail_at(trace, at, "a CPU's number is too large");
    c->event.cpu = (unsigned)cpu;
    return true;
}

/* ---- caches --------------------------------------------------------------------------------- */

/* The class of that description, made if it is new; -1 after an error. */
static int trace_describe(struct trace *trace, const struct trace_class *described)
{
    int last = -1;

    for (int i = trace->head[described->number]; i >= 0; i = trace->class[i].same) {
        const struct trace_class *class = &trace->class[i];
        if (class->size == described->size && class->stride == described->stride &&
            class->align == described->align && strcmp(class->name, described->name) == 0)
            return i;
        last = i;
    }
    if (trace->classes == TRACE_CACHES_MAX) {
        trace_fail(trace, "more than %d caches", TRACE_CACHES_MAX);
        return -1;
    }
    if ((trace->classes & (trace->classes - 1)) == 0) { /* room for as many again */
        size_t room = trace->classes ? 2 * (size_t)trace->classes : 1;
        struct trace_class *grown = realloc(trace->class, room * sizeof(grown[0]));
        if (!grown) {
            trace_fail(trace, "no memory for the caches");
            return -1;
        }
        trace->class = grown;
    }
    trace->class[trace->classes] = *described;
    trace->class[trace->classes].same = -1;
    *(last < 0 ? &trace->head[described->number] : &trace->class[last].same) = (int)trace->classes;
    return (int)trace->classes++;
}

static bool trace_cache(struct trace *trace, struct trace_cursor *c)
{
    struct trace_class class = {.number = 0};
    uint64_t number, size, stride, align, n, at = c->at;

    if (!trace_number(trace, c, &number) || !trace_number(trace, c, &size) ||
        !trace_number(trace, c, &stride) || !trace_number(trace, c, &align) ||
        !trace_number(trace, c, &n))
        return false;
    if (number == 0 || number >= TRACE_CACHES_MAX)
        return trace_fail_at(trace, at, "a cache's number is none");
    if (size == 0 || size > TRACE_SIZE_MAX || stride < size || stride > 2ull * TRACE_SIZE_MAX)
        return trace_fail_at(trace, at, "a cache's object has no size");
    if (align == 0 || align > TRACE_ALIGN_MAX || (align & (align - 1)) != 0)
        return trace_fail_at(trace, at, "a cache's alignment is no power of two");
    if (n >= sizeof(class.name) || n > c->end - c->at)
        return trace_fail_at(trace, at, "a cache's name goes beyond its record");
    class.number = (uint32_t)number;
    class.size = (uint32_t)size;
    class.stride = (uint32_t)stride;
    class.align = (uint32_t)align;
    memcpy(class.name, trace->map + c->at, n);
    c->at += n;
    c->next = TRACE_NEXT_CACHE;
    c->event.class = trace_describe(trace, &class);
    return c->event.class >= 0;
}

/* ---- one thread ----------------------------------------------------------------------------- */

static uint64_t trace_chunk_begin(const struct trace *trace, uint64_t chunk)
{
    return trace->header.header_bytes + chunk * trace->header.chunk_bytes;
}

/* The cursor's next chunk; its head was looked at when they were sorted, and is not believed either. */
static bool trace_chunk(struct trace *trace, struct trace_cursor *c)
{
    uint64_t begin = trace_chunk_begin(trace, trace->chunk[c->chunk++].chunk);
    struct trace_chunk chunk;

    memcpy(&chunk, trace->map + begin, sizeof(chunk));
    c->at = begin + sizeof(chunk);
    c->end = c->at + chunk.used;
    if (chunk.used > trace->header.chunk_bytes - sizeof(chunk) || c->end > trace->size)
        return trace_fail_at(trace, begin, "a chunk's records go beyond it");
    if (chunk.time < c->event.time)
        return trace_fail_at(trace, begin, "a chunk begins before the thread's last one ends");
    if (chunk.cpu >= TRACE_CPUS_MAX)
        return trace_fail_at(trace, begin, "a CPU's number is too large");
    c->event.time = chunk.time;
    c->event.address = chunk.address;
    c->event.cpu = chunk.cpu;
    return true;
}

static bool trace_alloc(struct trace *trace, struct trace_cursor *c)
{
    uint64_t at = c->at, cache;

    c->next = TRACE_NEXT_ALLOC;
    c->event.free = false;
    c->event.bytes = 0;
    c->event.align = 0;
    if (!trace_time_of(trace, c) || !trace_address_of(trace, c) || !trace_number(trace, c, &cache))
        return false;
    if (cache >= TRACE_CACHES_MAX)
        return trace_fail_at(trace, at, "a cache's number is none");
    c->event.class = (int)cache;
    return cache > 0 || trace_number(trace, c, &c->event.bytes);
}

static bool trace_asked(struct trace *trace, struct trace_cursor *c)
{
    uint64_t at = c->at, twice, align = 0;

    if (!trace_alloc(trace, c))
        return false;
    if (c->event.class == 0)
        return trace_fail_at(trace, at, "a large object that tells what was asked for");
    if (!trace_number(trace, c, &twice) || ((twice & 1) && !trace_number(trace, c, &align)))
        return false;
    if (twice >> 1 == 0 || twice >> 1 > TRACE_SIZE_MAX || align > TRACE_ASKED_ALIGN)
        return trace_fail_at(trace, at, "no object has this size and alignment");
    c->event.bytes = twice >> 1;
    c->event.align = twice & 1 ? 1u << align : 0;
    return true;
}

static bool trace_free(struct trace *trace, struct trace_cursor *c)
{
    c->next = TRACE_NEXT_FREE;
    c->event.free = true;
    c->event.class = TRACE_LARGE;
    return trace_time_of(trace, c) && trace_address_of(trace, c);
}

/* To what is next.  1: it is there; 0: there is nothing more; -1: an error. */
static int trace_step(struct trace *trace, struct trace_cursor *c)
{
    for (;;) {
        uint64_t at = c->at;
        if (at >= c->end) {
            if (c->chunk == c->chunks)
                return 0;
            if (!trace_chunk(trace, c))
                return -1;
            continue;
        }
        switch (trace->map[c->at++]) {
        case TRACE_END:
            c->at = c->end;
            break;
        case TRACE_ALLOC:
            return trace_alloc(trace, c) ? 1 : -1;
        case TRACE_ASKED:
            return trace_asked(trace, c) ? 1 : -1;
        case TRACE_FREE:
            return trace_free(trace, c) ? 1 : -1;
        case TRACE_CACHE:
            return trace_cache(trace, c) ? 1 : -1;
        case TRACE_CPU:
            if (!trace_cpu_of(trace, c))
                return -1;
            break;
        default:
            trace_fail_at(trace, at, "a record of a kind that is not known");
            return -1;
        }
    }
}

/* ---- all threads ---------------------------------------------------------------------------- */

static bool trace_before(const void *arg, unsigned a, unsigned b)
{
    const struct trace *trace = arg;
    const struct trace_cursor *x = &trace->cursor[a], *y = &trace->cursor[b];

    if (x->event.time != y->event.time)
        return x->event.time < y->event.time;
    return x->next != y->next ? x->next < y->next : a < b;
}

static void trace_cursors(struct trace *trace)
{
    uint64_t chunk = 0;

    for (unsigned thread = 0; thread < trace->threads; thread++) {
        struct trace_cursor *c = &trace->cursor[thread];
        memset(c, 0, sizeof(*c));
        c->event.thread = thread;
        c->chunk = chunk;
        do
            chunk++;
        while (trace->chunk[chunk].thread == trace->chunk[c->chunk].thread);
        c->chunks = chunk;
    }
}

bool trace_rewind(struct trace *trace)
{
    memcpy(trace->now, trace->head, TRACE_CACHES_MAX * sizeof(trace->now[0]));
    trace_cursors(trace);
    trace->queue = (struct queue){trace->queue.number, 0, trace_before, trace};
    for (unsigned thread = 0; thread < trace->threads; thread++) {
        int there = trace_step(trace, &trace->cursor[thread]);
        if (there < 0)
            return false;
        if (there)
            queue_push(&trace->queue, thread);
    }
    return true;
}

bool trace_next(struct trace *trace, struct trace_event *event)
{
    while (trace->queue.n > 0 && !*trace->error) {
        unsigned thread = queue_pop(&trace->queue);
        struct trace_cursor *c = &trace->cursor[thread];
        enum trace_next next = c->next;
        *event = c->event;
        if (trace_step(trace, c) > 0) /* an error is the next call's */
            queue_push(&trace->queue, thread);
        if (next == TRACE_NEXT_CACHE) {
            trace->now[trace->class[event->class].number] = event->class;
            continue;
        }
        if (next == TRACE_NEXT_FREE)
            return true;
        event->class = event->class ? trace->now[event->class] : TRACE_LARGE;
        return true;
    }
    return false;
}

/* ---- the file ------------------------------------------------------------------------------- */

static bool trace_head(struct trace *trace)
{
    struct trace_header *h = &trace->header;

    if (trace->size < sizeof(*h) || memcmp(trace->map, TRACE_MAGIC, sizeof(h->magic)) != 0)
        return trace_fail(trace, "this is no trace");
    memcpy(h, trace->map, sizeof(*h));
    h->program[sizeof(h->program) - 1] = '\0';
    if (h->version < TRACE_VERSION_LEAST || h->version > TRACE_VERSION)
        return trace_fail(trace, "a trace of version %u; this reads versions %d to %d", h->version,
                          TRACE_VERSION_LEAST, TRACE_VERSION);
    if (h->header_bytes < sizeof(*h) || h->header_bytes % 8 != 0 ||
        h->chunk_bytes < sizeof(struct trace_chunk) || h->chunk_bytes % 8 != 0)
        return trace_fail(trace, "a header of %u bytes and chunks of %u cannot be", h->header_bytes,
                          h->chunk_bytes);
    return true;
}

static int trace_by_thread(const void *a, const void *b)
{
    const struct trace_chunk_at *x = a, *y = b;

    return x->thread != y->thread ? (x->thread > y->thread) - (x->thread < y->thread)
                                  : (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

/* All chunks that have records, by thread. */
static bool trace_chunks(struct trace *trace)
{
    const struct trace_header *h = &trace->header;
    uint64_t there = trace->size < h->header_bytes
                         ? 0
                         : (trace->size - h->header_bytes + h->chunk_bytes - 1) / h->chunk_bytes;
    uint64_t n = 0;

    if (there > h->chunks)
        there = h->chunks;
    trace->summary.chunks_missing = h->chunks - there;
    trace->chunk = malloc((there + 1) * sizeof(trace->chunk[0]));
    if (!trace->chunk)
        return trace_fail(trace, "no memory for its chunks");
    for (uint64_t i = 0; i < there; i++) {
        uint64_t begin = trace_chunk_begin(trace, i);
        struct trace_chunk chunk;
        if (trace->size - begin < sizeof(chunk))
            return trace_fail_at(trace, begin, "the file ends within a chunk's head");
        memcpy(&chunk, trace->map + begin, sizeof(chunk));
        if (chunk.used > h->chunk_bytes - sizeof(chunk))
            return trace_fail_at(trace, begin, "a chunk's records go beyond it");
        if (chunk.used > trace->size - begin - sizeof(chunk))
            return trace_fail_at(trace, begin, "the file ends within a chunk");
        if (chunk.used == 0) /* claimed only */
            continue;
        if (chunk.thread == 0)
            return trace_fail_at(trace, begin, "a chunk of no thread");
        trace->summary.bytes += chunk.used;
        trace->chunk[n++] = (struct trace_chunk_at){.thread = chunk.thread, .chunk = i};
    }
    qsort(trace->chunk, n, sizeof(trace->chunk[0]), trace_by_thread);
    for (uint64_t i = 0; i < n; i++)
        trace->threads += i == 0 || trace->chunk[i].thread != trace->chunk[i - 1].thread;
    /* Behind the last: no thread's. */
    trace->chunk[n] = (struct trace_chunk_at){.thread = 0};
    return true;
}

static void trace_tell(struct trace *trace, const struct trace_event *event, uint64_t *cpus)
{
    struct trace_summary *s = &trace->summary;

    if (s->allocs + s->frees == 0 || event->time < s->begin)
        s->begin = event->time;
    if (event->time > s->end)
        s->end = event->time;
    s->frees += event->free;
    s->allocs += !event->free;
    if (!event->free && event->class == 0) {
        s->large++;
        s->large_bytes += event->bytes;
    }
    s->cpus += !(cpus[event->cpu / 64] >> event->cpu % 64 & 1);
    cpus[event->cpu / 64] |= (uint64_t)1 << event->cpu % 64;
}

/* All records, thread by thread: the caches, the sums, and whether they can be read. */
static bool trace_go_through(struct trace *trace)
{
    uint64_t *cpus = calloc(TRACE_CPUS_MAX / 64, sizeof(*cpus));
    bool *used = calloc(TRACE_CACHES_MAX, sizeof(*used)), fine = cpus && used;

    if (!fine)
        trace_fail(trace, "no memory to read it");
    for (unsigned i = 0; i < trace->threads && fine; i++) {
        struct trace_cursor *c = &trace->cursor[i];
        int there;
        while ((there = trace_step(trace, c)) > 0) {
            if (c->next == TRACE_NEXT_CACHE)
                continue;
            trace_tell(trace, &c->event, cpus);
            if (!c->event.free)
                used[c->event.class] = true;
        }
        fine = there == 0;
    }
    for (unsigned i = 1; i < TRACE_CACHES_MAX && fine; i++)
        if (used[i] && trace->head[i] < 0)
            fine = trace_fail(trace, "nothing describes cache %u, which has objects", i);
    free(cpus);
    free(used);
    return fine;
}

bool trace_use(struct trace *trace, const void *file, uint64_t bytes)
{
    memset(trace, 0, sizeof(*trace));
    trace->map = file;
    trace->size = bytes;
    if (!trace_head(trace) || !trace_chunks(trace))
        return false;
    trace->cursor = malloc((trace->threads + 1) * sizeof(trace->cursor[0]));
    trace->queue.number = malloc((trace->threads + 1) * sizeof(trace->queue.number[0]));
    trace->head = malloc(TRACE_CACHES_MAX * sizeof(trace->head[0]));
    trace->now = malloc(TRACE_CACHES_MAX * sizeof(trace->now[0]));
    if (!trace->cursor || !trace->queue.number || !trace->head || !trace->now)
        return trace_fail(trace, "no memory to read it");
    for (unsigned i = 0; i < TRACE_CACHES_MAX; i++)
        trace->head[i] = -1;
    trace_cursors(trace);
    return trace_go_through(trace) && trace_rewind(trace);
}

bool trace_open(struct trace *trace, const char *name)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    struct stat stat;
    void *map;

    memset(trace, 0, sizeof(*trace));
    if (fd < 0 || fstat(fd, &stat) != 0) {
        trace_fail(trace, "%s", strerror(errno));
    } else if (!S_ISREG(stat.st_mode) || stat.st_size < (off_t)sizeof(struct trace_header)) {
        trace_fail(trace, "this is no trace");
    } else {
        map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            trace_fail(trace, "%s", strerror(errno));
        else
            trace_use(trace, map, (uint64_t)stat.st_size);
        trace->mapped = map != MAP_FAILED;
    }
    if (fd >= 0)
        close(fd);
    return !*trace->error;
}

void trace_close(struct trace *trace)
{
    free(trace->chunk);
    free(trace->cursor);
    free(trace->queue.number);
    free(trace->head);
    free(trace->now);
    free(trace->class);
    if (trace->mapped)
        munmap((void *)(uintptr_t)trace->map, trace->size);
    memset(trace, 0, sizeof(*trace));
}
