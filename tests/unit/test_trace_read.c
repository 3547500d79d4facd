/* SPDX-License-Identifier: MIT */
/*
 * The reader of traces.  Written events come in the order of time, and impossible ones are refused with their place.
 * Whatever bytes there are, nothing outside the file is read.  Also the table of live objects.
 */
/* needs: whole */
/* link: look */
#include "../../tools/lab/trace_live.c"
#include "../../tools/lab/trace_read.c"

#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/trace_writer.h"

enum { EVENTS = 2000 };

static struct trace trace;
static struct trace_event event;

static void good(const struct trace_writer *w)
{
    if (!trace_use(&trace, w->file, trace_writer_bytes(w)))
        fail_msg("%s", trace.error);
}

/* What was written is refused for that reason, at that offset of the file; 0: without one. */
static void bad_file(const void *file, uint64_t bytes, uint64_t offset, const char *why)
{
    char text[200];

    if (trace_use(&trace, file, bytes))
        fail_msg("read: %s", why);
    if (offset)
        snprintf(text, sizeof(text), "offset %llu: %s", (unsigned long long)offset, why);
    else
        snprintf(text, sizeof(text), "%s", why);
    assert_string_equal(trace.error, text);
    trace_close(&trace);
}

static void bad(struct trace_writer *w, uint64_t offset, const char *why)
{
    bad_file(w->file, trace_writer_bytes(w), offset, why);
    trace_writer_end(w);
}

static void next(uint64_t time, bool free, uint64_t address)
{
    if (!trace_next(&trace, &event))
        fail_msg("no event, but one at %llu: %s", (unsigned long long)time, trace.error);
    assert_int_equal(event.time, time);
    assert_int_equal(event.free, free);
    assert_int_equal(event.address, address);
}

static void no_more(void)
{
    assert_false(trace_next(&trace, &event));
    assert_string_equal(trace.error, "");
}

/* ---- the order ------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct trace_event *x = a, *y = b;

    return x->time != y->time   ? x->time < y->time ? -1 : 1
           : x->free != y->free ? (x->free ? -1 : 1)
                                : (x->thread > y->thread) - (x->thread < y->thread);
}

/* Threads' times meet; no thread has one twice. */
static void as_written(uint32_t chunk_bytes, uint64_t random)
{
    static struct trace_event written[EVENTS];
    uint64_t time[TRACE_WRITER_THREADS] = {0}, frees = 0, begin = UINT64_MAX, end = 0;
    unsigned cpu[TRACE_WRITER_THREADS];
    struct trace_writer w;

    trace_writer_start(&w, chunk_bytes);
    for (unsigned i = 0; i < TRACE_WRITER_THREADS; i++) {
        trace_writer_cache(&w, i, i + 1, 64 + i, 80, 16, "");
        cpu[i] = i;
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        unsigned thread = random_below(&random, TRACE_WRITER_THREADS), cache;
        struct trace_event *e = &written[i];
        *e = (struct trace_event){.thread = thread, .class = TRACE_LARGE};
        e->time = time[thread] += 1 + random_below(&random, i % 50 == 0 ? 1000000 : 3);
        e->address = 1 + (random_next(&random) >> (4 + random_below(&random, 50)));
        e->free = random_below(&random, 2);
        cache = random_below(&random, TRACE_WRITER_THREADS + 1);
        if (random_below(&random, 10) == 0) {
            cpu[thread] = random_below(&random, TRACE_CPUS_MAX);
            trace_writer_cpu(&w, thread, cpu[thread]);
        }
        if (w.thread[thread].chunk &&
            w.thread[thread].chunk->used + 48 > chunk_bytes - sizeof(struct trace_chunk)) {
            trace_writer_chunk(&w, thread, w.thread[thread].time, w.thread[thread].address);
            cpu[thread] = thread; /* as its chunks say */
        }
        e->cpu = cpu[thread];
        if (e->free) {
            trace_writer_free(&w, thread, e->time, e->address);
        } else {
            e->class = (int)cache - 1; /* described in that order */
            e->bytes = cache ? 0 : random_next(&random);
            trace_writer_alloc(&w, thread, e->time, e->address, cache, e->bytes);
        }
        frees += e->free;
        begin = e->time < begin ? e->time : begin;
        end = e->time > end ? e->time : end;
    }
    qsort(written, EVENTS, sizeof(written[0]), by_time);
    good(&w);
    assert_int_equal(trace.threads, TRACE_WRITER_THREADS);
    assert_int_equal(trace.classes, TRACE_WRITER_THREADS);
    assert_int_equal(trace.summary.frees, frees);
    assert_int_equal(trace.summary.allocs, EVENTS - frees);
    assert_int_equal(trace.summary.begin, begin);
    assert_int_equal(trace.summary.end, end);
    for (unsigned round = 0; round < 2; round++) {
        assert_true(trace_rewind(&trace));
        for (unsigned i = 0; i < EVENTS; i++) {
            next(written[i].time, written[i].free, written[i].address);
            assert_int_equal(event.thread, written[i].thread);
            assert_int_equal(event.cpu, written[i].cpu);
            if (event.free)
                continue;
            assert_int_equal(event.class, written[i].class);
            assert_int_equal(event.bytes, written[i].bytes);
            if (event.class >= 0)
                assert_int_equal(trace.class[event.class].number, event.class + 1);
        }
        no_more();
    }
    trace_close(&trace);
    trace_writer_end(&w);
}

TEST(all_that_was_written_in_order)
{
    as_written(sizeof(struct trace_chunk) + 64, 1); /* a record or two a chunk */
    as_written(512, 2);
    as_written(TRACE_CHUNK_BYTES, 3);
}

/* At one time: caches, then frees, then allocations; a thread's own in its order. */
TEST(frees_first)
{
    struct trace_writer w;

    trace_writer_start(&w, 512);
    trace_writer_chunk(&w, 0, 5, 0);
    trace_writer_alloc(&w, 0, 5, 100, 3, 0);
    trace_writer_free(&w, 0, 5, 200);
    trace_writer_chunk(&w, 1, 5, 0);
    trace_writer_free(&w, 1, 5, 300);
    trace_writer_chunk(&w, 2, 5, 0);
    trace_writer_cache(&w, 2, 3, 8, 8, 8, "late");
    good(&w);
    next(5, true, 300);
    next(5, false, 100);
    assert_int_equal(event.class, 0);
    next(5, true, 200);
    no_more();
    trace_close(&trace);
    trace_writer_end(&w);
}

/* A number that is another cache from a time on, whatever chunk says so first. */
TEST(caches_change)
{
    struct trace_writer w;

    trace_writer_start(&w, 1024);
    trace_writer_chunk(&w, 1, 20, 0);
    trace_writer_cache(&w, 1, 9, 64, 64, 8, "second");
    trace_writer_alloc(&w, 1, 21, 300, 9, 0);
    trace_writer_chunk(&w, 0, 10, 0);
    trace_writer_cache(&w, 0, 9, 32, 32, 8, "first");
    trace_writer_alloc(&w, 0, 10, 100, 9, 0);
    trace_writer_alloc(&w, 0, 19, 200, 9, 0);
    trace_writer_alloc(&w, 0, 22, 400, 9, 0);
    trace_writer_cache(&w, 0, 9, 32, 32, 8, "first");
    trace_writer_alloc(&w, 0, 23, 500, 9, 0);
    good(&w);
    assert_int_equal(trace.classes, 2);
    for (unsigned round = 0; round < 2; round++) {
        static const uint32_t sizes[] = {32, 32, 64, 64, 32};
        for (unsigned i = 0; i < 5; i++) {
            assert_true(trace_next(&trace, &event));
            assert_int_equal(trace.class[event.class].size, sizes[i]);
            assert_string_equal(trace.class[event.class].name, sizes[i] == 32 ? "first" : "second");
        }
        no_more();
        assert_true(trace_rewind(&trace));
    }
    trace_close(&trace);
    trace_writer_end(&w);
}

/* What may be missing: chunks that were claimed only, and those behind the file's end. */
TEST(what_may_be_missing)
{
    struct trace_writer w;
    uint64_t bytes;

    trace_writer_start(&w, 512);
    good(&w);
    no_more();
    trace_close(&trace);
    trace_writer_chunk(&w, 0, 5, 0);
    trace_writer_chunk(&w, 0, 5, 0)->thread = 0;
    w.thread[0].chunk = NULL;
    trace_writer_free(&w, 0, 6, 100);
    bytes = trace_writer_bytes(&w);
    w.header->chunks += 3;
    memset(w.header->program, 'x', sizeof(w.header->program));
    assert_true(trace_use(&trace, w.file, bytes));
    assert_int_equal(trace.summary.chunks_missing, 3);
    assert_int_equal(strlen(trace.header.program), sizeof(w.header->program) - 1);
    next(6, true, 100);
    no_more();
    trace_close(&trace);
    trace_writer_end(&w);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static struct trace_writer *one_chunk(struct trace_writer *w)
{
    trace_writer_start(w, 512);
    trace_writer_chunk(w, 0, 5, 100);
    return w;
}

TEST(heads)
{
    struct trace_writer w;

    trace_writer_start(&w, 512);
    bad_file(w.file, sizeof(struct trace_header) - 1, 0, "this is no trace");
    w.header->version = 3;
    bad_file(w.file, 128, 0, "a trace of version 3; this reads versions 1 to 2");
    w.header->version = 0;
    bad_file(w.file, 128, 0, "a trace of version 0; this reads versions 1 to 2");
    w.header->version = TRACE_VERSION;
    w.header->header_bytes = 64;
    bad_file(w.file, 128, 0, "a header of 64 bytes and chunks of 512 cannot be");
    w.header->header_bytes = 128;
    w.header->chunk_bytes = 0;
    bad_file(w.file, 128, 0, "a header of 128 bytes and chunks of 0 cannot be");
    w.header->magic[7] = 'D';
    bad(&w, 0, "this is no trace");
    assert_false(trace_open(&trace, "/nowhere/at all"));
    assert_string_equal(trace.error, "No such file or directory");
    trace_close(&trace);
    assert_false(trace_open(&trace, "/dev/null"));
    assert_string_equal(trace.error, "this is no trace");
    trace_close(&trace);
}

TEST(chunks)
{
    struct trace_writer w;

    trace_writer_free(one_chunk(&w), 0, 5, 100);
    bad_file(w.file, 128 + 31, 128, "the file ends within a chunk's head");
    bad_file(w.file, 128 + 32 + 2, 128, "the file ends within a chunk");
    w.thread[0].chunk->used = 512 - 31;
    bad_file(w.file, 128 + 512, 128, "a chunk's records go beyond it");
    w.thread[0].chunk->used = 3;
    w.thread[0].chunk->thread = 0;
    bad(&w, 128, "a chunk of no thread");
    one_chunk(&w)->thread[0].chunk->cpu = TRACE_CPUS_MAX;
    trace_writer_free(&w, 0, 5, 100);
    bad(&w, 128, "a CPU's number is too large");
    trace_writer_free(one_chunk(&w), 0, 5, 100);
    trace_writer_chunk(&w, 0, 4, 100);
    trace_writer_free(&w, 0, 4, 100);
    bad(&w, 128 + 512, "a chunk begins before the thread's last one ends");
}

TEST(records)
{
    enum { FIRST = 128 + 32 };
    struct trace_writer w;

    trace_writer_byte(one_chunk(&w), 0, 6);
    bad(&w, FIRST, "a record of a kind that is not known");
    trace_writer_byte(one_chunk(&w), 0, TRACE_FREE);
    trace_writer_byte(&w, 0, 0x80);
    bad(&w, FIRST + 1, "a number goes beyond its chunk");
    trace_writer_byte(one_chunk(&w), 0, TRACE_FREE);
    for (unsigned i = 0; i < 12; i++)
        trace_writer_byte(&w, 0, 0x81);
    bad(&w, FIRST + 1, "a number has more than 64 bits");
    trace_writer_byte(one_chunk(&w), 0, TRACE_FREE);
    trace_writer_number(&w, 0, UINT64_MAX);
    trace_writer_number(&w, 0, 0);
    bad(&w, FIRST + 1, "a time is beyond 64 bits");
    trace_writer_free(one_chunk(&w), 0, 5, 0);
    bad(&w, FIRST + 2, "an address that is none");
    trace_writer_free(one_chunk(&w), 0, 5, (uint64_t)1 << 61);
    bad(&w, FIRST + 2, "an address that is none");
    trace_writer_cpu(one_chunk(&w), 0, TRACE_CPUS_MAX);
    bad(&w, FIRST + 1, "a CPU's number is too large");
    trace_writer_alloc(one_chunk(&w), 0, 5, 100, TRACE_CACHES_MAX, 0);
    bad(&w, FIRST + 1, "a cache's number is none");
    trace_writer_alloc(one_chunk(&w), 0, 5, 100, 77, 0);
    bad(&w, 0, "nothing describes cache 77, which has objects");
}

/* What malloc was asked for. */
TEST(asked)
{
    enum { ASKED = 128 + 32 + 1 };
    struct trace_writer w;

    one_chunk(&w);
    trace_writer_cache(&w, 0, 1, 112, 112, 16, "malloc-112");
    trace_writer_asked(&w, 0, 6, 100, 1, 99, 0);
    trace_writer_asked(&w, 0, 7, 200, 1, 30000, 4096);
    trace_writer_alloc(&w, 0, 8, 300, 1, 0);
    good(&w);
    assert_int_equal(trace.summary.allocs, 3);
    assert_int_equal(trace.summary.large, 0);
    for (unsigned i = 0; i < 3; i++) {
        static const struct {
            uint64_t bytes;
            unsigned align;
        } told[] = {{99, 0}, {30000, 4096}, {0, 0}};
        assert_true(trace_next(&trace, &event));
        assert_true(!event.free && event.class == 0 && event.address == 100 * (i + 1));
        assert_int_equal(event.bytes, told[i].bytes);
        assert_int_equal(event.align, told[i].align);
    }
    no_more();
    trace_close(&trace);
    trace_writer_end(&w);
    trace_writer_asked(one_chunk(&w), 0, 5, 100, 0, 99, 0);
    bad(&w, ASKED, "a large object that tells what was asked for");
    trace_writer_asked(one_chunk(&w), 0, 5, 100, 1, 0, 0);
    bad(&w, ASKED, "no object has this size and alignment");
    trace_writer_asked(one_chunk(&w), 0, 5, 100, 1, 1 << 23, 0);
    bad(&w, ASKED, "no object has this size and alignment");
    trace_writer_asked(one_chunk(&w), 0, 5, 100, 1, 99, 1 << 13);
    bad(&w, ASKED, "no object has this size and alignment");
    trace_writer_asked(one_chunk(&w), 0, 5, 100, TRACE_CACHES_MAX, 99, 0);
    bad(&w, ASKED, "a cache's number is none");
    trace_writer_asked(one_chunk(&w), 0, 5, 100, 77, 99, 0);
    bad(&w, 0, "nothing describes cache 77, which has objects");
}

TEST(caches)
{
    enum { FIRST = 128 + 32 + 1 };
    static const struct {
        uint64_t number, size, stride, align;
        const char *why;
    } wrong[] = {
        {0, 8, 8, 8, "a cache's number is none"},
        {TRACE_CACHES_MAX, 8, 8, 8, "a cache's number is none"},
        {1, 0, 8, 8, "a cache's object has no size"},
        {1, 16, 8, 8, "a cache's object has no size"},
        {1, UINT64_MAX, UINT64_MAX, 8, "a cache's object has no size"},
        {1, 8, 8, 0, "a cache's alignment is no power of two"},
        {1, 8, 8, 24, "a cache's alignment is no power of two"},
    };
    struct trace_writer w;

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        trace_writer_cache(one_chunk(&w), 0, (unsigned)wrong[i].number, wrong[i].size,
                           wrong[i].stride, wrong[i].align, "name");
        bad(&w, FIRST, wrong[i].why);
    }
    trace_writer_cache(one_chunk(&w), 0, 1, 8, 8, 8, "name");
    w.thread[0].chunk->used--;
    bad(&w, FIRST, "a cache's name goes beyond its record");
}

/* ---- any bytes ------------------------------------------------------------------------------- */

/* Right before memory without access, as the mapping of a file is. */
static unsigned char *guarded(uint64_t bytes)
{
    size_t pages = (bytes + 4095) & ~(size_t)4095;
    char *map =
        mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + pages, 4096, PROT_NONE), 0);
    return (unsigned char *)map + pages - bytes;
}

static void some_trace(struct trace_writer *w)
{
    uint64_t random = 11;

    trace_writer_start(w, 256);
    trace_writer_cache(w, 0, 1, 64, 64, 16, "malloc-64");
    trace_writer_cache(w, 0, 2, 200, 208, 16, "malloc-208");
    for (unsigned i = 1; i < 100; i++) {
        unsigned thread = random_below(&random, 3);
        if (i % 7 == 0)
            trace_writer_cpu(w, thread, random_below(&random, 4));
        trace_writer_alloc(w, thread, 10 * i, 1000 + 2 * i, i % 3, 1 << 20);
        if (i % 2 == 0)
            trace_writer_free(w, random_below(&random, 3) ? thread : 0, 10 * i + 5, 1000 + i);
    }
}

TEST(any_bytes)
{
    uint64_t random = 5, read = 0, refused = 0;
    struct trace_writer w;
    unsigned char *file;
    uint64_t bytes;

    some_trace(&w);
    bytes = trace_writer_bytes(&w);
    file = guarded(bytes);
    for (uint64_t round = scaled(4000); round > 0; round--) {
        uint64_t cut = random_below(&random, 8) ? bytes : random_below(&random, (uint32_t)bytes);
        uint64_t events = 0;
        bool fine;
        memcpy(file + bytes - cut, w.file, cut);
        for (unsigned flips = random_below(&random, 6); flips > 0; flips--) {
            /* The header and the first chunk have more to go wrong than the rest. */
            uint32_t at = random_below(&random, random_below(&random, 2) ? (uint32_t)cut + 1 : 400);
            if (at < cut)
                file[bytes - cut + at] = (unsigned char)random_next(&random);
        }
        fine = trace_use(&trace, file + bytes - cut, cut);
        assert_true(fine == !*trace.error);
        while (trace_next(&trace, &event))
            assert_true(++events <= cut && event.class < (int)trace.classes);
        if (fine) {
            assert_string_equal(trace.error, "");
            assert_int_equal(events, trace.summary.allocs + trace.summary.frees);
            /* It changes while it is read: other events, or an error. */
            assert_true(trace_rewind(&trace));
            for (unsigned flips = 8; flips > 0 && cut > 0; flips--)
                file[bytes - cut + random_below(&random, (uint32_t)cut)] ^= 1 << flips % 8;
            while (trace_next(&trace, &event))
                ;
        }
        read += fine;
        refused += !fine;
        trace_close(&trace);
    }
    assert_true(read > 0 && refused > 0);
    trace_writer_end(&w);
}

/* ---- live objects ---------------------------------------------------------------------------- */

TEST(live_objects)
{
    enum { ADDRESSES = 5000 };
    static bool out[ADDRESSES];
    uint64_t random = 9, live_now = 0, found;
    struct trace_live live;
    struct trace_object object;

    trace_live_start(&live);
    for (uint64_t i = scaled(200000); i > 0; i--) {
        unsigned n = random_below(&random, i % 3 ? ADDRESSES : ADDRESSES / 10);
        uint64_t address = 1 + (uint64_t)n * (n % 2 ? 2 : 1024);
        assert_true(trace_live_take(&live, address, &object) == out[n]);
        if (out[n]) {
            assert_int_equal(object.address, address);
            assert_int_equal(object.bytes, n);
            live_now--;
        } else {
            object = (struct trace_object){.address = address, .bytes = n};
            trace_live_put(&live, &object);
            live_now++;
        }
        out[n] = !out[n];
        assert_int_equal(live.used, live_now);
    }
    found = 0;
    for (uint64_t i = 0; i <= live.mask; i++)
        found += live.slot[i].address != 0;
    assert_int_equal(found, live_now);
    trace_live_end(&live);
}
