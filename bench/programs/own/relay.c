/* SPDX-License-Identifier: MIT */
/* Two threads allocate and two others free: batches of objects go over in a queue with a lock. */
#include "own.h"

enum { PAIRS = 2, BATCH = 100, QUEUE = 64 };

static struct queue {
    _Alignas(OWN_APART) pthread_mutex_t lock;
    pthread_cond_t changed;
    void **batch[QUEUE];
    unsigned first, count, batches;
    uint64_t sum;
} queues[PAIRS];

static void *produce(void *arg)
{
    struct queue *queue = arg;
    struct own_random random = {6};

    for (unsigned n = 0; n < queue->batches; n++) {
        void **batch = own_alloc(BATCH * sizeof(*batch));
        for (int i = 0; i < BATCH; i++) {
            batch[i] = own_alloc(own_log_uniform(&random, 4, 9));
            *(unsigned char *)batch[i] = (unsigned char)i;
        }
        pthread_mutex_lock(&queue->lock);
        while (queue->count == QUEUE)
            pthread_cond_wait(&queue->changed, &queue->lock);
        queue->batch[(queue->first + queue->count++) % QUEUE] = batch;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct queue *queue = arg;

    for (unsigned n = 0; n < queue->batches; n++) {
        void **batch;
        pthread_mutex_lock(&queue->lock);
        while (queue->count == 0)
            pthread_cond_wait(&queue->changed, &queue->lock);
        batch = queue->batch[queue->first];
        queue->first = (queue->first + 1) % QUEUE;
        queue->count--;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        for (int i = 0; i < BATCH; i++) {
            queue->sum += *(unsigned char *)batch[i];
            free(batch[i]);
        }
        free(batch);
    }
    return NULL;
}

uint64_t own_relay(unsigned scale)
{
    pthread_t thread[PAIRS][2];
    uint64_t sum = 0;

    for (int p = 0; p < PAIRS; p++) {
        pthread_mutex_init(&queues[p].lock, NULL);
        pthread_cond_init(&queues[p].changed, NULL);
        queues[p].batches = scale * 900;
        own_thread(&thread[p][0], produce, &queues[p]);
        own_thread(&thread[p][1], consume, &queues[p]);
    }
    for (int p = 0; p < PAIRS; p++) {
        pthread_join(thread[p][0], NULL);
        pthread_join(thread[p][1], NULL);
        sum += queues[p].sum;
    }
    return sum;
}
