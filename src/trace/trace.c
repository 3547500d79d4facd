/* SPDX-License-Identifier: MIT */
/*
 * trace.c - the threads that record: each has a writer with a chunk of the file, and writes its events there without a
 * lock. trace.gate->lock is for claiming chunks and writers. trace_record.c encodes an event, trace_file.c has the
 * file.
 */
#include "trace/trace.h"

#include "trace/trace_file.h"
#include "trace/trace_record.h"
#include "base/context.h"
#include "base/lock.h"
#include "base/placed.h"
#include "base/raw.h"
#include "os/os.h"
#include "os/topology.h"
#include "percpu/percpu.h"
#include "page/pagemap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum {
    TRACE_WRITERS = 1 << 16, /* threads at one time: what others do is lost */
    TRACE_PROBES = 64,       /* writers that a new thread looks at for one whose thread has ended */
    TRACE_PAUSE = 1000,      /* events lost from one vain try to lengthen the file to the next */
    TRACE_CLOCK_TRIES = 1000,
    TRACE_CHUNK_ROOM = TRACE_CHUNK_BYTES - (int)sizeof(struct trace_chunk),
};

/* In a page that a forked child has as zeros, however it was made: it records nothing. */
struct trace_gate {
    _Atomic uint32_t on; /* the number of the trace; 0: none */
    struct lock lock;    /* of what claims chunks and writers; unranked: its holder takes no lock */
};

static struct {
    struct trace_gate *gate; /* as the writers: made once */
    struct trace_writer *writers;
    struct trace_header *header;
    uint64_t start, chunks_max;
    pid_t pid;
    uint32_t count; /* traces there were */
    /* Under the gate's lock: writers that were ever used, threads numbered, where to look next. */
    uint32_t used, threads, next;
    _Atomic int32_t pause;
    _Atomic uint64_t missed; /* events lost that the header does not count yet */
} trace;

atomic_bool trace_active;

/* This thread's; `busy`: it is in the middle of a record. */
static __thread struct trace_self {
    struct trace_writer *writer;
    bool busy;
    size_t asked, alignment; /* trace_asked() */
} trace_self __attribute__((tls_model("initial-exec")));

/* ---- the gate ------------------------------------------------------------------------------- */

static FIRST_TEXT uint32_t trace_on(void)
{
    struct trace_gate *gate = __atomic_load_n(&trace.gate, __ATOMIC_ACQUIRE);

    /* Sequentially consistent with `busy`: trace_end() sees that, or we see that it is over. */
    return gate ? atomic_load(&gate->on) : 0;
}

/* As lock_take(), but no atfork handler holds this one. */
LOCK_UNCHECKED LOCK_TAKES(trace.gate->lock) static void trace_lock(void)
{
    struct lock *lock = &trace.gate->lock;

    if (!lock_word_try(lock))
        (void)lock_wait(lock, true);
}

LOCK_DROPS(trace.gate->lock) static void trace_unlock(void)
{
    lock_word_drop(&trace.gate->lock);
}

/* ---- losses --------------------------------------------------------------------------------- */

static void trace_lose(size_t n)
{
    atomic_fetch_add_explicit(&trace.missed, n, memory_order_relaxed);
}

/* The caller is busy or has the lock, so the header exists. */
static void trace_tell(uint32_t on)
{
    if (__builtin_expect(atomic_load_explicit(&trace.missed, memory_order_relaxed) != 0, 0) &&
        trace_on() == on)
        __atomic_fetch_add(&trace.header->lost,
                           atomic_exchange_explicit(&trace.missed, 0, memory_order_relaxed),
                           __ATOMIC_RELAXED);
}

static size_t trace_count(void *const *objects, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += objects[i] != NULL;
    return count;
}

/* ---- writers and chunks --------------------------------------------------------------------- */

static bool trace_ended(pid_t thread)
{
    int saved = errno;
    bool ended = raw_call(SYS_tgkill, trace.pid, thread, 0) != 0 && errno == ESRCH;

    errno = saved;
    return ended;
}

/* A writer of no thread, or of one that has ended.  Under the lock. */
static struct trace_writer *trace_find(pid_t thread)
{
    for (uint32_t i = 0; i < TRACE_PROBES && i < trace.used; i++) {
        struct trace_writer *writer = &trace.writers[trace.next];
        trace.next = trace.next + 1 < trace.used ? trace.next + 1 : 0;
        if (writer->thread == thread || trace_ended(writer->thread)) {
            (void)atomic_load(&writer->busy); /* pairs with its last release */
            return writer;
        }
    }
    return trace.used < TRACE_WRITERS ? &trace.writers[trace.used++] : NULL;
}

/* This thread's first event: it gets a writer, and is busy.  NULL: the n events are lost, or the trace
 * is over. */
static __attribute__((noinline, cold)) struct trace_writer *trace_bind(size_t n)
{
    struct trace_writer *writer = NULL;
    pid_t thread = raw_gettid();
    uint32_t on;

    trace_lock();
    on = trace_on();
    if (on != 0) {
        /* Not for a vfork() child: it has this thread's memory, and another number. */
        if (raw_getpid() == trace.pid)
            writer = trace_find(thread);
        if (writer) {
            writer->thread = thread;
            atomic_store(&writer->busy, 1);
        } else {
            trace_lose(n);
            trace_tell(on);
        }
    }
    trace_unlock();
    trace_self.writer = writer;
    return writer;
}

/* The next chunk for a writer; false: the file is full, or cannot be lengthened. */
static __attribute__((noinline, cold)) bool trace_claim(struct trace_writer *writer, uint32_t on,
                                                        uint64_t time, uint64_t address,
                                                        uint32_t cpu)
{
    struct trace_chunk *chunk = NULL, *full = writer->chunk;
    uint64_t index;

    if (__atomic_load_n(&trace.header->chunks, __ATOMIC_RELAXED) >= trace.chunks_max)
        return false;
    if (atomic_load_explicit(&trace.pause, memory_order_relaxed) > 0) {
        atomic_fetch_sub_explicit(&trace.pause, 1, memory_order_relaxed);
        return false;
    }
    trace_lock();
    index = trace.header->chunks;
    if (index < trace.chunks_max && trace_on() == on) {
        chunk = trace_file_claim(index);
        if (!chunk)
            atomic_store_explicit(&trace.pause, TRACE_PAUSE, memory_order_relaxed);
    }
    if (chunk) {
        if (writer->on != on)
            writer->number = ++trace.threads;
        *chunk = (struct trace_chunk){
            .thread = writer->number, .time = time, .address = address, .cpu = cpu};
        __atomic_store_n(&trace.header->chunks, index + 1, __ATOMIC_RELEASE);
    }
    trace_unlock();
    if (!chunk)
        return false;
    writer->on = on;
    writer->chunk = chunk;
    writer->used = 0;
    writer->cpu = cpu;
    writer->time = time;
    writer->address = address;
    if (full)
        trace_file_unmap(full);
    return trace_on() == on; /* not in the child of a handler that came meanwhile */
}

/* ---- records -------------------------------------------------------------------------------- */

static uint64_t trace_clock(void)
{
    return raw_clock() - trace.start;
}

/* Later than the writer's last record, where the clock is coarse as well: then what happens to an
 * object has an order by time alone. */
static uint64_t trace_later(const struct trace_writer *writer)
{
    uint64_t time = trace_clock();

    for (int i = 0; i < TRACE_CLOCK_TRIES && time <= writer->time; i++)
        time = trace_clock();
    return time > writer->time ? time : writer->time + 1;
}

/* This thread's CPU, as far as the library knows it; the kernel's of a thread without rseq. */
static uint32_t trace_cpu(void)
{
    int cpu = percpu_cpu();
    uint32_t cpus;

    if (__builtin_expect(cpu < 0, 0) && (cpu = percpu_cpu_asked()) < 0)
        cpu = 0;
    cpus = __atomic_load_n(&trace.header->cpus, __ATOMIC_RELAXED);
    while (__builtin_expect((uint32_t)cpu >= cpus, 0) &&
           !__atomic_compare_exchange_n(&trace.header->cpus, &cpus, (uint32_t)cpu + 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return (uint32_t)cpu;
}

/* Objects of a few bytes that are not aligned may lie in the same eighth. */
static uint64_t trace_place(const void *object)
{
    uintptr_t address = (uintptr_t)object;

    return (address >> 3) + (address & 7) * TRACE_REST;
}

/* By a writer that is busy.  `time`: of the event, or 0 for now. */
static void trace_write(struct trace_writer *writer, uint32_t on, struct trace_event *event,
                        void *const *objects, size_t n)
{
    uint64_t given = event->time;

    if (__builtin_expect(writer->on != on, 0))
        writer->time = 0;
    /* Before the clock: where this is known already, it is by records that are earlier. */
    event->announce =
        event->cache && __atomic_load_n(&event->cache->traced, __ATOMIC_ACQUIRE) != on;
    event->cpu = trace_cpu();
    event->time = given ? given : trace_later(writer);
    if (__builtin_expect(event->time < writer->time, 0)) { /* a handler has written meanwhile */
        trace_lose(trace_count(objects, n));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t address = trace_place(objects[i]);
        if (address == 0)
            continue;
        if (__builtin_expect(writer->on != on || writer->used + TRACE_EVENT_MAX > TRACE_CHUNK_ROOM,
                             0) &&
            !trace_claim(writer, on, event->time, address, event->cpu))
            trace_lose(trace_on() == on); /* not where the trace is just ended */
        else
            trace_record_put(writer, event, address);
    }
}

static void trace_record(struct trace_event event, void *const *objects, size_t n)
{
    struct trace_self *self = &trace_self;
    int saved = errno;
    struct trace_writer *writer;
    uint32_t on;

    if (trace_on() == 0)
        return;
    if (__builtin_expect(self->busy,
                         0)) { /* a handler: below it the record is ended, and this told */
        trace_lose(trace_count(objects, n));
        return;
    }
    self->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    writer = self->writer;
    if (__builtin_expect(writer != NULL, 1))
        atomic_store(&writer->busy, 1);
    else
        writer = trace_bind(trace_count(objects, n));
    if (writer) {
        on = trace_on();
        if (__builtin_expect(on != 0, 1)) {
            trace_write(writer, on, &event, objects, n);
            trace_tell(on);
        }
        atomic_store_explicit(&writer->busy, 0, memory_order_release);
    }
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = false;
    errno = saved;
}

void trace_alloc(const struct stook_cache *cache, void *const *objects, size_t n)
{
    struct trace_self *self = &trace_self;
    struct trace_event event = {
        .kind = TRACE_ALLOC, .cache = cache, .asked = self->asked, .alignment = self->alignment};

    self->asked = 0;
    trace_record(event, objects, n);
}

void trace_asked(size_t size, size_t align)
{
    trace_self.alignment = align;
    trace_self.asked = size;
}

void trace_alloc_large(void *object, size_t bytes)
{
    trace_record((struct trace_event){.kind = TRACE_ALLOC, .bytes = bytes}, &object, 1);
}

void trace_free(void *const *objects, size_t n)
{
    trace_record((struct trace_event){.kind = TRACE_FREE}, objects, n);
}

uint64_t trace_time(void)
{
    int saved = errno;
    uint64_t time = trace_clock();

    errno = saved;
    return time;
}

void trace_free_at(void *object, uint64_t time)
{
    trace_record((struct trace_event){.kind = TRACE_FREE, .time = time}, &object, 1);
}

/* ---- begin and end -------------------------------------------------------------------------- */

/* The page and the writers, for good. */
static bool trace_make(void)
{
    struct trace_writer *writers = os_map(TRACE_WRITERS * sizeof(*writers));
    struct trace_gate *gate = os_map(PAGE_SIZE);

    if (!writers || !gate) {
        if (writers)
            os_unmap(writers, TRACE_WRITERS * sizeof(*writers));
        if (gate)
            os_unmap(gate, PAGE_SIZE);
        return false;
    }
    /* A forked child finds it as zeros, however it was made (Linux 4.14). */
    (void)raw_result(SYS_madvise, gate, PAGE_SIZE, MADV_WIPEONFORK);
    trace.writers = writers;
    __atomic_store_n(&trace.gate, gate, __ATOMIC_RELEASE);
    return true;
}

static void trace_describe(struct trace_header *header)
{
    memcpy(header->magic, TRACE_MAGIC, sizeof(header->magic));
    header->version = TRACE_VERSION;
    header->header_bytes = TRACE_HEADER_BYTES;
    header->chunk_bytes = TRACE_CHUNK_BYTES;
    topology_learn();
    header->cpus = topology.cpus;
    header->start = trace.start;
    header->pid = (uint32_t)trace.pid;
    if (os_read_file("/proc/self/comm", header->program, sizeof(header->program)) < 0)
        header->program[0] = '\0';
    header->program[strcspn(header->program, "\n")] = '\0';
}

int trace_begin(const char *path, uint64_t limit)
{
    int saved = errno, error;

    if (trace_is_active())
        return EBUSY;
    if (limit < TRACE_HEADER_BYTES + TRACE_CHUNK_BYTES)
        return EINVAL;
    if (!trace.gate && !trace_make())
        return ENOMEM;
    error = trace_file_open(path, &trace.header);
    errno = saved;
    if (error != 0)
        return error;
    trace.chunks_max = (limit - TRACE_HEADER_BYTES) / TRACE_CHUNK_BYTES;
    trace.pid = raw_getpid();
    trace.start = 0;
    trace.start = trace_clock();
    trace.threads = 0;
    atomic_store(&trace.pause, 0);
    atomic_store(&trace.missed, 0);
    trace_describe(trace.header);
    if (++trace.count == 0)
        trace.count = 1;
    atomic_store(&trace_active, true);
    atomic_store(&trace.gate->on, trace.count);
    return 0;
}

/* Until a writer's thread has ended its record, or ended in the middle of it. */
static void trace_wait(struct trace_writer *writer)
{
    static _Atomic uint32_t unwoken;

    while (atomic_load(&writer->busy) != 0 && !trace_ended(writer->thread))
        raw_wait(&unwoken, 0, 100000);
    atomic_store(&writer->busy, 0);
}

bool trace_end(void)
{
    int saved = errno;

    if (!trace_is_active())
        return false;
    trace_lock();
    trace_tell(trace_on());
    atomic_store(&trace.gate->on, 0);
    trace_unlock();
    for (uint32_t i = 0; i < trace.used; i++) {
        struct trace_writer *writer = &trace.writers[i];
        trace_wait(writer);
        if (writer->chunk)
            trace_file_unmap(writer->chunk);
        writer->chunk = NULL;
        writer->on = 0;
        writer->used = 0;
    }
    trace.header->lost += atomic_exchange(&trace.missed, 0);
    trace.header->ended = 1;
    trace_file_close(trace.header);
    atomic_store(&trace_active, false);
    errno = saved;
    return true;
}

/* A handler forked that had interrupted a record, which is ended here too: to no effect. */
static void trace_detach(struct trace_writer *writer)
{
    (void)os_renew(trace.header, TRACE_HEADER_BYTES);
    if (writer && writer->chunk)
        (void)os_renew(writer->chunk, TRACE_CHUNK_BYTES);
}

SECOND_TEXT bool trace_child(void)
{
    int saved = errno;
    bool was = trace_is_active();

    if (!was)
        return false;
    /* The page is zeros but where the kernel is older than that. */
    atomic_store(&trace.gate->on, 0);
    lock_init(&trace.gate->lock);
    atomic_store(&trace_active, false);
    if (trace_self.busy) {
        trace_file_leave(NULL);
        trace_detach(trace_self.writer);
    } else {
        trace_file_leave(trace.header);
        for (uint32_t i = 0; i < trace.used; i++) {
            if (trace.writers[i].chunk)
                trace_file_unmap(trace.writers[i].chunk);
            trace.writers[i] = (struct trace_writer){0};
        }
        trace.used = trace.next = 0;
        trace_self.writer = NULL;
    }
    errno = saved;
    return true;
}

/* The program came to its end; what it still does is recorded all the same. */
static FIRST_TEXT __attribute__((destructor(101), used)) void trace_finish(void)
{
    if (trace_on() != 0)
        trace.header->ended = 1;
}
