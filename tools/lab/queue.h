/* SPDX-License-Identifier: MIT */
/*
 * queue.h - a priority queue of numbers in an array of the caller's, as a binary heap.
 *
 * before(arg, a, b) says whether number a leaves the queue before b.  It must not say so of both, nor of neither.
 */
#ifndef STOOK_LAB_QUEUE_H
#define STOOK_LAB_QUEUE_H

#include <stdbool.h>

struct queue {
    unsigned *number, n;
    bool (*before)(const void *arg, unsigned a, unsigned b);
    const void *arg;
};

/* The array has room for it. */
static inline void queue_push(struct queue *queue, unsigned number)
{
    unsigned i = queue->n++;

    for (unsigned up; i > 0 && queue->before(queue->arg, number, queue->number[up = (i - 1) / 2]);
         i = up)
        queue->number[i] = queue->number[up];
    queue->number[i] = number;
}

/* The first of a queue that is not empty. */
static inline unsigned queue_pop(struct queue *queue)
{
    unsigned *number = queue->number, first = number[0], last = number[--queue->n], i = 0, down;

    while ((down = 2 * i + 1) < queue->n) {
        if (down + 1 < queue->n && queue->before(queue->arg, number[down + 1], number[down]))
            down++;
        if (!queue->before(queue->arg, number[down], last))
            break;
        number[i] = number[down];
        i = down;
    }
    number[i] = last;
    return first;
}

#endif
