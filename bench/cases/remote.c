/* SPDX-License-Identifier: MIT */
/*
 * remote-ordered, remote-random: some threads only allocate, objects of 64 to 512 bytes, uniform,
 * and pass them to one thread that never allocates and frees them. That thread holds live bytes
 * (requested and not yet freed) at `mib`: each object that comes takes the place of the oldest one,
 * or of a random one. A round replaces a ROUND_PART of the live bytes. At the end the memory
 * resident is compared with what is live, all threads still there.
 *
 * The freeing thread takes chunks of objects from the others in turn, so the sequence of objects is
 * the same for every allocator and every schedule, and no thread allocates more than the others.
 */
#include <pthread.h>

#include "../worker/adapter.h"
#include "../worker/resident.h"

#if ADAPTER_ANY_SIZE

#include "../worker/mixed.h"

#define SIZE_LOW 64
#define SIZE_HIGH 512
#define CHUNK_OBJECTS 128
#define CHUNKS_A_THREAD 4 /* a power of two */
#define ROUND_PART 16
#define THREADS_MAX 64

/*
 * An object and its size in one word, so that the freeing thread's own table costs one cache miss:
 * user addresses fit 48 bits on Linux unless a program asks for more.
 */
typedef uint64_t packed;
#define PACKED_SHIFT 48
#define PACKED_OBJECT(word) ((void *)(uintptr_t)((word) & (((uint64_t)1 << PACKED_SHIFT) - 1)))
#define PACKED_SIZE(word) ((size_t)((word) >> PACKED_SHIFT))

/* Chunks of one producer, used in turn: made and taken only grow. */
struct remote_thread {
    pthread_t thread;
    struct random random;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned made;
    unsigned taken;
    int stop; /* make no more, and stay */
    int idle; /* makes no more */
    int leave;
    packed chunk[CHUNKS_A_THREAD][CHUNK_OBJECTS];
};

static void remote_fill(struct random *random, packed *chunk)
{
    for (size_t i = 0; i < CHUNK_OBJECTS; i++) {
        size_t size;
        void *object = mixed_object(random, SIZE_LOW, SIZE_HIGH, &size);
        if ((uintptr_t)object >> PACKED_SHIFT)
            case_die("an object's address is beyond 48 bits");
        chunk[i] = (uint64_t)(uintptr_t)object | (uint64_t)size << PACKED_SHIFT;
    }
}

static void *remote_producer(void *context)
{
    struct remote_thread *self = context;

    pthread_mutex_lock(&self->lock);
    while (!self->stop) {
        if (self->made - self->taken == CHUNKS_A_THREAD) {
            pthread_cond_wait(&self->changed, &self->lock);
            continue;
        }
        pthread_mutex_unlock(&self->lock);
        remote_fill(&self->random, self->chunk[self->made % CHUNKS_A_THREAD]);
        pthread_mutex_lock(&self->lock);
        self->made++;
        pthread_cond_broadcast(&self->changed);
    }
    self->idle = 1;
    pthread_cond_broadcast(&self->changed);
    while (!self->leave)
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* The oldest full chunk; NULL when there is none and the producer makes no more. */
static const packed *remote_peek(struct remote_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    while (thread->made == thread->taken && !thread->idle)
        pthread_cond_wait(&thread->changed, &thread->lock);
    const packed *chunk =
        thread->made == thread->taken ? NULL : thread->chunk[thread->taken % CHUNKS_A_THREAD];
    pthread_mutex_unlock(&thread->lock);
    return chunk;
}

static void remote_taken(struct remote_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->taken++;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
}

static void remote_tell(struct remote_thread *thread, int *what)
{
    pthread_mutex_lock(&thread->lock);
    *what = 1;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
}

/* What the freeing thread holds. */
struct holding {
    packed *object;
    size_t most;
    size_t first; /* in order: the oldest, objects wrap around */
    size_t count;
    uint64_t live;
    uint64_t freed; /* bytes, since the start */
    uint64_t target;
    int random_order;
    struct random random;
};

static void holding_free_one(struct holding *held)
{
    packed victim;
    if (held->random_order) {
        size_t at = random_below(&held->random, (uint32_t)held->count);
        victim = held->object[at];
        held->object[at] = held->object[--held->count];
    } else {
        victim = held->object[held->first];
        held->first = held->first + 1 == held->most ? 0 : held->first + 1;
        held->count--;
    }
    held->live -= PACKED_SIZE(victim);
    held->freed += PACKED_SIZE(victim);
    adapter_free_any(PACKED_OBJECT(victim));
}

static void holding_add(struct holding *held, packed object)
{
    while (held->count && held->live + PACKED_SIZE(object) > held->target)
        holding_free_one(held);
    if (held->count == held->most)
        case_die("more objects are live than there is room for");
    size_t at = held->random_order ? held->count : held->first + held->count;
    held->object[at >= held->most ? at - held->most : at] = object;
    held->count++;
    held->live += PACKED_SIZE(object);
}

/* One chunk of one producer into the live set; 0 when that producer has no more. */
static size_t remote_move(struct remote_thread *thread, struct holding *held)
{
    const packed *chunk = remote_peek(thread);
    if (!chunk)
        return 0;
    for (size_t i = 0; i < CHUNK_OBJECTS; i++)
        holding_add(held, chunk[i]);
    remote_taken(thread);
    return CHUNK_OBJECTS;
}

static int remote_run(const struct case_params *params, struct case_result *result,
                      int random_order)
{
    struct holding held = {
        .target = (uint64_t)params->mib << 20,
        .random_order = random_order,
        .random = {1},
    };
    size_t count = params->threads;
    uint64_t objects = 0;
    size_t moved;

    if (count < 1 || count > THREADS_MAX)
        case_die("remote needs 1 to 64 threads");
    held.most = mixed_most(held.target, SIZE_LOW, SIZE_HIGH) + 4096;
    held.object = resident_map(held.most * sizeof(packed));
    struct remote_thread *threads = resident_map(count * sizeof(*threads));

    double own = (double)resident_bytes();
    uint64_t faults = resident_faults();
    for (size_t i = 0; i < count; i++) {
        threads[i].random.state = 2 + i;
        pthread_mutex_init(&threads[i].lock, NULL);
        pthread_cond_init(&threads[i].changed, NULL);
        if (pthread_create(&threads[i].thread, NULL, remote_producer, &threads[i]))
            case_die("pthread_create failed");
    }
    while (held.freed < held.target / ROUND_PART * params->rounds)
        for (size_t i = 0; i < count; i++)
            objects += remote_move(&threads[i], &held);
    for (size_t i = 0; i < count; i++)
        remote_tell(&threads[i], &threads[i].stop);
    for (size_t i = 0; i < count; i++)
        while ((moved = remote_move(&threads[i], &held)))
            objects += moved;
    faults = resident_faults() - faults;
    double resident = (double)resident_bytes() - own;

    CASE_SET(result, resident_over_live, resident / (double)held.live);
    mixed_report(result, resident, faults, 2 * objects);

    for (size_t i = 0; i < count; i++) {
        remote_tell(&threads[i], &threads[i].leave);
        pthread_join(threads[i].thread, NULL);
    }
    return 0;
}

int case_remote_ordered(const struct case_params *params, struct case_result *result)
{
    return remote_run(params, result, 0);
}

int case_remote_random(const struct case_params *params, struct case_result *result)
{
    return remote_run(params, result, 1);
}

#endif
