/* SPDX-License-Identifier: MIT */
/*
 * A packet path on three threads: receive, switch, transmit, with rings between them.
 *
 *   receive   takes a burst of buffers with one bulk call, as the device's ring has room, and fills
 *             them with packets; what the device did not fill goes straight back
 *   switch    looks each packet's flow up, drops what is too short, sends the rest on
 *   transmit  puts packets into the slots of the device's ring; the device completes them in
 *             bursts and out of order, and a burst of completed slots goes back with one bulk
 *             call, gaps included: a slot that is still in flight, or was empty, is NULL
 *
 * Buffers are taken on one CPU and come back on another all the time.
 */
#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    BURST = 32,
    ROOM = 2048 - 64, /* of a buffer, behind its header */
    RING = 1024,      /* entries; a power of two */
    SLOTS = 256,      /* of the device's transmit ring */
    FLOWS = 4096,
    SHORTEST = 64,
    PACKETS = 400000,
};

/* What rides in front of a packet's bytes: one cache line. */
struct buffer {
    uint32_t length, flow;
    uint64_t hash, stamp;
    unsigned char reserved[40];
    unsigned char data[ROOM];
};
_Static_assert(sizeof(struct buffer) == 2048, "two buffers a page");

struct flow {
    uint64_t packets, bytes;
};

/* ---- a ring with one writer and one reader --------------------------------------------------- */

struct ring {
    _Alignas(64) _Atomic uint32_t head; /* the writer's */
    _Alignas(64) _Atomic uint32_t tail; /* the reader's */
    atomic_int closed;                  /* nothing comes any more */
    void *entry[RING];
};

static unsigned ring_put(struct ring *ring, void *const *objects, unsigned n)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t room = RING - (head - atomic_load_explicit(&ring->tail, memory_order_acquire));

    if (n > room)
        n = room;
    for (unsigned i = 0; i < n; i++)
        ring->entry[(head + i) % RING] = objects[i];
    atomic_store_explicit(&ring->head, head + n, memory_order_release);
    return n;
}

static unsigned ring_get(struct ring *ring, void **objects, unsigned n)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t full = atomic_load_explicit(&ring->head, memory_order_acquire) - tail;

    if (n > full)
        n = full;
    for (unsigned i = 0; i < n; i++)
        objects[i] = ring->entry[(tail + i) % RING];
    atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
    return n;
}

/* All of them, waiting for the reader where it must. */
static void ring_put_all(struct ring *ring, void *const *objects, unsigned n)
{
    for (unsigned put = 0; put < n;) {
        unsigned more = ring_put(ring, objects + put, n - put);
        put += more;
        if (more == 0)
            sched_yield();
    }
}

/* At least one, waiting for the writer; 0 when nothing will come. */
static unsigned ring_wait(struct ring *ring, void **objects, unsigned n)
{
    for (;;) {
        int closed = atomic_load(&ring->closed);
        unsigned got = ring_get(ring, objects, n);
        if (got > 0 || closed)
            return got;
        sched_yield();
    }
}

/* ---- the path -------------------------------------------------------------------------------- */

static struct stook_cache *buffers, *flows;
static struct ring to_switch, to_transmit;
static struct flow *flow_table[FLOWS];
static uint64_t received, unfilled, no_buffers, dropped, sent, gaps;

static uint32_t next(uint32_t *state) /* stands for the wire */
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *receive(void *unused)
{
    void *burst[BURST];
    uint32_t wire = 1;

    (void)unused;
    while (received < PACKETS) {
        unsigned filled = 1 + next(&wire) % BURST;
        if (stook_alloc_bulk(buffers, STOOK_NORECLAIM, BURST, burst) != 0) {
            no_buffers++; /* all or nothing: the packets stay in the device */
            sched_yield();
            continue;
        }
        for (unsigned i = 0; i < filled; i++) {
            struct buffer *b = burst[i];
            b->length = 40 + next(&wire) % (ROOM - 40);
            b->flow = next(&wire) % FLOWS;
            b->stamp = received++;
            memset(b->data, (int)b->flow, SHORTEST);
        }
        stook_free_bulk(buffers, BURST - filled, burst + filled);
        unfilled += BURST - filled;
        ring_put_all(&to_switch, burst, filled);
    }
    atomic_store(&to_switch.closed, 1);
    return NULL;
}

static void *forward(void *unused)
{
    void *burst[BURST], *dead[BURST];
    unsigned n;

    (void)unused;
    while ((n = ring_wait(&to_switch, burst, BURST)) > 0) {
        unsigned kept = 0, bad = 0;
        for (unsigned i = 0; i < n; i++) {
            struct buffer *b = burst[i];
            struct flow *flow = flow_table[b->flow];
            if (b->length < SHORTEST) {
                dead[bad++] = b;
                continue;
            }
            if (!flow) { /* the first packet of its flow */
                flow = flow_table[b->flow] = stook_alloc(flows, STOOK_ZERO | STOOK_NORECLAIM);
                if (!flow) {
                    dead[bad++] = b;
                    continue;
                }
            }
            flow->packets++;
            flow->bytes += b->length;
            b->hash = b->flow * 0x9e3779b97f4a7c15u;
            burst[kept++] = b;
        }
        stook_free_bulk(buffers, bad, dead);
        dropped += bad;
        ring_put_all(&to_transmit, burst, kept);
    }
    atomic_store(&to_transmit.closed, 1);
    return NULL;
}

/* The device has sent these of its slots; others of the burst are still in flight. */
static void complete(void **slot, unsigned n, unsigned in_flight)
{
    void *done[BURST];

    for (unsigned i = 0; i < n; i++) {
        int waits = in_flight && i % in_flight == in_flight - 1;
        done[i] = waits ? NULL : slot[i];
        if (!waits)
            slot[i] = NULL;
        gaps += !done[i];
        sent += done[i] != NULL;
    }
    stook_free_bulk(buffers, n, done); /* NULL entries are skipped */
}

static void *transmit(void *unused)
{
    static void *slots[SLOTS];
    unsigned at = 0;
    void *burst[BURST];
    uint32_t wire = 2;
    unsigned n;

    (void)unused;
    while ((n = ring_wait(&to_transmit, burst, BURST)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            if (at % BURST == 0) { /* what was left here in the last round is sent by now */
                complete(slots + at, BURST, 0);
                if (at >= BURST) /* and most of what came just before */
                    complete(slots + at - BURST, BURST, 2 + next(&wire) % 7);
            }
            slots[at] = burst[i];
            at = (at + 1) % SLOTS;
        }
    }
    for (at = 0; at < SLOTS; at += BURST)
        complete(slots + at, BURST, 0);
    return NULL;
}

int main(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_HWALIGN};
    pthread_t thread[3];
    uint64_t counted = 0;
    const char *why;

    buffers = stook_cache_create("packet-buffer", sizeof(struct buffer), &args);
    flows = stook_cache_create("flow", sizeof(struct flow), NULL);
    if (!buffers || !flows || pthread_create(&thread[0], NULL, receive, NULL) ||
        pthread_create(&thread[1], NULL, forward, NULL) ||
        pthread_create(&thread[2], NULL, transmit, NULL))
        return 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);

    stook_report(1, STOOK_REPORT_TABLE);
    for (int i = 0; i < FLOWS; i++) {
        counted += flow_table[i] ? flow_table[i]->packets : 0;
        stook_free(flows, flow_table[i]);
    }
    printf("mode %s: %llu received, %llu buffers unfilled, %llu dropped, %llu sent, "
           "%llu gaps in completions, %llu bursts without buffers\n",
           stook_mode(&why), (unsigned long long)received, (unsigned long long)unfilled,
           (unsigned long long)dropped, (unsigned long long)sent, (unsigned long long)gaps,
           (unsigned long long)no_buffers);
    /* Every packet is accounted for, and every buffer is back. */
    return sent != counted || sent + dropped != received || stook_cache_destroy(buffers) ||
           stook_cache_destroy(flows);
}
